//! The table in README.md and the plot beside it, written from a run.

use crate::plot;
use crate::run::LOAD;
use crate::summary::{Figure, Line, Summary};
use bench::figures::origin::{commit, processor, today};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use upbeat_cli::bench::report::short;
use upbeat_core::bill::timeline::time;

/// The line before the generated text.
const BEGIN: &str =
    "<!-- PEERS: written by `cargo run --release -p bench -- peers --write-readme` -->";
const END: &str = "<!-- END OF PEERS -->";

/// The path of the plot from the repository's root.
const PLOT: &str = "docs/peers.svg";

/// The text of README.md around the table.
pub(crate) struct Readme {
    root: PathBuf,
    before: String,
    after: String,
}

impl Readme {
    /// Reads README.md before the run, so that an unusable file is reported first.
    pub(crate) fn open() -> Result<Readme, String> {
        // Cargo names the directory of this run; the constant names the directory of the build.
        let here = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = here.ancestors().nth(3).unwrap_or(Path::new(".")).to_owned();
        let path = root.join("README.md");
        let text = std::fs::read_to_string(&path)
            .map_err(|error| format!("{} cannot be read: {error}", path.display()))?;
        let (before, after) = around(&text).ok_or_else(|| {
            format!("{} needs the lines `{BEGIN}` and `{END}`, in this order", path.display())
        })?;
        Ok(Readme { root, before: before.to_owned(), after: after.to_owned() })
    }

