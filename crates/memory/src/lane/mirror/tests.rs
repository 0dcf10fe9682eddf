//! Tests of a lane that is shipped again, from every position of its peer.

use super::super::LANE_BYTES;
use super::*;
use crate::ring::span_of;
use proptest::prelude::*;

/// An item that was shipped: padding, or a frame with its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Item {
    Padding(u32),
    Frame([u64; 3], Vec<u8>),
}

#[derive(Clone, Debug)]
enum Step {
    /// Writes a frame with this many bytes, if there is room.
    Write(usize),
    /// The lane continues in a larger segment.
    Grow,
    /// Ships this many items.
    Ship(usize),
    /// The peer receives this many of the shipped items; or it reads this many frames.
    Receive(usize),
    Read(usize),
    /// The connection breaks, and the session continues over another.
    Break,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (0..300usize).prop_map(Step::Write),
        2 => (300..5000usize).prop_map(Step::Write),
        1 => Just(Step::Grow),
        4 => (1..12usize).prop_map(Step::Ship),
        4 => (1..12usize).prop_map(Step::Receive),
        4 => (1..12usize).prop_map(Step::Read),
        2 => Just(Step::Break),
    ];
    prop::collection::vec(step, 1..if cfg!(miri) { 20 } else { 200 })
}

const GROWN: u64 = 0x700;

/// This side's lane with its mirror, the peer's mirror, and the items between them.
struct World {
    near: (Mirror, Lanes),
    far: (Mirror, Lanes),
    /// The segments in which this side's lane continues, and the peer's replicas of them.
    grown: Vec<(Region, Region)>,
    /// All items that were ever shipped, with the positions at which they begin.
    log: Vec<(u64, Item)>,
    /// How many items of the log are shipped now, were received, and were read.
    shipped: usize,
    received: usize,
    read: usize,
    written: u64,
}

impl World {
    fn new(session: u64) -> World {
        let heap = || Region::heap(LANE_BYTES / WORD);
        World {
            near: Mirror::new(heap(), session, heap(), 8),
            far: Mirror::new(heap(), 8, heap(), session),
            grown: Vec::new(),
            log: Vec::new(),
            shipped: 0,
            received: 0,
            read: 0,
            written: 0,
        }
    }

    fn write(&mut self, len: usize) {
        let lanes = &self.near.1;
        let Ok(mut claim) = lanes.claim(span_of(len), 1) else { return };
        let bytes: Vec<u8> = (0..len).map(|at| (self.written as usize * 7 + at) as u8).collect();
        claim.write(0, &bytes);
        claim.commit([0x100 | (len as u64) << 32, self.written, !self.written], len);
        self.written += 1;
    }

    fn grow(&mut self) {
        let lanes = &self.near.1;
        let Some((generation, bytes)) = lanes.next_growth() else { return };
        if cfg!(miri) && generation > 1 {
            return;
        }
        let Ok(claim) = lanes.claim(1, 0) else { return };
        claim.commit([GROWN, generation.into(), 0], 0);
        let heap = || Region::heap(bytes / WORD);
        self.grown.push((heap(), heap()));
        lanes.grow_writer(self.grown[generation as usize - 1].0.clone());
    }

    /// Ships the next item, and compares it with the log if it was shipped before.
    fn ship(&mut self) -> bool {
        let (mirror, position) = (&self.near.0, self.near.0.shipped());
        let short = match mirror.look_short() {
            Look::Short { head, .. } if position % 2 == 0 && head[0] & 0xff00 != GROWN => {
                Some(head)
            }
            _ => None,
        };
        let item = match short.map_or_else(|| mirror.look().unwrap(), NextItem::Frame) {
            NextItem::Nothing => return false,
            NextItem::Padding(span) => Item::Padding(span),
            NextItem::Frame(words) => {
                let len = (words[0] >> 32) as usize;
                let mut bytes = vec![0; len];
                mirror.read(0, &mut bytes);
                match short {
                    Some(_) => mirror.pass_short(),
                    None => mirror.pass(),
                }
                if words[0] & 0xff00 == GROWN {
                    mirror.ship_from(self.grown[words[1] as usize - 1].0.clone());
                }
                Item::Frame([words[0] & !0xff, words[1], words[2]], bytes)
            }
        };
        match self.log.get(self.shipped) {
            Some(before) => {
                assert_eq!(*before, (position, item), "shipped again with another content")
            }
            None => self.log.push((position, item)),
        }
        self.shipped += 1;
        true
    }

