//! Peers that ask for streams which they were never given.

use crate::common::Watchdog;
use crate::common::server::KINDS;
use crate::raw::Raw;
use crate::shelf::{Stand, all_gone};
use upbeat::Waiting;
use upbeat_core::bind::{PULL, PUSH};
use upbeat_core::frame::{CallNumber, FailCode, Failure, Head, Kind};
use upbeat_transport::place::Place;

/// What is answered to a call of a stranger's.
fn ask(raw: &Raw, index: u32, method: u16, payload: &[u8]) -> Option<(FailCode, String)> {
    let call = CallNumber { index, generation: 1 };
    let span = upbeat_memory::ring::span_of(payload.len());
    let mut claim = raw.lanes.claim(span, 0).unwrap();
    claim.write(0, payload);
    claim.commit(Head::call(method, call, payload.len() as u32).words(), payload.len());
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

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn a_stream_is_its_sessions_alone() {
    if !crate::common::shares_memory("the stranger writes into a shared lane") {
        return;
    }
    let _watchdog = Watchdog::new("strangers", 60);
    // The server is another process: the bare session is found by its socket.
    let stand = Stand::new(KINDS[1], Waiting::Adaptive);
    let mut numbers = stand.node.block_on(async {
        let mut numbers = stand.shelf().await.count(100_000).await.unwrap();
        numbers.next().await.unwrap().unwrap();
        numbers
    });
    let raw = Raw::connect(&Place::at(&stand.place).unwrap(), &stand.name).unwrap();
    let mut index = 0;
    for number in [0, 1, 2, u64::from(u32::MAX)] {
        for (method, payload) in
            [(PULL, words(&[number])), (PUSH, words(&[number, 0, 1, 5])), (PUSH, vec![])]
        {
            index += 1;
            let (code, text) = ask(&raw, index, method, &payload).expect("it is refused");
            assert_eq!(code, FailCode::BadArguments);
            assert!(text.contains("none of that number") || payload.is_empty(), "{text}");
        }
        // And takes back what is not its own.
        for index in 0..64 {
            let call = CallNumber { index, generation: 1 };
            let head = match index % 3 {
                0 => Head::cancel_stream(index / 3, true),
                1 => Head::cancel_stream(index / 3, false),
                _ => Head::cancel(call),
            };
            raw.lanes.claim(1, 0).unwrap().commit(head.words(), 0);
            if index % 16 == 15 {
                let (code, _) = ask(&raw, 1000 + index, PULL, &words(&[1])).unwrap();
                assert_eq!(code, FailCode::BadArguments);
            }
        }
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
