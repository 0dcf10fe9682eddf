//! The order in which the threads of a world run, and the time that passes.
//!
//! A thread that waits gives its turn to one of those that can go on, chosen by the seed. If none can, time passes
//! until the first of them can. Invariant: one thread runs at a time, so the order of everything that threads do to
//! each other follows from the seed.

use crate::network::Network;
use crate::random::{Random, mix};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Display, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;
use upbeat_environment::Awaited;
use upbeat_environment::process::Resource;

/// The nanoseconds that pass while a thread runs from one wait to its next, at most. They let a thread
/// that looks at the clock again and again see the end of a time.
const STEP_NS: usize = 2_000;

/// The last faults, and the last messages, that the report of a failure has.
pub(crate) const TOLD: usize = 20;

/// The number of a thread.
pub(crate) type Number = u64;

/// The state of a world.
pub(crate) struct Schedule {
    pub(crate) now_ns: u64,
    pub(crate) random: Random,
    /// The thread that runs.
    pub(crate) running: Number,
    threads: BTreeMap<Number, Thread>,
    /// The names of the processes, and their hosts.
    processes: BTreeMap<u32, (String, u32)>,
    /// Threads of processes that have ended, which unwind at the end of the world.
    ended: BTreeMap<Number, Thread>,
    started: Number,
    /// Processes that are stopped: none of their threads goes on.
    stopped: BTreeSet<u32>,
    /// Processes that lack a resource.
    starved: BTreeSet<(u32, Resource)>,
    timers: Vec<Timer>,
    pub(crate) network: Network,
    /// A digest of all decisions.
    pub(crate) history: u64,
    pub(crate) steps: u64,
    pub(crate) steps_max: u64,
    pub(crate) log: Log,
}

/// The decisions of a run: the threads that ran, and when. And its messages, if it is observed.
#[derive(Default)]
pub(crate) struct Log {
    ran: Vec<(Number, u64)>,
    names: Vec<String>,
    /// The last messages of nodes and the nanoseconds after which each began, if the run is observed.
    pub(crate) messages: Option<Vec<(u64, Box<dyn Display + Send>)>>,
    /// The number of messages before them.
    pub(crate) earlier: usize,
}

impl Log {
    /// Returns the log of a run that is to be observed.
    pub(crate) fn of_messages() -> Log {
        Log { messages: Some(Vec::new()), ..Log::default() }
    }

    /// Returns how another run differs from this one, if it does.
    pub(crate) fn difference(&self, other: &Log) -> Option<String> {
        let same = self.ran.iter().zip(&other.ran).take_while(|(one, other)| one == other).count();
        let shown = |log: &Log| match log.ran.get(same) {
            Some((number, at_ns)) => {
                let name = log.names.get(*number as usize).map_or("?", String::as_str);
                format!("`{name}` ran at {:?}", Duration::from_nanos(*at_ns))
            }
            None => "the world was over".to_owned(),
        };
        let is_same = same == self.ran.len() && same == other.ran.len();
        (!is_same).then(|| format!("at step {same}, {}, and {}", shown(self), shown(other)))
    }

    /// Takes note of a message that has ended, if the run is observed.
    fn has_message(&mut self, began_ns: u64, message: Box<dyn Display + Send>) {
        let Some(messages) = &mut self.messages else { return };
        messages.push((began_ns, message));
        if messages.len() > 2 * TOLD {
            self.earlier += messages.drain(..TOLD).count();
        }
    }
}

/// A timer that is set.
struct Timer {
    process: u32,
    of: Weak<OwnedFd>,
    at_ns: u64,
}

struct Thread {
    process: u32,
    name: String,
    /// The name of the node that the thread has asked for last.
    node: Option<String>,
    /// The thread that runs it, once that has begun.
    on: Option<std::thread::Thread>,
    waits: Option<Waits>,
}

/// The causes for which a thread goes on.
#[derive(Debug)]
struct Waits {
    descriptors: Vec<(OwnedFd, PollFlags)>,
    change: Option<(Arc<AtomicU64>, u64)>,
    until_ns: Option<u64>,
}

impl Waits {
    /// Returns whether the thread can go on, but for its descriptors.
    fn is_over(&self, now_ns: u64) -> bool {
        self.until_ns.is_some_and(|until| until <= now_ns)
            || self.change.as_ref().is_some_and(|(of, seen)| of.load(Ordering::Relaxed) != *seen)
    }
}

impl Schedule {
    pub(crate) fn new(seed: u64, steps_max: u64, log: Log) -> Schedule {
        Schedule {
            now_ns: 1,
            random: Random::new(seed),
            running: 0,
            threads: BTreeMap::new(),
            processes: BTreeMap::new(),
            ended: BTreeMap::new(),
            started: 0,
            stopped: BTreeSet::new(),
            starved: BTreeSet::new(),
            timers: Vec::new(),
            network: Network::new(),
            history: mix(seed),
            steps: 0,
            steps_max,
            log,
        }
    }

