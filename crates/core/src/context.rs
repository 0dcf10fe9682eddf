//! The context of a request: values that its caller sends along, each under a key.
//!
//! A context is a block of entries in front of the arguments; an extension of the frame says how many bytes the
//! block has. An entry is a key and the bytes of a value; the meaning of the bytes is defined by the users of the
//! key. The invariant: a [`Context`] has at most [`CONTEXT_ENTRIES_MAX`] entries with different keys, and at most
//! [`CONTEXT_BYTES_MAX`] bytes, and any bytes give such a context or the [`Rule`] that they break.

use crate::fault::Rule;
use crate::limits::{CONTEXT_BYTES_MAX, CONTEXT_ENTRIES_MAX, CONTEXT_KEY_BYTES_MAX};
use crate::record::{Fields, push_bytes, push_text};
use alloc::vec::Vec;
use core::fmt;

/// The entries that travel with a request.
///
/// ```
/// use upbeat_core::context::Context;
///
/// let mut context = Context::default();
/// context.set("tenant", &[7])?;
/// context.set("tenant", &[8])?;
/// assert_eq!(context.value("tenant"), Some(&[8][..]));
/// assert_eq!(Context::parse(context.as_bytes().to_vec()), Ok(context));
/// # Ok::<_, upbeat_core::context::ContextError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Context {
    block: Vec<u8>,
}

/// Why an entry cannot be added to a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContextError {
    /// The key is empty, or too long.
    Key {
        /// Bytes of the key.
        bytes: usize,
    },
    /// The context would have more entries than a context may have.
    Entries,
    /// The context would have more bytes than a context may have.
    Bytes {
        /// Bytes that it would have.
        bytes: usize,
    },
}

impl fmt::Display for ContextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContextError::Key { bytes } => write!(
                f,
                "the key of a context has {bytes} bytes; it must have 1 to {CONTEXT_KEY_BYTES_MAX}"
            ),
            ContextError::Entries => write!(
                f,
                "the context has more than {CONTEXT_ENTRIES_MAX} entries, the most that travel with a call"
            ),
            ContextError::Bytes { bytes } => write!(
                f,
                "the context has {bytes} bytes; at most {CONTEXT_BYTES_MAX} travel with a call: send the \
                 rest as an argument"
            ),
        }
    }
}

impl core::error::Error for ContextError {}

impl Context {
    /// Checks a block that has come with a request.
    pub fn parse(block: Vec<u8>) -> Result<Context, Rule> {
        let mut fields = Fields::new(&block);
        let mut keys = Vec::new();
        while !fields.is_empty() {
            let key = fields.text("context key", CONTEXT_KEY_BYTES_MAX)?;
            fields.bytes("context value", CONTEXT_BYTES_MAX)?;
            if key.is_empty() || keys.contains(&key) {
                return Err(Rule::RecordField { field: "context key" });
            }
            if keys.len() == CONTEXT_ENTRIES_MAX {
                return Err(Rule::RecordField { field: "context entries" });
            }
            keys.push(key);
        }
        Ok(Context { block })
    }

    /// Returns how many bytes the block has that stands at the start of a payload of `body` bytes, as the
    /// extension of its frame says it.
    pub fn bytes_in(extension: u64, body: usize) -> Result<usize, Rule> {
        match usize::try_from(extension) {
            Ok(bytes) if bytes <= CONTEXT_BYTES_MAX && bytes <= body => Ok(bytes),
            _ => Err(Rule::RecordField { field: "context bytes" }),
        }
    }

    /// Returns the block.
    pub fn as_bytes(&self) -> &[u8] {
        &self.block
    }

