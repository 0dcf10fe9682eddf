//! The attacks of a hostile client, one after the other, each in a session of its own.

use super::lending;
use super::raw::{Raw, send};
use crate::common::Random;
use crate::common::process::{end_with_input, linger, say};
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use upbeat_core::channel::stream;
use upbeat_core::channel::{Control, Operation};
use upbeat_core::frame::{CallNumber, Flags, Head};
use upbeat_core::hello::{self, Record};
use upbeat_core::limits::CALLS_PER_SESSION_MAX;
use upbeat_memory::lane::HEAD_LINES;
use upbeat_memory::region::Region;
use upbeat_memory::segment::{Segment, Writers};
use upbeat_transport::socket_directory::SocketDirectory;

const LINE_WORDS: usize = 8;
/// Words of the lane's header that the peer reads: progress, accepted, attention, wants room, the
/// first and the last of the returns.
const HEADER: [usize; 7] = [0, 8, 9, 16, 17, 32, 63];
const POLLING_FLAG: usize = 8;
/// How long one way is gone at most.
const A_WHILE: Duration = Duration::from_millis(60);

/// Goes every way until it is killed.
pub(crate) fn attack(victim: &str, directory: &Path, seed: u64) {
    end_with_input();
    let place = SocketDirectory::at(directory).unwrap();
    let mut random = Random::new(seed);
    let ways: Vec<_> = ways().collect();
    let mut seen = vec![false; ways.len()];
    let mut note = File::options().append(true).create(true).open(noted(directory)).unwrap();
    say("attacking");
    // The attackers of neighbouring seeds begin half of the ways apart.
    let first = seed as usize % 2 * (ways.len() / 2);
    for round in first.. {
        // A place may be kept for the session before, and then there is a next time.
        let Some(raw) = Raw::connect(&place, victim) else { continue };
        let (name, way) = ways[round % ways.len()];
        let began = Instant::now();
        let mut attack = Attack::new(raw, random.next());
        while began.elapsed() < A_WHILE && !attack.raw.is_over() {
            way(&mut attack);
            attack.raw.ring();
        }
        if !std::mem::replace(&mut seen[round % ways.len()], true) {
            note.write_all(format!("{name}\n").as_bytes()).unwrap();
        }
        if began.elapsed() > Duration::from_secs(5) {
            eprintln!("{name} took {:?}", began.elapsed());
        }
    }
}

fn ways() -> impl Iterator<Item = &'static (&'static str, Way)> {
    WAYS.iter().chain(lending::WAYS)
}

/// The file with the names of the ways that the attackers have gone.
fn noted(directory: &Path) -> PathBuf {
    directory.with_extension("ways")
}

/// Returns the ways that no attacker has gone yet.
pub(crate) fn unseen(directory: &Path) -> Vec<&'static str> {
    let seen = std::fs::read_to_string(noted(directory)).unwrap_or_default();
    let seen: Vec<&str> = seen.lines().collect();
    ways().map(|(name, _)| *name).filter(|name| !seen.contains(name)).collect()
}

/// The method whose results come when the victim's gate is open.
pub(crate) const LATE: u16 = 16;

/// Makes as many calls of a method as may be open in each of so many sessions, for results of 60 kB, and
/// reads none of them.
pub(crate) fn greed(sessions: usize, method: u16, place: &Path) {
    end_with_input();
    let place = SocketDirectory::at(place).unwrap();
    let mut attacks: Vec<Attack> = Vec::new();
    while attacks.len() < sessions {
        // A place may be kept for the session before.
        attacks.extend(Raw::connect(&place, "victim").map(|raw| Attack::new(raw, 1)));
    }
    while attacks.iter().any(|attack| attack.call < CALLS_PER_SESSION_MAX as u32) {
        for attack in &mut attacks {
            while attack.call < CALLS_PER_SESSION_MAX as u32 && attack.raw.lanes.claim(1, 0).is_ok()
            {
                attack.call(method, &60_000_u64.to_le_bytes());
            }
            attack.raw.ring();
        }
    }
    say("enough");
    linger();
}

pub(crate) type Way = fn(&mut Attack);

