//! The record of a world: what its processes asked, ran and were told, and what disturbed them. The processes write it
//! into memory that they share beside Upbeat. Times are nanoseconds since the world began.

pub(crate) mod sights;

use sights::{Owned, Seen};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use upbeat::error::FailCode;
use upbeat::{CallError, Lost, Why};
use upbeat_environment::time::Instant;
use upbeat_environment::turns::{Mutex, MutexGuard};

/// The number of an operation in its plan.
pub(crate) type Id = usize;
/// The number of a process: of the servers, and then of the clients.
pub(crate) type Process = usize;

/// The events that processes and faults count.
const EVENTS: [&str; 11] = [
    "handlers that could not connect",
    "networks broken",
    "networks parted",
    "networks silent in one direction",
    "networks slowed",
    "processes killed",
    "processes starved",
    "processes stopped",
    "references followed",
    "servers started again",
    "servers that shut down",
];

/// The end of an operation, as its caller was told.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Told {
    Done,
    Failed {
        why: Failure,
        may_have_run: bool,
        text: String,
    },
    /// The caller has dropped it.
    Dropped,
    /// The call has returned a stream, which has ended early.
    Broken {
        why: Failure,
        text: String,
    },
}

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Failure {
    Method,
    Panicked,
    Deadline,
    Unknown,
    /// The call was not sent, since nobody was reached.
    Unreached,
    /// A layer has refused the call.
    Refused,
    /// The callee shuts down.
    Closing,
    Overloaded,
    /// A stream in it has ended early.
    Stream,
    /// The export that was imported has ended.
    Ended,
    /// There is no such export.
    Absent,
    /// The owner of an export has died, and another node has its name.
    Replaced,
    Other,
}

impl Failure {
    pub(crate) fn of<E>(error: &CallError<E>) -> Failure {
        match error {
            CallError::Method(_) => Failure::Method,
            CallError::Unknown(_) => Failure::Unknown,
            CallError::NotSent(_) | CallError::NotConnected { .. } => Failure::Unreached,
            CallError::Deadline(_) => Failure::Deadline,
            CallError::Refused { .. } => Failure::Refused,
            CallError::Stream { .. } => Failure::Stream,
            CallError::Failed { code: FailCode::Panicked, .. } => Failure::Panicked,
            CallError::Failed { code: FailCode::Closing, .. } => Failure::Closing,
            CallError::Failed { code: FailCode::Overloaded, .. } => Failure::Overloaded,
            _ => Failure::Other,
        }
    }
}

impl Told {
    pub(crate) fn of<E>(error: &CallError<E>) -> Told
    where
        CallError<E>: std::fmt::Debug,
    {
        let (why, may_have_run) = (Failure::of(error), error.may_have_run());
        Told::Failed { why, may_have_run, text: format!("{error:?}") }
    }

    /// Returns the end of a call whose stream ends with an error.
    pub(crate) fn broken(error: &CallError) -> Told {
        Told::Broken { why: Failure::of(error), text: format!("{error:?}") }
    }
}

/// The end of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    Returned,
    Failed,
    Panicked,
    /// The handler was dropped at an await.
    Dropped,
}

/// An execution of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) server: Process,
    pub(crate) from: u64,
    /// The time at which the handler has ended, or has run last.
    pub(crate) last: u64,
    pub(crate) end: Option<RunEnd>,
}

/// The record of a stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streamed {
    pub(crate) written: u64,
    pub(crate) read: u64,
    /// Whether the stream was made, and when and how its writer ended.
    pub(crate) is_made: bool,
    pub(crate) writer: Option<(u64, RunEnd)>,
    /// The most items that were written and not read.
    pub(crate) ahead: u64,
    /// The reader has found the end, behind the last item.
    pub(crate) is_over: bool,
    /// The error that the handler read that reads an argument.
    pub(crate) broken: Option<(u64, Failure, String)>,
}

/// The record of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Did {
    pub(crate) stream: Streamed,
    pub(crate) asked: Option<u64>,
    pub(crate) told: Option<(u64, Told)>,
    pub(crate) runs: Vec<Run>,
}

