//! A slab from both of its sides.

use super::*;

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

    /// Lends a buffer with these bytes, and takes it.
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

#[test]
fn what_is_written_is_read_in_place() {
    let bench = Bench::new(32, 3, 0);
    assert_eq!((bench.slab.each(), bench.slab.count(), bench.slab.lent()), (32, 3, 0));
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
fn the_peers_word_is_asked_only_when_no_buffer_is_known_to_be_free() {
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
fn a_buffer_is_lent_again_round_after_round() {
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
        // Bits that belong to no buffer stay as they were.
        assert_eq!((bench.word.load(0) ^ standing) & !3, 0);
    }
}

#[test]
fn a_dropped_claim_leaves_a_free_buffer() {
    let bench = Bench::new(8, 2, 0);
    let mut first = bench.claim().unwrap();
    first.write(0, &[1; 8]);
    let second = bench.claim().unwrap();
    // Buffers under a claim are neither free nor lent.
    assert!(bench.claim().is_none() && bench.slab.lent() == 0);
    assert!(!bench.slab.is_idle(0));
    drop(first);
    assert_eq!(bench.claim().unwrap().lend(), 0);
    assert_eq!(second.lend(), 1);
    assert!(bench.claim().is_none() && bench.slab.lent() == 2);
}

#[test]
fn what_a_peer_may_not_lend_is_refused() {
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
