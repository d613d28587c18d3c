//! URLs of receivers with placeholders, such as `https://example.com/{key}`, for which URL variables are inserted.

use storage::entities::project_hooks;
use url::Url;

use super::values::{KeyedValue, ValueKind, is_key};
use crate::integrations::webhooks::{MASKED_PASSWORD, RejectedUrl, WebhookTarget};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::settings::ALLOW_LOCAL_REQUESTS;
use crate::secrets::Secret;

/// Replacement for a placeholder while a URL is parsed, because placeholders are not valid in hosts.
const MARKER: &str = "holdfastplaceholder";

/// A valid URL with its variables. Without `Debug`, because a log must not contain the values.
pub(super) struct ReceiverUrl {
    /// The URL for display, with placeholders and without its password.
    pub shown: String,
    /// The password in the URL, unless a variable contains it.
    pub password: Option<Secret<String>>,
    /// The URL with the values of its variables.
    target: WebhookTarget,
}

impl ReceiverUrl {
    /// Parses the URL that a user entered. The URL with the values of its variables must be a permitted address.
    ///
    /// # Errors
    /// Returns `Error::Unprocessable` if a variable is missing, or the URL is invalid with or without the values.
    pub fn parse(url: &str, variables: &[KeyedValue], local: bool) -> Result<Self> {
        let url = url.trim();
        let keys = placeholders(url);
        if let Some(key) = keys.iter().find(|key| find(variables, key).is_none()) {
            return Err(missing(key));
        }
        let target = WebhookTarget::parse(&expand(url, variables), local).map_err(rejected)?;
        if keys.is_empty() {
            return Ok(Self {
                shown: target.shown.clone(),
                password: target.password.clone(),
                target,
            });
        }
        let (shown, password) = masked(url, &keys).ok_or_else(invalid)?;
        Ok(Self {
            shown,
            password,
            target,
        })
    }

    /// Returns whether another URL with the values of its variables has the same origin.
    pub fn has_origin_of(&self, expanded: &str) -> bool {
        self.target.has_origin_of(expanded)
    }

    /// Returns whether another URL with the values of its variables has the same username.
    pub fn has_username_of(&self, expanded: &str) -> bool {
        self.target.has_username_of(expanded)
    }
}

/// The receiver of a webhook after an update.
pub(super) struct UpdatedReceiver {
    /// The URL.
    pub target: ReceiverUrl,
    /// The URL variables.
    pub variables: Vec<KeyedValue>,
    /// Whether the URL has the same origin as before, so that the stored secrets remain.
    pub is_same: bool,
}

impl UpdatedReceiver {
    /// Parses the URL and the URL variables of an update. Stored variables remain if the URL has the origin of
    /// `former_url`, which contains their values. Otherwise, no result depends on the stored values, because errors
    /// would reveal their length or form.
    ///
    /// # Errors
    /// Returns the errors of [`ReceiverUrl::parse`], and `Error::Unprocessable` if a variable is invalid, or there are
    /// too many variables.
    pub fn parse(
        (former_url, stored): (&str, &[KeyedValue]),
        (url, sent): (&str, &[KeyedValue]),
        local: bool,
    ) -> Result<Self> {
        let merged = || ValueKind::UrlVariables.merge(stored, sent);
        let variables = ValueKind::UrlVariables.merge(&[], sent)?;
        let refused = match ReceiverUrl::parse(url, &variables, local) {
            // The URL does not use stored variables.
            Ok(target) => {
                let is_same = target.has_origin_of(former_url);
                return Ok(Self {
                    target,
                    variables: if is_same { merged()? } else { variables },
                    is_same,
                });
            }
            Err(refused) => refused,
        };
        let variables = merged()?;
        if !has_same_origin(&expand(url.trim(), &variables), former_url) {
            return Err(refused);
        }
        Ok(Self {
            target: ReceiverUrl::parse(url, &variables, local)?,
            variables,
            is_same: true,
        })
    }
}

