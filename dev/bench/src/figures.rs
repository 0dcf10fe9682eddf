//! `bench figures`: measures every figure of README.md and docs/, and writes them between the marks of these files.
//!
//! A run is stored in docs/figures.json, with the machine, the placement, the date and the commit. The texts between the
//! marks are made from the stored run alone, so that `--check`, and a test, find out whether somebody has typed one.
//! Invariant: a run in which a figure is missing writes nothing and names the figure.

pub mod origin;
mod stored;
mod readme;
mod papers;
mod documents;

use crate::error::Error;
use crate::everything;
use clap::Args;
use documents::Document;
use origin::Origin;
use std::path::{Path, PathBuf};
use stored::{Row, Run};
use upbeat_cli::bench::SUITE;
use upbeat_cli::bench::report::LeftOut;
use upbeat_cli::bench::suite::Choice;

/// The arguments of `bench figures`.
#[derive(Debug, Args)]
#[command(after_long_help = HELP)]
pub(crate) struct Arguments {
    /// End within some two minutes, with fewer rounds of everything
    #[arg(long)]
    quick: bool,
    /// Measure nothing: check that the documents have the figures of the stored run
    #[arg(long, conflicts_with_all = ["quick", "peers"])]
    check: bool,
    /// Measure the other libraries as well, which takes some minutes to build
    #[arg(long)]
    peers: bool,
}

const HELP: &str = "\
Measures what README.md and docs/papers.md say in figures, stores the run in docs/figures.json, and
writes the texts between the marks `<!-- FIGURES … -->` of those files. It takes some seven minutes.
The figures of other libraries stay as they are, with their own date and commit, unless --peers is
given. A figure that cannot be measured is named, and then nothing is written.

Let nothing else run on the machine meanwhile.";

/// The tries for the figures of README.md, after which a missing one is an error.
const TRIES: u32 = 3;

/// Runs `bench figures`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Error> {
    let root = root();
    if arguments.check {
        return check(&root);
    }
    // Files that cannot be written are found before anything is measured.
    let documents = documents::open(&root)?;
    let origin = Origin::here(&root, arguments.quick);
    let rows = measure(arguments.quick)?;
    eprintln!("bench: measuring what stands beside the papers");
    let mut outcome = everything::measure(arguments.quick, None, None)?;
    for _ in 1..TRIES {
        outcome.complete(arguments.quick)?;
    }
    let missing: Vec<String> = outcome.missing().into_iter().map(|one| one.text).collect();
    if !missing.is_empty() {
        return Err(not_measured(&missing, &outcome.left_out));
    }
    let run = Run { origin, rows, papers: outcome.today };
    run.write(&root)?;
    write(&run, &documents)?;
    eprintln!("bench: the figures of README.md and docs/papers.md are those of this run");
    if arguments.peers {
        return crate::peers::write_readme(arguments.quick);
    }
    Ok(())
}

/// Measures the cases of README.md, those that are missing once more.
fn measure(quick: bool) -> Result<Vec<Row>, Error> {
    let mut rows: Vec<Row> = Vec::new();
    let mut reasons = Vec::new();
    for attempt in 1..=TRIES {
        let missing: Vec<&str> = readme::missing(&rows);
        if missing.is_empty() {
            return Ok(rows);
        }
        eprintln!("bench: measuring {} cases of README.md, try {attempt}", missing.len());
        let cases: Vec<String> = missing.iter().map(|case| (*case).to_owned()).collect();
        let choice = Choice { cases, list: false, quick, seconds: None, json: false, pin: None };
        let chosen = SUITE.chosen(&choice)?;
        chosen.collect(
            |_, _| false,
            |bench, measured| {
                eprintln!("bench: measured {}", bench.name);
                for row in &measured.rows {
                    rows.push(stored::again(row)?);
                }
                reasons = measured.left_out;
                Ok::<(), Error>(())
            },
        )?;
    }
    let missing: Vec<String> = readme::missing(&rows).into_iter().map(str::to_owned).collect();
    if missing.is_empty() { Ok(rows) } else { Err(not_measured(&missing, &reasons)) }
}

fn not_measured(missing: &[String], left_out: &[LeftOut]) -> Error {
    let mut text = format!("{} figures cannot be measured, and nothing is written:", missing.len());
    for one in missing {
        text.push_str(&format!("\n  {one}"));
    }
    for LeftOut { bench, case, left_out, .. } in left_out {
        text.push_str(&format!("\n  {bench}/{case} was left out: {left_out}"));
    }
    text.push_str("\nlet nothing else run on this machine, and repeat `cargo xtask figures`");
    Error::Figures { text }
}

/// Returns the text between the marks of a document.
fn text(document: &Document, run: &Run) -> Result<String, Error> {
    match document.name {
        documents::README => readme::text(run),
        _ => Ok(papers::text(run)),
    }
}

fn write(run: &Run, documents: &[Document]) -> Result<(), Error> {
    for document in documents {
        document.write(&text(document, run)?)?;
    }
    Ok(())
}

/// Checks that the documents have the figures of the stored run.
fn check(root: &Path) -> Result<(), Error> {
    let run = Run::read(root)?;
    for document in documents::open(root)? {
        // Without a stored run nothing stands between the marks.
        let text = run.as_ref().map_or(Ok("\n".to_owned()), |run| text(&document, run))?;
        if document.between() != text {
            let name = document.name;
            let text = format!(
                "{name} has other figures than the run in {} has: run `cargo xtask figures`, and type no figure",
                stored::PATH
            );
            return Err(Error::Figures { text });
        }
    }
    Ok(())
}

/// Returns the root of the repository: Cargo says where this is run, the constant says where it was built.
fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    here.ancestors().nth(2).unwrap_or(Path::new(".")).to_owned()
}

#[cfg(test)]
mod tests {
    use super::readme::FIGURES;
    use super::{check, root};

    #[test]
    fn the_documents_have_the_figures_of_the_stored_run() {
        if let Err(error) = check(&root()) {
            panic!("{error}");
        }
    }

    #[test]
    fn every_figure_of_the_readme_is_a_case() {
        let listed: Vec<String> = upbeat_cli::bench::SUITE
            .benches
            .iter()
            .flat_map(|bench| {
                (bench.list)().into_iter().map(|(case, _)| format!("{}/{case}", bench.name))
            })
            .collect();
        for figure in FIGURES {
            assert!(listed.iter().any(|case| case == figure.case), "{}", figure.case);
        }
    }
}
