//! Tests of exports for named nodes.

use super::super::{
    Asker, Denial, Directory, Expression, Fold, Nameless, NotOpened, NotRead, Operand, Part,
    Readers, Scalar,
};
use crate::name::NodeName;
use proptest::prelude::*;
use std::cell::Cell;
use std::string::String;
use std::vec::Vec;

/// A node that says it has this name.
struct Node {
    name: NodeName,
    is_proved: bool,
    /// How often a proof was asked for.
    proofs: Cell<u32>,
}

impl Node {
    fn new(name: &str, is_proved: bool) -> Node {
        Node { name: name.parse().unwrap(), is_proved, proofs: Cell::new(0) }
    }
}

impl Asker for Node {
    fn name(&self) -> Option<&NodeName> {
        Some(&self.name)
    }

    fn is_proved(&self) -> bool {
        self.proofs.set(self.proofs.get() + 1);
        self.is_proved
    }
}

const WHOLE: Part = Part { at: 0, words: 4 };

fn sum() -> Expression {
    let of = Operand { at: 0, scalar: Scalar::U64 };
    Expression { first: 8, each: 8, count: 3, of, filter: None, fold: Fold::Sum }
}

/// Returns a directory with an export for everybody, and one for `risk` and the nodes below `web/`.
fn directory() -> (Directory<()>, u32) {
    let mut directory = Directory::new(0);
    let mut export = |name: &str, readers| {
        let shape = "[u64; 3]".parse().unwrap();
        let number = directory.number(name, &shape).unwrap();
        directory.export(number, name, shape, readers, ()).unwrap();
        number
    };
    export("open", Readers::everybody());
    let number = export("limited", Readers::nodes(["web/*", "risk"]).unwrap());
    (directory, number)
}

/// Checks that somebody learns of the export for named nodes only what this denial says.
fn is_denied(asker: &impl Asker, denial: &Denial) {
    let (directory, number) = directory();
    for text in ["[u64; 3]", "u8"] {
        let refused = Err(NotOpened::NotPermitted(denial.clone()));
        assert_eq!(directory.open("limited", text, asker), refused, "its type is not told");
    }
    // A part and an expression that the value has, and those that it has not.
    for part in [WHOLE, Part { at: 7, words: 1 }] {
        assert_eq!(directory.part(number, part, asker).err(), Some(NotRead::NotPermitted));
    }
    for expression in [sum(), Expression { first: 9, ..sum() }] {
        let read = directory.expression(number, &expression, asker);
        assert_eq!(read.err(), Some(NotRead::NotPermitted));
    }
    assert_eq!(directory.names(asker), ["open"]);
    let listed: Vec<_> = directory.list(asker).into_iter().map(|(_, name, _)| name).collect();
    assert_eq!(listed, ["open"]);
    let missing = directory.open("none", "u8", asker);
    assert_eq!(missing, Err(NotOpened::NoExport { others: ["open".into()].into() }));
    // The other one is for everybody.
    let (open, ()) = directory.open("open", "[u64; 3]", asker).unwrap();
    assert!(directory.part(open, WHOLE, asker).is_ok());
    assert!(directory.expression(open, &sum(), asker).is_ok());
    let beyond = directory.expression(open, &Expression { first: 9, ..sum() }, asker);
    assert_eq!(beyond.err(), Some(NotRead::NoPart));
}

#[test]
fn named_nodes_alone_read_an_export_for_them() {
    for name in ["risk", "web/1", "web/a/b"] {
        let (mut directory, number) = directory();
        let node = Node::new(name, true);
        assert_eq!(directory.open("limited", "[u64; 3]", &node), Ok((number, &())), "{name}");
        assert!(directory.part(number, WHOLE, &node).is_ok());
        assert!(directory.expression(number, &sum(), &node).is_ok());
        assert_eq!(directory.names(&node), ["open", "limited"]);
        assert_eq!(directory.list(&node).len(), 2);
        directory.withdraw(number);
        assert_eq!(directory.part(number, WHOLE, &node).err(), Some(NotRead::Ended));
    }
    for name in ["web", "risk/1", "ris", "risks", "webs/1"] {
        is_denied(&Node::new(name, true), &Denial::OtherNode { name: name.into() });
    }
    is_denied(&Nameless, &Denial::Nameless);
}

#[test]
fn a_name_that_is_not_proved_reads_nothing() {
    for name in ["risk", "web/1"] {
        is_denied(&Node::new(name, false), &Denial::Unproved { name: name.into() });
    }
}

/// A proof takes system calls, so nobody is asked for one who reads anyway, or does not read anyway.
#[test]
fn a_proof_is_asked_for_only_where_it_decides() {
    let (directory, number) = directory();
    let open = directory.open("open", "[u64; 3]", &Nameless).unwrap().0;
    let (other, risk) = (Node::new("other", true), Node::new("risk", true));
    for node in [&other, &risk] {
        assert!(directory.part(open, WHOLE, node).is_ok());
    }
    assert!(directory.part(number, WHOLE, &other).is_err());
    assert_eq!((other.proofs.get(), risk.proofs.get()), (0, 0));
    assert!(directory.part(number, WHOLE, &risk).is_ok());
    assert_eq!(risk.proofs.get(), 1);
}

#[test]
fn a_list_of_readers_has_names_of_nodes_alone() {
    for name in ["", "a b", "risk@host", "*/a", "a*", "a/", "/*"] {
        assert!(Readers::nodes([name]).is_err(), "{name}");
    }
    let nobody = Readers::nodes(Vec::<String>::new()).unwrap();
    assert!(nobody.admit(&Node::new("risk", true)).is_err());
    let nodes = Readers::nodes(["*"]).unwrap();
    assert!(nodes.admit(&Node::new("risk", true)).is_ok());
    assert_eq!(nodes.admit(&Nameless), Err(Denial::Nameless), "a handle is no node");
}

proptest! {
    /// Exports with equal lists share memory, and those with others do not.
    #[test]
    fn lists_of_the_same_names_are_equal(names in prop::collection::vec("[a-c](/[*])?", 0..6), turn in 0_usize..6) {
        let readers = Readers::nodes(&names).unwrap();
        let mut turned = names.clone();
        turned.rotate_left(turn.min(names.len()));
        turned.extend_from_slice(&names);
        prop_assert_eq!(&Readers::nodes(&turned).unwrap(), &readers);
        prop_assert_ne!(&readers, &Readers::everybody());
        let more = names.iter().map(String::as_str).chain(["d"]);
        prop_assert_ne!(Readers::nodes(more).unwrap(), readers);
    }
}
