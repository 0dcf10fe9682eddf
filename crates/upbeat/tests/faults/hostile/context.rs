//! Contexts that an honest peer would not send.

use super::attack::Attack;
use super::raw::Raw;
use super::room::{ADD, against, connect};
use upbeat_core::context::Context;
use upbeat_core::frame::{CallNumber, Flags, Head, Kind};
use upbeat_core::limits::CONTEXT_BYTES_MAX;

const NOTE: u16 = 9;

/// The payload of a call of `add`, behind a context of so many bytes as is said.
fn payload(said: u64, block: &[u8]) -> Vec<u8> {
    let mut payload = said.to_le_bytes().to_vec();
    payload.extend_from_slice(block);
    payload.resize(payload.len().next_multiple_of(8) + 16, 0);
    payload
}

fn call(index: u32, payload: &[u8]) -> Head {
    Head::call(ADD, CallNumber::new(index, 1), payload.len() as u32).with_flags(Flags::CONTEXT)
}

impl Raw {
    /// Calls with such a context, and expects an answer.
    fn add_within(&self, index: u32, block: &[u8]) {
        let payload = payload(block.len() as u64, block);
        assert!(self.put(call(index, &payload).words(), &payload));
        let head = self.next().expect("an answer");
        assert_eq!((head.kind, head.call), (Kind::Reply, CallNumber::new(index, 1)));
    }
}

impl Attack {
    /// A context of bytes that may be one, of as many as may be said.
    pub(crate) fn context(&mut self) -> bool {
        let mut context = Context::default();
        for key in ["tenant", "trace", "t"].iter().take(self.random.below(4) as usize) {
            let value = vec![7; self.random.below(100) as usize];
            context.set(key, &value).unwrap();
        }
        let mut block = context.as_bytes().to_vec();
        if self.random.below(3) == 0 && !block.is_empty() {
            let at = self.random.below(block.len() as u64) as usize;
            block[at] ^= 1 << self.random.below(8);
        }
        let said = match self.random.below(4) {
            0 => self.random.next() >> self.random.below(64),
            _ => block.len() as u64,
        };
        let payload = payload(said, &block);
        let head = match self.random.below(2) {
            0 => Head::oneway(NOTE, payload.len() as u32).with_flags(Flags::CONTEXT),
            _ => call(self.next_call().index(), &payload),
        };
        self.frame(head.words(), &payload)
    }
}

#[test]
fn a_context_that_breaks_a_rule_ends_its_session_alone() {
    if !crate::common::shares_memory("the peers of this test write into shared lanes") {
        return;
    }
    let (ends, _) = against("contexts", |place| {
        let raw = connect(place);
        raw.add_within(0, &[]);
        raw.add_within(1, &[1, 0, b'a', 2, 0, 0xff, 0xff]);
        let broken: [(u64, &[u8]); 7] = [
            (u64::MAX, &[]),
            (CONTEXT_BYTES_MAX as u64 + 1, &[0; CONTEXT_BYTES_MAX + 1]),
            (25, &[1, 0, b'a', 0, 0]),
            (4, &[0; 4]),
            (5, &[9, 0, b'a', 0, 0]),
            (5, &[1, 0, 0xff, 0, 0]),
            (10, &[1, 0, b'a', 0, 0, 1, 0, b'a', 0, 0]),
        ];
        for (said, block) in broken {
            let liar = connect(place);
            let payload = payload(said, block);
            assert!(liar.put(call(0, &payload).words(), &payload));
            assert!(liar.next().is_none(), "{said}: {block:?}");
        }
        // Of a request that had to wait, the context is read when it runs.
        let liar = connect(place);
        assert!(liar.reserve(1000));
        let payload = payload(4, &[0; 4]);
        assert!(liar.put(call(0, &payload).words(), &payload));
        assert_eq!(liar.next().map(|head| head.kind), Some(Kind::Grant));
        assert!(liar.put(Head::withdraw(0).words(), &[]));
        while liar.next().is_some() {}
        raw.add_within(2, &[1, 0, b'b', 0, 0]);
    });
    let broken =
        ["RecordField", "RecordTruncated"].map(|rule| ends.get(rule).copied().unwrap_or(0));
    assert_eq!(broken.iter().sum::<u64>(), 8, "{ends:?}");
}
