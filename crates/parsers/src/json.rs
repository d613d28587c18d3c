//! Strict parser of JSON bodies: a duplicate key is a fault and not silently dropped. The parser counts the values and
//! the memory they take, because a small document can contain millions of them.

use std::cell::{Cell, RefCell};
use std::fmt::{self, Display};

use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::de::Read;
use serde_json::{Map, Number, Value};

/// Maximum number of values of a document, with those in lists and objects.
pub const MAX_VALUES: u64 = 200_000;
/// Maximum memory of the values of a document, as a multiple of its size. With the document itself, a request takes at
/// most three times its size.
const MEMORY_FACTOR: u64 = 2;
/// Memory that the values of any document may take, in bytes. Ordinary documents of up to 16 MiB can take more than
/// [`MEMORY_FACTOR`] allows, for example lists of short objects.
const MIN_MEMORY: u64 = 32 << 20;
/// Memory that is not counted, in bytes.
const UNCOUNTED: u64 = 16 << 10;
/// Memory that is reserved at a time, in bytes.
const STEP: u64 = 256 << 10;

/// Approximate memory of an entry of a list, in bytes: lists grow by doubling.
const ITEM_BYTES: u64 = 2 * size_of::<Value>() as u64;
/// Approximate memory of the first entry of an object, in bytes: the first allocation has room for eleven.
const FIRST_ENTRY_BYTES: u64 = 11 * ENTRY_BYTES / 2 + 16;
/// Approximate memory of each further entry, in bytes: half of the allocated room is in use.
const ENTRY_BYTES: u64 = 2 * (size_of::<Value>() + size_of::<String>()) as u64;
/// Approximate memory of a text in addition to its bytes.
const TEXT_BYTES: u64 = 16;

/// Error of a JSON text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError<E> {
    /// The text is invalid or exceeds a limit; contains a text for the client.
    #[error("{0}")]
    Invalid(String),
    /// The document has more than [`MAX_VALUES`] values.
    #[error("the body has too many values (maximum is {MAX_VALUES})")]
    TooManyValues,
    /// The memory of the values cannot be reserved; contains the error of the reservation.
    #[error("{0}")]
    Memory(E),
}

/// Parses a JSON text of `size` bytes. The parser limits nesting to 128 levels. It calls `reserve` with a number of bytes
/// before its values take this much more memory.
///
/// # Errors
/// [`JsonError::Invalid`] with the position of the error, [`JsonError::TooManyValues`], and [`JsonError::Memory`] with the
/// error of `reserve`.
pub fn parse<'de, E: Display>(
    reader: impl Read<'de>,
    size: u64,
    reserve: &dyn Fn(u64) -> Result<(), E>,
) -> Result<Value, JsonError<E>> {
    let meter = Meter::new(size, reserve);
    let mut deserializer = serde_json::Deserializer::new(reader);
    let value = Strict(&meter).deserialize(&mut deserializer).and_then(|value| {
        deserializer.end()?;
        Ok(value)
    });
    value.map_err(|error| match meter.fault.take() {
        Some(fault) => fault,
        None => JsonError::Invalid(format!("the body is not valid JSON: {error}")),
    })
}

/// Counts the values of a document and their memory.
struct Meter<'a, E> {
    reserve: &'a dyn Fn(u64) -> Result<(), E>,
    max_bytes: u64,
    values: Cell<u64>,
    bytes: Cell<u64>,
    reserved: Cell<u64>,
    /// The error for the client if the parser stopped because of a limit.
    fault: RefCell<Option<JsonError<E>>>,
}

impl<'a, F: Display> Meter<'a, F> {
    fn new(size: u64, reserve: &'a dyn Fn(u64) -> Result<(), F>) -> Self {
        Self {
            reserve,
            max_bytes: MIN_MEMORY.max(size.saturating_mul(MEMORY_FACTOR)),
            values: Cell::new(0),
            bytes: Cell::new(0),
            reserved: Cell::new(UNCOUNTED),
            fault: RefCell::new(None),
        }
    }

    fn value<E: de::Error>(&self) -> Result<(), E> {
        self.values.set(self.values.get() + 1);
        if self.values.get() > MAX_VALUES {
            return Err(self.stop(JsonError::TooManyValues));
        }
        Ok(())
    }

    fn bytes<E: de::Error>(&self, bytes: u64) -> Result<(), E> {
        let bytes = self.bytes.get() + bytes;
        self.bytes.set(bytes);
        if bytes > self.max_bytes {
            let text = "the body has too many values for its size".to_owned();
            return Err(self.stop(JsonError::Invalid(text)));
        }
        if bytes > self.reserved.get() {
            let missing = (bytes - self.reserved.get()).max(STEP);
            (self.reserve)(missing).map_err(|error| self.stop(JsonError::Memory(error)))?;
            self.reserved.set(self.reserved.get() + missing);
        }
        Ok(())
    }

    fn stop<E: de::Error>(&self, fault: JsonError<F>) -> E {
        let error = E::custom(&fault);
        self.fault.replace(Some(fault));
        error
    }
}

