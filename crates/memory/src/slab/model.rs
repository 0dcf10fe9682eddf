//! Models of a buffer between its owner and a peer, in every order that the memory model allows.

use super::*;
use loom::cell::UnsafeCell;
use loom::thread;

const WORDS: usize = 2;

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// A cell that accompanies a buffer. The owner writes it and the peer reads it whenever they write or read the
/// buffer. Loom fails if nothing orders the two accesses. The buffer's own words are not enough, since loom does
/// not let a load see a later store, as processors may.
struct AccessCell(UnsafeCell<()>);

// SAFETY: the cell holds no data, and loom checks every access to it.
unsafe impl Sync for AccessCell {}

// SAFETY: as for Sync.
unsafe impl Send for AccessCell {}

/// The memory that both sides share: the slab, the peer's word, and words that announce the lent buffers.
struct Shared {
    region: Region,
    returns: Region,
    told: Region,
    accesses: Vec<AccessCell>,
}

impl Shared {
    fn new(count: u32) -> Arc<Shared> {
        let accesses = (0..count).map(|_| AccessCell(UnsafeCell::new(()))).collect();
        let region = Region::heap(WORDS * count as usize);
        Arc::new(Shared { region, returns: Region::heap(1), told: Region::heap(2), accesses })
    }

    fn slab(&self) -> Slab {
        let count = self.accesses.len() as u32;
        Slab::new(self.region.clone(), WORDS * WORD, count, self.returns.load(0))
    }

    fn borrowed(&self) -> Arc<Borrowed> {
        let count = self.accesses.len() as u32;
        let (region, returns) = (self.region.clone(), self.returns.clone());
        Arc::new(Borrowed::new(region, WORDS * WORD, count, returns))
    }

    /// Lends a buffer with the content of use `number` and announces it, once a buffer is free.
    fn lend(&self, slab: &Slab, claims: Claims, number: u64) {
        let mut buffer = loop {
            let returned = || self.returns.load(0);
            if let Claims::WithoutFence = claims {
                slab.free.set(slab.back(returned()) & !slab.claimed.get());
            }
            match slab.claim(returned) {
                Some(buffer) => break buffer,
                None => thread::yield_now(),
            }
        };
        let index = buffer.index;
        self.accesses[index as usize].0.with_mut(|_| ());
        buffer.write(0, &content(number));
        assert_eq!(buffer.lend(), index);
        self.told.store(1, u64::from(index));
        self.told.publish(0, number + 1);
    }

    /// Waits until use `number` is announced, and takes its buffer.
    fn take(&self, borrowed: &Arc<Borrowed>, number: u64) -> Loan {
        while self.told.load(0) <= number {
            thread::yield_now();
        }
        fence(Ordering::Acquire);
        borrowed.take(self.told.load(1) as u32, WORDS * WORD).unwrap()
    }

    fn read(&self, loan: &Loan, number: u64) {
        self.accesses[loan.index as usize].0.with(|_| ());
        compare(loan, number);
    }
}

fn compare(loan: &Loan, number: u64) {
    let mut bytes = [0; WORDS * WORD];
    loan.read(0, &mut bytes);
    assert_eq!(bytes, content(number), "the bytes belong to another use");
}

fn content(number: u64) -> [u8; WORDS * WORD] {
    [number as u8 + 1; WORDS * WORD]
}

/// The way in which a buffer is claimed.
#[derive(Clone, Copy)]
enum Claims {
    /// The claim is that of [`Slab::claim`].
    Whole,
    /// The claim has no fence, so later writes may be visible before the return was seen.
    WithoutFence,
}

/// The way in which a loan ends.
#[derive(Clone, Copy)]
enum Returns {
    /// The loan ends as a dropped [`Loan`] does.
    Whole,
    /// The loan ends before the buffer is read.
    BeforeReading,
    /// The return may be visible before the reads are done.
    WithoutRelease,
}

/// Models `uses` uses of a slab of one buffer. Panics if the peer reads anything of the next use.
fn used_again(uses: u64, claims: Claims, returns: Returns) {
    check(None, move || {
        let shared = Shared::new(1);
        let (slab, borrowed) = (shared.slab(), shared.borrowed());
        let owner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for number in 0..uses {
                    shared.lend(&slab, claims, number);
                }
            })
        };
        for number in 0..uses {
            let loan = shared.take(&borrowed, number);
            match returns {
                Returns::Whole => shared.read(&loan, number),
                Returns::BeforeReading => {
                    shared.returns.toggle(0, 1);
                    compare(&loan, number);
                    borrowed.held.store(0, Ordering::Relaxed);
                    std::mem::forget(loan);
                }
                Returns::WithoutRelease => {
                    shared.read(&loan, number);
                    borrowed.held.store(0, Ordering::Relaxed);
                    std::mem::forget(loan);
                    shared.returns.store(0, shared.returns.load(0) ^ 1);
                }
            }
        }
        owner.join().unwrap();
        assert_eq!((borrowed.held(), shared.returns.load(0)), (0, uses % 2));
    });
}

#[test]
fn a_loan_never_reads_the_next_use() {
    used_again(2, Claims::Whole, Returns::Whole);
    used_again(3, Claims::Whole, Returns::Whole);
}

#[test]
#[should_panic(expected = "the bytes belong to another use")]
fn a_return_before_the_read_lets_a_loan_read_the_next_use() {
    used_again(2, Claims::Whole, Returns::BeforeReading);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_a_loan_may_read_the_next_use() {
    used_again(2, Claims::Whole, Returns::WithoutRelease);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_fence_a_loan_may_read_the_next_use() {
    used_again(2, Claims::WithoutFence, Returns::Whole);
}

/// Two loans end at the same time on two threads, and their buffers are used again.
#[test]
fn loans_that_end_on_two_threads_return_both_buffers() {
    check(Some(3), || {
        let shared = Shared::new(2);
        let (slab, borrowed) = (shared.slab(), shared.borrowed());
        let loans = [0, 1].map(|number| {
            shared.lend(&slab, Claims::Whole, number);
            shared.take(&borrowed, number)
        });
        let readers: Vec<_> = (0..)
            .zip(loans)
            .map(|(number, loan)| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || {
                    shared.read(&loan, number);
                    drop(loan);
                })
            })
            .collect();
        for number in 2..4 {
            shared.lend(&slab, Claims::Whole, number);
            // Taking the next buffer of this index shows that its last loan has ended.
            shared.read(&shared.take(&borrowed, number), number);
        }
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(slab.is_idle(shared.returns.load(0)) && borrowed.held() == 0);
    });
}

#[test]
fn a_peer_may_stop_after_any_store() {
    for stores in 0..=2 {
        check(None, move || {
            let shared = Shared::new(1);
            let slab = shared.slab();
            let returns = shared.returns.mortal(stores);
            let borrowed = Borrowed::new(shared.region.clone(), WORDS * WORD, 1, returns);
            let borrowed = Arc::new(borrowed);
            shared.lend(&slab, Claims::Whole, 0);
            let peer = {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.read(&shared.take(&borrowed, 0), 0))
            };
            let early = slab.claim(|| shared.returns.load(0)).is_some();
            peer.join().unwrap();
            // A buffer that was never returned is never free, and the owner survives.
            let back = slab.claim(|| shared.returns.load(0)).is_some();
            assert_eq!((back, early && !back), (stores > 0, false));
        });
    }
}
