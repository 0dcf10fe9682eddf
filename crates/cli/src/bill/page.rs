//! The bill as one HTML page without external files: the findings first, then the times of each
//! method.
//!
//! The page is readable without scripts; its only script compares the recording with another one.
//! Invariant: the page loads nothing, and all text that comes from a program is escaped.

mod html;
mod category;
mod chart;
mod call;
mod tables;

use crate::bill::compare::Compared;
use crate::bill::findings::{Finding, Level};
use crate::bill::grid::{capital, counted};
use crate::bill::recording::{Line, Recording, Subject};
use crate::bill::report::summary;
use call::{mean_bar, panel, told_bar};
use category::{CATEGORIES, Category, category};
use html::{escaped, filled, json, name, sentence};
use serde_json::{Value, json as value};
use std::fmt::Write;
use upbeat_core::bill::Item;
use upbeat_core::bill::timeline::time;

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// The number of methods above which only those with late messages are unfolded.
const UNFOLDED: usize = 6;

/// Returns the HTML of the page.
pub(crate) fn page(
    recording: &Recording,
    findings: &[Finding],
    compared: Option<&[Compared]>,
) -> String {
    let methods: String = recording
        .subjects
        .iter()
        .enumerate()
        .map(|(at, subject)| method(at, subject, unfolded(recording, findings, at)))
        .collect();
    let (bets, sessions) = (tables::bets(recording), tables::sessions(recording));
    let compared = compared.map(tables::compared).unwrap_or_default();
    filled(
        TEMPLATE,
        &[
            ("style", STYLE),
            ("script", SCRIPT),
            ("when", &when(recording.taken)),
            ("summary", &sentence(&summary(recording))),
            ("findings", &found(recording, findings)),
            ("legend", &legend(recording)),
            ("overview", &tables::methods(recording)),
            ("sessions", &sessions),
            ("no-sessions", if sessions.is_empty() { "hidden" } else { "" }),
            ("methods", &methods),
            ("bets", &bets),
            ("no-bets", if bets.is_empty() { "" } else { "hidden" }),
            ("compared", &compared),
            ("items", &glossary()),
            ("recording", &json(&figures(recording))),
        ],
    )
}

fn unfolded(recording: &Recording, findings: &[Finding], at: usize) -> bool {
    let late = |one: &Finding| one.level == Level::Late && one.subject == Some(at);
    recording.subjects.len() <= UNFOLDED || findings.iter().any(late)
}

/// Returns the findings. A finding about a slow message has the bar of that message.
fn found(recording: &Recording, findings: &[Finding]) -> String {
    let mut html = String::new();
    for finding in findings {
        let (class, word) = match finding.level {
            Level::Late => ("late", "late"),
            Level::Note => ("note", "note"),
            Level::Calm => ("calm", "usual"),
        };
        let subject = finding.subject.and_then(|at| Some((at, recording.subjects.get(at)?)));
        let slow = subject.filter(|_| finding.level == Level::Late);
        let bar = slow.and_then(|(_, one)| Some(told_bar(one, one.slow()?))).unwrap_or_default();
        let link = subject.map_or_else(String::new, |(at, one)| {
            format!(" <a href=\"#m{at}\">See {}</a>", name(&one.title()))
        });
        let _ = write!(
            html,
            "<li class=\"{class}\"><span class=\"level\">{word}</span><div><p class=\"what\">{}</p>\
             {bar}<p class=\"more\">{}{link}</p></div></li>",
            sentence(&finding.title),
            sentence(&finding.detail),
        );
    }
    html
}

/// Returns the legend of the colours that the page uses.
fn legend(recording: &Recording) -> String {
    let lines = || recording.subjects.iter().flat_map(|subject| &subject.lines);
    let of = |line: &Line| {
        [line.ns.mean, line.ns.max].map(|ns| (ns > 0.0, category(line.item, line.leg, ns)))
    };
    let seen =
        |category: &&Category| lines().flat_map(of).any(|(some, one)| some && one == **category);
    let entry = |category: &Category| {
        format!(
            "<li><span class=\"{} swatch\"></span><b>{}</b> {}</li>",
            category.class, category.word, category.sentence
        )
    };
    CATEGORIES.iter().filter(seen).map(entry).collect()
}

