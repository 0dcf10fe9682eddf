//! A message drawn over its two nodes, and its parts in one bar.

use super::category::{Category, category};
use super::html::{escaped, name};
use crate::bill::grid::percent;
use crate::bill::recording::{MessageTimes, Subject};
use std::fmt::Write;
use upbeat_core::bill::timeline::{Leg, Step, steps, time};

/// The smallest share of a bar that is labelled with a word.
const WORD_PERCENT: f64 = 7.0;
/// The smallest share of a bar that is labelled on a narrow page too.
const WIDE_PERCENT: f64 = 18.0;
/// The smallest share of a bar that is drawn; a smaller part would appear wider than it is.
const DRAWN_PERCENT: f64 = 0.2;
/// Steps that are a smaller share of their message are summed up in one row.
const STEP_PERCENT: f64 = 1.0;

/// Returns a bar of parts, each as wide as its share.
pub(super) fn bar(parts: &[(Category, f64)]) -> String {
    let sum: f64 = parts.iter().map(|(_, ns)| ns.max(0.0)).sum();
    let mut joined: Vec<(Category, f64)> = Vec::new();
    for (category, ns) in parts.iter().filter(|(_, ns)| *ns > 0.0) {
        match joined.last_mut() {
            Some((last, before)) if last == category => *before += ns,
            _ => joined.push((*category, *ns)),
        }
    }
    let (mut html, mut said) = (String::new(), Vec::new());
    for (category, ns) in joined {
        let share = 100.0 * ns / sum;
        if share < DRAWN_PERCENT {
            continue;
        }
        let word = match share {
            share if share >= WIDE_PERCENT => category.word.to_owned(),
            share if share >= WORD_PERCENT => format!("<em>{}</em>", category.word),
            _ => String::new(),
        };
        let told = format!("{}: {}, {}", category.sentence, time(ns), percent(share));
        let _ = write!(
            html,
            "<span class=\"{}\" style=\"flex-grow:{share:.3}\" title=\"{told}\">{word}</span>",
            category.class
        );
        if share >= STEP_PERCENT {
            said.push(told);
        }
    }
    format!("<div class=\"bar\" role=\"img\" aria-label=\"{}\">{html}</div>", said.join("; "))
}

/// Returns the bar of one message.
pub(super) fn told_bar(subject: &Subject, told: &MessageTimes) -> String {
    let parts: Vec<(Category, f64)> = steps(subject.way, &told.phases)
        .iter()
        .map(|step| (category(step.item, step.leg, step.took), step.took))
        .collect();
    bar(&parts)
}

/// Returns the bar of the means.
pub(super) fn mean_bar(subject: &Subject) -> String {
    let parts: Vec<(Category, f64)> = subject
        .lines
        .iter()
        .map(|line| (category(line.item, line.leg, line.ns.mean), line.ns.mean))
        .collect();
    bar(&parts)
}

/// Returns the panel of a message with its lanes and its steps.
pub(super) fn panel(subject: &Subject, what: &str, told: &MessageTimes) -> String {
    let (total, steps) = (told.total(), steps(subject.way, &told.phases));
    let mut happened: Vec<String> = told.events().map(escaped).collect();
    happened
        .extend(told.named().map(|(word, named)| format!("{word} <code>{}</code>", name(named))));
    let happened = match happened.len() {
        0 => String::new(),
        _ => format!(" <span class=\"happened\">{}</span>", happened.join(", ")),
    };
    format!(
        "<figure class=\"call\"><figcaption>{what} <strong>{}</strong>{happened}</figcaption>\
         {}{}</figure>",
        time(total),
        lanes(subject, &steps, total),
        table(subject, &steps, total),
    )
}

fn place(step: &Step, total: f64) -> (f64, f64) {
    let whole = total.max(f64::MIN_POSITIVE);
    (100.0 * step.from / whole, 100.0 * step.took / whole)
}

fn block(step: &Step, total: f64) -> String {
    let (left, width) = place(step, total);
    format!(
        "<i class=\"{}\" style=\"left:{left:.3}%;width:{width:.3}%\" title=\"{}: {}\"></i>",
        category(step.item, step.leg, step.took).class,
        step.item.name(),
        time(step.took)
    )
}

/// Returns three lanes: the caller's node, the wire, the callee's node.
fn lanes(subject: &Subject, steps: &[Step], total: f64) -> String {
    let lane = |title: &str, legs: &[Leg]| {
        let blocks: String = steps
            .iter()
            .filter(|step| legs.contains(&step.leg))
            .map(|one| block(one, total))
            .collect();
        format!("<span class=\"node\">{title}</span><span class=\"track\">{blocks}</span>")
    };
    format!(
        "<div class=\"lanes\" aria-hidden=\"true\">{}{}{}<span></span>\
         <span class=\"axis\"><b>0</b><b>{}</b><b>{}</b></span></div>",
        lane(&name(&subject.from), &[Leg::Caller]),
        lane("wire", &[Leg::Out, Leg::Back]),
        lane(&name(&subject.to), &[Leg::Callee]),
        time(total / 2.0),
        time(total),
    )
}

/// Returns the table of the steps that are large enough.
fn table(subject: &Subject, steps: &[Step], total: f64) -> String {
    let mut rows = String::new();
    let (mut others, mut rest) = (0_u64, 0.0);
    for step in steps {
        let (_, part) = place(step, total);
        if part < STEP_PERCENT {
            (others, rest) = (others + 1, rest + step.took);
            continue;
        }
        let node = subject.node_of(step.leg).map_or_else(|| step.leg.name().into(), name);
        let _ = write!(
            rows,
            "<tr><th scope=\"row\">{} <small>{node}</small></th>\
             <td class=\"track\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td></tr>",
            step.item.name(),
            block(step, total),
            time(step.took),
            percent(part),
        );
    }
    if others > 0 {
        let steps = crate::bill::grid::counted(others, "other step", "other steps");
        let share = percent(100.0 * rest / total.max(f64::MIN_POSITIVE));
        let _ = write!(
            rows,
            "<tr class=\"rest\"><th scope=\"row\">{steps}</th><td></td><td class=\"n\">{}</td>\
             <td class=\"n\">{share}</td></tr>",
            time(rest),
        );
    }
    format!(
        "<table class=\"steps\"><thead class=\"hidden\"><tr><th>step</th><th>when</th>\
         <th>took</th><th>part</th></tr></thead><tbody>{rows}</tbody></table>"
    )
}