const WAYS: &[(&str, Way)] = &[
    ("noise over the whole lane", Attack::noise),
    ("noise here and there", Attack::specks),
    ("heads with wrong fields", Attack::heads),
    ("heads with wrong laps and spans", Attack::spans),
    ("calls with arguments that are none", Attack::arguments),
    ("calls twice, cancels of nothing", Attack::numbers),
    ("answers that nobody asked for", Attack::answers),
    ("lanes that go on nowhere", Attack::switches),
    ("lanes that do grow, with noise in them", Attack::growth),
    ("progress that is a lie", Attack::progress),
    ("a polling flag that is set and cleared", Attack::polling_flag),
    ("the whole board", Attack::board),
    ("rings and rings", Attack::rings),
    ("records that are none", Attack::records),
    ("descriptors by the dozen", Attack::descriptors),
    ("large answers that are never read", Attack::unread),
    ("tasks by the thousand", Attack::tasks),
    ("one-way messages by the thousand", Attack::oneways),
    ("a deep value", Attack::deep),
    ("questions for time, and answers to none", Attack::time),
    ("contexts of any bytes", |attack| {
        attack.context();
    }),
    ("streams that nobody gave, and those that were", Attack::streams),
    ("frames behind a closed socket", Attack::after_the_end),
];

/// One attack: the session, and what comes next.
pub(crate) struct Attack {
    pub(crate) raw: Raw,
    pub(crate) random: Random,
    pub(crate) call: u32,
    /// The attacker's slab, if there is one.
    pub(crate) slab: Option<Region>,
}

impl Attack {
    fn new(raw: Raw, seed: u64) -> Attack {
        Attack { raw, random: Random::new(seed), call: 0, slab: None }
    }

    /// A head of any kind with fields that look right, and sometimes one that does not.
    fn head(&mut self) -> [u64; 3] {
        let random = &mut self.random;
        let kind = random.below(19);
        let len = [0, 8, 16, 40, 1000, 1 << 20, u64::from(u32::MAX)][random.below(7) as usize];
        let index = [0, 1, 5, 4095, 4096, u64::from(u32::MAX)][random.below(6) as usize];
        let method = [0, 1, 3, 8, 12, 13, 15, 77, 0xffff][random.below(9) as usize];
        let flags = [0, 0, 1, 4, 5, 2, 8, 17][random.below(8) as usize];
        let count = [0, 0, 1, 5, 200, 0xffff][random.below(6) as usize];
        let mut words = [
            kind << 8 | len << 32,
            index | random.below(4) << 32,
            method
                | flags << 16
                | count << 32
                | (random.below(30) / 29) << 48
                | (random.below(8) / 7) << 56,
        ];
        if random.below(20) == 0 {
            words[random.below(3) as usize] ^= 1 << random.below(64);
        }
        words
    }

    /// Writes a frame in its right place. False if there is no room.
    pub(crate) fn frame(&mut self, words: [u64; 3], payload: &[u8]) -> bool {
        let span = upbeat_memory::ring::span_of(payload.len());
        let Ok(mut claim) = self.raw.lanes.claim(span, 0) else {
            return self.pass();
        };
        claim.write(0, payload);
        if words[0] & 0xff00 == 0 {
            return false;
        }
        claim.commit(words, payload.len());
        true
    }

    /// Passes what the victim has written, unread. Always false.
    pub(crate) fn pass(&mut self) -> bool {
        self.raw.pass();
        false
    }

    pub(crate) fn next_call(&mut self) -> CallNumber {
        self.call += 1;
        CallNumber::new(self.call % 4096, 1 + self.call / 4096)
    }

    pub(crate) fn call(&mut self, method: u16, payload: &[u8]) -> bool {
        let call = self.next_call();
        self.frame(Head::call(method, call, payload.len() as u32).words(), payload)
    }

    fn operation(&mut self, operation: stream::Operation, payload: &[u8]) -> bool {
        let (call, code) = (self.next_call(), Operation::Stream(operation).code());
        self.frame(Head::operation(code, call, payload.len() as u32).words(), payload)
    }

    fn noise(&mut self) {
        for at in 0..self.raw.lane.words() {
            self.raw.lane.store(at, self.random.next());
        }
    }

    fn specks(&mut self) {
        self.call(1, &[0; 16]);
        for _ in 0..20 {
            let at = self.random.below(self.raw.lane.words() as u64) as usize;
            let word = match self.random.below(3) {
                0 => self.random.next(),
                1 => self.head()[0] | 1 | 1 << 16,
                _ => 1 << self.random.below(64),
            };
            self.raw.lane.store(at, word);
        }
    }