/// Something that disturbs a world for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disturbance {
    /// A server has not begun to serve for the first time.
    Unborn(Process),
    /// A process is dead, shuts down, or has not begun to serve again.
    Down(Process),
    /// A server shuts down.
    Closes(Process),
    /// A client has done all that it was to do.
    Left(Process),
    Stopped(Process),
    /// A process lacks a resource.
    Starved(Process),
    /// Nothing passes from one host to another.
    Cut([usize; 2]),
    /// The connections between two hosts break.
    Broken([usize; 2]),
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) what: Disturbance,
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// A client could not connect.
#[derive(Clone, Debug)]
pub(crate) struct Unconnected {
    pub(crate) process: Process,
    pub(crate) server: Process,
    pub(crate) at: u64,
    pub(crate) text: String,
}

/// A process was told that a session is lost.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) process: Process,
    pub(crate) peer: String,
    pub(crate) why: Why,
    pub(crate) at: u64,
}

/// The record of a world.
pub(crate) struct History {
    began: Instant,
    pub(crate) operations: Vec<Did>,
    pub(crate) spans: Vec<Span>,
    pub(crate) losses: Vec<Loss>,
    /// The exports, by their servers and the numbers of their first values.
    pub(crate) exports: BTreeMap<(Process, u64), Owned>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) unconnected: Vec<Unconnected>,
    /// How often each thing has happened.
    pub(crate) counts: BTreeMap<&'static str, u64>,
    /// How many panics of the plan each server has had since it has started.
    pub(crate) panics: BTreeMap<Process, u64>,
    /// Violations that the processes themselves have seen.
    pub(crate) wrong: Vec<String>,
    /// The world is over: what its threads drop now tells nothing.
    is_over: bool,
}

/// The record, shared by all processes of a world.
#[derive(Clone)]
pub(crate) struct Record(Arc<Mutex<History>>);

