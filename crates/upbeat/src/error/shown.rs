//! `Debug` of errors: the text for a user, and the variant behind it. The texts of peers in errors.
//!
//! A program whose `main` returns a `Result` prints the error by `Debug`, and so does `unwrap`. Invariant: an escaped
//! text moves no cursor of a terminal, begins no line, and does not turn the direction of writing.

use std::fmt::{self, Write};

/// Shows the text of a peer, which may contain anything.
pub(super) fn escaped(text: &str) -> impl fmt::Display {
    fmt::from_fn(move |f| {
        text.chars().try_for_each(|each| match is_plain(each) {
            true => f.write_char(each),
            false => write!(f, "{}", each.escape_default()),
        })
    })
}

/// Returns whether a character shows itself and nothing else.
fn is_plain(each: char) -> bool {
    let turns = matches!(each, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    !each.is_control() && !turns
}

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

#[cfg(test)]
mod tests {
    use super::escaped;

    #[test]
    fn the_text_of_a_peer_cannot_control_a_terminal() {
        let text = "it\u{1b}[2J\nupbeat: \u{202e}ok, \u{85}don't „quote“ \\";
        let shown = escaped(text).to_string();
        assert_eq!(shown, "it\\u{1b}[2J\\nupbeat: \\u{202e}ok, \\u{85}don't „quote“ \\");
    }
}
