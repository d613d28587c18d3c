//! Objects with arbitrary keys and a significant order.

use std::borrow::Cow;

use poem_openapi::registry::{MetaSchema, MetaSchemaRef, Registry};
use poem_openapi::types::{ParseError, ParseFromJSON, ParseResult, ToJSON, Type};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

/// Values by name, serialized in insertion order, so that a list of percentages can start with the largest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Map<V>(Vec<(String, V)>);

impl<V> Default for Map<V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// Duplicate names are not checked: the sources are rows and parsed JSON, which contain each name once.
impl<V> FromIterator<(String, V)> for Map<V> {
    fn from_iter<I: IntoIterator<Item = (String, V)>>(members: I) -> Self {
        Self(members.into_iter().collect())
    }
}

impl<V> IntoIterator for Map<V> {
    type Item = (String, V);
    type IntoIter = std::vec::IntoIter<(String, V)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<V: Serialize> Serialize for Map<V> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<'de, V: Deserialize<'de>> Deserialize<'de> for Map<V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members<V>(std::marker::PhantomData<V>);

        impl<'de, V: Deserialize<'de>> Visitor<'de> for Members<V> {
            type Value = Map<V>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Map<V>, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = access.next_entry()? {
                    members.push(member);
                }
                Ok(Map(members))
            }
        }

        deserializer.deserialize_map(Members(std::marker::PhantomData))
    }
}

impl<V: Type> Type for Map<V> {
    const IS_REQUIRED: bool = true;

    type RawValueType = Self;
    type RawElementValueType = V::RawValueType;

    fn name() -> Cow<'static, str> {
        format!("map_{}", V::name()).into()
    }

    fn schema_ref() -> MetaSchemaRef {
        MetaSchemaRef::Inline(Box::new(MetaSchema {
            additional_properties: Some(Box::new(V::schema_ref())),
            ..MetaSchema::new("object")
        }))
    }

    fn register(registry: &mut Registry) {
        V::register(registry);
    }

    fn as_raw_value(&self) -> Option<&Self::RawValueType> {
        Some(self)
    }

    fn raw_element_iter<'a>(&'a self) -> Box<dyn Iterator<Item = &'a Self::RawElementValueType> + 'a> {
        Box::new(self.0.iter().filter_map(|(_, value)| value.as_raw_value()))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<V: ParseFromJSON> ParseFromJSON for Map<V> {
    fn parse_from_json(value: Option<Value>) -> ParseResult<Self> {
        let Value::Object(members) = value.unwrap_or_default() else {
            return Err(ParseError::custom("not an object"));
        };
        let members = members.into_iter().map(|(name, value)| {
            let value = V::parse_from_json(Some(value)).map_err(ParseError::propagate)?;
            Ok((name, value))
        });
        members.collect()
    }
}

impl<V: ToJSON> ToJSON for Map<V> {
    fn to_json(&self) -> Option<Value> {
        let shown = |(name, value): &(String, V)| Some((name.clone(), value.to_json()?));
        Some(Value::Object(self.0.iter().filter_map(shown).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_preserves_the_order_of_members() {
        let text = r#"{"b":1,"a":2,"c":3}"#;
        let read: Map<i64> = serde_json::from_str(text).expect("an object");
        assert_eq!(serde_json::to_string(&read).expect("JSON"), text);
        assert_eq!(read.to_json().expect("an object").to_string(), text);
        let parsed = Map::<i64>::parse_from_json(serde_json::from_str(text).ok()).expect("an object");
        assert_eq!(parsed, read);
        let names: Vec<String> = read.into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["b", "a", "c"]);
        assert!(Map::<i64>::parse_from_json(Some(Value::from(1))).is_err());
        assert!(serde_json::from_str::<Map<i64>>("[]").is_err());
    }
}
