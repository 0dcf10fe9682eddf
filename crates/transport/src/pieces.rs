//! How much, and in how many pieces, a peer on another host may send before it is known.
//!
//! Each read costs this side a look at its sockets, and each record of TLS a step of its own, however short it is. An
//! honest handshake has a few thousand bytes and a few reads.

/// The most reads of a handshake that bring bytes.
const READS_MAX: u32 = 64;
/// The most bytes of a handshake.
const BYTES_MAX: usize = 64 << 10;

/// The pieces of a handshake that have come.
#[derive(Default)]
pub(crate) struct Pieces {
    reads: u32,
    bytes: usize,
}

impl Pieces {
    /// Notes a read of so many bytes. Returns whether a handshake may have so many.
    pub(crate) fn admit(&mut self, bytes: usize) -> bool {
        self.reads += 1;
        self.bytes += bytes;
        self.reads <= READS_MAX && self.bytes <= BYTES_MAX
    }
}