    fn heads(&mut self) {
        let words = self.head();
        let payload = vec![self.random.next() as u8; self.random.below(200) as usize];
        self.frame(words, &payload);
    }

    fn spans(&mut self) {
        let slots = (self.raw.lane.words() / LINE_WORDS - HEAD_LINES) as u64;
        let slot = self.random.below(slots) as usize;
        let at = (HEAD_LINES + slot) * LINE_WORDS;
        let words = self.head();
        self.raw.lane.store(at + 1, words[1]);
        self.raw.lane.store(at + 2, words[2]);
        let (lap, span) = (self.random.below(4), self.random.below(150));
        let span = if span > 130 { 0xffff } else { span };
        self.raw.lane.publish(at, words[0] & !0xffff_00ff | lap | span << 16);
    }

    fn arguments(&mut self) {
        let method = self.random.below(9) as u16;
        let mut payload: Vec<u8> = (0..self.random.below(60)).map(|_| 0).collect();
        for chunk in payload.chunks_mut(8) {
            let word = match self.random.below(4) {
                0 => self.random.next(),
                1 => u64::MAX,
                2 => self.random.below(100),
                _ => 1 << self.random.below(40),
            };
            chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
        }
        self.call(method, &payload);
        self.pass();
    }

    fn numbers(&mut self) {
        let index = self.random.below(5000) as u32;
        let call = CallNumber::new(index, 1 + self.random.below(2) as u32);
        match self.random.below(4) {
            // Sooner or later one is opened twice.
            0 => self.frame(Head::call(3, call, 0).words(), &[]),
            1 => self.frame(Head::cancel(call).words(), &[]),
            2 => self.frame(Head::goodbye().words(), &[]),
            _ => {
                let us = self.random.below(500);
                self.call(4, &us.to_le_bytes())
            }
        };
        self.pass();
    }

    fn answers(&mut self) {
        let call = CallNumber::new(self.random.below(3) as u32, 1);
        match self.random.below(2) {
            0 => self.frame(Head::reply(call, 8).words(), &[0; 8]),
            _ => self.frame(Head::failed(call, 4).words(), &[3, b'a', 0xff, b'c']),
        };
    }

    fn switches(&mut self) {
        let generation = self.random.below(4) as u32;
        if self.random.below(2) == 0 {
            let bytes = [4096, 8192, 64 << 10, 2 << 20][self.random.below(4) as usize];
            let writers = [Writers::Owner, Writers::Everybody][self.random.below(2) as usize];
            let mut segment = Segment::create("hostile", bytes, writers).unwrap();
            if self.random.below(4) != 0 {
                segment = segment.reserve().unwrap();
            }
            let bytes = [bytes as u32, 64 << 10][self.random.below(2) as usize];
            let record = Record::Segment(hello::Segment { generation, bytes }).encode();
            let _ = send(&self.raw.socket, &record, &[segment.descriptor()]);
        }
        self.frame(Head::switch(generation).words(), &[]);
    }

    fn growth(&mut self) {
        let Some((generation, bytes)) = self.raw.lanes.next_growth() else { return self.noise() };
        let segment =
            Segment::create("hostile", bytes, Writers::Owner).and_then(Segment::reserve).unwrap();
        let generation = u32::from(generation);
        let record = Record::Segment(hello::Segment { generation, bytes: bytes as u32 }).encode();
        if send(&self.raw.socket, &record, &[segment.descriptor()]).is_err() {
            return;
        }
        if self.frame(Head::switch(generation).words(), &[]) {
            self.raw.lane = segment.region().clone();
            self.raw.lanes.grow_writer(segment.into_region());
            self.call(1, &[0; 16]);
            for _ in 0..200 {
                self.specks();
            }
        }
    }

    fn progress(&mut self) {
        for _ in 0..3 {
            let bytes = self.random.below(5000);
            let method = self.one_of(&[lending::BLOB, lending::LEND]);
            self.call(method, &bytes.to_le_bytes());
        }
        let word = HEADER[self.random.below(7) as usize];
        let value = [0, 1, 7, 1 << 20, u64::MAX][self.random.below(5) as usize];
        self.raw.lane.publish(word, value);
    }

    fn polling_flag(&mut self) {
        for _ in 0..10 {
            self.call(1, &[0; 16]);
            let random = self.random.next();
            self.raw.page.publish(POLLING_FLAG, random & !1);
            self.raw.page.store(1, self.random.next());
            self.raw.lane.publish(16, self.random.below(2));
            self.raw.lane.publish(17, self.random.below(2));
        }
        self.pass();
    }

