//! Size-limited values of untrusted documents.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The start of a text, up to a number of characters. NUL is removed, because PostgreSQL cannot store it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BoundedString<const MAX: usize>(pub String);

/// The start of a list, up to a number of entries.
#[derive(Debug, Clone)]
pub struct BoundedVec<T, const MAX: usize>(pub Vec<T>);

/// The start of an object with arbitrary keys, up to a number of entries.
#[derive(Debug, Clone)]
pub struct BoundedMap<T, const MAX: usize>(pub BTreeMap<String, T>);

/// A value of unspecified type: a text, a number, or any other.
#[derive(Debug, Clone, PartialEq)]
pub enum Lenient {
    /// A short text.
    Text(String),
    /// A number.
    Number(f64),
    /// Anything else.
    Other,
}

/// Maximum length of a text in a loose value and of a key, in characters.
const MAX_SHORT_LENGTH: usize = 255;

/// Returns the start of a text.
pub fn truncate(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

impl Lenient {
    /// Returns the value if it is a text.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Returns the value if it is a number or a numeric text.
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.trim().parse().ok(),
            Self::Other => None,
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for BoundedString<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct StringVisitor<const MAX: usize>;

        impl<const MAX: usize> Visitor<'_> for StringVisitor<MAX> {
            type Value = BoundedString<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(BoundedString(truncate(text, MAX)))
            }
        }

        deserializer.deserialize_str(StringVisitor)
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedVec<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct VecVisitor<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for VecVisitor<T, MAX> {
            type Value = BoundedVec<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while few.len() < MAX {
                    match list.next_element()? {
                        Some(item) => few.push(item),
                        None => return Ok(BoundedVec(few)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(BoundedVec(few))
            }
        }

        deserializer.deserialize_seq(VecVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>, const MAX: usize> Deserialize<'de> for BoundedMap<T, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MapVisitor<T, const MAX: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MAX: usize> Visitor<'de> for MapVisitor<T, MAX> {
            type Value = BoundedMap<T, MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut few = BTreeMap::new();
                while few.len() < MAX {
                    match map.next_entry::<BoundedString<MAX_SHORT_LENGTH>, T>()? {
                        Some((name, value)) => few.insert(name.0, value),
                        None => return Ok(BoundedMap(few)),
                    };
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(BoundedMap(few))
            }
        }

        deserializer.deserialize_map(MapVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Lenient {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct LenientVisitor;

        impl<'de> Visitor<'de> for LenientVisitor {
            type Value = Lenient;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Lenient, E> {
                Ok(Lenient::Other)
            }

            fn visit_i64<E>(self, number: i64) -> Result<Lenient, E> {
                Ok(Lenient::Number(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Lenient, E> {
                Ok(Lenient::Number(number as f64))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Lenient, E> {
                Ok(Lenient::Number(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Lenient, E> {
                Ok(Lenient::Text(truncate(text, MAX_SHORT_LENGTH)))
            }

            fn visit_unit<E>(self) -> Result<Lenient, E> {
                Ok(Lenient::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lenient, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lenient::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lenient, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Lenient::Other)
            }
        }

        deserializer.deserialize_any(LenientVisitor)
    }
}
