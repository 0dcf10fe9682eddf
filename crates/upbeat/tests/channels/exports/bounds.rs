//! Reads at and beyond their bounds, and the errors of nodes that have ended and of handles that cannot be built.

use crate::common::{Directory, Watchdog, block_on, node, soon};
use upbeat::export::{ExportError, ImportError, ReadError};
use upbeat::{BuildError, Shared, Waiting};

/// The elements that an expression runs over at most.
const ELEMENTS: usize = 1 << 16;

#[derive(Shared)]
struct Numbers {
    large: [u64; 3],
    many: [u8; ELEMENTS + 1],
}

#[test]
fn expressions_end_where_their_bounds_do() {
    let _watchdog = Watchdog::new("bounds of expressions");
    let directory = Directory::new();
    let owner = node("bounds", &directory.path(), Waiting::Adaptive);
    let numbers = Numbers { large: [u64::MAX - 1, 1, 1], many: [1; ELEMENTS + 1] };
    let _export = owner.export("numbers", numbers).unwrap();
    owner.block_on(async {
        let numbers = soon(owner.import::<Numbers>("bounds/numbers")).await.unwrap();
        let sum = async |range| soon(numbers.large().range(range).sum(|one| one.itself())).await;
        assert_eq!(sum(0..2).await, Ok(u64::MAX));
        assert_eq!(sum(0..3).await, Err(ReadError::Overflow));
        let many = numbers.many();
        assert_eq!(soon(many.range(..ELEMENTS).count()).await, Ok(ELEMENTS as u64));
        assert_eq!(soon(many.range(..).count()).await, Err(ReadError::Elements));
    });
}

#[test]
fn a_node_that_has_ended_exports_and_connects_no_more() {
    let directory = Directory::new();
    let ended = node("ended", &directory.path(), Waiting::Adaptive);
    ended.shut_down(std::time::Duration::from_secs(1));
    let error = ended.export("one", 1_u64).err().unwrap();
    assert!(matches!(error, ExportError::Serve(_)), "{error}");
    let connected = ended.block_on(ended.connect::<crate::exports::DeskClient>("prices"));
    let error = connected.err().unwrap();
    assert!(matches!(error, upbeat::ConnectError::ShutDown), "{error}");
}

/// A handle that cannot be built says why, and asks no node.
#[test]
fn an_import_by_a_handle_of_no_valid_program_says_so() {
    let builder = || upbeat::handle::builder().program("no program");
    let import = block_on(builder().import::<u64>("prices/quotes")).err().unwrap();
    let list = block_on(builder().exports_of("prices")).err().unwrap();
    for error in [import, list] {
        assert!(matches!(error, ImportError::Build(BuildError::Name(_))), "{error}");
    }
}
