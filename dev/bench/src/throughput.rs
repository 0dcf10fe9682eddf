//! One-way messages by their size: figure 3 of the paper on Express Messages, anew.
//!
//! One node sends, and another consumes the messages at once, with optimistic and with conservative sends. The
//! baselines of the same run are bare rings through which the same bytes pass with two copies and with
//! one. Each baseline is the best of a few sizes of the ring.
//!
//! A message that is read in place is compared with the ring with one copy. Both readers add up all words, with
//! the same loop: a reader that touched nothing would leave the bytes in the writer's cache, and the
//! cost of moving them, which the benchmark measures, would be missing. A ring is cut into pieces, and
//! a long message goes through it in the cache; a reader in place needs the message in one piece. So long messages
//! are also compared with a ring in which each message is one piece.
//!
//! A ring's reader copies into one buffer again and again; a receiver has a new vector for each
//! message, which the system must allocate. So one case has a receiver that copies into a buffer that it keeps.

mod rings;
mod tell;

pub(crate) use tell::{lines, plot, tell};

use crate::sizes::{KIB, MIB, possible, size_word};
use rings::{Copies, RingFloor, RingServer, Rings};
use std::path::Path;
use std::rc::Rc;
use upbeat::{Counter, Node};
use upbeat_cli::bench::control::{Control, Done, Job};
use upbeat_cli::bench::error::BenchError;
use upbeat_cli::bench::flight::burst;
use upbeat_cli::bench::ground::{COUNT_LINE, Ground};
use upbeat_cli::bench::hosts::{Caller, Flow, Host, Policy};
use upbeat_cli::bench::message::{Lying, Message};
use upbeat_cli::bench::pair::{Pair, Server};
use upbeat_cli::bench::report::{Row, rounded};
use upbeat_cli::bench::rounds::{Floor, Rate, Subject};
use upbeat_cli::bench::timing::{Round, Shape, Work};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "throughput";

const SIZES: &[usize] =
    &[8, 64, 500, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB];

/// Bytes in a burst, within the limits of the next two.
const BURST_BYTES: usize = 8 * MIB;
/// The most messages in a burst, and the fewest: the first and the last of a burst travel alone for a
/// while.
const BURST_MOST: usize = 16_384;
const BURST_LEAST: usize = 8;

/// The shortest messages that are read in place: a buffer does not pay for shorter ones.
const IN_PLACE_LEAST: usize = 4 * KIB;

/// The path of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Nodes(Flow),
    /// Nodes with their default settings; the receiver reads in place.
    InPlace,
    /// Nodes with their default settings; the receiver copies each message into a buffer that it keeps.
    Kept,
    Ring(Copies),
}

impl Way {
    /// Each way stands behind its baseline.
    const ALL: [Way; 7] = [
        Way::Ring(Copies::Two),
        Way::Ring(Copies::One),
        Way::Ring(Copies::Whole),
        Way::Nodes(Flow::Optimistic),
        Way::Nodes(Flow::Conservative),
        Way::InPlace,
        Way::Kept,
    ];

