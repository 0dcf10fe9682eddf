//! Callers whose messages are not what they say.

use crate::common::Watchdog;
use crate::references::service::StoreClient;
use crate::references::{name, with_each};
use upbeat::CallError;
use upbeat::error::FailCode;
use upbeat::wire::{Describe, Input, Output, Wire, WireError};

/// A value that claims to be a `String` or a `Vec<u8>`: a length, and then bytes that may be fewer.
#[derive(Clone)]
struct Lie<const TEXT: bool> {
    says: u64,
    has: Vec<u8>,
}

impl<const TEXT: bool> Wire for Lie<TEXT> {
    fn describe(out: &mut Describe) {
        out.text(if TEXT { "String" } else { "Vec<u8>" });
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        self.says.put(out)?;
        out.bytes(&self.has);
        Ok(())
    }

    fn take(_: &mut Input<'_>) -> Result<Self, WireError> {
        unreachable!("nobody sends one back")
    }
}

mod liar {
    use super::Lie;

    #[upbeat::service]
    pub(crate) trait Store {
        async fn put(&self, key: Lie<true>, value: Lie<false>) -> u64;
        /// Too short a block.
        #[oneway]
        async fn note(&self, text: Lie<true>);
    }
}

fn honest<const TEXT: bool>(bytes: &[u8]) -> Lie<TEXT> {
    Lie { says: bytes.len() as u64, has: bytes.to_vec() }
}

#[test]
fn what_is_no_text_or_ends_early_is_refused() {
    let _watchdog = Watchdog::new("lies");
    with_each(|node, place| {
        node.block_on(async {
            let liar: liar::StoreClient = node.connect(&name("store", &place)).await.unwrap();
            let store: StoreClient = node.connect(&name("store", &place)).await.unwrap();
            let bad = [
                (honest(b"\xff\xfe"), honest(b"")),
                (honest(&[0xc3; 5000]), honest(b"")),
                (Lie { says: 9, has: b"short".to_vec() }, honest(b"")),
                (Lie { says: u64::MAX, has: vec![] }, honest(b"")),
                (honest(b"key"), Lie { says: u64::MAX, has: vec![1; 8] }),
                (honest(b"key"), Lie { says: 1 << 40, has: vec![1; 80] }),
                (honest(b"key"), Lie { says: 1001, has: vec![1; 1000] }),
                // More than was announced.
                (honest(b"key"), Lie { says: 8, has: vec![1; 1000] }),
            ];
            for (at, (key, value)) in bad.into_iter().enumerate() {
                assert_eq!(store.put("key", &[1; 100]).await, Ok(3_000_100));
                let error = liar.put(key, value).await.unwrap_err();
                let is_refused =
                    matches!(error, CallError::Failed { code: FailCode::BadArguments, .. });
                assert!(is_refused, "case {at}: {error}");
                // The kept bytes of an earlier message are not shown to the next one.
                assert_eq!(store.put("", &[]).await, Ok(0), "after case {at}");
            }
            liar.note(honest(b"\xff")).await.unwrap();
            assert!(store.noted().await.unwrap().is_empty());
        });
    });
}
