//! The memory of a node's exports.

use super::error::ExportError;
use super::location::{LINE, Location};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use upbeat_core::channel::export::Readers;
use upbeat_memory::region::{Region, WORD};
use upbeat_memory::segment::{Segment, Writers};
use upbeat_transport::carrier::OwnSegment;

/// The bytes of a node's first segment of exports. Later ones are twice as large each.
const SEGMENT_BYTES: usize = 64 << 10;

/// A segment with exports.
struct ExportSegment {
    own: Arc<OwnSegment>,
    /// The first word that no export has.
    next: Cell<usize>,
}

impl ExportSegment {
    /// Creates a segment of at least so many bytes. It is on the heap, and reached by calls alone, where this process may
    /// not share memory.
    fn create(bytes: usize) -> Result<ExportSegment, ExportError> {
        let own = match Segment::create("upbeat-exports", bytes, Writers::Owner)
            .and_then(Segment::reserve)
        {
            Ok(segment) => OwnSegment::Shared(segment),
            Err(error) if error.is_refused() => match Region::try_heap(bytes.div_ceil(WORD)) {
                Some(region) => OwnSegment::Heap(region),
                None => return Err(ExportError::Memory { text: error.to_string().into() }),
            },
            Err(error) => return Err(ExportError::Memory { text: error.to_string().into() }),
        };
        Ok(ExportSegment { own: Arc::new(own), next: Cell::new(0) })
    }

    /// Takes room for an export.
    fn take(&self, of: Location) -> Option<Location> {
        let location = of.checked(self.next.get() as u64, self.own.region())?;
        self.next.set((location.head + location.room()?).next_multiple_of(LINE));
        Some(location)
    }
}

/// The segments of a node's exports.
#[derive(Default)]
pub(super) struct Segments {
    /// The last segment of each list of readers, who map whole segments.
    last: RefCell<BTreeMap<Readers, ExportSegment>>,
}

impl Segments {
    /// Takes room for a value of so many words, in the last segment of its readers or in a new one.
    pub(super) fn take(
        &self,
        wanted: Location,
        readers: &Readers,
    ) -> Result<(Arc<OwnSegment>, Location), ExportError> {
        let mut segments = self.last.borrow_mut();
        let last = segments.get(readers);
        if let Some(last) = last
            && let Some(location) = last.take(wanted)
        {
            return Ok((Arc::clone(&last.own), location));
        }
        let before = last.map_or(0, |last| 2 * last.own.region().words() * WORD);
        let room = wanted.room().unwrap_or_else(|| unreachable!("the directory bounds a value"));
        let bytes = before.max(SEGMENT_BYTES).max((room + LINE) * WORD);
        let segment = ExportSegment::create(bytes)?;
        let location = segment.take(wanted);
        let location = location.unwrap_or_else(|| unreachable!("the segment was made for it"));
        let own = Arc::clone(&segment.own);
        segments.insert(readers.clone(), segment);
        // A list whose exports have ended leaves no memory behind.
        segments.retain(|of, last| of.are_all() || Arc::strong_count(&last.own) > 1);
        Ok((own, location))
    }
}
