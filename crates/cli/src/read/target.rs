//! Finds the node, or the part of an export, that a user names.
//!
//! Names of nodes and of exports may have dots, and names of nodes slashes. The owner's list of exports decides where a
//! name ends and its path begins.

use crate::read::error::ReadError;
use crate::read::patience::patient;
use upbeat::error::{ConnectError, OpenError};
use upbeat::export::{ImportError, Selection, UntypedImport};

/// The thing that a text names.
pub(crate) enum Found {
    /// The exports of a node.
    Node(Vec<UntypedImport>),
    /// A part of an export.
    Part(Selected),
}

/// A part of an export.
pub(crate) struct Selected {
    /// The node, the export and the path, as the user has written them.
    pub(crate) name: String,
    pub(crate) export: UntypedImport,
    pub(crate) selection: Selection,
}

/// Finds the thing of a program that `target` names.
pub(crate) async fn find(program: &str, target: &str) -> Result<Found, ReadError> {
    // An address stands at the end of a node's name.
    let split = target.rsplit_once('/').filter(|(_, last)| !last.contains('@'));
    let Some((owner, last)) = split else {
        return exports_of(program, target).await.map(Found::Node);
    };
    let missing = match exports_of(program, owner).await {
        Ok(exports) => {
            let names =
                exports.iter().map(|export| export.name().escape_debug().to_string()).collect();
            match of_name(exports, last) {
                Some((export, path)) => return selected(target, export, path).map(Found::Part),
                None => match denied(program, owner, last).await? {
                    Some(denied) => return Err(ReadError::Import(denied)),
                    None => ImportError::NoExport { name: target.into(), others: names },
                },
            }
        }
        Err(ReadError::Import(error)) if is_no_node(&error) => error,
        Err(error) => return Err(error),
    };
    // The slash may be one of the node's own name.
    match exports_of(program, target).await {
        Ok(exports) => Ok(Found::Node(exports)),
        Err(_) => Err(ReadError::Import(missing)),
    }
}

async fn exports_of(program: &str, owner: &str) -> Result<Vec<UntypedImport>, ReadError> {
    patient(owner, upbeat::handle::builder().program(program).exports_of(owner))
        .await?
        .map_err(ReadError::Import)
}

/// Returns the owner's error if `text` begins with the name of an export for named nodes, which no list shows to this
/// command. A path may follow the name.
async fn denied(program: &str, owner: &str, text: &str) -> Result<Option<ImportError>, ReadError> {
    let fields = text.split('[').next().unwrap_or(text);
    let ends = fields.match_indices('.').map(|(at, _)| at).chain([fields.len()]);
    for end in ends {
        let name = format!("{owner}/{}", &fields[..end]);
        // The owner decides who reads before it compares types.
        let import = upbeat::handle::builder().program(program).import::<bool>(&name);
        if let Err(error @ ImportError::NotPermitted { .. }) = patient(owner, import).await? {
            return Ok(Some(error));
        }
    }
    Ok(None)
}

fn is_no_node(error: &ImportError) -> bool {
    matches!(
        error,
        ImportError::Connect(
            ConnectError::Open(OpenError::NoSuchNode { .. }) | ConnectError::Name(_)
        )
    )
}

/// Returns the export with the longest name that `text` begins with, and the path behind the name.
fn of_name(exports: Vec<UntypedImport>, text: &str) -> Option<(UntypedImport, &str)> {
    let path_behind = |name: &str| {
        let path = text.strip_prefix(name)?;
        (path.is_empty() || path.starts_with(['.', '['])).then_some(path)
    };
    let found = exports.into_iter().filter(|export| path_behind(export.name()).is_some());
    let export = found.max_by_key(|export| export.name().len())?;
    let path = path_behind(export.name())?;
    Some((export, path))
}

fn selected(target: &str, export: UntypedImport, path: &str) -> Result<Selected, ReadError> {
    let of = || target[..target.len() - path.len()].to_owned();
    let shape = export.shape().map_err(|error| ReadError::Type { name: of(), error })?;
    let selection = shape.resolve(path).map_err(|error| ReadError::Path { name: of(), error })?;
    Ok(Selected { name: target.to_owned(), export, selection })
}
