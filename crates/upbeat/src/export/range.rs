//! Expressions over arrays, which are evaluated where the array is.

use super::error::ReadError;
use super::imported::{Imported, not_read};
use super::memory::{Memory, attempts};
use super::path::{ArrayFields, Path};
use super::shared::{Access, NOWHERE, Place, Sealed, Shared};
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};
use upbeat_core::channel::export::{
    Compare, Consistency, Expression, Filter, Fold, Number, Operand, Scalar,
};
use upbeat_core::limits::EXPRESSION_ELEMENTS_MAX;
use upbeat_memory::region::WORD;

/// The most versions that a reader in memory compares. The owner evaluates an expression over more structs.
const UNITS_MAX: usize = 4096;

/// The user of a path that names a number of each element.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Element;

impl Sealed for Element {}

impl Access for Element {
    type Steps = ();
    type Borrowed<'a> = Element;

    #[inline(always)]
    fn borrow(&self) -> Element {
        Element
    }

    fn is_same(&self, _: &Element) -> bool {
        true
    }
}

/// A type whose values an expression compares: a number, `bool` or `char`.
pub trait Comparable: Shared {
    /// The type in a shape.
    #[doc(hidden)]
    const SCALAR: Scalar;
}

/// A type of numbers that an expression adds up and compares.
pub trait Numeric: Comparable {
    /// The type of a sum: `u64`, `i64` or `f64`.
    type Sum;

    #[doc(hidden)]
    fn of_number(number: Number) -> Option<Self>;

    #[doc(hidden)]
    fn sum_of(number: Number) -> Option<Self::Sum>;
}

macro_rules! numeric {
    ($($type:ty, $scalar:ident, $number:ident, $sum:ty;)*) => {$(
        impl Comparable for $type {
            const SCALAR: Scalar = Scalar::$scalar;
        }

        impl Numeric for $type {
            type Sum = $sum;

            fn of_number(number: Number) -> Option<$type> {
                match number {
                    Number::$number(number) => Some(number as $type),
                    _ => None,
                }
            }

            fn sum_of(number: Number) -> Option<$sum> {
                match number {
                    Number::$number(sum) => Some(sum),
                    _ => None,
                }
            }
        }
    )*};
}

numeric! {
    u8, U8, Unsigned, u64;
    u16, U16, Unsigned, u64;
    u32, U32, Unsigned, u64;
    u64, U64, Unsigned, u64;
    i8, I8, Signed, i64;
    i16, I16, Signed, i64;
    i32, I32, Signed, i64;
    i64, I64, Signed, i64;
    f32, F32, Float, f64;
    f64, F64, Float, f64;
}

impl Comparable for bool {
    const SCALAR: Scalar = Scalar::Bool;
}

impl Comparable for char {
    const SCALAR: Scalar = Scalar::Char;
}

/// A condition on an element, as [`Range::filter`] takes it.
pub struct Condition(Result<Filter, ReadError>);

impl<T: Comparable> Path<Element, T> {
    /// Returns the same path: the elements of an array of numbers are themselves the numbers.
    #[must_use]
    pub fn itself(&self) -> Path<Element, T> {
        self.borrowed()
    }

    /// The number is less than this one.
    pub fn less_than(&self, with: T) -> Condition {
        self.compared(Compare::Less, &with)
    }

    /// The number is less than this one, or equal.
    pub fn at_most(&self, with: T) -> Condition {
        self.compared(Compare::AtMost, &with)
    }

    /// The number is equal to this one.
    pub fn equal_to(&self, with: T) -> Condition {
        self.compared(Compare::Equal, &with)
    }

    /// The number is not equal to this one.
    pub fn not_equal_to(&self, with: T) -> Condition {
        self.compared(Compare::NotEqual, &with)
    }

    /// The number is more than this one, or equal.
    pub fn at_least(&self, with: T) -> Condition {
        self.compared(Compare::AtLeast, &with)
    }

    /// The number is more than this one.
    pub fn more_than(&self, with: T) -> Condition {
        self.compared(Compare::More, &with)
    }

