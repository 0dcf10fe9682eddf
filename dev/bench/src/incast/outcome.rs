//! Output of an incast: an object for programs, a table for people.

use serde::Serialize;
use std::io::{self, Write};
use upbeat_cli::bench::report::{rounded, short};
use upbeat_cli::bench::stats::median;
use upbeat_cli::bench::timing::nanoseconds;
use upbeat_core::bill::timeline::time;

/// The results of one kind of message.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    pub(super) bench: &'static str,
    /// `oneway` or `call`.
    pub(super) case: &'static str,
    pub(super) senders: u32,
    /// How long the senders sent.
    pub(super) seconds: f64,
    pub(super) bytes: usize,
    pub(super) capacity_per_second: u64,
    /// Bytes of requests that the receiver may hold.
    pub(super) budget_bytes: u64,
    /// The offered load, as a multiple of the capacity.
    pub(super) offered_ratio: f64,
    /// The messages that were handled meanwhile, as a multiple of the capacity.
    pub(super) goodput_ratio: f64,
    #[serde(flatten)]
    pub(super) messages: Messages,
    /// The resident memory of the receiver's process, from one reading to the next.
    pub(super) rss_kib: Vec<f64>,
    pub(super) rss_every_seconds: f64,
    /// A pair of nodes elsewhere on the host.
    pub(super) neighbour: Noticed,
    /// A client of the receiver.
    pub(super) client: Noticed,
}

/// The counts of single messages.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Messages {
    /// Messages that were sent, those of the rounds with clients included.
    pub(super) sent: u64,
    /// Messages that never arrived.
    pub(super) lost: u64,
    /// Messages that did not arrive next after their sender's previous one.
    pub(super) misordered: u64,
    /// Messages that could not be sent, and calls that ended without a reply.
    pub(super) failed: u64,
}

impl Outcome {
    /// Returns the growth from the second reading to the last: at the first, the receiver may not be full.
    fn growth(&self) -> Option<f64> {
        let [_, second, .., last] = self.rss_kib[..] else { return None };
        Some(last / second)
    }
}

/// The latency that a client noticed: of a call by the medians of the rounds' percentiles, and the medians of the
/// ratios of each round in the crowd to the quiet one before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Noticed {
    pub(super) quiet_p50_ns: f64,
    pub(super) quiet_p99_ns: f64,
    pub(super) crowd_p50_ns: f64,
    pub(super) crowd_p99_ns: f64,
    pub(super) p50_ratio: f64,
    pub(super) p99_ratio: f64,
}

/// The 50th and the 99th percentile of the calls of a round, in nanoseconds.
type Ranks = (f64, f64);

/// The calls that both clients timed in rounds of one kind.
#[derive(Debug, Default)]
pub(super) struct Alternated {
    neighbour: Vec<Ranks>,
    client: Vec<Ranks>,
}

impl Alternated {
    pub(super) fn add_neighbour(&mut self, took: &[u64]) {
        self.neighbour.push(ranks(took));
    }

    pub(super) fn add_client(&mut self, took: &[u64]) {
        self.client.push(ranks(took));
    }

    pub(super) fn neighbour(quiet: &Alternated, crowd: &Alternated) -> Noticed {
        noticed(&quiet.neighbour, &crowd.neighbour)
    }

    pub(super) fn client(quiet: &Alternated, crowd: &Alternated) -> Noticed {
        noticed(&quiet.client, &crowd.client)
    }
}

fn ranks(took: &[u64]) -> Ranks {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let at = |rank: f64| sorted.get((last as f64 * rank) as usize).copied().unwrap_or(0);
    (nanoseconds(at(0.5) as f64), nanoseconds(at(0.99) as f64))
}

fn noticed(quiet: &[Ranks], crowd: &[Ranks]) -> Noticed {
    let of = |all: &[Ranks], which: fn(&Ranks) -> f64| {
        rounded(median(&all.iter().map(which).collect::<Vec<_>>()).unwrap_or(0.0))
    };
    let ratio = |which: fn(&Ranks) -> f64| {
        let pairs = quiet.iter().zip(crowd).filter(|(quiet, _)| which(quiet) > 0.0);
        let ratios: Vec<f64> = pairs.map(|(quiet, crowd)| which(crowd) / which(quiet)).collect();
        rounded(median(&ratios).unwrap_or(0.0))
    };
    Noticed {
        quiet_p50_ns: of(quiet, |ranks| ranks.0),
        quiet_p99_ns: of(quiet, |ranks| ranks.1),
        crowd_p50_ns: of(crowd, |ranks| ranks.0),
        crowd_p99_ns: of(crowd, |ranks| ranks.1),
        p50_ratio: ratio(|ranks| ranks.0),
        p99_ratio: ratio(|ranks| ranks.1),
    }
}

