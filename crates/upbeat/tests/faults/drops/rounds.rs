//! Workers that call and drop in rounds. At the end of a round the worker tells the callee that its calls are over.

use crate::common::Random;
use crate::drops::mill::{MillClient, ROUND, answer, ticket};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use upbeat::CallError;
use upbeat::error::FailCode;

/// The outcomes of calls.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rounds: u64,
    pub(crate) dropped: u64,
    /// Of those: before they were polled, and by whoever polled them for the first time.
    pub(crate) unsent: u64,
    pub(crate) at_once: u64,
    pub(crate) late: u64,
    /// Calls whose results found no room.
    pub(crate) crowded: u64,
    pub(crate) returned: u64,
}

/// Whether a call failed because its result found no room: its caller had no processor while other results waited that
/// take all that may wait, which is little here.
pub(crate) fn is_crowded(error: &CallError) -> bool {
    matches!(error, CallError::Failed { code: FailCode::Overloaded, .. })
}

impl Tally {
    pub(crate) fn with(self, other: Tally) -> Tally {
        Tally {
            rounds: self.rounds.max(other.rounds),
            dropped: self.dropped + other.dropped,
            unsent: self.unsent + other.unsent,
            at_once: self.at_once + other.at_once,
            late: self.late + other.late,
            crowded: self.crowded + other.crowded,
            returned: self.returned + other.returned,
        }
    }
}

/// A call with its end.
struct Begun<'m> {
    call: Pin<Box<dyn Future<Output = Result<u64, CallError>> + 'm>>,
    ticket: u64,
    /// How often it is polled before it is dropped, if it is, and how often it was.
    life: Option<u64>,
    polls: u64,
    /// Whether it has a deadline, which ends it too.
    bounded: bool,
    /// Whether it goes on to another node.
    passes: bool,
}

/// The kinds of calls that a worker makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mix {
    /// Of all kinds, most of them short.
    All,
    /// Many that are too long for the lane that they find, in both directions.
    Growing,
}

impl Mix {
    /// The kind of a call.
    fn kind(self, random: &mut Random) -> u64 {
        match self {
            Mix::All => random.below(64),
            Mix::Growing if random.below(2) == 0 => 59 + random.below(4),
            Mix::Growing => random.below(64),
        }
    }

    /// The bytes of one that carries many.
    fn len(self, kind: u64) -> usize {
        match (self, kind) {
            (_, 63) => 100 << 10,
            // The first ring holds one of these, the second one of those, and the third many.
            (Mix::Growing, 59) => 7 << 10,
            (Mix::Growing, 60) => 12 << 10,
            (Mix::Growing, 61) => 60 << 10,
            (Mix::Growing, 62) => 65_000,
            (_, _) => 4 << 10,
        }
    }
}

/// A worker that calls, and drops most of its calls.
pub(crate) struct Worker {
    mill: MillClient,
    number: u64,
    mix: Mix,
    random: Random,
    tally: Tally,
}

impl Worker {
    pub(crate) fn new(mill: MillClient, number: u64, rounds: u64, random: Random) -> Worker {
        let tally = Tally { rounds, ..Tally::default() };
        Worker { mill, number, mix: Mix::All, random, tally }
    }

    /// Returns the worker with another mix of calls.
    pub(crate) fn with(self, mix: Mix) -> Worker {
        Worker { mix, ..self }
    }

