//! A recording for tests, of an invented program that has every problem that a bill can name: a held lock,
//! a handler over its budget, a sleeping server, a peer with a full lane.

use crate::bill::collect::{Collector, Source};
use crate::bill::recording::{Node, Recording};
use std::collections::BTreeMap;
use upbeat_core::bill::timeline::Leg;
use upbeat_core::bill::way::{CALL, MessageEvents, ONEWAY, StampMode, Way};
use upbeat_core::bill::{Counter, Item};
use upbeat_memory::samples::{Record, STAMPS_MAX, Samples};
use upbeat_memory::ticks::ticks_per_second;

/// A message that is written to a page.
pub(crate) struct Message<'a> {
    pub(crate) page: &'a Samples,
    pub(crate) subject: u16,
    pub(crate) way: &'static Way,
    pub(crate) note: u16,
    pub(crate) happened: MessageEvents,
}

/// Returns the nanoseconds of an item in a message without delays.
pub(crate) fn usual(item: Item) -> u64 {
    match item {
        Item::FlowControl => 4,
        Item::Claim => 6,
        Item::Marshal => 9,
        Item::Publish => 11,
        Item::Wire => 62,
        Item::Notice => 3,
        Item::Check => 5,
        Item::Dispatch => 7,
        Item::Decode => 8,
        Item::Execute => 240,
        Item::Reply => 21,
        Item::Deliver => 14,
        _ => 0,
    }
}

impl Message<'_> {
    /// Writes the message as a full sample. `long` returns the nanoseconds of the phases that differ from
    /// [`usual`].
    pub(crate) fn write(&self, began: u64, long: impl Fn(Item, Leg) -> Option<u64>) {
        let mut stamps = [0; STAMPS_MAX];
        (stamps[0], stamps[1]) = (began, began);
        let phases = self.way.phases.iter().zip(Leg::of(self.way));
        let mut executed = false;
        for (at, (phase, leg)) in phases.enumerate() {
            let again = executed && phase.item == Item::Execute;
            executed |= phase.item == Item::Execute;
            let took = long(phase.item, leg).filter(|_| !again);
            let took = took.unwrap_or(if again { 0 } else { usual(phase.item) });
            stamps[at + 1] = stamps[at] + (took as f64 * ticks_per_second() as f64 / 1e9) as u64;
        }
        self.page.write(&Record {
            subject: self.subject,
            kind: self.way.number(),
            rung: StampMode::Whole.byte(),
            flags: self.happened.0,
            note: self.note,
            doubt: 0,
            peer: 9,
            stamps,
        });
    }
}

/// Returns a recording of 600 transfers, some of which wait for a lock, audits over their budget, prices from
/// a sleeping server, and one-way notes to a node whose lane is full.
pub(crate) fn recording() -> Recording {
    let (desk, sink) = (Samples::heap("desk", 1), Samples::heap("sink", 2));
    let mut clock = 1_000_000;
    write_calls(&desk, &mut clock);
    let subject = sink.subject("desk\nSink\nnote").unwrap_or(0);
    let none = MessageEvents::default();
    let message = Message { page: &sink, subject, way: ONEWAY, note: 0, happened: none };
    for n in 0..300 {
        clock += 40_000;
        message.write(clock, |item, _| {
            let waits = (item == Item::Room && n % 10 == 0).then_some(240_000);
            waits.or((item == Item::Execute).then_some(100 + n % 40))
        });
    }
    let mut collector = Collector::default();
    for page in [&desk, &sink] {
        collector.look(&mut Source::new(page.view()));
    }
    let mut recording = collector.recording(1_700_000_000, 1.0);
    recording.nodes = vec![
        node(
            "desk",
            [
                (Counter::CallsSent, 90_000),
                (Counter::RepliesInPlace, 90_000),
                (Counter::ReadsByCall, 21),
            ],
        ),
        node("bank", [(Counter::HandlersInline, 8_800), (Counter::PromotedByLock, 1_200)]),
        node("sink", [(Counter::HandlersInline, 30_000), (Counter::PromotedByLock, 0)]),
    ];
    recording
}

fn write_calls(desk: &Samples, clock: &mut u64) {
    let subject = |text| desk.subject(text).unwrap_or(0);
    let (transfer, audit) = (subject("bank\nBank\ntransfer"), subject("bank\nBank\naudit"));
    let (price, lock) = (subject("quotes\nPrices\nprice"), subject("accounts"));
    let call = |subject| {
        let happened = MessageEvents::default();
        Message { page: desk, subject, way: CALL, note: 0, happened }
    };
    for n in 0..600 {
        *clock += 50_000;
        if n % 50 == 7 {
            let held = Message { note: lock, happened: MessageEvents::PROMOTED, ..call(transfer) };
            held.write(*clock, |item, _| match item {
                Item::Lock => Some(50_000 + n),
                Item::Promote => Some(60),
                Item::Queue => Some(400),
                _ => None,
            });
        } else {
            call(transfer).write(*clock, |item, _| (item == Item::Wire).then_some(55 + n % 30));
        }
        if n % 2 == 0 {
            let took = if n % 100 == 0 { 310_000 } else { 2_000 + n };
            let ran = MessageEvents::default().with_run_us(if n % 100 == 0 { 310 } else { 0 });
            let audit = Message { happened: ran, ..call(audit) };
            audit.write(*clock, |item, _| (item == Item::Execute).then_some(took));
        }
        if n % 3 == 0 {
            let slept = |item, leg| (item == Item::Wake && leg == Leg::Out).then_some(48_000);
            call(price).write(*clock, |item, leg| slept(item, leg).filter(|_| n % 9 == 0));
        }
    }
}

fn node<const N: usize>(name: &str, counters: [(Counter, u64); N]) -> Node {
    let counters: BTreeMap<String, u64> =
        counters.into_iter().map(|(one, count)| (one.name().into(), count)).collect();
    let incarnation = format!("{:016x}", name.len());
    let (name, program, samples) = (name.to_owned(), "bank".to_owned(), name != "bank");
    let (counters, ended) = (Some(counters), false);
    Node { name, pid: 4_711, incarnation, samples, program, ended, counters }
}
