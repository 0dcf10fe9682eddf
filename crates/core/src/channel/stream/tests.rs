//! Tests that compare the table of a session's streams, and the intake of an argument, with plain models.

use super::*;
use crate::limits::{STREAM_BYTES_MAX, STREAM_ITEMS_MAX};
use alloc::collections::VecDeque;
use proptest::prelude::*;

fn call(index: u32) -> CallNumber {
    CallNumber::new(index, 1)
}

#[derive(Clone, Copy, Debug)]
enum Act {
    OpenResult(u32),
    OpenArgument(u32, u32),
    CloseResult(u32),
    CloseArgument(u32),
    Stop(u32),
    Abandon(u32),
    Cancel(u32),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => (0..8u32).prop_map(Act::OpenResult),
        6 => (0..8u32, 0..40u32).prop_map(|(call, number)| Act::OpenArgument(call, number)),
        1 => (0..40u32).prop_map(Act::CloseResult),
        1 => (0..40u32).prop_map(Act::CloseArgument),
        1 => (0..40u32).prop_map(Act::Stop),
        1 => (0..40u32).prop_map(Act::Abandon),
        1 => (0..8u32).prop_map(Act::Cancel),
    ]
}

proptest! {
    /// Each end is returned exactly once, by the event that ends its stream, and by no event that names another
    /// stream.
    #[test]
    fn a_number_means_one_stream_until_its_end(acts in prop::collection::vec(act(), 0..600)) {
        let mut streams: Streams<u32, u32> = Streams::default();
        // For each open stream: its number, its call, and its end.
        let mut results: Vec<(u32, u32, u32)> = Vec::new();
        let mut arguments: Vec<(u32, u32, u32)> = Vec::new();
        let take = |open: &mut Vec<(u32, u32, u32)>, number: u32| {
            let at = open.iter().position(|open| open.0 == number)?;
            Some(open.swap_remove(at).2)
        };
        for (end, act) in (0..).zip(acts) {
            let is_full = results.len() + arguments.len() == STREAMS_PER_SESSION_MAX;
            match act {
                Act::OpenResult(of) => match streams.open_result(call(of), end) {
                    Ok(number) => {
                        prop_assert!(!is_full && results.iter().all(|open| open.0 != number));
                        results.push((number, of, end));
                    }
                    Err(refusal) => prop_assert!(is_full && refusal == Refusal::TooMany),
                },
                Act::OpenArgument(of, number) => {
                    let is_taken = arguments.iter().any(|open| open.0 == number);
                    let wanted = match (is_full, is_taken) {
                        (true, _) => Err(Refusal::TooMany),
                        (false, true) => Err(Refusal::Taken),
                        (false, false) => Ok(()),
                    };
                    prop_assert_eq!(streams.open_argument(call(of), number, end), wanted);
                    if wanted.is_ok() {
                        arguments.push((number, of, end));
                    }
                }
                Act::CloseResult(number) => {
                    prop_assert_eq!(streams.close_result(number), take(&mut results, number));
                }
                Act::CloseArgument(number) => {
                    prop_assert_eq!(streams.close_argument(number), take(&mut arguments, number));
                }
                Act::Stop(number) => {
                    let ended = streams.handle_control(Control::Stop, number);
                    let wanted: Vec<u32> = take(&mut results, number).into_iter().collect();
                    prop_assert_eq!(ended, Ended { results: wanted, arguments: Vec::new() });
                }
                Act::Abandon(number) => {
                    let ended = streams.handle_control(Control::Abandon, number);
                    let wanted: Vec<u32> = take(&mut arguments, number).into_iter().collect();
                    prop_assert_eq!(ended, Ended { results: Vec::new(), arguments: wanted });
                }
                Act::Cancel(of) => {
                    let mut ended = streams.handle_cancel(call(of));
                    let gone = results.extract_if(.., |open| open.1 == of);
                    let mut wanted: Vec<u32> = gone.map(|open| open.2).collect();
                    ended.results.sort_unstable();
                    wanted.sort_unstable();
                    prop_assert_eq!(ended, Ended { results: wanted, arguments: Vec::new() });
                }
            }
            prop_assert_eq!(streams.len(), results.len() + arguments.len());
            for (number, _, end) in &results {
                prop_assert_eq!(streams.result(*number), Some(end));
            }
            for (number, _, end) in &arguments {
                prop_assert_eq!(streams.argument(*number), Some(end));
            }
        }
        let ended = streams.handle_lost();
        prop_assert_eq!(ended.results.len(), results.len());
        prop_assert_eq!(ended.arguments.len(), arguments.len());
    }

    /// A writer that waits for each reply is never refused and never more than two batches ahead. It gets its
    /// reply as soon as there is room, and every item that was sent before the end arrives.
    #[test]
    fn a_writer_is_as_fast_as_its_reader(
        batches in prop::collection::vec(0..4usize, 1..40),
        reads in prop::collection::vec(any::<bool>(), 0..80),
        leaves_after in prop::option::of(0..40usize),
    ) {
        let mut intake = ArgumentReader::default();
        // The batches that wait for the reader.
        let mut here: VecDeque<usize> = VecDeque::new();
        let mut reads = reads.into_iter().chain(core::iter::repeat(true));
        let last = batches.len() - 1;
        for (index, items) in batches.into_iter().enumerate() {
            let is_left = leaves_after.is_some_and(|after| index > after);
            let is_kept = intake.handle_push(items, index == last);
            prop_assert_eq!(is_kept, Ok(items > 0 && !is_left));
            if is_kept == Ok(true) {
                here.push_back(items);
            }
            prop_assert!(here.len() <= 2);
            if leaves_after == Some(index) {
                intake.leave();
                here.clear();
            }
            // The reader reads, or does not, until the writer gets its reply.
            let answer = loop {
                if let Some(answer) = intake.answer() {
                    break answer;
                }
                prop_assert_eq!(here.len(), 2, "a reply waits only for room");
                if reads.next() == Some(true) && here.pop_front().is_some() {
                    intake.read_batch();
                }
            };
            let gone = leaves_after.is_some_and(|after| index >= after);
            prop_assert_eq!(answer, if gone { Wanted::Nothing } else { Wanted::More });
            if gone {
                break;
            }
        }
    }
}

