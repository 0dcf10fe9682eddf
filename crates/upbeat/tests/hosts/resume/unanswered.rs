//! A host that answers nothing for a while, longer than the system waits between its own attempts to connect.

use super::proxy::{Deaf, How, Proxy};
use crate::common::work::WorkHandle;
use crate::common::{Directory, Watchdog, alone, at_once, block_on};
use crate::{Server, client_that, connected, handle};
use std::time::Duration;
use upbeat::Counter;

/// The system asks again for a connection seven seconds after the first time, and before that at the latest after five.
const AWAY: Duration = Duration::from_millis(5_200);
/// The session ends before the system asks again.
const WITHIN: Duration = Duration::from_millis(6_900);

#[derive(Clone, Copy, Debug)]
enum Client {
    Node,
    Blocking,
    Awaited,
}

/// Lets the host answer again after a while, beside what `act` does.
fn heals<T>(deaf: Deaf<'_>, act: impl FnOnce() -> T) -> T {
    std::thread::scope(|scope| {
        scope.spawn(move || {
            std::thread::sleep(AWAY);
            drop(deaf);
        });
        act()
    })
}

/// A session is resumed soon after its host is back, and not when the system next asks for the connection.
#[test]
fn a_session_outlives_attempts_that_are_not_answered() {
    let _alone = alone();
    let _watchdog = Watchdog::new("attempts without an answer");
    at_once([Client::Node, Client::Blocking, Client::Awaited], |client| {
        let (directory, server) = (Directory::new(), Server::start("server"));
        let proxy = Proxy::to(&server.at);
        let to = format!("server@{}", proxy.at);
        let cut = || {
            let deaf = proxy.deafen();
            proxy.cut(How::Reset);
            deaf
        };
        let connect =
            || -> WorkHandle { handle(&directory).resume_within(WITHIN).connect(&to).unwrap() };
        match client {
            Client::Node => {
                let node = client_that(&directory, |builder| builder.resume_within(WITHIN));
                let work = node.block_on(connected(&node, &to));
                assert_eq!(node.block_on(work.add(1, 1)), Ok(2));
                assert_eq!(heals(cut(), || node.block_on(work.add(2, 2))), Ok(4));
                let counters = [Counter::SessionsOpened, Counter::SessionsResumed];
                assert_eq!(counters.map(|counter| node.counted(counter)), [1, 1]);
            }
            Client::Blocking => {
                let work = connect();
                let blocking = work.blocking();
                assert_eq!(blocking.add(1, 1), Ok(2));
                assert_eq!(heals(cut(), || blocking.add(2, 2)), Ok(4));
            }
            Client::Awaited => {
                let work = connect();
                assert_eq!(block_on(work.add(1, 1)), Ok(2));
                assert_eq!(heals(cut(), || block_on(work.add(2, 2))), Ok(4));
            }
        }
    });
}
