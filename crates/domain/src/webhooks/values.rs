//! Values with keys that a webhook sends to its receiver and that are never returned: its custom headers and URL
//! variables.

use sea_orm::ActiveValue::Set;
use storage::entities::project_hooks::{ActiveModel, Model};

use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{EncryptedColumn, EncryptionContext, Encryptor, Secret};

/// Maximum values of a kind in a webhook.
const MAX_VALUES: usize = 20;
/// Maximum length of a key, in characters.
const MAX_KEY_LENGTH: usize = 255;
/// Maximum length of a value, in characters.
const MAX_VALUE_LENGTH: usize = 2048;

/// Text if the stored values cannot be decrypted.
const UNREADABLE: &str =
    "The stored values of the webhook cannot be decrypted: update the webhook with new values for all keys";

/// A value with its key.
#[derive(Debug, Clone)]
pub struct KeyedValue {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Secret<String>,
}

/// Kind of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueKind {
    /// Headers of each request, by their names.
    CustomHeaders,
    /// Values that are inserted into the URL.
    UrlVariables,
}

impl ValueKind {
    /// Returns the keys of the values of a webhook.
    #[must_use]
    pub fn keys(self, hook: &Model) -> Vec<String> {
        let keys = match self {
            Self::CustomHeaders => hook.custom_header_keys.as_deref(),
            Self::UrlVariables => hook.url_variable_keys.as_deref(),
        };
        keys.and_then(|keys| serde_json::from_str(keys).ok())
            .unwrap_or_default()
    }

    /// Returns the values of a webhook.
    ///
    /// # Errors
    /// Returns an error if the values cannot be decrypted.
    pub(super) fn read(self, backend: &Backend, hook: &Model) -> Result<Vec<KeyedValue>> {
        let sealed = match self {
            Self::CustomHeaders => hook.custom_headers_encrypted.as_deref(),
            Self::UrlVariables => hook.url_variables_encrypted.as_deref(),
        };
        let Some(sealed) = sealed else {
            return Ok(Vec::new());
        };
        let plain = backend.keyring.decrypt(sealed, &self.context(hook.id))?;
        let pairs: Vec<(String, String)> = serde_json::from_str(plain.expose())
            // The cause can contain a value.
            .map_err(|_| Error::internal("the stored values of the webhook are malformed"))?;
        let values = pairs.into_iter().map(|(key, value)| KeyedValue {
            key,
            value: Secret::new(value),
        });
        Ok(values.collect())
    }

    /// Returns the values of a webhook for a change that sets `sent`. If the values cannot be decrypted and the change
    /// replaces all of them, returns none.
    ///
    /// # Errors
    /// Returns the error of [`Self::check_replaces_all`] if the values cannot be decrypted.
    pub(super) fn read_for_change(
        self,
        backend: &Backend,
        hook: &Model,
        sent: &[KeyedValue],
    ) -> Result<Vec<KeyedValue>> {
        match self.read_for_update(backend, hook) {
            Some(values) => Ok(values),
            None => self.check_replaces_all(hook, sent).map(|()| Vec::new()),
        }
    }

    /// Checks that a change that sets `sent` replaces all values of a webhook. Values that cannot be decrypted can be
    /// readable again with another key file, so a change must not delete them.
    ///
    /// # Errors
    /// Returns `Error::Unprocessable` if `sent` lacks the key of a stored value.
    pub(super) fn check_replaces_all(self, hook: &Model, sent: &[KeyedValue]) -> Result<()> {
        let is_sent = |key: &String| sent.iter().any(|one| self.is_same(&one.key, key));
        match self.keys(hook).iter().all(is_sent) {
            true => Ok(()),
            false => Err(Error::Unprocessable(UNREADABLE.into())),
        }
    }

    /// Returns the values of a webhook for an update, or `None` if they cannot be decrypted.
    pub(super) fn read_for_update(self, backend: &Backend, hook: &Model) -> Option<Vec<KeyedValue>> {
        match self.read(backend, hook) {
            Ok(values) => Some(values),
            Err(error) => {
                tracing::warn!(%error, hook = hook.id, "failed to decrypt the values of a webhook");
                None
            }
        }
    }

    /// Writes the values of a webhook and their keys to a row.
    ///
    /// # Errors
    /// Returns an error if the values cannot be encrypted.
    pub(super) fn write(
        self,
        row: &mut ActiveModel,
        encryptor: &Encryptor<'_>,
        hook_id: i64,
        values: &[KeyedValue],
    ) -> Result<()> {
        let (mut keys, mut sealed) = (None, None);
        if !values.is_empty() {
            let names: Vec<&str> = values.iter().map(|one| one.key.as_str()).collect();
            let pairs = values
                .iter()
                .map(|one| (one.key.as_str(), one.value.expose().as_str()));
            let pairs = serde_json::to_string(&pairs.collect::<Vec<_>>()).map_err(Error::internal)?;
            keys = Some(serde_json::to_string(&names).map_err(Error::internal)?);
            sealed = Some(encryptor.encrypt(&pairs, &self.context(hook_id))?);
        }
        match self {
            Self::CustomHeaders => {
                row.custom_header_keys = Set(keys);
                row.custom_headers_encrypted = Set(sealed);
            }
            Self::UrlVariables => {
                row.url_variable_keys = Set(keys);
                row.url_variables_encrypted = Set(sealed);
            }
        }
        Ok(())
    }

