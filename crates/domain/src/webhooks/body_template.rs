//! Templates of request bodies: JSON with placeholders such as `{{project.name}}` for attributes of the payload.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde_json::Value;

/// Returns a template with the attributes of a payload in place of its placeholders. Within a string of the template, a
/// value is inserted as text, so that a quotation mark in the value does not end the string. Elsewhere a value is
/// inserted as JSON. An absent attribute is an empty text or null.
///
/// Returns `None` if the result is not a JSON object, or is longer than `max_bytes`.
pub(super) fn fill(template: &str, payload: &str, max_bytes: usize) -> Option<String> {
    let payload: Value = serde_json::from_str(payload).ok()?;
    let mut filled = String::with_capacity(template.len());
    let (mut is_in_string, mut is_escaped) = (false, false);
    let mut rest = template;
    while let Some(next) = rest.chars().next() {
        if let Some((path, after)) = placeholder(rest) {
            let value = find(&payload, path);
            filled.push_str(&match is_in_string {
                true => in_string(value)?,
                false => value.map_or_else(|| "null".to_owned(), Value::to_string),
            });
            if filled.len() > max_bytes {
                return None;
            }
            is_escaped = false;
            rest = after;
            continue;
        }
        if next == '"' && !is_escaped {
            is_in_string = !is_in_string;
        }
        is_escaped = next == '\\' && is_in_string && !is_escaped;
        filled.push(next);
        rest = &rest[next.len_utf8()..];
    }
    let is_object = serde_json::from_str::<BTreeMap<String, IgnoredAny>>(&filled).is_ok();
    (is_object && filled.len() <= max_bytes).then_some(filled)
}

/// Returns the path in the placeholder at the start of a text, and the text after it.
fn placeholder(text: &str) -> Option<(&str, &str)> {
    let (path, after) = text.strip_prefix("{{")?.split_once("}}")?;
    let path = path.trim();
    let is_name = |part: &str| {
        let mut chars = part.chars();
        !part.is_empty() && chars.all(|char| char.is_ascii_alphanumeric() || matches!(char, '_' | '-'))
    };
    path.split('.').all(is_name).then_some((path, after))
}

/// Returns the attribute at a path. A number selects an element of a list, from 0.
fn find<'a>(payload: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(payload, |value, part| match value {
        Value::Object(members) => members.get(part),
        Value::Array(elements) => part.parse::<usize>().ok().and_then(|index| elements.get(index)),
        _ => None,
    })
}

/// Returns a value as a part of a JSON string.
fn in_string(value: Option<&Value>) -> Option<String> {
    let text = match value {
        None | Some(Value::Null) => return Some(String::new()),
        Some(Value::String(text)) => Cow::Borrowed(text.as_str()),
        Some(value) => Cow::Owned(value.to_string()),
    };
    let quoted = serde_json::to_string(&text).ok()?;
    let inner = quoted.strip_prefix('"')?.strip_suffix('"')?;
    Some(inner.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAYLOAD: &str = r#"{
        "a": "x", "n": 1, "none": null, "quote": "q\"\\\n", "list": [{"t":"first"},{"t":"second"}], "o": {"k":true}
    }"#;

    fn filled(template: &str) -> Option<String> {
        fill(template, PAYLOAD, 200)
    }

    #[test]
    fn values_are_inserted_as_text_or_json() {
        for (template, expected) in [
            (r#"{"v":"{{a}}"}"#, r#"{"v":"x"}"#),
            (
                r#"{"v":{{ a }},"n":{{n}},"m":"{{n}}"}"#,
                r#"{"v":"x","n":1,"m":"1"}"#,
            ),
            (r#"{"v":{{o}}}"#, r#"{"v":{"k":true}}"#),
            (r#"{"v":"{{o.k}} {{o}}"}"#, r#"{"v":"true {\"k\":true}"}"#),
            (r#"{"v":"{{list.1.t}}"}"#, r#"{"v":"second"}"#),
            (r#"{"v":"{{quote}}"}"#, r#"{"v":"q\"\\\n"}"#),
            (r#"{"v":"\"{{quote}}"}"#, r#"{"v":"\"q\"\\\n"}"#),
            (
                r#"{"v":"{{none}}{{b.c}}","w":{{none}},"x":{{b.c}}}"#,
                r#"{"v":"","w":null,"x":null}"#,
            ),
            (r#"{"{{a}}":"{{a b}} {{ }} {{"}"#, r#"{"x":"{{a b}} {{ }} {{"}"#),
            ("{}", "{}"),
        ] {
            assert_eq!(filled(template).as_deref(), Some(expected), "{template}");
        }
    }

    #[test]
    fn other_results_than_short_objects_are_rejected() {
        for template in [
            "",
            "{{a}}",
            "[{{a}}]",
            r#"{"v":x}"#,
            r#"{"v":"{{a}}"#,
            r#"{"v":{{list}},}"#,
        ] {
            assert_eq!(filled(template), None, "{template}");
        }
        let many = format!(r#"{{"v":"{}"}}"#, "{{list}}".repeat(10));
        assert_eq!(filled(&many), None);
        assert_eq!(fill("{}", "no JSON", 200), None);
    }
}
