//! Messages that their sender builds in place, in a loaned buffer.

use crate::common::server::KINDS;
use crate::common::{Watchdog, first, over_network, soon};
use crate::depot::{DepotClient, Make, Stand, bytes_of, is_lost, sum, with_each_kind};
use std::io::Write;
use std::pin::pin;
use std::time::Duration;
use upbeat::error::Called;
use upbeat::{CallError, Waiting};
use upbeat_core::limits::MESSAGE_BYTES_MAX;
use upbeat_memory::probe::{Count, tally};

/// Lengths that lie in a slot, in the buffers of each size, and in a buffer of their own.
const LENGTHS: [usize; 9] = [0, 1, 60, 105, 500, 4_000, 60_000, 300_001, 3 << 20];

#[test]
fn a_message_arrives_as_it_was_built() {
    let _watchdog = Watchdog::new("loans");
    with_each_kind(async |depot| {
        for (number, len) in LENGTHS.into_iter().enumerate() {
            let bytes = bytes_of(number as u64, len);
            // In two pieces, the last first; and as a stream.
            let mut loan = depot.loan_sum8(3, len).await.unwrap();
            assert_eq!((loan.len(), loan.is_empty()), (len, len == 0));
            loan.write_at(len / 2, &bytes[len / 2..]);
            loan.write_at(0, &bytes[..len / 2]);
            let (count, total, lent) = loan.send().await.unwrap();
            assert_eq!((count, total), (len as u64, sum(&bytes)), "{len} bytes");
            assert_eq!(lent, len > 88, "{len} bytes");
            let mut loan = depot.loan_mirror(len).await.unwrap();
            loan.write_all(&bytes).unwrap();
            assert_eq!(loan.write(&[1]).unwrap(), 0, "the loan is full");
            assert_eq!(loan.send().await.unwrap().to_vec(), bytes);
        }
        let pairs: Vec<[u64; 2]> = (0..2000).map(|at| [at, at * at]).collect();
        let mut loan = depot.loan_sum_pairs("odd".into(), pairs.len()).await.unwrap();
        loan.write_at(1, &pairs[1..]);
        loan.write_at(0, &pairs[..1]);
        let total = pairs.iter().map(|[one, two]| one * 3 + two).sum();
        assert_eq!(loan.send().await, Ok((2000, total, true)));
    });
}

/// Returns a client and an open depot.
fn opened() -> Stand {
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(KINDS[0], make, make);
    stand.open(true);
    stand
}

#[test]
fn a_message_in_a_buffer_is_not_copied_again() {
    let _watchdog = Watchdog::new("loans");
    let stand = opened();
    stand.node.block_on(async {
        let depot = stand.client().await;
        let mut loan = depot.loan_mirror(60_000).await.unwrap();
        let before = tally()[Count::Copies as usize];
        loan.write_at(0, &bytes_of(1, 60_000));
        let call = loan.send().try_send().unwrap();
        assert_eq!(
            tally()[Count::Copies as usize] - before,
            0,
            "copies of a message that lies there"
        );
        assert_eq!(call.await.unwrap().to_vec(), bytes_of(1, 60_000));
    });
}

/// Plain use at full speed: each buffer is loaned, sent, returned and loaned again.
#[test]
fn loans_go_round_and_round_in_order() {
    let _watchdog = Watchdog::new("loans");
    with_each_kind(async |depot| {
        let messages = if over_network() { 500 } else { 3_000 };
        for number in 1..=messages {
            let len = 200 + 37 * (number as usize % 50);
            let mut loan = depot.loan_put_in_place(number, len).await.unwrap();
            loan.write_at(0, &bytes_of(number, len));
            loan.send().await.unwrap();
        }
        // An answer says that all messages before were handled.
        depot.echo(Vec::new()).await.unwrap();
        let (begun, _, _, disorder) = depot.state().await.unwrap();
        assert_eq!((begun, disorder), (messages, 0));
    });
}

/// Takes all loans of about this length that there are.
async fn hold_all(depot: &DepotClient, len: usize) -> Vec<impl Sized> {
    let mut loans = Vec::new();
    loop {
        // So long that a busy peer grants a buffer meanwhile.
        let wait = upbeat::sleep(Duration::from_millis(200));
        match first(depot.loan_mirror(len), wait).await {
            Ok(loan) => loans.push(loan.unwrap()),
            Err(()) => return loans,
        }
    }
}

