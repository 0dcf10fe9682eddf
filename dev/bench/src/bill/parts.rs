//! An estimate of a call from parts that were each measured alone, never fitted to the whole.
//!
//! Where both sides poll,
//!
//! ```text
//! call = lanes apart + call in one thread - lanes in one thread - 2 idle turns
//! ```
//!
//! - *lanes apart*: a round trip of bare lanes between the two CPUs, with frames as long as the
//!   call's: publish, wire and notice twice, and the copies into and out of the lanes.
//! - *call in one thread*: two nodes take turns in one thread, so all lines are in its cache: the work of
//!   both sides, from the taking of a frame to the end of the turn. The other CPU polls in vain
//!   meanwhile, as a node there would: two threads of one core take from each other.
//! - *lanes in one thread*: the part of that work which belongs to the lanes and is in the first part already: claim,
//!   copies and commit, progress, the fence, the check of flags. The last three lie behind the
//!   publishing, beside the wire; taken off here, they are counted once, where they overlap.
//! - *idle turn*: a turn without a message. The loop that polls has paid for it before the
//!   frame comes, and `Node::turn` adds entering and leaving the node, which that loop does not.
//!
//! The work of the runtime behind the publishing, beyond the lanes (some nanoseconds on each side), also
//! lies beside the wire and is not separated: the estimate is too long by that.
//!
//! Where both sides sleep, a round trip of *bells* is added: each side is woken behind its frame, so the
//! wakes are beside nothing.

mod bells;
mod lanes;
mod turns;

use crate::bill::{Case, median};
use bells::Bell;
use lanes::{Apart, Sides, Together};
use std::collections::HashMap;
use std::hint::spin_loop;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use turns::Turns;
use upbeat_cli::bench::control::{Control, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::hosts::Policy;
use upbeat_cli::bench::pair::Pair;
use upbeat_cli::bench::pin::{self, Cpus};
use upbeat_cli::bench::report::{BilledPart, rounded};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The names of the second process's sides of parts.
const LANES_NOTHING: &str = "part/lanes/null";
const LANES_KIB: &str = "part/lanes/1KiB";
const BELLS: &str = "part/bells";

/// The size of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Size {
    Nothing,
    Kib,
}

/// A part of an estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    /// A round trip of bare lanes between the two CPUs.
    LanesApart,
    /// A call between two nodes of one thread.
    CallTogether,
    /// A round trip of bare lanes in one thread.
    LanesTogether,
    /// A turn of a node without a message.
    IdleTurn,
    /// A round trip of bells, with both sides sleeping.
    Bells,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::LanesApart => "lanes apart",
            Part::CallTogether => "call in one thread",
            Part::LanesTogether => "lanes in one thread",
            Part::IdleTurn => "idle turn",
            Part::Bells => "bells",
        }
    }
}

/// Returns the parts of a call, and how often a call has each.
fn model(policy: Policy) -> &'static [(Part, f64)] {
    const POLLING: &[(Part, f64)] = &[
        (Part::LanesApart, 1.0),
        (Part::CallTogether, 1.0),
        (Part::LanesTogether, -1.0),
        (Part::IdleTurn, -2.0),
    ];
    const SLEEPING: &[(Part, f64)] = &[
        (Part::Bells, 1.0),
        (Part::LanesApart, 1.0),
        (Part::CallTogether, 1.0),
        (Part::LanesTogether, -1.0),
        (Part::IdleTurn, -2.0),
    ];
    if policy == Policy::Sleeping { SLEEPING } else { POLLING }
}

/// The lanes and bells between the two processes.
pub(super) struct Tools {
    sides: Sides,
    bell: Bell,
}

impl Tools {
    /// Makes them in the first process.
    pub(super) fn offer(control: &Control) -> Result<Tools, BenchError> {
        let sides = Sides::between(control)?;
        Ok(Tools { sides, bell: Bell::offer(control)? })
    }

    /// Takes them over in the second process.
    pub(super) fn accept(control: &Control) -> Result<Tools, BenchError> {
        let sides = Sides::between(control)?;
        Ok(Tools { sides, bell: Bell::accept(control)? })
    }

