//! The dispatcher: one thread's loop over everything that arrives at a node.
//!
//! A turn looks at the hot lanes, runs the requests that it finds, runs the tasks that were woken, and
//! then looks at the polling flags of the peers to whom something was sent: one fence serves all of them. A
//! request is polled in place; a reply lies open while its waiter is polled. Rare
//! events (sockets, timers, handshakes, the end of a session) are in the files beside this one.
//!
//! Invariant: nothing here blocks. A frame is taken over and passed, or its session ends.

mod driven;

mod who;

mod hot;

mod deadlines;

mod door;

mod table;

mod reconnect;

mod pending;

mod leaving;

mod sessions;

mod known;

mod arrivals;

mod frames;

mod attention;

mod streams;

mod requests;

mod places;

mod sockets;

mod promoted;

mod leases;

mod bounds;

mod woken;

mod recover;

mod checks;

mod sleep;

mod over_runs;

mod polled;

mod watched;

mod lost_reads;

mod account;

mod sampling;

mod contract;

mod pumped;

mod mending;

use crate::driver::{Cause, Main};
use crate::drives::Drives;
use crate::reactor::{Reactor, Source};
use crate::sample::Sample;
use crate::sampling::{Pages, SampleSink, Sampling};
use crate::session::{Session, Waiter};
use crate::task::Tasks;
use crate::wait::IdlePolicy;
use crate::wake::{Current, MAIN, TaskId, WakeQueue};
use crate::wire::Input;
use std::mem::needs_drop;
use std::os::fd::{AsFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Waker};
use upbeat_core::backoff::{Jitter, again};
use upbeat_core::bill::Counter;
use upbeat_core::context::Context as Entries;
use upbeat_core::frame::{CallNumber, Kind};
use upbeat_core::method::Signature;
use upbeat_memory::counters::Counters;
use upbeat_memory::pool::Key;
use upbeat_memory::sync::{FenceProof, fence_full};
use upbeat_transport::local_node::LocalNode;

pub(crate) use bounds::Handed;
pub(crate) use door::Listeners;
pub(crate) use driven::Enter;
#[cfg(feature = "tokio")]
pub(crate) use driven::UnderWay;
pub(crate) use leases::Lease;
pub(crate) use lost_reads::LostReads;
pub use over_runs::OverRun;
pub(crate) use pending::Connecting;
pub(crate) use promoted::Charge;
pub(crate) use reconnect::{
    Attempts, Destination, Duty, Reached, Since, WaitEnd, Waiter as Reconnecting,
};
pub(crate) use sessions::{OnLost, Settings};
pub(crate) use streams::{Inlet, Methods as StreamMethods, NodeSession, Outlet};
pub(crate) use table::Whose;

/// The code that runs the requests of one method.
pub(crate) trait Method {
    /// Runs the plain call of `len` bytes that lies open in the session's lane. The caller of this function
    /// passes the frame. The number of a one-way message is `CallNumber::NONE`.
    fn call(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, call: CallNumber, len: u32);

    /// Runs any call or one-way message, wherever its payload lies.
    fn arrive(&self, node: &Rc<Dispatcher>, session: &Rc<Session>, request: Request<'_>);

    /// Runs a call or one-way message that is sampled.
    fn sampled(
        &self,
        node: &Rc<Dispatcher>,
        session: &Rc<Session>,
        request: Request<'_>,
        sample: &mut Sample,
    );

    /// Returns the ticks for which a handler may run without a pause.
    fn budget(&self) -> u64;
}

/// A call or a one-way message that has arrived.
pub(crate) struct Request<'a> {
    pub(crate) kind: Kind,
    /// The call's number, or `CallNumber::NONE` for a one-way message.
    pub(crate) call: CallNumber,
    /// The microseconds until the call's deadline.
    pub(crate) deadline_us: Option<u64>,
    /// How often the call was refused, if it may be refused again.
    pub(crate) refusals: Option<u64>,
    /// Whether the handler may ask for more time.
    pub(crate) extendable: bool,
    /// The values that the caller sends along.
    pub(crate) context: Option<Arc<Entries>>,
    pub(crate) payload: Input<'a>,
}

/// A method as a node offers it to clients.
pub(crate) struct Entry {
    pub(crate) offer: Box<Offer>,
    pub(crate) method: Box<dyn Method>,
}

/// The names of a method, and the signature that the node compares with a client's when the client binds the method.
pub(crate) struct Offer {
    pub(crate) service: &'static str,
    pub(crate) name: &'static str,
    pub(crate) signature: Signature,
}

// The address of an entry takes one instruction less with this size, on the path of every call.
#[cfg(target_pointer_width = "64")]
const _: () = assert!(size_of::<Entry>() == 24);

