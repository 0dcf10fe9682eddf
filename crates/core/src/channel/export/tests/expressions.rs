//! Expressions over arrays of exported values.

use super::shapes;
use crate::channel::export::{
    Compare, Expression, Filter, Fold, Number, Operand, Overflow, Scalar, Shape,
};
use crate::limits::EXPRESSION_ELEMENTS_MAX;
use proptest::prelude::*;
use std::format;
use std::vec::Vec;

const TYPE: &str = "A { n: u64, book: [Row { bid: f64, size: u32 }; 10], bytes: [i8; 20] }";

fn over(first: u32, each: u32, count: u32, at: u32, scalar: Scalar) -> Expression {
    let of = Operand { at, scalar };
    Expression { first, each, count, of, filter: None, fold: Fold::Sum }
}

/// The sizes of the rows of a value of [`TYPE`].
fn sizes(first: u32, count: u32) -> Expression {
    over(16 + 24 * first, 24, count, 16, Scalar::U32)
}

#[test]
fn an_expression_has_elements_and_numbers_of_its_value() {
    let shape: Shape = TYPE.parse().unwrap();
    let bytes = 16 + 240 + 8;
    for right in [
        sizes(0, 10),
        sizes(3, 7),
        sizes(10, 0),
        over(16, 24, 10, 8, Scalar::F64),
        over(bytes, 1, 20, 0, Scalar::I8),
        over(bytes + 19, 1, 1, 0, Scalar::I8),
    ] {
        assert_eq!(right.check(&shape), Ok(()), "{right:?}");
    }
    for wrong in [
        sizes(0, 11),
        sizes(4, 7),
        sizes(11, 0),
        over(16, 24, 10, 0, Scalar::U64),
        over(16, 24, 10, 8, Scalar::U64),
        over(16, 24, 10, 20, Scalar::U32),
        over(16, 24, 10, 24, Scalar::U32),
        over(17, 24, 1, 16, Scalar::U32),
        over(16, 48, 5, 16, Scalar::U32),
        over(16, 0, 5, 16, Scalar::U32),
        over(0, 8, 1, 0, Scalar::U64),
        over(8, 8, 1, 0, Scalar::U64),
        over(bytes - 8, 1, 8, 0, Scalar::I8),
        over(bytes, 1, 21, 0, Scalar::I8),
        over(bytes + 20, 1, 1, 0, Scalar::I8),
        over(u32::MAX, 24, 1, 16, Scalar::U32),
        Expression {
            filter: Some(filter(Scalar::F64, Compare::Less, Number::Signed(1))),
            ..sizes(0, 10)
        },
        Expression {
            filter: Some(filter(Scalar::I64, Compare::Less, Number::Signed(1))),
            ..sizes(0, 10)
        },
    ] {
        assert!(wrong.check(&shape).is_err(), "{wrong:?}");
    }
    let long: Shape =
        "[u8; 4000000000]".parse().unwrap_or(Shape::Packed { of: Scalar::U8, len: 4_000_000_000 });
    let most = EXPRESSION_ELEMENTS_MAX as u32;
    assert_eq!(over(8, 1, most, 0, Scalar::U8).check(&long), Ok(()));
    assert!(over(8, 1, most + 1, 0, Scalar::U8).check(&long).is_err());
}

fn filter(scalar: Scalar, compare: Compare, with: Number) -> Filter {
    Filter { of: Operand { at: 8, scalar }, compare, with }
}

#[test]
fn numbers_are_folded_and_filtered() {
    let numbers = [5_u64, 2, 9, 2];
    let of = |fold, compare: Option<(Compare, u64)>| {
        let of = Operand { at: 0, scalar: Scalar::U64 };
        let filter =
            compare.map(|(compare, with)| Filter { of, compare, with: Number::Unsigned(with) });
        let all = Expression { first: 0, each: 8, count: 4, of, filter, fold };
        all.evaluate(|at| numbers[at]).unwrap()
    };
    let number = |number| Some(Number::Unsigned(number));
    assert_eq!(of(Fold::Count, None), number(4));
    assert_eq!(of(Fold::Sum, None), number(18));
    assert_eq!((of(Fold::Min, None), of(Fold::Max, None)), (number(2), number(9)));
    let sums = [
        (Compare::Less, 4),
        (Compare::AtMost, 9),
        (Compare::Equal, 5),
        (Compare::NotEqual, 13),
        (Compare::AtLeast, 14),
        (Compare::More, 9),
    ];
    for (compare, sum) in sums {
        assert_eq!(of(Fold::Sum, Some((compare, 5))), number(sum), "{compare:?}");
    }
    assert_eq!(of(Fold::Sum, Some((Compare::More, 100))), number(0));
    assert_eq!(of(Fold::Max, Some((Compare::More, 100))), None, "there is no number");
    let large = over(0, 8, 2, 0, Scalar::I64);
    assert_eq!(large.evaluate(|_| i64::MAX as u64), Err(Overflow::Sum));
    let nan = Expression { fold: Fold::Min, ..over(0, 8, 2, 0, Scalar::F64) };
    let found = nan.evaluate(|at| [f64::NAN.to_bits(), 2_f64.to_bits()][at]);
    assert_eq!(found, Ok(Some(Number::Float(2.0))), "a number that is none is left out");
    for fold in [Fold::Min, Fold::Max] {
        let found = Expression { fold, ..nan }.evaluate(|_| f64::NAN.to_bits());
        assert_eq!(found, Ok(None), "there is no number");
    }
}

proptest! {
    #[test]
    fn any_words_are_an_expression_or_refused(words in proptest::array::uniform5(any::<u64>())) {
        if let Ok(expression) = Expression::decode(words) {
            // The comparison of two that contain a NaN would fail.
            let again = expression.encode();
            prop_assert_eq!(Expression::decode(again).unwrap().encode(), again);
        }
    }

    /// An expression of a hostile reader is refused, or reads words of the value alone.
    #[test]
    fn any_expression_reads_its_value_or_is_refused(
        shape in shapes(),
        first in 0_u32..200,
        each in 0_u32..60,
        count in 0_u32..8,
        operands in proptest::array::uniform2((0_u32..60, proptest::sample::select(&Scalar::ALL[..]))),
    ) {
        let [of, with] = operands.map(|(at, scalar)| Operand { at, scalar });
        let filter = Filter { of: with, compare: Compare::Less, with: Number::of(with.scalar, 1) };
        let expression = Expression { first, each, count, of, filter: Some(filter), fold: Fold::Sum };
        prop_assert_eq!(Expression::decode(expression.encode()), Ok(expression));
        if expression.check(&shape).is_ok() {
            let words = shape.words();
            let mut read = Vec::new();
            let _ = expression.evaluate(|at| { read.push(at); 0 });
            prop_assert!(read.iter().all(|at| *at < words), "{expression:?} of {}", format!("{shape}"));
        }
    }
}
