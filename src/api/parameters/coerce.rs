//! Coerces input to the types of the contract: `"5"` becomes 5 and `"true"` becomes true. All faults are
//! collected.
//!
//! The generated type parses the resulting JSON without further checks. The fault texts equal those of the
//! reference service, because clients display and compare them.

use std::sync::{LazyLock, Mutex, PoisonError};

use contract::operation::{Field, InputType};
use regex::Regex;
use serde_json::{Map, Value};

use crate::api::parameters::date_times;
use crate::api::parameters::faults::Faults;

/// Rules for a named value, in addition to its type.
pub struct Slot<'a> {
    /// The full name, as shown in faults.
    pub name: &'a str,
    /// Whether the value is required.
    pub required: bool,
    /// Whether null is distinct from absent.
    pub nullable: bool,
    /// The default as JSON text.
    pub default: Option<&'static str>,
    /// The type.
    pub input: &'static InputType,
}

/// Coerces a value. Returns `None` if it is absent or has a fault.
pub fn slot(slot: &Slot<'_>, value: Option<Value>, faults: &mut Faults) -> Option<Value> {
    let input = slot.input;
    let value = match value {
        Some(Value::Null) if slot.nullable => return Some(Value::Null),
        Some(Value::String(text)) if text.is_empty() && !keeps_empty(input) => {
            if slot.nullable {
                return Some(Value::Null);
            }
            None
        }
        Some(Value::Null) | None => None,
        present => present,
    };
    let Some(value) = value else {
        return missing(slot, input, faults);
    };
    coerce(input, value, slot.name, faults)
}

fn missing(slot: &Slot<'_>, input: &InputType, faults: &mut Faults) -> Option<Value> {
    if slot.required {
        faults.add(format!("{} is missing", slot.name));
        if matches!(input, InputType::Text { min: 1.., .. }) {
            faults.add(format!("{} is empty", slot.name));
        }
        return None;
    }
    slot.default.and_then(|text| serde_json::from_str(text).ok())
}

/// Returns whether an empty text is a value of the type; for other types it counts as absent.
fn keeps_empty(input: &InputType) -> bool {
    matches!(
        input,
        InputType::Text { .. } | InputType::Choice(_) | InputType::Any
    )
}

/// Removes blank filters of a query from an object.
pub fn without_blanks(input: &'static InputType, mut value: Value) -> Value {
    let blank = |value: &Value| value.as_str().is_some_and(|text| text.trim().is_empty());
    match (input, &mut value) {
        (InputType::Object(_), Value::Object(entries)) => entries.retain(|_, entry| match entry {
            Value::Array(items) => {
                items.retain(|item| !blank(item));
                !items.is_empty()
            }
            entry => !blank(entry),
        }),
        (InputType::List { .. }, Value::Array(items)) if items.iter().all(blank) => return Value::Null,
        _ => {}
    }
    value
}

fn coerce(input: &'static InputType, value: Value, name: &str, faults: &mut Faults) -> Option<Value> {
    let outcome = match input {
        InputType::Text { min, max, pattern } => text(value, *min, *max, *pattern),
        InputType::Integer { min, max, values } => integer(&value, *min, *max, values),
        InputType::Number => number(&value),
        InputType::Boolean => boolean(&value),
        InputType::Timestamp => timestamp(&value),
        InputType::Date => date(&value),
        InputType::Choice(choices) => choice(value, choices),
        InputType::Any => Ok(value),
        InputType::List { items, min, max } => {
            let found = list(items, value, name, faults)?;
            let count = found.as_array().map_or(0, Vec::len) as u64;
            if count < *min || max.is_some_and(|max| count > max) {
                faults.add(format!("{name} is invalid"));
                return None;
            }
            return Some(found);
        }
        InputType::Object(fields) => return object(fields, value, name, faults),
        InputType::Map(inner) => return map(inner, value, name, faults),
    };
    match outcome {
        Ok(value) => Some(value),
        Err(fault) => {
            faults.add(match fault {
                Fault::Invalid => format!("{name} is invalid"),
                Fault::Empty => format!("{name} is empty"),
                Fault::NotAllowed => {
                    faults.add_not_allowed(name, input);
                    return None;
                }
                Fault::TooLong(max) => format!("{name} is too long (maximum is {max} characters)"),
                Fault::TooShort(min) => format!("{name} is too short (minimum is {min} characters)"),
            });
            None
        }
    }
}

