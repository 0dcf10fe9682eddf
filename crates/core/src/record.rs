//! The fields of records: functions that read and write them in order, within bounds.
//!
//! Other modules define which fields a record has. Invariant: a read consumes the field that it names or returns a
//! [`Rule`], and nothing is allocated for bytes that are missing.

use crate::fault::Rule;
use alloc::vec::Vec;

/// A reader of fields from the front of a record's body. Integers are little-endian, and a text has its length in
/// two bytes before it.
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields(bytes)
    }

    fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Rule> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Rule::RecordTruncated { field })?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self, field: &'static str) -> Result<u8, Rule> {
        Ok(u8::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u16(&mut self, field: &'static str) -> Result<u16, Rule> {
        Ok(u16::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u32(&mut self, field: &'static str) -> Result<u32, Rule> {
        Ok(u32::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u64(&mut self, field: &'static str) -> Result<u64, Rule> {
        Ok(u64::from_le_bytes(self.array(field)?))
    }

    pub(crate) fn u128(&mut self, field: &'static str) -> Result<u128, Rule> {
        Ok(u128::from_le_bytes(self.array(field)?))
    }

    /// Reads a text of at most `bytes_max` bytes.
    pub(crate) fn text(&mut self, field: &'static str, bytes_max: usize) -> Result<&'a str, Rule> {
        str::from_utf8(self.bytes(field, bytes_max)?).map_err(|_| Rule::RecordField { field })
    }

    /// Bytes, at most so many, with their length before them.
    pub(crate) fn bytes(
        &mut self,
        field: &'static str,
        bytes_max: usize,
    ) -> Result<&'a [u8], Rule> {
        let bytes = usize::from(self.u16(field)?);
        if bytes > bytes_max {
            return Err(Rule::RecordField { field });
        }
        let (taken, rest) =
            self.0.split_at_checked(bytes).ok_or(Rule::RecordTruncated { field })?;
        self.0 = rest;
        Ok(taken)
    }

    /// Whether every field was read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks that no bytes are left.
    pub(crate) fn end(self) -> Result<(), Rule> {
        match u32::try_from(self.0.len()).unwrap_or(u32::MAX) {
            0 => Ok(()),
            bytes => Err(Rule::RecordTrailing { bytes }),
        }
    }
}

/// Appends a text with its length before it.
///
/// # Panics
/// Panics if the text is longer than two bytes can express; the bounds of all texts are far below.
pub(crate) fn push_text(out: &mut Vec<u8>, text: &str) {
    push_bytes(out, text.as_bytes());
}

/// Appends bytes with their length before them.
///
/// # Panics
/// Panics if their number is larger than two bytes can express; the bounds of all fields are far below.
pub(crate) fn push_bytes(out: &mut Vec<u8>, field: &[u8]) {
    let bytes = u16::try_from(field.len()).expect("a field must be within its bound");
    out.extend_from_slice(&bytes.to_le_bytes());
    out.extend_from_slice(field);
}
