//! Random numbers.

use crate::world::current;
use rustix::io::Errno;
use rustix::rand::{GetRandomFlags, getrandom};

/// Returns random bytes.
///
/// ```
/// use upbeat_environment::chance::random;
/// let key: [u8; 16] = random()?;
/// assert_ne!(key, random()?);
/// # Ok::<_, Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// Those of `getrandom(2)`, which early in the system's start has none to give.
pub fn random<const N: usize>() -> Result<[u8; N], Errno> {
    let mut bytes = [0; N];
    if let Some(world) = current() {
        for part in bytes.chunks_mut(8) {
            part.copy_from_slice(&world.random().to_le_bytes()[..part.len()]);
        }
        return Ok(bytes);
    }
    // The system returns few bytes at once or not at all, once its pool is ready.
    match getrandom(&mut bytes[..], GetRandomFlags::empty())? {
        filled if filled == N => Ok(bytes),
        _ => Err(Errno::AGAIN),
    }
}
