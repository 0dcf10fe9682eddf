//! The attacks of a hostile client with buffers, with requested room, and with stamps.

use super::attack::{Attack, Way};
use super::raw::{Raw, send};
use std::time::{Duration, Instant};
use upbeat_core::bill::way::StampMode;
use upbeat_core::flow::Budget;
use upbeat_core::frame::{CallNumber, Flags, Head, Placed};
use upbeat_core::hello::{self, Record};
use upbeat_core::limits::{MESSAGE_BYTES_MAX, PLACES_MAX, SLAB_GENERATION, SLABS_MAX};
use upbeat_memory::region::Region;
use upbeat_memory::segment::{Segment, Writers};

/// The first word of a lane's header in which returns are noted.
const RETURNS: usize = 32;
/// The method that gives its bytes back, and some others of one argument.
const BYTES: u16 = 5;
const ECHOES: [u16; 5] = [BYTES, 6, 7, 8, 12];
/// Results in the ring while they fit, and in buffers.
pub(crate) const BLOB: u16 = 2;
pub(crate) const LEND: u16 = 11;

pub(crate) const WAYS: &[(&str, Way)] = &[
    ("slabs that are none", Attack::false_slabs),
    ("slabs by the dozen", Attack::many_slabs),
    ("buffers that are nowhere", Attack::false_buffers),
    ("buffers that are lent twice", Attack::buffers_twice),
    ("slabs that are given up in use", Attack::retired),
    ("buffers that change while they are read", Attack::changing_buffers),
    ("returns that flip", Attack::flips),
    ("room for everything and nothing", Attack::reservations),
    ("more places than there are", Attack::places),
    ("words about requests that never were", Attack::false_words),
    ("requests that nobody granted", Attack::ungranted),
    ("room that is asked for and left", Attack::idle_room),
    ("stamps of anything", Attack::stamps),
];

impl Raw {
    /// Hands a segment over as the next slab's, or another one's.
    pub(crate) fn hand_over(&self, generation: u32, bytes: usize) -> Region {
        let segment =
            Segment::create("hostile", bytes, Writers::Owner).and_then(Segment::reserve).unwrap();
        let record = hello::Segment { generation, bytes: bytes as u32 };
        // A peer that is gone is found out elsewhere.
        let record = Record::Segment(record).encode();
        let _ = send(&self.socket, &record, &[segment.descriptor()]);
        segment.into_region()
    }

    /// Announces a slab as it should be.
    pub(crate) fn slab(&self, number: u32, each: usize, count: u32) -> Region {
        let region = self.hand_over(SLAB_GENERATION + number, each * count as usize);
        let shape = each as u64 | u64::from(count) << 32;
        self.put(Head::slab(number).words(), &shape.to_le_bytes());
        region
    }

    /// Writes a frame in its right place. False if there is no room.
    pub(crate) fn put(&self, words: [u64; 3], payload: &[u8]) -> bool {
        let span = upbeat_memory::ring::span_of(payload.len());
        let Ok(mut claim) = self.lanes.claim(span, 0) else { return false };
        claim.write(0, payload);
        claim.commit(words, payload.len());
        true
    }

    /// Asks for room for so many bytes.
    pub(crate) fn reserve(&self, bytes: usize) -> bool {
        self.put(Head::reserve().words(), &Budget::price(bytes).to_le_bytes())
    }

    /// Calls with arguments that lie in a buffer.
    pub(crate) fn call_placed(&self, method: u16, call: CallNumber, placed: Placed) -> bool {
        let head = Head::call(method, call, 8).with_flags(Flags::PLACED);
        self.put(head.words(), &placed.as_u64().to_le_bytes())
    }

    /// Sends a call whose room was granted, or is said to be granted.
    pub(crate) fn call_granted(
        &self,
        method: u16,
        call: CallNumber,
        placed: Placed,
        number: u64,
    ) -> bool {
        let head = Head::call(method, call, 16).with_flags(Flags::PLACED.with(Flags::GRANTED));
        let words = [placed.as_u64(), number].map(u64::to_le_bytes);
        self.put(head.words(), words.as_flattened())
    }
}

