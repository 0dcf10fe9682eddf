//! The bill as text: findings, the breakdown of each method, the bets of each node.

use crate::bill::bets::{Row, rows};
use crate::bill::compare::Compared;
use crate::bill::findings::{Finding, Level, reasons, since};
use crate::bill::grid::{counted, grid, grouped, percent};
use crate::bill::recording::{Amount, Line, Recording, Session, Subject};
use std::io::{self, Write};
use upbeat_core::bill::timeline::time;

/// The width of a line of text, in columns.
const WIDTH: usize = 96;

/// Writes the bill.
pub(crate) fn write(
    recording: &Recording,
    findings: &[Finding],
    compared: Option<&[Compared]>,
    to: &mut impl Write,
) -> io::Result<()> {
    writeln!(to, "{}", summary(recording))?;
    writeln!(to, "\nFindings")?;
    for (at, finding) in findings.iter().enumerate() {
        let mark = match finding.level {
            Level::Late => "!",
            Level::Note => "-",
            Level::Calm => " ",
        };
        let number = format!("{mark}{:>3}. ", at + 1);
        wrapped(&finding.title, &number, to)?;
        wrapped(&finding.detail, "      ", to)?;
    }
    sessions(recording, to)?;
    for subject in &recording.subjects {
        breakdown(subject, to)?;
    }
    bets(recording, to)?;
    compared.map_or(Ok(()), |compared| comparison(compared, to))
}

/// Summarizes the recording in one line.
pub(crate) fn summary(recording: &Recording) -> String {
    let samples: Vec<&str> =
        recording.nodes.iter().filter(|node| node.samples).map(|node| node.name.as_str()).collect();
    let nodes = match samples.len() {
        0 => "nodes".to_owned(),
        1..=4 => format!("`{}`", samples.join("`, `")),
        more => format!("{more} nodes"),
    };
    let before = recording.before;
    let older = match before.included && before.samples > 0 {
        true => format!(
            "; {} older, the oldest by {}",
            counted(before.samples, "sample is", "samples are"),
            age(before.oldest_s)
        ),
        false => String::new(),
    };
    format!(
        "{} of {} seen by {nodes}, collected for {:.1} s{older}",
        counted(recording.samples(), "sample", "samples"),
        counted(recording.subjects.len() as u64, "kind of message", "kinds of messages"),
        recording.seconds,
    )
}

/// Formats an age with one digit behind the point.
fn age(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7_200.0 => format!("{:.1} min", s / 60.0),
        s if s < 172_800.0 => format!("{:.1} h", s / 3_600.0),
        s => format!("{:.1} days", s / 86_400.0),
    }
}

fn wrapped(text: &str, first: &str, to: &mut impl Write) -> io::Result<()> {
    let mut line = first.to_owned();
    let indent = " ".repeat(first.chars().count());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            writeln!(to, "{}", line.trim_end())?;
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line += word;
        empty = false;
    }
    writeln!(to, "{}", line.trim_end())
}

/// Writes the sessions whose messages were sampled, with their carriers.
fn sessions(recording: &Recording, to: &mut impl Write) -> io::Result<()> {
    let sessions = recording.sessions();
    if sessions.is_empty() {
        return Ok(());
    }
    writeln!(to, "\nSessions")?;
    let cells = |one: &Session<'_>| {
        let clocks = one.doubt.map_or_else(|| "one clock".into(), |ns| format!("± {}", time(ns)));
        vec![one.from.into(), one.to.into(), one.carried.clone(), grouped(one.samples), clocks]
    };
    let rows: Vec<Vec<String>> = sessions.iter().map(cells).collect();
    grid(&["from", "to", "carried by", ">samples", ">offset of clocks"], &rows, "  ", to)
}