    /// Returns the stored values with the new values, which replace stored values with the same key.
    ///
    /// # Errors
    /// Returns `Error::Unprocessable` if a key or value is invalid, or there are too many values.
    pub(super) fn merge(self, stored: &[KeyedValue], sent: &[KeyedValue]) -> Result<Vec<KeyedValue>> {
        let invalid = || Error::Unprocessable(self.rejection().into());
        let mut merged = stored.to_vec();
        for value in sent {
            if !is_key(&value.key) || !self.is_value(value.value.expose()) {
                return Err(invalid());
            }
            match merged.iter_mut().find(|one| self.is_same(&one.key, &value.key)) {
                Some(one) => *one = value.clone(),
                None => merged.push(value.clone()),
            }
        }
        if merged.len() > MAX_VALUES {
            return Err(invalid());
        }
        Ok(merged)
    }

    fn context(self, hook_id: i64) -> EncryptionContext {
        let column = match self {
            Self::CustomHeaders => EncryptedColumn::WebhookCustomHeaders,
            Self::UrlVariables => EncryptedColumn::WebhookUrlVariables,
        };
        column.context(&[&hook_id])
    }

    /// Returns the error for invalid values in the attributes of a webhook.
    fn rejection(self) -> &'static str {
        match self {
            Self::CustomHeaders => "Custom headers validation failed",
            Self::UrlVariables => {
                "Invalid URL variables given: use at most 20 variables, keys of letters, digits, ., _ and -, and \
                 values of 1 to 2,048 characters"
            }
        }
    }

    /// Returns the name of a value in the error for a missing one.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::CustomHeaders => "Custom header",
            Self::UrlVariables => "URL variable",
        }
    }

    /// Returns whether two keys are equal. Names of headers are not case-sensitive.
    pub(super) fn is_same(self, one: &str, other: &str) -> bool {
        match self {
            Self::CustomHeaders => one.eq_ignore_ascii_case(other),
            Self::UrlVariables => one == other,
        }
    }

    /// Returns whether a value is valid. A line break would start another header.
    fn is_value(self, value: &str) -> bool {
        let is_blank = match self {
            Self::CustomHeaders => value.trim().is_empty(),
            Self::UrlVariables => value.is_empty(),
        };
        !is_blank && value.chars().count() <= MAX_VALUE_LENGTH && !value.chars().any(char::is_control)
    }
}

/// Returns whether two lists contain the same keys and values.
pub(super) fn are_equal(one: &[KeyedValue], other: &[KeyedValue]) -> bool {
    let pairs = |values: &[KeyedValue]| -> Vec<(String, String)> {
        let values = values.iter();
        values
            .map(|one| (one.key.clone(), one.value.expose().clone()))
            .collect()
    };
    pairs(one) == pairs(other)
}

/// Returns whether a key consists of letters, digits, `.`, `_` and `-`, starts with a letter and ends with a letter or
/// digit.
pub(super) fn is_key(key: &str) -> bool {
    key.len() <= MAX_KEY_LENGTH
        && key.starts_with(|first: char| first.is_ascii_alphabetic())
        && key.ends_with(|last: char| last.is_ascii_alphanumeric())
        && key
            .chars()
            .all(|char| char.is_ascii_alphanumeric() || matches!(char, '.' | '_' | '-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(key: &str, value: &str) -> KeyedValue {
        KeyedValue {
            key: key.to_owned(),
            value: Secret::new(value.to_owned()),
        }
    }

    fn pairs(values: &[KeyedValue]) -> Vec<(&str, &str)> {
        let pairs = values
            .iter()
            .map(|one| (one.key.as_str(), one.value.expose().as_str()));
        pairs.collect()
    }

    #[test]
    fn key_starts_with_a_letter_and_has_inner_separators() {
        for key in ["a", "X-A", "x1", "a.b_c-d", &"a".repeat(MAX_KEY_LENGTH)] {
            assert!(is_key(key), "{key}");
        }
        for key in [
            "",
            "1a",
            "-a",
            "a-",
            "a b",
            "a:b",
            "a\nb",
            "\u{e4}",
            &"a".repeat(MAX_KEY_LENGTH + 1),
        ] {
            assert!(!is_key(key), "{key}");
        }
    }

    #[test]
    fn headers_are_merged_by_name_without_case() {
        let stored = [value("X-A", "1"), value("X-B", "2")];
        let merged = ValueKind::CustomHeaders.merge(&stored, &[value("x-b", "3"), value("X-C", "4")]);
        let merged = merged.expect("valid headers");
        assert_eq!(pairs(&merged), [("X-A", "1"), ("x-b", "3"), ("X-C", "4")]);
        assert!(!are_equal(&stored, &merged) && are_equal(&merged, &merged.clone()));
    }

    #[test]
    fn invalid_and_surplus_headers_are_rejected() {
        let kind = ValueKind::CustomHeaders;
        for (key, text) in [
            ("a b", "x"),
            ("a", ""),
            ("a", " \t"),
            ("a", "x\r\nb: y"),
            ("a", "\0"),
        ] {
            assert!(kind.merge(&[], &[value(key, text)]).is_err(), "{key} {text}");
        }
        let long = |length| [value("a", &"x".repeat(length))];
        assert!(kind.merge(&[], &long(MAX_VALUE_LENGTH)).is_ok());
        assert!(kind.merge(&[], &long(MAX_VALUE_LENGTH + 1)).is_err());
        let many: Vec<KeyedValue> = (0..MAX_VALUES)
            .map(|number| value(&format!("a{number}"), "x"))
            .collect();
        assert!(kind.merge(&[], &many).is_ok());
        assert!(kind.merge(&many, &[value("a0", "y")]).is_ok());
        assert!(kind.merge(&many, &[value("b", "x")]).is_err());
    }
}