impl Attack {
    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.random.below(all.len() as u64) as usize]
    }

    /// The slab that most ways need, made when it is asked for first.
    fn own_slab(&mut self, each: usize, count: u32) -> Region {
        self.slab.get_or_insert_with(|| self.raw.slab(0, each, count)).clone()
    }

    fn placed(&mut self, method: u16, placed: Placed) -> bool {
        let call = self.next_call();
        self.raw.call_placed(method, call, placed) || self.pass()
    }

    fn false_slabs(&mut self) {
        // Some right ones before.
        let right = self.random.below(3) as u32;
        for number in 0..right {
            self.raw.slab(number, 512, 8);
        }
        let each = self.one_of(&[0, 1, 4, 7, 8, 512, 4096, 65_536, u64::from(u32::MAX)]);
        let count = self.one_of(&[0, 1, 8, 63, 64, 65, u64::from(u32::MAX)]);
        let number = self.one_of(&[right, right, 0, 31, 32, 40, u32::MAX]);
        let generation = SLAB_GENERATION + self.one_of(&[right, right, right, right + 1, 0, 40]);
        let bytes = self.one_of(&[4096, 8192, 1 << 20]);
        match self.random.below(6) {
            0 => {}
            1 => _ = self.raw.hand_over(1, bytes),
            2 => _ = [(); 2].map(|()| self.raw.hand_over(generation, bytes)),
            _ => _ = self.raw.hand_over(generation, bytes),
        }
        self.frame(Head::slab(number).words(), &(each | count << 32).to_le_bytes());
        self.frame(Head::slab(number).words(), &(each | count << 32).to_le_bytes());
    }

    fn many_slabs(&mut self) {
        let announced = self.random.below(SLABS_MAX as u64 + 2) as u32;
        for number in 0..announced {
            self.raw.slab(number, 2048, 2);
        }
        self.raw.ring();
        let more = self.random.below(50) as u32;
        for generation in announced..announced + more {
            self.raw.hand_over(SLAB_GENERATION + generation, 4096);
        }
        self.pass();
    }

    fn false_buffers(&mut self) {
        self.own_slab(512, 8);
        let slab = self.one_of(&[0, 0, 0, 1, 31, 32, 0xffff]);
        let index = self.one_of(&[0, 1, 7, 7, 8, 63, 64, 0xffff]);
        let len = self.one_of(&[0, 8, 511, 512, 512, 513, 1 << 30, u32::MAX]);
        let method = self.random.below(14) as u16;
        self.placed(method, Placed { slab, index, len });
        self.pass();
    }

    /// Has all that follows wait.
    fn stop_up(&mut self) {
        self.raw.reserve(100_000);
    }

    fn buffers_twice(&mut self) {
        self.own_slab(512, 8);
        self.stop_up();
        for _ in 0..self.random.below(12) {
            let index = self.random.below(8) as u16;
            self.placed(BYTES, Placed { slab: 0, index, len: 8 });
        }
        self.pass();
    }

    fn retired(&mut self) {
        self.own_slab(512, 8);
        if self.random.below(2) == 0 {
            self.stop_up();
        }
        self.placed(BYTES, Placed { slab: 0, index: 0, len: 8 });
        let number = self.one_of(&[0, 0, 0, 1, 32, u32::MAX]);
        self.frame(Head::retire(number).words(), &[]);
        self.placed(BYTES, Placed { slab: 0, index: 1, len: 8 });
        self.pass();
    }

    fn changing_buffers(&mut self) {
        let (each, count) = (1 << 16, 16);
        let slab = self.own_slab(each, count);
        let index = self.random.below(u64::from(count)) as u16;
        let first = usize::from(index) * each / 8;
        let long = [0, 8, 100, 4096, each as u64 - 8, u64::MAX];
        slab.store(first, self.one_of(&long));
        let len = self.one_of(&[8, 200, 4104, each as u32]);
        let method = self.one_of(&ECHOES);
        // A buffer that is not back is sometimes lent again, which ends the session.
        self.placed(method, Placed { slab: 0, index, len });
        self.raw.ring();
        let began = Instant::now();
        while began.elapsed() < Duration::from_micros(300) {
            slab.store(first, self.one_of(&long));
            let at = self.random.below(each as u64 / 8) as usize;
            slab.store(first + at, self.random.next());
            self.pass();
        }
        // The server may have returned the buffer, or not.
        if self.raw.lanes.peer_returned(0) >> index & 1 == 0 {
            let call = self.next_call();
            self.raw.call_placed(method, call, Placed { slab: 0, index, len });
        }
    }

    fn flips(&mut self) {
        for _ in 0..8 {
            let bytes = self.one_of(&[200, 1000, 5000, 60_000, 300_000]);
            let method = self.one_of(&[BLOB, LEND]);
            self.call(method, &u64::to_le_bytes(bytes));
            let slab = self.random.below(SLABS_MAX as u64) as usize;
            let word = RETURNS + slab % self.one_of(&[1, 4, 32]);
            self.raw.lane.store(word, self.random.next());
        }
        self.pass();
    }

    fn reservations(&mut self) {
        let most = Budget::price(MESSAGE_BYTES_MAX);
        let honest = [0, 1, 256, 65_792, 1 << 20, 64 << 20, most - 1, most];
        let bytes = match self.random.below(12) {
            0 => self.one_of(&[most + 1, 1 << 40, u64::MAX]),
            _ => self.one_of(&honest),
        };
        self.frame(Head::reserve().words(), &bytes.to_le_bytes());
        if self.random.below(2) == 0 {
            let number = self.random.below(20);
            self.frame(Head::withdraw(number).words(), &[]);
        }
        self.pass();
    }

    fn places(&mut self) {
        // All of them, and then none or some too many.
        if self.call == 0 {
            self.stop_up();
            self.call = 1;
        }
        for _ in 0..PLACES_MAX / 4 {
            match self.random.below(4) {
                // A value in the ring is copied, and the room for copies is bounded as well.
                0 => self.call(BYTES, &[0; 2000]),
                1 => self.raw.reserve(10),
                2 => self.frame(Head::oneway(9, 8).words(), &[1; 8]),
                _ => self.call(1, &[0; 16]),
            };
            self.pass();
        }
    }

    fn false_words(&mut self) {
        let number = self.one_of(&[0, 1, 2, 1088, 1 << 32, u64::MAX]);
        let words = match self.random.below(4) {
            0 => Head::nack(number).words(),
            1 => Head::grant(number).words(),
            2 => Head::withdraw(number).words(),
            _ => {
                self.stop_up();
                self.frame(Head::withdraw(0).words(), &[]);
                Head::withdraw(0).words()
            }
        };
        self.frame(words, &[]);
        self.raw.lane.publish(9, self.random.next() >> self.random.below(64));
    }

    fn ungranted(&mut self) {
        self.own_slab(4096, 4);
        let (lie, asked) = (self.random.below(4), self.one_of(&[0, 8, 100, 4096]));
        if lie > 0 {
            self.raw.reserve(asked);
        }
        // The first of a session is granted at once; of later ones nobody knows.
        let number = if lie == 1 { self.one_of(&[1, 7, u64::MAX]) } else { 0 };
        let len = if lie == 2 { asked as u32 + 1 } else { asked as u32 };
        let index = self.random.below(4) as u16;
        let call = self.next_call();
        self.raw.call_granted(BYTES, call, Placed { slab: 0, index, len }, number);
        self.pass();
    }

    fn idle_room(&mut self) {
        if self.call == 0 {
            self.call = 1;
            let bytes = self.one_of(&[1000, 100_000, 1 << 20, 32 << 20]);
            for _ in 0..self.random.below(8) {
                self.raw.reserve(bytes);
            }
            self.own_slab(512, 8);
            for index in 0..4 {
                self.placed(BYTES, Placed { slab: 0, index, len: 8 });
            }
        }
        self.pass();
        std::thread::sleep(Duration::from_micros(100));
    }

    fn stamps(&mut self) {
        let call = self.next_call();
        let manner = StampMode::from_byte(self.random.next() as u8);
        match self.random.below(4) {
            0 => {
                let words = Head::oneway(9, 8).with_manner(manner).words();
                let stamp = if manner.is_some() { self.random.next() } else { 0 };
                self.frame(Head::stamped_oneway(words, stamp), &1_u64.to_le_bytes());
            }
            1 => _ = self.frame(Head::call(1, call, 16).with_manner(manner).words(), &[0; 16]),
            _ => {}
        }
        let points = (self.random.next() & self.random.next() & self.random.next()) as u32;
        let of = if self.random.below(2) == 0 { CallNumber::NONE } else { call };
        let mut payload = (self.random.next() as u32).to_le_bytes().to_vec();
        payload.extend((points & 0xfff_ffff).to_le_bytes());
        (0..points.count_ones()).for_each(|_| payload.extend(self.random.next().to_le_bytes()));
        payload.extend((0..self.random.below(70)).map(|_| b'l'));
        payload.truncate(if self.random.below(20) == 0 { 9 } else { 296 });
        self.frame(Head::stamps(of, payload.len() as u32).words(), &payload);
        self.pass();
    }
}
