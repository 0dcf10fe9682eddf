//! `upbeat keys` makes a program's private authority and the identities of its nodes.
//!
//! The authority is a file with a certificate and its key, which is needed only where identities are issued. An
//! identity is a separate file ([`upbeat_transport::identity`]). A file is written under another name, readable
//! by its owner alone, and renamed after it was found to be correct.

mod error;
mod target;
mod authority;
mod issue;
mod show;

use clap::{Args, Subcommand};
use error::{KeysError, quoted};
use std::path::{Path, PathBuf};
use upbeat_core::name::{Pattern, ProgramName};
use upbeat_transport::identity::Identity;

const EXAMPLES: &str = "\
Copy each identity to the host of its node (`install -m 600`), and start the node with
UPBEAT_IDENTITY=counter.pem. The authority stays on the host where it was made.

Examples:
  upbeat keys init --program demo                             the authority, once
  upbeat keys issue --program demo counter -o counter.pem     the identity of node `counter`
  upbeat keys issue --program demo 'worker/*' -o worker.pem   of all nodes below `worker/`
  upbeat keys issue --program demo --handle -o handle.pem     of handles, which have no name
  upbeat keys show counter.pem                                names, authority, validity";

/// The arguments of `upbeat keys`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

/// The subcommands of `upbeat keys`.
#[derive(Debug, Subcommand)]
enum Command {
    /// Make the private authority of a program
    #[command(after_help = EXAMPLES)]
    Init(InitArguments),
    /// Issue the identity of nodes, signed by the authority
    #[command(after_help = EXAMPLES)]
    Issue(IssueArguments),
    /// Show the names and the validity of an identity or an authority
    #[command(after_help = EXAMPLES)]
    Show(ShowArguments),
}

/// The program, and the directory of its authority.
#[derive(Debug, Args)]
struct Whose {
    /// The program [default: $UPBEAT_PROGRAM, else `default`]
    #[arg(long, value_name = "NAME")]
    program: Option<ProgramName>,

    /// The directory of the authority [default: `upbeat` in $XDG_CONFIG_HOME or ~/.config]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The arguments of `upbeat keys init`.
#[derive(Debug, Args)]
struct InitArguments {
    #[command(flatten)]
    whose: Whose,

    /// The number of days for which the authority is valid
    #[arg(long, value_name = "N", default_value_t = 3650, value_parser = days())]
    days: u32,

    /// Replace an existing authority; all identities that it issued become invalid
    #[arg(long)]
    force: bool,
}

/// The arguments of `upbeat keys issue`.
#[derive(Debug, Args)]
struct IssueArguments {
    /// Nodes that may use the identity: `counter`, `worker/*`, or `*` for all
    #[arg(value_name = "NODE", required_unless_present = "handle", conflicts_with = "handle")]
    nodes: Vec<Pattern>,

    /// Issue the identity for handles, which have no name
    #[arg(long)]
    handle: bool,

    #[command(flatten)]
    whose: Whose,

    /// The number of days for which the identity is valid; it cannot be revoked earlier
    #[arg(long, value_name = "N", default_value_t = 90, value_parser = days())]
    days: u32,

    /// The file of the identity
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

/// The arguments of `upbeat keys show`.
#[derive(Debug, Args)]
struct ShowArguments {
    /// The file of an identity or of an authority
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
}

fn days() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(1..=36_500)
}

/// Makes an authority of a program and an identity of these nodes, in a temporary directory.
pub(crate) fn temporary(
    program: ProgramName,
    nodes: Pattern,
    directory: &Path,
) -> Result<Identity, KeysError> {
    const DAYS: u32 = 90;
    authority::make(&program, directory, DAYS, false)?;
    let authority = authority::path(&program, directory);
    let names = issue::names(program, &[nodes])?;
    Ok(issue::make(&authority, &names, DAYS, &directory.join("identity.pem"), false)?.0)
}

/// Runs `upbeat keys`.
pub(crate) fn run(arguments: &Arguments) -> Result<(), KeysError> {
    match &arguments.command {
        Command::Init(arguments) => {
            let InitArguments { whose, days, force } = arguments;
            let dir = whose.directory()?;
            authority::init(&whose.program()?, (&dir, &whose.option()), *days, *force)
        }
        Command::Issue(arguments) => {
            let IssueArguments { nodes, whose, days, output, force, .. } = arguments;
            let authority = authority::path(&whose.program()?, &whose.directory()?);
            let names = issue::names(whose.program()?, nodes)?;
            issue::issue(&authority, &names, *days, output, *force)
        }
        Command::Show(arguments) => show::show(&arguments.file, arguments.json),
    }
}

impl Whose {
    fn program(&self) -> Result<ProgramName, KeysError> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        let program = std::env::var("UPBEAT_PROGRAM").unwrap_or_else(|_| "default".into());
        program.parse().map_err(KeysError::Program)
    }

    /// Returns the option that names the directory, as a shell takes it, with a space before it. Returns an empty text
    /// for the usual directory.
    fn option(&self) -> String {
        self.dir.as_ref().map(|dir| format!(" --dir {}", quoted(dir))).unwrap_or_default()
    }

    fn directory(&self) -> Result<PathBuf, KeysError> {
        if let Some(directory) = &self.dir {
            return Ok(directory.clone());
        }
        let of = |variable| std::env::var_os(variable).map(PathBuf::from);
        let absolute = |path: &PathBuf| path.is_absolute();
        let config = of("XDG_CONFIG_HOME").filter(absolute);
        let config =
            config.or_else(|| of("HOME").filter(absolute).map(|home| home.join(".config")));
        config.map(|config| config.join("upbeat")).ok_or(KeysError::NoHome)
    }
}
