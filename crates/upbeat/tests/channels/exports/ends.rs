//! Names that lead nowhere, and exports that end.

use crate::common::{Watchdog, shares_memory, soon, until};
use crate::exports::{DeskClient, Quotes, Stand, Stock};
use upbeat::Shared;
use upbeat::export::{Export, ExportError, ImportError, ReadError, Refusal};

#[derive(Shared)]
struct Empty {}

#[test]
fn a_name_that_leads_nowhere_says_where_it_ends() {
    let _watchdog = Watchdog::new("names");
    let stand = Stand::new("shared");
    let node = &stand.node;
    node.block_on(async {
        let error = node.import::<Quotes>("prices").await.err().unwrap();
        assert!(matches!(error, ImportError::Name { .. }), "{error}");
        let error = node.import::<Quotes>("nobody/quotes").await.err().unwrap();
        assert!(error.to_string().contains("there is no node `nobody`"), "{error}");
        let error = node.import::<Quotes>("prices/orders").await.err().unwrap();
        assert_eq!(
            error.to_string(),
            "there is no export `prices/orders`: its node exports `stock`, `raw`, `quotes`"
        );
        let error = node.import::<Empty>("prices/quotes").await.err().unwrap();
        assert!(matches!(error, ImportError::OtherType { .. }), "{error}");
        assert!(error.to_string().contains("here it is `Empty { }`"), "{error}");
        // A node without exports.
        let error = node.import::<Quotes>(&format!("{}/quotes", node.name())).await.err().unwrap();
        assert!(error.to_string().ends_with("its node exports nothing for this reader"), "{error}");
    });
}

#[test]
fn an_export_has_a_name_of_its_own() {
    let directory = crate::common::Directory::new();
    let node = crate::exports::node("names", &directory.path(), upbeat::Waiting::Adaptive);
    let export = node.export("one", 1_u64).unwrap();
    assert_eq!(Export::name(&export), "one");
    let taken = node.export("one", 2_u64).err().unwrap();
    assert!(matches!(taken, ExportError::Refused(Refusal::Taken { .. })), "{taken}");
    drop(export);
    let again = node.export("one", 3_u64).unwrap();
    assert_eq!(again.whole().get(), 3);
    let longest = "x".repeat(64);
    assert_eq!(Export::name(&node.export(&longest, 1_u64).unwrap()), longest);
    for name in ["a/b", "", "é", &"x".repeat(65)] {
        assert!(node.export(name, 1_u64).is_err(), "{name}");
    }
}

#[test]
fn a_withdrawn_export_ends_its_readers() {
    let _watchdog = Watchdog::new("withdrawn");
    for part in ["shared", "apart"] {
        let stand = Stand::new(part);
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            desk.withdraw().await.unwrap();
            assert_eq!(soon(quotes.count().read()).await, Err(ReadError::Ended));
            assert_eq!(soon(quotes.whole().read()).await, Err(ReadError::Ended));
            // One of the same name is another export.
            desk.export_again(9).await.unwrap();
            assert_eq!(soon(quotes.count().read()).await, Err(ReadError::Ended));
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            assert_eq!(soon(quotes.count().read()).await, Ok(Quotes::of(9).count));
        });
    }
}

/// Readers find whole values or an error, at whatever instruction the owner was killed.
#[test]
fn a_killed_owner_leaves_whole_values_or_an_error() {
    if !shares_memory("the values of a dead owner are in its memory") {
        return;
    }
    let _watchdog = Watchdog::new("a killed owner");
    for _ in 0..crate::common::setting("UPBEAT_EXPORT_KILLS", 5) {
        let mut stand = Stand::new("shared");
        stand.node.block_on(async {
            let quotes = soon(stand.node.import::<Quotes>("prices/quotes")).await.unwrap();
            let stock = soon(stand.node.import::<Stock>("prices/stock")).await.unwrap();
            let desk: DeskClient = stand.node.connect("prices").await.unwrap();
            let storm = stand.node.spawn(async move { desk.storm().await });
            until(|| quotes.count().try_read() != Ok(Quotes::of(1).count)).await;
            stand.owner.kill();
            stand.owner.child.wait().unwrap();
            soon(storm).await.unwrap().unwrap_err();
            quotes.count().try_read().unwrap();
            let stock = stock.whole().try_read().unwrap();
            assert_eq!(stock.bought, stock.sold, "a guarded export has its last whole value");
            stock.rows.iter().for_each(crate::exports::torn::check);
            for index in 0..crate::exports::ROWS {
                match soon(quotes.book().index(index).read()).await {
                    Ok(row) => crate::exports::torn::check(&row),
                    Err(ReadError::Call(error)) => assert!(error.to_string().contains("prices")),
                    Err(error) => panic!("{error}"),
                }
            }
        });
    }
}

/// Reads by a call go on with the node that has the owner's name now, and find no export of the number there.
#[test]
fn a_reader_of_a_dead_owner_does_not_read_an_export_of_its_successor() {
    let _watchdog = Watchdog::new("a successor");
    let mut stand = Stand::new("apart");
    let node = stand.node.clone();
    node.block_on(async {
        let quotes = soon(node.import::<Quotes>("prices/quotes")).await.unwrap();
        assert_eq!(soon(quotes.count().read()).await, Ok(Quotes::of(1).count));
        stand.kill_and_start("apart");
        let mut read = soon(quotes.count().read()).await;
        // The first call may have been sent to the owner that has died.
        while let Err(ReadError::Call(_)) = read {
            read = soon(quotes.count().read()).await;
        }
        assert_eq!(read, Err(ReadError::OwnerReplaced));
        let text = read.unwrap_err().to_string();
        assert!(text.starts_with("the owner of the export has died"), "{text}");
    });
}
