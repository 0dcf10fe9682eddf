//! The rules for the names of services and methods.

use crate::complaint::Complaints;
use crate::model::plain_name;
use proc_macro2::Ident;
use upbeat_core::limits::IDENT_BYTES_MAX;

/// Names that clients and handles need for themselves.
pub(super) const RESERVED: &[&str] = &[
    "blocking",
    "clone",
    "deadline",
    "extendable",
    "filling",
    "from_bound",
    "new",
    "signatures",
    "with",
];

/// Checks that a name is not too long for the wire format.
pub(super) fn check(what: &str, name: &Ident, complaints: &mut Complaints) {
    let bytes = plain_name(name).len();
    if bytes > IDENT_BYTES_MAX {
        complaints.about(
            name,
            format!(
                "the name of a {what} has at most {IDENT_BYTES_MAX} bytes and this one has \
                 {bytes}: write a shorter one"
            ),
        );
    }
}

/// Checks that a method does not have the name of a client's own method.
pub(super) fn check_method(name: &Ident, complaints: &mut Complaints) {
    check("method", name, complaints);
    let text = plain_name(name);
    if RESERVED.contains(&text.as_str()) {
        complaints.about(
            name,
            format!("clients have a `{text}` of their own: give the method another name"),
        );
    }
}
