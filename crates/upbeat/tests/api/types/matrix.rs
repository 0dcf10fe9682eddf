//! A matrix of changes: what docs/guide/types.md says of each change of a type, in each place of a message, in both
//! directions, alone and beside another change of the method.
//!
//! The cells are generated: [`changes`] is a table of types in two versions, and [`places`] lists where a value may stand.
//! A cell binds and then carries the right values, or clashes; the page says which of the two.

mod changes;

use crate::common::{Directory, Watchdog, node};
use crate::types::any::{Kind, Value, expect};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::any::Any;
use std::cell;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use upbeat::call::Bound;
use upbeat::client::Client;
use upbeat::service::{Methods, Rules, Serve, Wraps};
use upbeat::wire::{ByReference, Input, Signature, WireError, signature};
use upbeat::{CallError, Stream, Waiting, Wire};
use upbeat_core::bind::{BindRequest, Bound::Clash as Clashes, Offered, bind};

/// A struct that gains a field with a default: a method with it beside the type that changes is bound, and writes its
/// values field by field.
mod beside {
    macro_rules! beside {
        ($version:ident $($more:tt)*) => {
            pub(crate) mod $version {
                #[derive(Clone, Debug, PartialEq, Default, serde::Serialize, serde::Deserialize, upbeat::Wire)]
                pub(crate) struct Beside {
                    pub(crate) number: u64,
                    $($more)*
                }
            }
        };
    }

    beside!(old);
    beside!(new #[wire(default)] pub(crate) note: String);
}

/// Types around the type that changes.
mod around {
    use serde::{Deserialize, Serialize};
    use upbeat::Wire;

    #[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
    pub(super) struct Holder<T> {
        pub(super) before: u8,
        pub(super) held: T,
        pub(super) after: String,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
    pub(super) enum Choice<T> {
        Nothing,
        One(T, u8),
        Named { held: T, more: Vec<T> },
    }

    /// An enum that may gain variants.
    #[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
    pub(super) enum Open<T> {
        One(T, u8),
        #[wire(other)]
        Other,
    }

    #[derive(Debug, PartialEq, Serialize, Deserialize, Wire)]
    #[wire(whole)]
    pub(super) struct Whole<T> {
        pub(super) held: T,
        pub(super) after: u16,
    }
}

use around::{Choice, Holder, Open, Whole};

/// The traits of every type that changes.
pub(crate) trait Changes:
    Wire + Serialize + DeserializeOwned + Clone + Debug + Ord + Hash
{
}

impl<T: Wire + Serialize + DeserializeOwned + Clone + Debug + Ord + Hash> Changes for T {}

/// A version of a program, with one of the two versions of a type.
pub(crate) trait Version: 'static {
    type Item: Changes;
    type Beside: Wire + Default + PartialEq;

    /// The names of the arguments, which may change.
    const ARGUMENTS: &'static [&'static str];

    /// Returns the values that this version sends.
    fn sends() -> Vec<Self::Item>;

    /// Returns the values as which this version reads those of the other one, in the order in which that one sends them.
    fn reads() -> Vec<Self::Item>;
}

/// The sentence of docs/guide/types.md about a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Says {
    /// Old and new programs communicate, whatever else changes and wherever the type stands.
    Same,
    /// Old and new programs communicate if nothing else of the method changes.
    Alone,
    /// Old and new programs communicate where the type does not travel as a whole.
    Tolerant,
}

impl Says {
    fn binds(self, is_exact: bool, is_beside: bool) -> bool {
        match self {
            Says::Same => true,
            Says::Alone => !is_beside,
            Says::Tolerant => !is_exact,
        }
    }
}

/// A place in a message where a value may stand.
trait Place<T: Changes>: 'static {
    /// The name of the method that carries it, and of one that carries another change too.
    const NAMES: (&'static str, &'static str);
    /// Whether all that stands there has to be equal on both sides.
    const IS_EXACT: bool;
    type Held: Wire + PartialEq;

    fn hold(item: T) -> Self::Held;

    /// Reads an argument, as a callee does.
    fn take(input: &mut Input<'_>) -> Result<Self::Held, WireError>;
}