    /// Returns whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.block.is_empty()
    }

    /// Returns the value of a key.
    pub fn value(&self, key: &str) -> Option<&[u8]> {
        self.entries().find(|(other, _)| *other == key).map(|(_, value)| value)
    }

    /// Sets the value of a key, in place of the value that the key had. On an error nothing has changed.
    pub fn set(&mut self, key: &str, value: &[u8]) -> Result<(), ContextError> {
        if key.is_empty() || key.len() > CONTEXT_KEY_BYTES_MAX {
            return Err(ContextError::Key { bytes: key.len() });
        }
        let mut block = Vec::with_capacity(self.block.len() + key.len() + value.len() + 4);
        let mut entries = 1;
        for (other, kept) in self.entries().filter(|(other, _)| *other != key) {
            push_text(&mut block, other);
            push_bytes(&mut block, kept);
            entries += 1;
        }
        if entries > CONTEXT_ENTRIES_MAX {
            return Err(ContextError::Entries);
        }
        let bytes = block.len() + 2 + key.len() + 2 + value.len();
        if bytes > CONTEXT_BYTES_MAX {
            return Err(ContextError::Bytes { bytes });
        }
        push_text(&mut block, key);
        push_bytes(&mut block, value);
        self.block = block;
        Ok(())
    }

    /// Returns this context with the entries of another one, which come in place of those of the same keys.
    pub fn with(&self, other: &Context) -> Result<Context, ContextError> {
        let mut both = self.clone();
        other.entries().try_for_each(|(key, value)| both.set(key, value))?;
        Ok(both)
    }

    /// Returns the keys and their values.
    pub fn entries(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut fields = Fields::new(&self.block);
        core::iter::from_fn(move || {
            let key = fields.text("context key", CONTEXT_KEY_BYTES_MAX).ok()?;
            Some((key, fields.bytes("context value", CONTEXT_BYTES_MAX).ok()?))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_give_a_context_or_a_rule(block in prop::collection::vec(0..4u8, 0..64)) {
            if let Ok(context) = Context::parse(block.clone()) {
                let mut again = Context::default();
                for (key, value) in context.entries() {
                    prop_assert_eq!(again.set(key, value), Ok(()));
                }
                prop_assert_eq!(again.as_bytes(), &block[..]);
            }
        }

        #[test]
        fn the_last_value_of_a_key_stands(sets in prop::collection::vec((0..20u8, any::<u8>()), 0..40)) {
            let (mut context, mut model) = (Context::default(), std::collections::BTreeMap::new());
            for (key, value) in sets {
                let done = context.set(&format!("key{key}"), &[value]);
                let fits = model.contains_key(&key) || model.len() < CONTEXT_ENTRIES_MAX;
                prop_assert_eq!(done.is_ok(), fits);
                if fits {
                    model.insert(key, value);
                }
            }
            prop_assert_eq!(context.entries().count(), model.len());
            for (key, value) in &model {
                prop_assert_eq!(context.value(&format!("key{key}")), Some(&[*value][..]));
            }
            prop_assert_eq!(Context::parse(context.as_bytes().to_vec()), Ok(context));
        }
    }

    #[test]
    fn bounds_are_kept_by_the_sender_and_checked_by_the_receiver() {
        let mut context = Context::default();
        assert_eq!(context.set("", &[]), Err(ContextError::Key { bytes: 0 }));
        let (longest, key) = ("k".repeat(CONTEXT_KEY_BYTES_MAX), "k".repeat(65));
        assert_eq!(context.set(&key, &[]), Err(ContextError::Key { bytes: 65 }));
        let room = CONTEXT_BYTES_MAX - longest.len() - 4;
        let over = CONTEXT_BYTES_MAX + 1;
        let long = alloc::vec![0; room + 1];
        assert_eq!(context.set(&longest, &long), Err(ContextError::Bytes { bytes: over }));
        assert!(context.is_empty());
        assert_eq!(context.set(&longest, &long[1..]), Ok(()));
        assert_eq!(context.as_bytes().len(), CONTEXT_BYTES_MAX);
        let other = Context::parse([&[1, 0, b'a', 0, 0][..]].concat()).unwrap();
        assert_eq!(context.with(&other), Err(ContextError::Bytes { bytes: over + 4 }));
        let broken = |block: &[u8]| Context::parse(block.to_vec()).unwrap_err();
        let twice = [1, 0, b'a', 0, 0, 1, 0, b'a', 0, 0];
        assert_eq!(broken(&twice), Rule::RecordField { field: "context key" });
        assert_eq!(broken(&[0, 0, 0, 0]), Rule::RecordField { field: "context key" });
        assert_eq!(
            broken(&[1, 0, b'a', 9, 0, 1]),
            Rule::RecordTruncated { field: "context value" }
        );
        assert_eq!(broken(&[1, 0, 0xff, 0, 0]), Rule::RecordField { field: "context key" });
        let many: Vec<u8> = (0..17).flat_map(|key| [1, 0, b'a' + key, 0, 0]).collect();
        assert_eq!(broken(&many), Rule::RecordField { field: "context entries" });
        assert!(Context::parse(many[5..].to_vec()).is_ok());
        assert_eq!((Context::bytes_in(8, 8), Context::bytes_in(0, 0)), (Ok(8), Ok(0)));
        let rule = Rule::RecordField { field: "context bytes" };
        assert_eq!(Context::bytes_in(9, 8), Err(rule));
        assert_eq!(Context::bytes_in(CONTEXT_BYTES_MAX as u64 + 1, 1 << 20), Err(rule));
    }
}
