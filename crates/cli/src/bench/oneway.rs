//! One-way messages: the throughput of many, and the latency of a single message. The benchmark also measures
//! the items of streams, which use the same path with backpressure from their reader.

use crate::bench::control::{Control, Done, Job};
use crate::bench::echo::EchoClient;
use crate::bench::error::BenchError;
use crate::bench::flight::{burst, streams};
use crate::bench::ground::{Ground, MARK_LINE};
use crate::bench::hosts::{Caller, Host, Policy, each, watched};
use crate::bench::line::await_word;
use crate::bench::pair::{Pair, Server};
use crate::bench::rounds::{Floor, Rate, Subject};
use crate::bench::timing::{Round, Shape, Work};
use crate::bench::waits::Condition;
use std::collections::HashMap;
use std::path::Path;
use upbeat::{CallError, Stream};

/// The name of this benchmark.
pub(crate) const BENCH: &str = "oneway";

/// The number of messages in a burst. A call after the burst returns whether all messages have arrived.
const BURST: u32 = 50_000;

/// The messages of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// The throughput of messages of 8 bytes.
    Small,
    /// The throughput of messages of 64 bytes.
    Medium,
    /// The throughput of items of 8 bytes in a stream that is a result.
    Results,
    /// The throughput of items of 8 bytes in a stream that is an argument.
    Arguments,
    /// A single message of 8 bytes, answered by a bare cache line.
    Lone,
}

/// A case.
struct Case {
    path: &'static str,
    about: &'static str,
    kind: Kind,
    policy: Policy,
}

const CASES: &[Case] = &[
    Case {
        path: "8B/shared/polling",
        about: "messages of 8 bytes to another process, both polling",
        kind: Kind::Small,
        policy: Policy::Polling,
    },
    Case {
        path: "64B/shared/polling",
        about: "messages of 64 bytes to another process, both polling",
        kind: Kind::Medium,
        policy: Policy::Polling,
    },
    Case {
        path: "8B/shared/results",
        about: "items of 8 bytes of a stream that is a result, both polling",
        kind: Kind::Results,
        policy: Policy::Polling,
    },
    Case {
        path: "8B/shared/arguments",
        about: "items of 8 bytes of a stream that is an argument, both polling",
        kind: Kind::Arguments,
        policy: Policy::Polling,
    },
    Case {
        path: "8B/shared/adaptive",
        about: "messages of 8 bytes to another process, both adaptive",
        kind: Kind::Small,
        policy: Policy::Adaptive,
    },
    Case {
        path: "8B/shared/lone",
        about: "one message of 8 bytes to another process, answered by a cache line, both polling",
        kind: Kind::Lone,
        policy: Policy::Polling,
    },
];

/// Returns the cases and their descriptions.
pub(crate) fn list() -> Vec<(String, String)> {
    CASES.iter().map(|case| (case.path.to_owned(), case.about.to_owned())).collect()
}

/// Returns the chosen cases.
pub(crate) fn subjects(
    pair: &Pair,
    wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<Box<dyn Subject>>, BenchError> {
    let Done = pair.control().receive()?;
    let mut subjects: Vec<Box<dyn Subject>> = Vec::new();
    for case in CASES.iter().filter(|case| wanted(case.path)) {
        let name = format!("bench-sender/{}", case.path);
        let sender = Caller::new(&name, &host_name(case.path), Some(pair.scratch()), case.policy)?;
        subjects.push(Box::new(Oneway { case, sender, marks: 0 }));
    }
    Ok(subjects)
}

/// Returns the name of the node that receives the messages of a case. No two cases share a node.
fn host_name(case: &str) -> String {
    format!("bench-receiver/{case}")
}

/// A case as a subject.
struct Oneway {
    case: &'static Case,
    sender: Caller,
    /// The number of single messages so far.
    marks: u64,
}

impl Subject for Oneway {
    fn case(&self) -> &str {
        self.case.path
    }

    fn shape(&self) -> Shape {
        if self.case.kind == Kind::Lone { Shape::Each } else { Shape::Bursts(BURST) }
    }

    fn floor(&self) -> Floor {
        if self.case.kind == Kind::Lone { Floor::Lines } else { Floor::Nothing }
    }

    fn baseline(&self) -> Option<&str> {
        match self.case.kind {
            Kind::Results | Kind::Arguments => Some("8B/shared/polling"),
            Kind::Small | Kind::Medium | Kind::Lone => None,
        }
    }

    fn condition(&self) -> Condition {
        match (self.case.kind, self.case.policy) {
            (Kind::Lone, _) => Condition::Lone,
            (_, Policy::Polling) => Condition::Polling,
            _ => Condition::Any,
        }
    }

    fn rate(&self) -> Rate {
        if self.case.kind == Kind::Lone { Rate::Nothing } else { Rate::Operations }
    }

    fn round(&mut self, pair: &mut Pair, work: Work) -> Result<Round, BenchError> {
        let (sender, marks, kind) = (&self.sender, &mut self.marks, self.case.kind);
        let (job, node) = (Job::Case(self.case.path.to_owned()), Some(sender.node()));
        watched(pair, job, work, node, |ground| match kind {
            Kind::Small => burst(sender, work, async |client, n| client.hit(n).await),
            Kind::Medium => burst(sender, work, async |client, _| client.hit64([7; 64]).await),
            Kind::Results => streams(sender, work, async |client, items| {
                let (mut numbers, mut count) = (client.numbers(items).await?, 0);
                while let Some(number) = numbers.next().await {
                    number?;
                    count += 1;
                }
                Ok(count)
            }),
            Kind::Arguments => streams(sender, work, async |client, items| {
                client.counted(Stream::of(0..items)).await
            }),
            Kind::Lone => sender.round(async |client| {
                each(work, || {
                    *marks += 1;
                    lone(client, ground, *marks)
                })
                .await
            }),
        })
    }
}

/// Sends a message, and polls the line in which its handler leaves a mark.
async fn lone(client: &EchoClient, ground: &Ground, mark: u64) -> Result<(), CallError> {
    client.mark(mark).await?;
    await_word::<1>(&ground.theirs, MARK_LINE, mark);
    Ok(())
}

/// The second process's nodes.
pub(crate) struct OnewayServer {
    hosts: HashMap<&'static str, Host>,
}

/// Creates the second process's side.
pub(crate) fn server(
    control: &Control,
    ground: &Ground,
    scratch: &Path,
) -> Result<OnewayServer, BenchError> {
    let mut hosts = HashMap::new();
    for Case { path, policy, .. } in CASES {
        let host = Host::new(&host_name(path), Some(scratch), *policy, Some(ground))?;
        hosts.insert(*path, host);
    }
    control.send(&Done)?;
    Ok(OnewayServer { hosts })
}

impl Server for OnewayServer {
    fn round(&mut self, case: &str, _: Work, ground: &mut Ground) -> Result<(), BenchError> {
        match self.hosts.get(case) {
            Some(host) => host.watched_round(ground),
            None => return Err(BenchError::protocol(format!("nobody receives `{case}`"))),
        }
        Ok(())
    }
}