    fn word(self) -> &'static str {
        match self {
            Way::Nodes(flow) => flow.word(),
            Way::InPlace => "in-place",
            Way::Kept => "kept",
            Way::Ring(copies) => copies.word(),
        }
    }

    /// Returns how the nodes send, if the way has nodes.
    fn flow(self) -> Option<Flow> {
        match self {
            Way::Nodes(flow) => Some(flow),
            Way::InPlace | Way::Kept => Some(Flow::Optimistic),
            Way::Ring(_) => None,
        }
    }

    fn goes_with(self, bytes: usize) -> bool {
        match self {
            Way::InPlace | Way::Kept => bytes >= IN_PLACE_LEAST,
            Way::Ring(copies) => copies.goes_with(bytes),
            Way::Nodes(_) => true,
        }
    }

    fn baseline(self) -> Option<Way> {
        match self {
            Way::Ring(Copies::Two) => None,
            Way::Ring(Copies::One) | Way::Nodes(Flow::Optimistic) | Way::Kept => {
                Some(Way::Ring(Copies::Two))
            }
            Way::Nodes(Flow::Conservative) => Some(Way::Nodes(Flow::Optimistic)),
            Way::InPlace | Way::Ring(Copies::Whole) => Some(Way::Ring(Copies::One)),
        }
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Case {
    bytes: usize,
    way: Way,
}

impl Case {
    fn path(self) -> String {
        format!("{}/{}", size_word(self.bytes), self.way.word())
    }

    fn about(self) -> String {
        let bytes = self.bytes;
        match self.way {
            Way::Nodes(flow) => format!("messages of {bytes} bytes, {}", flow.word()),
            Way::InPlace => format!("messages of {bytes} bytes, read where their sender wrote"),
            Way::Kept => {
                format!("messages of {bytes} bytes, copied into a buffer that their receiver keeps")
            }
            Way::Ring(Copies::Two) => {
                format!("{bytes} bytes copied into a bare ring and out of it")
            }
            Way::Ring(Copies::One) => format!("{bytes} bytes copied in, and read where they lie"),
            Way::Ring(Copies::Whole) => {
                format!("{bytes} bytes copied in whole, and then read where they lie")
            }
        }
    }

    fn burst(self) -> u32 {
        (BURST_BYTES / self.bytes).clamp(BURST_LEAST, BURST_MOST) as u32
    }
}

fn cases() -> Vec<Case> {
    let all = possible(SIZES).into_iter();
    let of = |bytes| Way::ALL.map(|way| Case { bytes, way });
    all.flat_map(of).filter(|case| case.way.goes_with(case.bytes)).collect()
}

/// Returns the cases with a description of each.
pub(crate) fn list() -> Vec<(String, String)> {
    cases().into_iter().map(|case| (case.path(), case.about())).collect()
}

fn host_name(flow: Flow) -> String {
    format!("bench-throughput/{}", flow.word())
}

/// The counters of messages.
const COUNTS: [Counter; 3] = [Counter::ProtocolFrames, Counter::RoomAsked, Counter::Refused];

/// Returns the counts of a node so far.
fn counted(node: &Node) -> [u64; COUNTS.len()] {
    COUNTS.map(|counter| node.counted(counter))
}

/// Returns the chosen cases as subjects.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let cases: Vec<Case> = cases().into_iter().filter(|case| wanted(&case.path())).collect();
    let rings = cases.iter().map(|case| match case.way {
        Way::Ring(copies) => copies.most(case.bytes),
        Way::Nodes(_) | Way::InPlace | Way::Kept => 0,
    });
    // Without a case that uses rings, this is one unused page.
    let rings = Rings::make(pair.control(), rings.max().unwrap_or(0).max(4 * KIB))?;
    let rings = Rc::new(rings);
    let Done = pair.control().receive()?;
    let mut senders: Vec<(Flow, Rc<Caller>)> = Vec::new();
    for flow in Flow::BOTH {
        let name = format!("bench-throughput-sender/{}", flow.word());
        let (peer, policy) = (host_name(flow), Policy::Polling);
        let sender = Caller::flowing(&name, &peer, pair.scratch(), policy, flow)?;
        senders.push((flow, Rc::new(sender)));
    }
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in cases {
        let baseline = case.way.baseline().map(|way| Case { way, ..case }.path());
        let message = Message::of(case.bytes);
        let sender = senders.iter().find(|(flow, _)| Some(*flow) == case.way.flow());
        let doing = match (case.way, sender) {
            (Way::Ring(copies), _) => {
                Doing::Ring(RingFloor::new(Rc::clone(&rings), copies, case.bytes))
            }
            (_, Some((_, sender))) => Doing::Nodes(Rc::clone(sender)),
            (_, None) => return Err(BenchError::protocol(format!("nobody sends {}", case.path()))),
        };
        let (path, tally) = (case.path(), Tally::default());
        subjects.push(Box::new(Stream { case, path, baseline, message, doing, tally }));
    }
    Ok(subjects)
}

/// The means of a case.
enum Doing {
    Nodes(Rc<Caller>),
    Ring(RingFloor),
}

/// Messages so far, and the counts of both nodes meanwhile.
#[derive(Default)]
struct Tally {
    messages: u64,
    counts: [u64; COUNTS.len()],
}

/// A case as a subject.
struct Stream {
    case: Case,
    path: String,
    baseline: Option<String>,
    message: Message,
    doing: Doing,
    tally: Tally,
}

impl Subject for Stream {
    fn case(&self) -> &str {
        &self.path
    }

    fn shape(&self) -> Shape {
        Shape::Bursts(self.case.burst())
    }

    fn floor(&self) -> Floor {
        Floor::Nothing
    }

    fn rate(&self) -> Rate {
        Rate::Bytes(self.case.bytes as u64)
    }

