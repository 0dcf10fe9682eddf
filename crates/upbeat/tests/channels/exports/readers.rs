//! Exports for named nodes.

use crate::common::left_out::leave_out;
use crate::common::process::{input_ends, say};
use crate::common::{
    Directory, PROGRAM, SOON, Signal, Watchdog, block_on, node, on_one_host, soon,
};
use crate::exports::{Quotes, Row, Stand, Stock};
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use upbeat::export::{Denial, Export, ExportError, GuardedExport, ImportError, ReadError, Refusal};
use upbeat::{CallError, Execution, Import, Node, Shared, Waiting};

/// The hidden service of exports, for readers that guess numbers.
mod hostile {
    use serde::{Deserialize, Serialize};

    #[derive(Clone, Debug, Serialize, Deserialize, upbeat::Wire)]
    pub(crate) struct Asked {
        pub(crate) part: u64,
        pub(crate) is_unit: bool,
        pub(crate) route: Vec<u64>,
    }

    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, upbeat::Wire)]
    pub(crate) enum NotRead {
        Ended,
        OtherOwner,
        NoPart,
        Large,
        Overflow,
        Index { index: u64 },
        Nothing,
        Broken,
        NotPermitted,
    }

    #[upbeat::service]
    pub(crate) trait NodeExports {
        async fn read(&self, export: u32, part: u64) -> Result<Vec<u64>, NotRead>;
        async fn read_routed(&self, export: u32, part: Asked) -> Result<Vec<u64>, NotRead>;
        async fn read_all(&self, export: u32, parts: Vec<Asked>) -> Result<Vec<Vec<u64>>, NotRead>;
        async fn changed(
            &self,
            export: u32,
            part: Asked,
            version: Option<u64>,
        ) -> Result<(Vec<u64>, u64), NotRead>;
        async fn evaluate(&self, export: u32, expression: [u64; 5])
        -> Result<Option<u64>, NotRead>;
        async fn stand(&self, export: u32, parts: Vec<(Asked, u64)>) -> Result<bool, NotRead>;
        async fn list(&self) -> Vec<(u32, String, String)>;
    }
}

use hostile::{Asked, NodeExportsClient, NodeExportsHandle, NotRead};

/// Tells the owner what to do.
#[upbeat::service]
trait Vault {
    async fn put(&self, number: u32);
    async fn withdraw(&self);
}

struct Limited {
    quotes: RefCell<Option<Export<Quotes>>>,
    stock: GuardedExport<Stock>,
}

impl Vault for Limited {
    async fn put(&self, number: u32) {
        self.quotes.borrow().as_ref().unwrap().whole().set(Quotes::of(number));
        self.stock.lock().await.whole().set(Stock::of(number));
    }

    async fn withdraw(&self) {
        *self.quotes.borrow_mut() = None;
    }
}

/// The owner's process: `prices` exports `open` for everybody, `audited` for one node, and `quotes` and `stock` for the
/// nodes below `risk/`.
pub(crate) fn owner(shares: bool, place: PathBuf) {
    let builder = Node::builder("prices").program(PROGRAM).directory(place);
    let node = builder.shared_memory(shares).build().unwrap();
    let _open = node.export("open", Row::of(1)).unwrap();
    let _audited = node.export_for(["audit"]).unwrap().export_raw("audited", 1_u64).unwrap();
    let for_risk = node.export_for(["risk/*"]).unwrap();
    let quotes = RefCell::new(Some(for_risk.export("quotes", Quotes::of(1)).unwrap()));
    let stock = for_risk.export_guarded("stock", Stock::of(1)).unwrap();
    node.serve(VaultServer::new(Limited { quotes, stock })).unwrap();
    say("serving");
    node.block_on(input_ends());
    node.shut_down(SOON);
}

/// Returns a node that the owner has named.
fn risk(stand: &Stand) -> Node {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("risk/{}", COUNT.fetch_add(1, Ordering::Relaxed));
    node(&name, &stand.directory(), Waiting::Adaptive)
}

/// Returns whether a node of this run can prove its name; where not, what is left out is said aloud.
fn proves_names() -> bool {
    let proves = std::env::var("UPBEAT_TEST_CARRIER").as_deref() != Ok("tcp");
    if !proves {
        leave_out("over TCP in plaintext: nodes that prove their names");
    }
    proves
}

