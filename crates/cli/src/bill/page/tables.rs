//! The tables of the page: methods, items, bets, and the comparison of two recordings.

use super::call::mean_bar;
use super::category::category;
use super::chart::{Axis, small};
use super::html::{escaped, name};
use crate::bill::bets::rows;
use crate::bill::compare::Compared;
use crate::bill::findings::reasons;
use crate::bill::grid::{counted, grouped, percent};
use crate::bill::recording::{Recording, Subject};
use std::fmt::Write;
use upbeat_core::bill::timeline::time;

/// The smallest change in percent that is marked.
const CHANGED_PERCENT: f64 = 10.0;

/// Formats a percentile; of too few samples it is not shown.
fn tail(percentile: Option<f64>) -> String {
    percentile.map_or_else(|| "–".into(), time)
}

/// Returns a row for each method, with the means of its items.
pub(super) fn methods(recording: &Recording) -> String {
    let mut rows = String::new();
    for (at, subject) in recording.subjects.iter().enumerate() {
        let whole = &subject.whole;
        let _ = write!(
            rows,
            "<tr><th scope=\"row\"><a href=\"#m{at}\">{}</a><small>{} → {}</small></th>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"wide\">{}</td></tr>",
            name(&subject.title()),
            name(&subject.from),
            name(&subject.to),
            grouped(subject.samples.count()),
            time(whole.p50),
            tail(whole.p99),
            tail(whole.p999),
            mean_bar(subject),
        );
    }
    rows
}

/// Returns a row for each session whose messages were sampled.
pub(super) fn sessions(recording: &Recording) -> String {
    let mut rows = String::new();
    for one in recording.sessions() {
        let clocks = one.doubt.map_or_else(|| "one clock".into(), |ns| format!("± {}", time(ns)));
        let _ = write!(
            rows,
            "<tr><th scope=\"row\">{} → {}</th><td>{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{clocks}</td></tr>",
            name(one.from),
            name(one.to),
            escaped(&one.carried),
            grouped(one.samples),
        );
    }
    rows
}

/// Returns the breakdown of a method.
pub(super) fn items(subject: &Subject) -> String {
    let axis = Axis::of(&subject.totals).with_one();
    let most = subject.lines.iter().map(|line| subject.percent(line)).fold(1.0, f64::max);
    let mut rows = String::new();
    let counts = |ns: f64| ns.abs() >= 0.05;
    for line in subject.lines.iter().filter(|one| counts(one.ns.mean) || counts(one.ns.slowest())) {
        let node = subject.node_of(line.leg).map_or_else(|| line.leg.name().into(), name);
        let part = subject.percent(line);
        let doubt = subject.doubt_of(line).map(|ns| format!(" ± {}", time(ns)));
        let mean = time(line.ns.mean) + doubt.as_deref().unwrap_or_default();
        let _ = write!(
            rows,
            "<tr><th scope=\"row\" title=\"{}\">{} <small>{node}</small></th>\
             <td class=\"part\"><span class=\"{}\" style=\"width:{:.2}%\"></span></td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td></tr>",
            escaped(line.item.sentence()),
            line.item.name(),
            category(line.item, line.leg, line.ns.mean).class,
            (100.0 * part / most).clamp(0.0, 100.0),
            percent(part),
            mean,
            time(line.ns.p50),
            tail(line.ns.p99),
            tail(line.ns.p999),
            small(&line.spread, axis),
        );
    }
    let whole = &subject.whole;
    let _ = write!(
        rows,
        "<tr class=\"sum\"><th scope=\"row\">all</th><td></td><td class=\"n\">100%</td>\
         <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
         <td class=\"n\">{}</td><td>{}</td></tr>",
        time(whole.mean),
        time(whole.p50),
        tail(whole.p99),
        tail(whole.p999),
        small(&subject.totals, axis),
    );
    rows
}

/// Returns the bets of each node.
pub(super) fn bets(recording: &Recording) -> String {
    let mut html = String::new();
    let (rows, left_out) = rows(recording);
    for row in rows {
        let lost = match row.percent() {
            Some(part) if row.lost > 0 => {
                format!("<span class=\"lost\" style=\"width:{part:.2}%\"></span>")
            }
            _ => String::new(),
        };
        let known = |count: Option<u64>| count.map_or_else(|| "-".into(), grouped);
        let _ = write!(
            html,
            "<tr><th scope=\"row\">{} <small>process {}</small></th>\
             <td title=\"{}\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td>\
             <td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"part\">{lost}</td>\
             <td class=\"words\">{}</td></tr>",
            name(&row.node.name),
            row.node.pid,
            escaped(row.bet.sentence),
            row.bet.name,
            known(row.taken()),
            known(row.won),
            grouped(row.lost),
            row.percent().map_or_else(|| "-".into(), percent),
            escaped(&reasons(row.node, row.bet)),
        );
    }
    if left_out > 0 {
        let others = counted(left_out as u64, "other bet", "other bets");
        let _ = write!(html, "<tr><td colspan=\"8\">{others} without a loss</td></tr>");
    }
    html
}

/// Returns the comparison of two recordings. The script of the page makes the same table from a file.
pub(super) fn compared(compared: &[Compared]) -> String {
    let mut html = String::new();
    for one in compared {
        let mut rows = String::new();
        for row in &one.rows {
            let leg = row.leg.unwrap_or("all");
            let (class, change) = match row.change() {
                None => ("", "new".to_owned()),
                Some(change) => (changed(change), format!("{change:+.1}%")),
            };
            let _ = write!(
                rows,
                "<tr><th scope=\"row\">{} <small>{leg}</small></th><td class=\"n\">{}</td>\
                 <td class=\"n\">{}</td><td class=\"n {class}\">{change}</td></tr>",
                row.name,
                time(row.before),
                time(row.now),
            );
        }
        let _ = write!(
            html,
            "<h3>{} <small>{} → {}</small></h3><div class=\"scroll\"><table><thead><tr>\
             <th scope=\"col\">item</th><th scope=\"col\" class=\"n\">before</th>\
             <th scope=\"col\" class=\"n\">now</th><th scope=\"col\" class=\"n\">change</th></tr>\
             </thead><tbody>{rows}</tbody></table></div>",
            name(&one.title),
            name(&one.from),
            name(&one.to),
        );
    }
    if html.is_empty() {
        "<p>The two recordings have no method in common.</p>".into()
    } else {
        html
    }
}

fn changed(percent: f64) -> &'static str {
    match percent {
        more if more >= CHANGED_PERCENT => "worse",
        less if less <= -CHANGED_PERCENT => "better",
        _ => "",
    }
}
