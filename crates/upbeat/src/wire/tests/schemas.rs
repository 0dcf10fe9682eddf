//! Schemas of types that use each other, and their costs.

use super::{schema_of, tolerance_of};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use upbeat_core::limits::SCHEMA_REPEATS_BYTES_MAX;

/// Structs within which the inner struct holds the outer one.
mod outward {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Tree {
        leaf: u8,
        of: inner::Tree,
    }

    pub(super) mod inner {
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize, crate::Wire)]
        pub(in super::super) struct Tree {
            root: Option<Box<super::Tree>>,
        }
    }
}

/// The same text without marks, where the inner struct holds itself.
mod inward {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Tree {
        leaf: u8,
        of: inner::Tree,
    }

    mod inner {
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize, crate::Wire)]
        pub(in super::super) struct Tree {
            root: Option<Box<Tree>>,
        }
    }
}

#[test]
fn a_schema_says_which_of_two_types_of_one_name_is_within() {
    let (outward, inward) = (schema_of::<outward::Tree>(), schema_of::<inward::Tree>());
    assert_eq!(inward, "Tree{leaf: u8, of: Tree{root: Option<Tree>}}");
    assert_eq!(outward, "Tree{leaf: u8, of: Tree{root: Option<Tree^1>}}");
    assert_eq!(
        schema_of::<outward::inner::Tree>(),
        "Tree{root: Option<Tree{leaf: u8, of: Tree^1}>}"
    );
}

/// A struct that holds another one of its name, which has no fields.
mod ending {
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize, crate::Wire)]
    pub(super) struct Link {
        next: Option<inner::Link>,
        also: Option<Box<Link>>,
    }

    mod inner {
        use serde::{Deserialize, Serialize};

        #[derive(Serialize, Deserialize, crate::Wire)]
        pub(in super::super) struct Link;
    }
}

#[test]
fn a_schema_tells_a_type_without_fields_from_the_outer_one_of_its_name() {
    assert_eq!(schema_of::<ending::Link>(), "Link{next: Option<Link{}>, also: Option<Link>}");
}

#[derive(Serialize, Deserialize, crate::Wire)]
struct Twice<T> {
    one: T,
    other: Vec<T>,
    #[wire(default)]
    note: Option<u8>,
}

#[derive(Serialize, Deserialize, crate::Wire)]
struct Zero;

#[derive(Serialize, Deserialize, crate::Wire)]
struct Unit;

type Four<T> = Twice<Twice<Twice<Twice<T>>>>;

#[test]
fn the_schema_of_types_that_are_used_twice_does_not_double_for_ever() {
    let begun = Instant::now();
    let text = schema_of::<Four<Four<Four<Zero>>>>();
    // Each type is begun once more behind the bound.
    assert!(text.len() < SCHEMA_REPEATS_BYTES_MAX + 4096, "{}", text.len());
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_ne!(text, schema_of::<Four<Four<Four<Unit>>>>());
    assert!(text.contains("Twice#"));
    // Such a method is bound to an equal one alone.
    let long = tolerance_of::<(Four<Four<Four<Zero>>>,)>();
    assert!(long.fields().is_empty() && long.endures(&long));
    assert!(!long.endures(&tolerance_of::<(Four<Four<Four<Unit>>>,)>()));
}

#[test]
fn types_are_written_out_where_the_schema_is_short() {
    let text = schema_of::<Four<Zero>>();
    assert!(text.len() <= SCHEMA_REPEATS_BYTES_MAX && !text.contains('#'), "{text}");
    assert!(!tolerance_of::<(Four<Zero>,)>().fields().is_empty());
}
