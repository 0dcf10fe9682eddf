//! Expressions over exports, evaluated over values without a layout.

use upbeat_core::channel::export::{Compare, Fold, Number, Overflow};

use crate::value::{Path, Step, Tree};

/// An expression over the elements of an array.
#[derive(Clone, Debug)]
pub(crate) struct FoldOf {
    pub(crate) array: Path,
    pub(crate) first: usize,
    pub(crate) count: usize,
    /// The path to the number of an element.
    pub(crate) of: Path,
    pub(crate) filter: Option<(Path, Compare, Tree)>,
    pub(crate) fold: Fold,
}

/// A number of any type.
#[derive(Clone, Copy, Debug)]
enum Any {
    Whole(i128),
    Float(f64),
}

/// Returns the number that a value is.
fn number(tree: &Tree) -> Option<Any> {
    Some(match tree {
        Tree::Unsigned(number) => Any::Whole((*number).into()),
        Tree::Signed(number) => Any::Whole((*number).into()),
        Tree::Bool(value) => Any::Whole((*value).into()),
        Tree::Char(one) => Any::Whole(u32::from(*one).into()),
        Tree::F32(number) => Any::Float((*number).into()),
        Tree::F64(number) => Any::Float(*number),
        Tree::Text(_) | Tree::Array(_) | Tree::Struct(..) => return None,
        Tree::Option(_) | Tree::Map(_) | Tree::Ref(_) => return None,
    })
}

impl Any {
    /// Returns whether a comparison holds.
    fn compares(self, compare: Compare, with: Any) -> bool {
        let order = match (self, with) {
            (Any::Whole(one), Any::Whole(with)) => Some(one.cmp(&with)),
            (Any::Float(one), Any::Float(with)) => one.partial_cmp(&with),
            _ => None,
        };
        match compare {
            Compare::Less => order.is_some_and(|order| order.is_lt()),
            Compare::AtMost => order.is_some_and(|order| order.is_le()),
            Compare::Equal => order.is_some_and(|order| order.is_eq()),
            Compare::NotEqual => order.is_none_or(|order| order.is_ne()),
            Compare::AtLeast => order.is_some_and(|order| order.is_ge()),
            Compare::More => order.is_some_and(|order| order.is_gt()),
        }
    }

    /// Returns whether this number is the result.
    fn is(self, found: Number) -> bool {
        match (self, found) {
            (Any::Whole(one), Number::Unsigned(found)) => one == found.into(),
            (Any::Whole(one), Number::Signed(found)) => one == found.into(),
            (Any::Float(one), Number::Float(found)) => {
                one == found || (one.is_nan() && found.is_nan())
            }
            _ => false,
        }
    }
}

impl FoldOf {
    /// Returns the paths to the elements.
    pub(crate) fn elements(&self) -> Vec<Path> {
        let range = self.first..self.first + self.count;
        range.map(|index| [&self.array[..], &[Step::Index(index)]].concat()).collect()
    }

    /// Returns whether a value has this result.
    pub(crate) fn is_result(&self, tree: &Tree, result: Result<Option<Number>, Overflow>) -> bool {
        let Some(Tree::Array(items)) = tree.at(&self.array) else { return false };
        let mut numbers = Vec::new();
        for item in &items[self.first..self.first + self.count] {
            let Some(next) = item.at(&self.of).and_then(number) else { return false };
            let counts = self.filter.as_ref().is_none_or(|(path, compare, with)| {
                let pair = item.at(path).and_then(number).zip(number(with));
                pair.is_some_and(|(one, with)| one.compares(*compare, with))
            });
            numbers.extend(counts.then_some(next));
        }
        match (self.fold, result) {
            (Fold::Count, Ok(Some(found))) => Any::Whole(numbers.len() as i128).is(found),
            (Fold::Sum, Err(Overflow::Sum)) => self.overflows(tree, &numbers),
            (Fold::Sum, Ok(Some(found))) => {
                let is_sum = sum(&numbers).map_or(found.bits() == 0, |sum| sum.is(found));
                is_sum && !self.overflows(tree, &numbers)
            }
            (Fold::Min | Fold::Max, Ok(found)) => match (self.extreme(&numbers), found) {
                (None, None) => true,
                (Some(one), Some(found)) => one.is(found),
                _ => false,
            },
            _ => false,
        }
    }

    /// Returns the least or the largest number, if there is one: a NaN is none.
    fn extreme(&self, numbers: &[Any]) -> Option<Any> {
        let is_min = self.fold == Fold::Min;
        let is_number = |one: &Any| !matches!(one, Any::Float(one) if one.is_nan());
        numbers.iter().copied().filter(is_number).reduce(|one, next| match (one, next) {
            (Any::Whole(one), Any::Whole(next)) => {
                Any::Whole(if is_min { one.min(next) } else { one.max(next) })
            }
            (Any::Float(one), Any::Float(next)) => {
                Any::Float(if is_min { one.min(next) } else { one.max(next) })
            }
            (one, _) => one,
        })
    }

    /// Returns whether a sum of the first numbers has more than 64 bits.
    fn overflows(&self, tree: &Tree, numbers: &[Any]) -> bool {
        let element =
            tree.at(&[&self.array[..], &[Step::Index(self.first)], &self.of[..]].concat());
        let is_signed = matches!(element, Some(Tree::Signed(_)));
        let mut sum = 0_i128;
        numbers.iter().any(|number| {
            let Any::Whole(number) = number else { return false };
            sum += number;
            if is_signed { i64::try_from(sum).is_err() } else { u64::try_from(sum).is_err() }
        })
    }
}

/// Returns the sum of numbers, if there are any.
fn sum(numbers: &[Any]) -> Option<Any> {
    numbers.iter().copied().reduce(|one, next| match (one, next) {
        (Any::Whole(one), Any::Whole(next)) => Any::Whole(one + next),
        (Any::Float(one), Any::Float(next)) => Any::Float(one + next),
        (one, _) => one,
    })
}
