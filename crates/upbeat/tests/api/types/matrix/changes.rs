//! The changes: each a type in its old and its new version, and what docs/guide/types.md says of the change.

use super::Tried;

/// Crates that know serde and nothing of Upbeat.
mod foreign {
    #[derive(
        Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
    )]
    pub(crate) struct Point {
        pub(crate) x: i32,
        pub(crate) label: String,
    }

    /// A type with the fields of [`Point`].
    #[derive(
        Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
    )]
    pub(crate) struct Region {
        pub(crate) x: i32,
        pub(crate) label: String,
    }

    /// A type that needs names in its form.
    #[derive(
        Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
    )]
    #[serde(tag = "kind")]
    pub(crate) enum Document {
        Text { text: String },
        Page { number: u8 },
    }
}

/// Writes types that have all that a type in the matrix needs.
macro_rules! values {
    ($($item:item)*) => {
        $(
            #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Wire)]
            $item
        )*
    };
}

/// Writes plain data, which travels as it lies in memory.
macro_rules! plain {
    ($($item:item)*) => {
        values! { $(
            #[derive(Copy, FromBytes, IntoBytes, Immutable)]
            #[repr(C)]
            #[wire(plain)]
            $item
        )* }
    };
}

/// Makes the two versions of each change, and the function that tries all changes.
macro_rules! changes {
    ($group:ident $(
        $says:ident $change:ident
        old { $($old:item)* } sends $old_sends:expr $(, reads $old_reads:expr)?;
        new { $($new:item)* } sends $new_sends:expr $(, reads $new_reads:expr)?;
    )*) => {
        $(
            #[allow(dead_code, reason = "no change uses all of it")]
            mod $change {
                changes!(@version old (&["at", "item"]) { $($old)* } $old_sends, $old_sends $(, $old_reads)?);
                changes!(@version new (&["number", "value"]) { $($new)* } $new_sends, $new_sends $(, $new_reads)?);
            }
        )*

        /// Tries every change of the group in both directions.
        pub(crate) fn $group(tried: &mut Tried) {
            $(
                changes!(@try $says $change, old, new, tried);
                changes!(@try $says $change, new, old, tried);
            )*
        }
    };
    (@version $version:ident ($names:expr) { $($items:item)* } $sends:expr, $same:expr $(, $reads:expr)?) => {
        #[allow(unused_imports, reason = "no change uses all of it")]
        pub(crate) mod $version {
            use crate::types::matrix::changes::foreign;
            use crate::types::matrix::{Version, beside};
            use bytes::Bytes;
            use serde::{Deserialize, Serialize};
            use std::borrow::Cow;
            use std::cmp::Reverse;
            use std::collections::*;
            use std::num::{NonZero, Wrapping};
            use std::rc::Rc;
            use std::sync::Arc;
            use upbeat::Wire;
            use upbeat::wire::{Json, Serde};
            use zerocopy::{FromBytes, Immutable, IntoBytes};

            $($items)*

            pub(crate) struct This;

            impl Version for This {
                type Item = Item;
                type Beside = beside::$version::Beside;
                const ARGUMENTS: &'static [&'static str] = $names;

                fn sends() -> Vec<Item> {
                    $sends
                }

                fn reads() -> Vec<Item> {
                    changes!(@reads $same $(, $reads)?)
                }
            }
        }
    };
    (@try Clash $change:ident, $caller:ident, $callee:ident, $tried:ident) => {
        crate::types::matrix::try_clash::<$change::$caller::This, $change::$callee::This>(
            concat!(stringify!($change), " for a caller of the ", stringify!($caller), " type"),
            $tried,
        );
    };
    (@try $says:ident $change:ident, $caller:ident, $callee:ident, $tried:ident) => {
        crate::types::matrix::try_change::<$change::$caller::This, $change::$callee::This>(
            concat!(stringify!($change), " for a caller of the ", stringify!($caller), " type"),
            crate::types::matrix::Says::$says,
            $tried,
        );
    };
    (@reads $same:expr) => { $same };
    (@reads $same:expr, $reads:expr) => { $reads };
}

mod clashes;

/// Tries every change in both directions.
pub(super) fn try_all(tried: &mut Tried) {
    equal_names(tried);
    attributes(tried);
    growth(tried);
    clashes::clashes(tried);
}

