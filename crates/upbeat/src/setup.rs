//! Settings of nodes and handles that come from the application, the environment or the defaults.

use crate::error::BuildError;
use crate::execution::Execution;
use crate::statistics::Report;
use std::path::PathBuf;
use std::time::Duration;
use upbeat_core::limits::{MESSAGE_BYTES_MAX, TAKEN_BYTES_MIN};
use upbeat_core::name::{ProgramId, ProgramName};
use upbeat_transport::socket_directory::SocketDirectory;

/// The environment variable that names the program, where the application does not.
const PROGRAM_VARIABLE: &str = "UPBEAT_PROGRAM";
/// The program of nodes that name none.
const PROGRAM_DEFAULT: &str = "default";

/// The environment variable with the `n` of one sampled message in `n`, for applications that
/// set none.
const SAMPLING_VARIABLE: &str = "UPBEAT_SAMPLING";
/// The `n` of one sampled message in `n` by default.
const SAMPLING_DEFAULT: u32 = 1000;

/// Returns the `n` of one sampled message in `n`: from the application, the environment, or the default.
pub(crate) fn sampling(one_in: Option<u32>) -> Result<u32, BuildError> {
    let Ok(text) = std::env::var(SAMPLING_VARIABLE) else {
        return Ok(one_in.unwrap_or(SAMPLING_DEFAULT));
    };
    let parsed = text.parse().map_err(|_| BuildError::Sampling { text });
    one_in.map_or(parsed, Ok)
}

/// The environment variable that makes requests ask for room before they are sent, if it is not 0. Comparison with
/// this shows the gain of optimistic sends.
const CONSERVATIVE_VARIABLE: &str = "UPBEAT_CONSERVATIVE";

/// Returns whether requests ask for room before they are sent: from the application, the environment, or the default.
pub(crate) fn conservative(conservative: Option<bool>) -> bool {
    let of_environment = || std::env::var_os(CONSERVATIVE_VARIABLE).is_some_and(|text| text != "0");
    conservative.unwrap_or_else(of_environment)
}

/// Returns the length of the longest message that is accepted, as the application has set it.
///
/// # Panics
/// When the length is out of its bounds.
pub(crate) fn longest(bytes: usize) -> usize {
    assert!(
        (TAKEN_BYTES_MIN..=MESSAGE_BYTES_MAX).contains(&bytes),
        "the longest message is given as {bytes} bytes: give {TAKEN_BYTES_MIN} at least and \
         {MESSAGE_BYTES_MAX} at most"
    );
    bytes
}

/// The environment variable with the milliseconds that a wait lasts before it is reported, for applications that set
/// none. With 0, none is reported.
const STUCK_VARIABLE: &str = "UPBEAT_STUCK_MS";
/// The default.
const STUCK_DEFAULT: Option<Duration> =
    if cfg!(debug_assertions) { Some(Duration::from_secs(10)) } else { None };

/// Returns how long a wait lasts before it is reported: from the application, the environment, or the
/// default.
pub(crate) fn stuck_after(limit: Option<Duration>) -> Result<Option<Duration>, BuildError> {
    let of_environment = match std::env::var(STUCK_VARIABLE) {
        Err(_) => STUCK_DEFAULT,
        Ok(text) => match text.parse() {
            Ok(milliseconds) => Some(Duration::from_millis(milliseconds)),
            Err(_) => return Err(BuildError::Stuck { text }),
        },
    };
    Ok(limit.or(of_environment).filter(|limit| !limit.is_zero()))
}

/// The environment variable with the execution of handlers, for applications that set none.
const EXECUTION_VARIABLE: &str = "UPBEAT_EXECUTION";

/// Returns the execution of handlers: from the application, the environment, or the default.
pub(crate) fn execution(execution: Option<Execution>) -> Result<Execution, BuildError> {
    let Ok(text) = std::env::var(EXECUTION_VARIABLE) else {
        return Ok(execution.unwrap_or_default());
    };
    let parsed = text.parse().map_err(BuildError::Execution);
    execution.map_or(parsed, Ok)
}

/// The environment variable that turns statistics on, for applications that do not say so.
const STATISTICS_VARIABLE: &str = "UPBEAT_STATISTICS";

/// Returns the form of the statistics at the node's end: from the application, the environment, or none.
pub(crate) fn statistics(told: Option<Option<Report>>) -> Result<Option<Report>, BuildError> {
    let Ok(text) = std::env::var(STATISTICS_VARIABLE) else { return Ok(told.flatten()) };
    let of_environment = match &*text {
        "0" => None,
        "1" => Some(Report::Text),
        "json" => Some(Report::Json),
        _ => return Err(BuildError::Statistics { text }),
    };
    Ok(told.unwrap_or(of_environment))
}

/// The program's identity, from its name, the environment, or the default.
pub(crate) fn program_id(program: Option<&str>) -> Result<ProgramId, BuildError> {
    let of_environment = || std::env::var(PROGRAM_VARIABLE).ok();
    let name = program.map(str::to_owned).or_else(of_environment);
    let name = ProgramName::new(name.as_deref().unwrap_or(PROGRAM_DEFAULT));
    name.map(ProgramId::named).map_err(BuildError::Name)
}

/// Returns the directory of the sockets.
pub(crate) fn place(directory: Option<PathBuf>) -> Result<SocketDirectory, BuildError> {
    let place = match directory {
        Some(directory) => SocketDirectory::at(directory),
        None => SocketDirectory::of_user(),
    };
    place.map_err(BuildError::Place)
}