proptest! {
    /// For every order in which a reader and a writer of a result are polled: one pull is under way at a time, one
    /// batch is ahead at most, and all batches arrive.
    #[test]
    fn a_reader_is_one_batch_ahead(
        batches in 1..40usize,
        turns in prop::collection::vec(0..4u8, 0..200),
        leaves_after in prop::option::of(0..40usize),
    ) {
        let (mut ahead, mut demand) = (ResultReader::default(), ResultWriter::default());
        ahead.received();
        // The pulls under way, the replies under way, the batches here, those that the reader has begun, and those
        // sent.
        let (mut pulls, mut replies, mut here, mut read, mut sent) = (0, 0, 0, 0, 0);
        let turns = turns.into_iter().chain((0..4).cycle().take(8 * 40));
        for turn in turns {
            match turn {
                0 if ahead.begin_pull() => {
                    pulls += 1;
                    prop_assert!(ahead.is_asked() && pulls + replies == 1);
                }
                1 if pulls == 1 && sent < batches => {
                    prop_assert_eq!(demand.handle_pull(), Ok(()));
                    prop_assert_eq!(demand.handle_pull(), Err(AskedAlready));
                    sent += 1;
                    prop_assert_eq!(demand.batch_collected(sent == batches), sent == batches);
                    prop_assert!(!demand.pull_dropped(), "its items are on their way");
                    demand.answered();
                    (pulls, replies) = (0, 1);
                }
                2 if replies == 1 => {
                    (replies, here) = (0, here + 1);
                    prop_assert_eq!(ahead.handle_batch(sent == batches), sent < batches);
                }
                3 if here > 0 => {
                    (here, read) = (here - 1, read + 1);
                    ahead.read_batch();
                }
                _ => {}
            }
            prop_assert!(sent - read <= BATCHES_AHEAD && here <= BATCHES_AHEAD);
            if leaves_after == Some(read) && read < batches && sent < batches {
                prop_assert_eq!(ahead.leave(), Some(Control::Stop));
                prop_assert_eq!(ahead.leave(), None, "the writer is told once");
                return Ok(());
            }
        }
        prop_assert_eq!((read, sent, pulls), (batches, batches, 0), "the stream makes progress");
        prop_assert_eq!(ahead.leave(), None, "the writer knows of the end");
    }
}