    fn receive(&mut self) {
        let (mirror, _) = &self.far;
        if self.received == self.shipped {
            return;
        }
        let (position, item) = &self.log[self.received];
        assert_eq!(mirror.received(), *position);
        match item {
            Item::Padding(span) => mirror.pad(*span).unwrap(),
            Item::Frame(words, bytes) => {
                let mut claim = mirror.claim(span_of(bytes.len())).unwrap();
                claim.write(0, bytes);
                claim.commit(*words, bytes.len());
                if words[0] & 0xff00 == GROWN {
                    mirror.grow(self.grown[words[1] as usize - 1].1.clone());
                }
            }
        }
        self.received += 1;
    }

    fn read(&mut self) {
        let lanes = &self.far.1;
        let Some(words) = lanes.look().unwrap() else { return };
        let frames = self.log.iter().filter_map(|(_, item)| match item {
            Item::Frame(words, bytes) => Some((words, bytes)),
            Item::Padding(_) => None,
        });
        let (expected, bytes) = frames.clone().nth(self.read).unwrap();
        let mut payload = vec![0; bytes.len()];
        lanes.reader().read(0, &mut payload);
        assert_eq!(
            (words[0] >> 32, &words[1..], &payload),
            (expected[0] >> 32, &expected[1..], bytes)
        );
        lanes.reader().advance();
        if words[0] & 0xff00 == GROWN {
            lanes.grow_reader(self.grown[words[1] as usize - 1].1.read_only());
        }
        lanes.publish_progress();
        self.near
            .0
            .show(PublishedState { taken: self.far.0.shown().taken, ..PublishedState::default() });
        self.read += 1;
    }

    fn go_on_from(&mut self, position: u64) {
        self.near.0.rewind(position).unwrap();
        assert_eq!(self.near.0.shipped(), position);
        self.shipped = self.log.iter().filter(|(at, _)| *at < position).count();
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Write(len) => self.write(*len),
            Step::Grow => self.grow(),
            Step::Ship(many) => (0..*many).for_each(|_| _ = self.ship()),
            Step::Receive(many) => (0..*many).for_each(|_| self.receive()),
            Step::Read(many) => (0..*many).for_each(|_| self.read()),
            Step::Break => self.go_on_from(self.far.0.received()),
        }
    }

    /// Ships everything again from each position at which an unread item begins, and checks that every other
    /// position is refused.
    fn check_every_position(&mut self) {
        let mirror = &self.near.0;
        let (shipped, taken) = (mirror.shipped(), mirror.peer_shown().taken);
        assert_eq!(mirror.rewind(shipped + 1), Err(RewindError::Ahead { shipped }));
        if let Some(behind) = taken.checked_sub(1) {
            assert_eq!(mirror.rewind(behind), Err(RewindError::Behind { taken }));
        }
        let begins: Vec<u64> = self.log.iter().map(|(at, _)| *at).chain([shipped]).collect();
        for position in taken..=shipped {
            if begins.contains(&position) {
                self.go_on_from(position);
                while self.near.0.shipped() < shipped {
                    assert!(self.ship());
                }
            } else {
                assert_eq!(self.near.0.rewind(position), Err(RewindError::Within));
                assert_eq!(self.near.0.shipped(), shipped);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: if cfg!(miri) { 3 } else { 60 },
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// The peer gets the same frames, padding and bytes again, once, wherever it is when a connection breaks.
    #[test]
    fn a_lane_is_shipped_again_as_it_was(session in 0..60u64, steps in steps()) {
        let mut world = World::new(session);
        for (at, step) in steps.iter().enumerate() {
            world.step(step);
            if at % 16 == 0 {
                world.check_every_position();
            }
        }
        world.check_every_position();
        world.step(&Step::Break);
        loop {
            let before = (world.shipped, world.received, world.read);
            world.ship();
            world.receive();
            world.read();
            if (world.shipped, world.received, world.read) == before {
                break;
            }
        }
        let written = world.written as usize + world.grown.len();
        prop_assert_eq!(world.read, written, "each frame was read once");
    }
}

/// The laps of a ring run from 1 to 255 and then start again at 1.
#[test]
fn a_ring_is_shipped_again_in_any_lap() {
    if cfg!(miri) {
        return;
    }
    let mut world = World::new(3);
    for _ in 0..600 {
        for _ in 0..20 {
            world.write(200);
            world.ship();
            world.ship();
        }
        world.check_every_position();
        world.step(&Step::Break);
        world.step(&Step::Ship(50));
        world.step(&Step::Receive(50));
        world.step(&Step::Read(50));
    }
    assert!(world.near.0.shipped() > 300 * 60, "the ring has passed more laps than have numbers");
}
