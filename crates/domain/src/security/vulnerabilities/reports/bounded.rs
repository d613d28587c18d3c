//! Size-limited values of untrusted documents.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The start of a text, up to a number of characters. NUL is removed, because PostgreSQL cannot store it.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Text<const MOST: usize>(pub String);

/// The start of a list, up to a number of entries.
#[derive(Debug, Clone)]
pub struct Few<T, const MOST: usize>(pub Vec<T>);

/// The start of an object with arbitrary keys, up to a number of entries.
#[derive(Debug, Clone)]
pub struct FewByName<T, const MOST: usize>(pub BTreeMap<String, T>);

/// A value of unspecified type: a text, a number, or any other.
#[derive(Debug, Clone, PartialEq)]
pub enum Loose {
    /// A short text.
    Text(String),
    /// A number.
    Number(f64),
    /// Anything else.
    Other,
}

/// Maximum length of a text in a loose value and of a key, in characters.
const SHORT: usize = 255;

/// Returns the start of a text.
pub fn cut(text: &str, most: usize) -> String {
    text.chars().filter(|c| *c != '\0').take(most).collect()
}

impl Loose {
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

impl<'de, const MOST: usize> Deserialize<'de> for Text<MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfText<const MOST: usize>;

        impl<const MOST: usize> Visitor<'_> for OfText<MOST> {
            type Value = Text<MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(cut(text, MOST)))
            }
        }

        deserializer.deserialize_str(OfText)
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for Few<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfList<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for OfList<T, MOST> {
            type Value = Few<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut few = Vec::new();
                while few.len() < MOST {
                    match list.next_element()? {
                        Some(item) => few.push(item),
                        None => return Ok(Few(few)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Few(few))
            }
        }

        deserializer.deserialize_seq(OfList(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>, const MOST: usize> Deserialize<'de> for FewByName<T, MOST> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfObject<T, const MOST: usize>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>, const MOST: usize> Visitor<'de> for OfObject<T, MOST> {
            type Value = FewByName<T, MOST>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut few = BTreeMap::new();
                while few.len() < MOST {
                    match map.next_entry::<Text<SHORT>, T>()? {
                        Some((name, value)) => few.insert(name.0, value),
                        None => return Ok(FewByName(few)),
                    };
                }
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(FewByName(few))
            }
        }

        deserializer.deserialize_map(OfObject(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Loose {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OfAny;

        impl<'de> Visitor<'de> for OfAny {
            type Value = Loose;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_bool<E>(self, _: bool) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_i64<E>(self, number: i64) -> Result<Loose, E> {
                Ok(Loose::Number(number as f64))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Loose, E> {
                Ok(Loose::Number(number as f64))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Loose, E> {
                Ok(Loose::Number(number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Loose, E> {
                Ok(Loose::Text(cut(text, SHORT)))
            }

            fn visit_unit<E>(self) -> Result<Loose, E> {
                Ok(Loose::Other)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Loose, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Loose::Other)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Loose, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Loose::Other)
            }
        }

        deserializer.deserialize_any(OfAny)
    }
}
