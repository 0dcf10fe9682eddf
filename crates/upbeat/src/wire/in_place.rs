//! Plain data that is read where its sender wrote it.

#[cfg(feature = "bytes")]
mod buf;
mod reader;

#[cfg(feature = "bytes")]
pub use buf::InPlaceBuf;
pub use reader::InPlaceReader;

use super::{Describe, Input, Output, Plain, Wire, WireError, checked_count, reserve, reserved};
use std::cell::RefCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::replace;
use std::sync::Arc;
use upbeat_memory::fork::Process;
use upbeat_memory::slab::Loan;
use zerocopy::IntoBytes;

/// A payload in a buffer of its sender. The buffer is returned when its last reader drops it.
pub(crate) struct Hold(RefCell<State>);

enum State {
    Own(Loan),
    Shared(Arc<Lease>),
    /// The buffer was returned unread. Its payload had so many bytes.
    Unread(usize, Unread),
    Moving,
}

/// The reason why a payload is not read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unread {
    /// The payload is longer than this.
    TooLarge(usize),
    /// There is no memory for the payload.
    NoMemory,
}

impl Unread {
    /// Returns the error for a payload of so many bytes.
    #[cold]
    pub(super) fn error(self, bytes: usize) -> WireError {
        match self {
            Unread::TooLarge(most) => WireError::TooLarge { bytes, most },
            Unread::NoMemory => WireError::NoMemory { bytes },
        }
    }
}

/// A buffer that is read for longer than its message is handled. A sender that waits for the buffer is woken when
/// it is returned, because that may happen on any thread, at any time.
pub(super) struct Lease {
    loan: Option<Loan>,
    /// The process that reads the buffer.
    made: Process,
}

impl Lease {
    fn loan(&self) -> &Loan {
        assert!(
            self.made.is_this(),
            "a value that lies in a peer's memory was read in a forked child, which has no mapping of that \
             memory: copy the value before the fork"
        );
        self.loan.as_ref().expect("a lease ends with its loan")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let loan = self.loan.take();
        if !self.made.is_this() {
            // The buffer is lent to the parent of this forked child, which has no mapping of it.
            std::mem::forget(loan);
            return;
        }
        loan.into_iter().for_each(Loan::give_back);
    }
}

impl Hold {
    pub(crate) fn new(loan: Loan) -> Hold {
        Hold(RefCell::new(State::Own(loan)))
    }

    /// Returns a buffer whose payload is not read.
    #[cold]
    pub(crate) fn unread(loan: Loan, why: Unread) -> Hold {
        Hold(RefCell::new(State::Unread(loan.len(), why)))
    }

    /// Passes the buffer to `act`.
    #[inline]
    pub(crate) fn with<R>(&self, with: impl FnOnce(&Loan) -> R) -> Result<R, WireError> {
        match &*self.0.borrow() {
            State::Own(loan) => Ok(with(loan)),
            State::Shared(lease) => Ok(with(lease.loan())),
            State::Unread(bytes, why) => Err(why.error(*bytes)),
            State::Moving => unreachable!("a hold moves within a function of its own"),
        }
    }

    /// Returns the bytes of the payload.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &*self.0.borrow() {
            State::Unread(bytes, _) => *bytes,
            State::Own(loan) => loan.len(),
            State::Shared(lease) => lease.loan().len(),
            State::Moving => unreachable!("a hold moves within a function of its own"),
        }
    }

    /// Keeps the buffer for longer than its message is handled, if fewer than the most are kept.
    pub(crate) fn keep(&self) -> bool {
        match &mut *self.0.borrow_mut() {
            State::Own(loan) => loan.keep(),
            State::Shared(_) | State::Unread(..) => true,
            State::Moving => unreachable!("a hold moves within a function of its own"),
        }
    }

    /// Lets a reader keep the buffer for longer than the message is handled, if fewer than the most are
    /// kept: the buffers that later messages need stay free.
    pub(super) fn share(&self) -> Option<Arc<Lease>> {
        let mut state = self.0.borrow_mut();
        let shared = match replace(&mut *state, State::Moving) {
            State::Own(mut loan) => {
                if !loan.keep() {
                    *state = State::Own(loan);
                    return None;
                }
                Arc::new(Lease { loan: Some(loan), made: Process::this() })
            }
            State::Shared(lease) => lease,
            unread @ State::Unread(..) => {
                *state = unread;
                return None;
            }
            State::Moving => unreachable!("a hold moves within a function of its own"),
        };
        *state = State::Shared(Arc::clone(&shared));
        Some(shared)
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hold({} bytes)", self.len())
    }
}