    fn baseline(&self) -> Option<&str> {
        self.baseline.as_deref()
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let sender = match &mut self.doing {
            Doing::Ring(floor) => return floor.round(pair, &self.path, self.message.bytes(), work),
            Doing::Nodes(sender) => sender,
        };
        let message = &self.message;
        let before = counted(sender.node());
        let round = pair.round(Job::Case(self.path.clone()), work, |_| match self.case.way {
            Way::InPlace => {
                let lying = Lying::of(message);
                burst(sender, work, async |client, _| client.lie(lying.clone()).await)
            }
            Way::Kept => {
                let lying = Lying::of(message);
                burst(sender, work, async |client, _| client.keep(lying.clone()).await)
            }
            _ => burst(sender, work, async |client, _| client.land(message.clone()).await),
        })?;
        let after = counted(sender.node());
        self.tally.messages += work.total();
        for (at, sum) in self.tally.counts.iter_mut().enumerate() {
            *sum += after[at] - before[at] + pair.ground.theirs.load(COUNT_LINE + at);
        }
        Ok(round)
    }

    fn finish(&mut self, row: &mut Row) {
        row.sizes.bytes = Some(self.case.bytes as u64);
        row.rates.per_second = Some(rounded(1e9 / row.p50_ns));
        if let Doing::Ring(floor) = &self.doing {
            row.sizes.ring_bytes = floor.best();
            return;
        }
        let [frames, asked, refused] =
            self.tally.counts.map(|sum| sum as f64 / self.tally.messages.max(1) as f64);
        row.traffic.protocol_frames_per_message = Some(rounded(frames));
        row.traffic.optimistic_percent = Some(rounded(100.0 * (1.0 - asked)));
        row.traffic.refused_percent = Some(rounded(100.0 * refused));
    }
}

/// The second process's nodes and its ends of the rings.
pub(crate) struct ThroughputServer {
    hosts: Vec<(Flow, Host)>,
    rings: RingServer,
}

/// Returns the second process's side.
pub(crate) fn server(
    control: &Control,
    _: &Ground,
    scratch: &Path,
) -> Result<ThroughputServer, BenchError> {
    let rings = RingServer::join(control)?;
    let mut hosts = Vec::new();
    for flow in Flow::BOTH {
        hosts.push((flow, Host::flowing(&host_name(flow), scratch, Policy::Polling, flow)?));
    }
    control.send(&Done)?;
    Ok(ThroughputServer { hosts, rings })
}

impl Server for ThroughputServer {
    fn round(&mut self, job: &str, work: Work, ground: &mut Ground) -> Result<(), BenchError> {
        let unknown = || BenchError::protocol(format!("nobody receives `{job}`"));
        // The name of the ring stands behind the case.
        let (path, ring) = job.split_once('@').unwrap_or((job, ""));
        let case = cases().into_iter().find(|case| case.path() == path).ok_or_else(unknown)?;
        if let Way::Ring(copies) = case.way {
            return self.rings.round(copies, ring, case.bytes, ground, work);
        }
        let host = self.hosts.iter().find(|(flow, _)| Some(*flow) == case.way.flow());
        let (_, host) = host.ok_or_else(unknown)?;
        let before = counted(&host.node);
        host.round();
        let after = counted(&host.node);
        for at in 0..COUNTS.len() {
            ground.ours.publish(COUNT_LINE + at, after[at] - before[at]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{BENCH, Case, Flow, Way, cases};
    use crate::suite::is_bet;

    #[test]
    fn a_baseline_stands_before_what_is_compared_with_it() {
        let all = cases();
        for (at, case) in all.iter().enumerate() {
            assert!(all[..at].iter().all(|other| other.path() != case.path()), "no path twice");
            if let Some(way) = case.way.baseline() {
                assert!(all[..at].contains(&Case { way, ..*case }), "{}", case.path());
            }
        }
        assert!(all.iter().any(|case| case.path() == "500B/conservative"));
        assert!(all.iter().any(|case| case.path() == "64MiB/in-place"));
        assert!(all.iter().any(|case| case.path() == "64MiB/kept"));
        assert!(all.iter().any(|case| case.path() == "64MiB/whole"));
        assert!(!all.iter().any(|case| case.path() == "1MiB/whole"), "it is in any ring");
        assert!(Way::ALL.iter().all(|way| !way.word().contains('@')));
    }

    #[test]
    fn what_is_sent_optimistically_is_known_by_its_path() {
        for case in cases() {
            let (path, bets) = (case.path(), case.way.flow() == Some(Flow::Optimistic));
            assert_eq!(is_bet(BENCH, &path), bets, "{path}");
        }
    }

    #[test]
    fn bursts_are_neither_long_nor_lonely() {
        for case in cases() {
            let bytes = case.burst() as usize * case.bytes;
            assert!(case.burst() >= 8 && bytes <= (8 << 20).max(8 * case.bytes));
        }
    }
}