macro_rules! places {
    ($($place:ident $name:literal $exact:literal: $held:ty, |$item:ident| $hold:expr $(, $referent:ty)?;)*) => {
        $(
            struct $place;

            impl<T: Changes> Place<T> for $place {
                const NAMES: (&'static str, &'static str) = ($name, concat!($name, "_beside"));
                const IS_EXACT: bool = $exact;
                type Held = $held;

                fn hold($item: T) -> $held {
                    $hold
                }

                fn take(input: &mut Input<'_>) -> Result<$held, WireError> {
                    places!(@take input, $held $(, $referent)?)
                }
            }
        )*

        /// Returns a cell for each place, alone and beside another change.
        fn cells<V: Version>() -> Vec<Cell> {
            let mut cells = vec![Cell::streamed::<V>()];
            $(cells.extend([Cell::alone::<V, $place>(), Cell::beside::<V, $place>()]);)*
            cells
        }

        /// Returns the signatures of the methods of those cells.
        fn signatures<V: Version>() -> Vec<Signature> {
            let mut signatures = vec![signature_of::<V, Itself, Stream<V::Item>>(STREAM)];
            $(signatures.extend([
                signature_of::<V, $place, Held<V, $place>>(<$place as Place<V::Item>>::NAMES.0),
                signature_of::<V, $place, Back<V, $place>>(<$place as Place<V::Item>>::NAMES.1),
            ]);)*
            signatures
        }
    };
    (@take $input:ident, $held:ty) => { <$held as Wire>::take($input) };
    (@take $input:ident, $held:ty, $referent:ty) => {{
        let mut kept = Default::default();
        <$referent as ByReference>::read(&mut kept, $input)?;
        Ok(kept)
    }};
}

places! {
    Itself "itself" false: T, |item| item;
    Slice "slice" false: Vec<T>, |item| vec![item.clone(), item], [T];
    InArc "arc" false: Arc<[Box<T>]>, |item| Arc::from([Box::new(item)]);
    InArray "array" false: [T; 2], |item| [item.clone(), item];
    InOption "option" false: Option<T>, |item| Some(item);
    InTuple "tuple" false: (u8, T, String), |item| (7, item, "end".into());
    InError "error" false: Result<u8, T>, |item| Err(item);
    InMap "map" false: BTreeMap<String, T>, |item| BTreeMap::from([("a".into(), item.clone()), ("b".into(), item)]);
    InSet "set" false: HashSet<T>, |item| HashSet::from([item]);
    InStruct "in_struct" false: Holder<T>, |item| Holder { before: 0, held: item, after: "after".into() };
    InVariant "variant" false: Choice<T>, |item| Choice::Named { held: item.clone(), more: vec![item] };
    InOpen "open" false: Open<T>, |item| Open::One(item, 9);
    InWhole "whole" true: Whole<T>, |item| Whole { held: item, after: 500 };
}

const STREAM: &str = "stream";

type Held<V, P> = <P as Place<<V as Version>::Item>>::Held;
type Args<V, P> = (u16, Held<V, P>);
type Back<V, P> = (Held<V, P>, <V as Version>::Beside);

fn signature_of<V: Version, P: Place<V::Item>, R: Wire>(name: &str) -> Signature {
    signature::<Args<V, P>, R>(SERVICE, name, false, V::ARGUMENTS)
}

/// Returns a value of a list, again and again.
fn nth<T: Clone>(all: &[T], at: u16) -> T {
    all[usize::from(at) % all.len()].clone()
}

/// A version's side of a cell: a method, as its caller and as its callee.
#[derive(Clone)]
struct Cell {
    name: &'static str,
    is_exact: bool,
    is_beside: bool,
    signature: Signature,
    arguments: Kind,
    result: Kind,
    /// Whether the arguments and the result may travel field by field.
    is_tolerant: (bool, bool),
    names: &'static [&'static str],
    /// The number of values that a caller sends, or reads if these are more.
    values: u16,
    /// Makes the arguments.
    call: fn(u16) -> Value<true>,
    /// Checks the arguments that arrived, and returns the number of the value among them.
    arrived: fn(&dyn Any) -> u16,
    /// Makes the result.
    reply: fn(u16) -> Value<true>,
    /// Checks the result that came back.
    came: fn(u16, &dyn Any),
}