/// The handler or task that runs now, if the main future does not. [`Current`] has the name of a task, and
/// [`Run`](polled::Run) the method of a handler.
#[derive(Clone, Copy)]
enum Running {
    Nothing,
    /// The handler of this call, whose frame lies open. The call of a one-way message is `CallNumber::NONE`.
    Handler(CallNumber),
    /// The handler of a request of this session that had to wait.
    Kept(Key, CallNumber),
    /// A task.
    Task(TaskId),
}

impl Running {
    /// Returns the same handler without its call, once that has its reply: the reply to a panic is sent no more.
    fn answered(self) -> Running {
        match self {
            Running::Handler(_) => Running::Handler(CallNumber::NONE),
            Running::Kept(key, _) => Running::Kept(key, CallNumber::NONE),
            other => other,
        }
    }
}

/// The inside of a node.
pub(crate) struct Dispatcher {
    pub(crate) home: LocalNode,
    pub(crate) settings: Settings,
    pub(crate) life: driven::Life,
    peers: sessions::Peers,
    served: requests::Served,
    work: woken::Work,
    run: polled::Run,
    watch: watched::Watch,
    /// Whether something was sent, so that the end of the turn looks at polling flags.
    unflushed: contract::Unflushed,
    /// Whether a sender or a request may be waiting for room.
    pressed: pumped::Pressed,
    flow: promoted::Flow,
    contract: contract::Contract,
    waits: sleep::Waits,
    pub(crate) events: sockets::Events,
    account: account::Account,
}

impl Dispatcher {
    pub(crate) fn new(
        home: LocalNode,
        settings: Settings,
        counters: Counters,
    ) -> std::io::Result<Rc<Dispatcher>> {
        let roster = WakeQueue::new()?;
        let reactor = Reactor::new()?;
        reactor.add(&*roster, Source::Roster)?;
        let jitter = Jitter::new(home.incarnation());
        let name = home.name().map(ToString::to_string).unwrap_or_default();
        let book_name = format!("{name}\n{}", home.program().name());
        let book = SampleSink::Own(Box::new(Pages::new(book_name, counters.is_shared())));
        let sampling = Sampling::new(settings.sampling, home.incarnation(), book);
        let drives = Rc::new(Drives::new(&roster, name, settings.undriven_period));
        let tasks = Tasks::new(Rc::clone(&drives));
        let dispatcher = Dispatcher {
            life: driven::Life::new(drives),
            peers: sessions::Peers::new(&settings),
            served: requests::Served::default(),
            work: woken::Work::new(tasks, roster),
            run: polled::Run::default(),
            watch: watched::Watch::new(),
            unflushed: contract::Unflushed::default(),
            pressed: pumped::Pressed::default(),
            flow: promoted::Flow::new(promoted::NodeBudgets::new(settings.budget), jitter),
            contract: contract::Contract::default(),
            waits: sleep::Waits::new(IdlePolicy::new(settings.waiting)),
            events: sockets::Events::new(reactor),
            account: account::Account::new(sampling, counters),
            home,
            settings,
        };
        dispatcher.account();
        dispatcher.reads_anew();
        Ok(Rc::new(dispatcher))
    }

    /// Drops the result of a handler whose reply was sent. Its panic costs nothing but a count.
    #[inline(always)]
    pub(crate) fn drop_result<R>(&self, result: R) {
        if needs_drop::<R>() {
            self.run.running.set(self.run.running.get().answered());
        }
        drop(result);
    }

    /// Polls the future that drives the node.
    #[inline]
    pub(crate) fn polling_main(&self, waker: &Waker, poll: impl FnOnce()) {
        self.run.current.begin(Current { task: MAIN, waker: waker.data() });
        self.polls();
        poll();
        self.run.current.end();
    }

    /// Clears the node's polling flag, because nobody drives the node from here on: its peers must ring the doorbell.
    pub(crate) fn leave(self: &Rc<Self>) {
        self.flush_all();
        self.rest_streams();
        self.home.page().clear_polling();
        self.ends_drive();
        self.show_counters();
    }

    /// Records that a call was refused once more. Returns how often it was, and after how many nanoseconds to send it
    /// again.
    pub(crate) fn back_off(&self, refusals: u64) -> (u64, u64) {
        again(refusals, self.random())
    }

    /// Returns a random number, for the jitter of a delay or for the number of a first export.
    pub(crate) fn random(&self) -> u64 {
        let (random, next) = self.flow.jitter.get().next();
        self.flow.jitter.set(next);
        random
    }

    pub(crate) fn roster(&self) -> &Arc<WakeQueue> {
        &self.work.roster
    }

    /// Returns the handler or task that runs now.
    fn running(&self) -> Running {
        match (self.run.running.get(), self.run.current.task()) {
            (Running::Nothing, Some(task)) if task != MAIN => Running::Task(task),
            (running, _) => running,
        }
    }

