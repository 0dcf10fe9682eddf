//! A network that is parted for a while: everything comes once and in order.

use crate::common::{Watchdog, setting};
use crate::networks::namespaces::with_network;
use crate::networks::writers::{PATIENT, QUICK, Run, Writer};
use crate::networks::{Client, Over, Stand};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Parts the network in the middle of what these write, in one direction or both, for so long.
fn part_amid(
    stand: &Stand<'_>,
    writers: &[Writer],
    calls: u64,
    drops: &[[bool; 2]],
    lasts: Duration,
) {
    let run = Run { share: calls / writers.len() as u64, healed: AtomicBool::new(false) };
    let done = || writers.iter().map(|writer| writer.done.load(SeqCst)).collect::<Vec<_>>();
    let begun = Instant::now();
    thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.write(stand, &run));
        }
        for (nth, drops) in drops.iter().enumerate() {
            let wanted = run.share * (nth as u64 + 1) / (drops.len() as u64 + 1);
            while done().iter().any(|done| *done < wanted) {
                thread::sleep(Duration::from_millis(1));
            }
            stand.network.drop_from(*drops);
            let parted = Instant::now();
            // Messages that had arrived before are read first.
            let before = loop {
                let before = done();
                thread::sleep(lasts / 3);
                if before == done() {
                    break before;
                }
            };
            thread::sleep(lasts / 3);
            assert_eq!(before, done(), "nothing goes through a network that is parted");
            stand.network.part(false);
            println!("parted for {:?} behind {before:?}", parted.elapsed());
        }
        run.healed.store(true, SeqCst);
    });
    println!("{:?} messages in {:?}", done(), begun.elapsed());
}

fn calls() -> u64 {
    setting("UPBEAT_NETWORK_CALLS", 20_000)
}

#[test]
fn a_partition_costs_time_and_nothing_else() {
    with_network("partition::a_partition_costs_time_and_nothing_else", |network| {
        let _watchdog = Watchdog::new("a partition");
        let quick = Stand::new(network, QUICK);
        let writers = [
            (Client::Node(Waiting::Adaptive), Over::Tcp),
            (Client::Node(Waiting::Sleeping), Over::Tls),
            (Client::Node(Waiting::Polling), Over::Tcp),
            (Client::Blocking(Waiting::Adaptive), Over::Tls),
            (Client::Awaited, Over::Tcp),
        ];
        let writers = (1..).zip(writers);
        let writers =
            writers.map(|(number, (client, over))| Writer::new(number, client, over, QUICK));
        let writers: Vec<_> = writers.collect();
        part_amid(&quick, &writers, calls(), &[[true; 2]], Duration::from_secs(3));
    });
}

/// TCP itself outlives a partition that is shorter than the time after which a peer counts as silent.
#[test]
fn a_short_partition_suspends_nothing() {
    with_network("partition::a_short_partition_suspends_nothing", |network| {
        let _watchdog = Watchdog::new("a short partition");
        let patient = Stand::new(network, PATIENT);
        let writers = [
            Writer::new(1, Client::Node(Waiting::Adaptive), Over::Tcp, PATIENT),
            Writer::new(2, Client::Node(Waiting::Sleeping), Over::Tls, PATIENT),
        ];
        part_amid(&patient, &writers, calls() / 10, &[[true; 2]], Duration::from_secs(1));
    });
}

/// Messages in one direction arrive, and messages in the other do not.
#[test]
fn a_network_that_drops_one_direction_costs_time_and_nothing_else() {
    let test = "partition::a_network_that_drops_one_direction_costs_time_and_nothing_else";
    with_network(test, |network| {
        let _watchdog = Watchdog::new("one direction");
        let quick = Stand::new(network, QUICK);
        let writers = [
            Writer::new(1, Client::Node(Waiting::Adaptive), Over::Tls, QUICK),
            Writer::new(2, Client::Node(Waiting::Sleeping), Over::Tcp, QUICK),
        ];
        let drops = [[true, false], [false, true]];
        part_amid(&quick, &writers, calls() / 10, &drops, Duration::from_millis(1_800));
    });
}