#[test]
fn dropping_a_waiting_pull_ends_the_stream() {
    let mut demand = ResultWriter::default();
    assert!(!demand.pull_dropped(), "there is no pull");
    demand.handle_pull().unwrap();
    assert!(demand.pull_dropped());
}

#[test]
fn a_reader_stops_its_writer_only_after_it_has_the_result() {
    let mut ahead = ResultReader::default();
    assert_eq!(ahead.leave(), None, "the call is cancelled as a whole");
    ahead.received();
    assert!(ahead.begin_pull());
    ahead.handle_failed();
    assert!(!ahead.begin_pull() && ahead.leave() == Some(Control::Stop));
}

#[test]
fn a_writer_stops_when_nobody_wants_more() {
    let mut feed = ArgumentWriter::default();
    assert_eq!(ArgumentWriter::default().leave(), Some(Control::Abandon));
    feed.begin_push(false);
    assert!(!feed.handle_answer(Wanted::Nothing));
    assert_eq!(feed.leave(), None);
    // The last batch was sent and its reply has not come, so the batch may not have arrived.
    let mut feed = ArgumentWriter::default();
    feed.begin_push(true);
    assert_eq!(feed.leave(), Some(Control::Abandon));
    let mut feed = ArgumentWriter::default();
    feed.begin_push(true);
    assert!(!feed.handle_answer(Wanted::More), "nothing is left to be sent");
}

#[test]
fn a_batch_without_credit_is_refused() {
    let mut intake = ArgumentReader::default();
    assert_eq!(intake.handle_push(1, false), Ok(true));
    assert_eq!(intake.handle_push(1, false), Ok(true));
    assert_eq!(intake.handle_push(1, false), Err(NoCredit));
    // An empty batch takes no room, but it has no credit either.
    assert_eq!(intake.handle_push(0, true), Err(NoCredit));
    intake.read_batch();
    assert_eq!(intake.handle_push(0, true), Ok(false));
    assert_eq!(intake.answer(), Some(Wanted::More));
}

#[test]
fn a_reader_learns_of_a_break_unless_the_end_has_come() {
    let mut intake = ArgumentReader::default();
    assert!(intake.break_off());
    assert!(!intake.break_off());
    let mut intake = ArgumentReader::default();
    intake.handle_push(1, true).unwrap();
    assert!(!intake.break_off(), "all items have come");
}

#[test]
fn a_batch_is_bounded_by_items_and_by_bytes() {
    let mut many = BatchSize::default();
    (0..STREAM_ITEMS_MAX).for_each(|_| {
        assert!(many.admits());
        many.add(8);
    });
    assert!(!many.admits() && BatchSize::is_allowed(STREAM_ITEMS_MAX));
    assert!(!BatchSize::is_allowed(STREAM_ITEMS_MAX + 1));
    let mut long = BatchSize::default();
    long.add(STREAM_BYTES_MAX - 1);
    assert!(long.admits());
    long.add(1);
    assert!(!long.admits());
}

#[test]
fn an_argument_and_a_result_may_have_one_number() {
    let mut streams: Streams<&str, &str> = Streams::default();
    let number = streams.open_result(call(1), "result").unwrap();
    streams.open_argument(call(2), number, "argument").unwrap();
    assert_eq!(streams.handle_control(Control::Abandon, number).arguments, ["argument"]);
    assert_eq!(streams.result(number), Some(&"result"));
    assert_eq!(streams.handle_cancel(call(2)), Ended::default());
    assert_eq!(streams.handle_cancel(call(1)).results, ["result"]);
}

#[test]
fn a_number_is_not_reused_at_once() {
    let mut streams: Streams<(), ()> = Streams::default();
    let first = streams.open_result(call(1), ()).unwrap();
    streams.close_result(first);
    assert_ne!(streams.open_result(call(1), ()), Ok(first));
}

#[test]
fn a_tail_is_read_from_its_word() {
    for tail in [BatchTail::More, BatchTail::Done, BatchTail::Broken] {
        assert_eq!(BatchTail::from_word(tail.word()), Some(tail));
    }
    assert_eq!(BatchTail::from_word(3), None);
}
