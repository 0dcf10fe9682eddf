//! The text of docs/papers.md.

use super::stored::Run;
use crate::papers::figures::all;
use crate::papers::report::Section;
use std::fmt::Write;

/// Returns the text between the marks: a chapter for each paper.
pub(super) fn text(run: &Run) -> String {
    let mut to = String::from("\n");
    let _ = writeln!(to, "{}\n", super::readme::origin(run));
    let mut system = "";
    for entry in all() {
        if entry.system() != system {
            system = entry.system();
            let _ = writeln!(to, "### {system}\n\n{}.\n", entry.paper());
        }
        section(&Section::of(entry, &run.papers), &mut to);
    }
    to
}

fn section(section: &Section, to: &mut String) {
    let _ = writeln!(to, "**{}.** {}\n", section.title, section.conditions.join(" "));
    if section.heads.is_empty() {
        return;
    }
    let _ = writeln!(to, "| {} |", section.heads.join(" | "));
    let _ = writeln!(to, "|{}", "---|".repeat(section.heads.len()));
    for row in &section.rows {
        let _ = writeln!(to, "| {} |", row.join(" | "));
    }
    to.push('\n');
}
