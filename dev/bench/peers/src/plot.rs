//! The figures as a picture: a bar for each way, times on the left, messages a second on the right,
//! both in powers of ten.

use crate::case::Mode;
use crate::summary::{Line, Summary};
use bench::plot::{Picture, Scale, round_count, round_time};
use upbeat_cli::bench::report::short;
use upbeat_core::bill::timeline::time;

const WIDTH: f64 = 860.0;
const ROW: f64 = 24.0;
const BAR: f64 = 9.0;
const TOP: f64 = 62.0;

/// Where labels end and the panels lie, from the left to the right.
const LABELS: f64 = 210.0;
const TIMES: (f64, f64) = (222.0, 552.0);
const RATES: (f64, f64) = (640.0, 810.0);

/// The picture.
pub(crate) fn svg(summary: &Summary) -> String {
    let lines: Vec<&Line> = summary.lines.iter().filter(|line| line.has_calls()).collect();
    let height = TOP + ROW * lines.len() as f64 + 34.0;
    let bottom = height - 30.0;
    let calls = lines.iter().flat_map(|line| [line.null, line.kib1]).flatten();
    let times = Scale::over(TIMES.0, TIMES.1, calls.map(|figure| figure.ns));
    let streams = lines.iter().filter_map(|line| line.stream);
    let rates = Scale::over(RATES.0, RATES.1, streams.map(|figure| 1e9 / figure.ns));
    let mut picture =
        Picture::new(WIDTH, height, "What calls and messages cost on Upbeat and on its peers");
    picture.title(TIMES.0, 24.0, "a call of nothing, and (pale) with 1 KiB each way");
    picture.title(RATES.0, 24.0, "one-way messages a second");
    picture.columns(&times, TOP - 4.0, bottom, round_time);
    picture.columns(&rates, TOP - 4.0, bottom, round_count);
    for (at, line) in lines.into_iter().enumerate() {
        row(&mut picture, line, TOP + ROW * at as f64, &times, &rates);
    }
    legend(&mut picture, height - 10.0);
    picture.end()
}

fn row(picture: &mut Picture, line: &Line, y: f64, times: &Scale, rates: &Scale) {
    let class = class(line);
    picture.label(LABELS, y + 13.0, &line.label(), line.mode.word());
    if let Some(null) = line.null {
        picture.bar(class, times, y, BAR, null.ns);
        picture.small(times.at(null.ns) + 5.0, y + BAR, &time(null.ns));
    }
    if let Some(kib1) = line.kib1 {
        picture.bar(&format!("{class} more"), times, y + BAR + 1.0, BAR, kib1.ns);
    }
    if let Some(stream) = line.stream {
        let rate = 1e9 / stream.ns;
        picture.bar(class, rates, y + BAR / 2.0, BAR, rate);
        picture.small(rates.at(rate) + 5.0, y + BAR / 2.0 + BAR, &short(rate));
    }
}

fn class(line: &Line) -> &'static str {
    match (line.is_ours(), line.mode) {
        (true, _) => "ours",
        (false, Mode::Polling) => "polling",
        (false, Mode::Sleeping | Mode::Adaptive) => "sleeping",
    }
}

fn legend(picture: &mut Picture, y: f64) {
    let parts =
        [("ours", "Upbeat"), ("polling", "others, polling"), ("sleeping", "others, sleeping")];
    for (at, (class, text)) in parts.into_iter().enumerate() {
        let x = TIMES.0 + 130.0 * at as f64;
        picture.rectangle(class, x, y - BAR, BAR, BAR);
        picture.small(x + 14.0, y, text);
    }
}