// Types with one name in a schema.
changes! {
    equal_names

    Same vec_becomes_bytes
    old { pub(crate) type Item = Vec<u8>; } sends vec![vec![], vec![1, 2, 3], vec![7; 300]];
    new { pub(crate) type Item = Bytes; } sends vec![vec![].into(), vec![1, 2, 3].into(), vec![7; 300].into()];

    Same text_becomes_shared
    old { pub(crate) type Item = String; } sends vec![String::new(), "tea".repeat(99)];
    new { pub(crate) type Item = Arc<str>; } sends vec!["".into(), "tea".repeat(99).into()];

    Same text_becomes_cow
    old { pub(crate) type Item = Box<str>; } sends vec!["tea".into()];
    new { pub(crate) type Item = Cow<'static, str>; } sends vec!["tea".into()];

    Same sequences_of_other_types
    old { pub(crate) type Item = (Vec<String>, LinkedList<u16>, Rc<[u16]>); }
    sends vec![(vec![], [].into(), [].into()), (vec!["a".into(), "b".into()], [1, 2, 3].into(), [4].into())];
    new { pub(crate) type Item = (VecDeque<String>, Box<[u16]>, Cow<'static, [u16]>); }
    sends vec![([].into(), [].into(), [].as_slice().into()), (["a".into(), "b".into()].into(), [1, 2, 3].into(), vec![4].into())];

    Same usize_becomes_u64
    old { pub(crate) type Item = (usize, isize, NonZero<usize>); } sends vec![(5, -5, NonZero::new(1).unwrap())];
    new { pub(crate) type Item = (u64, i64, NonZero<u64>); } sends vec![(5, -5, NonZero::new(1).unwrap())];

    Same number_becomes_wrapped
    old { pub(crate) type Item = (u32, u8); } sends vec![(5, 6)];
    new { pub(crate) type Item = (Wrapping<u32>, Reverse<u8>); } sends vec![(Wrapping(5), Reverse(6))];

    Same map_becomes_tree
    old { pub(crate) type Item = BTreeMap<u8, Vec<String>>; }
    sends vec![BTreeMap::new(), BTreeMap::from([(0, vec![]), (1, vec!["a".into()])])];
    new { pub(crate) type Item = BTreeMap<u8, Box<[Arc<str>]>>; }
    sends vec![BTreeMap::new(), BTreeMap::from([(0, [].into()), (1, ["a".into()].into())])];

    Same set_of_other_texts
    old { pub(crate) type Item = BTreeSet<String>; } sends vec![BTreeSet::new(), BTreeSet::from(["a".into()])];
    new { pub(crate) type Item = BTreeSet<Rc<str>>; } sends vec![BTreeSet::new(), BTreeSet::from(["a".into()])];

    Same struct_becomes_shared
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) item: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, item: "tea".into() }];
    new {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) item: Arc<str> } }
        pub(crate) type Item = Arc<Order>;
    }
    sends vec![Arc::new(Order { id: 1, item: "tea".into() })];

    Same serde_becomes_boxed
    old { pub(crate) type Item = Serde<foreign::Point>; }
    sends vec![Serde(foreign::Point { x: -1, label: "here".into() })];
    new { pub(crate) type Item = Box<Serde<foreign::Point>>; }
    sends vec![Box::new(Serde(foreign::Point { x: -1, label: "here".into() }))];

    Same json_becomes_shared
    old { pub(crate) type Item = Json<foreign::Document>; }
    sends vec![Json(foreign::Document::Text { text: "a".into() }), Json(foreign::Document::Page { number: 3 })];
    new { pub(crate) type Item = Rc<Json<foreign::Document>>; }
    sends vec![
        Json(foreign::Document::Text { text: "a".into() }).into(),
        Json(foreign::Document::Page { number: 3 }).into(),
    ];
}

