//! Tests of counters, from the side of the owner and of an observer.

use super::*;

#[test]
fn a_view_sees_what_the_owner_adds() {
    let counters = Counters::heap(3, "a/1", 7);
    let view = counters.view();
    counters.add(0, u64::MAX);
    counters.add(0, 2);
    counters.add(2, 5);
    counters.set(1, 9);
    assert_eq!(view.values().collect::<Vec<_>>(), [1, 9, 5]);
    assert_eq!((view.get(2), view.get(3)), (Some(5), None));
    assert_eq!((view.incarnation(), view.pid()), (7, u64::from(std::process::id())));
    assert_eq!((view.node().as_str(), view.program().as_str()), ("a/1", ""));
    assert!(!counters.is_shared());
}

#[test]
fn a_page_names_its_counters_and_the_program_of_its_node() {
    let counters = Counters::heap(3, "a/1\nshop", 7);
    let view = counters.view();
    assert_eq!((view.node().as_str(), view.program().as_str()), ("a/1", "shop"));
    assert_eq!(view.names(), 0);
    let counters = counters.named(77);
    assert_eq!((view.names(), counters.view().names(), counters.view().get(0)), (77, 77, Some(0)));
}

#[test]
#[should_panic(expected = "assertion failed")]
fn incrementing_a_counter_out_of_range_panics() {
    // The region has room behind the counters, which belongs to no counter.
    Counters::heap(3, "a/1", 7).add(3, 1);
}

#[test]
fn a_page_is_checked_before_it_is_read() {
    let page = Region::heap(HEADER + 4);
    assert_eq!(CountersView::new(&page).err(), Some(ObserveError::Foreign { magic: 0 }));
    page.store(0, KIND.magic);
    let fault = ObserveError::Version { found: 0, known: KIND.version };
    assert_eq!(CountersView::new(&page).err(), Some(fault));
    page.store(1, KIND.version);
    for (count, held) in [(0, true), (4, true), (5, false), (u64::MAX, false)] {
        page.store(OWN_AT, count);
        assert_eq!(CountersView::new(&page).is_ok(), held, "{count} counters");
    }
    page.store(OWN_AT, 4);
    let view = CountersView::new(&page).unwrap();
    // The owner changes its header later, and the view does not change.
    page.store(OWN_AT, u64::MAX);
    assert_eq!((view.count(), view.get(4)), (4, None));
    assert!(CountersView::new(&Region::heap(HEADER - 1)).is_err());
}

#[cfg(not(miri))]
mod mapped {
    use super::*;
    use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
    use std::os::fd::OwnedFd;
    use std::path::Path;

    fn mine(incarnation: u64) -> Vec<CountersView> {
        // Other tests of this process create pages that are refused.
        let views = observe(std::process::id()).unwrap_or_default();
        views.into_iter().filter(|view| view.incarnation() == incarnation).collect()
    }

    #[test]
    fn an_observer_finds_the_counters_of_a_process() {
        let counters = Counters::create(1000, "a/1", 0xc0).unwrap();
        counters.add(999, 3);
        let view = &mine(0xc0)[0];
        assert_eq!((view.count(), view.get(999)), (1000, Some(3)));
        counters.add(999, 1);
        assert_eq!(view.get(999), Some(4));
        assert!(!view.values.is_writable());
        drop(counters);
        assert!(mine(0xc0).is_empty());
        assert_eq!(view.get(999), Some(4));
    }

    #[test]
    fn a_duplicated_descriptor_shows_one_page() {
        let counters = Counters::create(1, "a/1", 0xc1).unwrap();
        let copy = counters.segment.as_ref().unwrap().descriptor().try_clone_to_owned().unwrap();
        assert_eq!(mine(0xc1).len(), 1);
        drop((counters, copy));
    }

    #[test]
    fn other_files_with_the_same_label_are_skipped() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let forged = rustix::fs::memfd_create(LABEL, flags).unwrap();
        rustix::fs::fallocate(&forged, FallocateFlags::empty(), 0, 4096).unwrap();
        let path = |descriptor: &OwnedFd| {
            use std::os::fd::AsRawFd;
            format!("/proc/self/fd/{}", descriptor.as_raw_fd())
        };
        let refusal = |descriptor| {
            let page = KIND.open(0, Path::new(&path(descriptor)));
            page.and_then(|(_, page)| CountersView::new(&page)).err().unwrap()
        };
        assert!(matches!(
            refusal(&forged),
            ObserveError::Segment { fault: SegmentError::Seals { .. }, .. }
        ));
        rustix::fs::fcntl_add_seals(&forged, SealFlags::SHRINK | SealFlags::GROW).unwrap();
        rustix::fs::fcntl_add_seals(&forged, SealFlags::FUTURE_WRITE | SealFlags::SEAL).unwrap();
        assert_eq!(refusal(&forged), ObserveError::Foreign { magic: 0 });
        let counters = Counters::create(1, "a/1", 0xc2).unwrap();
        assert_eq!(mine(0xc2).len(), 1);
        drop(counters);
        let huge = Segment::create(LABEL, 2 * COUNTERS_MAX * WORD, Writers::Owner)
            .and_then(Segment::reserve)
            .unwrap();
        let huge = huge.descriptor().try_clone_to_owned().unwrap();
        assert!(matches!(
            refusal(&huge),
            ObserveError::Segment { fault: SegmentError::Size { .. }, .. }
        ));
    }

    #[test]
    fn a_missing_process_is_reported_as_gone() {
        assert_eq!(observe(u32::MAX).err(), Some(ObserveError::Gone { pid: u32::MAX }));
    }
}
