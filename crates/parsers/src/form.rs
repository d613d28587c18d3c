//! Parser of query strings and URL-encoded forms: percent-decoding, and bracket rules for lists and hashes in
//! names.
//!
//! `a[]=1&a[]=2` is a list and `a[b]=1` a hash. `a[][b]=1&a[][c]=2&a[][b]=3` is a list of hashes; a repeated name, also
//! a nested one such as `a[][b][c]`, starts a new hash. `a[0][b]` is parsed as a hash with the key `0`, which the
//! coercion converts to a list.

use percent_encoding::percent_decode;
use serde_json::{Map, Value};

/// Maximum nesting of brackets in a name.
pub(crate) const MAX_DEPTH: usize = 16;
/// Maximum number of pairs in a query or form.
const MAX_PAIRS: usize = 20_000;

/// Splits and decodes a query string or URL-encoded body.
///
/// # Errors
/// A text for the client if the decoded bytes are not UTF-8, or if there are too many pairs.
pub fn pairs(text: &[u8]) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    for piece in text.split(|byte| *byte == b'&').filter(|piece| !piece.is_empty()) {
        if pairs.len() == MAX_PAIRS {
            return Err(format!(
                "the request has too many parameters (maximum is {MAX_PAIRS})"
            ));
        }
        let split = piece.iter().position(|byte| *byte == b'=').unwrap_or(piece.len());
        let (name, value) = piece.split_at(split);
        pairs.push((component(name)?, component(value.get(1..).unwrap_or_default())?));
    }
    Ok(pairs)
}

fn component(bytes: &[u8]) -> Result<String, String> {
    let spaced: Vec<u8> = bytes
        .iter()
        .map(|byte| if *byte == b'+' { b' ' } else { *byte })
        .collect();
    String::from_utf8(percent_decode(&spaced).collect())
        .map_err(|_| "the query or form is not valid UTF-8".to_owned())
}

/// Parses a query string or URL-encoded body into parameters.
///
/// # Errors
/// As [`pairs`] and [`insert`].
pub fn parse(text: &[u8]) -> Result<Map<String, Value>, String> {
    let mut parameters = Map::new();
    for (name, value) in pairs(text)? {
        insert(&mut parameters, &name, Value::String(value))?;
    }
    Ok(parameters)
}

/// Adds a pair to the parameters by the bracket rules; the last value of a repeated scalar wins.
///
/// # Errors
/// A text for the client if the name is nested too deeply or contradicts an earlier name.
pub fn insert(parameters: &mut Map<String, Value>, name: &str, value: Value) -> Result<(), String> {
    let (base, keys) = split_name(name);
    if keys.len() > MAX_DEPTH {
        return Err(format!("{base} is nested too deeply"));
    }
    let fault = || format!("{base} is invalid");
    let slot = parameters.entry(base.to_owned()).or_insert(Value::Null);
    insert_at(slot, &keys, value).ok_or_else(fault)
}

/// Returns the name of the parameter that a pair belongs to: `a[b][]` -> `a`.
#[must_use]
pub fn base_name(name: &str) -> &str {
    split_name(name).0
}

/// Splits a name: `a[b][]` -> (`a`, [`b`, ``]). A name with unbalanced brackets is not split.
fn split_name(name: &str) -> (&str, Vec<&str>) {
    let Some(open) = name.find('[').filter(|open| *open > 0 && name.ends_with(']')) else {
        return (name, Vec::new());
    };
    let inner = &name[open + 1..name.len() - 1];
    (&name[..open], inner.split("][").collect())
}

fn insert_at(slot: &mut Value, keys: &[&str], value: Value) -> Option<()> {
    match keys {
        [] => *slot = value,
        [""] => list(slot)?.push(value),
        ["", rest @ ..] => {
            let items = list(slot)?;
            if items.last().is_none_or(|last| has_value(last, rest)) {
                items.push(Value::Null);
            }
            insert_at(items.last_mut()?, rest, value)?;
        }
        [key, rest @ ..] => {
            if slot.is_null() {
                *slot = Value::Object(Map::new());
            }
            insert_at(
                slot.as_object_mut()?
                    .entry((*key).to_owned())
                    .or_insert(Value::Null),
                rest,
                value,
            )?;
        }
    }
    Some(())
}

/// Returns whether a hash in a list already has a value at the keys, so that the next pair starts a new hash. A list in
/// the hash can have further values.
fn has_value(last: &Value, keys: &[&str]) -> bool {
    let at_keys = || keys.iter().try_fold(last, |value, key| value.get(*key));
    !last.is_object() || (!keys.contains(&"") && at_keys().is_some())
}

fn list(slot: &mut Value) -> Option<&mut Vec<Value>> {
    if slot.is_null() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(query: &str) -> Result<Value, String> {
        parse(query.as_bytes()).map(Value::Object)
    }

    #[test]
    fn parameters_parse_as_scalars_lists_and_hashes() {
        assert_eq!(
            parsed("a=1&a=2&b[]=x&b[]=y&not[labels]=z&e%5B%5D=%2F+1"),
            Ok(json!({"a": "2", "b": ["x", "y"], "not": {"labels": "z"}, "e": ["/ 1"]}))
        );
    }

    #[test]
    fn repeated_key_starts_next_hash_of_list() {
        assert_eq!(
            parsed(
                "actions[][action]=create&actions[][file_path]=a&actions[][action]=delete&actions[][file_path]=b"
            ),
            Ok(json!({"actions": [
                {"action": "create", "file_path": "a"},
                {"action": "delete", "file_path": "b"},
            ]}))
        );
    }

    #[test]
    fn repeated_nested_key_starts_next_hash_of_list() {
        assert_eq!(
            parsed("s[][p][x]=1&s[][p][y]=2&s[][n]=a&s[][p][x]=3&s[][p][y]=4&s[][n]=b"),
            Ok(json!({"s": [{"p": {"x": "1", "y": "2"}, "n": "a"}, {"p": {"x": "3", "y": "4"}, "n": "b"}]}))
        );
        // Lists in a hash continue.
        assert_eq!(
            parsed("s[][n]=a&s[][l][][k]=1&s[][l][][k]=2&s[][n]=b&s[][l][]=3&s[][l][]=4"),
            Ok(json!({"s": [{"n": "a", "l": [{"k": "1"}, {"k": "2"}]}, {"n": "b", "l": ["3", "4"]}]}))
        );
        assert_eq!(parsed("s[][p]=1&s[][p][x]=2"), Err("s is invalid".to_owned()));
    }

    #[test]
    fn unbalanced_brackets_are_part_of_the_name() {
        assert_eq!(
            parsed("[a]=1&b[=2&c]=3"),
            Ok(json!({"[a]": "1", "b[": "2", "c]": "3"}))
        );
    }

    #[test]
    fn conflicts_deep_nesting_invalid_utf8_and_excess_pairs_are_rejected() {
        assert_eq!(parsed("a=1&a[b]=2"), Err("a is invalid".to_owned()));
        assert_eq!(
            parsed(&format!("a{}=1", "[b]".repeat(17))),
            Err("a is nested too deeply".to_owned())
        );
        assert!(parsed("a=%FF").is_err());
        assert!(pairs("a&".repeat(MAX_PAIRS + 1).as_bytes()).is_err());
    }
}
