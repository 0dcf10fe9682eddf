//! Stores that others see late.
//!
//! A processor keeps a thread's stores for a while before others see them, and stores to different lines may pass each
//! other there. Invariants: a store with release ordering is seen behind all earlier ones of its thread, and those behind a
//! releasing fence are seen behind those before it; stores to one line keep their order; a thread that reads where it has
//! stored sees its last value, if it reads through the same mapping; no store is left when its memory is freed, its thread
//! waits, gives back a mutex of the runtime or sends a packet, or its process ends. Loads never come early.

use crate::world::current;
use std::cell::{Cell, RefCell};
use std::mem::take;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The binary logarithm of the most stores of a thread that others do not see yet.
const STORES_MAX_LOG: u64 = 5;

/// The length of a cache line. No store is longer.
pub const LINE: usize = 64;

/// A store that others do not see yet.
#[derive(Debug)]
pub struct LateStore {
    /// The address of the first byte.
    pub at: usize,
    /// Its bytes, all of which lie in one line.
    pub bytes: Vec<u8>,
    /// Whether it follows all earlier stores.
    pub is_release: bool,
    /// Does what others see.
    pub perform: fn(usize, &[u8]),
}

/// The stores of a thread that others do not see yet, in their order, each with the number of the fences before it.
#[derive(Debug)]
struct Buffer {
    process: u32,
    stores: Mutex<Vec<(u32, LateStore)>>,
}

/// The buffers of all threads that have stored late.
static BUFFERS: Mutex<Vec<Weak<Buffer>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: RefCell<Option<Arc<Buffer>>> = const { RefCell::new(None) };
    /// The most stores that are late.
    static MOST: Cell<u64> = const { Cell::new(0) };
    static FENCES: Cell<u32> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(1) };
}

/// Has the stores of the thread come late from now on, as a random number says. After an even one they do not.
pub(super) fn be_late(random: u64) {
    let most = if random.is_multiple_of(2) { 0 } else { 1 << (random / 2 % (STORES_MAX_LOG + 1)) };
    MOST.set(most);
    RANDOM.set(random | 1);
    if most == 0 {
        settle();
    }
}

/// Returns whether the stores of the thread are late.
#[must_use]
pub fn is_late() -> bool {
    MOST.get() > 0 && !std::thread::panicking()
}

/// Has others see a store some time later.
pub fn store(store: LateStore) {
    let buffer = OWN.with_borrow_mut(|own| Arc::clone(own.get_or_insert_with(Buffer::new)));
    let mut stores = buffer.stores();
    stores.push((FENCES.get(), store));
    while stores.len() as u64 > MOST.get() {
        let next = next(&stores);
        perform(&stores.remove(next).1);
    }
}

/// Has the later stores of the thread follow the earlier ones.
pub fn fence_release() {
    FENCES.set(FENCES.get().wrapping_add(1));
}

/// Has others see all that the thread has stored.
pub fn settle() {
    own().iter().for_each(|own| own.settle());
}

/// Has others see all that the thread has stored, if some of that is among the bytes which the thread reads now.
pub fn settle_read(at: usize, bytes: usize) {
    own().iter().filter(|own| own.has_stored(&(at..at + bytes))).for_each(|own| own.settle());
}

/// Has others see all that those threads have stored which have stored into memory that is about to be freed.
pub fn settle_memory(freed: Range<usize>) {
    let all = buffers();
    all.iter().filter(|of| of.has_stored(&freed)).for_each(|of| of.settle());
}

/// Has others see all that the threads of a process have stored.
pub fn settle_process(process: u32) {
    let all = buffers();
    all.iter().filter(|of| of.process == process).for_each(|of| of.settle());
}

/// Returns the buffer of the thread, if it has stored late. One that ends may have dropped it, and has settled before.
fn own() -> Option<Arc<Buffer>> {
    OWN.try_with(|own| own.borrow().clone()).ok().flatten()
}

/// Returns the buffers of all threads.
fn buffers() -> Vec<Arc<Buffer>> {
    let mut all = BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|buffer| buffer.strong_count() > 0);
    all.iter().filter_map(Weak::upgrade).collect()
}

