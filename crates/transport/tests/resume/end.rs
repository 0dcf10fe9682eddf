//! One side of a session: the frames that it writes, and those that it has to read.

use super::wire::Random;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use upbeat_core::frame::{CallNumber, Flags, Head, Kind, Placed};
use upbeat_core::limits::{PAGE_BYTES, SLAB_GENERATION};
use upbeat_core::quota::Quota;
use upbeat_core::stream::{Permission, SegmentRequest};
use upbeat_memory::lane::GROWN_BYTES;
use upbeat_memory::ring::span_of;
use upbeat_memory::slab::{Borrowed, Loan, Slab};
use upbeat_transport::carrier::{Carrier, Segment, SocketEvents};

/// An operation that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    /// Writes a frame of this length, or as long as the ring allows.
    Frame(usize),
    /// Writes a frame whose payload lies in a buffer: of this length, or as long as a free buffer allows.
    Placed(usize),
    /// Writes a reply of this length, which may pass other frames.
    Answer(usize),
    /// Continues the lane in a larger segment.
    Grow,
    /// Makes a slab of buffers of this size.
    Slab { each: usize, count: u32 },
    /// Retires the oldest idle slab.
    Retire,
}

/// A frame that was written.
#[derive(Debug)]
enum Sent {
    Frame(Vec<u8>),
    Placed(Vec<u8>),
    Answer(Vec<u8>),
    Control(Kind),
}

impl Sent {
    /// Returns whether the session keeps this frame in order with frames of `kind`.
    fn is_like(&self, kind: Kind) -> bool {
        match self {
            Sent::Frame(_) | Sent::Placed(_) => kind == Kind::Oneway,
            Sent::Answer(_) => kind == Kind::Reply,
            Sent::Control(_) => !matches!(kind, Kind::Oneway | Kind::Reply),
        }
    }
}

const SLABS_AT_ONCE: usize = 6;

pub(crate) struct End {
    pub(crate) carrier: Carrier,
    script: VecDeque<Op>,
    /// The frames that were written and that the peer has not read.
    sent: VecDeque<Sent>,
    written: u64,
    slabs: Vec<Option<Slab>>,
    /// The number of slabs made so far.
    made: u32,
    read: u64,
    /// The number of replies that were read before an earlier frame.
    pub(crate) passed: usize,
    segments: Vec<Segment>,
    /// The slabs of the peer, and their bytes.
    borrowed: Vec<Option<(Arc<Borrowed>, usize)>>,
    announced: u32,
    loans: Vec<Loan>,
    /// The quota for the memory of the peer's segments. A side with a quota asks for its own segments.
    quota: Option<Quota>,
}

impl fmt::Debug for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (written, read) = (self.written, self.read);
        let next = self.script.front();
        let idle: Vec<_> = (0..self.slabs.len()).map(|number| self.is_idle(number)).collect();
        let position = self.carrier.position();
        write!(
            f,
            "written {written}, read {read}, next {next:?}, unread {}, position {position}, \
             slabs idle {idle:?}, loans {}, suspended {}",
            self.sent.len(),
            self.loans.len(),
            self.carrier.is_suspended(),
        )
    }
}

impl End {
    pub(crate) fn new(carrier: Carrier, script: Vec<Op>) -> End {
        End {
            carrier,
            script: script.into(),
            sent: VecDeque::new(),
            written: 0,
            slabs: Vec::new(),
            made: 0,
            read: 0,
            passed: 0,
            segments: Vec::new(),
            borrowed: Vec::new(),
            announced: 0,
            loans: Vec::new(),
            quota: None,
        }
    }

    /// Charges the peer's segments to a quota, and makes this side ask for each of its own.
    pub(crate) fn charge_to(&mut self, quota: Quota) {
        self.carrier.charge_to(&quota);
        self.quota = Some(quota);
    }

    /// Returns whether a segment may be announced; None while the peer has not answered.
    fn permitted(&self, wish: SegmentRequest) -> Option<bool> {
        if self.quota.is_none() {
            return Some(true);
        }
        match self.carrier.permission(wish) {
            Permission::Granted => Some(true),
            Permission::Declined => Some(false),
            Permission::Awaited => None,
        }
    }

    /// Checks that the charge equals the peer's segments, once everything was read.
    pub(crate) fn check_charges(&self) {
        let Some(quota) = &self.quota else { return };
        let grown = match self.carrier.reader().next_growth() {
            Some((generation, _)) => usize::from(generation) - 1,
            None => GROWN_BYTES.len(),
        };
        let ring = grown.checked_sub(1).map_or(0, |last| GROWN_BYTES[last]);
        let slabs = self.borrowed.iter().flatten();
        let slabs: usize = slabs.map(|(_, bytes)| bytes.next_multiple_of(PAGE_BYTES)).sum();
        assert_eq!(quota.held(), (ring + slabs) as u64, "{self:?}");
    }

