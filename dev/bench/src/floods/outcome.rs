//! Output of floods: an object for programs, a table for people.

use super::clients::Acts;
use super::strangers::Count;
use serde::Serialize;
use std::io::{self, Write};
use std::time::Duration;
use upbeat_cli::bench::report::rounded;

/// The promise: an honest client is served within this time, in milliseconds.
const PROMISE_MS: f64 = 2_000.0;

/// The results of one case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Outcome {
    bench: &'static str,
    case: String,
    seconds: f64,
    strangers: u64,
    /// Strangers for whom the queue of the listener was full.
    turned_back: u64,
    /// Honest clients that connected and called meanwhile.
    honest: usize,
    honest_p50_ms: f64,
    honest_worst_ms: f64,
    /// The time that the first client took at once after the strangers had gone.
    after_ms: f64,
    /// Calls of the session that was there before.
    calls: usize,
    call_worst_ms: f64,
    /// Clients and calls that failed.
    failed: usize,
    /// The first error of those.
    error: Option<String>,
    /// The processor time of the node for one stranger, that of honest clients left out.
    stranger_us: f64,
    /// The part of a processor that the node has used.
    node_percent: f64,
}

impl Outcome {
    /// Returns the results of a case, from the acts of honest clients, of the first one afterwards, and of the session
    /// that was there before, and from the processor time of the node and the part of one honest client in it.
    pub(super) fn new(
        case: String,
        elapsed: Duration,
        crowd: Count,
        [honest, after, old]: [&Acts; 3],
        [cpu_ns, honest_ns]: [u64; 2],
    ) -> Outcome {
        let mut failed = [&honest.failed, &after.failed, &old.failed].into_iter().flatten();
        let clients = (honest.took.len() + after.took.len()) as u64;
        let for_strangers = cpu_ns.saturating_sub(clients * honest_ns) as f64;
        Outcome {
            bench: "floods",
            case,
            seconds: rounded(elapsed.as_secs_f64()),
            strangers: crowd.came,
            turned_back: crowd.turned_back,
            honest: honest.took.len(),
            honest_p50_ms: at(&honest.took, 0.5),
            honest_worst_ms: at(&honest.took, 1.0),
            after_ms: at(&after.took, 1.0),
            calls: old.took.len(),
            call_worst_ms: at(&old.took, 1.0),
            failed: honest.failed.len() + after.failed.len() + old.failed.len(),
            error: failed.next().cloned(),
            stranger_us: rounded(for_strangers / 1e3 / (crowd.came.max(1) as f64)),
            node_percent: rounded(cpu_ns as f64 / elapsed.as_nanos() as f64 * 100.0),
        }
    }

    /// Returns whether every honest client was served in time.
    fn is_kept(&self) -> bool {
        let worst = self.honest_worst_ms.max(self.after_ms).max(self.call_worst_ms);
        self.failed == 0 && self.honest > 0 && self.calls > 0 && worst <= PROMISE_MS
    }
}

/// Returns the time at this rank, in milliseconds.
fn at(took: &[Duration], rank: f64) -> f64 {
    let mut sorted = took.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    let found = sorted.get((last as f64 * rank) as usize).copied().unwrap_or_default();
    rounded(found.as_secs_f64() * 1e3)
}

/// Prints the results.
pub(super) fn tell(outcomes: &[Outcome], json: bool, to: &mut impl Write) -> io::Result<()> {
    if json {
        for outcome in outcomes {
            serde_json::to_writer(&mut *to, outcome)?;
            writeln!(to)?;
        }
        return Ok(());
    }
    writeln!(
        to,
        "{:<27} {:>9} {:>8} {:>7} {:>8} {:>8} {:>8} {:>7} {:>9} {:>6}",
        "case",
        "strangers",
        "back",
        "honest",
        "p50 ms",
        "worst ms",
        "after ms",
        "call ms",
        "us each",
        "node %"
    )?;
    for of in outcomes {
        writeln!(
            to,
            "{:<27} {:>9} {:>8} {:>7} {:>8.2} {:>8.1} {:>8.1} {:>7.1} {:>9.1} {:>6.0}{}",
            of.case,
            of.strangers,
            of.turned_back,
            of.honest,
            of.honest_p50_ms,
            of.honest_worst_ms,
            of.after_ms,
            of.call_worst_ms,
            of.stranger_us,
            of.node_percent,
            if of.is_kept() { "" } else { "  !" }
        )?;
        if let Some(error) = &of.error {
            writeln!(to, "    {} failed; the first: {error}", of.failed)?;
        }
    }
    let kept = outcomes.iter().filter(|outcome| outcome.is_kept()).count();
    writeln!(to, "{kept} of {} cases kept the promise. {NOTES}", outcomes.len())
}

const NOTES: &str = "\
`back`: strangers who found the listener's queue full;
`honest`: clients that connected and called meanwhile; `after`: the next one when the strangers had gone;
`call`: the longest call of a session that was there before; `us each`: the processor time of the node
for one stranger, in microseconds; `!`: somebody has waited longer than two seconds, or failed.
";

#[cfg(test)]
mod tests {
    use super::{Acts, Count, Outcome, tell};
    use std::time::Duration;

    fn acts(ms: &[u64]) -> Acts {
        let took = ms.iter().map(|ms| Duration::from_millis(*ms)).collect();
        Acts { took, failed: Vec::new() }
    }

    fn outcome(honest: &Acts) -> Outcome {
        let (second, crowd) = (Duration::from_secs(1), Count { came: 1_000, turned_back: 7 });
        let cpu_ns = [30_000_000, 2_000_000];
        let all = [honest, &acts(&[5]), &acts(&[1])];
        Outcome::new("tls/silent/1000".into(), second, crowd, all, cpu_ns)
    }

    #[test]
    fn the_cost_of_honest_clients_is_left_out() {
        let of = outcome(&acts(&[1, 3, 2, 900]));
        // Five clients took ten of the thirty milliseconds.
        assert_eq!((of.stranger_us, of.node_percent), (20.0, 3.0));
        assert_eq!((of.honest_p50_ms, of.honest_worst_ms, of.after_ms), (2.0, 900.0, 5.0));
        assert!(of.is_kept());
    }

    #[test]
    fn a_client_that_waits_or_fails_is_said() {
        let mut failed = acts(&[1]);
        failed.failed.push("nobody answers".into());
        let mut text = Vec::new();
        tell(&[outcome(&acts(&[2_500])), outcome(&failed)], false, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        for wanted in ["  !", "1 failed; the first: nobody answers", "0 of 2 cases"] {
            assert!(text.contains(wanted), "{text}");
        }
    }
}
