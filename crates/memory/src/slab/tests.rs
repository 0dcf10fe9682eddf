//! Tests that compare a slab with plain sets, and that give each side a hostile peer.

mod generated;

use super::*;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

struct Bench {
    slab: Slab,
    borrowed: Arc<Borrowed>,
    word: Region,
}

impl Bench {
    fn new(each: usize, count: u32, standing: u64) -> Bench {
        let (region, word) = (Region::heap(each / WORD * count as usize), Region::heap(1));
        word.store(0, standing);
        let borrowed = Borrowed::new(region.read_only(), each, count, word.clone());
        let slab = Slab::new(region, each, count, standing);
        Bench { slab, borrowed: Arc::new(borrowed), word }
    }

    fn claim(&self) -> Option<Buffer<'_>> {
        self.slab.claim(|| self.word.load(0))
    }

    /// Lends a buffer with these bytes, and takes it at the peer.
    fn pass(&self, bytes: &[u8]) -> Option<Loan> {
        let mut buffer = self.claim()?;
        buffer.write(0, bytes);
        let index = buffer.lend();
        Some(self.borrowed.take(index, bytes.len()).unwrap())
    }
}

fn bytes_of(loan: &Loan) -> Vec<u8> {
    let mut bytes = vec![0; loan.len()];
    loan.read(0, &mut bytes);
    bytes
}

/// A kept buffer takes its weight of an allowance that several slabs share, until it is returned.
#[test]
fn kept_buffers_stay_within_their_allowance() {
    let allowance = Arc::new(Allowance::new(5));
    let keeping = |weight| {
        let Bench { slab, borrowed, word } = Bench::new(16, 4, 0);
        let borrowed = Arc::into_inner(borrowed).unwrap();
        let borrowed = Arc::new(borrowed.with_allowance(Arc::clone(&allowance), weight));
        Bench { slab, borrowed, word }
    };
    let (light, heavy) = (keeping(1), keeping(3));
    let (mut one, mut other) = (heavy.pass(&[1]).unwrap(), heavy.pass(&[2]).unwrap());
    assert!(one.keep() && one.keep() && !other.keep());
    let mut small: Vec<Loan> = (0..3).map(|_| light.pass(&[3]).unwrap()).collect();
    let kept: Vec<bool> = small.iter_mut().map(Loan::keep).collect();
    assert_eq!(kept, [true, true, false]);
    // A loan that was not kept gives nothing back to the allowance.
    drop(small.pop());
    assert!(!other.keep());
    drop(one);
    assert!(other.keep());
    drop((small, other));
    assert!((0..4).all(|_| light.pass(&[4]).is_some_and(|mut loan| loan.keep())));
}

/// A slab takes its share of the outer allowance once, while any of its buffers is kept.
#[test]
fn slabs_that_are_kept_in_part_are_counted() {
    let all = Arc::new(Allowance::new(2));
    let keeping = || {
        let Bench { slab, borrowed, word } = Bench::new(16, 4, 0);
        let borrowed = Arc::into_inner(borrowed).unwrap();
        let allowance = Arc::new(Allowance::within(2, Arc::clone(&all), 1));
        Bench { slab, borrowed: Arc::new(borrowed.with_allowance(allowance, 1)), word }
    };
    let slabs: Vec<Bench> = (0..3).map(|_| keeping()).collect();
    let mut loans: Vec<Vec<Loan>> =
        slabs.iter().map(|slab| (0..3).map(|_| slab.pass(&[1]).unwrap()).collect()).collect();
    let kept: Vec<usize> = loans
        .iter_mut()
        .map(|loans| loans.iter_mut().filter_map(|l| l.keep().then_some(())).count())
        .collect();
    assert_eq!(kept, [2, 2, 0]);
    drop(loans[0].pop());
    drop(loans[0].pop());
    assert!(!loans[2][0].keep(), "one buffer of the first slab is still kept");
    loans[0].clear();
    assert!(loans[2][0].keep());
    assert!(!slabs[0].pass(&[1]).unwrap().keep());
}