/// Prints the results.
pub(super) fn tell(outcomes: &[Outcome], json: bool, to: &mut impl Write) -> io::Result<()> {
    for outcome in outcomes {
        if json {
            serde_json::to_writer(&mut *to, outcome)?;
            writeln!(to)?;
        } else {
            table(outcome, to)?;
        }
    }
    if !json {
        write!(to, "{NOTES}")?;
    }
    Ok(())
}

fn table(of: &Outcome, to: &mut impl Write) -> io::Result<()> {
    let Outcome { case, senders, bytes, capacity_per_second, seconds, .. } = of;
    let kind = if *case == "call" { "calls" } else { "one-way messages" };
    writeln!(
        to,
        "incast: {kind} of {bytes} bytes from {senders} senders to one receiver, {seconds:.0} s"
    )?;
    let budget = of.budget_bytes >> 20;
    let mut line = |name: &str, text: String| writeln!(to, "  {name:<26} {text}");
    line("capacity", format!("{capacity_per_second} a second, {budget} MiB of requests held"))?;
    line("offered / capacity", format!("{:.2}", of.offered_ratio))?;
    line("done / capacity", format!("{:.3}", of.goodput_ratio))?;
    line("sent", short(of.messages.sent as f64))?;
    line("lost", of.messages.lost.to_string())?;
    line("out of order", of.messages.misordered.to_string())?;
    line("failed", of.messages.failed.to_string())?;
    let mib: Vec<String> = of.rss_kib.iter().map(|kib| format!("{:.1}", kib / 1024.0)).collect();
    let every = of.rss_every_seconds;
    line("receiver's memory, MiB", format!("{} (each {every:.1} s)", mib.join(" ")))?;
    if let Some(growth) = of.growth() {
        line("last / second look", format!("{growth:.2}"))?;
    }
    for (name, noticed) in [("a pair elsewhere", of.neighbour), ("a client of the same", of.client)]
    {
        let Noticed { quiet_p50_ns, quiet_p99_ns, crowd_p50_ns, crowd_p99_ns, .. } = noticed;
        line(
            name,
            format!(
                "p50 {} to {}: {:.2}; p99 {} to {}: {:.2}",
                time(quiet_p50_ns),
                time(crowd_p50_ns),
                noticed.p50_ratio,
                time(quiet_p99_ns),
                time(crowd_p99_ns),
                noticed.p99_ratio
            ),
        )?;
    }
    writeln!(to)
}

const NOTES: &str = "\
A pair elsewhere are two nodes of other processes, a client of the same calls a method of the slow
receiver that does not wait; both make calls of nothing one after another, from quiet to crowded in
rounds by turns. All of it shares two CPUs.
";

#[cfg(test)]
mod tests {
    use super::{Alternated, Messages, Noticed, Outcome, tell};
    use upbeat_memory::ticks::ticks_per_second;

    fn ticks(ns: u64) -> u64 {
        ns * ticks_per_second() / 1_000_000_000
    }

    fn outcome() -> Outcome {
        Outcome {
            bench: "incast",
            case: "oneway",
            senders: 16,
            seconds: 60.0,
            bytes: 500,
            capacity_per_second: 2_000,
            budget_bytes: 32 << 20,
            offered_ratio: 10.0,
            goodput_ratio: 0.987,
            messages: Messages { sent: 1_234_567, lost: 3, misordered: 0, failed: 0 },
            rss_kib: vec![1024.0, 4096.0, 6144.0],
            rss_every_seconds: 5.0,
            neighbour: Noticed { p50_ratio: 1.07, ..Noticed::default() },
            client: Noticed::default(),
        }
    }

    #[test]
    fn ratios_are_of_neighbouring_rounds() {
        let (mut quiet, mut crowd) = (Alternated::default(), Alternated::default());
        for (calm, busy) in [(1_000, 1_500), (100, 1_000), (2_000, 2_200)] {
            quiet.add_client(&[ticks(calm); 100]);
            crowd.add_client(&[ticks(busy); 100]);
        }
        let found = Alternated::client(&quiet, &crowd);
        assert!((found.quiet_p50_ns - 1_000.0).abs() < 5.0, "{found:?}");
        assert!((found.p50_ratio - 1.5).abs() < 0.01 && (found.p99_ratio - 1.5).abs() < 0.01);
        assert_eq!(Alternated::neighbour(&quiet, &crowd), Noticed::default());
    }

    #[test]
    fn what_went_wrong_is_said() {
        let mut text = Vec::new();
        tell(&[outcome()], false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for wanted in ["lost                       3", "0.987", "1.0 4.0 6.0", "1.50", ": 1.07;"] {
            assert!(text.contains(wanted), "`{wanted}` is not in {text}");
        }
        let mut json = Vec::new();
        tell(&[outcome()], true, &mut json).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!((&value["lost"], &value["rss_kib"][2]), (&3.into(), &6144.0.into()));
    }
}
