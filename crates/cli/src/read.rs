//! `upbeat read` prints what the nodes of a running program export.
//!
//! The command calls the owner for each value by a handle, so it reads from any host, with any identity of the program.
//! The types come from the owner. A node of this process alone has the clock, and waits for Ctrl-C.

mod error;
mod patience;
mod target;
mod form;

use crate::exit;
use clap::Args;
pub(crate) use error::ReadError;
use form::Form;
use patience::patient;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use target::{Found, Selected, find};
use upbeat::Node;

/// The least time between two values that are printed.
const PRINTS_EVERY: Duration = Duration::from_millis(100);

const EXAMPLES: &str = "\
Examples:
  upbeat read shop prices                            what the node `prices` exports, with types
  upbeat read shop prices/quotes                     a whole value
  upbeat read shop 'prices/quotes.book[7].bid'       a part of it
  upbeat read shop 'prices/desk.positions[\"EUR\"]'    an entry of a map; `limit?` is the value of an option
  upbeat read shop 'prices/desk.largest*.price'      a field behind a pointer
  upbeat read shop prices/quotes.count --watch       a part of it, again whenever it has changed
  upbeat read shop prices/quotes.name --json         one JSON object, for a program

A node that names no program belongs to the program `default`. A node on another host is written
`prices@host:7000`, and is read with the identity that UPBEAT_IDENTITY names.";

/// The arguments of `upbeat read`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The program of the node
    #[arg(value_name = "PROGRAM")]
    program: String,

    /// The node alone, which lists its exports; or the node, an export and a path of fields and indexes
    #[arg(value_name = "NODE[/NAME[.PATH]]")]
    target: String,

    /// Print the value again whenever it has changed, until Ctrl-C
    #[arg(long)]
    watch: bool,

    /// Print one JSON object instead of text; with --watch, one per line
    #[arg(long)]
    json: bool,
}

/// Runs `upbeat read`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), ReadError> {
    // The node talks to nobody: the identity in the environment is for the handle, and not for the node's name.
    let node = Node::builder("upbeat-read").local_only().insecure_plaintext().build();
    let node = node.map_err(ReadError::Node)?;
    let interrupted = async {
        upbeat::ctrl_c().await.map_err(ReadError::Signals)?;
        Err(ReadError::Interrupted)
    };
    type Ends<'a> = Pin<Box<dyn Future<Output = Result<(), ReadError>> + 'a>>;
    let (work, interrupted): (Ends, Ends) = (Box::pin(read(arguments)), Box::pin(interrupted));
    node.block_on(upbeat::race([work, interrupted]))
}

/// Prints the value or the list for which the user asks.
async fn read(arguments: &Arguments) -> Result<(), ReadError> {
    let form = Form { json: arguments.json };
    let selected = match find(&arguments.program, &arguments.target).await? {
        Found::Part(selected) => selected,
        Found::Node(_) if arguments.watch => return Err(ReadError::WatchesNode),
        Found::Node(exports) => return printed(&form.list(&arguments.target, &exports)),
    };
    let (mut last, mut version) = patient(&selected.name, next(form, &selected, None)).await??;
    printed(&form.heading(&selected))?;
    printed(&last)?;
    if !arguments.watch {
        return Ok(());
    }
    loop {
        upbeat::sleep(PRINTS_EVERY).await;
        let text;
        (text, version) = next(form, &selected, Some(version)).await?;
        // The owner tells of changes of the struct around the value, too.
        if text != last {
            printed(&text)?;
            last = text;
        }
    }
}

/// Waits until a value has another version than this one. Returns its text and its version.
async fn next(
    form: Form,
    selected: &Selected,
    version: Option<u64>,
) -> Result<(String, u64), ReadError> {
    let answer = selected.export.changed(&selected.selection, version).await;
    let bytes = 8 * selected.selection.shape.words();
    let (value, version) =
        answer.map_err(|error| ReadError::of_part(error, &selected.name, bytes))?;
    Ok((form.value(selected, &value), version))
}

fn printed(text: &str) -> Result<(), ReadError> {
    exit::print(text).map_err(ReadError::Output)
}