    /// Writes the table and the plot.
    pub(crate) fn write(&self, summary: &Summary, quick: bool) -> Result<(), String> {
        let text = format!("{}\n{}{}", self.before, section(summary, quick), self.after);
        for (path, text) in [("README.md", text), (PLOT, plot::svg(summary))] {
            let path = self.root.join(path);
            std::fs::write(&path, text)
                .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// Returns the text up to the end of the first line, and from the last line on.
fn around(text: &str) -> Option<(&str, &str)> {
    let begin = text.find(BEGIN)? + BEGIN.len();
    let end = begin + text[begin..].find(END)?;
    Some((&text[..begin], &text[end..]))
}

/// Returns the table, the plot, and the origin of the figures.
fn section(summary: &Summary, quick: bool) -> String {
    let mut to = String::from(
        "\n| | waits by | null call | ratio to Upbeat | 1 KiB each way | one-way, 8 bytes |\n\
         |---|---|---|---|---|---|\n",
    );
    for line in summary.lines.iter().filter(|line| line.has_calls()) {
        let (name, ratio) = (name(line), ratio(line.null));
        let rate = line.stream.map_or("-".into(), |one| format!("{}/s", short(1e9 / one.ns)));
        let (null, kib1, mode) = (took(line.null), took(line.kib1), line.mode.word());
        let _ = writeln!(to, "| {name} | {mode} | {null} | {ratio} | {kib1} | {rate} |");
    }
    let _ = writeln!(to, "\n![What calls and messages cost on Upbeat and on its peers]({PLOT})\n");
    to.push_str(&reads(summary));
    let _ = writeln!(to, "{}\n", origin(summary, quick));
    to
}

/// Returns the table of the reads, if there are any.
fn reads(summary: &Summary) -> String {
    let mut lines: Vec<&Line> = summary.lines.iter().filter(|line| line.has_reads()).collect();
    if lines.is_empty() {
        return String::new();
    }
    let cost = |line: &Line| line.read.map_or(f64::INFINITY, |figure| figure.ns);
    lines.sort_by(|a, b| cost(a).total_cmp(&cost(b)));
    let mut to = String::from(
        "| a variable of the other process | read of 8 bytes | ratio to Upbeat | read of 1 KiB | \
         ratio to Upbeat |\n|---|---|---|---|---|\n",
    );
    for line in lines {
        let (read, kib1) = (took(line.read), took(line.read_kib1));
        let (of_read, of_kib1) = (ratio(line.read), ratio(line.read_kib1));
        let _ = writeln!(to, "| {} | {read} | {of_read} | {kib1} | {of_kib1} |", name(line));
    }
    to + "\n"
}

/// Returns the label of a way, which stands out if it is ours.
fn name(line: &Line) -> String {
    if line.is_ours() { format!("**{}**", line.label()) } else { line.label() }
}

fn took(figure: Option<Figure>) -> String {
    figure.map_or("-".into(), |one| time(one.ns))
}

/// Returns the ratio to Upbeat. Upbeat's own figures have none, and are what the others are compared with.
fn ratio(figure: Option<Figure>) -> String {
    match figure.map(|figure| figure.of_ours) {
        Some(Some(ratio)) => format!("{ratio:.*}", if ratio < 10.0 { 2 } else { 0 }),
        Some(None) => "1".to_owned(),
        None => "-".to_owned(),
    }
}

/// Returns the machine, the baselines, the date, the commit and the versions.
fn origin(summary: &Summary, quick: bool) -> String {
    let command = format!("peers --write-readme{}", if quick { " --quick" } else { "" });
    let mut floors = Vec::new();
    if let Some(ns) = summary.line_ns {
        floors.push(format!("the round trip of a cache line took {}", time(ns)));
    }
    if let Some(ns) = summary.eventfd_ns {
        floors.push(format!("that of two eventfds, both sides sleeping, {}", time(ns)));
    }
    format!(
        "Medians of one run of `cargo run --release -p bench -- {command}`\n\
         on {}, the two CPUs placed in {};\n\
         there {}.\n\
         Measured on {}, at commit {}.\n\
         Versions: {}.",
        processor(),
        summary.placement,
        floors.join(", "),
        today(),
        commit(Path::new(env!("CARGO_MANIFEST_DIR"))),
        versions(summary).join(", ")
    )
}

/// Returns the versions that were built, from the lock file.
fn versions(summary: &Summary) -> Vec<String> {
    let others = summary.lines.iter().filter(|line| !line.is_ours() && line.peer != LOAD);
    let mut peers: Vec<&str> = others.map(|line| line.peer).collect();
    peers.sort_unstable();
    peers.dedup();
    let said = |&peer: &&str| {
        let (name, version) = match peer {
            "ucx" => ("ucx", ucx_version()),
            // This crate contains libzmq.
            "zeromq" => ("zeromq-src", locked("zeromq-src")),
            other => (other, locked(other)),
        };
        format!("{name} {}", version.as_deref().unwrap_or("unknown"))
    };
    peers.iter().map(said).collect()
}

fn locked(package: &str) -> Option<String> {
    let entry = format!("name = \"{package}\"\nversion = \"");
    let rest = include_str!("../Cargo.lock").split_once(&entry)?.1;
    Some(rest.split_once('"')?.0.to_owned())
}

fn ucx_version() -> Option<String> {
    let output = Command::new("ucx_info").arg("-v").output().ok()?;
    let said = String::from_utf8(output.stdout).ok()?;
    let is_version = |word: &&str| word.starts_with(|first: char| first.is_ascii_digit());
    Some(said.split_whitespace().find(is_version)?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{BEGIN, END, around, locked, section};
    use crate::case::Mode;
    use crate::plot::svg;
    use crate::summary::{Figure, Line, Summary};
    use upbeat_cli::bench::report::Placement;

    fn summary() -> Summary {
        let line = |peer, mode, ns, of_ours, stream| Line {
            peer,
            carrier: "shared",
            mode,
            null: Some(Figure { ns, of_ours }),
            kib1: None,
            stream,
            read: None,
            read_kib1: None,
        };
        let stream = Some(Figure { ns: 40.0, of_ours: None });
        let figure = |ns, of_ours| Some(Figure { ns, of_ours });
        let upbeat = line("upbeat", Mode::Polling, 150.0, None, stream);
        let load = line("load", Mode::Polling, 0.0, None, None);
        let lines = vec![
            Line { read: figure(6.0, None), read_kib1: figure(30.0, None), ..upbeat },
            line("tarpc", Mode::Sleeping, 31_000.0, Some(0.6), None),
            Line { null: None, read: figure(2.0, Some(0.33)), ..load },
        ];
        let (line_ns, eventfd_ns) = (Some(110.0), None);
        Summary { placement: Placement::OneL3, lines, line_ns, eventfd_ns }
    }

    #[test]
    fn what_stands_around_the_table_stays() {
        let text = format!("above\n{BEGIN}\nold\n{END}\nbelow\n");
        let (before, after) = around(&text).unwrap();
        assert_eq!(before, format!("above\n{BEGIN}"));
        assert_eq!(after, format!("{END}\nbelow\n"));
        assert!(around("nothing").is_none());
        assert!(around(&format!("{END}{BEGIN}")).is_none());
    }

    #[test]
    fn the_table_has_a_line_for_each_way() {
        let text = section(&summary(), true);
        assert!(text.contains("| **Upbeat** | polling | 150.0 ns | 1 | - | 25.0 M/s |"), "{text}");
        assert!(text.contains("| tarpc | sleeping | 31.00 us | 0.60 | - | - |"), "{text}");
        assert!(!text.contains("| a bare load or copy | polling |"), "{text}");
        assert!(text.contains("--quick`\non ") && text.contains("took 110.0 ns"), "{text}");
        assert!(text.contains(&format!("tarpc {}", locked("tarpc").unwrap())), "{text}");
    }

    #[test]
    fn the_table_of_reads_begins_with_the_fastest() {
        let text = section(&summary(), true);
        let rows: Vec<&str> = text.lines().skip_while(|line| !line.starts_with("| a v")).collect();
        assert_eq!(rows[2], "| a bare load or copy | 2.0 ns | 0.33 | - | - |");
        assert_eq!(rows[3], "| **Upbeat** | 6.0 ns | 1 | 30.0 ns | 1 |");
        assert_eq!(rows[4], "", "{text}");
        assert!(text.contains("Versions: tarpc "), "a load has no version: {text}");
    }

    #[test]
    fn the_plot_is_whole_and_follows_the_reader() {
        let text = svg(&summary());
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("prefers-color-scheme: dark"));
        assert_eq!(text.matches("<rect").count(), 3 + 3, "bars and legend");
        assert!(!text.contains("NaN") && !text.contains("inf\""), "{text}");
    }
}