/// Checks the stored URL of a webhook with changed variables. `keys` are the keys of the stored variables. Other
/// placeholders remain: a webhook can be older than URL variables.
///
/// # Errors
/// Returns `Error::Unprocessable` if a stored variable is missing, or the URL with the values is not permitted.
pub(super) fn check_stored(url: &str, keys: &[String], variables: &[KeyedValue], local: bool) -> Result<()> {
    let used = placeholders(url);
    let is_missing = |key: &str| keys.iter().any(|one| one == key) && find(variables, key).is_none();
    if let Some(key) = used.iter().find(|key| is_missing(key)) {
        return Err(missing(key));
    }
    match WebhookTarget::parse(&expand(url, variables), local) {
        Ok(_) => Ok(()),
        Err(rejection) => Err(rejected(rejection)),
    }
}

/// Returns whether two URLs with the values of their variables have the same origin.
pub(super) fn has_same_origin(one: &str, other: &str) -> bool {
    match (Url::parse(one), Url::parse(other)) {
        (Ok(one), Ok(other)) => one.origin() == other.origin(),
        _ => false,
    }
}

/// Returns the URL of a webhook with the values of its variables, to which requests are sent.
///
/// # Errors
/// Returns an error if the variables cannot be decrypted.
pub(super) fn of_hook(backend: &Backend, hook: &project_hooks::Model) -> Result<String> {
    let variables = ValueKind::UrlVariables.read(backend, hook)?;
    Ok(expand(&hook.url, &variables))
}

/// Inserts the values of variables into a URL. Placeholders without a variable remain: a webhook can be older than URL
/// variables.
pub(super) fn expand(url: &str, variables: &[KeyedValue]) -> String {
    replaced(url, |key| {
        find(variables, key).map(|variable| variable.value.expose().clone())
    })
}

/// Returns whether a URL has a placeholder for a variable.
pub(super) fn has_placeholder(url: &str, key: &str) -> bool {
    placeholders(url).iter().any(|one| one == key)
}

fn find<'a>(variables: &'a [KeyedValue], key: &str) -> Option<&'a KeyedValue> {
    variables.iter().find(|variable| variable.key == key)
}

/// Returns the keys of the placeholders of a URL.
fn placeholders(url: &str) -> Vec<String> {
    let mut keys = Vec::new();
    replaced(url, |key| {
        keys.push(key.to_owned());
        None
    });
    keys
}

/// Replaces the placeholders for which there is a value.
fn replaced(url: &str, mut value: impl FnMut(&str) -> Option<String>) -> String {
    let mut text = String::with_capacity(url.len());
    let mut rest = url;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}').filter(|(key, _)| is_key(key)) {
            Some((key, tail)) => {
                let placeholder = || format!("{{{key}}}");
                text.push_str(&value(key).unwrap_or_else(placeholder));
                rest = tail;
            }
            None => {
                text.push('{');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text
}

/// Returns a URL with a mask in place of its password, and the password. A password that is one placeholder remains.
/// Returns `None` if the URL is invalid for any values, or if its password is only partly a placeholder.
fn masked(url: &str, keys: &[String]) -> Option<(String, Option<Secret<String>>)> {
    if url.contains(MARKER) {
        return None;
    }
    let mut number = 0..;
    let marked = replaced(url, |_| number.next().map(marker));
    let mut parsed = Url::parse(&marked).ok()?;
    let Some(password) = parsed.password().map(str::to_owned) else {
        return Some((url.to_owned(), None));
    };
    if password.contains(MARKER) {
        let is_placeholder = (0..keys.len()).any(|number| password == marker(number));
        return is_placeholder.then(|| (url.to_owned(), None));
    }
    parsed.set_password(Some(MASKED_PASSWORD)).ok()?;
    let mut shown = String::from(parsed);
    for (number, key) in keys.iter().enumerate() {
        shown = shown.replace(&marker(number), &format!("{{{key}}}"));
    }
    Some((shown, Some(Secret::new(password))))
}

/// Returns the marker of a placeholder. No marker is the prefix of another one.
fn marker(number: usize) -> String {
    format!("{MARKER}{number}x")
}