    fn compared(&self, compare: Compare, with: &T) -> Condition {
        let with = Number::of(T::SCALAR, with.to_word());
        Condition(self.operand().map(|of| Filter { of, compare, with }))
    }

    /// Returns the number of each element that the path names.
    fn operand(&self) -> Result<Operand, ReadError> {
        let at = self.at()? * WORD + usize::from(self.place().shift.unwrap_or(0)) / 8;
        Ok(Operand { at: at as u32, scalar: T::SCALAR })
    }
}

/// A range of an array of another node's export, for expressions that are evaluated where the array is.
///
/// ```no_run
/// # #[derive(upbeat::Shared)]
/// # struct Quotes {
/// #     book: [Row; 1000],
/// # }
/// # #[derive(upbeat::Shared)]
/// # struct Row {
/// #     bid: f64,
/// #     size: u32,
/// # }
/// # async fn show(quotes: upbeat::Import<Quotes>) -> Result<(), upbeat::export::ReadError> {
/// let sum = quotes.book().range(0..100).sum(|row| row.size()).await?;
/// let best = quotes.book().range(..).filter(|row| row.size().more_than(0)).max(|row| row.bid()).await?;
/// println!("{sum} pieces, at {best:?} at best");
/// # Ok(()) }
/// ```
#[must_use = "an expression is evaluated by `sum`, `min`, `max` or `count`"]
pub struct Range<'i, T> {
    imported: &'i Imported,
    /// The first byte of the first element, from the beginning of the value.
    first: usize,
    /// The word of the first element, and the word with the version around it.
    words: (usize, usize),
    count: Result<u32, ReadError>,
    filter: Option<Condition>,
    elements: PhantomData<fn() -> T>,
}

impl<'i, T: Shared, const N: usize> ArrayFields<&'i Imported, T, N> {
    /// Returns a range of the elements, for [expressions](Range) over them.
    pub fn range(&self, range: impl RangeBounds<usize>) -> Range<'i, T> {
        let first = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => N,
        };
        let len = end.saturating_sub(first);
        let beyond = || ReadError::Index { index: if first > N { first } else { end - 1 } };
        let fits = len == 0 || (end <= N && first < N);
        // The place of the first element is that of any element, for a range without elements.
        let element = self.index(if len == 0 || !fits { 0 } else { first });
        let place = element.place();
        let imported = place.access();
        let count = match (element.at(), len) {
            (Err(error), 1..) if fits => Err(error),
            _ if !fits => Err(beyond()),
            _ if len > EXPRESSION_ELEMENTS_MAX => Err(ReadError::Elements),
            _ => Ok(len as u32),
        };
        let at = if place.at == NOWHERE { imported.location().value() } else { place.at };
        let first =
            (at - imported.location().value()) * WORD + usize::from(place.shift.unwrap_or(0)) / 8;
        let words = (at, place.version);
        Range { imported, first, words, count, filter: None, elements: PhantomData }
    }
}