impl Record {
    pub(crate) fn new(operations: usize) -> Record {
        Record(Arc::new(Mutex::new(History {
            began: Instant::now(),
            operations: vec![Did::default(); operations],
            spans: Vec::new(),
            losses: Vec::new(),
            exports: BTreeMap::new(),
            seen: Vec::new(),
            unconnected: Vec::new(),
            counts: EVENTS.map(|what| (what, 0)).into(),
            panics: BTreeMap::new(),
            wrong: Vec::new(),
            is_over: false,
        })))
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, History> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts something that has happened.
    pub(crate) fn count(&self, what: &'static str) {
        let mut history = self.lock();
        *history.counts.get_mut(what).expect("EVENTS has all that is counted") += 1;
    }

    /// A process panics as the plan says.
    pub(crate) fn panics(&self, process: Process) {
        *self.lock().panics.entry(process).or_default() += 1;
    }

    /// A server begins a life, and has not panicked in it.
    pub(crate) fn begins_life(&self, process: Process) {
        self.lock().panics.remove(&process);
    }

    /// The panics that a process has contained are those of the plan.
    pub(crate) fn has_contained(&self, process: Process, panics: u64) {
        let planned = self.lock().panics.get(&process).copied().unwrap_or(0);
        if panics != planned {
            self.is_wrong(format!(
                "{process} has contained {panics} panics, and {planned} were planned"
            ));
        }
    }

    /// Notes what no promise permits.
    pub(crate) fn is_wrong(&self, what: String) {
        let mut history = self.lock();
        if !history.is_over {
            history.wrong.push(what);
        }
    }

    /// A caller asks for an operation.
    pub(crate) fn asks(&self, id: Id) -> Asking {
        let mut history = self.lock();
        let now = history.now();
        if history.operations[id].asked.replace(now).is_some() {
            history.wrong.push(format!("the harness asks for {id} twice"));
        }
        Asking { record: self.clone(), id }
    }

    /// A handler begins at a server.
    pub(crate) fn runs(&self, id: Id, server: Process) -> Running {
        let mut history = self.lock();
        let now = history.now();
        let runs = &mut history.operations[id].runs;
        runs.push(Run { server, from: now, last: now, end: None });
        let at = runs.len() - 1;
        Running { record: self.clone(), id, at }
    }

    /// A stream of an operation is made, which its writer will write.
    pub(crate) fn streams(&self, id: Id) -> Writing {
        self.lock().operations[id].stream.is_made = true;
        Writing { record: self.clone(), id }
    }

    /// An item of the stream of an operation is read, or its end.
    pub(crate) fn reads(&self, id: Id, is_over: bool) {
        let stream = &mut self.lock().operations[id].stream;
        stream.read += u64::from(!is_over);
        stream.is_over |= is_over;
    }

    /// Returns the number of items that were read of the stream of an operation.
    pub(crate) fn items_read(&self, id: Id) -> u64 {
        self.lock().operations[id].stream.read
    }

    /// The handler that reads the stream of an operation finds an error.
    pub(crate) fn breaks(&self, id: Id, error: &CallError) {
        let mut history = self.lock();
        let now = history.now();
        history.operations[id].stream.broken =
            Some((now, Failure::of(error), format!("{error:?}")));
    }

    /// Something disturbs the world from now on.
    pub(crate) fn begins(&self, what: Disturbance) {
        let mut history = self.lock();
        let from = history.now();
        history.spans.push(Span { what, from, to: u64::MAX });
    }

    /// A disturbance is over. Cuts of a network may overlap, and end one by one.
    pub(crate) fn ends(&self, what: Disturbance) {
        let mut history = self.lock();
        let now = history.now();
        let open = |span: &&mut Span| span.what == what && span.to == u64::MAX;
        let most = if matches!(what, Disturbance::Cut(_)) { 1 } else { usize::MAX };
        history.spans.iter_mut().rev().filter(open).take(most).for_each(|span| span.to = now);
    }

    /// A process could not connect with a server.
    pub(crate) fn unconnected(&self, process: Process, server: Process, text: String) {
        let mut history = self.lock();
        let at = history.now();
        history.unconnected.push(Unconnected { process, server, at, text });
    }

    /// A process learns that a session is lost.
    pub(crate) fn loses(&self, process: Process, lost: &Lost) {
        let mut history = self.lock();
        let at = history.now();
        if !history.is_over {
            let Lost { peer, why, .. } = lost.clone();
            history.losses.push(Loss { process, peer, why, at });
        }
    }

    /// The world is over.
    pub(crate) fn is_over(&self) {
        self.lock().is_over = true;
    }
}

impl History {
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// An operation that was asked for. Dropped before its end, its caller has dropped it.
pub(crate) struct Asking {
    record: Record,
    id: Id,
}

impl Asking {
    pub(crate) fn ends(self, told: Told) {
        self.tell(told);
    }

    fn tell(&self, told: Told) {
        let mut history = self.record.lock();
        let now = history.now();
        if !history.is_over {
            history.operations[self.id].told.get_or_insert((now, told));
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.tell(Told::Dropped);
    }
}

/// A handler that runs. Dropped before its end, the handler was dropped.
pub(crate) struct Running {
    record: Record,
    id: Id,
    at: usize,
}

impl Running {
    /// The handler goes on.
    pub(crate) fn steps(&self) {
        self.note(None);
    }

    pub(crate) fn ends(self, end: RunEnd) {
        self.note(Some(end));
    }

    fn note(&self, end: Option<RunEnd>) {
        let mut history = self.record.lock();
        let now = history.now();
        if history.is_over {
            return;
        }
        let run = &mut history.operations[self.id].runs[self.at];
        if run.end.is_none() {
            run.last = now;
            run.end = end;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.note(Some(RunEnd::Dropped));
    }
}

/// The writer of a stream. Dropped before its end, the writer was dropped.
pub(crate) struct Writing {
    record: Record,
    id: Id,
}

impl Writing {
    /// The next item is written.
    pub(crate) fn writes(&self) {
        let stream = &mut self.record.lock().operations[self.id].stream;
        stream.written += 1;
        stream.ahead = stream.ahead.max(stream.written.saturating_sub(stream.read));
    }

    pub(crate) fn ends(self, end: RunEnd) {
        self.note(end);
    }

    fn note(&self, end: RunEnd) {
        let mut history = self.record.lock();
        let now = history.now();
        if !history.is_over {
            history.operations[self.id].stream.writer.get_or_insert((now, end));
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.note(RunEnd::Dropped);
    }
}
