//! Stores and fetches large blobs in place: the client writes a blob where the server reads it, and reads a blob where
//! the server has written it. Every byte is checked.
//!
//! Run it with `cargo run --release -p upbeat --example blobs`.

use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::time::{Duration, Instant};
use upbeat::{CallError, InPlace, Node, Wire};

type Error = Box<dyn std::error::Error>;

/// A store of blobs under names.
#[upbeat::service]
pub trait Blobs {
    /// Stores a blob, and returns its checksum.
    async fn put(&self, name: String, blob: InPlace<u8>) -> u64;

    /// Returns a blob.
    async fn get(&self, name: &str) -> Result<InPlace<u8>, NoSuchBlob>;
}

/// There is no blob of this name.
#[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
pub struct NoSuchBlob(String);

impl fmt::Display for NoSuchBlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "there is no blob `{}`", self.0)
    }
}

#[derive(Default)]
struct Shelf(RefCell<HashMap<String, Vec<u8>>>);

impl Blobs for Shelf {
    async fn put(&self, name: String, blob: InPlace<u8>) -> u64 {
        // The copy is the server's own, so the client's buffer is free again when this method returns.
        let copy = blob.to_vec();
        let sum = checksum(copy.iter().copied());
        self.0.borrow_mut().insert(name, copy);
        sum
    }

    async fn get(&self, name: &str) -> Result<InPlace<u8>, NoSuchBlob> {
        let blobs = self.0.borrow();
        let blob = blobs.get(name).ok_or_else(|| NoSuchBlob(name.to_owned()))?;
        Ok(InPlace::from(blob.clone()))
    }
}

/// Returns a checksum that depends on the place of each byte.
fn checksum(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0, |sum: u64, byte| sum.wrapping_mul(31).wrapping_add(byte.into()))
}

/// Returns the byte at a place of the blob with this number: no two blobs and no two pages are alike.
fn byte_at(number: u64, at: usize) -> u8 {
    ((at as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15 ^ number) >> 56) as u8
}

/// Makes a blob page by page in the buffer that its reader will see.
async fn store(blobs: &BlobsClient, number: u64, bytes: usize) -> Result<u64, CallError> {
    let mut page = [0; 4096];
    let mut loan = blobs.loan_put(format!("blob {number}"), bytes).await?;
    for first in (0..bytes).step_by(page.len()) {
        let page = &mut page[..usize::min(4096, bytes - first)];
        page.iter_mut().enumerate().for_each(|(at, byte)| *byte = byte_at(number, first + at));
        loan.write_at(first, page);
    }
    loan.send().await
}

/// Reads a blob where the server has written it. Returns whether its bytes lie in the server's memory.
async fn fetch(
    blobs: &BlobsClient,
    number: u64,
    bytes: usize,
) -> Result<bool, CallError<NoSuchBlob>> {
    let blob = blobs.get(&format!("blob {number}")).await?;
    assert_eq!(blob.len(), bytes);
    let mut at = 0;
    blob.for_each_piece(|piece| {
        for byte in piece {
            assert_eq!(*byte, byte_at(number, at), "byte {at} of blob {number}");
            at += 1;
        }
    });
    assert_eq!(at, bytes);
    Ok(blob.is_lent())
}

fn main() -> Result<(), Error> {
    // A program of its own, so that two runs of this example do not meet.
    let program = format!("blobs-{}", std::process::id());
    let shelf = upbeat::nodes_on(1, {
        let program = program.clone();
        move || {
            let node = Node::builder("shelf").program(&program).build()?;
            node.serve(BlobsServer::new(Shelf::default()))?;
            Ok::<_, Box<dyn std::error::Error + Send + Sync>>(node)
        }
    })?;

    let node = Node::builder("client").program(&program).build()?;
    node.block_on(async {
        let blobs: BlobsClient = node.connect("shelf").await?;
        for (number, bytes) in (0..).zip([0, 1, 1000, 64 << 10, (1 << 20) + 1, 8 << 20]) {
            let began = Instant::now();
            let sum = store(&blobs, number, bytes).await?;
            assert_eq!(
                sum,
                checksum((0..bytes).map(|at| byte_at(number, at))),
                "checksum of blob {number}"
            );
            let lent = fetch(&blobs, number, bytes).await?;
            let way =
                if lent { "read in the server's memory" } else { "copied, since it was short" };
            println!(
                "{bytes:>8} bytes stored, fetched and checked in {:?}: {way}",
                began.elapsed()
            );
        }

        // A buffer of the caller's own is filled straight from the server's memory.
        let mut buffer = vec![0; 64 << 10];
        let bytes = blobs.get("blob 3").into(&mut buffer).await?;
        assert!(buffer[..bytes].iter().enumerate().all(|(at, byte)| *byte == byte_at(3, at)));

        let missing = blobs.get("blob 99").await.err();
        assert_eq!(missing, Some(CallError::Method(NoSuchBlob("blob 99".into()))));
        Ok::<_, Error>(())
    })?;
    shelf.shut_down(Duration::from_secs(1))?;
    Ok(())
}
