//! Text in HTML. All text that comes from a program passes through [`escaped`] or [`json`].

use serde_json::Value;

/// Escapes text for an element or for an attribute in double quotes.
pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for one in text.chars() {
        match one {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            one => safe.push(one),
        }
    }
    safe
}

/// Returns the element of a name, isolated from the direction of the surrounding text.
pub(super) fn name(text: &str) -> String {
    format!("<bdi>{}</bdi>", escaped(text))
}

/// Returns a sentence in which names between backticks become elements.
pub(super) fn sentence(text: &str) -> String {
    let mut html = String::new();
    for (at, part) in text.split('`').enumerate() {
        match at % 2 {
            0 => html += &escaped(part),
            _ => html += &format!("<code>{}</code>", name(part)),
        }
    }
    html
}

/// Returns JSON for a script element; no text in it can end the element.
pub(super) fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Replaces each name in double braces in a template by its part. The inserted text is not searched for
/// names.
pub(super) fn filled(template: &str, parts: &[(&str, &str)]) -> String {
    let mut html = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        html += before;
        let (place, after) = after.split_once("}}").unwrap_or((after, ""));
        let part = parts.iter().find(|(name, _)| *name == place);
        html += part.map_or("", |(_, text)| text);
        rest = after;
    }
    html + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_from_markup() {
        assert_eq!(escaped("<a b=\"c\" d='&'>"), "&lt;a b=&quot;c&quot; d=&#39;&amp;&#39;&gt;");
        assert_eq!(sentence("lock `<b>` held"), "lock <code><bdi>&lt;b&gt;</bdi></code> held");
        let text = json(&serde_json::json!({"name": "</script><!-- &"}));
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let again: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(again["name"], "</script><!-- &");
    }

    #[test]
    fn inserted_text_is_not_searched_for_names() {
        let parts = [("one", "{{two}}"), ("two", "2")];
        assert_eq!(filled("a {{one}} b {{two}} c {{three}}d", &parts), "a {{two}} b 2 c d");
        assert_eq!(filled("a {{one", &parts), "a {{two}}");
    }
}
