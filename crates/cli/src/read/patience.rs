//! Waiting for nodes, which may never answer.

use crate::read::error::ReadError;
use std::future::Future;
use std::time::Duration;

/// The time after which a node that does not answer is given up. The runtime gives a node up sooner while it connects.
const PATIENCE: Duration = Duration::from_secs(15);

/// Awaits the answer of a node, which is to read `name`.
pub(crate) async fn patient<T>(
    name: &str,
    answer: impl Future<Output = T>,
) -> Result<T, ReadError> {
    let answer = upbeat::within(PATIENCE, answer).await;
    answer.map_err(|_| ReadError::Silent { name: name.into(), waited: PATIENCE })
}
