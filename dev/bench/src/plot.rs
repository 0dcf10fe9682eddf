//! Plots: bars and lines over powers of ten, as plain SVG that follows the reader's choice of
//! light or dark.
//!
//! The callers decide what is drawn. Texts are those of this repository and are not escaped; a value that
//! has no logarithm is not drawn.

use std::fmt::Write;

const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #212529 }
.title { font-weight: 600 }
.small { font-size: 11px; fill: #5c636a }
.grid { stroke: #dee2e6 }
.ours { fill: #d9480f; --ink: #d9480f }
.polling { fill: #1c7ed6; --ink: #1c7ed6 }
.sleeping { fill: #868e96; --ink: #868e96 }
.floor { fill: #2b8a3e; --ink: #2b8a3e }
.more { fill-opacity: 0.45 }
.line { fill: none; stroke: var(--ink); stroke-width: 1.8 }
.dashed { stroke-dasharray: 5 3 }
.dotted { stroke-dasharray: 2 2 }
@media (prefers-color-scheme: dark) {
  text { fill: #e9ecef }
  .small { fill: #adb5bd }
  .grid { stroke: #495057 }
  .ours { fill: #ff922b; --ink: #ff922b }
  .polling { fill: #4dabf7; --ink: #4dabf7 }
  .sleeping { fill: #ced4da; --ink: #ced4da }
  .floor { fill: #69db7c; --ink: #69db7c }
  .line { fill: none }
}";

/// A logarithmic axis between two positions of the plot.
pub struct Scale {
    start: f64,
    end: f64,
    low: i32,
    high: i32,
}

impl Scale {
    /// Returns the axis around all of these values.
    pub fn over(start: f64, end: f64, values: impl Iterator<Item = f64>) -> Scale {
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for value in values.filter(|value| *value > 0.0 && value.is_finite()) {
            (least, most) = (least.min(value), most.max(value));
        }
        if !least.is_finite() {
            return Scale { start, end, low: 0, high: 1 };
        }
        let low = least.log10().floor() as i32;
        Scale { start, end, low, high: (most.log10().ceil() as i32).max(low + 1) }
    }

    /// Returns the position of a value.
    pub fn at(&self, value: f64) -> f64 {
        let part = (value.log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.start + (self.end - self.start) * part
    }

    fn powers(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| 10_f64.powi(power))
    }
}

/// A plot that is being drawn.
pub struct Picture {
    text: String,
}

impl Picture {
    /// Returns an empty plot; `about` describes it for readers who cannot see it.
    pub fn new(width: f64, height: f64, about: &str) -> Picture {
        let mut picture = Picture { text: String::new() };
        picture.line_of(format_args!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{about}">"#
        ));
        picture.line_of(format_args!("<style>\n{STYLE}\n</style>"));
        picture
    }

    fn line_of(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Draws a heading.
    pub fn title(&mut self, x: f64, y: f64, text: &str) {
        self.line_of(format_args!(r#"<text class="title" x="{x}" y="{y}">{text}</text>"#));
    }

    /// Draws a text that ends at `x`, and a smaller one behind it.
    pub fn label(&mut self, x: f64, y: f64, text: &str, more: &str) {
        self.line_of(format_args!(
            r#"<text text-anchor="end" x="{x}" y="{y}">{text} <tspan class="small">{more}</tspan></text>"#
        ));
    }

    /// Draws a small text that begins at `x`.
    pub fn small(&mut self, x: f64, y: f64, text: &str) {
        self.line_of(format_args!(r#"<text class="small" x="{x:.1}" y="{y:.1}">{text}</text>"#));
    }

    /// Draws a bar from the start of a scale to a value.
    pub fn bar(&mut self, class: &str, scale: &Scale, y: f64, height: f64, value: f64) {
        self.rectangle(class, scale.start, y, (scale.at(value) - scale.start).max(1.0), height);
    }

    /// Draws a filled rectangle.
    pub fn rectangle(&mut self, class: &str, x: f64, y: f64, width: f64, height: f64) {
        self.line_of(format_args!(
            r#"<rect class="{class}" x="{x}" y="{y:.1}" width="{width:.1}" height="{height}" rx="1"/>"#
        ));
    }

    /// Draws vertical lines of a scale with their values above them, down to `bottom`.
    pub fn columns(&mut self, scale: &Scale, top: f64, bottom: f64, name: fn(f64) -> String) {
        for value in scale.powers() {
            let (x, name, above) = (scale.at(value), name(value), top - 5.0);
            self.line_of(format_args!(r#"<path class="grid" d="M{x:.1} {top}V{bottom}"/>"#));
            self.line_of(format_args!(
                r#"<text class="small" text-anchor="middle" x="{x:.1}" y="{above}">{name}</text>"#
            ));
        }
    }

    /// Draws horizontal lines of a scale with their values before them, from `left` to `right`.
    pub fn rows(&mut self, scale: &Scale, left: f64, right: f64, name: fn(f64) -> String) {
        for value in scale.powers() {
            let (y, name, before) = (scale.at(value), name(value), left - 6.0);
            let middle = y + 4.0;
            self.line_of(format_args!(r#"<path class="grid" d="M{left} {y:.1}H{right}"/>"#));
            self.line_of(format_args!(
                r#"<text class="small" text-anchor="end" x="{before}" y="{middle:.1}">{name}</text>"#
            ));
        }
    }

    /// Returns the SVG text.
    pub fn end(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }
}

/// A line of a chart.
pub(crate) struct Series {
    /// The name in the legend.
    pub(crate) name: &'static str,
    /// The style: colour, and whether the line is dashed or dotted.
    pub(crate) class: &'static str,
    /// The points of the line.
    pub(crate) points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 62.0;
const BOTTOM: f64 = HEIGHT - 40.0;

/// Draws lines over message sizes. `name` formats the values of the vertical axis.
pub(crate) fn by_size(title: &str, series: &[Series], name: fn(f64) -> String) -> String {
    let right = WIDTH - 20.0;
    let drawn = |point: &&(f64, f64)| point.0 > 0.0 && point.1 > 0.0;
    let all = || series.iter().flat_map(|one| one.points.iter().filter(drawn));
    let across = Scale::over(LEFT, right, all().map(|point| point.0));
    let up = Scale::over(BOTTOM, TOP, all().map(|point| point.1));
    let mut picture = Picture::new(WIDTH, HEIGHT, title);
    picture.title(LEFT, 24.0, title);
    picture.columns(&across, TOP, BOTTOM, bytes);
    picture.rows(&up, LEFT, right, name);
    for one in series {
        let mut path = String::new();
        for (x, y) in one.points.iter().filter(drawn) {
            let step = if path.is_empty() { 'M' } else { 'L' };
            let _ = write!(path, "{step}{:.1} {:.1}", across.at(*x), up.at(*y));
        }
        if !path.is_empty() {
            let class = one.class;
            picture.line_of(format_args!(r#"<path class="line {class}" d="{path}"/>"#));
        }
    }
    let mut x = LEFT;
    for one in series.iter().filter(|one| !one.points.is_empty()) {
        let (y, end, class) = (HEIGHT - 14.0, x + 22.0, one.class);
        picture.line_of(format_args!(r#"<path class="line {class}" d="M{x} {y}H{end}"/>"#));
        picture.small(x + 28.0, y + 4.0, one.name);
        x += 50.0 + 6.2 * one.name.len() as f64;
    }
    picture.end()
}

/// Formats a power of ten of bytes.
fn bytes(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0} B"),
        count if count < 1e6 => format!("{:.0} kB", count / 1e3),
        count => format!("{:.0} MB", count / 1e6),
    }
}

/// Formats a power of ten of nanoseconds.
pub fn round_time(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.0} ns"),
        ns if ns < 1e6 => format!("{:.0} us", ns / 1e3),
        ns => format!("{:.0} ms", ns / 1e6),
    }
}

/// Formats a power of ten of messages.
pub fn round_count(count: f64) -> String {
    match count {
        count if count < 1e3 => format!("{count:.0}"),
        count if count < 1e6 => format!("{:.0} k", count / 1e3),
        count => format!("{:.0} M", count / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::{Scale, Series, by_size, round_time};

    #[test]
    fn a_scale_ends_at_powers_of_ten() {
        let scale = Scale::over(100.0, 400.0, [20.0, 3_000.0].into_iter());
        assert_eq!((scale.at(10.0), scale.at(100.0), scale.at(10_000.0)), (100.0, 200.0, 400.0));
        let nothing = Scale::over(0.0, 1.0, [0.0, f64::NAN].into_iter());
        assert_eq!((nothing.at(1.0), nothing.at(10.0)), (0.0, 1.0));
    }

    #[test]
    fn lines_go_through_what_has_a_place() {
        let series = [
            Series {
                name: "one",
                class: "ours",
                points: vec![(0.0, 9.0), (8.0, 90.0), (9e4, 2e3)],
            },
            Series { name: "none", class: "floor", points: vec![] },
        ];
        let text = by_size("times", &series, round_time);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("prefers-color-scheme: dark"));
        assert_eq!(text.matches("class=\"line ours\"").count(), 2, "the line and the legend's");
        assert!(!text.contains("class=\"line floor\"") && !text.contains(">none<"));
        let points = text.lines().find(|line| line.contains("line ours")).unwrap();
        assert_eq!(points.matches(['M', 'L']).count(), 2, "{points}");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