const PARTS: [&str; 2] = ["limited shared", "limited apart"];

/// Returns the part with the first words of a value.
fn part(words: usize) -> u64 {
    (words as u64) << 32
}

/// Anybody who reaches the port can say any name.
#[test]
fn over_tcp_in_plaintext_nobody_proves_a_name() {
    if std::env::var("UPBEAT_TEST_CARRIER").as_deref() != Ok("tcp") {
        return;
    }
    let _watchdog = Watchdog::new("names over TCP");
    let stand = Stand::new("limited shared");
    let risk = risk(&stand);
    risk.block_on(async {
        let denial = refused(async |of: &str| soon(risk.import(of)).await).await;
        assert_eq!(denial, Denial::Unproved { name: risk.name() });
    });
}

#[test]
fn a_named_node_reads_in_every_way() {
    if !proves_names() {
        return;
    }
    let _watchdog = Watchdog::new("a named node");
    for part in PARTS {
        let stand = Stand::new(part);
        let risk = risk(&stand);
        risk.block_on(async {
            let quotes: Import<Quotes> = soon(risk.import("prices/quotes")).await.unwrap();
            let stock: Import<Stock> = soon(risk.import("prices/stock")).await.unwrap();
            let vault: VaultClient = risk.connect("prices").await.unwrap();
            for number in [1, 5] {
                vault.put(number).await.unwrap();
                assert_eq!(soon(quotes.whole().read()).await, Ok(Quotes::of(number)), "{part}");
                assert_eq!(soon(stock.whole().read()).await, Ok(Stock::of(number)), "{part}");
            }
            let both = quotes.snapshot(async |of| {
                Ok((of.count().read().await?, of.book().index(3).read().await?))
            });
            assert_eq!(soon(both).await, Ok((Quotes::of(5).count, Row::of(8))), "{part}");
            let sizes = quotes.book().range(0..3).sum(|row| row.size());
            assert_eq!(soon(sizes).await, Ok(5 + 6 + 7), "{part}");
            let count = quotes.count();
            let mut watch = count.watch();
            assert_eq!(soon(watch.changed()).await, Ok(Quotes::of(5).count), "{part}");
            let change = risk.spawn(async move { vault.put(6).await });
            assert_eq!(soon(watch.changed()).await, Ok(Quotes::of(6).count), "{part}");
            soon(change).await.unwrap().unwrap();
        });
    }
}

/// A read in memory needs no name. A call of another thread has none.
#[test]
fn another_thread_reads_in_memory_alone() {
    if !proves_names() {
        return;
    }
    let _watchdog = Watchdog::new("another thread");
    for part in PARTS {
        let stand = Stand::new(part);
        let risk = risk(&stand);
        let quotes: Import<Quotes> = risk.block_on(risk.import("prices/quotes")).unwrap();
        let in_memory = quotes.count().try_read();
        let there = std::thread::scope(|scope| {
            scope.spawn(|| block_on(quotes.book().index(1).read())).join().unwrap()
        });
        match in_memory {
            Ok(_) => assert_eq!(there, Ok(Row::of(2)), "{part}"),
            Err(_) => assert_eq!(there, Err(ReadError::NotPermitted), "{part}"),
        }
        // Everywhere else memory is shared in both parts or in none.
        if std::env::var("UPBEAT_TEST_CARRIER").is_err() {
            assert_eq!(in_memory.is_ok(), part.ends_with("shared"), "{part}");
        }
    }
}

/// Returns why somebody does not import the export for the nodes below `risk/`, whatever its type.
async fn refused(import: impl AsyncFn(&str) -> Result<Import<Quotes>, ImportError>) -> Denial {
    match import("prices/quotes").await.err().unwrap() {
        ImportError::NotPermitted { name, denial } => {
            assert_eq!(&*name, "prices/quotes");
            denial
        }
        error => panic!("{error}"),
    }
}

