//! A network that loses packets: TCP sends them again, and nothing else notices.

use crate::common::{Watchdog, setting};
use crate::networks::namespaces::{Network, with_network};
use crate::networks::writers::{PATIENT, Run, Writer};
use crate::networks::{Client, Over, Stand};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};
use upbeat::Waiting;

/// Clients that begin before the network loses so many of a hundred packets, and then send each so much more.
fn lose_amid(network: &Network, stand: &Stand<'_>, writers: &[Writer], percent: u64, more: u64) {
    let run = Run { share: more, healed: AtomicBool::new(false) };
    let done = || writers.iter().map(|writer| writer.done.load(SeqCst)).collect::<Vec<_>>();
    let begun = Instant::now();
    let lost = thread::scope(|scope| {
        for writer in writers {
            scope.spawn(|| writer.write(stand, &run));
        }
        // Connections are made first: TCP waits a second for an answer to its first packet.
        while done().contains(&0) {
            thread::sleep(Duration::from_millis(1));
        }
        let loses = network.lose(percent);
        let before = done();
        let is_behind = |(done, before): (u64, &u64)| done < before + more;
        while loses && done().into_iter().zip(&before).any(is_behind) {
            thread::sleep(Duration::from_millis(1));
        }
        run.healed.store(true, SeqCst);
        loses.then(|| network.lost())
    });
    println!("{percent} %: {lost:?} packets were lost amid {:?} in {:?}", done(), begun.elapsed());
    assert_ne!(lost, Some(0), "nothing was lost");
}

#[test]
fn a_network_that_loses_packets_costs_time_and_nothing_else() {
    let test = "loss::a_network_that_loses_packets_costs_time_and_nothing_else";
    with_network(test, |network| {
        let _watchdog = Watchdog::new("loss");
        let stand = Stand::new(network, PATIENT);
        let more = setting("UPBEAT_NETWORK_CALLS", 20_000) / 200;
        for (round, percent) in (0..).zip([1, 5, 10]) {
            let clients = [
                (Client::Node(Waiting::Adaptive), Over::Tcp),
                (Client::Node(Waiting::Sleeping), Over::Tls),
                (Client::Blocking(Waiting::Adaptive), Over::Tcp),
                (Client::Awaited, Over::Tls),
            ];
            let writers = (10 * round..).zip(clients);
            let writer = |(number, (client, over))| Writer::new(number, client, over, PATIENT);
            lose_amid(network, &stand, &writers.map(writer).collect::<Vec<_>>(), percent, more);
        }
    });
}