/// Returns the section about one method.
fn method(at: usize, subject: &Subject, open: bool) -> String {
    let Subject { from, to, way, whole, samples, .. } = subject;
    let slow_name = subject.slow_name();
    let row = |name: &str, ns: f64, bar: String| {
        format!("<div class=\"row\"><span>{name}</span>{bar}<b>{}</b></div>", time(ns))
    };
    let mut bars = row("mean of all messages", whole.mean, mean_bar(subject));
    let mut panels = String::new();
    if let Some(told) = subject.typical() {
        bars += &row("a typical message", told.total(), told_bar(subject, told));
        panels += &panel(subject, "A typical message:", told);
    }
    if let Some(told) = subject.slow() {
        bars += &row(&slow_name, told.total(), told_bar(subject, told));
        panels += &panel(subject, &format!("{}:", capital(&slow_name)), told);
    }
    let counts = format!(
        "{}, {}; the means are from {}",
        counted(samples.stories, "full sample", "full samples"),
        counted(samples.pairs, "pair of stamps", "pairs of stamps"),
        escaped(subject.means_from()),
    );
    let chart = if samples.stories > 0 {
        chart::big(&subject.totals, whole, &slow_name)
    } else {
        "<p>There are no full samples, so no single message can be shown.</p>".into()
    };
    format!(
        "<details id=\"m{at}\" class=\"method\"{}><summary><h2>{}</h2> <span>{} from {} to {}</span>\
         </summary><p class=\"counts\">{counts}.</p><div class=\"bars\">{bars}</div>\
         <div class=\"panels\">{panels}</div><h3>How long they took</h3>{chart}\
         <h3>Item by item</h3><div class=\"scroll\" tabindex=\"0\" role=\"region\" \
         aria-label=\"Items of {}\"><table class=\"items\"><thead><tr><th scope=\"col\">item</th>\
         <th scope=\"col\" colspan=\"2\">part of the mean</th><th scope=\"col\" class=\"n\">mean</th>\
         <th scope=\"col\" class=\"n\">median</th><th scope=\"col\" class=\"n\">p99</th>\
         <th scope=\"col\" class=\"n\">p99.9</th><th scope=\"col\">spread</th></tr></thead>\
         <tbody>{}</tbody></table></div></details>",
        if open { " open" } else { "" },
        name(&subject.title()),
        way.name,
        name(from),
        name(to),
        escaped(&subject.title()),
        tables::items(subject),
    )
}

fn glossary() -> String {
    let times = Item::ALL.iter().filter(|item| item.is_time());
    times.map(|item| format!("<dt>{}</dt><dd>{}</dd>", item.name(), item.sentence())).collect()
}

/// Returns the figures that the script compares with another recording.
fn figures(recording: &Recording) -> Value {
    let subject = |one: &Subject| {
        let lines: Vec<Value> = one
            .lines
            .iter()
            .map(|line| value!({"item": line.item.name(), "leg": line.leg.name(), "mean": line.ns.mean}))
            .collect();
        value!({
            "from": one.from, "to": one.to, "service": one.service, "method": one.method,
            "way": one.way.name, "whole": one.whole, "lines": lines,
        })
    };
    let subjects: Vec<Value> = recording.subjects.iter().map(subject).collect();
    value!({"subjects": subjects})
}

/// Formats seconds since 1970 as a date and a time of day, in UTC.
fn when(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // In this calculation a year begins in March, so that a leap day is its last day; 400 years are an era.
    let shifted = days.min(3_000_000) + 719_468;
    let (era, day) = (shifted / 146_097, shifted % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = year + era * 400 + next;
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    format!("{year}-{month:02}-{date:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests;
