//! The peer's slabs, and payloads that lie in their buffers.

use super::{Fault, Session, broken, misbehaved, unusable};
use crate::wire::{Hold, Input, Unread};
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{Flags, Head, Placed};
use upbeat_core::limits::{
    LONG_BYTES_MAX, LONG_KEPT_MAX, MEDIUM_BYTES_MAX, MESSAGE_BYTES_MAX, SHORT_BYTES,
    SLAB_GENERATION, SLABS_MAX,
};
use upbeat_core::mutant::{Mutant, mutated};
use upbeat_memory::slab::{Allowance, Borrowed, ReturnCallback, is_slab};
use upbeat_transport::carrier::Segment;

/// The peer's slabs, by the peer's numbers.
pub(super) struct PeerSlabs {
    slabs: RefCell<Vec<Option<PeerSlab>>>,
    /// The number of slabs announced so far.
    announced: Cell<u32>,
    /// The limit of what may be kept of all slabs for long payloads.
    long: Arc<Allowance>,
    /// The bytes of the longest payload that is read.
    longest: usize,
}

/// A slab of the peer.
struct PeerSlab {
    buffers: Arc<Borrowed>,
    /// The segment, while there is no memory to map it, or buffers have lost bytes for which there was none.
    late: RefCell<Option<Segment>>,
}

impl PeerSlab {
    /// Returns whether the payload in a buffer can be read.
    fn is_readable(&self, index: u32) -> Result<bool, Fault> {
        let unreadable = if self.late.borrow().is_none() { 0 } else { self.map()? };
        Ok(unreadable & 1 << index == 0)
    }

    /// Maps the slab, if there is memory for it by now. Returns the buffers that cannot be read, as a set of bits.
    #[cold]
    fn map(&self) -> Result<u64, Fault> {
        let mut late = self.late.borrow_mut();
        let Some(segment) = &*late else { return Ok(0) };
        if !self.buffers.is_mapped() {
            match segment.open() {
                Ok(region) => self.buffers.map(region),
                // The messages in this slab fail until there is memory, and no others.
                Err(error) if error.is_no_memory() => return Ok(u64::MAX),
                Err(error) => return Err(unusable(error)),
            }
        }
        let lost = segment.lost();
        if lost == 0 {
            *late = None;
        }
        Ok(lost)
    }
}

impl PeerSlabs {
    pub(super) fn new(longest: usize) -> PeerSlabs {
        let long = Arc::new(Allowance::new(LONG_KEPT_BYTES));
        PeerSlabs { slabs: RefCell::default(), announced: Cell::new(0), long, longest }
    }
}

/// The bytes of single buffers that may be kept; as many stay free.
const LONG_KEPT_BYTES: u64 = LONG_BYTES_MAX as u64 / 2;

/// Returns what may be kept of a slab, and the weight of each buffer. Of a slab with more than one buffer, half of
/// the buffers may be kept. A single buffer counts with its bytes, and with at least so many that only a few are
/// kept. A slab of several long buffers counts as a single one while any of them is kept, because its sender cannot
/// give it up.
fn kept_of(count: u32, each: usize, long: &Arc<Allowance>) -> (Arc<Allowance>, u64) {
    let least = LONG_KEPT_BYTES / LONG_KEPT_MAX as u64;
    let half = u64::from(if mutated(Mutant::AllKept) { count } else { count / 2 });
    match count {
        1 => (Arc::clone(long), (each as u64).clamp(least, LONG_KEPT_BYTES)),
        _ if each > MEDIUM_BYTES_MAX => {
            (Arc::new(Allowance::within(half, Arc::clone(long), least)), 1)
        }
        _ => (Arc::new(Allowance::new(half)), 1),
    }
}

/// The bytes of payload that share a cache line with their frame's head. Their copy needs no allocation.
const HEAD_LINE_BYTES: usize = 40;

/// A payload that was taken over with its frame.
#[derive(Debug)]
pub(crate) enum Body {
    /// A copy of a payload from the line of the frame's head, with its length.
    Short([u8; HEAD_LINE_BYTES], u8),
    /// A copy of a payload from the frame.
    Copied(Box<[u8]>),
    /// A payload that lies in a buffer.
    Held(Hold),
    /// A payload of this many bytes from the frame, for whose copy there was no memory.
    Lost(usize),
}

impl Body {
    /// Returns the bytes that were copied because they did not fit a slot. Copies of short payloads are not counted.
    pub(super) fn copied(&self) -> usize {
        match self {
            Body::Copied(bytes) if bytes.len() > SHORT_BYTES => bytes.len(),
            _ => 0,
        }
    }

    /// Returns the bytes of the session's own memory. A payload in the peer's buffer uses none.
    pub(super) fn own_bytes(&self) -> usize {
        match self {
            Body::Copied(bytes) => bytes.len(),
            Body::Short(_, len) => usize::from(*len),
            Body::Held(_) | Body::Lost(_) => 0,
        }
    }

    /// Returns the payload for reading.
    pub(crate) fn input(&self) -> Input<'_> {
        match self {
            Body::Short(bytes, len) => Input::own(&bytes[..usize::from(*len)]),
            Body::Copied(bytes) => Input::own(bytes),
            Body::Held(hold) => Input::lent(hold),
            Body::Lost(bytes) => Input::unread(*bytes, Unread::NoMemory),
        }
    }
}

