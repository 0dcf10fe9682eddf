//! Peers that ask for streams which they were never given.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::streams::raw::Raw;
use crate::streams::shelf::{Stand, all_gone};
use upbeat::Waiting;
use upbeat_core::channel::stream::{Control as StreamControl, Operation as StreamOperation};
use upbeat_core::channel::{Control, Operation};
use upbeat_core::frame::{CallNumber, FailCode, Failure, Head, Kind};
use upbeat_transport::socket_directory::SocketDirectory;

const PULL: Operation = Operation::Stream(StreamOperation::Pull);
const PUSH: Operation = Operation::Stream(StreamOperation::Push);
const STOP: Control = Control::Stream(StreamControl::Stop);
const ABANDON: Control = Control::Stream(StreamControl::Abandon);

/// Returns the reply to an operation of a stranger.
fn ask(raw: &Raw, index: u32, operation: Operation, payload: &[u8]) -> Option<(FailCode, String)> {
    ask_code(raw, index, operation.code(), payload)
}

fn ask_code(raw: &Raw, index: u32, code: u16, payload: &[u8]) -> Option<(FailCode, String)> {
    let call = CallNumber::new(index, 1);
    let span = upbeat_memory::ring::span_of(payload.len());
    let mut claim = raw.lanes.claim(span, 0).unwrap();
    claim.write(0, payload);
    claim.commit(Head::operation(code, call, payload.len() as u32).words(), payload.len());
    raw.ring();
    loop {
        let Ok(Some(words)) = raw.lanes.look() else {
            assert!(!raw.is_over(), "its session goes on");
            std::thread::yield_now();
            continue;
        };
        let head = Head::parse(words).unwrap();
        let mut answer = vec![0; head.len as usize];
        raw.lanes.reader().read(0, &mut answer);
        raw.advance(&head);
        raw.lanes.publish_progress();
        if head.call == call {
            return (head.kind == Kind::Failed).then(|| {
                let failure = Failure::parse(&answer).unwrap();
                (failure.code(), failure.text().to_owned())
            });
        }
    }
}

/// Control that no channel has ends the session of the one who sends it, and no other.
#[test]
fn control_of_no_channel_ends_its_session() {
    if !crate::common::shares_memory("the stranger writes into a shared lane") {
        return;
    }
    let _watchdog = Watchdog::new("control of no channel");
    let stand = Stand::new(KINDS[1], Waiting::Adaptive);
    for code in [0, 0x101, 0x105, 0x203, u16::MAX] {
        let mut numbers = stand.node.block_on(async {
            let mut numbers = stand.shelf().await.count(1000).await.unwrap();
            numbers.next().await.unwrap().unwrap();
            numbers
        });
        let raw = Raw::connect(&SocketDirectory::at(&stand.place).unwrap(), &stand.name).unwrap();
        raw.lanes.claim(1, 0).unwrap().commit(Head::control(code, 1).words(), 0);
        raw.ring();
        while !raw.is_over() {
            std::thread::yield_now();
        }
        stand.node.block_on(async {
            for number in 1..1000 {
                assert_eq!(numbers.next().await, Some(Ok(number)));
            }
            assert!(numbers.next().await.is_none());
        });
    }
}

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_stream_is_its_sessions_alone() {
    if !crate::common::shares_memory("the stranger writes into a shared lane") {
        return;
    }
    let _watchdog = Watchdog::new("strangers");
    // The server is another process: the bare session is found by its socket.
    let stand = Stand::new(KINDS[1], Waiting::Adaptive);
    let mut numbers = stand.node.block_on(async {
        let mut numbers = stand.shelf().await.count(100_000).await.unwrap();
        numbers.next().await.unwrap().unwrap();
        numbers
    });
    let raw = Raw::connect(&SocketDirectory::at(&stand.place).unwrap(), &stand.name).unwrap();
    let mut index = 0;
    for number in [0, 1, 2, u64::from(u32::MAX)] {
        for (operation, payload) in
            [(PULL, words(&[number])), (PUSH, words(&[number, 0, 1, 5])), (PUSH, vec![])]
        {
            index += 1;
            let (code, text) = ask(&raw, index, operation, &payload).expect("it is refused");
            assert_eq!(code, FailCode::BadArguments);
            assert!(text.contains("none of that number") || payload.is_empty(), "{text}");
        }
        // And takes back what is not its own.
        for index in 0..64 {
            let call = CallNumber::new(index, 1);
            let head = match index % 3 {
                0 => Head::control(STOP.code(), index / 3),
                1 => Head::control(ABANDON.code(), index / 3),
                _ => Head::cancel(call),
            };
            raw.lanes.claim(1, 0).unwrap().commit(head.words(), 0);
            if index % 16 == 15 {
                let (code, _) = ask(&raw, 1000 + index, PULL, &words(&[1])).unwrap();
                assert_eq!(code, FailCode::BadArguments);
            }
        }
    }
    // An operation that does not exist is refused, and so are numbers of methods.
    for code in [0, 1, 0x100, 0x103, 0x201, u16::MAX] {
        index += 1;
        let (code, _) = ask_code(&raw, index, code, &words(&[1])).expect("it is refused");
        assert_eq!(code, FailCode::NoSuchMethod);
    }
    // Its owner has it still, whole.
    stand.node.block_on(async {
        for number in 1..100_000 {
            assert_eq!(numbers.next().await, Some(Ok(number)));
        }
        assert!(numbers.next().await.is_none());
        all_gone(&stand.shelf().await).await;
    });
}