// Renamed types, fields that do not travel, and attributes alone.
changes! {
    attributes

    Same struct_is_renamed
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) item: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, item: "tea".into() }];
    new {
        values! { #[wire(name = "Order")] pub(crate) struct Purchase { pub(crate) id: u64, pub(crate) item: String } }
        pub(crate) type Item = Purchase;
    }
    sends vec![Purchase { id: 1, item: "tea".into() }];

    Same enum_is_renamed
    old {
        values! { pub(crate) enum Kind { Gift(u8), Split { of: String }, #[wire(other)] Other } }
        pub(crate) type Item = Kind;
    }
    sends vec![Kind::Gift(3), Kind::Split { of: "b".into() }, Kind::Other];
    new {
        values! {
            #[wire(name = "Kind")]
            pub(crate) enum Sort { Gift(u8), Split { of: String }, #[wire(other)] Other }
        }
        pub(crate) type Item = Sort;
    }
    sends vec![Sort::Gift(3), Sort::Split { of: "b".into() }, Sort::Other];

    Same plain_data_is_renamed
    old {
        plain! { pub(crate) struct Reading { pub(crate) at: u64, pub(crate) values: [i32; 2] } }
        pub(crate) type Item = Reading;
    }
    sends vec![Reading { at: 1, values: [2, -3] }];
    new {
        plain! { #[wire(name = "Reading")] pub(crate) struct Sample { pub(crate) at: u64, pub(crate) values: [i32; 2] } }
        pub(crate) type Item = Sample;
    }
    sends vec![Sample { at: 1, values: [2, -3] }];

    Same whole_type_is_renamed
    old {
        values! { #[wire(whole)] pub(crate) struct Percent(pub(crate) u32); }
        pub(crate) type Item = Percent;
    }
    sends vec![Percent(7), Percent(70_000)];
    new {
        values! { #[wire(whole, name = "Percent")] pub(crate) struct Share(pub(crate) u32); }
        pub(crate) type Item = Share;
    }
    sends vec![Share(7), Share(70_000)];

    Same skipped_field_is_added
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) item: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, item: "tea".into() }];
    new {
        values! { pub(crate) struct Order { pub(crate) id: u64, #[serde(skip)] pub(crate) seen: u8, pub(crate) item: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, seen: 0, item: "tea".into() }];

    Alone skipped_field_is_added_to_a_generic_struct
    old {
        values! { pub(crate) struct Page<T> { pub(crate) items: Vec<T> } }
        pub(crate) type Item = Page<u64>;
    }
    sends vec![Page { items: vec![1, 2] }];
    new {
        values! { pub(crate) struct Page<T> { pub(crate) items: Vec<T>, #[serde(skip)] pub(crate) seen: Option<u8> } }
        pub(crate) type Item = Page<u64>;
    }
    sends vec![Page { items: vec![1, 2], seen: None }];

    Alone field_becomes_one_with_a_default
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) note: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, note: "tea".into() }];
    new {
        values! { pub(crate) struct Order { pub(crate) id: u64, #[wire(default)] pub(crate) note: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, note: "tea".into() }];

    Alone variant_becomes_the_other_one
    old {
        values! { pub(crate) enum Fault { Full(u64), Other } }
        pub(crate) type Item = Fault;
    }
    sends vec![Fault::Full(1), Fault::Other];
    new {
        values! { pub(crate) enum Fault { Full(u64), #[wire(other)] Other } }
        pub(crate) type Item = Fault;
    }
    sends vec![Fault::Full(1), Fault::Other];

    Same default_is_another
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, #[wire(default = "one")] pub(crate) count: u32 } }
        fn one() -> u32 { 1 }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, count: 1 }, Order { id: 1, count: 2 }];
    new {
        values! { pub(crate) struct Order { pub(crate) id: u64, #[wire(default = "two")] pub(crate) count: u32 } }
        fn two() -> u32 { 2 }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, count: 1 }, Order { id: 1, count: 2 }];
}

// New fields with a default, and new variants.
changes! {
    growth

    Tolerant fields_with_a_default
    old {
        values! { pub(crate) struct Order { pub(crate) id: u64, pub(crate) item: String } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, item: "tea".into() }], reads vec![Order { id: 2, item: "oil".into() }];
    new {
        values! {
            pub(crate) struct Order {
                pub(crate) id: u64,
                #[serde(skip)]
                pub(crate) seen: u8,
                pub(crate) item: String,
                #[wire(default)]
                pub(crate) tags: BTreeMap<String, Vec<u8>>,
                #[wire(default = "one")]
                pub(crate) count: u32,
            }
        }
        fn one() -> u32 { 1 }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 2, seen: 0, item: "oil".into(), tags: [("a".into(), vec![1; 99])].into(), count: 5 }],
    reads vec![Order { id: 1, seen: 0, item: "tea".into(), tags: [].into(), count: 1 }];

    Tolerant one_more_field_with_a_default
    old {
        values! { pub(crate) struct Order { pub(crate) id: u8, #[wire(default)] pub(crate) note: Option<String> } }
        pub(crate) type Item = Order;
    }
    sends vec![Order { id: 1, note: Some("a".into()) }], reads vec![Order { id: 2, note: Some("b".into()) }];
    new {
        values! {
            #[wire(name = "Order")]
            pub(crate) struct Purchase {
                pub(crate) id: u8,
                #[wire(default)]
                pub(crate) note: Option<Box<str>>,
                #[wire(default)]
                pub(crate) more: Option<Box<Purchase>>,
            }
        }
        pub(crate) type Item = Purchase;
    }
    sends vec![Purchase {
        id: 2,
        note: Some("b".into()),
        more: Some(Purchase { id: 3, note: None, more: None }.into()),
    }],
    reads vec![Purchase { id: 1, note: Some("a".into()), more: None }];

    Tolerant fields_of_a_generic_struct
    old {
        values! { pub(crate) struct Update<T> { pub(crate) id: u64, #[wire(default)] pub(crate) value: Option<T> } }
        pub(crate) type Item = (Update<String>, Update<u64>);
    }
    sends vec![(Update { id: 1, value: Some("a".into()) }, Update { id: 2, value: Some(3) })],
    reads vec![(Update { id: 4, value: None }, Update { id: 5, value: Some(6) })];
    new {
        values! {
            pub(crate) struct Update<T> {
                pub(crate) id: u64,
                #[wire(default)]
                pub(crate) value: Option<T>,
                #[wire(default)]
                pub(crate) note: String,
            }
        }
        pub(crate) type Item = (Update<String>, Update<u64>);
    }
    sends vec![(
        Update { id: 4, value: None, note: "b".into() },
        Update { id: 5, value: Some(6), note: "c".into() },
    )],
    reads vec![(
        Update { id: 1, value: Some("a".into()), note: String::new() },
        Update { id: 2, value: Some(3), note: String::new() },
    )];

    Tolerant fields_of_an_inner_struct
    old {
        values! {
            pub(crate) enum Kind { Gift(Box<Order>, u8), Split { of: Vec<Order> } }
            pub(crate) struct Order { pub(crate) id: u64 }
        }
        pub(crate) type Item = Kind;
    }
    sends vec![Kind::Gift(Order { id: 1 }.into(), 2), Kind::Split { of: vec![Order { id: 3 }; 30] }],
    reads vec![Kind::Split { of: vec![Order { id: 4 }, Order { id: 5 }] }];
    new {
        values! {
            pub(crate) enum Kind { Gift(Box<Order>, u8), Split { of: Vec<Order> } }
            pub(crate) struct Order { pub(crate) id: u64, #[wire(default)] pub(crate) note: String }
        }
        pub(crate) type Item = Kind;
    }
    sends vec![Kind::Split { of: vec![Order { id: 4, note: "a".into() }, Order { id: 5, note: "b".into() }] }],
    reads vec![
        Kind::Gift(Order { id: 1, note: "".into() }.into(), 2),
        Kind::Split { of: vec![Order { id: 3, note: "".into() }; 30] },
    ];

    Tolerant variants_beside_another
    old {
        values! {
            pub(crate) enum Fault { Missing, Full { room: u64 }, #[wire(other)] Other, Gone(String), Odd(Size) }
            pub(crate) struct Size { pub(crate) of: u8 }
        }
        pub(crate) type Item = Fault;
    }
    sends vec![Fault::Missing, Fault::Full { room: 5 }, Fault::Other, Fault::Gone("a".into()), Fault::Odd(Size { of: 1 })],
    reads vec![Fault::Other, Fault::Full { room: 6 }, Fault::Other, Fault::Missing, Fault::Odd(Size { of: 2 })];
    new {
        values! {
            pub(crate) enum Fault { Locked(Vec<u8>), Odd(Size), Full { room: u64 }, Missing, #[wire(other)] Other }
            pub(crate) struct Size { pub(crate) of: u8, #[wire(default)] pub(crate) why: String }
        }
        pub(crate) type Item = Fault;
    }
    sends vec![
        Fault::Locked(vec![1; 50]),
        Fault::Full { room: 6 },
        Fault::Other,
        Fault::Missing,
        Fault::Odd(Size { of: 2, why: "b".into() }),
    ],
    reads vec![
        Fault::Missing,
        Fault::Full { room: 5 },
        Fault::Other,
        Fault::Other,
        Fault::Odd(Size { of: 1, why: "".into() }),
    ];
}
