//! Exports of large values, which are built where readers find them.

use crate::common::{Directory, node};
use crate::exports::Row;
use upbeat::export::{FixedMap, Text};
use upbeat::{Shared, Waiting};

/// The largest array of a value.
type Large = [u64; 8 << 20];

#[derive(Shared)]
struct Tables {
    count: u64,
    names: FixedMap<Text<8>, u32, 40_000>,
    rows: [Row; 100_000],
    best: Option<Row>,
    lines: Vec<Row>,
}

/// Runs something in a thread with a small stack.
fn with_small_stack(act: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 << 10).spawn(act).unwrap().join().unwrap();
}

#[test]
fn the_largest_array_is_exported_from_a_small_stack() {
    with_small_stack(|| {
        let directory = Directory::new();
        let owner = node("owner/large", &directory.path(), Waiting::Sleeping);
        let export = owner
            .export_with::<Large>("large", |large| {
                (0..Large::len()).step_by(100_000).for_each(|at| large.index(at).set(at as u64));
            })
            .unwrap();
        assert_eq!(export.index(300_000).get(), 300_000);
        assert_eq!(export.index((8 << 20) - 1).get(), 0);
        drop(export);
        let export =
            owner.export_guarded_with::<Large>("large", |large| large.index(7).set(9)).unwrap();
        owner.block_on(async {
            export.lock().await.index(8).set(10);
            // The copy that is written now was the one of the beginning.
            for _ in 0..3 {
                let guard = export.lock().await;
                assert_eq!([guard.index(7).get(), guard.index(8).get()], [9, 10]);
                guard.index(9).set(guard.index(9).get() + 1);
            }
            assert_eq!(export.lock().await.index(9).get(), 3);
        });
        drop(export);
        let export = owner.export_raw_with::<Large>("large", |large| large.index(1).set(2));
        assert_eq!(export.unwrap().index(1).get(), 2);
    });
}

trait Length {
    fn len() -> usize;
}

impl<const N: usize> Length for [u64; N] {
    fn len() -> usize {
        N
    }
}

#[test]
fn a_large_struct_is_built_from_its_fields() {
    with_small_stack(|| {
        let directory = Directory::new();
        let owner = node("owner/tables", &directory.path(), Waiting::Sleeping);
        let tables = owner
            .export_with::<Tables>("tables", |tables| {
                assert_eq!(tables.best().get(), None);
                assert_eq!(tables.lines().length().get(), 0);
                assert_eq!(tables.names().length().get(), 0);
                tables.rows().set_each(|row| Row::of(row as u32));
                tables.names().insert(&Text::new("EUR").unwrap(), 7).unwrap();
                // The export moves while it is built.
                (0..1_000).for_each(|row| tables.lines().push(Row::of(row)).unwrap());
                tables.best().set(Some(Row::of(5)));
                tables.count().set(100_000);
                // Another export may be made meanwhile.
                owner.export("other", 1_u64).map(drop).unwrap();
            })
            .unwrap();
        assert_eq!(tables.rows().index(99_999).get(), Row::of(99_999));
        assert_eq!(tables.names().entry(&Text::new("EUR").unwrap()).get(), 7);
        assert_eq!(tables.lines().index(999).get(), Row::of(999));
        assert_eq!(tables.count().get(), 100_000);
        let taken = owner.export_with::<u64>("tables", |_| panic!("the name is taken"));
        assert!(taken.err().unwrap().to_string().contains("tables"));
    });
}
