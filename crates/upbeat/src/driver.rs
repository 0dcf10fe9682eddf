//! The match of frames, for every driver of a session: a node, and the threads and futures of a handle.
//!
//! The common path is in this module: a request runs in place, and a reply lies open while its waiter is polled. A
//! [`Driver`] knows the handler of a request, the tasks, and the effects of control frames. Invariant: a frame is
//! taken over and passed, or its session ends.

use crate::session::{Fault, Served, Session, Waiter, misbehaved};
use crate::wake::{MAIN, TaskId};
use upbeat_core::bill::Counter;
use upbeat_core::bill::way::StampMode;
use upbeat_core::channel::Control;
use upbeat_core::fault::Rule;
use upbeat_core::frame::{CallNumber, Head, Kind, Plain};
use upbeat_core::limits::FLUSH_MESSAGES;
use upbeat_core::term::Step;
use upbeat_memory::ring::{Look, SHORT};

/// The reason why a future is polled.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The future was taken off the ready queue.
    Ready,
    /// The reply that the future waits for lies open. If the future is on the ready queue, it stays there and keeps
    /// its flag.
    Answered,
}

/// Polls the main future: a node's, or the call that the holder of a handle waits for.
pub(crate) type Main<'a> = &'a mut dyn FnMut(Cause);

/// A driver of a session. The methods that a handle does not use do nothing by default.
pub(crate) trait Driver<'s>: Copy {
    /// Returns the session whose frames are taken over.
    fn session(self) -> &'s Session;

    /// Counts an event for observers.
    fn count(self, _: Counter) {}

    /// Runs the open request without extensions, which was accepted, given the words of its head.
    fn run(self, words: &[u64; 3]);

    /// Runs, keeps or refuses the open request.
    fn request(self, head: &Head) -> Result<(), Fault>;

    /// Polls a task while its reply lies open.
    fn poll_task(self, task: TaskId);

    /// Returns whether the session must leave the rest of its frames until later.
    fn must_pause(self) -> bool {
        false
    }

    /// Takes over the open frame, which is stamped, and passes it.
    fn sampled(self, words: &[u64; 3], manner: StampMode, main: Main<'_>) -> Result<(), Fault>;

    /// Takes over the open stamps of the peer.
    fn stamps(self, head: &Head) -> Result<(), Fault>;

    /// Cancels a call that the peer has canceled.
    fn cancel(self, _: CallNumber) {}

    /// Handles a control frame for a channel other than calls, with this number. A handle has no such channel.
    fn channel_control(self, _: Control, _number: u32) {}

    /// Removes the reservation that the peer has withdrawn.
    fn withdraw(self, _: &Head) -> Result<(), Fault> {
        Ok(())
    }

    /// Returns the time by which deadlines are set.
    fn now_ns(self) -> u64;

    /// Returns when the handler of a served call ends, if it may still ask for more time.
    fn end_of_lease(self, _: Served) -> Option<u64> {
        None
    }

    /// Asks the caller of a served call for more time, on behalf of a call that the handler has made.
    fn ask_above(self, _: Served, _wanted: u64, _: CallNumber) {}

    /// Notes that a frame was sent.
    fn sent(self) {}

    /// Handles a caller's answer about more time, in the open frame.
    fn extension_answered(self, _: &Head) {}

    /// Notes that the socket is read for a segment. The read may also take the driver's wake-ups.
    fn reads_socket(self) {}

    /// Notes that as many frames were taken at a time as may be.
    fn took_most(self) {}
}

/// Takes over frames of the peer, at most as many as may go between two flushes. Returns their number.
#[inline(always)]
pub(crate) fn take_frames<'s, D: Driver<'s>>(driver: D, main: Main<'_>) -> Result<u32, Fault> {
    let session = driver.session();
    let mut frames = 0;
    loop {
        if frames == FLUSH_MESSAGES as u32 {
            driver.took_most();
            break;
        }
        match session.look_next() {
            Look::Nothing => break,
            Look::Short { head, .. } if Head::len_in(&head) as usize > SHORT => {
                return Err(session.too_long(Head::len_in(&head)));
            }
            Look::Short { kind, head } => match Head::plain(kind, &head) {
                Plain::Reply => {
                    reply(driver, &head, main)?;
                    session.advance_short();
                }
                Plain::Request if session.is_clear() => {
                    session.accept();
                    driver.run(&head);
                    session.advance_short();
                }
                _ if !other(driver, head, main)? => break,
                _ => {}
            },
            Look::Long if !long(driver, main)? => break,
            Look::Long => {}
        }
        frames += 1;
    }
    Ok(frames)
}

/// Takes over a frame that is not of one slot, and passes it. Returns false if there is none, or as [`other`] does.
#[inline(never)]
fn long<'s, D: Driver<'s>>(driver: D, main: Main<'_>) -> Result<bool, Fault> {
    let session = driver.session();
    let Some(words) = session.look_long()? else { return Ok(false) };
    match Head::plain_in(&words) {
        Plain::Reply => reply(driver, &words, main)?,
        Plain::Request if session.is_clear() => {
            session.accept();
            driver.run(&words);
        }
        _ => return other(driver, words, main),
    }
    session.advance();
    Ok(true)
}

