//! Values of any type that travels, behind few types for the compiler, which would need minutes for the code of a method
//! for each type.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use upbeat::Wire;
use upbeat::wire::{Describe, Input, Output, WireError};

/// A type that travels.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) describe: fn(&mut Describe),
    pub(crate) take: fn(&mut Input<'_>) -> Result<Box<dyn Any>, WireError>,
}

impl Kind {
    pub(crate) fn of<T: Wire>() -> Kind {
        let take =
            |input: &mut Input<'_>| T::take(input).map(|value| Box::new(value) as Box<dyn Any>);
        Kind { describe: T::describe, take }
    }
}

thread_local! {
    /// The kinds of the values that are described or read next. One thread runs both sides.
    static NEXT: RefCell<VecDeque<Kind>> = const { RefCell::new(VecDeque::new()) };
}

/// Sets the kinds of the values that are described or read next.
pub(crate) fn expect(kinds: impl Into<VecDeque<Kind>>) {
    NEXT.set(kinds.into());
}

fn next() -> Kind {
    NEXT.with_borrow_mut(VecDeque::pop_front).expect("the kind of the value")
}

/// A value of any kind. It is written and read as its own type is.
pub(crate) struct Value<const TOLERANT: bool> {
    pub(crate) value: Box<dyn Any>,
    pub(crate) put: fn(&dyn Any, &mut Output<'_>) -> Result<(), WireError>,
}

impl<const TOLERANT: bool> Value<TOLERANT> {
    pub(crate) fn of<T: Wire>(value: T) -> Value<TOLERANT> {
        let put = |value: &dyn Any, out: &mut Output<'_>| {
            value.downcast_ref::<T>().expect("a value of this type").put(out)
        };
        Value { value: Box::new(value), put }
    }
}

impl<const TOLERANT: bool> Wire for Value<TOLERANT> {
    const TOLERANT: bool = TOLERANT;

    fn describe(out: &mut Describe) {
        (next().describe)(out);
    }

    fn put(&self, out: &mut Output<'_>) -> Result<(), WireError> {
        (self.put)(&*self.value, out)
    }

    fn take(input: &mut Input<'_>) -> Result<Self, WireError> {
        let value = (next().take)(input)?;
        Ok(Value { value, put: |_, _| unreachable!("it is not sent on") })
    }
}
