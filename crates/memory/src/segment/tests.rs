//! Tests of segments, from the side of the owner and of the peer.

use super::*;
use crate::region::WORD;

fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let descriptor = rustix::fs::memfd_create("upbeat-test", flags).unwrap();
    rustix::fs::ftruncate(&descriptor, bytes).unwrap();
    rustix::fs::fcntl_add_seals(&descriptor, seals).unwrap();
    descriptor
}

fn refusal(descriptor: &OwnedFd, bytes: usize, writers: Writers) -> SegmentError {
    open(descriptor.as_fd(), bytes, writers).err().expect("the segment was accepted")
}

#[test]
fn the_peer_reads_what_the_owner_writes() {
    let segment = Segment::create("upbeat-test", 1, Writers::Owner).unwrap().reserve().unwrap();
    assert_eq!(segment.region().words(), PAGE / WORD);
    let theirs = open(segment.descriptor(), PAGE, Writers::Owner).unwrap();
    segment.region().store(511, 7);
    assert_eq!((theirs.load(0), theirs.load(511)), (0, 7));
    assert!(segment.region().is_writable() && !theirs.is_writable());
    // Either side may drop its mapping first.
    let ours = segment.into_region();
    ours.store(0, 8);
    assert_eq!(theirs.load(0), 8);
    drop(ours);
    assert_eq!(theirs.load(0), 8);
}

#[test]
#[should_panic(expected = "mapped read-only")]
fn a_store_into_a_peers_segment_panics_and_does_not_fault() {
    let segment = Segment::create("upbeat-test", PAGE, Writers::Owner).unwrap().reserve().unwrap();
    open(segment.descriptor(), PAGE, Writers::Owner).unwrap().store(0, 1);
}

/// The variable that is set in the process of a peer that writes where it may not.
const STRAY: &str = "UPBEAT_TEST_STRAY_WRITE";

#[test]
#[ignore = "runs as the child of the next test"]
fn stray_writer() {
    if std::env::var_os(STRAY).is_none() {
        return;
    }
    let segment = Segment::create("upbeat-test", PAGE, Writers::Owner).unwrap().reserve().unwrap();
    let theirs = open(segment.descriptor(), PAGE, Writers::Owner).unwrap();
    let word = theirs.bytes_at(0, WORD).cast_mut();
    // SAFETY: the word is mapped, though not for writing: the store ends this process.
    unsafe { word.write_volatile(1) };
    println!("the store was done");
}

#[test]
#[cfg_attr(miri, ignore = "it runs another process")]
fn a_peer_that_writes_into_a_segment_is_killed_by_its_page_fault() {
    use std::os::unix::process::ExitStatusExt;
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "segment::tests::stray_writer", "--ignored", "--nocapture"]);
    let output = child.env(STRAY, "1").output().unwrap();
    let signal = output.status.signal();
    assert_eq!(signal, Some(rustix::process::Signal::SEGV.as_raw()), "{output:?}");
    assert!(!String::from_utf8_lossy(&output.stdout).contains("the store was done"));
}

#[test]
fn only_the_owner_writes_and_nobody_resizes_or_reseals() {
    let segment = Segment::create("upbeat-test", PAGE, Writers::Owner).unwrap().reserve().unwrap();
    let descriptor = segment.descriptor();
    assert!(Mapping::new(descriptor, PAGE, true, InChild::Nothing).is_err());
    assert_eq!(rustix::io::write(descriptor, &[1]), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(descriptor, 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(descriptor, 2 * PAGE as u64), Err(Errno::PERM));
    assert_eq!(rustix::fs::fcntl_add_seals(descriptor, SealFlags::WRITE), Err(Errno::PERM));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(descriptor, hole, 0, PAGE as u64), Err(Errno::PERM));
}

#[test]
fn a_peer_may_write_into_a_board() {
    let segment = Segment::create("upbeat-test", PAGE, Writers::Everybody).unwrap();
    let theirs = open(segment.descriptor(), PAGE, Writers::Everybody).unwrap();
    theirs.store(3, 5);
    assert_eq!(segment.region().load(3), 5);
    assert_eq!(rustix::fs::ftruncate(segment.descriptor(), 0), Err(Errno::PERM));
}

#[test]
fn a_segment_with_other_writers_is_refused() {
    for (made, wanted) in
        [(Writers::Owner, Writers::Everybody), (Writers::Everybody, Writers::Owner)]
    {
        let segment = Segment::create("upbeat-test", PAGE, made).unwrap();
        let refusal = open(segment.descriptor(), PAGE, wanted).err().unwrap();
        assert!(matches!(refusal, SegmentError::Seals { .. }), "{refusal}");
    }
}

