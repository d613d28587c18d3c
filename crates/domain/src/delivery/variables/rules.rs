//! Validation of variables.

use std::borrow::Cow;
use std::collections::BTreeMap;

use storage::entities::Scope;

use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;

/// Maximum length of a key and of an environment scope, in characters.
const MAX_NAME_LENGTH: usize = 255;

/// Maximum length of a value, in characters.
const MAX_VALUE_LENGTH: usize = 10_000;

/// Minimum length of a masked value, in characters: shorter values match too much text in a log.
const MIN_MASKED_LENGTH: usize = 8;

/// Returns the maximum number of variables and the name of their type for an error text.
pub fn max_variables(scope: Option<Scope>) -> (u64, &'static str) {
    match scope {
        None => (25, "ci instance level"),
        Some(Scope::Project(_)) => (1000, "project ci"),
        Some(Scope::Group(_)) => (1000, "group ci"),
    }
}

/// Validates a variable; `key` is `None` for an existing one.
///
/// # Errors
/// Returns a validation error for each invalid attribute. The texts never contain a value.
pub fn check(key: Option<&str>, value: &Secret<String>, masked: bool, environment_scope: &str) -> Result<()> {
    let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    for (name, texts) in [
        ("key", key.map(key_faults).unwrap_or_default()),
        ("value", value_faults(value.expose(), masked)),
        ("environment_scope", scope_faults(environment_scope)),
    ] {
        if !texts.is_empty() {
            errors.insert(name.into(), texts);
        }
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidAttributes(errors)),
    }
}

fn key_faults(key: &str) -> Vec<Cow<'static, str>> {
    let sound = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let text = "can contain only letters, digits and '_'.";
    name_faults(key, sound, text)
}

/// Returns the faults of an environment scope.
pub fn scope_faults(scope: &str) -> Vec<Cow<'static, str>> {
    let sound = |char: char| char.is_ascii_alphanumeric() || "-_/${}.* ".contains(char);
    let text = "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', '*' and spaces";
    name_faults(scope, sound, text)
}

/// Returns the faults of an environment name.
pub fn environment_name_faults(name: &str) -> Vec<Cow<'static, str>> {
    let sound = |char: char| char.is_ascii_alphanumeric() || "-_/${}. ".contains(char);
    let text = "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', and spaces, but it cannot start or end \
                with '/'";
    let mut texts = name_faults(name, sound, text);
    let folder = name.starts_with('/') || name.ends_with('/');
    if folder && !texts.iter().any(|other| other == text) {
        texts.push(text.into());
    }
    texts
}

fn name_faults(name: &str, sound: fn(char) -> bool, text: &'static str) -> Vec<Cow<'static, str>> {
    let mut texts = Vec::new();
    let blank = name.trim().is_empty();
    if blank {
        texts.push("can't be blank".into());
    }
    if name.chars().count() > MAX_NAME_LENGTH {
        texts.push(format!("is too long (maximum is {MAX_NAME_LENGTH} characters)").into());
    }
    if blank || !name.chars().all(sound) {
        texts.push(text.into());
    }
    texts
}

fn value_faults(value: &str, masked: bool) -> Vec<Cow<'static, str>> {
    let mut texts = Vec::new();
    let length = value.chars().count();
    if length > MAX_VALUE_LENGTH {
        let text =
            format!("The value of the provided variable exceeds the {MAX_VALUE_LENGTH} character limit");
        texts.push(text.into());
    }
    if value.contains('\0') {
        texts.push("can't contain the null character".into());
    }
    let maskable = |char: char| char.is_ascii_alphanumeric() || "_+=/@:.-".contains(char);
    if masked && (length < MIN_MASKED_LENGTH || !value.chars().all(maskable)) {
        texts.push("is invalid".into());
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fails(key: &str, value: &str, masked: bool, scope: &str) -> Vec<String> {
        match check(Some(key), &Secret::new(value.to_owned()), masked, scope) {
            Ok(()) => Vec::new(),
            Err(Error::InvalidAttributes(errors)) => errors.into_keys().map(Cow::into_owned).collect(),
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn variable_key_and_scope_reject_invalid_characters() {
        let long = "k".repeat(255);
        for (key, scope) in [
            ("K", "*"),
            ("_1a", "review/*"),
            (&long, "a b-_/${}.*"),
            ("9", "production"),
        ] {
            assert_eq!(fails(key, "", false, scope), [""; 0], "{key} {scope}");
        }
        let long = "k".repeat(256);
        for bad in ["", " ", "a-b", "a b", "a\n", "ä", "$A", &long] {
            assert_eq!(fails(bad, "", false, "*"), ["key"], "{bad:?}");
        }
        for bad in ["", " ", "a\n", "ä", "a;b", "a'b", "a,b", &long] {
            assert_eq!(fails("K", "", false, bad), ["environment_scope"], "{bad:?}");
        }
    }

    #[test]
    fn environment_name_rejects_outer_slashes_and_invalid_characters() {
        let long = "e".repeat(255);
        for good in ["production", "review/a b", "$x.{y}_-", "a//b", &long] {
            assert_eq!(environment_name_faults(good), [""; 0], "{good:?}");
        }
        let longer = "e".repeat(256);
        for bad in ["", " ", "/a", "a/", "/", "a*", "a\n", "ä", &longer] {
            assert_ne!(environment_name_faults(bad), [""; 0], "{bad:?}");
        }
        assert_eq!(environment_name_faults("/ä").len(), 1);
    }

    #[test]
    fn masked_value_requires_length_and_allowed_characters() {
        for good in ["12345678", "abcd_+=/@:.-"] {
            assert_eq!(fails("K", good, true, "*"), [""; 0], "{good}");
        }
        for bad in [
            "",
            "1234567",
            "12345 678",
            "12345678\n",
            "1234567ä",
            "12345678~",
            "$(rm -rf)",
        ] {
            assert_eq!(fails("K", bad, true, "*"), ["value"], "{bad:?}");
            assert_eq!(fails("K", bad, false, "*"), [""; 0], "{bad:?}");
        }
    }

    #[test]
    fn variable_value_limit_counts_characters() {
        assert_eq!(fails("K", &"ä".repeat(10_000), false, "*"), [""; 0]);
        assert_eq!(fails("K", &"a".repeat(10_001), false, "*"), ["value"]);
        assert_eq!(
            fails("", &"a".repeat(10_001), true, ""),
            ["environment_scope", "key", "value"]
        );
    }
}
