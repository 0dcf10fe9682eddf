//! Texts of programs, without characters that control a terminal.

/// Replaces characters that control a terminal or change the direction of the text after them.
pub(crate) fn cleaned(text: &str) -> String {
    const DIRECTIONS: [char; 5] = ['\u{200e}', '\u{200f}', '\u{061c}', '\u{2028}', '\u{2029}'];
    let harmless = |one: char| {
        !one.is_control()
            && !matches!(one, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
            && !DIRECTIONS.contains(&one)
    };
    text.chars().map(|one| if harmless(one) { one } else { char::REPLACEMENT_CHARACTER }).collect()
}

/// Replaces such characters in a text.
pub(crate) fn clean(text: &mut String) {
    *text = cleaned(text);
}
