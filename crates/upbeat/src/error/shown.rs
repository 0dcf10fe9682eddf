//! `Debug` of errors: the text for a user, and the variant behind it.
//!
//! A program whose `main` returns a `Result` prints the error by `Debug`, and so does `unwrap`.

/// Implements `Debug` for an error by its `Display` and the name of its variant.
macro_rules! debug_as_text {
    ($error:ident { $($variant:ident),* $(,)? }) => {
        impl ::std::fmt::Debug for $error {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let variant = match self {
                    $($error::$variant { .. } => stringify!($variant)),*
                };
                write!(f, "{self} ({}::{variant})", stringify!($error))
            }
        }
    };
}

pub(crate) use debug_as_text;