/// A sequence of plain data that its receiver reads in place, where its sender wrote it.
///
/// As an argument or a result it has the form of a `Vec<T>` in a message, and is not copied out of the
/// message: the receiver owns the sender's buffer until it drops this, even after its handler has
/// become a task, and on another thread too. A sequence that is longer than a slot of a lane lies in
/// such a buffer; shorter ones are copied, because their slots are needed.
///
/// The sender needs buffers for its next messages, so at most half of the buffers of a size are kept like this,
/// and of those beyond 64 KiB only such that lie in two slabs. Beyond that, a sequence is copied, and its
/// buffer is returned at once: [`InPlace::is_lent`] tells which case it is.
///
/// The sender of a message is not trusted: it may change the bytes while they are read.
/// So there are no references to them, and each method loads them anew.
///
/// ```
/// use upbeat::InPlace;
///
/// let samples = InPlace::from(vec![1_u32, 2, 3]);
/// assert_eq!((samples.len(), samples.get(2), samples.get(3)), (3, Some(3), None));
/// assert_eq!(samples.iter().sum::<u32>(), 6);
/// assert_eq!(samples.to_vec(), [1, 2, 3]);
/// ```
pub struct InPlace<T> {
    from: From<T>,
    count: usize,
}

enum From<T> {
    Own(Box<[T]>),
    /// A buffer, and the byte at which the items begin.
    Lent(Arc<Lease>, usize, PhantomData<T>),
}

/// The bytes that are copied at a time while items are read: they stay in the nearest cache.
const PIECE_BYTES: usize = 4096;

impl<T: Plain + Default> InPlace<T> {
    /// Returns the number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns item `index`.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<T> {
        let mut item = T::default();
        (index < self.count).then(|| {
            self.copy_to(index, std::slice::from_mut(&mut item));
            item
        })
    }

    /// Copies items to `to`, beginning at item `first`.
    ///
    /// # Panics
    /// When there are fewer items than `to` holds.
    ///
    /// ```
    /// let items = upbeat::InPlace::from(vec![1_u32, 2, 3]);
    /// let mut last = [0; 2];
    /// items.copy_to(1, &mut last);
    /// assert_eq!(last, [2, 3]);
    /// ```
    pub fn copy_to(&self, first: usize, to: &mut [T]) {
        assert!(
            first <= self.count && to.len() <= self.count - first,
            "items {first}..+{} of {}",
            to.len(),
            self.count
        );
        match &self.from {
            From::Own(items) => to.copy_from_slice(&items[first..first + to.len()]),
            From::Lent(lease, start, _) => {
                read(lease.loan(), start + first * size_of::<T>(), to);
            }
        }
    }

    /// Copies as many items as there are and fit into `to`, from item `first` on, and returns their number.
    ///
    /// ```
    /// let text = upbeat::InPlace::from(b"GET / HTTP/1.1".to_vec());
    /// let mut version = [0; 64];
    /// let bytes = text.read_into(6, &mut version);
    /// assert_eq!(&version[..bytes], b"HTTP/1.1");
    /// ```
    pub fn read_into(&self, first: usize, to: &mut [T]) -> usize {
        let items = to.len().min(self.count.saturating_sub(first));
        if items > 0 {
            self.copy_to(first, &mut to[..items]);
        }
        items
    }

    /// Copies all items into a vector that the caller keeps, in place of its items, and returns them as a slice: for
    /// parsers of `&[u8]`. The sender cannot change the copy any more.
    ///
    /// # Errors
    /// [`WireError::NoMemory`] when there is no memory for the copy.
    ///
    /// ```
    /// let message = upbeat::InPlace::from(b"user=ada".to_vec());
    /// let mut kept = Vec::new();
    /// let text = std::str::from_utf8(message.copy_into(&mut kept)?)?;
    /// assert_eq!(text.split_once('='), Some(("user", "ada")));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn copy_into<'k>(&self, kept: &'k mut Vec<T>) -> Result<&'k [T], WireError> {
        kept.clear();
        reserve(kept, self.count)?;
        kept.resize(self.count, T::default());
        self.copy_to(0, kept);
        Ok(kept)
    }

    /// Returns a copy of all items.
    ///
    /// # Panics
    /// When there is no memory for the copy. In a handler, the panic ends only its call.
    #[must_use]
    pub fn to_vec(&self) -> Vec<T> {
        let copy = match &self.from {
            From::Lent(lease, start, _) if start.is_multiple_of(8) => {
                lease.loan().read_items(*start, self.count)
            }
            From::Own(_) | From::Lent(..) => reserved(self.count).ok().map(|mut items| {
                items.resize(self.count, T::default());
                self.copy_to(0, &mut items);
                items
            }),
        };
        copy.unwrap_or_else(|| panic!("there is no memory for a copy of {} items", self.count))
    }

    /// Passes all items to `take`, in pieces that are copied to the nearest cache: the fastest way to
    /// read all of them.
    ///
    /// ```
    /// let samples = upbeat::InPlace::from(vec![1.0_f64; 10_000]);
    /// let mut sum = 0.0;
    /// samples.for_each_piece(|piece| sum += piece.iter().sum::<f64>());
    /// assert_eq!(sum, 10_000.0);
    /// ```
    pub fn for_each_piece(&self, mut take: impl FnMut(&[T])) {
        if let From::Own(items) = &self.from {
            return take(items);
        }
        let most = (PIECE_BYTES / size_of::<T>().max(1)).max(1);
        let mut piece = vec![T::default(); most.min(self.count)];
        let mut first = 0;
        while first < self.count {
            let next = most.min(self.count - first);
            self.copy_to(first, &mut piece[..next]);
            take(&piece[..next]);
            first += next;
        }
    }

    /// Returns an iterator over the items.
    pub fn iter(&self) -> impl Iterator<Item = T> + '_ {
        let most = (PIECE_BYTES / size_of::<T>().max(1)).max(1);
        let mut piece = Vec::new();
        let (mut first, mut at) = (0, 0);
        std::iter::from_fn(move || {
            if at == piece.len() {
                first += at;
                at = 0;
                piece.resize(most.min(self.count - first), T::default());
                self.copy_to(first, &mut piece);
            }
            at += 1;
            piece.get(at - 1).copied()
        })
    }

    /// Returns whether the items lie in their sender's memory.
    #[must_use]
    pub fn is_lent(&self) -> bool {
        matches!(self.from, From::Lent(..))
    }
}