    /// Runs the other side of a round. Returns false if the case is no part.
    pub(super) fn answer(&self, part: &str, work: Work) -> Result<bool, BenchError> {
        match part {
            BELLS => self.bell.answer(work)?,
            LANES_NOTHING => self.sides.answer(Size::Nothing, work)?,
            LANES_KIB => self.sides.answer(Size::Kib, work)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The parts of one case.
pub(super) struct Parts {
    case: Case,
    size: Size,
    cpus: Cpus,
    tools: Rc<Tools>,
    /// Lanes to another thread, if the callee is a thread.
    apart: Option<Apart>,
    together: Together,
    bells: (Bell, Bell),
    turns: Turns,
    /// The latest time of each part.
    lately: HashMap<Part, f64>,
}

impl Parts {
    pub(super) fn new(case: Case, cpus: Cpus, tools: &Rc<Tools>) -> Result<Parts, BenchError> {
        let size = if case.kib { Size::Kib } else { Size::Nothing };
        Ok(Parts {
            case,
            size,
            cpus,
            tools: Rc::clone(tools),
            apart: case.local.then(|| Apart::start(size, cpus.server)).transpose()?,
            together: Together::new(),
            bells: Bell::pair()?,
            turns: Turns::new(&format!("bench-parts/{}", case.path()), size)?,
            lately: HashMap::new(),
        })
    }

    /// Measures every part once, each for about this long. Returns the time of an operation of each, in the
    /// order of the model.
    pub(super) fn round(
        &mut self,
        pair: &mut Pair,
        each: Duration,
    ) -> Result<Vec<f64>, BenchError> {
        let mut taken = Vec::new();
        for (part, _) in model(self.case.policy) {
            let lately = self.lately.get(part).copied();
            let ns = lately.unwrap_or(if *part == Part::Bells { 50_000.0 } else { 500.0 });
            let each = if *part == Part::Bells { 3 * each } else { each };
            let shape = Shape::Each;
            let work = Work::planned(shape, Work::size(shape, ns), ns, each);
            let ns = self.measure(*part, pair, Work { singles: 0, ..work })?.mean_ns();
            self.lately.insert(*part, ns);
            taken.push(ns);
        }
        Ok(taken)
    }

    fn measure(&mut self, part: Part, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (size, cpu) = (self.size, self.cpus.server);
        match part {
            Part::LanesApart => match &self.apart {
                Some(apart) => apart.round(size, work),
                None => {
                    let name = if self.case.kib { LANES_KIB } else { LANES_NOTHING };
                    let job = Job::Case(name.to_owned());
                    pair.round(job, work, |_| self.tools.sides.ask(size, work))
                }
            },
            Part::Bells if self.case.local => {
                let (own, other) = &self.bells;
                bells::apart((own, other), cpu, work)
            }
            Part::Bells => {
                let tools = &self.tools;
                pair.round(Job::Case(BELLS.to_owned()), work, |_| tools.bell.ask(work))
            }
            Part::LanesTogether => beside_a_looker(cpu, || self.together.round(size, work)),
            Part::CallTogether => beside_a_looker(cpu, || self.turns.calls(work)),
            Part::IdleTurn => beside_a_looker(cpu, || Ok(self.turns.idle(work))),
        }
    }
}

/// Runs a function while the other CPU polls a line in vain, as a node there would: two threads
/// of one core slow each other.
fn beside_a_looker<T>(
    cpu: usize,
    act: impl FnOnce() -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let looker = scope.spawn(|| {
            let pinned = pin::pin(cpu);
            while !done.load(Ordering::Relaxed) {
                spin_loop();
            }
            pinned
        });
        let acted = act();
        done.store(true, Ordering::Relaxed);
        looker.join().map_err(|_| BenchError::protocol("a thread that looks panicked"))??;
        acted
    })
}

/// The parts of one placement's rounds, and their estimate.
#[derive(Default)]
pub(super) struct Taken {
    rounds: Vec<Vec<f64>>,
}

impl Taken {
    pub(super) fn push(&mut self, round: Vec<f64>) {
        self.rounds.push(round);
    }

    pub(super) fn extend(&mut self, other: Taken) {
        self.rounds.extend(other.rounds);
    }

    /// Returns the median of each part, and how often a call has it.
    pub(super) fn parts(&self, policy: Policy) -> Vec<BilledPart> {
        let of = |at: usize, (part, times): (Part, f64)| {
            let mut all: Vec<f64> =
                self.rounds.iter().filter_map(|round| round.get(at).copied()).collect();
            BilledPart { part: part.name(), ns: rounded(median(&mut all)), times }
        };
        model(policy).iter().enumerate().map(|(at, part)| of(at, *part)).collect()
    }
}

/// Returns the sum of the parts.
pub(super) fn estimate(parts: &[BilledPart]) -> f64 {
    parts.iter().map(|part| part.ns * part.times).sum()
}

#[cfg(test)]
mod tests {
    use super::{BilledPart, Part, Policy, Taken, estimate, model};

    #[test]
    fn an_estimate_is_the_sum_of_its_parts_as_often_as_a_call_has_them() {
        let part = |part, ns, times| BilledPart { part, ns, times };
        let parts = [part("a", 100.0, 1.0), part("b", 30.5, 1.0), part("c", 6.5, -2.0)];
        assert_eq!(estimate(&parts), 117.5);
        assert_eq!(estimate(&[]), 0.0);
    }

    #[test]
    fn parts_are_medians_over_rounds_in_the_order_of_the_model() {
        let mut taken = Taken::default();
        let mut first = Taken::default();
        first.push(vec![100.0, 80.0, 15.0, 6.0]);
        taken.extend(first);
        taken.push(vec![900.0, 82.0, 14.0, 7.0]);
        taken.push(vec![110.0, 81.0, 16.0, 5.0]);
        let parts = taken.parts(Policy::Polling);
        let told: Vec<_> = parts.iter().map(|part| (part.ns, part.times)).collect();
        assert_eq!(told, [(110.0, 1.0), (81.0, 1.0), (15.0, -1.0), (6.0, -2.0)]);
        assert_eq!(estimate(&parts), 164.0);
    }

    #[test]
    fn a_sleeping_call_is_one_that_looks_and_its_bells() {
        let of = |policy| model(policy).to_vec();
        let mut sleeping = of(Policy::Sleeping);
        assert_eq!(sleeping.remove(0), (Part::Bells, 1.0));
        assert_eq!(sleeping, of(Policy::Polling));
    }
}