#[test]
fn a_loan_reads_the_bytes_that_the_owner_wrote() {
    let bench = Bench::new(32, 3, 0);
    assert_eq!((bench.slab.buffer_bytes(), bench.slab.count(), bench.slab.lent()), (32, 3, 0));
    let mut buffer = bench.claim().unwrap();
    assert_eq!(buffer.room(), 32);
    buffer.write(0, &[1; 9]);
    buffer.write(9, &[2; 12]);
    let loan = bench.borrowed.take(buffer.lend(), 21).unwrap();
    assert_eq!((loan.len(), loan.is_empty(), bench.slab.lent()), (21, false, 1));
    assert_eq!(bytes_of(&loan), [[1; 9].as_slice(), &[2; 12]].concat());
    assert_eq!(loan.read_value::<[u8; 5]>(16), [2; 5]);
    assert_eq!((loan.load(0), loan.load(1)), (u64::from_ne_bytes([1; 8]), loan.read_value(8)));
    assert_eq!(loan.load(2).to_ne_bytes()[..5], [2; 5]);
    let empty = bench.pass(&[]).unwrap();
    assert_eq!((empty.is_empty(), empty.len()), (true, 0));
    empty.read(0, &mut []);
}

#[test]
fn the_peers_word_is_loaded_only_when_no_buffer_is_known_to_be_free() {
    let bench = Bench::new(8, 64, 0);
    let unasked = || panic!("asked");
    for index in 0..64 {
        assert_eq!(bench.slab.claim(unasked).unwrap().lend(), index);
    }
    assert_eq!(bench.slab.lent(), 64);
    assert!(bench.claim().is_none());
    let mut loans: Vec<_> = (0..64).map(|index| bench.borrowed.take(index, 8).unwrap()).collect();
    assert_eq!(bench.borrowed.held(), 64);
    drop(loans.remove(50));
    drop(loans.remove(7));
    assert_eq!((bench.borrowed.held(), bench.slab.lent()), (62, 64));
    assert_eq!(bench.claim().unwrap().lend(), 7);
    assert_eq!(bench.slab.claim(unasked).unwrap().lend(), 50);
    assert!(bench.claim().is_none());
    drop(loans);
    assert!(!bench.slab.is_idle(bench.word.load(0)));
    for index in [7, 50] {
        drop(bench.borrowed.take(index, 0).unwrap());
    }
    assert!(bench.slab.is_idle(bench.word.load(0)) && bench.borrowed.held() == 0);
}

#[test]
fn buffers_are_lent_again_after_their_return() {
    for standing in [0, u64::MAX, 0x5555_5555_5555_5555] {
        let bench = Bench::new(16, 2, standing);
        assert!(bench.slab.is_idle(standing));
        for round in 0..5_u8 {
            let loans = [0, 1].map(|i| bench.pass(&[2 * round + i; 16]).unwrap());
            assert!(bench.pass(&[]).is_none());
            for (i, loan) in (0..).zip(&loans) {
                assert_eq!(bytes_of(loan), [2 * round + i; 16]);
            }
        }
        assert!(bench.slab.is_idle(bench.word.load(0)));
        // The bits that belong to no buffer do not change.
        assert_eq!((bench.word.load(0) ^ standing) & !3, 0);
    }
}

#[test]
fn a_dropped_claim_leaves_a_free_buffer() {
    let bench = Bench::new(8, 2, 0);
    let mut first = bench.claim().unwrap();
    first.write(0, &[1; 8]);
    let second = bench.claim().unwrap();
    // A claimed buffer is neither free nor lent.
    assert!(bench.claim().is_none() && bench.slab.lent() == 0);
    assert!(!bench.slab.is_idle(0));
    drop(first);
    assert_eq!(bench.claim().unwrap().lend(), 0);
    assert_eq!(second.lend(), 1);
    assert!(bench.claim().is_none() && bench.slab.lent() == 2);
}