/// Copies items out of a buffer, beginning at any byte.
fn read<T: Plain>(loan: &Loan, at: usize, to: &mut [T]) {
    const WORD: usize = 8;
    let skip = at % WORD;
    let bytes = to.as_mut_bytes();
    if skip == 0 {
        return loan.read(at, bytes);
    }
    // Loads begin at whole words, so the bytes before the first whole word are copied separately.
    let mut word = [0; WORD];
    let head = (WORD - skip).min(bytes.len());
    let have = (loan.len() - (at - skip)).min(WORD);
    loan.read(at - skip, &mut word[..have]);
    let (first, rest) = bytes.split_at_mut(head);
    first.copy_from_slice(&word[skip..skip + head]);
    if !rest.is_empty() {
        loan.read(at + head, rest);
    }
}

impl<T> std::convert::From<Vec<T>> for InPlace<T> {
    fn from(items: Vec<T>) -> InPlace<T> {
        InPlace { count: items.len(), from: From::Own(items.into_boxed_slice()) }
    }
}

impl<T: Plain + Default + fmt::Debug> fmt::Debug for InPlace<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<T: Plain + Default> Wire for InPlace<T> {
    const IN_PLACE: bool = true;
    const BYTES_LIKELY: usize = 8;

    #[inline]
    fn bytes_likely(&self) -> usize {
        8 + self.count * size_of::<T>()
    }

    fn describe(out: &mut Describe) {
        out.text("Vec<");
        out.of::<T>();
        out.text(">");
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        (self.count as u64).put(out)?;
        match &self.from {
            From::Own(items) => T::put_all(items, out),
            From::Lent(..) => {
                out.align();
                self.for_each_piece(|piece| out.bytes(piece.as_bytes()));
                Ok(())
            }
        }
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let count = match size_of::<T>() {
            // Elements without bytes have a limit of their own.
            0 => checked_count(input)?,
            each => input.count(each)?,
        };
        match input.lend(count * size_of::<T>())? {
            Some((lease, at)) => Ok(InPlace { from: From::Lent(lease, at, PhantomData), count }),
            None => Ok(InPlace::from(input.items(count)?)),
        }
    }
}
