//! Sampled messages of sessions between hosts: what a break and a peer's lies do to them.

use super::ends::Stranger;
use super::proxy::{How, Proxy};
use crate::common::{Directory, Watchdog, alone, soon, until};
use crate::{Server, client_that, connected};
use std::time::Duration;
use upbeat::{Counter, Waiting};
use upbeat_core::bill::clock::Timestamps;
use upbeat_core::bill::taken::MessageStamps;
use upbeat_core::bill::way::{CALL_TCP, POINTS_MAX, StampMode};
use upbeat_core::frame::{CallNumber, Head};
use upbeat_core::hello::{Networked, Record};
use upbeat_core::limits::{HEAD_BYTES, SLOT_BYTES, STAMPS_BYTES_MAX};
use upbeat_core::stream::{write_clock, write_frame};
use upbeat_memory::samples::observe;

/// A clock is the peer's whatever connection there is: samples go on over the next one, of which none is in doubt by
/// more than the message took.
#[test]
fn samples_go_on_over_another_connection() {
    const CALLS: u64 = 64;
    let _alone = alone();
    let _watchdog = Watchdog::new("samples of a session that is resumed");
    let directory = Directory::new();
    let server = Server::start("server");
    let proxy = Proxy::to(&server.at);
    let node = client_that(&directory, |builder| {
        let builder = builder.waiting(Waiting::Adaptive).sampling(1);
        builder.resume_within(Duration::from_secs(20))
    });
    node.block_on(async {
        let work = connected(&node, &format!("server@{}", proxy.at)).await;
        for round in 0..3 {
            if round > 0 {
                proxy.cut(How::Reset);
                until(|| node.counted(Counter::SessionsSuspended) == round).await;
            }
            let before = node.counted(Counter::SamplesTaken);
            for n in 0..CALLS {
                assert_eq!(soon(work.add(n, 1)).await, Ok(n + 1));
            }
            // Only stamps behind an answer are lost with the connection.
            until(|| node.counted(Counter::SamplesTaken) >= before + CALLS - 2).await;
        }
        assert_eq!(node.counted(Counter::SessionsResumed), 2);
    });
    let name = node.name().to_string();
    let pages = observe(std::process::id()).unwrap();
    let page = pages.into_iter().find(|page| page.node() == name).expect("a page");
    let records = (page.oldest()..page.written()).filter_map(|number| page.read(number));
    let wholes: Vec<_> = records.filter(|record| record.rung == StampMode::Whole.byte()).collect();
    assert!(wholes.len() > CALLS as usize, "{}", wholes.len());
    for record in wholes {
        let (began, done) = (record.stamps[0], record.stamps[CALL_TCP.points() - 1]);
        assert!(record.doubt > 0 && record.doubt <= done - began, "{record:?}");
    }
}

/// A peer whose clock says anything, and whose stamps say more, spoils nothing but its own samples.
#[test]
fn lies_about_a_clock_harm_nobody() {
    let _alone = alone();
    let _watchdog = Watchdog::new("lies about clocks");
    let server = Server::start("server");
    let directory = Directory::new();
    let node = client_that(&directory, |builder| builder.waiting(Waiting::Adaptive).sampling(1));
    let extremes = [0, 1, 1 << 32, u64::MAX / 2, u64::MAX - 1, u64::MAX];
    node.block_on(async {
        let work = connected(&node, &server.named("server")).await;
        // The reply to the bind request carries no stamps.
        let lost = node.counted(Counter::SamplesLost);
        for (nth, pace) in
            [0, 1, 1_000_000, 2_900_000_000, 100_000_000_000, u64::MAX].into_iter().enumerate()
        {
            let stamps = Timestamps { sent: u64::MAX, echo: u64::MAX - nth as u64, heard: 0 };
            let new = Networked {
                session: 9,
                position: 0,
                attempt: 0,
                resume_ms: 0,
                pace,
                stamps,
                ticket: None,
            };
            let mut liar = Stranger::greet(&server, 70 + nth as u64, new);
            let Record::Welcome(_) = liar.hears() else { panic!("no welcome") };
            let Record::Network(answer) = liar.hears() else { panic!("no session") };
            // Of a counter that cannot be, nothing is noted.
            let known = (1_000_000..=100_000_000_000).contains(&pace);
            assert_eq!(answer.stamps.echo, if known { stamps.sent } else { 0 });
            assert!(answer.pace > 0 && answer.stamps.heard <= answer.stamps.sent);
            let mut bytes = Vec::new();
            for sent in extremes {
                for heard in extremes {
                    for echo in extremes.into_iter().chain([answer.stamps.sent]) {
                        write_clock(false, Timestamps { sent, echo, heard }, &mut bytes);
                    }
                }
            }
            // So many fit the lane without a word of the reader's.
            extremes.into_iter().for_each(|stamp| lie(stamp, &mut bytes));
            liar.says(&bytes);
            liar.stands(&server);
        }
        for n in 0..32 {
            assert_eq!(soon(work.add(n, 1)).await, Ok(n + 1));
        }
        assert_eq!(soon(work.counted(Counter::PeerFaults as u64)).await, Ok(0));
        assert_eq!(node.counted(Counter::SamplesLost), lost);
    });
}

/// Stamps of a one-way message that has not come.
fn lie(stamp: u64, out: &mut Vec<u8>) {
    let mut taken = MessageStamps::new();
    (0..POINTS_MAX).for_each(|point| taken.set_index(point, stamp.rotate_left(point as u32)));
    let mut payload = [0; STAMPS_BYTES_MAX];
    let len = taken.encode("a lock", &mut payload);
    let mut words = Head::stamps(CallNumber::NONE, len as u32).words();
    words[0] |= ((HEAD_BYTES + len).div_ceil(SLOT_BYTES) as u64) << 16;
    write_frame(words, out);
    out.extend_from_slice(&payload[..len]);
}