fn breakdown(subject: &Subject, to: &mut impl Write) -> io::Result<()> {
    let Subject { from, to: callee, whole, .. } = subject;
    writeln!(
        to,
        "\n{}  {} from `{from}` to `{callee}`  ({}, {}; means from {})",
        subject.title(),
        subject.way.name,
        counted(subject.samples.stories, "full sample", "full samples"),
        counted(subject.samples.pairs, "pair of stamps", "pairs of stamps"),
        subject.means_from(),
    )?;
    let row = |line: &Line| {
        let mut row: Vec<String> =
            vec![line.item.name().into(), subject.node_of(line.leg).unwrap_or("").into()];
        if row[1].is_empty() {
            row[1] = line.leg.name().into();
        }
        let doubt = subject.doubt_of(line).map(|ns| format!(" ± {}", time(ns)));
        let mean = time(line.ns.mean) + doubt.as_deref().unwrap_or_default();
        row.extend([percent(subject.percent(line)), mean]);
        row.extend(percentiles(&line.ns));
        row
    };
    let counts = |line: &&Line| line.ns.mean.abs() >= 0.05 || line.ns.slowest() >= 0.05;
    let mut rows: Vec<Vec<String>> = subject.lines.iter().filter(counts).map(row).collect();
    let mut sum = vec!["all".into(), String::new(), "100%".into(), time(whole.mean)];
    sum.extend(percentiles(whole));
    rows.push(sum);
    grid(&["item", "where", ">part", ">mean", ">p50", ">p99", ">p99.9"], &rows, "  ", to)
}

/// Returns the median, p99 and p99.9. Of too few samples a percentile is not shown.
fn percentiles(of: &Amount) -> [String; 3] {
    [Some(of.p50), of.p99, of.p999].map(|ns| ns.map_or_else(|| "-".into(), time))
}

fn bets(recording: &Recording, to: &mut impl Write) -> io::Result<()> {
    let (rows, left_out) = rows(recording);
    if rows.is_empty() && left_out == 0 {
        return Ok(());
    }
    let cells = |row: &Row<'_>| {
        let mut cells = vec![row.node.name.clone(), row.bet.name.into()];
        let counts = [row.taken(), row.won, Some(row.lost)];
        cells.extend(counts.map(|count| count.map_or_else(|| "-".into(), grouped)));
        cells.push(row.percent().map_or_else(|| "-".into(), percent));
        cells.push(reasons(row.node, row.bet));
        cells
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    writeln!(to, "\nBets {}", since(recording))?;
    grid(&["node", "bet on", ">taken", ">won", ">lost", ">part", "lost because"], &rows, "  ", to)?;
    match left_out {
        0 => Ok(()),
        more => {
            writeln!(to, "  {} without a loss", counted(more as u64, "other bet", "other bets"))
        }
    }
}

fn comparison(compared: &[Compared], to: &mut impl Write) -> io::Result<()> {
    if compared.is_empty() {
        return writeln!(to, "\nThe two recordings have no method in common.");
    }
    for one in compared {
        writeln!(to, "\n{}  from `{}` to `{}`, compared", one.title, one.from, one.to)?;
        let row = |row: &crate::bill::compare::Row| {
            let change = row.change().map_or("new".into(), |change| format!("{change:+.1}%"));
            let leg = row.leg.unwrap_or("all");
            vec![row.name.into(), leg.into(), time(row.before), time(row.now), change]
        };
        let rows: Vec<Vec<String>> = one.rows.iter().map(row).collect();
        grid(&["item", "where", ">before", ">now", ">change"], &rows, "  ", to)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bill::compare::compare;
    use crate::bill::{example, findings};

    fn text() -> String {
        let recording = example::recording();
        let compared = compare(&recording, &recording);
        let found = findings::findings(&recording);
        let mut text = Vec::new();
        write(&recording, &found, Some(&compared), &mut text).unwrap();
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_report_has_times_and_lost_bets() {
        // The test joins lines, because sentences are broken into lines.
        let text = text().split_whitespace().collect::<Vec<_>>().join(" ");
        for told in [
            "Findings",
            "! ",
            "the lock `accounts`",
            "Bank.transfer call from `desk` to `bank`",
            "item where part mean",
            "p99.9",
            "Bets while they were observed",
            "waited for a lock (1,200)",
            "desk reads - - 21 - became calls (21)",
            "compared",
            "+0.0%",
        ] {
            assert!(text.contains(told), "{told}\n{text}");
        }
    }

    #[test]
    fn sentences_are_wrapped() {
        let text = text();
        let findings = text.lines().skip_while(|line| *line != "Findings").skip(1);
        let findings: Vec<&str> = findings.take_while(|line| !line.is_empty()).collect();
        assert!(findings.len() > 4 && findings.iter().all(|line| line.len() <= WIDTH), "{text}");
    }

    #[test]
    fn parts_of_a_method_add_up() {
        for subject in &example::recording().subjects {
            let sum: f64 = subject.lines.iter().map(|line| subject.percent(line)).sum();
            assert!((sum - 100.0).abs() < 0.1, "{sum}");
        }
    }
}