impl Cell {
    fn new<V: Version, P: Place<V::Item>, R: Wire>(
        is_beside: bool,
        reply: fn(u16) -> Value<true>,
        came: fn(u16, &dyn Any),
    ) -> Cell {
        let name = if is_beside { P::NAMES.1 } else { P::NAMES.0 };
        let take = |input: &mut Input<'_>| {
            Ok(Box::new((u16::take(input)?, P::take(input)?)) as Box<dyn Any>)
        };
        Cell {
            is_exact: P::IS_EXACT,
            is_beside,
            signature: signature_of::<V, P, R>(name),
            name,
            arguments: Kind { take, ..Kind::of::<Args<V, P>>() },
            result: Kind::of::<R>(),
            is_tolerant: (Args::<V, P>::TOLERANT, R::TOLERANT),
            names: V::ARGUMENTS,
            values: V::sends().len().max(V::reads().len()) as u16,
            call: |at| Value::of((at, P::hold(nth(&V::sends(), at)))),
            arrived: |arguments| {
                let (at, held) = arguments.downcast_ref::<Args<V, P>>().expect("the arguments");
                assert!(*held == P::hold(nth(&V::reads(), *at)), "another value arrived");
                *at
            },
            reply,
            came,
        }
    }

    fn alone<V: Version, P: Place<V::Item>>() -> Cell {
        let came = |at, held: &dyn Any| {
            let held = held.downcast_ref::<P::Held>().expect("the result");
            assert!(*held == P::hold(nth(&V::reads(), at)), "another value came back");
        };
        Cell::new::<V, P, P::Held>(false, |at| Value::of(P::hold(nth(&V::sends(), at))), came)
    }

    fn beside<V: Version, P: Place<V::Item>>() -> Cell {
        let came = |at, back: &dyn Any| {
            let (held, beside) = back.downcast_ref::<Back<V, P>>().expect("the result");
            assert!(*held == P::hold(nth(&V::reads(), at)), "another value came back");
            assert!(*beside == V::Beside::default());
        };
        let reply = |at| Value::of((P::hold(nth(&V::sends(), at)), V::Beside::default()));
        Cell::new::<V, P, Back<V, P>>(true, reply, came)
    }

    /// Returns the cell of a result that is a stream.
    fn streamed<V: Version>() -> Cell {
        Cell {
            name: STREAM,
            is_exact: true,
            signature: signature_of::<V, Itself, Stream<V::Item>>(STREAM),
            ..Cell::alone::<V, Itself>()
        }
    }
}

impl<const TOLERANT: bool> Value<TOLERANT> {
    /// Returns the value as one of another type for the compiler.
    pub(crate) fn into<const OTHER: bool>(self) -> Value<OTHER> {
        Value { value: self.value, put: self.put }
    }
}

const SERVICE: &str = "Changed";

/// A callee that checks what arrives, and returns its own values.
struct Callee(Vec<Cell>);

impl Serve for Callee {
    const SERVICE: &'static str = SERVICE;

    fn methods<W: Wraps>(self, methods: &mut Methods<'_, W>) {
        for cell in self.0 {
            match cell.is_tolerant {
                (false, false) => enter::<W, false, false>(methods, cell),
                (false, true) => enter::<W, false, true>(methods, cell),
                (true, false) => enter::<W, true, false>(methods, cell),
                (true, true) => enter::<W, true, true>(methods, cell),
            }
        }
    }
}

/// Enters the method of a cell.
fn enter<W: Wraps, const A: bool, const R: bool>(methods: &mut Methods<'_, W>, cell: Cell) {
    let rule = Rules::NONE.of(cell.name).with_arguments(cell.names);
    let name = cell.name;
    expect([cell.arguments, cell.result]);
    let answer = move |arguments: Value<A>| (cell.reply)((cell.arrived)(&*arguments.value));
    if name == STREAM {
        let answer = move |arguments| {
            let item = answer(arguments).into::<false>();
            std::future::ready(Stream::of([item]))
        };
        methods.call::<Value<A>, Stream<Value<false>>, _>(name, rule, answer);
    } else {
        let answer = move |arguments| std::future::ready(answer(arguments).into::<R>());
        methods.call::<Value<A>, Value<R>, _>(name, rule, answer);
    }
}

/// A caller, with the numbers of the methods that were given to [`SIGNATURES`].
struct Caller(Bound);

thread_local! {
    static SIGNATURES: cell::Cell<&'static [Signature]> = const { cell::Cell::new(&[]) };
}

impl Client for Caller {
    const SERVICE: &'static str = SERVICE;

    fn signatures() -> &'static [Signature] {
        SIGNATURES.get()
    }

    fn from_bound(bound: Bound) -> Caller {
        Caller(bound)
    }
}

impl Caller {
    /// Calls the method of a cell with each value, and checks what comes back.
    async fn call(&self, index: usize, ours: &Cell, theirs: &Cell) -> Result<(), CallError> {
        for at in 0..ours.values {
            expect([theirs.arguments, ours.result]);
            let back = match ours.is_tolerant {
                _ if ours.name == STREAM => self.stream((index, at), ours).await?,
                (false, false) => self.call_as::<false, false>((index, at), ours).await?,
                (false, true) => self.call_as::<false, true>((index, at), ours).await?,
                (true, false) => self.call_as::<true, false>((index, at), ours).await?,
                (true, true) => self.call_as::<true, true>((index, at), ours).await?,
            };
            (ours.came)(at, &*back);
        }
        Ok(())
    }

