//! The figures as a picture: a bar for each way, times on the left, messages a second on the right,
//! both in powers of ten. It is plain SVG that follows the reader's choice of light or dark.

use crate::case::Mode;
use crate::summary::{Line, Summary};
use std::fmt::Write;
use upbeat_cli::bench::report::{short, time};

const WIDTH: f64 = 860.0;
const ROW: f64 = 24.0;
const BAR: f64 = 9.0;
const TOP: f64 = 62.0;

/// Where labels end and the panels lie.
const LABELS: f64 = 210.0;
const TIMES: Panel = Panel { left: 222.0, width: 330.0 };
const RATES: Panel = Panel { left: 640.0, width: 170.0 };

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #212529 }
.title { font-weight: 600 }
.small { font-size: 11px; fill: #5c636a }
.grid { stroke: #dee2e6 }
.ours { fill: #d9480f }
.polling { fill: #1c7ed6 }
.sleeping { fill: #868e96 }
.more { fill-opacity: 0.45 }
@media (prefers-color-scheme: dark) {
  text { fill: #e9ecef }
  .small { fill: #adb5bd }
  .grid { stroke: #495057 }
  .ours { fill: #ff922b }
  .polling { fill: #4dabf7 }
  .sleeping { fill: #ced4da }
}";

struct Panel {
    left: f64,
    width: f64,
}

/// Powers of ten from one to another, laid over a panel.
struct Scale<'p> {
    panel: &'p Panel,
    low: i32,
    high: i32,
}

impl<'p> Scale<'p> {
    fn over(panel: &'p Panel, values: impl Iterator<Item = f64> + Clone) -> Scale<'p> {
        let least = values.clone().fold(f64::INFINITY, f64::min);
        let most = values.fold(0.0, f64::max);
        if !(least > 0.0 && least.is_finite()) {
            return Scale { panel, low: 0, high: 1 };
        }
        let low = least.log10().floor() as i32;
        Scale { panel, low, high: (most.log10().ceil() as i32).max(low + 1) }
    }

    fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.panel.left + self.panel.width * part
    }

    /// Lines with what they mean.
    fn grid(&self, to: &mut String, bottom: f64, name: fn(f64) -> String) {
        for power in self.low..=self.high {
            let value = 10f64.powi(power);
            let (x, name) = (self.at(value), name(value));
            let top = TOP - 4.0;
            let _ = writeln!(to, r#"<path class="grid" d="M{x:.1} {top}V{bottom}"/>"#);
            let top = TOP - 9.0;
            let _ = writeln!(
                to,
                r#"<text class="small" text-anchor="middle" x="{x:.1}" y="{top}">{name}</text>"#
            );
        }
    }

    fn bar(&self, to: &mut String, class: &str, y: f64, value: f64) {
        let (left, right) = (self.panel.left, self.at(value));
        let width = (right - left).max(1.0);
        let _ = writeln!(
            to,
            r#"<rect class="{class}" x="{left}" y="{y}" width="{width:.1}" height="{BAR}" rx="1"/>"#
        );
    }

    fn label(&self, to: &mut String, y: f64, value: f64, text: &str) {
        let x = self.at(value) + 5.0;
        let _ = writeln!(to, r#"<text class="small" x="{x:.1}" y="{y}">{text}</text>"#);
    }
}

/// The picture.
pub(crate) fn svg(summary: &Summary) -> String {
    let lines = &summary.lines;
    let height = TOP + ROW * lines.len() as f64 + 34.0;
    let bottom = height - 30.0;
    let calls = lines.iter().flat_map(|line| [line.null, line.kib1]).flatten();
    let times = Scale::over(&TIMES, calls.map(|figure| figure.ns));
    let streams = lines.iter().filter_map(|line| line.stream);
    let rates = Scale::over(&RATES, streams.map(|figure| 1e9 / figure.ns));
    let mut to = String::new();
    let _ = writeln!(
        to,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="What calls and messages cost on Upbeat and on its peers">"#
    );
    let _ = writeln!(to, "<style>\n{STYLE}\n</style>");
    title(&mut to, TIMES.left, "a call of nothing, and (pale) with 1 KiB each way");
    title(&mut to, RATES.left, "one-way messages a second");
    times.grid(&mut to, bottom, round_time);
    rates.grid(&mut to, bottom, round_count);
    for (at, line) in lines.iter().enumerate() {
        row(&mut to, line, TOP + ROW * at as f64, &times, &rates);
    }
    legend(&mut to, height - 10.0);
    to.push_str("</svg>\n");
    to
}

fn title(to: &mut String, x: f64, text: &str) {
    let _ = writeln!(to, r#"<text class="title" x="{x}" y="24">{text}</text>"#);
}

fn row(to: &mut String, line: &Line, y: f64, times: &Scale<'_>, rates: &Scale<'_>) {
    let class = class(line);
    let (label, mode) = (line.label(), line.mode.word());
    let _ = writeln!(
        to,
        r#"<text text-anchor="end" x="{LABELS}" y="{}">{label} <tspan class="small">{mode}</tspan></text>"#,
        y + 13.0
    );
    if let Some(null) = line.null {
        times.bar(to, class, y, null.ns);
        times.label(to, y + BAR, null.ns, &time(null.ns));
    }
    if let Some(kib1) = line.kib1 {
        times.bar(to, &format!("{class} more"), y + BAR + 1.0, kib1.ns);
    }
    if let Some(stream) = line.stream {
        let rate = 1e9 / stream.ns;
        rates.bar(to, class, y + BAR / 2.0, rate);
        rates.label(to, y + BAR / 2.0 + BAR, rate, &short(rate));
    }
}

fn class(line: &Line) -> &'static str {
    match (line.is_ours(), line.mode) {
        (true, _) => "ours",
        (false, Mode::Polling) => "polling",
        (false, Mode::Sleeping | Mode::Adaptive) => "sleeping",
    }
}

fn legend(to: &mut String, y: f64) {
    let parts =
        [("ours", "Upbeat"), ("polling", "others, polling"), ("sleeping", "others, sleeping")];
    for (at, (class, text)) in parts.into_iter().enumerate() {
        let (x, top) = (TIMES.left + 130.0 * at as f64, y - BAR);
        let _ = writeln!(
            to,
            r#"<rect class="{class}" x="{x}" y="{top}" width="{BAR}" height="{BAR}" rx="1"/><text class="small" x="{}" y="{y}">{text}</text>"#,
            x + 14.0
        );
    }
}

/// A power of ten of nanoseconds.
fn round_time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns => format!("{:.0} ms", ns / 1e6),
    }
}

/// A power of ten of messages.
fn round_count(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0}"),
        count if count < 1e6 => format!("{:.0} k", count / 1e3),
        count => format!("{:.0} M", count / 1e6),
    }
}