    /// Calls until so many calls were dropped.
    pub(crate) async fn drop_calls(mut self, most: u64) -> Tally {
        let mill = self.mill.clone();
        while self.tally.dropped < most {
            self.tally.rounds += 1;
            let (worker, round) = (self.number, self.tally.rounds);
            let count = 1 + self.random.below(ROUND);
            let tickets = (0..count).map(|number| ticket(worker, round, number));
            let mut calls: Vec<_> = tickets.map(|ticket| self.begin(&mill, ticket)).collect();
            let (mut returned, mut passed) = (0, 0);
            poll_fn(|context| {
                calls.retain_mut(|begun| match begun.poll(context, &mut self.tally) {
                    Poll::Pending => true,
                    Poll::Ready(value) => {
                        let bit = 1 << (begun.ticket % ROUND);
                        returned |= if value { bit } else { 0 };
                        passed |= if value && begun.passes { bit } else { 0 };
                        false
                    }
                });
                // Lives go by with the turns.
                if calls.iter().any(|begun| begun.life.is_some()) {
                    context.waker().wake_by_ref();
                }
                if calls.is_empty() { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            mill.fence(worker, round, returned, passed).await.unwrap();
        }
        self.tally
    }

    /// Begins a call of a random kind, which is to be dropped at a random time.
    fn begin<'m>(&mut self, mill: &'m MillClient, ticket: u64) -> Begun<'m> {
        let random = &mut self.random;
        let life = match random.below(20) {
            0 => Some(0),
            1..=4 => Some(1),
            5..=11 => Some(2 + random.below(8)),
            12..=15 => Some(2 + random.below(200)),
            _ => None,
        };
        // The bound is practically none, or is over soon.
        let bound = match random.below(10) {
            0 => Some(Duration::from_micros(random.below(500))),
            1 => Some(Duration::from_secs(60)),
            _ => None,
        };
        let us = random.below(2) * random.below(300);
        let yields = random.below(5);
        let kind = self.mix.kind(random);
        macro_rules! call {
            ($call:expr) => {
                match bound {
                    Some(bound) => Box::pin($call.deadline(bound)),
                    None => Box::pin($call),
                }
            };
        }
        let len = self.mix.len(kind);
        let bytes = move || vec![ticket as u8; len];
        let is_it = move |same: bool| if same { answer(ticket) } else { 0 };
        let mut passes = false;
        let call: Pin<Box<dyn Future<Output = _> + 'm>> = match kind {
            0..=15 => call!(mill.grind(ticket)),
            16..=27 => call!(mill.nap(ticket, us)),
            28..=33 => call!(mill.hold(ticket, yields)),
            34..=39 => call!(mill.again(ticket, yields)),
            40..=45 => call!(mill.back(ticket, yields)),
            46..=55 => {
                passes = true;
                call!(mill.pass_on(ticket, us))
            }
            56..=58 => {
                let call = call!(mill.in_place(ticket, us, bytes().into()));
                Box::pin(async move { call.await.map(|back| is_it(back.to_vec() == bytes())) })
            }
            _ => {
                let call = call!(mill.sack(ticket, us, bytes()));
                Box::pin(async move { call.await.map(|back| is_it(back == bytes())) })
            }
        };
        Begun { call, ticket, life, polls: 0, bounded: bound.is_some(), passes }
    }
}

impl Begun<'_> {
    /// Ready when it is to be dropped: whether it has returned.
    fn poll(&mut self, context: &mut Context<'_>, tally: &mut Tally) -> Poll<bool> {
        if self.life != Some(0) {
            self.polls += 1;
            if let Poll::Ready(result) = self.call.as_mut().poll(context) {
                return Poll::Ready(self.came(result, tally));
            }
        }
        if self.life.is_none_or(|life| self.polls < life) {
            return Poll::Pending;
        }
        tally.dropped += 1;
        tally.unsent += u64::from(self.polls == 0);
        tally.at_once += u64::from(self.polls == 1);
        Poll::Ready(false)
    }

    fn came(&self, result: Result<u64, CallError>, tally: &mut Tally) -> bool {
        match result {
            Ok(value) => {
                assert_eq!(value, answer(self.ticket), "{:x}", self.ticket);
                tally.returned += 1;
                true
            }
            Err(CallError::Deadline(_) | CallError::Failed { code: FailCode::Deadline, .. })
                if self.bounded =>
            {
                tally.late += 1;
                false
            }
            Err(error) if is_crowded(&error) => {
                tally.crowded += 1;
                false
            }
            Err(error) => panic!("{:x}: {error}", self.ticket),
        }
    }
}