impl Buffer {
    fn new() -> Arc<Buffer> {
        let process = current().map_or(0, |world| world.number());
        let buffer = Arc::new(Buffer { process, stores: Mutex::default() });
        BUFFERS.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(&buffer));
        buffer
    }

    fn stores(&self) -> MutexGuard<'_, Vec<(u32, LateStore)>> {
        self.stores.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn settle(&self) {
        take(&mut *self.stores()).iter().for_each(|(_, store)| perform(store));
    }

    fn has_stored(&self, range: &Range<usize>) -> bool {
        let is_inside =
            |store: &LateStore| store.at < range.end && range.start < store.at + store.bytes.len();
        self.stores().iter().any(|(_, store)| is_inside(store))
    }
}

fn perform(store: &LateStore) {
    (store.perform)(store.at, &store.bytes);
}

/// Chooses the store that others see next: the first, or one that may pass all before it.
fn next(stores: &[(u32, LateStore)]) -> usize {
    let line = |store: &LateStore| store.at / LINE;
    let may_pass = |&at: &usize| {
        let (fences, store) = &stores[at];
        let earlier = &stores[..at];
        !store.is_release
            && earlier.iter().all(|(before, of)| before == fences && line(of) != line(store))
    };
    let free: Vec<usize> = (1..stores.len()).filter(may_pass).collect();
    let random = RANDOM.get();
    RANDOM.set(random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let chosen = (random >> 33) as usize % (free.len() + 1);
    chosen.checked_sub(1).map_or(0, |chosen| free[chosen])
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static SEEN: RefCell<Vec<(usize, u8)>> = const { RefCell::new(Vec::new()) };
    }

    fn stored(at: usize, value: u8, is_release: bool) {
        let perform =
            |at: usize, bytes: &[u8]| SEEN.with_borrow_mut(|seen| seen.push((at, bytes[0])));
        store(LateStore { at, bytes: vec![value], is_release, perform });
    }

    /// Four lines are stored twice, then a line behind them with release ordering, and one behind a fence.
    fn seen_after(random: u64) -> Vec<(usize, u8)> {
        be_late(random);
        (0..8).for_each(|value| stored(usize::from(value) % 4 * LINE, value, false));
        stored(8 * LINE, 8, true);
        fence_release();
        stored(9 * LINE, 9, false);
        (10..60).for_each(|value| stored(usize::from(value) * LINE, value, false));
        settle();
        SEEN.take()
    }

    #[test]
    fn stores_pass_each_other_but_not_those_that_they_follow() {
        let (mut has_passed, mut is_reached) = (false, false);
        for random in (1..64_u64).map(|number| number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1) {
            let seen = seen_after(random);
            assert_eq!(seen.len(), 60);
            let when = |value: u8| seen.iter().position(|(_, seen)| *seen == value).unwrap();
            (0..4).for_each(|value| assert!(when(value) < when(value + 4)));
            (0..8).for_each(|value| assert!(when(value) < when(8) && when(value) < when(9)));
            assert!(when(8) < when(9));
            has_passed |= when(1) < when(0);
            is_reached |= when(11) < when(10);
            assert_eq!(seen, seen_after(random));
        }
        assert!(has_passed && is_reached && is_late());
        be_late(2);
        assert!(!is_late());
    }

    #[test]
    fn a_read_of_its_own_store_and_the_end_of_memory_settle() {
        // The other test stores at lower addresses.
        const AT: usize = 1 << 20;
        be_late(63);
        stored(AT + 4, 1, false);
        settle_read(AT + 5, 8);
        assert!(SEEN.take().is_empty());
        settle_read(AT, 8);
        assert_eq!(SEEN.take(), [(AT + 4, 1)]);
        stored(AT + 4, 2, false);
        settle_memory(AT + 5..AT + 100);
        assert!(SEEN.take().is_empty());
        settle_memory(AT..AT + 5);
        assert_eq!(SEEN.take(), [(AT + 4, 2)]);
    }
}
