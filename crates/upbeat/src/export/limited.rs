//! Exports for named nodes.

use super::error::ExportError;
use super::exports::{Export, Exports};
use super::guarded::GuardedExport;
use super::owner::Owner;
use super::path::Path;
use super::shared::Shared;
use std::rc::Rc;
use upbeat_core::channel::export::{Consistency, Readers, Refusal};

/// The exports of a node for named readers: see [`Node::export_for`](crate::Node::export_for).
///
/// Several exports may be made by one of these. They share memory, which readers of other exports do not map.
///
/// ```
/// # #[derive(upbeat::Shared)]
/// # struct Totals {
/// #     bought: u64,
/// #     sold: u64,
/// # }
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let node = upbeat::Node::builder("doc/limited").local_only().build()?;
/// let for_desks = node.export_for(["risk", "desk/*"])?;
/// let limit = for_desks.export("limit", 1000_u64)?;
/// let totals = for_desks.export_guarded("totals", Totals { bought: 0, sold: 0 })?;
/// let levels = for_desks.export_raw("levels", [0.0_f64; 8])?;
/// # let _ = (limit, totals, levels);
/// # Ok(()) }
/// ```
pub struct LimitedExports<'n> {
    exports: &'n Rc<Exports>,
    readers: Readers,
}

impl<'n> LimitedExports<'n> {
    pub(crate) fn new<N: AsRef<str>>(
        exports: &'n Rc<Exports>,
        readers: impl IntoIterator<Item = N>,
    ) -> Result<LimitedExports<'n>, ExportError> {
        let readers = Readers::nodes(readers).map_err(Refusal::Reader)?;
        Ok(LimitedExports { exports, readers })
    }

    /// Exports a value, as [`Node::export`](crate::Node::export) does.
    pub fn export<T: Shared>(&self, name: &str, value: T) -> Result<Export<T>, ExportError> {
        self.exports.export(name, &value, Consistency::Cell, self.readers.clone())
    }

    /// Exports a value that is built where readers find it, as [`Node::export_with`](crate::Node::export_with) does.
    pub fn export_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<Export<T>, ExportError> {
        self.exports.export_with(name, fill, Consistency::Cell, self.readers.clone())
    }

    /// Exports a value that is built where readers find it, as
    /// [`Node::export_guarded_with`](crate::Node::export_guarded_with) does.
    pub fn export_guarded_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<GuardedExport<T>, ExportError> {
        let readers = self.readers.clone();
        let export = self.exports.export_with(name, fill, Consistency::Guarded, readers)?;
        Ok(GuardedExport::new(export))
    }

    /// Exports a value that is built where readers find it, as [`Node::export_raw_with`](crate::Node::export_raw_with)
    /// does.
    pub fn export_raw_with<T: Shared>(
        &self,
        name: &str,
        fill: impl FnOnce(&Path<&Owner, T>),
    ) -> Result<Export<T>, ExportError> {
        self.exports.export_with(name, fill, Consistency::Raw, self.readers.clone())
    }

    /// Exports a value whose parts are consistent with each other, as
    /// [`Node::export_guarded`](crate::Node::export_guarded) does.
    pub fn export_guarded<T: Shared>(
        &self,
        name: &str,
        value: T,
    ) -> Result<GuardedExport<T>, ExportError> {
        let readers = self.readers.clone();
        let export = self.exports.export(name, &value, Consistency::Guarded, readers)?;
        Ok(GuardedExport::new(export))
    }

    /// Exports a value without versions, as [`Node::export_raw`](crate::Node::export_raw) does.
    pub fn export_raw<T: Shared>(&self, name: &str, value: T) -> Result<Export<T>, ExportError> {
        self.exports.export(name, &value, Consistency::Raw, self.readers.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use upbeat_core::channel::export::{Asker, Part};
    use upbeat_core::name::NodeName;
    use upbeat_transport::carrier::OwnSegment;

    struct Reader(NodeName);

    impl Asker for Reader {
        fn name(&self) -> Option<&NodeName> {
            Some(&self.0)
        }

        fn is_proved(&self) -> bool {
            true
        }
    }

    /// Returns the segment with an export of this name, as a reader of this name gets it.
    fn segment(exports: &Exports, reader: &str, name: &str) -> Arc<OwnSegment> {
        let directory = exports.directory();
        let opened = directory.open(name, "u64", &Reader(reader.parse().unwrap()));
        opened.unwrap().1.lend(true).1
    }

    /// Returns the segment with the export `kept`, which has this type.
    fn segment_of(exports: &Exports, of: &str) -> Arc<OwnSegment> {
        let directory = exports.directory();
        let opened = directory.open("kept", of, &Reader("kept".parse().unwrap()));
        opened.unwrap().1.lend(false).1
    }

    /// A reader maps whole segments.
    #[test]
    fn exports_share_memory_with_those_for_the_same_readers_alone() {
        let exports = Rc::new(Exports::new(0));
        let for_nodes = |names: &[&str]| LimitedExports::new(&exports, names).unwrap();
        let everybody =
            |name| exports.export(name, &1_u64, Consistency::Cell, Readers::everybody()).unwrap();
        let _first = everybody("first");
        let _risk = for_nodes(&["risk", "web"]).export("risk", 2_u64).unwrap();
        let _second = everybody("second");
        let _web = for_nodes(&["web"]).export_raw("web", 3_u64).unwrap();
        let _again = for_nodes(&["web", "risk"]).export_guarded("again", 4_u64).unwrap();
        let of = |name| Arc::as_ptr(&segment(&exports, "web", name));
        assert_eq!(of("first"), of("second"));
        assert_eq!(of("risk"), of("again"), "the order of the names does not matter");
        assert!(of("risk") != of("first") && of("web") != of("first") && of("risk") != of("web"));
        let directory = exports.directory();
        let number = directory.open("web", "u64", &Reader("web".parse().unwrap())).unwrap().0;
        let part =
            directory.part(number, Part { at: 0, words: 1 }, &Reader("risk".parse().unwrap()));
        assert!(part.is_err());
    }

    #[test]
    fn exports_for_other_readers_do_not_move_with_those_that_are_few() {
        let exports = Rc::new(Exports::new(0));
        let limited = LimitedExports::new(&exports, ["kept"]).unwrap();
        let kept = limited.export("kept", [7_u64; 300]).unwrap();
        let before = Arc::as_ptr(&segment_of(&exports, "[u64; 300]"));
        let everybody = |number: u64| {
            let readers = Readers::everybody();
            let name = format!("n{number}");
            exports.export(&name, &[number; 500], Consistency::Cell, readers).unwrap()
        };
        let mut all: Vec<_> = (0..600).map(everybody).collect();
        let held = exports.memory().held;
        all.retain(|export| export.index(0).get() % 100 == 3);
        assert!(exports.memory().held < held / 2, "{:?}", exports.memory());
        for export in &all {
            assert_eq!(export.whole().get(), [export.index(7).get(); 500]);
        }
        assert_eq!(before, Arc::as_ptr(&segment_of(&exports, "[u64; 300]")));
        assert_eq!(kept.index(299).get(), 7);
    }

    #[test]
    fn a_list_whose_exports_have_ended_leaves_no_memory_behind() {
        let exports = Rc::new(Exports::new(0));
        let kept = LimitedExports::new(&exports, ["kept"]).unwrap().export("kept", 1_u64).unwrap();
        let ended: Vec<_> = (0..20)
            .map(|number| {
                let limited = LimitedExports::new(&exports, [format!("n{number}")]).unwrap();
                let export = limited.export("ended", 1_u64).unwrap();
                Arc::downgrade(&segment(&exports, &format!("n{number}"), Export::name(&export)))
            })
            .collect();
        let last = ended.len() - 1;
        assert!(ended[..last].iter().all(|segment| segment.upgrade().is_none()));
        // Other lists keep their memory.
        let before = Arc::as_ptr(&segment(&exports, "kept", "kept"));
        let more = LimitedExports::new(&exports, ["kept"]).unwrap().export("more", 1_u64).unwrap();
        assert_eq!(before, Arc::as_ptr(&segment(&exports, "kept", Export::name(&more))));
        drop(kept);
    }
}