    fn board(&mut self) {
        for at in 0..self.raw.board.words() {
            self.raw.board.store(at, u64::MAX);
        }
        self.call(1, &[0; 16]);
        self.pass();
    }

    fn rings(&mut self) {
        while self.raw.ring() {}
        self.call(1, &[0; 16]);
        self.pass();
    }

    fn records(&mut self) {
        for _ in 0..20 {
            self.raw.ring();
        }
        let length = self.random.below(300) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| self.random.next() as u8).collect();
        if self.random.below(2) == 0 {
            let segment = hello::Segment { generation: 1, bytes: 64 << 10 };
            bytes = Record::Segment(segment).encode();
            let at = self.random.below(bytes.len() as u64) as usize;
            bytes[at] ^= 1 << self.random.below(8);
        }
        let _ = send(&self.raw.socket, &bytes, &[]);
    }

    fn descriptors(&mut self) {
        let null: OwnedFd = std::fs::File::open("/dev/null").unwrap().into();
        let count = 1 + self.random.below(20) as usize;
        let segment = hello::Segment { generation: 1, bytes: 64 << 10 };
        let record = match self.random.below(3) {
            0 => vec![0],
            1 => Record::Segment(segment).encode(),
            _ => Vec::new(),
        };
        let _ = send(&self.raw.socket, &record, &vec![null.as_fd(); count]);
    }

    fn unread(&mut self) {
        let bytes = (1_u64 << 20) - 2048;
        while self.raw.lanes.claim(1, 0).is_ok() {
            self.call(2, &bytes.to_le_bytes());
        }
    }

    fn tasks(&mut self) {
        for _ in 0..200 {
            let call = self.next_call();
            let deadline = self.random.next() >> self.random.below(64);
            let head = Head::call(3, call, 8).with_flags(Flags::DEADLINE);
            self.frame(head.words(), &deadline.to_le_bytes());
        }
        self.pass();
    }

    fn oneways(&mut self) {
        for _ in 0..200 {
            self.frame(Head::oneway(10, 8).words(), &u64::MAX.to_le_bytes());
        }
    }

    /// Opens streams of both kinds and goes on with these and with others, in no order.
    fn streams(&mut self) {
        self.call(13, &[0; 8]);
        let number = self.random.below(300);
        let words = [number, self.random.below(4), self.random.below(5), self.random.next()];
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let bytes = self.random.below(32) as usize;
        match self.random.below(6) {
            0 => self.call(14, &payload[..8]),
            1 => self.operation(stream::Operation::Pull, &payload[..8]),
            2 => self.operation(stream::Operation::Push, &payload),
            3 => self.operation(stream::Operation::Push, &payload[..bytes]),
            4 => {
                let controls = [stream::Control::Stop, stream::Control::Abandon];
                let control = Control::Stream(controls[self.random.below(2) as usize]);
                self.frame(Head::control(control.code(), number as u32).words(), &[])
            }
            _ => self.pass(),
        };
    }

    fn deep(&mut self) {
        // No name, no twigs, and another one inside: as deep as a message is long.
        let bytes = [1000, 30_000, 900_000][self.random.below(3) as usize];
        let payload: Vec<u8> = [0, 0, 1].into_iter().cycle().take(bytes).collect();
        while self.raw.lanes.writer().longest(0) < upbeat_memory::ring::span_of(bytes) {
            let Some((generation, bytes)) = self.raw.lanes.next_growth() else { return };
            let segment = Segment::create("hostile", bytes, Writers::Owner)
                .and_then(Segment::reserve)
                .unwrap();
            let generation = u32::from(generation);
            let segment_record = hello::Segment { generation, bytes: bytes as u32 };
            let record = Record::Segment(segment_record).encode();
            if send(&self.raw.socket, &record, &[segment.descriptor()]).is_err()
                || !self.frame(Head::switch(generation).words(), &[])
            {
                return;
            }
            self.raw.lanes.grow_writer(segment.into_region());
        }
        self.call(8, &payload);
        self.pass();
    }

    fn after_the_end(&mut self) {
        let _ = rustix::net::shutdown(&self.raw.socket, rustix::net::Shutdown::Write);
        let began = Instant::now();
        while began.elapsed() < A_WHILE {
            self.frame(Head::oneway(9, 8).words(), &1_u64.to_le_bytes());
        }
    }
}
