//! Payloads that are sent from where they lie, and the frames that wait for their payloads.
//!
//! Invariant: a deferred frame is replaced by padding in our lane, and written into it again once its payload has
//! been encoded.

use super::Outgoing;
use upbeat_core::frame::{Head, Kind, Placed};
use upbeat_core::limits::CONTROL_SLOTS;
use upbeat_core::stream::{self, Chunk, RewrittenFrame};
use upbeat_memory::lane::{Lanes, Mirror};
use upbeat_memory::region::Region;
use upbeat_memory::ring::{Refused, span_of};

/// A slab of ours.
pub(super) struct OwnSlab {
    pub(super) region: Region,
    /// The bytes of each buffer.
    pub(super) each: usize,
    pub(super) generation: u32,
}

/// The buffer whose frame comes next, with the number of its bytes that were encoded.
#[derive(Clone, Copy)]
pub(super) struct LentBuffer {
    pub(super) placed: Placed,
    pub(super) done: u32,
}

/// A frame that was taken out of our lane: its head, and the bytes in its slots.
pub(super) struct Frame {
    words: [u64; 3],
    payload: Box<[u8]>,
}

impl Frame {
    /// Returns the frame that replaces this one if its caller has canceled the call after this many bytes of the
    /// payload.
    fn given_up(&self, shipped: u32) -> Option<Frame> {
        let extensions: Vec<u64> =
            self.payload.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let (words, extensions) = stream::given_up(self.words, &extensions, shipped)?;
        let payload = extensions.into_iter().flat_map(u64::to_le_bytes).collect();
        Some(Frame { words, payload })
    }
}

impl Outgoing {
    /// Encodes the next chunk of the buffer that the next frame names, if there is one.
    pub(super) fn chunk(&mut self) -> bool {
        let Some(LentBuffer { placed, done }) = self.lent else { return false };
        let Some(chunk) = Chunk::next(placed, done) else { return false };
        if !self.encode_chunk(chunk) {
            return false;
        }
        self.lent = Some(LentBuffer { placed, done: done + chunk.bytes });
        true
    }

    /// Encodes the next chunk of the first deferred frame, if its payload has bytes left.
    pub(super) fn deferred_chunk(&mut self) {
        if let Some(chunk) = self.backlog.chunk()
            && self.encode_chunk(chunk)
        {
            self.backlog.shipped(chunk.bytes);
        }
    }

    /// Encodes the head of a chunk, whose bytes follow. Returns false if the slab was not announced over this
    /// connection.
    fn encode_chunk(&mut self, chunk: Chunk) -> bool {
        let lender = self.slabs.get(usize::from(chunk.slab)).and_then(Option::as_ref);
        let Some(OwnSlab { region, each, .. }) = lender else { return false };
        let at = chunk.index as usize * each + chunk.at as usize;
        stream::write_chunk(chunk, &mut self.unsent.encoded);
        self.unsent.bulk(region.clone(), at, chunk.bytes as usize);
        true
    }

    /// Takes the next frame out of our lane.
    pub(super) fn defer(&mut self, words: [u64; 3], placed: Option<Placed>, mirror: &Mirror) {
        let bytes = (stream::payload_of(&words) as usize).min(mirror.room());
        let mut payload = vec![0; bytes].into_boxed_slice();
        mirror.read(0, &mut payload);
        mirror.blank();
        self.backlog.defer(words, placed, Frame { words, payload });
    }

    /// Writes the first deferred frame into our lane again, if its turn has come and there is room.
    pub(super) fn write_again(&mut self, lanes: &Lanes) -> bool {
        let Some(RewrittenFrame { frame, given_up }) = self.backlog.due() else { return false };
        let given_up = given_up.and_then(|shipped| frame.given_up(shipped));
        let Frame { words, payload } = given_up.as_ref().unwrap_or(frame);
        let is_request = Head::kind_in(words).is_some_and(Kind::is_request);
        let keep = if is_request { CONTROL_SLOTS as u32 } else { 0 };
        let span = span_of(payload.len());
        let claim = match lanes.claim(span, keep) {
            // The frame was first written where it happened to fit.
            Err(Refused::TooLong { .. }) => {
                lanes.make_way(span, keep).and_then(|()| lanes.claim(span, keep))
            }
            claim => claim,
        };
        match claim {
            Ok(mut claim) => {
                let position = lanes.writer().out();
                claim.write(0, payload);
                claim.commit(*words, payload.len());
                self.backlog.written(position);
                true
            }
            Err(refused) => {
                self.asks |= refused == Refused::Full;
                false
            }
        }
    }

    /// Writes all due frames again: deferred frames get new room before new ones.
    pub(in super::super) fn write_all_again(&mut self, lanes: &Lanes) {
        while self.write_again(lanes) {}
    }
}