    /// Returns the future that is polled now, as the waiter for a reply.
    ///
    /// # Panics
    /// When another executor polls the call in a forked child of the node's process.
    #[inline]
    pub(crate) fn waiter(&self, context: &Context<'_>) -> Waiter {
        match self.task_of(context) {
            Some(task) => Waiter::Task(task),
            None => self.other_waiter(context),
        }
    }

    /// Returns the task that is polled with this context, unless another executor polls.
    #[inline(always)]
    pub(crate) fn task_of(&self, context: &Context<'_>) -> Option<TaskId> {
        let current = self.run.current.current();
        (context.waker().data() == current.waker).then_some(current.task)
    }

    #[cold]
    fn other_waiter(&self, context: &Context<'_>) -> Waiter {
        // Another executor polls the call, perhaps in a forked child.
        if !self.is_here() {
            driven::forked();
        }
        self.life.drives.is_awaited(context.waker());
        Waiter::Waker(context.waker().into())
    }

    /// Records that something was sent in this session, or waits for room in it.
    #[inline]
    pub(crate) fn sent(self: &Rc<Self>, session: &Rc<Session>) {
        if self.has_sent(session) {
            self.heat(session);
        }
        self.has_work_from_outside();
    }

    /// Records that something was sent in this session. Returns whether each turn is to look at the session from now
    /// on, as [`heat`](Self::heat) does.
    #[inline(always)]
    pub(crate) fn has_sent(&self, session: &Session) -> bool {
        self.unflushed.sent();
        !session.noted.hot.get()
    }

    /// Records that a one-way message was sent. Its sender may not wait for anything, so a sleeping peer is woken now.
    #[inline]
    pub(crate) fn sent_oneway(self: &Rc<Self>, session: &Rc<Session>) {
        self.count(Counter::OnewaysSent);
        self.sent(session);
        if session.must_flush() {
            self.flush_one(session, fence_full());
        }
    }

    /// Looks once at all sources, and handles what has arrived. Returns whether there was
    /// anything.
    #[inline]
    pub(crate) fn turn(self: &Rc<Self>, main: Main<'_>) -> bool {
        let turn = || {
            if !self.home.page().is_polling()
                && let Some(busy) = self.resume(main)
            {
                return busy;
            }
            self.turn_once(1, main)
        };
        match catch_unwind(AssertUnwindSafe(turn)) {
            Ok(busy) => busy,
            Err(panic) => {
                self.turn_panicked(panic, main);
                true
            }
        }
    }

    /// Looks so many times at all sources, as long as nothing has arrived.
    #[inline(always)]
    fn turn_once(self: &Rc<Self>, looks: u32, main: Main<'_>) -> bool {
        let hot = self.peers.hot.hold();
        let mut busy = self.look(&hot, looks, main);
        if self.pressed.is_any() {
            busy |= self.see_to_pressed(busy, main);
        }
        if self.work.roster.any() {
            busy = true;
            self.run_woken(main);
        }
        if self.home.board().is_marked() {
            busy |= self.sweep();
        }
        if self.unflushed.is_sent_alone() {
            self.flush(&hot);
            drop(hot);
        } else {
            drop(hot);
            self.flush_all();
        }
        if self.waits.ticker.turn() {
            busy |= self.tick_busy();
        }
        busy
    }

    /// Looks at the polling flags of all peers to whom something was sent, with the list of sessions up to date.
    #[cold]
    #[inline(never)]
    fn flush_all(&self) {
        if !self.unflushed.is_any() {
            return;
        }
        if self.peers.hot.is_stale() {
            self.update_hot();
        }
        self.flush(&self.peers.hot.hold());
        self.note_stale();
    }

    /// Has the end of the turn bring the list of hot sessions up to date, if it is not: all sessions that leave it in
    /// one turn take one pass.
    fn note_stale(&self) {
        if self.peers.hot.is_stale() {
            self.unflushed.stale();
        }
    }

    /// Looks at the polling flags of all peers to whom something was sent.
    #[inline]
    fn flush(&self, hot: &[Rc<Session>]) {
        self.unflushed.clear();
        let fenced = fence_full();
        // Most nodes have one session, which needs no loop.
        match hot {
            [session] => self.flush_of_turn(session, fenced),
            hot => {
                hot.iter().for_each(|session| self.flush_of_turn(session, fenced));
                self.check_behind_many();
            }
        }
    }

    #[inline(always)]
    fn flush_of_turn(&self, session: &Session, fenced: FenceProof) {
        if session.is_unflushed() {
            self.flush_one(session, fenced);
        }
        if session.is_pressed() {
            self.pressed.set(true);
        }
    }

    #[inline]
    fn flush_one(&self, session: &Session, fenced: FenceProof) {
        if session.flush(fenced) {
            self.count(Counter::BellsSent);
        }
    }
}

impl AsFd for Dispatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.reactor.as_fd()
    }
}