    /// Writes, reads, gives buffers back, and serves the connection.
    pub(crate) fn round(&mut self, peer: &mut End, random: &mut Random) {
        let many = random.below(4);
        self.write(random, many);
        match random.below(3) {
            0 => self.carrier.rest(),
            _ => {
                if self.carrier.pump().ended {
                    let drained = self.hear();
                    assert!(drained.suspended && !drained.closed);
                }
            }
        }
        for _ in 0..random.below(4) {
            self.read(peer);
        }
        if !self.loans.is_empty() && random.below(2) == 0 {
            let at = random.below(self.loans.len() as u64) as usize;
            drop(self.loans.swap_remove(at));
        }
        self.carrier.was_read();
    }

    pub(crate) fn write(&mut self, random: &mut Random, many: u64) {
        for _ in 0..many {
            let Some(op) = self.script.front().copied() else { return };
            let written = match op {
                Op::Frame(len) => self.frame(len, random),
                Op::Answer(len) => self.answer(len, random),
                Op::Placed(len) => self.placed(len, random),
                Op::Grow => self.grow(),
                Op::Slab { each, count } => self.slab(each, count),
                Op::Retire => self.retire(),
            };
            let carrier = &self.carrier;
            if written.is_none() {
                carrier.writer().set_wants_room(true);
                return self.carrier.found_no_room();
            }
            if carrier.writer().wants_room() {
                carrier.writer().set_wants_room(false);
            }
            self.script.pop_front();
            self.written += 1;
        }
    }

    fn frame(&mut self, len: usize, random: &mut Random) -> Option<()> {
        let carrier = &self.carrier;
        let len = len.min(carrier.writer().longest(1) as usize * 128 - 24).min(64 << 10);
        let mut claim = carrier.writer().claim(span_of(len), 1).ok()?;
        let bytes = content(len, random);
        claim.write(0, &bytes);
        claim.commit(Head::oneway(1, len as u32).words(), len);
        self.sent.push_back(Sent::Frame(bytes));
        Some(())
    }

    fn answer(&mut self, len: usize, random: &mut Random) -> Option<()> {
        let carrier = &self.carrier;
        let mut claim = carrier.writer().claim(span_of(len), 0).ok()?;
        let bytes = content(len, random);
        claim.write(0, &bytes);
        claim.commit(Head::reply(CallNumber::new(1, 1), len as u32).words(), len);
        self.sent.push_back(Sent::Answer(bytes));
        Some(())
    }

    fn placed(&mut self, len: usize, random: &mut Random) -> Option<()> {
        let carrier = &self.carrier;
        if self.slabs.iter().all(Option::is_none) {
            return Some(());
        }
        let numbered = self.slabs.iter().enumerate();
        let free = numbered.filter_map(|(number, slab)| Some((number, slab.as_ref()?)));
        let mut free = free.filter_map(|(number, slab)| {
            Some((number, slab.claim(|| carrier.writer().peer_returned(number))?))
        });
        let (number, mut buffer) = free.next()?;
        let mut claim = carrier.writer().claim(1, 1).ok()?;
        let bytes = content(len.min(buffer.room()), random);
        buffer.write(0, &bytes);
        let (index, len) = (buffer.lend() as u16, bytes.len() as u32);
        let placed = Placed { slab: number as u16, index, len };
        claim.write_word(0, placed.as_u64());
        claim.commit(Head::oneway(1, 8).with_flags(Flags::PLACED).words(), 8);
        self.sent.push_back(Sent::Placed(bytes));
        Some(())
    }

    fn grow(&mut self) -> Option<()> {
        let carrier = &self.carrier;
        let Some((generation, bytes)) = carrier.writer().next_growth() else { return Some(()) };
        if !self.permitted(SegmentRequest::ring(bytes as u32))? {
            return Some(());
        }
        let claim = carrier.writer().claim(1, 0).ok()?;
        let segment = self.carrier.make_segment("grown", bytes).unwrap();
        self.carrier.send_segment(generation.into(), &segment).unwrap();
        claim.commit(Head::switch(generation.into()).words(), 0);
        carrier.writer().grow(segment.into_region());
        self.sent.push_back(Sent::Control(Kind::Switch));
        Some(())
    }

    fn slab(&mut self, each: usize, count: u32) -> Option<()> {
        let carrier = &self.carrier;
        let number = self.slabs.iter().position(Option::is_none).unwrap_or(self.slabs.len());
        if number == SLABS_AT_ONCE {
            return Some(());
        }
        if !self.permitted(SegmentRequest { each: each as u32, count })? {
            return Some(());
        }
        let mut claim = carrier.writer().claim(1, 1).ok()?;
        let segment = self.carrier.make_segment("slab", each * count as usize).unwrap();
        self.carrier.send_segment(SLAB_GENERATION + self.made, &segment).unwrap();
        self.made += 1;
        claim.write_word(0, each as u64 | u64::from(count) << 32);
        claim.commit(Head::slab(number as u32).words(), 8);
        let returned = carrier.writer().peer_returned(number);
        let slab = Some(Slab::new(segment.into_region(), each, count, returned));
        match self.slabs.get_mut(number) {
            Some(place) => *place = slab,
            None => self.slabs.push(slab),
        }
        self.sent.push_back(Sent::Control(Kind::Slab));
        Some(())
    }