enum Fault {
    Invalid,
    Empty,
    NotAllowed,
    TooLong(u64),
    TooShort(u64),
}

fn text(value: Value, min: u64, max: Option<u64>, pattern: Option<&str>) -> Result<Value, Fault> {
    let text = match value {
        Value::String(text) => text,
        Value::Number(number) => number.to_string(),
        Value::Bool(flag) => flag.to_string(),
        _ => return Err(Fault::Invalid),
    };
    if min >= 1 && text.trim().is_empty() {
        return Err(Fault::Empty);
    }
    if let Some(max) = max {
        // A text never has more characters than bytes, so characters are counted only if the bytes exceed the
        // limit.
        if text.len() as u64 > max && text.chars().count() as u64 > max {
            return Err(Fault::TooLong(max));
        }
        if text.contains('\0') {
            return Err(Fault::Invalid);
        }
    }
    if min > 1 && (text.chars().count() as u64) < min {
        return Err(Fault::TooShort(min));
    }
    if pattern.is_some_and(|pattern| !matches_pattern(pattern, &text)) {
        return Err(Fault::Invalid);
    }
    Ok(Value::String(text))
}

/// Each pattern is compiled once; patterns come from the contract, so there are few.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    static COMPILED: LazyLock<Mutex<std::collections::HashMap<String, Option<Regex>>>> =
        LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let regex = compiled
        .entry(pattern.to_owned())
        .or_insert_with(|| Regex::new(pattern).ok())
        .clone();
    drop(compiled);
    regex.is_some_and(|regex| regex.is_match(text))
}