fn missing(key: &str) -> Error {
    Error::Unprocessable(format!("Invalid url given: the URL variable {key} is missing").into())
}

fn invalid() -> Error {
    Error::Unprocessable("Invalid url given".into())
}

/// Returns the error of a URL. If only its local address is refused, the error names the setting that allows it.
fn rejected(rejection: RejectedUrl) -> Error {
    match rejection {
        RejectedUrl::Local => Error::Unprocessable(
            "Invalid url given: requests to the local network are not allowed; an administrator can allow them with \
             the setting allow_local_requests_from_hooks_and_services"
                .into(),
        )
        .because_of(ALLOW_LOCAL_REQUESTS),
        RejectedUrl::Invalid | RejectedUrl::Reserved => invalid(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(pairs: &[(&str, &str)]) -> Vec<KeyedValue> {
        let values = pairs.iter().map(|(key, value)| KeyedValue {
            key: (*key).to_owned(),
            value: Secret::new((*value).to_owned()),
        });
        values.collect()
    }

    #[test]
    fn values_replace_placeholders_once() {
        let values = variables(&[("a", "{b}"), ("b", "x"), ("c.d", "y z")]);
        for (url, expanded) in [
            ("https://h/{a}/{b}?{c.d}", "https://h/{b}/x?y z"),
            ("https://h/{unknown}{b", "https://h/{unknown}{b"),
            ("https://h/{}{a b}{{b}}", "https://h/{}{a b}{x}"),
            ("https://h/", "https://h/"),
        ] {
            assert_eq!(expand(url, &values), expanded, "{url}");
        }
        assert!(has_placeholder("https://h/{a}", "a") && !has_placeholder("https://h/a{b}", "a"));
    }

    #[test]
    fn url_with_values_must_be_permitted() {
        let parse = |url: &str, pairs: &[(&str, &str)]| ReceiverUrl::parse(url, &variables(pairs), false);
        for (url, pairs) in [
            ("https://{host}/x", [("host", "example.com")]),
            ("https://{sub}.example.com/", [("sub", "hooks")]),
            ("https://example.com/{path}?q#f", [("path", "a/b?c=d")]),
        ] {
            assert_eq!(parse(url, &pairs).expect("a URL").shown, url);
        }
        for (url, pairs) in [
            ("https://{host}/", [("host", "localhost")]),
            ("https://example.com{rest}/", [("rest", "@127.0.0.1")]),
            ("http://{ip}/", [("ip", "169.254.169.254")]),
            ("https://example.com/{path}", [("path", "a b")]),
            ("https://example.com/{other}", [("path", "a")]),
            ("https://ada:part{pw}@example.com/", [("pw", "x")]),
            ("https://example.com:{port}/", [("port", "443")]),
        ] {
            assert!(parse(url, &pairs).is_err(), "{url}");
        }
    }

    #[test]
    fn password_next_to_placeholders_is_masked() {
        let values = variables(&[("path", "a"), ("pw", "x")]);
        let url = ReceiverUrl::parse("https://ada:secret@example.com/{path}/{path}", &values, false);
        let url = url.expect("a URL");
        assert_eq!(url.shown, "https://ada:*****@example.com/{path}/{path}");
        assert_eq!(url.password.map(Secret::into_exposed).as_deref(), Some("secret"));
        let url = ReceiverUrl::parse("https://ada:{pw}@example.com/{path}", &values, false);
        let url = url.expect("a URL");
        assert_eq!(url.shown, "https://ada:{pw}@example.com/{path}");
        assert!(url.password.is_none() && url.has_username_of("https://ada@example.org/"));
    }

    #[test]
    fn origins_are_compared_with_values() {
        let values = variables(&[("host", "example.com")]);
        let url = ReceiverUrl::parse("https://{host}/a", &values, false).expect("a URL");
        assert!(url.has_origin_of("https://example.com/b") && !url.has_origin_of("https://example.org/a"));
    }
}