    fn retire(&mut self) -> Option<()> {
        let carrier = &self.carrier;
        let count = self.slabs.len();
        let idle = |number: &usize| self.slabs[*number].is_some() && self.is_idle(*number);
        let Some(number) = (0..count).find(idle) else { return Some(()) };
        let claim = carrier.writer().claim(1, 1).ok()?;
        claim.commit(Head::retire(number as u32).words(), 0);
        self.slabs[number] = None;
        self.sent.push_back(Sent::Control(Kind::Retire));
        Some(())
    }

    /// Returns whether all buffers of a slab have come back.
    fn is_idle(&self, number: usize) -> bool {
        let returned = self.carrier.writer().peer_returned(number);
        self.slabs[number].as_ref().is_none_or(|slab| slab.is_idle(returned))
    }

    /// Reads the next frame of the peer, if it has come.
    fn read(&mut self, peer: &mut End) {
        let Some(words) = self.carrier.reader().look().unwrap() else { return };
        let head = Head::parse(words).unwrap();
        let at = peer.sent.iter().position(|sent| sent.is_like(head.kind));
        let at = at.expect("no frame comes twice");
        self.passed += usize::from(at != 0 && head.kind == Kind::Reply);
        let sent = peer.sent.remove(at).unwrap();
        let payload = self.carrier.payload();
        match (head.kind, sent) {
            (Kind::Oneway, Sent::Frame(bytes)) | (Kind::Reply, Sent::Answer(bytes)) => {
                assert_eq!(head.flags.offset_of(Flags::PLACED), None);
                let mut came = vec![0; (words[0] >> 32) as usize];
                payload.read(0, &mut came);
                assert!(came == bytes, "a frame of {} bytes", bytes.len());
                self.carrier.reader().advance();
            }
            (Kind::Oneway, Sent::Placed(bytes)) => {
                assert_eq!(head.flags.offset_of(Flags::PLACED), Some(0));
                let Placed { slab, index, len } = Placed::from_u64(payload.read_word(0));
                let (slab, _) = self.borrowed[usize::from(slab)].as_ref().unwrap();
                let loan = slab.take(index.into(), len as usize).unwrap();
                let mut came = vec![0; len as usize];
                loan.read(0, &mut came);
                assert!(came == bytes, "{} bytes in a buffer", bytes.len());
                self.loans.push(loan);
                self.carrier.reader().advance();
            }
            (kind, Sent::Control(other)) if kind == other => self.control(words, kind),
            (kind, sent) => panic!("{kind:?} in place of {sent:?}"),
        }
        self.read += 1;
        self.carrier.reader().publish_progress();
        self.carrier.reader().publish_accepted(self.read);
    }

    fn control(&mut self, words: [u64; 3], kind: Kind) {
        let number = words[1] as u32 as usize;
        match kind {
            Kind::Switch => {
                let region = self.segment((words[1] >> 32) as u32).open().unwrap();
                self.carrier.reader().advance();
                return self.carrier.reader().grow(region);
            }
            Kind::Slab => {
                let shape = self.carrier.payload().read_word(0);
                let region = self.segment(SLAB_GENERATION + self.announced).open().unwrap();
                self.announced += 1;
                let (each, count) = (shape as u32 as usize, (shape >> 32) as u32);
                let returns = self.carrier.reader().returns_for(number);
                let slab = Arc::new(Borrowed::new(region, each, count, returns));
                let slab = Some((slab, each * count as usize));
                match self.borrowed.get_mut(number) {
                    Some(place) => *place = slab,
                    None => self.borrowed.push(slab),
                }
            }
            _ => assert_eq!(self.borrowed[number].take().unwrap().0.held(), 0),
        }
        self.carrier.reader().advance();
    }

    fn segment(&mut self, generation: u32) -> Segment {
        let is_it = |segment: &Segment| segment.generation == generation;
        if !self.segments.iter().any(is_it) {
            self.hear();
        }
        let at = self.segments.iter().position(is_it).expect("a segment comes before its frame");
        self.segments.remove(at)
    }

    /// Takes the events that have come besides frames.
    pub(crate) fn hear(&mut self) -> SocketEvents {
        let mut drained = self.carrier.drain().unwrap();
        self.segments.append(&mut drained.segments);
        drained
    }

    /// Returns whether everything was written, read by the peer, and given back.
    pub(crate) fn is_done(&self, peer: &End) -> bool {
        self.script.is_empty()
            && self.sent.is_empty()
            && peer.loans.is_empty()
            && (0..self.slabs.len()).all(|number| self.is_idle(number))
            && self.carrier.writer().peer_accepted() <= peer.read
    }
}

fn content(len: usize, random: &mut Random) -> Vec<u8> {
    let from = random.below(u64::MAX);
    (0..len as u64).map(|at| (from.wrapping_add(at.wrapping_mul(from | 1)) >> 24) as u8).collect()
}