#[test]
fn an_impossible_index_or_length_or_a_held_buffer_is_refused() {
    let bench = Bench::new(16, 3, 0);
    let refused = |index, len| bench.borrowed.take(index, len).err();
    assert_eq!(refused(3, 0), Some(SlabFault::Index { index: 3, count: 3 }));
    assert_eq!(refused(64, 0), Some(SlabFault::Index { index: 64, count: 3 }));
    assert_eq!(refused(u32::MAX, 0), Some(SlabFault::Index { index: u32::MAX, count: 3 }));
    assert_eq!(refused(0, 17), Some(SlabFault::Length { len: 17, each: 16 }));
    assert_eq!(refused(2, usize::MAX), Some(SlabFault::Length { len: usize::MAX, each: 16 }));
    assert_eq!(bench.borrowed.held(), 0);
    let loan = bench.borrowed.take(2, 16).unwrap();
    assert_eq!(refused(2, 16), Some(SlabFault::Held { index: 2 }));
    assert_eq!((bench.borrowed.held(), bench.word.load(0)), (1, 0));
    drop(loan);
    assert_eq!((bench.borrowed.held(), bench.word.load(0)), (0, 4));
    assert_eq!(refused(9, 0).unwrap().to_string(), "buffer 9 was lent of a slab of 3");
}

#[test]
fn a_loan_outlives_both_sides() {
    let bench = Bench::new(16, 1, 0);
    let loan = bench.pass(&[7; 16]).unwrap();
    let word = bench.word.clone();
    drop(bench);
    let bytes = std::thread::spawn(move || bytes_of(&loan)).join().unwrap();
    assert_eq!((bytes, word.load(0)), (vec![7; 16], 1));
}

#[cfg(not(miri))]
#[test]
fn a_slab_is_a_segment_that_the_peer_maps_to_read() {
    use crate::segment::{self, PAGE, Segment, Writers};
    let made = Segment::create("slab", 4 * PAGE, Writers::Owner).unwrap().reserve().unwrap();
    let theirs = segment::open(made.descriptor(), 4 * PAGE, Writers::Owner).unwrap();
    assert!(!theirs.is_writable());
    let word = Region::heap(1);
    let slab = Slab::new(made.region().clone(), 2 * PAGE, 2, 0);
    let borrowed = Arc::new(Borrowed::new(theirs, 2 * PAGE, 2, word.clone()));
    drop(made);
    let mut bytes = vec![0; 2 * PAGE - 3];
    for round in 0..4_u8 {
        let loans = [0, 1].map(|i| {
            let mut buffer = slab.claim(|| word.load(0)).unwrap();
            buffer.write(0, &vec![2 * round + i; bytes.len()]);
            borrowed.take(buffer.lend(), bytes.len()).unwrap()
        });
        for (i, loan) in (0..).zip(loans) {
            loan.read(0, &mut bytes);
            assert!(bytes.iter().all(|byte| *byte == 2 * round + i));
        }
    }
}

#[test]
fn impossible_sizes_of_a_slab_are_refused() {
    assert!(
        is_slab(64, 8, 8) && is_slab(71, 8, 8) && is_slab(usize::MAX, (usize::MAX / 64) & !7, 64)
    );
    let none = [
        (63, 8, 8),
        (64, 0, 8),
        (64, 8, 0),
        (64, 4, 8),
        (1 << 20, 8, 65),
        (64, usize::MAX & !7, 2),
        (64, 1 << 61, 8),
        (64, 8, u32::MAX),
        (0, 8, 1),
    ];
    for (bytes, each, count) in none {
        assert!(!is_slab(bytes, each, count), "{count} buffers of {each} bytes in {bytes}");
    }
}

#[test]
fn each_side_checks_its_regions() {
    let refused = |act: &dyn Fn()| catch_unwind(AssertUnwindSafe(act)).is_err();
    let (region, word) = (Region::heap(4), Region::heap(1));
    assert!(refused(&|| _ = Slab::new(region.clone(), 16, 3, 0)));
    assert!(refused(&|| _ = Slab::new(region.read_only(), 16, 2, 0)));
    assert!(refused(&|| _ = Borrowed::new(region.clone(), 16, 3, word.clone())));
    assert!(refused(&|| _ = Borrowed::new(region.clone(), 16, 2, word.read_only())));
    assert!(refused(&|| _ = Borrowed::new(region.clone(), 16, 2, region.clone())));
}

#[test]
fn buffers_of_an_unmapped_slab_are_returned_unread() {
    let Bench { slab, word, .. } = Bench::new(16, 2, 0);
    let borrowed = Arc::new(Borrowed::unmapped(16, 2, word.clone()));
    for _ in 0..4 {
        let index = slab.claim(|| word.load(0)).unwrap().lend();
        let loan = borrowed.take(index, 9).unwrap();
        assert!(!borrowed.is_mapped() && loan.len() == 9);
        assert!(catch_unwind(AssertUnwindSafe(|| loan.load(0))).is_err());
        assert!(!slab.is_idle(word.load(0)));
        drop(loan);
        assert!(slab.is_idle(word.load(0)));
    }
    assert!(borrowed.take(2, 9).is_err() && borrowed.take(0, 17).is_err());
}

