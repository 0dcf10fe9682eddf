//! Values that simulated nodes export, as trees without a layout, and paths to their parts.

use std::fmt::{self, Write};

/// A step of a path to a part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The field of this number.
    Field(usize),
    /// The element of this index.
    Index(usize),
}

/// A path to a part of a value. The whole value has the path without steps.
pub(crate) type Path = Vec<Step>;

/// A value of any type.
#[derive(Clone, Debug)]
pub(crate) enum Tree {
    Unsigned(u64),
    Signed(i64),
    F32(f32),
    F64(f64),
    Bool(bool),
    Char(char),
    Text(String),
    Array(Vec<Tree>),
    /// The name of a struct, and the names and values of its fields.
    Struct(String, Vec<(String, Tree)>),
}

impl Tree {
    /// Returns the part at the end of a path, if there is one.
    pub(crate) fn at(&self, path: &[Step]) -> Option<&Tree> {
        path.iter().try_fold(self, |tree, step| match (tree, step) {
            (Tree::Struct(_, fields), Step::Field(at)) => Some(&fields.get(*at)?.1),
            (Tree::Array(items), Step::Index(at)) => items.get(*at),
            _ => None,
        })
    }

    /// Replaces the part at the end of a path, which the value has.
    pub(crate) fn replace(&mut self, path: &[Step], with: Tree) {
        let part = path.iter().try_fold(self, |tree, step| match (tree, step) {
            (Tree::Struct(_, fields), Step::Field(at)) => Some(&mut fields.get_mut(*at)?.1),
            (Tree::Array(items), Step::Index(at)) => items.get_mut(*at),
            _ => None,
        });
        *part.expect("a path leads to a part") = with;
    }
}

/// A value is printed as `upbeat_core::channel::export::Value` prints it in one line.
impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Tree::Unsigned(number) => write!(f, "{number}"),
            Tree::Signed(number) => write!(f, "{number}"),
            Tree::F32(number) => write!(f, "{number:?}"),
            Tree::F64(number) => write!(f, "{number:?}"),
            Tree::Bool(value) => write!(f, "{value}"),
            Tree::Char(value) => write!(f, "{value:?}"),
            Tree::Text(text) => write!(f, "{text:?}"),
            Tree::Array(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at == 0 { "" } else { ", " })?;
                }
                f.write_char(']')
            }
            Tree::Struct(name, fields) => {
                write!(f, "{name} {{")?;
                for (at, (name, value)) in fields.iter().enumerate() {
                    write!(f, "{} {name}: {value}", if at == 0 { "" } else { "," })?;
                }
                f.write_str(if fields.is_empty() { "}" } else { " }" })
            }
        }
    }
}