    /// Takes note of a process of this name, and of its host.
    pub(crate) fn has_process(&mut self, process: u32, name: &str, host: u32) {
        self.processes.insert(process, (name.to_owned(), host));
    }

    /// Takes note of the node that the running thread makes.
    pub(crate) fn has_node(&mut self, name: &str) {
        if let Some(thread) = self.threads.get_mut(&self.running) {
            thread.node = Some(name.to_owned());
        }
    }

    /// Adds a thread of a process, which can run.
    pub(crate) fn start(&mut self, process: u32, name: &str) -> Number {
        let number = self.started;
        self.started += 1;
        self.log.names.push(name.to_owned());
        let thread = Thread { process, name: name.to_owned(), node: None, on: None, waits: None };
        self.threads.insert(number, thread);
        number
    }

    /// Notes on which thread of the system a thread runs.
    pub(crate) fn runs_on(&mut self, number: Number, on: std::thread::Thread) {
        let thread = self.threads.get_mut(&number).or_else(|| self.ended.get_mut(&number));
        if let Some(thread) = thread {
            thread.on.get_or_insert(on);
        }
    }

    /// Wakes the thread whose turn it is. One that has not begun looks for itself.
    pub(crate) fn wake_running(&self) {
        let running = self.threads.get(&self.running);
        running.and_then(|thread| thread.on.as_ref()).into_iter().for_each(|on| on.unpark());
    }

    /// Wakes all threads.
    pub(crate) fn wake_all(&self) {
        let all = self.threads.values().chain(self.ended.values());
        all.filter_map(|thread| thread.on.as_ref()).for_each(|on| on.unpark());
    }

    /// Removes a thread that has ended.
    pub(crate) fn end(&mut self, number: Number) {
        self.threads.remove(&number);
        self.ended.remove(&number);
    }

    /// Ends the threads of a process: they do not go on.
    pub(crate) fn ends(&mut self, process: u32) {
        let its = self.threads.extract_if(.., |_, thread| thread.process == process);
        self.ended.extend(its);
        self.timers.retain(|timer| timer.process != process);
        self.stopped.remove(&process);
    }

    /// Stops a process, or has it go on.
    pub(crate) fn stop(&mut self, process: u32, is_stopped: bool) {
        match is_stopped {
            true => self.stopped.insert(process),
            false => self.stopped.remove(&process),
        };
    }

    /// Has a process lack a resource from now on, or none.
    pub(crate) fn starve(&mut self, process: u32, resource: Option<Resource>) {
        match resource {
            Some(resource) => _ = self.starved.insert((process, resource)),
            None => self.starved.retain(|(of, _)| *of != process),
        }
    }

    /// Returns whether a process lacks a resource.
    pub(crate) fn is_starved(&self, process: u32) -> bool {
        self.starved.iter().any(|(of, _)| *of == process)
    }

    /// Returns the error with which a resource is refused to a process. Now and then there is a
    /// descriptor, which this or another process has closed.
    pub(crate) fn lacks(&mut self, process: u32, resource: Resource) -> Option<Errno> {
        if !self.starved.contains(&(process, resource)) {
            return None;
        }
        match (resource, self.random.below(8)) {
            (Resource::Descriptors, 0) => None,
            (Resource::Descriptors, 1) => Some(Errno::NFILE),
            (Resource::Descriptors, _) => Some(Errno::MFILE),
            (Resource::Memory, _) => Some(Errno::NOMEM),
            (Resource::Room, _) => Some(Errno::NOSPC),
        }
    }

    /// Returns whether the process of the running thread is stopped.
    pub(crate) fn is_running_stopped(&self) -> bool {
        let running = self.threads.get(&self.running);
        running.is_some_and(|thread| self.stopped.contains(&thread.process))
    }

    /// Returns the threads of processes that are not stopped.
    fn going(&self) -> impl Iterator<Item = (&Number, &Thread)> {
        self.threads.iter().filter(|(_, thread)| !self.stopped.contains(&thread.process))
    }

    /// Returns whether the process of the running thread has not ended.
    pub(crate) fn is_running_alive(&self) -> bool {
        self.threads.contains_key(&self.running)
    }

    /// Returns the name of the running thread.
    pub(crate) fn running_name(&self) -> &str {
        self.threads.get(&self.running).map_or("of an ended process", |thread| &thread.name)
    }

    /// Takes note of a message of a process, unless that was killed and unwinds at the end of the world.
    pub(crate) fn has_message(
        &mut self,
        process: u32,
        began_ns: u64,
        message: Box<dyn Display + Send>,
    ) {
        if !self.ended.values().any(|thread| thread.process == process) {
            self.log.has_message(began_ns, message);
        }
    }

    /// Returns whether no thread is left, but for those of processes that have ended.
    pub(crate) fn is_over(&self) -> bool {
        self.threads.is_empty()
    }