impl Session {
    /// Returns the segment of this generation, which the peer sends over the socket before the frame that names it.
    pub(super) fn segment(&self, generation: u32) -> Result<Segment, Fault> {
        let segment = self.segment_came(generation)?;
        segment.ok_or_else(|| misbehaved(Rule::SwitchWithoutSegment { generation }))
    }

    /// Opens a slab of the peer, which the open frame announces.
    pub(crate) fn slab_came(&self, head: &Head) -> Result<(), Fault> {
        let lent = &self.lent;
        let number = head.call.index() as usize;
        let shape = self.carrier.payload().read_word(0);
        let (each, count) = (shape as u32 as usize, (shape >> 32) as u32);
        let segment = self.segment(SLAB_GENERATION.wrapping_add(lent.announced.get()))?;
        let bytes = segment.bytes as usize;
        let mut slabs = lent.slabs.borrow_mut();
        let known = slabs.get(number).is_some_and(Option::is_some);
        if number >= SLABS_MAX || known || !is_slab(bytes, each, count) {
            return Err(broken(&format_args!(
                "slab {number} of {count} buffers of {each} bytes in a segment of {bytes}"
            )));
        }
        let returns = self.carrier.reader().returns_for(number);
        let (allowance, weight) = kept_of(count, each, &lent.long);
        let buffers = Borrowed::unmapped(each, count, returns)
            .with_allowance(allowance, weight)
            .with_callback(self.relief());
        let slab = PeerSlab { buffers: Arc::new(buffers), late: RefCell::new(Some(segment)) };
        slab.map()?;
        lent.announced.set(lent.announced.get().wrapping_add(1));
        if slabs.len() <= number {
            slabs.resize_with(number + 1, || None);
        }
        slabs[number] = Some(slab);
        Ok(())
    }

    /// Returns the function that tells the peer, if it waits for room, that a buffer was given back on another
    /// thread. The owner checks by itself after its own acts.
    fn relief(&self) -> ReturnCallback {
        let wake = Arc::clone(&self.wake);
        self.carrier.relief(move || wake())
    }

    /// Drops a slab of the peer that is no longer used.
    pub(crate) fn slab_went(&self, head: &Head) -> Result<(), Fault> {
        let mut slabs = self.lent.slabs.borrow_mut();
        let place = slabs.get_mut(head.call.index() as usize);
        match place.and_then(|place| place.take_if(|slab| slab.buffers.held() == 0)) {
            Some(_) => Ok(()),
            None => Err(broken(&format_args!(
                "slab {} was retired, but it does not exist or is in use",
                head.call.index()
            ))),
        }
    }

    /// Takes hold of the payload of the open frame, if it lies in a buffer.
    #[inline(always)]
    pub(crate) fn hold(&self, head: &Head) -> Result<Option<Hold>, Fault> {
        match head.flags.offset_of(Flags::PLACED) {
            None => Ok(None),
            Some(at) => self.hold_placed(at as usize).map(Some),
        }
    }

    /// Takes over the payload of the open frame.
    pub(super) fn take_body(&self, head: &Head) -> Result<Body, Fault> {
        if let Some(hold) = self.hold(head)? {
            return Ok(Body::Held(hold));
        }
        let from = head.flags.extension_bytes() as usize;
        Ok(self.copy_body(from, head.body_bytes() as usize))
    }

    /// Copies bytes of the open frame.
    pub(super) fn copy_body(&self, from: usize, bytes: usize) -> Body {
        if bytes <= HEAD_LINE_BYTES {
            let mut copy = [0; HEAD_LINE_BYTES];
            self.carrier.payload().read(from, &mut copy[..bytes]);
            return Body::Short(copy, bytes as u8);
        }
        let copy = self.carrier.payload().read_items(from, bytes);
        copy.map_or(Body::Lost(bytes), |copy: Vec<u8>| Body::Copied(copy.into_boxed_slice()))
    }

    /// Returns the location of the open frame's payload in a buffer.
    fn placed(&self, at: usize) -> Placed {
        Placed::from_u64(self.carrier.payload().read_word(at))
    }

    /// Returns the length of the open frame's payload, if it lies in a buffer.
    pub(super) fn placed_bytes(&self, head: &Head) -> Option<usize> {
        let at = head.flags.offset_of(Flags::PLACED)?;
        Some(self.placed(at as usize).len as usize)
    }

    fn hold_placed(&self, at: usize) -> Result<Hold, Fault> {
        let Placed { slab, index, len } = self.placed(at);
        if len as usize > MESSAGE_BYTES_MAX {
            return Err(broken(&format_args!("a payload of {len} bytes")));
        }
        let slabs = self.lent.slabs.borrow();
        let Some(Some(lender)) = slabs.get(slab as usize) else {
            return Err(broken(&format_args!("a buffer was lent of the unknown slab {slab}")));
        };
        let loan = lender.buffers.take(index.into(), len as usize);
        let loan = loan.map_err(|fault| broken(&fault))?;
        if loan.len() > self.lent.longest {
            return Ok(Hold::unread(loan, Unread::TooLarge(self.lent.longest)));
        }
        Ok(match lender.is_readable(index.into())? {
            true => Hold::new(loan),
            false => Hold::unread(loan, Unread::NoMemory),
        })
    }
}
