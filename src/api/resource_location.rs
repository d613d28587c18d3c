//! URL of a created resource, for the header `Location`.

use std::collections::BTreeMap;
use std::fmt;

use contract::operation::ResourceLocation;
use domain::kernel::urls::encode_segment;
use poem::http::HeaderValue;
use serde::Deserializer;
use serde::de::{IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Returns the URL of the resource in a response body. `base` is the URL of the server, and `values` are the decoded path
/// parameters of the request. Returns nothing if the response does not identify the resource.
pub(super) fn resource_location(
    base: &str,
    location: &ResourceLocation,
    values: &[(&'static str, String)],
    body: &[u8],
) -> Option<HeaderValue> {
    let mut attributes = attribute_texts(location.parameters, body)?;
    let mut url = base.to_owned();
    let mut rest = location.path;
    while let Some((literal, placeholder)) = rest.split_once('{') {
        let (name, after) = placeholder.split_once('}')?;
        let value = match attributes.remove(name) {
            Some(text) => text,
            None => values.iter().find(|(known, _)| *known == name)?.1.clone(),
        };
        url.push_str(literal);
        url.extend(encode_segment(&value));
        rest = after;
    }
    url.push_str(rest);
    for (number, (name, value)) in attributes.iter().enumerate() {
        url.push(if number == 0 { '?' } else { '&' });
        url.push_str(name);
        url.push('=');
        url.extend(encode_segment(value));
    }
    HeaderValue::try_from(url).ok()
}

/// Returns the texts and numbers of the attributes of an object, by the parameters that they are the values of.
fn attribute_texts(
    parameters: &'static [(&'static str, &'static str)],
    body: &[u8],
) -> Option<BTreeMap<&'static str, String>> {
    if parameters.is_empty() {
        return Some(BTreeMap::new());
    }
    let mut json = serde_json::Deserializer::from_slice(body);
    let found = json.deserialize_map(AttributesVisitor { parameters }).ok()?;
    let texts = parameters.iter().map(|(parameter, attribute)| {
        let text = match found.get(attribute)? {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((*parameter, text))
    });
    texts.collect()
}

/// Reads attributes of an object. The others, which can be large, are not stored.
struct AttributesVisitor {
    parameters: &'static [(&'static str, &'static str)],
}

impl<'de> Visitor<'de> for AttributesVisitor {
    type Value = BTreeMap<&'static str, Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut found = BTreeMap::new();
        while let Some(name) = entries.next_key::<String>()? {
            match self.parameters.iter().find(|(_, attribute)| *attribute == name) {
                Some((_, attribute)) => {
                    found.insert(*attribute, entries.next_value()?);
                }
                None => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: &str = "https://git.example.com";

    fn located(
        path: &'static str,
        parameters: &'static [(&'static str, &'static str)],
        body: &str,
    ) -> Option<String> {
        let values = [("id", "a/b".to_owned())];
        let location = ResourceLocation { path, parameters };
        let location = resource_location(BASE, &location, &values, body.as_bytes());
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
                located("/projects/{id}/labels/{label_id}", &[("label_id", "id")], body),
                expected,
                "{body}"
            );
        }
    }

    #[test]
    fn location_has_the_path_of_the_reading_operation() {
        let body = r#"{"id":7,"path":"g/h","name":"x y&z"}"#;
        let own: &[_] = &[("key_id", "id")];
        for (path, parameters, end) in [
            ("/projects/{id}", &[("id", "id")][..], Some("/projects/7")),
            ("/projects/{id}/push_rule", &[], Some("/projects/a%2Fb/push_rule")),
            (
                "/users/{id}/keys/{key_id}/raw",
                own,
                Some("/users/a%2Fb/keys/7/raw"),
            ),
            ("/groups/{group_id}/keys/{key_id}", own, None),
            (
                "/groups/{group_id}/keys/{key_id}",
                &[("group_id", "path"), ("key_id", "id")],
                Some("/groups/g%2Fh/keys/7"),
            ),
            (
                "/projects/{id}/file",
                &[("ref", "name")],
                Some("/projects/a%2Fb/file?ref=x%20y%26z"),
            ),
            ("/projects/{id}/file", &[("ref", "nothing")], None),
        ] {
            let expected = end.map(|end| format!("{BASE}{end}"));
            assert_eq!(located(path, parameters, body), expected, "{path}");
        }
    }
}
