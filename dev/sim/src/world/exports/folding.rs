//! Expressions over arrays of exports, as readers draw them.

use upbeat_core::channel::export::{Compare, Expression, Filter, Fold, Number, Operand, Scalar};

use super::form::{Form, Type, bits};
use crate::check::FoldOf;
use crate::random::Random;
use crate::value::{Path, Step};

/// The bytes of a word.
const WORD: usize = 8;

/// An expression, as the checker and as the owner's node know it.
#[derive(Clone, Debug)]
pub(super) struct Folding {
    pub(super) of: FoldOf,
    pub(super) expression: Expression,
    /// The versions that tell whether an element has changed.
    pub(super) versions: Vec<Option<usize>>,
}

impl Folding {
    /// Draws an expression, if the type has an array of numbers, or of values with numbers.
    pub(super) fn draw(of: &Type, random: &mut Random) -> Option<Folding> {
        let arrays = of.paths.iter().filter_map(|path| match of.form.place(path).form {
            Form::Array(_, len) => Some((path, *len as usize)),
            _ => None,
        });
        let arrays: Vec<_> = arrays.collect();
        if arrays.is_empty() {
            return None;
        }
        let (array, len) = random.pick(&arrays);
        let first = random.index(len);
        let count = random.index(len - first + 1);
        let element = [&array[..], &[Step::Index(first)]].concat();
        let numbers: Vec<_> =
            of.paths.iter().filter_map(|path| number(of, &element, path)).collect();
        if numbers.is_empty() {
            return None;
        }
        let operand = numbers[random.index(numbers.len())].clone();
        let filter = random.permille(500).then(|| {
            let compare = random.pick(&[
                Compare::Less,
                Compare::AtMost,
                Compare::Equal,
                Compare::NotEqual,
                Compare::AtLeast,
                Compare::More,
            ]);
            let (path, of) = numbers[random.index(numbers.len())].clone();
            (path, of, compare, Form::Scalar(of.scalar).invent(random))
        });
        let fold = random.pick(&[Fold::Count, Fold::Sum, Fold::Sum, Fold::Min, Fold::Max]);
        let place = of.form.place(&element);
        let mut versions = vec![place.version];
        for index in first..first + count {
            let element = [&array[..], &[Step::Index(index)]].concat();
            versions.extend(of.form.place(&element).versions());
        }
        let expression = Expression {
            first: byte(of, &element) as u32,
            each: element_bytes(of, &element) as u32,
            count: count as u32,
            of: operand.1,
            filter: filter.as_ref().map(|(_, of, compare, with)| Filter {
                of: *of,
                compare: *compare,
                with: Number::of(of.scalar, bits(with)),
            }),
            fold,
        };
        let filter = filter.map(|(path, _, compare, with)| (path, compare, with));
        let of = FoldOf { array: array.clone(), first, count, of: operand.0, filter, fold };
        Some(Folding { of, expression, versions })
    }

    /// Returns whether an expression is one over a type: over elements of one array, by numbers that each of them has.
    pub(super) fn is_of(of: &Type, expression: &Expression) -> bool {
        let is_number = |element: &[Step], operand: Operand| {
            let mut numbers = of.paths.iter().filter_map(|path| number(of, element, path));
            numbers.any(|(_, number)| number == operand)
        };
        let begins = |path: &Path| {
            let Form::Array(_, len) = of.form.place(path).form else { return false };
            (0..*len as usize).any(|index| {
                let element = [&path[..], &[Step::Index(index)]].concat();
                byte(of, &element) == expression.first as usize
                    && element_bytes(of, &element) == expression.each as usize
                    && expression.count as usize <= *len as usize - index
                    && is_number(&element, expression.of)
                    && expression.filter.is_none_or(|filter| is_number(&element, filter.of))
            })
        };
        // An expression over no elements reads nothing.
        expression.count == 0 || of.paths.iter().any(begins)
    }
}

/// Returns the bytes from an element to the next.
fn element_bytes(of: &Type, element: &[Step]) -> usize {
    match of.form.place(element).form {
        Form::Scalar(scalar) => scalar.bytes(),
        form => form.words() * WORD,
    }
}

/// Returns the byte at which a part begins.
fn byte(of: &Type, path: &[Step]) -> usize {
    let place = of.form.place(path);
    place.at * WORD + place.shift.unwrap_or(0) as usize / 8
}

/// Returns a number of an element, if the path leads to one.
fn number(of: &Type, element: &[Step], path: &Path) -> Option<(Path, Operand)> {
    let inner = path.strip_prefix(element)?;
    let Form::Scalar(scalar) = *of.form.place(path).form else { return None };
    let scalar: Scalar = scalar;
    let at = (byte(of, path) - byte(of, element)) as u32;
    Some((inner.to_vec(), Operand { at, scalar }))
}
