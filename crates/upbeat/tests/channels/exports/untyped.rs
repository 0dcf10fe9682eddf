//! Readers that learn the types when they run.

use crate::common::{Watchdog, soon};
use crate::exports::{DeskClient, Quotes, Stand, Stock};
use upbeat::Shared;
use upbeat::export::{ImportError, ReadError, UntypedImport};

async fn read(export: &UntypedImport, path: &str) -> Result<String, ReadError> {
    let selection = export.shape().unwrap().resolve(path).unwrap();
    soon(export.read(&selection)).await.map(|value| value.to_string())
}

/// Returns the exports `quotes`, `stock` and `raw`.
async fn exports(stand: &Stand) -> [UntypedImport; 3] {
    let mut exports = soon(stand.node.exports_of("prices")).await.unwrap();
    exports.sort_by_key(|export| {
        ["quotes", "stock", "raw"].iter().position(|name| *name == export.name())
    });
    exports.try_into().unwrap_or_else(|_| panic!("the node has three exports"))
}

#[test]
fn parts_are_read_by_their_paths() {
    let _watchdog = Watchdog::new("paths");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let [quotes, stock, raw] = exports(&stand).await;
            assert_eq!(quotes.type_text(), Quotes::shape().to_string());
            assert_eq!(stock.shape(), Ok(Stock::shape()));
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            for number in [1, 1000] {
                desk.put(number).await.unwrap();
                let wanted = Quotes::of(number);
                for (path, wanted) in [
                    ("count", wanted.count.to_string()),
                    ("grade", format!("{:?}", wanted.grade)),
                    ("change", wanted.change.to_string()),
                    ("name", format!("{:?}", wanted.name.as_str())),
                    ("book[99]", format!("{:?}", wanted.book[99])),
                    ("book[7].ask", format!("{:?}", wanted.book[7].ask)),
                    ("bytes", format!("{:?}", wanted.bytes)),
                    ("bytes[299]", wanted.bytes[299].to_string()),
                    ("small[2]", wanted.small[2].to_string()),
                    ("levels", format!("{:?}", wanted.levels)),
                    ("levels[3][4]", format!("{:?}", wanted.levels[3][4])),
                    ("flags[8]", wanted.flags[8].to_string()),
                    ("totals", format!("{:?}", wanted.totals)),
                ] {
                    assert_eq!(read(&quotes, path).await, Ok(wanted), "{part}: {path}");
                }
                assert_eq!(read(&raw, "size").await, Ok(number.to_string()));
            }
            // An update that is under way is not shown.
            let theirs = desk.clone();
            let update = stand.node.spawn(async move { theirs.restock_slowly(2).await });
            desk.put(1).await.unwrap();
            assert_eq!(read(&stock, "bought").await.as_deref(), Ok("1"));
            desk.go_on().await.unwrap();
            soon(update).await.unwrap().unwrap();
            assert_eq!(read(&stock, "bought").await.as_deref(), Ok("2"));
        });
    }
}

#[test]
fn a_part_that_is_not_there_is_an_error() {
    let _watchdog = Watchdog::new("parts");
    let stand = Stand::new("shared");
    stand.node.block_on(async {
        let [quotes, _, raw] = exports(&stand).await;
        let apart = quotes.shape().unwrap().resolve("book[7]").unwrap();
        assert_eq!(
            soon(raw.read(&apart)).await,
            Err(ReadError::Invalid),
            "a part of another export"
        );
        let desk: DeskClient = stand.node.connect("prices").await.unwrap();
        desk.withdraw().await.unwrap();
        assert_eq!(read(&quotes, "count").await, Err(ReadError::Ended));
        assert_eq!(soon(stand.node.exports_of("prices")).await.unwrap().len(), 2);
        // A node that exports nothing has no service for readers.
        let name = stand.node.name();
        assert!(soon(stand.node.exports_of(&name)).await.unwrap().is_empty());
        let error = soon(stand.node.exports_of("nobody")).await.err().unwrap();
        assert!(matches!(error, ImportError::Connect(_)), "{error}");
    });
}