impl<T: Shared> Range<'_, T> {
    /// Takes the elements alone for which a condition holds, such as `|row| row.size().more_than(0)`.
    pub fn filter(self, condition: impl FnOnce(&Path<Element, T>) -> Condition) -> Self {
        Range { filter: Some(condition(&element())), ..self }
    }

    /// Returns the number of elements.
    pub async fn count(self) -> Result<u64, ReadError> {
        // Any number does, since none is read.
        let of = self.filter.as_ref().and_then(|filter| Some(filter.0.as_ref().ok()?.of));
        let count = self.count.clone()?;
        let Some(of) = of else {
            return match self.filter {
                Some(Condition(Err(error))) => Err(error),
                _ => Ok(count.into()),
            };
        };
        match self.folded(Fold::Count, Ok(of)).await? {
            Some(Number::Unsigned(count)) => Ok(count),
            _ => Err(ReadError::Invalid),
        }
    }

    /// Returns the sum of a number of each element. That of floating-point numbers is added up in the order of the
    /// elements.
    pub async fn sum<U: Numeric>(
        self,
        of: impl FnOnce(&Path<Element, T>) -> Path<Element, U>,
    ) -> Result<U::Sum, ReadError> {
        let sum = self.folded(Fold::Sum, of(&element()).operand()).await?;
        sum.and_then(U::sum_of).ok_or(ReadError::Invalid)
    }

    /// Returns the least of a number of each element, or `None` if there are no numbers. A floating-point number that is
    /// none (NaN) is left out.
    pub async fn min<U: Numeric>(
        self,
        of: impl FnOnce(&Path<Element, T>) -> Path<Element, U>,
    ) -> Result<Option<U>, ReadError> {
        let least = self.folded(Fold::Min, of(&element()).operand()).await?;
        least.map(|number| U::of_number(number).ok_or(ReadError::Invalid)).transpose()
    }

    /// Returns the largest of a number of each element, as [`min`](Self::min) does the least.
    pub async fn max<U: Numeric>(
        self,
        of: impl FnOnce(&Path<Element, T>) -> Path<Element, U>,
    ) -> Result<Option<U>, ReadError> {
        let largest = self.folded(Fold::Max, of(&element()).operand()).await?;
        largest.map(|number| U::of_number(number).ok_or(ReadError::Invalid)).transpose()
    }

    async fn folded(
        self,
        fold: Fold,
        of: Result<Operand, ReadError>,
    ) -> Result<Option<Number>, ReadError> {
        let count = self.count.clone()?;
        let filter = match self.filter {
            Some(Condition(filter)) => Some(filter?),
            None => None,
        };
        let each = if T::PACKED == 0 { T::WORDS * WORD } else { T::PACKED };
        let (first, each) = (self.first as u32, each as u32);
        let expression = Expression { first, each, count, of: of?, filter, fold };
        let imported = self.imported;
        match in_memory::<T>(imported, self.words, &expression) {
            Err(ReadError::Busy) => {}
            found => return found,
        }
        imported.follow_move().await;
        imported.bets().call();
        let found = imported.evaluate(expression.encode()).await.map_err(not_read)?;
        Ok(found.map(|bits| expression.result(bits)))
    }
}

/// Returns the path to an element as such.
fn element<T: Shared>() -> Path<Element, T> {
    Path::new(Place::whole(Element, 0, 0))
}

/// Evaluates an expression in the owner's memory, if it is here. The first element begins at the first of `words`, and the
/// version around it is at the other.
fn in_memory<T: Shared>(
    imported: &Imported,
    words: (usize, usize),
    expression: &Expression,
) -> Result<Option<Number>, ReadError> {
    let bets = imported.bets();
    let here = imported.mapped()?;
    let (memory, location) = (&here.memory, &here.location);
    let from = imported.location();
    let place = Place::whole(Element, words.0, words.1).moved(from, location);
    let words = (place.at, place.version);
    let value = location.value();
    let evaluate =
        |memory: &Memory, offset| expression.evaluate(|at| memory.load(value + offset + at));
    let found = match location.consistency {
        Consistency::Raw => Some(evaluate(memory, 0)),
        Consistency::Guarded => memory.read_copy(
            location.version(),
            location.words,
            |offset| evaluate(memory, offset),
            bets,
        ),
        Consistency::Cell => {
            let (first, around) = words;
            if T::UNITS * expression.count as usize > UNITS_MAX {
                return Err(ReadError::Busy);
            }
            attempts(bets, || {
                let (mut units, mut is_busy) = (Vec::new(), false);
                let mut show = |at| {
                    let version = memory.load(at);
                    is_busy |= version % 2 == 1;
                    units.push((at, version));
                };
                show(around);
                if T::UNITS > 0 {
                    let elements = 0..expression.count as usize;
                    elements.for_each(|index| T::versions(first + index * T::WORDS, &mut show));
                }
                if is_busy {
                    return None;
                }
                upbeat_memory::unit::between(&memory.0, &units, || evaluate(memory, 0))
            })
        }
    };
    found.ok_or(ReadError::Busy)?.map_err(|_| ReadError::Overflow)
}
