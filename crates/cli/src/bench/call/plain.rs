//! Calls one after another, from a node to a node.

use crate::bench::echo::EchoClient;
use crate::bench::error::BenchError;
use crate::bench::flight::fly;
use crate::bench::hosts::{Caller, LocalHost, Policy, each};
use crate::bench::timing::{Round, Work};
use std::mem::take;
use std::path::Path;
use upbeat::{CallError, Node};

/// The payload of a call, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload {
    /// No payload.
    Null,
    /// 16 bytes.
    Bytes16,
    /// 64 bytes.
    Bytes64,
    /// 256 bytes.
    Bytes256,
    /// 1 KiB, as an array by value.
    KiB1,
    /// 1 KiB by reference, whose result is written into a buffer.
    KiB1Reference,
    /// 1 KiB as a vector, which is returned and used for the next call.
    KiB1Vec,
    /// 4 KiB.
    KiB4,
}

impl Payload {
    /// All payloads.
    pub(super) const ALL: [Payload; 8] = [
        Payload::Null,
        Payload::Bytes16,
        Payload::Bytes64,
        Payload::Bytes256,
        Payload::KiB1,
        Payload::KiB1Reference,
        Payload::KiB1Vec,
        Payload::KiB4,
    ];

    /// Returns the payload's word in the path of a case.
    pub(super) fn word(self) -> &'static str {
        match self {
            Payload::Null => "null",
            Payload::Bytes16 => "16B",
            Payload::Bytes64 => "64B",
            Payload::Bytes256 => "256B",
            Payload::KiB1 => "1KiB",
            Payload::KiB1Reference => "1KiB-reference",
            Payload::KiB1Vec => "1KiB-vec",
            Payload::KiB4 => "4KiB",
        }
    }

    /// Describes the call.
    pub(super) fn about(self) -> String {
        match self {
            Payload::Null => "null call".to_owned(),
            Payload::KiB1 => "call with 1KiB each way, as an array by value".to_owned(),
            Payload::KiB1Reference => "call with 1KiB each way, by reference".to_owned(),
            Payload::KiB1Vec => "call with 1KiB each way, as a vector".to_owned(),
            other => format!("call with {} each way", other.word()),
        }
    }

    async fn calls(self, client: &EchoClient, work: Work) -> Result<Round, CallError> {
        match self {
            Payload::Null => each(work, || client.null()).await,
            Payload::Bytes16 => each(work, || client.bytes16([7; 16])).await,
            Payload::Bytes64 => each(work, || client.bytes64([7; 64])).await,
            Payload::Bytes256 => each(work, || client.bytes256([7; 256])).await,
            Payload::KiB1 => each(work, || client.bytes1024([7; 1024])).await,
            Payload::KiB1Reference => {
                let (block, mut back) = ([7; 1024], [0; 1024]);
                each(work, async || client.reference1024(&block).into(&mut back).await).await
            }
            Payload::KiB1Vec => {
                let mut bytes = vec![7; 1024 - size_of::<u64>()];
                each(work, async || {
                    bytes = client.vector(take(&mut bytes)).await?;
                    Ok(())
                })
                .await
            }
            Payload::KiB4 => each(work, || client.bytes4096([7; 4096])).await,
        }
    }
}

/// A node that calls a node of the second process.
pub(super) struct Shared {
    caller: Caller,
}

impl Shared {
    /// Creates a node that waits with the same policy as its callee.
    pub(super) fn new(scratch: &Path, peer: &str, policy: Policy) -> Result<Shared, BenchError> {
        let caller = Caller::new(&caller_name(peer), peer, Some(scratch), policy)?;
        Ok(Shared { caller })
    }

    /// Creates a node that calls over a byte stream.
    pub(super) fn apart(scratch: &Path, peer: &str, policy: Policy) -> Result<Shared, BenchError> {
        let caller = Caller::apart(&caller_name(peer), peer, scratch, policy)?;
        Ok(Shared { caller })
    }

    /// Returns the node that calls.
    pub(super) fn node(&self) -> &Node {
        self.caller.node()
    }

    /// Does a round of calls, one after another.
    pub(super) fn round(&self, payload: Payload, work: Work) -> Result<Round, BenchError> {
        self.caller.round(async |client| payload.calls(client, work).await)
    }

    /// Does a round of concurrent calls.
    pub(super) fn flight(&self, work: Work) -> Result<Round, BenchError> {
        let node = self.caller.node();
        self.caller.round(async |client| {
            let client = client.clone();
            fly(node, work, async move || client.null().await).await
        })
    }
}

/// Returns the name of the node that calls a node of this name.
fn caller_name(peer: &str) -> String {
    format!("bench-caller/{peer}")
}

/// A node that calls a node of another thread of this process.
pub(super) struct Local {
    caller: Caller,
    host: LocalHost,
}

impl Local {
    /// Creates the caller, and the callee on a thread that is pinned to `cpu`.
    pub(super) fn new(peer: &str, policy: Policy, cpu: usize) -> Result<Local, BenchError> {
        let host = LocalHost::start(peer, policy, cpu)?;
        let caller = Caller::new(&caller_name(peer), peer, None, policy)?;
        Ok(Local { caller, host })
    }

    /// Does a round of calls, one after another.
    pub(super) fn round(&self, payload: Payload, work: Work) -> Result<Round, BenchError> {
        self.host.watched(work, self.caller.node(), || {
            self.caller.round(async |client| payload.calls(client, work).await)
        })
    }
}
