//! Handles whose connection breaks: calls that block, calls that are awaited, and handles that nobody uses.

use super::proxy::{How, Proxy};
use super::{AT_MOST, WITHIN, cuts};
use crate::common::work::WorkHandle;
use crate::common::{Directory, PROGRAM, Watchdog, alone, block_on};
use crate::{Server, handle};
use std::time::{Duration, Instant};
use upbeat::{CallError, Waiting};

fn connect(directory: &Directory, proxy: &Proxy, waiting: Waiting, within: Duration) -> WorkHandle {
    let builder = handle(directory).waiting(waiting).resume_within(within);
    builder.connect(&format!("server@{}", proxy.at)).unwrap()
}

const LONG: Duration = Duration::from_secs(30);

#[test]
fn calls_that_block_outlive_the_connection() {
    let _alone = alone();
    let _watchdog = Watchdog::new("blocking through breaks");
    let directory = Directory::new();
    for (seed, waiting) in (1..).zip([Waiting::Adaptive, Waiting::Polling, Waiting::Sleeping]) {
        let server = Server::start("server");
        let proxy = Proxy::to(&server.at);
        let work = connect(&directory, &proxy, waiting, LONG);
        let blocking = work.blocking();
        blocking.null().unwrap();
        proxy.break_often(cuts() / 3, seed);
        let mut number = 0;
        while !proxy.has_broken() {
            number += 1;
            blocking.note(number).unwrap();
            assert_eq!(blocking.add(number, 1), Ok(number + 1));
            let sent = vec![number as u8; [10, 3_000, 80_000, 1 << 20][number as usize % 4]];
            assert_eq!(blocking.bytes(sent.clone()), Ok(sent));
        }
        assert_eq!(blocking.noted(), Ok((number, number, 0)), "each once, in order");
    }
}

#[test]
fn calls_that_are_awaited_outlive_the_connection() {
    let _alone = alone();
    let _watchdog = Watchdog::new("awaited through breaks");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let work = connect(&directory, &proxy, Waiting::Adaptive, LONG);
    block_on(work.null()).unwrap();
    proxy.break_often(cuts() / 3, 5);
    let mut number = 0;
    while !proxy.has_broken() {
        block_on(async {
            number += 1;
            work.note(number).await.unwrap();
            assert_eq!(work.add(number, 1).await, Ok(number + 1));
            let sent = vec![number as u8; [10, 3_000, 80_000, 1 << 20][number as usize % 4]];
            assert_eq!(work.bytes(sent.clone()).await, Ok(sent));
        });
    }
    assert_eq!(block_on(work.noted()), Ok((number, number, 0)), "each once, in order");
}

/// The session goes on that stood idle, with what was sent in it before; or there is a new one.
#[test]
fn an_idle_handle_notices_a_break_at_its_next_use() {
    let _alone = alone();
    let _watchdog = Watchdog::new("an idle handle");
    let directory = Directory::new();
    let mut server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let work = connect(&directory, &proxy, Waiting::Adaptive, LONG);
    let blocking = work.blocking();
    for number in 1..=20 {
        blocking.note(number).unwrap();
        assert_eq!(block_on(work.add(number, 1)), Ok(number + 1));
        proxy.cut(if number % 2 == 0 { How::End } else { How::Reset });
        assert_eq!(blocking.noted(), Ok((number, number, 0)));
    }
    assert_eq!(block_on(work.add(1, 1)), Ok(2));
    // Another life of the server: a call that was not begun goes there.
    server.process.kill();
    server.process.child.wait().unwrap();
    let next = Server::of(PROGRAM, "server", &server.at);
    assert_eq!(blocking.noted(), Ok((0, 0, 0)));
    drop(next);
}

/// A handle that ends sends what was lost with a connection whose end it has not noticed.
#[test]
fn messages_that_a_reset_has_lost_arrive_after_the_end_of_their_handle() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a reset before the end");
    let directory = Directory::new();
    let server = Server::start("server");
    let direct: WorkHandle = handle(&directory).connect(&format!("server@{}", server.at)).unwrap();
    let proxy = Proxy::to(&server.at);
    for number in 1..=10 {
        let work = connect(&directory, &proxy, Waiting::Adaptive, LONG);
        work.blocking().null().unwrap();
        proxy.stall(true);
        work.blocking().note(number).unwrap();
        proxy.cut(if number % 2 == 0 { How::End } else { How::Reset });
        proxy.stall(false);
        drop(work);
        let begun = Instant::now();
        while direct.blocking().noted() != Ok((number, number, 0)) {
            assert!(begun.elapsed() < Duration::from_secs(10), "message {number} is lost");
        }
    }
}

#[test]
fn calls_of_handles_end_in_time() {
    let _alone = alone();
    let _watchdog = Watchdog::new("handles given up");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let work = connect(&directory, &proxy, Waiting::Adaptive, WITHIN);
    for awaits in [false, true] {
        proxy.refuse(false);
        let cuts = || {
            while server_waits(&directory, &server) == 0 {}
            proxy.refuse(true);
            proxy.cut(How::Reset);
            Instant::now()
        };
        std::thread::scope(|scope| {
            let cut = scope.spawn(cuts);
            let ended = match awaits {
                false => work.blocking().forever(),
                true => block_on(work.forever()),
            };
            let took = cut.join().unwrap().elapsed();
            let Err(CallError::Unknown(lost)) = ended else { panic!("{ended:?}") };
            assert!(lost.to_string().contains("within 300 ms"), "{lost}");
            assert!(took < AT_MOST, "{took:?}");
        });
        while server_waits(&directory, &server) != 0 {}
    }
}

/// A deadline is kept while a session waits for its connection.
#[test]
fn a_call_that_blocks_gives_up_at_its_deadline() {
    let _alone = alone();
    let _watchdog = Watchdog::new("a deadline");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let work = connect(&directory, &proxy, Waiting::Adaptive, LONG);
    let blocking = work.blocking();
    assert_eq!(blocking.add(1, 1), Ok(2));
    let blocking = blocking.deadline(Duration::from_millis(200));
    for stalls in [false, true] {
        if stalls {
            proxy.stall(true)
        } else {
            proxy.refuse(true)
        };
        proxy.cut(How::Reset);
        let began = Instant::now();
        let error = blocking.add(2, 2).unwrap_err();
        // The session waits for a connection, and takes the call only if the break was not noticed before.
        assert!(matches!(error, CallError::Deadline(_)), "{error}");
        assert!(error.to_string().contains("`add` of service `Work` at server"), "{error}");
        assert!(began.elapsed() < AT_MOST, "{:?}", began.elapsed());
        proxy.refuse(false);
        proxy.stall(false);
        let patient = work.blocking();
        assert_eq!(patient.add(3, 3), Ok(6));
    }
}

/// Handlers that stand in `forever` at the server.
fn server_waits(directory: &Directory, server: &Server) -> u64 {
    let direct: WorkHandle = handle(directory).connect(&server.named("server")).unwrap();
    direct.blocking().waiting().unwrap().0
}
