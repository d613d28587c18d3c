//! URL of a created resource, for the header `Location`.

use std::fmt;

use contract::operation::ResourceLocation;
use domain::kernel::urls::encode_segment;
use poem::http::HeaderValue;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Returns the URL of the resource in a response body. `base` is the URL of the server, and `parameters` are the decoded
/// path parameters of the request. Returns nothing if the response does not identify the resource.
pub(super) fn resource_location(
    base: &str,
    location: &ResourceLocation,
    parameters: &[(&'static str, String)],
    body: &[u8],
) -> Option<HeaderValue> {
    let mut url = base.to_owned();
    let mut rest = location.path;
    while let Some((literal, placeholder)) = rest.split_once('{') {
        let (name, after) = placeholder.split_once('}')?;
        let own = location.attribute.filter(|_| !after.contains('{'));
        let value = match own {
            Some(attribute) => attribute_text(attribute, body)?,
            None => parameters.iter().find(|(known, _)| *known == name)?.1.clone(),
        };
        url.push_str(literal);
        url.extend(encode_segment(&value));
        rest = after;
    }
    url.push_str(rest);
    HeaderValue::try_from(url).ok()
}

/// Returns the text or number of an attribute of an object.
fn attribute_text(attribute: &str, body: &[u8]) -> Option<String> {
    let mut json = serde_json::Deserializer::from_slice(body);
    match json.deserialize_map(AttributeVisitor { attribute }).ok()? {
        Value::String(text) => Some(text),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Reads one attribute of an object. The others, which can be large, are not stored.
struct AttributeVisitor<'a> {
    attribute: &'a str,
}

impl<'de> Visitor<'de> for AttributeVisitor<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with the attribute {}", self.attribute)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut found = None;
        while let Some(name) = entries.next_key::<String>()? {
            if name == self.attribute {
                found = Some(entries.next_value()?);
            } else {
                entries.next_value::<IgnoredAny>()?;
            }
        }
        found.ok_or_else(|| A::Error::custom("the attribute is missing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://git.example.com";

    fn located(path: &'static str, attribute: Option<&'static str>, body: &str) -> Option<String> {
        let parameters = [("id", "a/b".to_owned())];
        let location = resource_location(
            BASE,
            &ResourceLocation { path, attribute },
            &parameters,
            body.as_bytes(),
        );
        location.map(|value| value.to_str().expect("ASCII").to_owned())
    }

    #[test]
    fn location_ends_with_the_encoded_attribute() {
        for (body, end) in [
            (r#"{"id":7,"name":"x"}"#, Some("7")),
            (r#"{"name":{"id":1},"id":"a/b ä?"}"#, Some("a%2Fb%20%C3%A4%3F")),
            (r#"{"id":null}"#, None),
            (r#"{"name":"x"}"#, None),
            ("[1]", None),
        ] {
            let expected = end.map(|end| format!("{BASE}/projects/a%2Fb/labels/{end}"));
            assert_eq!(
                located("/projects/{id}/labels/{label_id}", Some("id"), body),
                expected,
                "{body}"
            );
        }
    }

    #[test]
    fn location_has_the_path_of_the_reading_operation() {
        let body = r#"{"id":7}"#;
        for (path, attribute, end) in [
            ("/projects/{id}", Some("id"), Some("/projects/7")),
            (
                "/projects/{id}/push_rule",
                None,
                Some("/projects/a%2Fb/push_rule"),
            ),
            (
                "/users/{id}/keys/{key_id}/raw",
                Some("id"),
                Some("/users/a%2Fb/keys/7/raw"),
            ),
            ("/groups/{group_id}/keys/{key_id}", Some("id"), None),
        ] {
            let expected = end.map(|end| format!("{BASE}{end}"));
            assert_eq!(located(path, attribute, body), expected, "{path}");
        }
    }
}
