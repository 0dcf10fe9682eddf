//! The output of `upbeat read`: text or JSON.

use crate::bill::grid::grid;
use crate::read::target::Selected;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Serialize, Serializer};
use upbeat::export::{UntypedImport, Value};

/// The form of the output.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) json: bool,
}

impl Form {
    /// Returns what is printed before the first value.
    pub(crate) fn heading(self, selected: &Selected) -> String {
        match self.json {
            true => String::new(),
            false => format!("{}: {}\n", selected.name, selected.selection.shape),
        }
    }

    /// Returns the text of a value.
    pub(crate) fn value(self, selected: &Selected, value: &Value) -> String {
        if !self.json {
            return format!("{value:#}\n");
        }
        let of_type = selected.selection.shape.to_string();
        line(&Object { name: &selected.name, r#type: &of_type, value: Json(value) })
    }

    /// Returns the list of a node's exports.
    pub(crate) fn list(self, node: &str, exports: &[UntypedImport]) -> String {
        let bytes = |export: &UntypedImport| export.shape().ok().map(|shape| 8 * shape.words());
        if self.json {
            let exports = exports.iter().map(|export| Listed {
                name: export.name(),
                r#type: export.type_text(),
                bytes: bytes(export),
            });
            return line(&List { node, exports: exports.collect() });
        }
        if exports.is_empty() {
            return format!("{node} exports nothing that this command may read\n");
        }
        let rows = exports.iter().map(|export| {
            let escaped = |text: &str| text.escape_debug().to_string();
            let size = bytes(export).map_or_else(|| "?".to_owned(), size);
            vec![escaped(export.name()), size, escaped(export.type_text())]
        });
        let mut text = Vec::new();
        let written = grid(&["export", ">size", "type"], &rows.collect::<Vec<_>>(), "", &mut text);
        written.unwrap_or_else(|_| unreachable!("memory takes any text"));
        String::from_utf8_lossy(&text).into_owned()
    }
}

/// Returns a line of JSON.
fn line(object: &impl Serialize) -> String {
    let text = serde_json::to_string(object);
    text.unwrap_or_else(|_| unreachable!("names of fields are texts")) + "\n"
}

/// Formats a number of bytes.
fn size(bytes: usize) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..0x10_0000 => format!("{:.1} KiB", bytes as f64 / 1024.0),
        _ => format!("{:.1} MiB", bytes as f64 / 1_048_576.0),
    }
}

/// The JSON output of a node's exports.
#[derive(Serialize)]
struct List<'a> {
    node: &'a str,
    exports: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    name: &'a str,
    r#type: &'a str,
    /// The size, if this version knows the type.
    bytes: Option<usize>,
}

/// The JSON output of a value.
#[derive(Serialize)]
struct Object<'a> {
    name: &'a str,
    r#type: &'a str,
    value: Json<'a>,
}

/// A value as JSON: a struct is an object whose fields stand in their order, and a number that JSON does not have is a
/// text.
struct Json<'a>(&'a Value<'a>);

impl Serialize for Json<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Unsigned(number) => to.serialize_u64(*number),
            Value::Signed(number) => to.serialize_i64(*number),
            Value::F32(number) if number.is_finite() => to.serialize_f32(*number),
            Value::F64(number) if number.is_finite() => to.serialize_f64(*number),
            Value::F32(_) | Value::F64(_) => to.collect_str(self.0),
            Value::Bool(value) => to.serialize_bool(*value),
            Value::Char(value) => to.serialize_char(*value),
            Value::Text(text) => to.serialize_str(text),
            Value::Array(items) => {
                let mut array = to.serialize_seq(Some(items.len()))?;
                items.iter().try_for_each(|item| array.serialize_element(&Json(item)))?;
                array.end()
            }
            Value::Option(None) | Value::Ref(None) => to.serialize_none(),
            Value::Option(Some(value)) => Json(value).serialize(to),
            Value::Ref(Some(place)) => to.serialize_u64(*place),
            Value::Map(entries) => {
                let mut object = to.serialize_map(Some(entries.len()))?;
                entries.iter().try_for_each(|(key, value)| match key {
                    Value::Text(key) => object.serialize_entry(key, &Json(value)),
                    Value::Char(key) => object.serialize_entry(key, &Json(value)),
                    key => object.serialize_entry(&key.to_string(), &Json(value)),
                })?;
                object.end()
            }
            Value::Struct(_, fields) => {
                let mut object = to.serialize_map(Some(fields.len()))?;
                fields
                    .iter()
                    .try_for_each(|(name, value)| object.serialize_entry(name, &Json(value)))?;
                object.end()
            }
        }
    }
}