/// Takes over a frame that is neither a plain call nor a plain reply, and passes it. Returns false if the session
/// must pause.
#[inline(never)]
fn other<'s, D: Driver<'s>>(driver: D, words: [u64; 3], main: Main<'_>) -> Result<bool, Fault> {
    let session = driver.session();
    if driver.must_pause() {
        session.carrier.reader().put_back();
        return Ok(false);
    }
    if let Some(manner) = Head::manner_in(&words) {
        return driver.sampled(&words, manner, main).map(|()| true);
    }
    let head = Head::parse(words).map_err(misbehaved)?;
    match head.kind {
        kind if kind.is_request() => driver.request(&head)?,
        Kind::Reply | Kind::Failed => answer(driver, &head, main, || ())?,
        _ => return control(driver, &head).map(|()| true),
    }
    session.advance();
    Ok(true)
}

/// Takes over a frame that is neither request nor reply, and passes it.
#[cold]
#[inline(never)]
fn control<'s, D: Driver<'s>>(driver: D, head: &Head) -> Result<(), Fault> {
    let session = driver.session();
    if head.kind.is_protocol() {
        driver.count(Counter::ProtocolFrames);
    }
    match head.kind {
        Kind::Switch => {
            driver.count(Counter::LaneGrown);
            driver.reads_socket();
            // This frame is passed where the lane continues.
            return session.follow(head.call.generation());
        }
        Kind::Slab => {
            driver.reads_socket();
            session.slab_came(head)?;
        }
        Kind::Retire => session.slab_went(head)?,
        Kind::Nack => {
            driver.count(Counter::Refused);
            session.refused(head)?;
        }
        Kind::Grant => session.granted(head)?,
        Kind::Cancel => driver.cancel(head.call),
        Kind::Control => {
            let unknown = || misbehaved(Rule::UnknownControl { code: head.method });
            let control = Control::from_code(head.method).ok_or_else(unknown)?;
            driver.channel_control(control, head.call.index());
        }
        Kind::Withdraw => driver.withdraw(head)?,
        Kind::Stamps => driver.stamps(head)?,
        Kind::Extend => extension_asked(driver, head.call),
        Kind::Extended => driver.extension_answered(head),
        _ => session.ending.goodbye.set(true),
    }
    session.advance();
    Ok(())
}

/// Answers a callee that asks for more time in the open frame, or first asks the caller that has to decide.
fn extension_asked<'s, D: Driver<'s>>(driver: D, call: CallNumber) {
    let (session, now) = (driver.session(), driver.now_ns());
    let wanted = now.saturating_add(session.first_word().saturating_mul(1000));
    match session.extension_asked(call, wanted, |served| driver.end_of_lease(served)) {
        (Step::Above(wanted), Some(served)) => driver.ask_above(served, wanted, call),
        (step, _) => {
            session.say_extended(call, step, now);
            driver.sent();
        }
    }
}

/// Polls the waiter of a reply without extensions while the reply lies open, or keeps the reply.
#[inline(always)]
fn reply<'s, D: Driver<'s>>(driver: D, words: &[u64; 3], main: Main<'_>) -> Result<(), Fault> {
    let (call, len) = (CallNumber::from_u64(words[1]), Head::len_in(words));
    match driver.session().reply_arrived(call, len) {
        Some(task) => poll_answered(driver, task, main),
        None => return answer(driver, &Head::reply(call, len), main, || ()),
    }
    keep_answer(driver)
}

/// Polls the waiter of a reply while the reply lies open, or keeps the reply. `found` is called when the waiter is
/// known.
#[inline(always)]
pub(crate) fn answer<'s, D: Driver<'s>>(
    driver: D,
    head: &Head,
    main: Main<'_>,
    found: impl FnOnce(),
) -> Result<(), Fault> {
    let waiter = driver.session().answer_arrived(head)?;
    found();
    match waiter {
        Some(Waiter::Task(task)) => poll_answered(driver, task, main),
        Some(Waiter::Waker(waker)) => waker.wake(),
        None => {}
    }
    keep_answer(driver)
}

/// Polls a task, or the main future, whose reply lies open.
#[inline(always)]
fn poll_answered<'s, D: Driver<'s>>(driver: D, task: TaskId, main: Main<'_>) {
    driver.count(Counter::RepliesInPlace);
    match task {
        MAIN => main(Cause::Answered),
        task => driver.poll_task(task),
    }
}

/// Keeps a reply that was not taken in place.
#[inline(always)]
fn keep_answer<'s, D: Driver<'s>>(driver: D) -> Result<(), Fault> {
    if driver.session().keep_answer()? {
        driver.count(Counter::RepliesStashed);
    }
    Ok(())
}
