//! Values that simulated nodes export, as trees without a layout, and paths to their parts.

use std::fmt::{self, Write};

use upbeat_core::channel::export::Missing;

/// A step of a path to a part of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Step {
    /// The field of this number.
    Field(usize),
    /// The element of this index.
    Index(usize),
    /// The value of an option.
    Some,
    /// The value of the map's entry with this key.
    Key(u64),
    /// The target of a pointer.
    Target,
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
    /// The elements of an array or a vector.
    Array(Vec<Tree>),
    Option(Option<Box<Tree>>),
    Map(Vec<Slot>),
    /// The place and the path of a pointer's target.
    Ref(Option<(usize, Path)>),
    /// The name of a struct, and the names and values of its fields.
    Struct(String, Vec<(String, Tree)>),
}

/// A slot of a map.
#[derive(Clone, Debug)]
pub(crate) enum Slot {
    Free,
    Removed,
    Entry(u64, Tree),
}

impl Tree {
    /// Returns what a reader finds at the end of a path, as text: the part, or the reason why there is none.
    pub(crate) fn says(&self, path: &[Step]) -> String {
        let mut tree = self;
        for step in path {
            let next = match (tree, step) {
                (Tree::Struct(_, fields), Step::Field(at)) => Ok(&fields[*at].1),
                (Tree::Array(items), Step::Index(at)) => {
                    items.get(*at).ok_or(Missing::Index { index: *at as u64 })
                }
                (Tree::Option(value), Step::Some) => value.as_deref().ok_or(Missing::Nothing),
                (Tree::Map(slots), Step::Key(key)) => {
                    let mut values = slots.iter().filter_map(|slot| match slot {
                        Slot::Entry(of, value) if of == key => Some(value),
                        _ => None,
                    });
                    values.next().ok_or(Missing::Nothing)
                }
                (Tree::Ref(target), Step::Target) => match target {
                    Some((_, path)) => self.at(path).ok_or(Missing::Broken),
                    None => Err(Missing::Nothing),
                },
                _ => Err(Missing::Broken),
            };
            match next {
                Ok(next) => tree = next,
                Err(missing) => return format!("{missing:?}"),
            }
        }
        tree.to_string()
    }

    /// Returns the part at the end of a path, if there is one.
    pub(crate) fn at(&self, path: &[Step]) -> Option<&Tree> {
        path.iter().try_fold(self, |tree, step| match (tree, step) {
            (Tree::Struct(_, fields), Step::Field(at)) => Some(&fields.get(*at)?.1),
            (Tree::Array(items), Step::Index(at)) => items.get(*at),
            _ => None,
        })
    }

    /// Returns the number of elements of a vector, or of entries of a map.
    pub(crate) fn length(&self) -> Option<u64> {
        match self {
            Tree::Array(items) => Some(items.len() as u64),
            Tree::Map(slots) => {
                let is_entry = |slot: &&Slot| matches!(slot, Slot::Entry(..));
                Some(slots.iter().filter(is_entry).count() as u64)
            }
            _ => None,
        }
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
            Tree::Option(None) => f.write_str("None"),
            Tree::Option(Some(value)) => write!(f, "Some({value})"),
            Tree::Ref(None) => f.write_str("null"),
            Tree::Ref(Some((at, _))) => write!(f, "ref@{at}"),
            Tree::Map(slots) => {
                let entries = slots.iter().filter_map(|slot| match slot {
                    Slot::Entry(key, value) => Some(format!("{key}: {value}")),
                    Slot::Free | Slot::Removed => None,
                });
                write!(f, "{{{}}}", entries.collect::<Vec<_>>().join(", "))
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
