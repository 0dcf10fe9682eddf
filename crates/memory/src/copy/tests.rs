//! Tests of the long copies of this processor.

use super::wide;

/// A copy of at least some number of bytes.
pub(super) type Copy = unsafe fn(*const u8, *mut u8, usize);

#[test]
fn all_bytes_are_copied_and_no_others() {
    let from: Vec<u8> = (0..2000).map(|i| (i * 7 + i / 256) as u8).collect();
    let places = (0..65).flat_map(|at| [(at, 3 * at % 64), (at, 0)]);
    for ((way, least), (at, skip)) in
        wide::ways().into_iter().flat_map(|way| places.clone().map(move |place| (way, place)))
    {
        for bytes in (least..least + 65).chain([511, 512, 513, 1000, 1024, 1500]) {
            let mut to = vec![0xee; 1700];
            let place = to.as_ptr().align_offset(64) + at;
            // SAFETY: both ranges have `bytes` bytes from there on, and the processor has
            // the instructions.
            unsafe { way(from[skip..].as_ptr(), to[place..].as_mut_ptr(), bytes) };
            assert!(to[place..place + bytes] == from[skip..skip + bytes]);
            let others = to[..place].iter().chain(&to[place + bytes..]);
            assert!(others.into_iter().all(|byte| *byte == 0xee), "{bytes} bytes at {at}");
        }
    }
}
