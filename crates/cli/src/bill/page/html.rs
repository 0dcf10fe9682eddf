//! Text in HTML. Whatever comes from a program goes through [`escaped`] or [`json`].

use serde_json::Value;

/// Text that is read as text, in an element or in an attribute with double quotes.
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

/// A name: kept apart from the direction of the text around it.
pub(super) fn name(text: &str) -> String {
    format!("<bdi>{}</bdi>", escaped(text))
}

/// A sentence in which names stand between backticks.
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

/// JSON that can stand in a script element: nothing in it ends that.
pub(super) fn json(value: &Value) -> String {
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// Puts parts into a template, each where its name stands in two braces. What is put in is not
/// looked at again, so no name in it is taken for a place.
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
    fn nothing_that_is_said_is_markup() {
        assert_eq!(escaped("<a b=\"c\" d='&'>"), "&lt;a b=&quot;c&quot; d=&#39;&amp;&#39;&gt;");
        assert_eq!(sentence("lock `<b>` held"), "lock <code><bdi>&lt;b&gt;</bdi></code> held");
        let text = json(&serde_json::json!({"name": "</script><!-- &"}));
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let again: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(again["name"], "</script><!-- &");
    }

    #[test]
    fn what_is_put_in_is_no_template() {
        let parts = [("one", "{{two}}"), ("two", "2")];
        assert_eq!(filled("a {{one}} b {{two}} c {{three}}d", &parts), "a {{two}} b 2 c d");
        assert_eq!(filled("a {{one", &parts), "a {{two}}");
    }
}
