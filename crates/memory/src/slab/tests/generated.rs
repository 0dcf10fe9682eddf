//! Tests of generated operations: against plain sets, and against a hostile peer.

use super::super::*;
use super::{Bench, bytes_of};
use proptest::prelude::*;
use std::collections::{BTreeSet, VecDeque};

fn config(cases: u32) -> ProptestConfig {
    let cases = if cfg!(miri) { 4 } else { cases };
    ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() }
}

#[derive(Clone, Debug)]
enum Step {
    /// Claims a buffer, if one is free, and writes these bytes in two pieces.
    Claim(prop::sample::Index, u8),
    /// Lends one of the claimed buffers, or drops it.
    Lend(prop::sample::Index, bool),
    /// The peer takes the buffer that was lent first.
    Take,
    /// The peer checks the bytes of a loan and ends it.
    Return(prop::sample::Index),
    /// The owner lends a buffer that the peer already holds.
    Again(prop::sample::Index),
    /// Another slab replaces an idle one.
    Replace,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>;
    let step = prop_oneof![
        6 => (index(), any::<u8>()).prop_map(|(len, fill)| Step::Claim(len, fill)),
        6 => (index(), prop::bool::weighted(0.8)).prop_map(|(which, lend)| Step::Lend(which, lend)),
        5 => Just(Step::Take),
        5 => index().prop_map(Step::Return),
        1 => index().prop_map(Step::Again),
        1 => Just(Step::Replace),
    ];
    proptest::collection::vec(step, 0..if cfg!(miri) { 12 } else { 300 })
}

/// The model of a slab, which knows the state of both sides.
struct Model {
    /// The free buffers, and those of them that the owner knows to be free.
    free: BTreeSet<u32>,
    known: BTreeSet<u32>,
    /// The index behind the one that was claimed last.
    next: u32,
    /// The buffers on their way to the peer, and the peer's loans.
    lent: VecDeque<(u32, Vec<u8>)>,
    loans: Vec<(Loan, Vec<u8>)>,
}

impl Model {
    fn new(count: u32) -> Model {
        let free: BTreeSet<u32> = (0..count).collect();
        Model { known: free.clone(), free, next: 0, lent: VecDeque::new(), loans: Vec::new() }
    }

    /// Returns the buffer that a claim must return.
    fn claim(&mut self) -> Option<u32> {
        if self.known.is_empty() {
            self.known.clone_from(&self.free);
        }
        let behind = self.known.range(self.next..).next();
        let index = *behind.or(self.known.first())?;
        self.known.remove(&index);
        self.next = (index + 1) % 64;
        assert!(self.free.remove(&index));
        Some(index)
    }

    fn give_back(&mut self, which: usize) {
        let (loan, bytes) = self.loans.swap_remove(which);
        assert_eq!(bytes_of(&loan), bytes);
        assert!(self.free.insert(loan.index));
    }
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn a_slab_lends_and_gets_back_buffers_as_its_model_does(
        words in 1_usize..6,
        count in prop_oneof![1_u32..5, Just(63), Just(64)],
        standing in any::<u64>(),
        steps in steps(),
    ) {
        let each = words * WORD;
        let mut benches = vec![Bench::new(each, count, standing)];
        let mut model = Model::new(count);
        for part in steps.split_inclusive(|step| matches!(step, Step::Replace)) {
            let bench = benches.last().unwrap();
            run(bench, &mut model, part);
            let word = bench.word.clone();
            prop_assert_eq!(bench.borrowed.held() as usize, model.loans.len());
            prop_assert_eq!(bench.slab.is_idle(word.load(0)), model.free.len() == count as usize);
            if bench.slab.is_idle(word.load(0)) {
                benches.push(Bench::new(each, count, word.load(0)));
                model = Model::new(count);
            }
        }
    }