#[test]
fn another_node_and_a_handle_do_not_read() {
    let _watchdog = Watchdog::new("readers that are not named");
    for part in PARTS {
        let stand = Stand::new(part);
        let name = stand.node.name();
        stand.node.block_on(async {
            let denial = refused(async |of: &str| soon(stand.node.import(of)).await).await;
            assert_eq!(denial, Denial::OtherNode { name: name.clone() });
            let error = soon(stand.node.import::<u8>("prices/stock")).await.err().unwrap();
            assert_eq!(
                error.to_string(),
                format!(
                    "`prices/stock` is exported for named nodes alone, and the reader `{name}` is none of them: add this \
                     name to `export_for` at the owner"
                )
            );
            let error = soon(stand.node.import::<u8>("prices/none")).await.err().unwrap();
            let text = "there is no export `prices/none`: its node exports `open`";
            assert_eq!(error.to_string(), text);
            let open = soon(stand.node.import::<Row>("prices/open")).await.unwrap();
            assert_eq!(soon(open.whole().read()).await, Ok(Row::of(1)), "{part}");
            let listed = soon(stand.node.exports_of("prices")).await.unwrap();
            let names: Vec<_> = listed.iter().map(|export| export.name()).collect();
            assert_eq!(names, ["open"], "{part}");
        });
        let handle = async |of: &str| {
            let builder = upbeat::handle::builder().program(PROGRAM);
            builder.directory(stand.directory()).import(of).await
        };
        assert_eq!(block_on(refused(handle)), Denial::Nameless);
    }
}

/// Checks each question about an export.
macro_rules! is_refused {
    ($owner:ident, $number:ident) => {
        let refused = || CallError::Method(NotRead::NotPermitted);
        let asked = Asked { part: part(1), is_unit: false, route: Vec::new() };
        for part in [part(1), part(2000), part(1) | 0xffff] {
            assert_eq!($owner.read($number, part).await, Err(refused()));
            let asked = Asked { part, ..asked.clone() };
            assert_eq!($owner.read_routed($number, asked.clone()).await, Err(refused()));
            assert_eq!($owner.read_all($number, vec![asked.clone()]).await, Err(refused()));
            assert_eq!($owner.changed($number, asked.clone(), None).await, Err(refused()));
            assert_eq!($owner.stand($number, vec![(asked, 0)]).await, Err(refused()));
        }
        assert_eq!($owner.changed($number, asked, Some(0)).await, Err(refused()));
        // The count of the elements of an array of one `u64` at least.
        for first in [0_u64, 8] {
            let words = counted(first);
            assert_eq!($owner.evaluate($number, words).await, Err(refused()));
        }
        let listed = $owner.list().await.unwrap();
        let names: Vec<_> = listed.iter().map(|(_, name, _)| &**name).collect();
        assert_eq!(names, ["open"]);
    };
}

/// Returns an expression that counts an element from this byte on.
fn counted(first: u64) -> [u64; 5] {
    use upbeat_core::channel::export::{Expression, Fold, Operand, Scalar};
    let of = Operand { at: 0, scalar: Scalar::U64 };
    let first = first as u32;
    Expression { first, each: 8, count: 1, of, filter: None, fold: Fold::Count }.encode()
}

#[test]
fn a_number_that_was_guessed_is_refused() {
    if !proves_names() {
        return;
    }
    let _watchdog = Watchdog::new("guessed numbers");
    for part_name in PARTS {
        let stand = Stand::new(part_name);
        let risk = risk(&stand);
        let numbers = risk.block_on(async {
            let owner: NodeExportsClient = risk.connect("prices").await.unwrap();
            let listed = soon(owner.list()).await.unwrap();
            let names: Vec<_> = listed.iter().map(|(_, name, _)| &**name).collect();
            assert_eq!(names, ["open", "quotes", "stock"], "what it may read");
            let number = listed[1].0;
            assert!(soon(owner.read(number, part(Quotes::WORDS))).await.is_ok());
            listed.iter().skip(1).map(|(number, ..)| *number).collect::<Vec<_>>()
        });
        stand.node.block_on(async {
            let owner: NodeExportsClient = stand.node.connect("prices").await.unwrap();
            for number in &numbers {
                let number = *number;
                is_refused!(owner, number);
            }
        });
        let handle: NodeExportsHandle = block_on(
            upbeat::handle::builder()
                .program(PROGRAM)
                .directory(stand.directory())
                .connect_async("prices"),
        )
        .unwrap();
        block_on(async {
            for number in numbers {
                is_refused!(handle, number);
            }
        });
    }
}

