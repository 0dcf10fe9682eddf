//! Histograms as drawings: a logarithmic time axis to the right, and a logarithmic count upwards.

use crate::bill::histogram::{Bucket, Histogram};
use crate::bill::recording::Amount;
use std::fmt::Write;
use upbeat_core::bill::timeline::time;

/// The smallest ratio between the two ends of an axis.
const SPAN: f64 = 4.0;

/// The ends of an axis, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    from: f64,
    to: f64,
}

impl Axis {
    /// Returns an axis that contains a whole histogram.
    pub(super) fn of(histogram: &Histogram) -> Axis {
        let filled = || histogram.buckets().filter(|one| one.count > 0);
        let from = filled().map(|one| one.from).fold(f64::INFINITY, f64::min);
        let to = filled().map(|one| one.to).fold(1.0, f64::max);
        let from = if from.is_finite() { from.max(1.0) } else { 1.0 };
        Axis { from, to: to.max(from * SPAN) }
    }

    /// Returns the axis extended to begin at one nanosecond.
    pub(super) fn with_one(self) -> Axis {
        Axis { from: 1.0, ..self }
    }

    /// Returns the position of a time, in percent from the left.
    fn place(self, ns: f64) -> f64 {
        let part = (ns.max(self.from) / self.from).log2() / (self.to / self.from).log2();
        (100.0 * part).clamp(0.0, 100.0)
    }

    /// Returns a few powers of ten on the axis.
    fn ticks(self) -> Vec<f64> {
        let powers = (0..19).map(|power| 10_f64.powi(power));
        let all: Vec<f64> = powers.filter(|ns| (self.from..=self.to).contains(ns)).collect();
        let step = all.len().div_ceil(5).max(1);
        all.into_iter().step_by(step).collect()
    }
}

/// Returns the columns of a histogram, in a box of 100 by 100.
fn columns(histogram: &Histogram, axis: Axis) -> String {
    let most = (histogram.most() as f64).ln_1p().max(f64::MIN_POSITIVE);
    let mut html = String::new();
    for Bucket { from, to, count } in histogram.buckets().filter(|one| one.count > 0) {
        let (left, right) = (axis.place(from), axis.place(to));
        let height = (100.0 * (count as f64).ln_1p() / most).max(3.0);
        let width = (right - left).max(0.4);
        let _ = write!(
            html,
            "<rect x=\"{left:.2}\" y=\"{:.2}\" width=\"{width:.2}\" height=\"{height:.2}\"/>",
            100.0 - height
        );
    }
    html
}

/// Returns a small drawing, for a cell of a table.
pub(super) fn small(histogram: &Histogram, axis: Axis) -> String {
    format!(
        "<svg class=\"small\" viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" \
         aria-hidden=\"true\">{}</svg>",
        columns(histogram, axis)
    )
}

/// Returns a large drawing with its percentiles.
pub(super) fn big(histogram: &Histogram, whole: &Amount, p999: &str) -> String {
    let axis = Axis::of(histogram);
    let marks = [
        Some(("median", whole.p50)),
        whole.p99.map(|ns| ("p99", ns)),
        Some((p999, whole.slowest())),
    ];
    let marks: Vec<(&str, f64)> = marks.into_iter().flatten().collect();
    let (mut lines, mut labels) = (String::new(), String::new());
    for (nth, (name, ns)) in marks.iter().copied().enumerate() {
        let at = axis.place(ns);
        let _ = write!(
            lines,
            "<line x1=\"{at:.2}\" x2=\"{at:.2}\" y1=\"0\" y2=\"100\" \
             vector-effect=\"non-scaling-stroke\"/>"
        );
        // Labels in the right half are to the left of their lines.
        let side =
            if at > 50.0 { format!("right:{:.2}%", 100.0 - at) } else { format!("left:{at:.2}%") };
        let _ = write!(
            labels,
            "<span class=\"mark m{nth}\" style=\"{side}\">{name} <b>{}</b></span>",
            time(ns)
        );
    }
    let ticks: String = axis
        .ticks()
        .into_iter()
        .map(|ns| format!("<span style=\"left:{:.2}%\">{}</span>", axis.place(ns), round(ns)))
        .collect();
    let said: Vec<String> =
        marks.iter().map(|(name, ns)| format!("{name} {}", time(*ns))).collect();
    format!(
        "<div class=\"histogram\" role=\"img\" aria-label=\"{}\"><div class=\"marks\">{labels}</div>\
         <svg viewBox=\"0 0 100 100\" preserveAspectRatio=\"none\" aria-hidden=\"true\">{}{lines}\
         </svg><div class=\"ticks\" aria-hidden=\"true\">{ticks}</div></div>",
        said.join(", "),
        columns(histogram, axis)
    )
}

/// Formats a power of ten with its unit.
fn round(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns if ns < 1e9 => format!("{:.0} ms", ns / 1e6),
        ns => format!("{:.0} s", ns / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_lie_within_the_box() {
        for values in [vec![], vec![5.0], vec![0.0, 1.0, 300.0, 4e9], vec![7e7; 50]] {
            let histogram = Histogram::of(values);
            let axis = Axis::of(&histogram);
            assert!(axis.to >= axis.from * SPAN && axis.from >= 1.0);
            let html = columns(&histogram, axis);
            let places = html.split("x=\"").skip(1).filter_map(|rest| rest.split('"').next());
            assert!(
                places.map(|one| one.parse::<f64>().unwrap()).all(|at| (0.0..=100.0).contains(&at))
            );
        }
    }

    #[test]
    fn an_axis_has_a_few_round_numbers() {
        let axis = Axis { from: 90.0, to: 2e6 };
        let ticks: Vec<String> = axis.ticks().into_iter().map(round).collect();
        assert_eq!(ticks.join(" "), "100 ns 1 us 10 us 100 us 1 ms");
        assert!(Axis { from: 1.0, to: 1e18 }.ticks().len() <= 5);
        assert!(axis.place(90.0) == 0.0 && axis.place(1e12) == 100.0);
    }
}