    async fn call_as<const A: bool, const R: bool>(
        &self,
        (index, at): (usize, u16),
        ours: &Cell,
    ) -> Result<Box<dyn Any>, CallError> {
        let arguments = (ours.call)(at).into::<A>();
        Ok(self.0.call::<_, Value<R>>(index, ours.name, arguments).await?.value)
    }

    async fn stream(
        &self,
        (index, at): (usize, u16),
        ours: &Cell,
    ) -> Result<Box<dyn Any>, CallError> {
        let call = self.0.call::<_, Stream<Value<false>>>(index, STREAM, (ours.call)(at));
        let item = call.await?.next().await.expect("a stream of one item");
        Ok(item?.value)
    }
}

/// The cells that were tried.
#[derive(Default)]
pub(crate) struct Tried {
    bound: usize,
    clashed: usize,
    /// The cells whose method only the caller has.
    missing: usize,
    /// The cells in which something else happened than the page says.
    wrong: Vec<String>,
}

/// Says of which cells a side has the methods, by their places among all cells.
type Has = fn(usize) -> bool;

/// Tries a change with a caller of one version and a callee of the other: with the same methods, and with methods that
/// only one of them has, so that the methods of both have different numbers.
pub(crate) fn try_change<C: Version, S: Version>(change: &str, says: Says, tried: &mut Tried) {
    try_methods::<C, S>(change, says, [|_| true, |_| true], tried);
    try_methods::<C, S>(change, says, [|at| at % 3 != 1, |at| at % 3 != 0], tried);
}

fn try_methods<C: Version, S: Version>(
    change: &str,
    says: Says,
    [we_have, they_have]: [Has; 2],
    tried: &mut Tried,
) {
    let having = |cells: Vec<Cell>, has: Has| -> Vec<Cell> {
        cells.into_iter().enumerate().filter(|(at, _)| has(*at)).map(|(_, cell)| cell).collect()
    };
    let (ours, theirs) = (having(cells::<C>(), we_have), having(cells::<S>(), they_have));
    let signatures: Vec<_> = ours.iter().map(|cell| cell.signature.clone()).collect();
    SIGNATURES.set(signatures.leak());
    let directory = Directory::new();
    let place = directory.path().parent().unwrap().file_name().unwrap().display().to_string();
    let name = format!("changed/{place}");
    let node = node(&name, &directory.path(), Waiting::Sleeping);
    node.serve(Callee(theirs.clone())).unwrap();
    node.block_on(async {
        let caller: Caller = node.connect(&name).await.unwrap();
        for (index, ours) in ours.iter().enumerate() {
            let theirs = theirs.iter().find(|cell| cell.name == ours.name);
            let called = caller.call(index, ours, theirs.unwrap_or(ours)).await;
            let binds = says.binds(ours.is_exact, ours.is_beside);
            let (count, is_right) = match theirs {
                None => (&mut tried.missing, matches!(called, Err(CallError::NoSuchMethod { .. }))),
                Some(_) if binds => (&mut tried.bound, called.is_ok()),
                Some(_) => (&mut tried.clashed, matches!(called, Err(CallError::Clash(_)))),
            };
            *count += 1;
            if !is_right {
                tried.wrong.push(format!("{change}, {}: {called:?}", ours.name));
            }
        }
    });
}

/// Tries a change that clashes everywhere: the binding refuses it, whatever carries the calls.
pub(crate) fn try_clash<C: Version, S: Version>(change: &str, tried: &mut Tried) {
    let (ours, theirs) = (signatures::<C>(), signatures::<S>());
    let offered: Vec<_> = theirs.iter().zip(1..).map(|(one, at)| Offered::new(one, at)).collect();
    let reply = bind(&BindRequest::new(SERVICE, &ours).unwrap(), &offered);
    for (method, bound) in ours.iter().zip(reply.methods()) {
        tried.clashed += 1;
        if !matches!(bound, Clashes { .. }) {
            tried.wrong.push(format!("{change}, {}: {bound:?}", method.name()));
        }
    }
}

#[test]
fn each_change_of_a_type_is_carried_or_clashes_as_the_page_says() {
    let _watchdog = Watchdog::new("the matrix of changes");
    let mut tried = Tried::default();
    changes::try_all(&mut tried);
    let Tried { bound, clashed, missing, wrong } = tried;
    println!("{bound} cells bound, {clashed} clashed, {missing} missing");
    assert!(wrong.is_empty(), "{} cells: {wrong:#?}", wrong.len());
    assert_eq!((bound, clashed, missing), (1652, 2308, 450));
}
