//! A buffer between its owner and a peer, in every order that the memory model allows.

use super::*;
use loom::cell::UnsafeCell;
use loom::thread;

const WORDS: usize = 2;

fn check(preemptions: Option<usize>, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = preemptions;
    builder.check(model);
}

/// Stands beside a buffer. Its owner writes and its peer reads it when they do so with the buffer,
/// and the model fails where nothing orders the two: it does not let a load see a later store, as
/// processors may.
struct Beside(UnsafeCell<()>);

// SAFETY: there is nothing in it, and the model watches who comes to it when.
unsafe impl Sync for Beside {}

// SAFETY: as for Sync.
unsafe impl Send for Beside {}

/// What both sides share: the slab, the peer's word, and a word by which they tell of what is lent.
struct Shared {
    region: Region,
    returns: Region,
    told: Region,
    beside: Vec<Beside>,
}

impl Shared {
    fn new(count: u32) -> Arc<Shared> {
        let beside = (0..count).map(|_| Beside(UnsafeCell::new(()))).collect();
        let region = Region::heap(WORDS * count as usize);
        Arc::new(Shared { region, returns: Region::heap(1), told: Region::heap(2), beside })
    }

    fn slab(&self) -> Slab {
        let count = self.beside.len() as u32;
        Slab::new(self.region.clone(), WORDS * WORD, count, self.returns.load(0))
    }

    fn borrowed(&self) -> Arc<Borrowed> {
        let count = self.beside.len() as u32;
        let (region, returns) = (self.region.clone(), self.returns.clone());
        Arc::new(Borrowed::new(region, WORDS * WORD, count, returns))
    }

    /// Lends what use `number` of the slab holds and tells of it, once there is a free buffer.
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
        self.beside[index as usize].0.with_mut(|_| ());
        buffer.write(0, &content(number));
        assert_eq!(buffer.lend(), index);
        self.told.store(1, u64::from(index));
        self.told.publish(0, number + 1);
    }

    /// Waits until use `number` was told of, and takes its buffer.
    fn take(&self, borrowed: &Arc<Borrowed>, number: u64) -> Loan {
        while self.told.load(0) <= number {
            thread::yield_now();
        }
        fence(Ordering::Acquire);
        borrowed.take(self.told.load(1) as u32, WORDS * WORD).unwrap()
    }

    fn read(&self, loan: &Loan, number: u64) {
        self.beside[loan.index as usize].0.with(|_| ());
        compare(loan, number);
    }
}

fn compare(loan: &Loan, number: u64) {
    let mut bytes = [0; WORDS * WORD];
    loan.read(0, &mut bytes);
    assert_eq!(bytes, content(number), "bytes of another use");
}

fn content(number: u64) -> [u8; WORDS * WORD] {
    [number as u8 + 1; WORDS * WORD]
}

/// How a buffer is claimed.
#[derive(Clone, Copy)]
enum Claims {
    /// As [`Slab::claim`] does.
    Whole,
    /// What is written next may be seen before the return was.
    WithoutFence,
}

/// How a loan ends.
#[derive(Clone, Copy)]
enum Returns {
    /// As a dropped [`Loan`] does.
    Whole,
    /// It ends before it is read.
    BeforeReading,
    /// The return may be seen before the reads.
    WithoutRelease,
}

/// So many uses of a slab of one buffer. Panics if the peer gets anything of the next use.
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
fn nothing_of_the_next_use_is_read_under_a_loan() {
    used_again(2, Claims::Whole, Returns::Whole);
    used_again(3, Claims::Whole, Returns::Whole);
}

#[test]
#[should_panic(expected = "bytes of another use")]
fn returned_before_it_is_read_it_is() {
    used_again(2, Claims::Whole, Returns::BeforeReading);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_release_it_may_be() {
    used_again(2, Claims::Whole, Returns::WithoutRelease);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn without_the_owners_fence_it_may_be() {
    used_again(2, Claims::WithoutFence, Returns::Whole);
}

/// Two loans end at the same time on two threads, and their buffers are used again.
#[test]
fn loans_that_end_on_other_threads_are_told_apart() {
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
            // That the last loan of this buffer has ended is known where the next one is taken.
            shared.read(&shared.take(&borrowed, number), number);
        }
        for reader in readers {
            reader.join().unwrap();
        }
        assert!(slab.is_idle(shared.returns.load(0)) && borrowed.held() == 0);
    });
}

#[test]
fn a_peer_may_stop_for_ever_anywhere() {
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
            // What was never returned is never free, and the owner stays whole.
            let back = slab.claim(|| shared.returns.load(0)).is_some();
            assert_eq!((back, early && !back), (stores > 0, false));
        });
    }
}