#[test]
fn a_slab_is_mapped_once_there_is_memory() {
    let (region, word) = (Region::heap(4), Region::heap(1));
    let borrowed = Arc::new(Borrowed::unmapped(16, 2, word));
    let earlier = borrowed.take(0, 8).unwrap();
    let map = |region: &Region| {
        catch_unwind(AssertUnwindSafe(|| borrowed.map(region.read_only()))).is_ok()
    };
    assert!(!map(&Region::heap(3)) && !borrowed.is_mapped());
    assert!(map(&region) && borrowed.is_mapped() && !map(&region));
    region.store(2, 7);
    assert!(borrowed.take(0, 8).is_err(), "it is under a loan still");
    assert_eq!(borrowed.take(1, 8).unwrap().load(0), 7);
    drop(earlier);
    assert_eq!(borrowed.take(0, 8).unwrap().load(0), 0);
}

#[test]
fn an_access_outside_of_a_buffer_panics() {
    let bench = Bench::new(24, 2, 0);
    let claimed = RefCell::new(bench.claim().unwrap());
    let refused = |act: &dyn Fn()| catch_unwind(AssertUnwindSafe(act)).is_err();
    assert!(refused(&|| claimed.borrow_mut().write(0, &[1; 25])));
    assert!(refused(&|| claimed.borrow_mut().write(25, &[])));
    assert!(refused(&|| claimed.borrow_mut().write(usize::MAX, &[1; 2])));
    claimed.borrow_mut().write(24, &[]);
    let loan = bench.borrowed.take(claimed.into_inner().lend(), 12).unwrap();
    assert!(refused(&|| loan.read(0, &mut [0; 13])));
    assert!(refused(&|| loan.read(8, &mut [0; 5])));
    assert!(refused(&|| loan.read(4, &mut [0; 4])));
    assert!(refused(&|| loan.read(16, &mut [])));
    assert!(refused(&|| loan.read(usize::MAX - 7, &mut [0; 8])));
    assert!(refused(&|| _ = loan.read_value::<u64>(8)));
    assert!(refused(&|| _ = loan.load(2)));
    assert!(refused(&|| _ = loan.load(usize::MAX)));
    assert_eq!(loan.read_value::<u32>(8), 0);
}

#[test]
fn a_reservation_keeps_its_buffer_until_it_is_lent_or_freed() {
    let bench = Bench::new(24, 2, 0);
    let mut reservation = bench.claim().unwrap().reserve();
    reservation.write(0, b"written in ");
    reservation.write(11, b"pieces");
    let mut read = [0; 17];
    reservation.read(0, &mut read);
    assert_eq!(&read, b"written in pieces");
    // The other buffer is lent and returned meanwhile; the reserved buffer is not claimed again.
    for _ in 0..4 {
        let other = bench.claim().unwrap().lend();
        assert!(bench.claim().is_none());
        drop(bench.borrowed.take(other, 24).unwrap());
    }
    assert!(!bench.slab.is_idle(bench.word.load(0)));
    let loan = bench.borrowed.take(bench.slab.resume(reservation).lend(), 17).unwrap();
    let mut read = [0; 17];
    loan.read(0, &mut read);
    assert_eq!(&read, b"written in pieces");
    drop(loan);
    drop(bench.slab.resume(bench.claim().unwrap().reserve()));
    assert!(bench.slab.is_idle(bench.word.load(0)));
}

#[test]
fn a_reservation_belongs_to_its_slab() {
    let (bench, other) = (Bench::new(24, 2, 0), Bench::new(24, 2, 0));
    let reservation = bench.claim().unwrap().reserve();
    let foreign = AssertUnwindSafe(|| drop(other.slab.resume(reservation)));
    assert!(catch_unwind(foreign).is_err());
    let mut reservation = bench.claim().unwrap().reserve();
    let beyond = AssertUnwindSafe(|| reservation.write(8, &[1; 17]));
    assert!(catch_unwind(beyond).is_err());
}