fn integer(value: &Value, min: Option<i64>, max: Option<i64>, values: &[i64]) -> Result<Value, Fault> {
    let number = match value {
        Value::Number(number) => number.as_i64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    let number = number.ok_or(Fault::Invalid)?;
    let below = min.is_some_and(|min| number < min);
    let above = max.is_some_and(|max| number > max);
    if below || above || !(values.is_empty() || values.contains(&number)) {
        return Err(Fault::NotAllowed);
    }
    Ok(Value::from(number))
}

fn number(value: &Value) -> Result<Value, Fault> {
    let number: Option<f64> = match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    number
        .and_then(serde_json::Number::from_f64)
        .map(Value::Number)
        .ok_or(Fault::Invalid)
}

fn boolean(value: &Value) -> Result<Value, Fault> {
    let flag = match value {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => match number.as_i64() {
            Some(1) => Some(true),
            Some(0) => Some(false),
            _ => None,
        },
        Value::String(text) => match text.to_ascii_lowercase().as_str() {
            "true" | "t" | "1" | "yes" | "y" | "on" => Some(true),
            "false" | "f" | "0" | "no" | "n" | "off" => Some(false),
            _ => None,
        },
        _ => None,
    };
    flag.map(Value::Bool).ok_or(Fault::Invalid)
}

fn timestamp(value: &Value) -> Result<Value, Fault> {
    let time = value.as_str().and_then(date_times::timestamp);
    time.map(Value::String).ok_or(Fault::Invalid)
}

fn date(value: &Value) -> Result<Value, Fault> {
    let day = value.as_str().and_then(date_times::date);
    day.map(Value::String).ok_or(Fault::Invalid)
}

fn choice(value: Value, choices: &[&str]) -> Result<Value, Fault> {
    match value {
        Value::String(text) if choices.contains(&text.as_str()) => Ok(Value::String(text)),
        _ => Err(Fault::NotAllowed),
    }
}

fn list(inner: &'static InputType, value: Value, name: &str, faults: &mut Faults) -> Option<Value> {
    let items = match value {
        Value::Array(items) => items,
        // `user_ids=1,2` and a single scalar count as lists too.
        Value::String(text) => text
            .split(',')
            .map(|item| Value::String(item.trim().to_owned()))
            .collect(),
        Value::Object(entries) => match indexed(entries) {
            Some(items) => items,
            None => {
                faults.add(format!("{name} is invalid"));
                return None;
            }
        },
        scalar @ (Value::Number(_) | Value::Bool(_)) => vec![scalar],
        Value::Null => Vec::new(),
    };
    let nested = matches!(
        inner,
        InputType::Object(_) | InputType::Map(_) | InputType::List { .. }
    );
    // `ids[]=` is the only way to send an empty list in a form.
    let given = |item: &Value| keeps_empty(inner) || item.as_str() != Some("");
    let items = items.into_iter().filter(given).enumerate();
    let coerced = items.filter_map(|(index, item)| {
        let inner_name = if nested {
            format!("{name}[{index}]")
        } else {
            name.to_owned()
        };
        coerce(inner, item, &inner_name, faults)
    });
    Some(Value::Array(coerced.collect()))
}

/// Converts a hash with the keys 0, 1, 2, ... in any order to a list.
fn indexed(entries: Map<String, Value>) -> Option<Vec<Value>> {
    let mut items: Vec<(usize, Value)> = entries
        .into_iter()
        .map(|(key, value)| Some((key.parse().ok()?, value)))
        .collect::<Option<_>>()?;
    items.sort_by_key(|(index, _)| *index);
    Some(items.into_iter().map(|(_, value)| value).collect())
}

fn object(fields: &'static [Field], value: Value, name: &str, faults: &mut Faults) -> Option<Value> {
    let Value::Object(mut entries) = value else {
        faults.add(format!("{name} is invalid"));
        return None;
    };
    Some(Value::Object(self::fields(
        fields,
        &mut entries,
        Some(name),
        faults,
    )))
}

/// Coerces the fields of an object in `entries`; unknown entries are ignored.
pub fn fields(
    fields: &'static [Field],
    entries: &mut Map<String, Value>,
    parent: Option<&str>,
    faults: &mut Faults,
) -> Map<String, Value> {
    let mut coerced = Map::new();
    for field in fields {
        let full = parent.map(|parent| format!("{parent}[{}]", field.name));
        let rules = Slot {
            name: full.as_deref().unwrap_or(field.name),
            required: field.required,
            nullable: field.nullable,
            default: field.default,
            input: field.input,
        };
        if let Some(value) = slot(&rules, entries.remove(field.name), faults) {
            coerced.insert(field.name.to_owned(), value);
        }
    }
    coerced
}

fn map(inner: &'static InputType, value: Value, name: &str, faults: &mut Faults) -> Option<Value> {
    let Value::Object(entries) = value else {
        faults.add(format!("{name} is invalid"));
        return None;
    };
    let coerced = entries.into_iter().filter_map(|(key, value)| {
        // PostgreSQL rejects the character, and other databases do not preserve it.
        if key.contains('\0') {
            faults.add(format!("{name} is invalid"));
            return None;
        }
        let value = coerce(inner, value, &format!("{name}[{key}]"), faults)?;
        Some((key, value))
    });
    Some(Value::Object(coerced.collect()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    static TEXT: InputType = InputType::Text {
        min: 1,
        max: Some(5),
        pattern: None,
    };
    static FIELDS: &[Field] = &[
        Field {
            name: "name",
            required: true,
            nullable: false,
            default: None,
            input: &TEXT,
        },
        Field {
            name: "level",
            required: false,
            nullable: false,
            default: Some("20"),
            input: &InputType::Integer {
                min: None,
                max: None,
                values: &[10, 20],
            },
        },
        Field {
            name: "on",
            required: false,
            nullable: false,
            default: None,
            input: &InputType::Boolean,
        },
        Field {
            name: "day",
            required: false,
            nullable: true,
            default: None,
            input: &InputType::Date,
        },
        Field {
            name: "at",
            required: false,
            nullable: false,
            default: None,
            input: &InputType::Timestamp,
        },
        Field {
            name: "kind",
            required: false,
            nullable: false,
            default: None,
            input: &InputType::Choice(&["a", "b"]),
        },
        Field {
            name: "ids",
            required: false,
            nullable: false,
            default: None,
            input: &InputType::List {
                items: &INTEGER,
                min: 0,
                max: Some(3),
            },
        },
    ];
    static INTEGER: InputType = InputType::Integer {
        min: None,
        max: None,
        values: &[],
    };

    fn run(value: Value) -> (Value, Vec<String>) {
        let mut faults = Faults::default();
        let mut entries = value.as_object().cloned().unwrap_or_default();
        let coerced = fields(FIELDS, &mut entries, None, &mut faults);
        (Value::Object(coerced), faults.into_texts())
    }

    #[test]
    fn texts_are_coerced_to_their_types() {
        let sent = json!({
            "name": 5, "level": "10", "on": "1", "day": "2026-01-02T03:04:05Z", "at": "2026-01-02", "kind": "b",
            "ids": "1, 2", "unknown": {},
        });
        let expected = json!({
            "name": "5", "level": 10, "on": true, "day": "2026-01-02", "at": "2026-01-02T00:00:00Z", "kind": "b",
            "ids": [1, 2],
        });
        assert_eq!(run(sent), (expected, vec![]));
    }

    #[test]
    fn absent_values_become_defaults_and_empty_texts_absent_or_null() {
        let (coerced, faults) = run(json!({"name": "x", "on": "", "day": "", "at": null}));
        assert_eq!(coerced, json!({"name": "x", "level": 20, "day": null}));
        assert_eq!(faults, Vec::<String>::new());
    }

    #[test]
    fn blank_filters_of_an_object_are_removed() {
        static FIELDS: [Field; 1] = [Field {
            name: "a",
            required: false,
            nullable: false,
            default: None,
            input: &InputType::Any,
        }];
        static OBJECT: InputType = InputType::Object(&FIELDS);
        static LIST: InputType = InputType::List {
            items: &INTEGER,
            min: 0,
            max: None,
        };
        let sent = json!({"a": "", "b": ["", "1"], "c": [" "], "d": "x", "e": null});
        assert_eq!(
            without_blanks(&OBJECT, sent),
            json!({"b": ["1"], "d": "x", "e": null})
        );
        assert_eq!(without_blanks(&InputType::Any, json!("")), json!(""));
        assert_eq!(without_blanks(&LIST, json!(["", " "])), Value::Null);
        assert_eq!(without_blanks(&LIST, json!(["", "1"])), json!(["", "1"]));
    }

    #[test]
    fn list_of_empty_texts_is_empty_unless_its_items_are_texts() {
        let (coerced, faults) = run(json!({"name": "x", "ids": [""]}));
        assert_eq!((&coerced["ids"], faults), (&json!([]), vec![]));
        let (coerced, faults) = run(json!({"name": "x", "ids": ["", "7"]}));
        assert_eq!((&coerced["ids"], faults), (&json!([7]), vec![]));
        assert_eq!(run(json!({"name": "x", "ids": [" "]})).1, ["ids is invalid"]);
    }

    #[test]
    fn faults_are_reported_in_declared_order() {
        let (_, faults) =
            run(json!({"level": 11, "on": [], "day": "soon", "at": 5, "kind": "c", "ids": ["x", 1.5]}));
        let expected = [
            "name is missing",
            "name is empty",
            "level does not have a valid value",
            "on is invalid",
            "day is invalid",
            "at is invalid",
            "kind does not have a valid value",
            "ids is invalid",
            "ids is invalid",
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn list_above_its_maximum_is_rejected() {
        assert_eq!(
            run(json!({"name": "x", "ids": [1, 2, 3]})).1,
            Vec::<String>::new()
        );
        assert_eq!(run(json!({"name": "x", "ids": "1,2,3,4"})).1, ["ids is invalid"]);
    }

    #[test]
    fn blank_long_and_nul_texts_are_rejected() {
        assert_eq!(run(json!({"name": "  "})).1, ["name is empty"]);
        assert_eq!(
            run(json!({"name": "äöüßéx"})).1,
            ["name is too long (maximum is 5 characters)"]
        );
        assert_eq!(run(json!({"name": "äöüßé"})).1, Vec::<String>::new());
        assert_eq!(run(json!({"name": "a\0b"})).1, ["name is invalid"]);
    }
}