    /// Returns whether no thread is left at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.threads.is_empty() && self.ended.is_empty()
    }

    /// Notes what the running thread waits for.
    pub(crate) fn waits(&mut self, awaited: Awaited<'_>, until_ns: Option<u64>) {
        let mut waits = Waits { descriptors: Vec::new(), change: None, until_ns };
        match awaited {
            Awaited::Nothing => {}
            Awaited::Change(of, seen) => waits.change = Some((Arc::clone(of), seen)),
            Awaited::Descriptors(all) => {
                let copies = all.iter().map(|(of, events)| {
                    (of.try_clone_to_owned().expect("the process has a descriptor left"), *events)
                });
                waits.descriptors.extend(copies);
            }
        }
        let running = self.running;
        if let Some(thread) = self.threads.get_mut(&running) {
            thread.waits = Some(waits);
        }
    }

    /// Sets a timer of a process.
    pub(crate) fn set_timer(&mut self, process: u32, timer: &Arc<OwnedFd>, at_ns: Option<u64>) {
        let of = Arc::downgrade(timer);
        self.timers.retain(|known| !known.of.ptr_eq(&of) && known.of.strong_count() > 0);
        self.timers.extend(at_ns.map(|at_ns| Timer { process, of, at_ns }));
    }

    /// Chooses the thread that runs next. Returns an error with what each thread waits for, if none ever can go on,
    /// or if there were too many steps.
    pub(crate) fn next(&mut self) -> Result<(), String> {
        if self.steps == self.steps_max {
            return Err(format!("it has made {} steps", self.steps));
        }
        self.steps += 1;
        self.now_ns += 1 + self.random.below(STEP_NS) as u64;
        loop {
            self.ring();
            let arrives = self.network.pass(self.now_ns, &mut self.random);
            let ready = self.ready();
            if !ready.is_empty() {
                self.running = ready[self.random.below(ready.len())];
                self.history = mix(self.history ^ self.running ^ self.now_ns.rotate_left(32));
                self.log.ran.push((self.running, self.now_ns));
                if let Some(thread) = self.threads.get_mut(&self.running) {
                    thread.waits = None;
                }
                return Ok(());
            }
            let ends = self.going().filter_map(|(_, thread)| thread.waits.as_ref()?.until_ns);
            let rings = self.timers.iter().filter(|timer| timer.of.strong_count() > 0);
            let next = ends.chain(rings.map(|timer| timer.at_ns)).chain(arrives).min();
            self.now_ns = next.ok_or_else(|| self.shown())?;
        }
    }

    /// Makes the descriptors of timers readable that are due.
    fn ring(&mut self) {
        let now_ns = self.now_ns;
        self.timers.retain(|timer| {
            let Some(of) = timer.of.upgrade() else { return false };
            let is_due = timer.at_ns <= now_ns;
            if is_due {
                // The counter is far from full.
                let _ = rustix::io::write(&*of, &1u64.to_ne_bytes());
            }
            !is_due
        });
    }

    /// Returns the threads that can go on, in the order of their numbers.
    fn ready(&self) -> Vec<Number> {
        let mut polled = Vec::new();
        let mut of = Vec::new();
        let mut ready = Vec::new();
        for (number, thread) in self.going() {
            match &thread.waits {
                Some(waits) if !waits.is_over(self.now_ns) => {
                    for (descriptor, events) in &waits.descriptors {
                        polled.push(PollFd::from_borrowed_fd(descriptor.as_fd(), *events));
                        of.push(*number);
                    }
                }
                _ => ready.push(*number),
            }
        }
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if !polled.is_empty() && poll(&mut polled, Some(&at_once)).is_ok_and(|events| events > 0) {
            let came = polled.iter().zip(of).filter(|(polled, _)| !polled.revents().is_empty());
            ready.extend(came.map(|(_, of)| of));
        }
        ready.sort_unstable();
        ready.dedup();
        ready
    }

    /// Returns what each thread waits for, for a world in which nothing can happen any more.
    fn shown(&self) -> String {
        let mut text = String::from("nothing can happen any more:");
        for thread in self.threads.values() {
            let awaited = match &thread.waits {
                _ if self.stopped.contains(&thread.process) => "its process, which is stopped",
                Some(Waits { change: Some(_), .. }) => "another thread",
                Some(waits) if !waits.descriptors.is_empty() => "messages",
                _ => "a time",
            };
            let (process, host) = &self.processes[&thread.process];
            let host = self.network.name(*host);
            let node =
                thread.node.as_ref().map_or(String::new(), |node| format!(", node `{node}`"));
            let name = &thread.name;
            let _ = write!(
                text,
                "\n  process `{process}` on `{host}`, thread `{name}`{node}: waits for {awaited}"
            );
        }
        text + "\nA thread or a future that does not belong to the world wakes nobody there."
    }
}
