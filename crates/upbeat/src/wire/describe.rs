//! Schemas: the description of a type as text, which two sides compare.

use super::Wire;
use upbeat_core::method::Signature;

/// The text of a schema being written.
///
/// ```
/// use upbeat::wire::Describe;
///
/// let mut schema = Describe::default();
/// schema.of::<Vec<Option<u8>>>();
/// assert_eq!(schema.into_text(), "Vec<Option<u8>>");
/// ```
#[derive(Debug, Default)]
#[doc(hidden)]
pub struct Describe {
    text: String,
    open: Vec<String>,
}

impl Describe {
    /// Writes words of the schema.
    pub fn text(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Writes the schema of a type that has a name. Inside of the type's own schema, only the name is written.
    pub fn named(&mut self, name: &str, body: impl FnOnce(&mut Describe)) {
        self.text.push_str(name);
        if self.open.iter().any(|open| open == name) {
            return;
        }
        self.open.push(name.to_owned());
        body(self);
        self.open.pop();
    }

    /// Writes the schema of a type.
    pub fn of<T: Wire>(&mut self) {
        T::describe(self);
    }

    /// Returns the schema.
    #[must_use]
    pub fn into_text(self) -> String {
        self.text
    }
}

/// Returns the text that two sides compare for a method: its name, and the schema of its arguments and of its result.
///
/// ```
/// use upbeat::wire::signature_text;
///
/// let text = signature_text::<(u64,), u64>("Counter", "add", false);
/// assert_eq!(text, "Counter.add(u64) -> u64");
/// ```
#[must_use]
#[doc(hidden)]
pub fn signature_text<A: Wire, R: Wire>(service: &str, method: &str, oneway: bool) -> String {
    let mut out = Describe::default();
    out.text(service);
    out.text(".");
    out.text(method);
    out.of::<A>();
    if !oneway {
        out.text(" -> ");
        out.of::<R>();
    }
    out.into_text()
}

/// Returns the signature of a method.
///
/// # Panics
/// When the names are longer than their limit, which the stub compiler rules out.
#[must_use]
#[doc(hidden)]
pub fn signature<A: Wire, R: Wire>(service: &str, method: &str, oneway: bool) -> Signature {
    let text = signature_text::<A, R>(service, method, oneway);
    Signature::new(service, method, &text).expect("names are within their limits")
}
