//! A progress bar on stderr, shown only at a terminal.

use std::fmt::Display;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

const WIDTH: usize = 24;
const EVERY: Duration = Duration::from_millis(100);

/// A progress bar.
pub struct Progress {
    shown: Option<Instant>,
    visible: bool,
}

impl Progress {
    /// Creates a bar, which is shown if stderr is a terminal.
    pub fn new() -> Progress {
        Progress { shown: None, visible: std::io::stderr().is_terminal() }
    }

    /// Shows the completed share of `bench`, the next case, and `state`, which is the placement of the CPUs.
    pub fn show(&mut self, bench: &str, done: f64, case: &str, state: impl Display) {
        if !self.visible || self.shown.is_some_and(|shown| shown.elapsed() < EVERY) {
            return;
        }
        self.shown = Some(Instant::now());
        // A failure to draw the bar does not stop the benchmark.
        let _ = write!(std::io::stderr(), "\r\x1b[K{}", bar(bench, done, case, state));
    }

    /// Erases the bar.
    pub fn end(&mut self) {
        if self.visible && self.shown.take().is_some() {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress::new()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.end();
    }
}

fn bar(bench: &str, done: f64, case: &str, state: impl Display) -> String {
    let done = done.clamp(0.0, 1.0);
    let full = (done * WIDTH as f64) as usize;
    let (full, rest) = ("#".repeat(full), "-".repeat(WIDTH - full));
    format!("{bench:<7} [{full}{rest}] {:>3.0}% ({state}) {case}", done * 100.0)
}

#[cfg(test)]
mod tests {
    use super::bar;
    use crate::bench::report::Placement;

    #[test]
    fn the_bar_fills() {
        let text = bar("limits", 0.5, "line/tight", Placement::OneL3);
        assert_eq!(text, "limits  [############------------]  50% (one L3) line/tight");
        assert!(bar("x", 7.0, "", Placement::OneL3).contains("100%"));
    }
}