#[test]
fn a_segment_without_one_of_its_seals_is_refused() {
    for writers in [Writers::Owner, Writers::Everybody] {
        for missing in writers.seals().iter() {
            let file = memfd(PAGE as u64, writers.seals() - missing);
            let refusal = refusal(&file, PAGE, writers);
            assert!(matches!(refusal, SegmentError::Seals { .. }), "{missing:?}: {refusal}");
        }
    }
    let sealed = memfd(PAGE as u64, Writers::Owner.seals() | SealFlags::WRITE);
    assert!(matches!(refusal(&sealed, PAGE, Writers::Owner), SegmentError::Seals { .. }));
}

#[test]
fn a_segment_of_another_size_than_announced_is_refused() {
    let file = memfd(PAGE as u64, Writers::Owner.seals());
    for wanted in [0, 1, PAGE - 1, PAGE + 1, 2 * PAGE, usize::MAX, usize::MAX - PAGE + 1] {
        let size = SegmentError::Size { found: PAGE as i64, wanted };
        assert_eq!(refusal(&file, wanted, Writers::Owner), size);
    }
    let odd = memfd(PAGE as u64 + 1, Writers::Owner.seals());
    let size = SegmentError::Size { found: PAGE as i64 + 1, wanted: PAGE + 1 };
    assert_eq!(refusal(&odd, PAGE + 1, Writers::Owner), size);
    let empty = memfd(0, Writers::Owner.seals());
    assert!(matches!(refusal(&empty, 0, Writers::Owner), SegmentError::Size { .. }));
}

/// A segment with holes is refused, since the reader of a hole would have to pay for its pages.
#[test]
fn a_segment_with_holes_is_refused() {
    const PAGES: usize = 64;
    let segment = Segment::create("upbeat-test", PAGES * PAGE, Writers::Owner).unwrap();
    let holes = |there: usize| {
        let wanted = PAGES * PAGE;
        let error = open(segment.descriptor(), wanted, Writers::Owner).err();
        assert_eq!(error, Some(SegmentError::Holes { there: (there * PAGE) as i64, wanted }));
    };
    holes(0);
    for page in 0..PAGES - 1 {
        segment.region().store(page * PAGE / WORD, 1);
    }
    holes(PAGES - 1);
    let segment = segment.reserve().unwrap();
    assert!(open(segment.descriptor(), PAGES * PAGE, Writers::Owner).is_ok());
}

#[test]
fn a_descriptor_of_another_file_system_is_refused() {
    let program: OwnedFd = std::fs::File::open("/proc/self/status").unwrap().into();
    assert!(matches!(refusal(&program, PAGE, Writers::Owner), SegmentError::Kind { .. }));
    let (pipe, _other) = rustix::pipe::pipe().unwrap();
    assert!(matches!(refusal(&pipe, PAGE, Writers::Owner), SegmentError::Kind { .. }));
    // A file of huge pages accepts the seals, and then faults its reader. Not every machine has
    // huge pages.
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB;
    if let Ok(huge) = rustix::fs::memfd_create("upbeat-test", flags)
        && rustix::fs::fcntl_add_seals(&huge, Writers::Owner.seals()).is_ok()
    {
        assert!(matches!(refusal(&huge, PAGE, Writers::Owner), SegmentError::Kind { .. }));
    }
}

#[test]
fn an_impossible_size_or_label_is_an_error() {
    assert!(Segment::create("upbeat-test", 0, Writers::Owner).is_err());
    assert!(Segment::create("upbeat-test", usize::MAX / 2, Writers::Owner).is_err());
    assert!(Segment::create("with\0nul", PAGE, Writers::Owner).is_err());
}

#[test]
fn a_forked_child_has_the_mapping_of_a_reader_alone() {
    let made = Segment::create("upbeat-forked", PAGE, Writers::Owner);
    let segment = made.and_then(Segment::reserve).unwrap();
    let theirs = open(segment.descriptor(), PAGE, Writers::Owner).unwrap();
    let read = open_to_read(segment.descriptor(), PAGE).unwrap();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mine = maps.split("VmFlags:").zip(maps.split("VmFlags:").skip(1));
    let flags: Vec<_> = mine
        .filter(|(before, _)| before.contains("/memfd:upbeat-forked"))
        .map(|(_, after)| after.lines().next().unwrap())
        .collect();
    assert_eq!(flags.len(), 3);
    // The flag "dc" means that a fork does not copy the mapping.
    let lost = flags.iter().filter(|flags| flags.split(' ').any(|flag| flag == "dc"));
    assert_eq!(lost.count(), 2, "{flags:?}");
    drop((segment, theirs, read));
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    assert!(!maps.contains("/memfd:upbeat-forked"));
}