/// A process that takes a name in a directory of its own, and calls the owner from there.
#[test]
fn a_name_that_another_directory_gives_is_not_proved() {
    if !on_one_host("a name is proved by the lock in the directory of the host") {
        return;
    }
    let _watchdog = Watchdog::new("a forged name");
    for part in PARTS {
        let stand = Stand::new(part);
        let own = Directory::new();
        let forger = node("risk/forged", &own.path(), Waiting::Adaptive);
        let program = own.path().join(PROGRAM);
        for entry in std::fs::read_dir(stand.directory().join(PROGRAM)).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name().to_string_lossy().starts_with("prices") {
                std::os::unix::fs::symlink(entry.path(), program.join(entry.file_name())).unwrap();
            }
        }
        forger.block_on(async {
            let open = soon(forger.import::<Row>("prices/open")).await.unwrap();
            assert_eq!(soon(open.whole().read()).await, Ok(Row::of(1)), "{part}");
            let denial = refused(async |of: &str| soon(forger.import(of)).await).await;
            assert_eq!(denial, Denial::Unproved { name: "risk/forged".into() });
            let listed: NodeExportsClient = forger.connect("prices").await.unwrap();
            assert_eq!(soon(listed.list()).await.unwrap().len(), 1, "{part}");
        });
    }
}

#[test]
fn a_limited_export_that_is_withdrawn_ends_its_readers() {
    if !proves_names() {
        return;
    }
    let _watchdog = Watchdog::new("withdrawn");
    for part in PARTS {
        let stand = Stand::new(part);
        let risk = risk(&stand);
        risk.block_on(async {
            let quotes: Import<Quotes> = soon(risk.import("prices/quotes")).await.unwrap();
            let vault: VaultClient = risk.connect("prices").await.unwrap();
            let count = quotes.count();
            let mut watch = count.watch();
            assert_eq!(soon(watch.changed()).await, Ok(Quotes::of(1).count), "{part}");
            let end = risk.spawn(async move { vault.withdraw().await });
            assert_eq!(soon(watch.changed()).await, Err(ReadError::Ended), "{part}");
            soon(end).await.unwrap().unwrap();
            assert_eq!(soon(quotes.whole().read()).await, Err(ReadError::Ended), "{part}");
        });
    }
}

/// Ends an owner's thread, also when the test fails.
struct Ends(Signal);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.give();
    }
}

/// Within a process, and however the owner runs the handlers that answer.
#[test]
fn an_owner_knows_its_readers_in_every_execution() {
    if !proves_names() {
        return;
    }
    let _watchdog = Watchdog::new("executions");
    for execution in
        [Execution::Am, Execution::Orpc, Execution::Trpc, Execution::TrpcBack, Execution::Adaptive]
    {
        let directory = Directory::new();
        let (ready, end) = (Signal::default(), Signal::default());
        std::thread::scope(|scope| {
            let (place, ready_there, ends) = (directory.path(), ready.clone(), end.clone());
            scope.spawn(move || {
                let builder = Node::builder("executing").program(PROGRAM).directory(place);
                let node = builder.execution(execution).build().unwrap();
                let _limited = node.export_for(["desk/1"]).unwrap().export("limited", 7_u64);
                ready_there.give();
                node.block_on(ends);
                node.shut_down(SOON);
            });
            let _ends = Ends(end);
            block_on(ready);
            for name in ["desk/1", "desk/2"] {
                let reader = node(name, &directory.path(), Waiting::Adaptive);
                reader.block_on(async {
                    let limited = soon(reader.import::<u64>("executing/limited")).await;
                    assert_eq!(limited.is_ok(), name == "desk/1", "{execution:?}");
                    let owner: NodeExportsClient = reader.connect("executing").await.unwrap();
                    let listed = soon(owner.list()).await.unwrap();
                    assert_eq!(listed.len(), usize::from(name == "desk/1"), "{execution:?}");
                    if let [(number, ..)] = listed[..] {
                        assert_eq!(soon(owner.read(number, part(1))).await, Ok(vec![7]));
                    }
                });
            }
        });
    }
}

#[test]
fn readers_have_names_of_nodes() {
    let directory = Directory::new();
    let node = node("named", &directory.path(), Waiting::Adaptive);
    for name in ["", "a b", "risk@host", "*/risk"] {
        let error = node.export_for([name]).err().unwrap();
        assert!(matches!(error, ExportError::Refused(Refusal::Reader(_))), "{name}: {error}");
    }
    // Names that are known when the program runs.
    let names = vec![String::from("risk")];
    drop(node.export_for(&names).unwrap().export("value", 1_u64).unwrap());
}