/// Takes all loans of about this length, gives them back, and returns how many there are.
async fn take_all(depot: &DepotClient, len: usize) -> usize {
    let mut loans = hold_all(depot, len).await;
    // A loan that is dropped makes room for a message that waits.
    let (count, one) = (loans.len(), loans.pop());
    let drops = async {
        upbeat::sleep(Duration::from_millis(1)).await;
        drop(one);
        std::future::pending::<()>().await;
    };
    assert!(matches!(first(depot.loan_mirror(len), drops).await, Ok(Ok(_))));
    count
}

#[test]
fn loans_that_are_dropped_are_loaned_again() {
    let _watchdog = Watchdog::new("loans");
    let stand = opened();
    stand.node.block_on(async {
        let depot = stand.client().await;
        for len in [500, 60_000] {
            let count = take_all(&depot, len).await;
            assert!(count > 1, "{count} loans of {len} bytes");
            assert_eq!(take_all(&depot, len).await, count, "loans of {len} bytes");
            // Replies have buffers of their own, and messages of another size are not held up.
            assert_eq!(depot.echo(vec![1; 3 * len]).await.unwrap().len(), 3 * len);
        }
    });
}

/// Later messages of the session, of any length, are sent once the loan is there that was awaited before them.
#[test]
fn messages_wait_behind_a_loan_that_is_awaited() {
    let _watchdog = Watchdog::new("loans");
    let stand = opened();
    stand.node.block_on(async {
        let depot = stand.client().await;
        let loans = hold_all(&depot, 500).await;
        let mut late = pin!(depot.loan_mirror(500));
        crate::long::begin(late.as_mut()).await;
        let mut behind = pin!(depot.echo(vec![1]));
        let waits = upbeat::within(Duration::from_millis(100), behind.as_mut()).await;
        assert!(waits.is_err(), "{waits:?}");
        drop(loans);
        assert!(soon(late).await.is_ok());
        assert_eq!(soon(behind).await, Ok(vec![1]));
    });
}

/// The handlers of such calls end, and their buffers come back.
#[test]
fn loans_whose_calls_are_late_or_dropped_are_loaned_again() {
    let _watchdog = Watchdog::new("late loans");
    let make = Make::new(Waiting::Adaptive);
    let stand = Stand::new(KINDS[0], make, make);
    stand.node.block_on(async {
        let depot = stand.client().await;
        for len in [500, 60_000] {
            let count = take_all(&depot, len).await;
            for number in 0..2 * count as u64 {
                // The gate is shut, so no handler ends by itself.
                let loan = depot.loan_panics_in_place(number, true, len).await.unwrap();
                let late = loan.send().deadline(Duration::from_millis(5)).await.unwrap_err();
                assert!(matches!(late, CallError::Deadline(_)), "{late}");
                let loan = depot.loan_panics_in_place(number, true, len).await.unwrap();
                let soon_dropped = upbeat::sleep(Duration::from_millis(5));
                assert!(first(loan.send(), soon_dropped).await.is_err());
            }
            while depot.state().await.unwrap().1 > 0 {}
            assert_eq!(take_all(&depot, len).await, count, "loans of {len} bytes");
        }
    });
}

#[test]
fn a_loan_that_cannot_be_had_is_an_error() {
    let _watchdog = Watchdog::new("loans");
    let make = Make::new(Waiting::Adaptive);
    let mut stand = Stand::new(KINDS[0], make, make);
    stand.open(true);
    let depot = stand.node.block_on(stand.client());
    stand.node.block_on(async {
        let long = depot.loan_mirror(MESSAGE_BYTES_MAX).await.err();
        let (bytes, most) = (MESSAGE_BYTES_MAX + 8, MESSAGE_BYTES_MAX);
        assert_eq!(long, Some(CallError::TooLarge { bytes, most, called: Called::default() }));
        let longest = depot.loan_sum_pairs(String::new(), usize::MAX).await.err();
        assert_eq!(
            longest,
            Some(CallError::TooLarge { bytes: usize::MAX, most, called: Called::default() })
        );
    });
    let loan = stand.node.block_on(depot.loan_mirror(500)).unwrap();
    drop(stand.server.take());
    stand.node.block_on(async {
        let error = loan.send().await.unwrap_err();
        assert!(is_lost(&error), "{error}");
        while let Ok(loan) = depot.loan_mirror(500).await {
            loan.send().await.unwrap_err();
        }
    });
}
