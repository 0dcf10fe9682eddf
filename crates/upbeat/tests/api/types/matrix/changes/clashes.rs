//! The changes that clash, each of which docs/guide/types.md calls a new signature.

use crate::types::matrix::Tried;

changes! {
    clashes

    Clash field_without_a_default
    old {
        values! {
            pub(crate) struct Item { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u64, note: String }
        }
    } sends vec![];

    Clash field_in_front
    old {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] note: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { count: u32, id: u64, #[wire(default)] note: String }
        }
    } sends vec![];

    Clash field_of_another_type
    old {
        values! {
            pub(crate) struct Item { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u32 }
        }
    } sends vec![];

    Clash fields_in_another_order
    old {
        values! {
            pub(crate) struct Item { id: u64, of: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { of: u64, id: u64 }
        }
    } sends vec![];

    Clash field_of_another_name
    old {
        values! {
            pub(crate) struct Item { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { number: u64 }
        }
    } sends vec![];

    Clash field_that_travels_no_longer
    old {
        values! {
            pub(crate) struct Item { id: u64, note: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u64, #[serde(skip)] note: String }
        }
    } sends vec![];

    Clash default_field_of_another_type
    old {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] note: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] note: u64 }
        }
    } sends vec![];

    Clash default_field_of_another_name
    old {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] note: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] text: String }
        }
    } sends vec![];

    Clash default_fields_in_another_order
    old {
        values! {
            pub(crate) struct Item { #[wire(default)] note: String, #[wire(default)] text: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { #[wire(default)] text: String, #[wire(default)] note: String }
        }
    } sends vec![];

    Clash field_gains_a_default_beside_a_new_one
    old {
        values! {
            pub(crate) struct Item { id: u64, note: String }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { id: u64, #[wire(default)] note: String, #[wire(default)] text: String }
        }
    } sends vec![];

    Clash tuple_struct_grows
    old {
        values! {
            pub(crate) struct Item (u64);
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item (u64, String);
        }
    } sends vec![];

    Clash type_of_another_name
    old {
        values! {
            pub(crate) struct Order { id: u64 }
        }
        pub(crate) type Item = Order;
    } sends vec![];
    new {
        values! {
            pub(crate) struct Purchase { id: u64 }
        }
        pub(crate) type Item = Purchase;
    } sends vec![];

    Clash version_is_raised
    old {
        values! {
            #[wire(version = 1)] pub(crate) struct Item { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            #[wire(version = 2)] pub(crate) struct Item { id: u64 }
        }
    } sends vec![];

    Clash opaque_version_is_raised
    old {
        values! {
            pub(crate) struct Item { #[wire(opaque = "point/1")] at: foreign::Point }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { #[wire(opaque = "point/2")] at: foreign::Point }
        }
    } sends vec![];

    Clash generic_argument_is_another
    old {
        values! {
            pub(crate) struct Page<T> { items: Vec<T> }
        }
        pub(crate) type Item = Page<u64>;
    } sends vec![];
    new {
        values! {
            pub(crate) struct Page<T> { items: Vec<T> }
        }
        pub(crate) type Item = Page<u32>;
    } sends vec![];

    Clash variant_without_an_other_one
    old {
        values! {
            pub(crate) enum Item { A, B(u8) }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { A, B(u8), C }
        }
    } sends vec![];

    Clash variants_in_another_order
    old {
        values! {
            pub(crate) enum Item { A, B(u8) }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { B(u8), A }
        }
    } sends vec![];

    Clash variant_of_another_field
    old {
        values! {
            pub(crate) enum Item { A(u8), #[wire(other)] Other }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { A(u16), #[wire(other)] Other }
        }
    } sends vec![];

    Clash variant_gains_a_field
    old {
        values! {
            pub(crate) enum Item { A { a: u8 }, #[wire(other)] Other }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { A { a: u8, b: u8 }, #[wire(other)] Other }
        }
    } sends vec![];

    Clash other_variant_is_renamed
    old {
        values! {
            pub(crate) enum Item { A, #[wire(other)] Other }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { A, #[wire(other)] Unknown }
        }
    } sends vec![];

    Clash other_variant_on_one_side
    old {
        values! {
            pub(crate) enum Item { A, Other }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { A, B, #[wire(other)] Other }
        }
    } sends vec![];

    Clash name_of_a_variant_is_used_again
    old {
        values! {
            pub(crate) enum Item { A(u8), B, #[wire(other)] Other }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) enum Item { B, A(String), #[wire(other)] Other }
        }
    } sends vec![];

    Clash inner_type_of_one_name
    old {
        values! {
            pub(crate) enum Error { Missing, Db(inner::Error) }
        }
        mod inner {
            use super::*;
            values! { pub(crate) enum Error { Closed, Timeout } }
        }
        pub(crate) type Item = Error;
    } sends vec![];
    new {
        values! {
            pub(crate) enum Error { Missing, Db(inner::Error) }
        }
        mod inner {
            use super::*;
            values! { pub(crate) enum Error { Closed, Refused, Timeout } }
        }
        pub(crate) type Item = Error;
    } sends vec![];

    Clash field_of_an_inner_struct
    old {
        values! {
            pub(crate) struct Item { inner: Vec<Option<Inner>> }
            pub(crate) struct Inner { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { inner: Vec<Option<Inner>> }
            pub(crate) struct Inner { id: i64 }
        }
    } sends vec![];

    Clash default_within_a_whole_type
    old {
        values! {
            #[wire(whole)] pub(crate) struct Item { inner: Inner }
            pub(crate) struct Inner { id: u64 }
        }
    } sends vec![];
    new {
        values! {
            #[wire(whole)] pub(crate) struct Item { inner: Inner }
            pub(crate) struct Inner { id: u64, #[wire(default)] note: String }
        }
    } sends vec![];

    Clash variant_within_a_whole_type
    old {
        values! {
            #[wire(whole)] pub(crate) struct Item { inner: Inner }
            pub(crate) enum Inner { A, #[wire(other)] Other }
        }
    } sends vec![];
    new {
        values! {
            #[wire(whole)] pub(crate) struct Item { inner: Inner }
            pub(crate) enum Inner { A, B, #[wire(other)] Other }
        }
    } sends vec![];

    Clash plain_field_of_another_type
    old {
        plain! {
            pub(crate) struct Item { at: u64 }
        }
    } sends vec![];
    new {
        plain! {
            pub(crate) struct Item { at: i64 }
        }
    } sends vec![];

    Clash plain_fields_in_another_order
    old {
        plain! {
            pub(crate) struct Item { at: u64, of: u64 }
        }
    } sends vec![];
    new {
        plain! {
            pub(crate) struct Item { of: u64, at: u64 }
        }
    } sends vec![];

    Clash plain_data_grows
    old {
        plain! {
            pub(crate) struct Item { at: u64 }
        }
    } sends vec![];
    new {
        plain! {
            pub(crate) struct Item { at: u64, of: u64 }
        }
    } sends vec![];

    Clash plain_data_becomes_serde
    old {
        plain! {
            pub(crate) struct Item { at: u64 }
        }
    } sends vec![];
    new {
        values! {
            pub(crate) struct Item { at: u64 }
        }
    } sends vec![];

    Clash number_of_another_width
    old { pub(crate) type Item = u32; } sends vec![];
    new { pub(crate) type Item = u64; } sends vec![];

    Clash array_of_another_length
    old { pub(crate) type Item = [u8; 3]; } sends vec![];
    new { pub(crate) type Item = [u8; 4]; } sends vec![];

    Clash value_becomes_optional
    old { pub(crate) type Item = u64; } sends vec![];
    new { pub(crate) type Item = Option<u64>; } sends vec![];

    Clash vec_becomes_set
    old { pub(crate) type Item = Vec<u8>; } sends vec![];
    new { pub(crate) type Item = BTreeSet<u8>; } sends vec![];

    Clash map_of_another_value
    old { pub(crate) type Item = BTreeMap<u8, u8>; } sends vec![];
    new { pub(crate) type Item = BTreeMap<u8, u16>; } sends vec![];

    Clash tuple_grows
    old { pub(crate) type Item = (u8, u8); } sends vec![];
    new { pub(crate) type Item = (u8, u8, u8); } sends vec![];

    Clash text_becomes_bytes
    old { pub(crate) type Item = String; } sends vec![];
    new { pub(crate) type Item = Vec<u8>; } sends vec![];

    Clash foreign_type_of_another_name
    old { pub(crate) type Item = Serde<foreign::Point>; } sends vec![];
    new { pub(crate) type Item = Serde<foreign::Region>; } sends vec![];

    Clash serde_becomes_json
    old { pub(crate) type Item = Serde<foreign::Point>; } sends vec![];
    new { pub(crate) type Item = Json<foreign::Point>; } sends vec![];

    Clash json_of_another_name
    old { pub(crate) type Item = Json<foreign::Point>; } sends vec![];
    new { pub(crate) type Item = Json<foreign::Region>; } sends vec![];
}