    #[test]
    fn an_owner_survives_any_word_of_its_peer(
        count in 1_u32..=64,
        standing in any::<u64>(),
        acts in proptest::collection::vec(
            (any::<u64>(), any::<prop::sample::Index>(), any::<bool>(), any::<bool>()),
            0..if cfg!(miri) { 20 } else { 400 },
        ),
    ) {
        let slab = Slab::new(Region::heap(count as usize), WORD, count, standing);
        let mut claimed: Vec<(Buffer<'_>, u64)> = Vec::new();
        for (number, (word, which, claims, lends)) in acts.into_iter().enumerate() {
            if claims {
                if let Some(mut buffer) = slab.claim(|| word) {
                    prop_assert!(buffer.index < count);
                    prop_assert!(claimed.iter().all(|(other, _)| other.index != buffer.index));
                    buffer.write(0, &number.to_ne_bytes());
                    claimed.push((buffer, number as u64));
                }
            } else if !claimed.is_empty() {
                let (buffer, number) = claimed.swap_remove(which.index(claimed.len()));
                // No other side wrote into the claimed buffer.
                prop_assert_eq!(slab.region.load(buffer.index as usize), number);
                if lends {
                    prop_assert!(buffer.lend() < count);
                }
            }
            prop_assert!(slab.lent() as usize <= count as usize - claimed.len());
            prop_assert!(!slab.is_idle(word) || claimed.is_empty());
        }
    }

    #[test]
    fn a_peer_survives_any_lent_buffer(
        words in 1_usize..6,
        count in 1_u32..=64,
        acts in proptest::collection::vec(
            (0_u32..70, 0_usize..50, any::<prop::sample::Index>(), any::<bool>()),
            0..if cfg!(miri) { 20 } else { 400 },
        ),
    ) {
        let bench = Bench::new(words * WORD, count, 0);
        let mut loans: Vec<Loan> = Vec::new();
        let mut returned = 0;
        for (index, len, which, takes) in acts {
            if takes {
                let held = loans.iter().any(|loan| loan.index == index);
                let expected = if index >= count {
                    Some(SlabFault::Index { index, count })
                } else if len > words * WORD {
                    Some(SlabFault::Length { len, each: words * WORD })
                } else {
                    held.then_some(SlabFault::Held { index })
                };
                let taken = bench.borrowed.take(index, len);
                prop_assert_eq!(taken.as_ref().err(), expected.as_ref());
                loans.extend(taken);
            } else if !loans.is_empty() {
                let loan = loans.swap_remove(which.index(loans.len()));
                // The owner changes the bytes under the loan.
                bench.slab.region.store(loan.index as usize * words, u64::MAX);
                prop_assert_eq!(bytes_of(&loan).len(), loan.len());
                returned ^= 1_u64 << loan.index;
            }
            prop_assert_eq!(bench.borrowed.held() as usize, loans.len());
            prop_assert_eq!(bench.word.load(0), returned);
        }
    }
}

/// Executes the steps with a slab and its model.
fn run(bench: &Bench, model: &mut Model, steps: &[Step]) {
    let mut claimed: Vec<(Buffer<'_>, Vec<u8>)> = Vec::new();
    for step in steps {
        match step {
            Step::Claim(len, fill) => {
                let claim = bench.claim();
                let expected = model.claim();
                assert_eq!(claim.as_ref().map(|buffer| buffer.index), expected);
                let Some(mut buffer) = claim else { continue };
                let bytes: Vec<u8> =
                    (0..len.index(buffer.room() + 1)).map(|i| fill.wrapping_add(i as u8)).collect();
                let (front, back) = bytes.split_at(bytes.len() / 3);
                buffer.write(front.len(), back);
                buffer.write(0, front);
                claimed.push((buffer, bytes));
            }
            Step::Lend(which, lend) if !claimed.is_empty() => {
                let (buffer, bytes) = claimed.swap_remove(which.index(claimed.len()));
                if *lend {
                    model.lent.push_back((buffer.lend(), bytes));
                } else {
                    model.free.insert(buffer.index);
                    model.known.insert(buffer.index);
                }
            }
            Step::Take => {
                if let Some((index, bytes)) = model.lent.pop_front() {
                    let loan = bench.borrowed.take(index, bytes.len()).unwrap();
                    model.loans.push((loan, bytes));
                }
            }
            Step::Return(which) if !model.loans.is_empty() => {
                model.give_back(which.index(model.loans.len()));
            }
            Step::Again(which) if !model.loans.is_empty() => {
                let index = model.loans[which.index(model.loans.len())].0.index;
                assert_eq!(bench.borrowed.take(index, 0).err(), Some(SlabFault::Held { index }));
            }
            Step::Lend(..) | Step::Return(..) | Step::Again(..) | Step::Replace => {}
        }
        let known = (model.known.len() + claimed.len()) as u32;
        assert_eq!(bench.slab.lent(), bench.slab.count() - known);
    }
    // The buffers that are still claimed are dropped, and then known to be free.
    for (buffer, _) in claimed {
        model.free.insert(buffer.index);
        model.known.insert(buffer.index);
    }
}