/// Builds a [`Value`] and rejects duplicate keys.
struct Strict<'a, F>(&'a Meter<'a, F>);

impl<F> Clone for Strict<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Strict<'_, F> {}

impl<'de, F: Display> DeserializeSeed<'de> for Strict<'_, F> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.0.value()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de, F: Display> Visitor<'de> for Strict<'_, F> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        self.0.bytes(value.len() as u64 + TEXT_BYTES)?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element_seed(self)? {
            self.0.bytes(ITEM_BYTES)?;
            items.push(item);
        }
        Ok(Value::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            let entry = match entries.is_empty() {
                true => FIRST_ENTRY_BYTES,
                false => ENTRY_BYTES,
            };
            self.0.bytes(entry + key.len() as u64 + TEXT_BYTES)?;
            let value = access.next_value_seed(self)?;
            if entries.contains_key(&key) {
                return Err(de::Error::custom(format_args!("duplicate key `{key}`")));
            }
            entries.insert(key, value);
        }
        Ok(Value::Object(entries))
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use serde::de::value::Error as ValueError;
    use serde_json::de::SliceRead;
    use serde_json::json;

    use super::*;

    fn parsed(text: &[u8]) -> Result<Value, String> {
        let unlimited = |_| Ok::<(), Infallible>(());
        parse(SliceRead::new(text), text.len() as u64, &unlimited).map_err(|error| error.to_string())
    }

    #[test]
    fn json_parser_reads_all_value_types() {
        let text = r#"{"a":[1,-2,3.5,true,null,"x"],"b":{"c":{}}}"#;
        assert_eq!(
            parsed(text.as_bytes()),
            Ok(json!({"a": [1, -2, 3.5, true, null, "x"], "b": {"c": {}}}))
        );
    }

    #[test]
    fn json_parser_rejects_duplicate_nested_key() {
        let message = parsed(br#"{"a":{"b":1,"b":2}}"#).expect_err("a duplicate");
        assert!(message.contains("duplicate key `b`"), "{message}");
    }

    #[test]
    fn json_parser_rejects_deep_nesting_trailing_text_and_invalid_utf8() {
        assert!(parsed("[".repeat(100_000).as_bytes()).is_err());
        assert!(parsed(b"{} {}").is_err());
        assert!(parsed(b"\"\xff\"").is_err());
    }

    #[test]
    fn json_parser_limits_number_and_memory_of_values() {
        let list = |item: &str, count: usize| format!("[{}]", vec![item; count].join(","));
        assert!(parsed(list("0", 199_999).as_bytes()).is_ok());
        let message = parsed(list("0", 200_000).as_bytes()).expect_err("too many values");
        assert_eq!(message, "the body has too many values (maximum is 200000)");
        // Few values, but each takes about a hundred times as much memory as its text.
        let message = parsed(list(r#"{"":0}"#, 60_000).as_bytes()).expect_err("too much memory");
        assert_eq!(message, "the body has too many values for its size");
        // Texts take as much memory as in the document.
        assert!(parsed(format!("\"{}\"", "x".repeat(40 << 20)).as_bytes()).is_ok());
    }

    #[test]
    fn values_take_twice_the_size_of_large_documents_and_32_mib_of_others() {
        const MIB: u64 = 1 << 20;
        for (size, max_bytes) in [
            (0, 32 * MIB),
            (MIB, 32 * MIB),
            (16 * MIB, 32 * MIB),
            (16 * MIB + 1, 32 * MIB + 2),
            (128 * MIB, 256 * MIB),
        ] {
            let reserved = Cell::new(0);
            let reserve = |bytes: u64| {
                reserved.set(reserved.get() + bytes);
                Ok::<(), Infallible>(())
            };
            let meter = Meter::new(size, &reserve);
            assert!(meter.bytes::<ValueError>(max_bytes).is_ok(), "{size}");
            assert!((max_bytes - MIB..=max_bytes).contains(&reserved.get()), "{size}");
            assert!(meter.bytes::<ValueError>(1).is_err(), "{size}");
            // The document itself takes its size.
            assert!(size < 16 * MIB || size + reserved.get() <= 3 * size, "{size}");
        }
    }

    #[test]
    fn json_parser_reserves_memory_of_values() {
        let reserved = Cell::new(0);
        let reserve = |bytes| {
            reserved.set(reserved.get() + bytes);
            if reserved.get() > 6 << 20 {
                Err("no memory is left")
            } else {
                Ok(())
            }
        };
        let small = br#"{"a": "b"}"#;
        assert!(parse(SliceRead::new(small), small.len() as u64, &reserve).is_ok());
        assert_eq!(reserved.get(), 0);
        let list = format!("[{}]", vec![r#"{"":0}"#; 5_000].join(","));
        let parse = || parse(SliceRead::new(list.as_bytes()), list.len() as u64, &reserve);
        assert!(parse().is_ok());
        assert!(reserved.get() > 3 << 20, "{}", reserved.get());
        assert_eq!(parse(), Err(JsonError::Memory("no memory is left")));
    }
}
