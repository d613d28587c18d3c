//! URL of a created resource, for the header `Location`.

use std::fmt;

use domain::kernel::urls::encode_segment;
use poem::http::HeaderValue;
use serde::Deserializer;
use serde::de::{Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

/// Returns the URL of the resource in a response body. `url` is the URL of the request that created the resource, and
/// `attribute` the name of the attribute that ends the URL of the resource. Returns nothing if the attribute has no value.
pub(super) fn resource_location(url: &str, attribute: &str, body: &[u8]) -> Option<HeaderValue> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let value = json.deserialize_map(AttributeVisitor { attribute }).ok()?;
    let key = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let url = url.trim_end_matches('/');
    HeaderValue::try_from(format!("{url}/{}", encode_segment(&key))).ok()
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
    use super::resource_location;

    #[test]
    fn location_ends_with_the_encoded_attribute() {
        let url = "https://git.example.com/api/v4/projects/a%2Fb/labels";
        for (body, end) in [
            (r#"{"id":7,"name":"x"}"#, Some("/7")),
            (r#"{"name":{"id":1},"id":"a/b ä?"}"#, Some("/a%2Fb%20%C3%A4%3F")),
            (r#"{"id":null}"#, None),
            (r#"{"name":"x"}"#, None),
            ("[1]", None),
        ] {
            let expected = end.map(|end| format!("{url}{end}"));
            for sent in [url.to_owned(), format!("{url}/")] {
                let location = resource_location(&sent, "id", body.as_bytes());
                let location = location.map(|value| value.to_str().expect("ASCII").to_owned());
                assert_eq!(location, expected, "{body}");
            }
        }
    }
}
