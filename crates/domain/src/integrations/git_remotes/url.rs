//! URL of a remote repository. The credentials are stored separately, so that they are never displayed.

use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Origin, ParseError, Url};

use crate::integrations::webhooks::{self, RejectedUrl};
use crate::secrets::Secret;

/// Maximum length of a URL in bytes.
const MAX_URL_LENGTH: usize = 2048;
/// Replacement for a username or password in a displayed URL.
const MASK: &str = "*****";
/// Minimum length of a username that is masked in texts, in bytes.
const MIN_MASKED_NAME_LENGTH: usize = 3;

/// A valid URL of a remote repository.
#[derive(Debug, Clone)]
pub struct RemoteUrl {
    /// The URL for display: username and password are masked.
    pub shown: String,
    /// Username and password, percent-encoded as received and separated by a colon.
    pub credentials: Option<Secret<String>>,
}

/// The reason why a URL is not accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RejectedRemote {
    /// The scheme is neither HTTP nor HTTPS.
    #[error("is blocked: Only allowed schemes are http, https")]
    Scheme,
    /// It is not a URL of a repository.
    #[error("is blocked: URI is invalid")]
    Invalid,
    /// The host is local, and the settings forbid local hosts.
    #[error("is blocked: Requests to the local network are not allowed")]
    Local,
    /// The host is forbidden in any case.
    #[error("is blocked: Requests to the local network are not allowed")]
    Address,
}

impl RemoteUrl {
    /// Parses the URL that a user entered. Host names are not resolved here; their addresses are checked when a
    /// connection is opened. `local` allows loopback and private hosts.
    ///
    /// # Errors
    /// Returns why the URL is not accepted. A URL whose username or password is the mask of a displayed URL is invalid.
    pub fn parse(text: &str, local: bool) -> Result<Self, RejectedRemote> {
        let url = Self::parse_with_masks(text, local)?;
        match url.credentials.as_ref().map(decoded) {
            Some(credentials) if credentials.has_mask() => Err(RejectedRemote::Invalid),
            _ => Ok(url),
        }
    }

    /// Parses a URL like [`Self::parse`]. Its credentials can be masks.
    fn parse_with_masks(text: &str, local: bool) -> Result<Self, RejectedRemote> {
        if text.len() > MAX_URL_LENGTH || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(RejectedRemote::Invalid);
        }
        let mut url = match Url::parse(text) {
            // The form `git@host:path` of SSH.
            Err(ParseError::RelativeUrlWithoutBase) => return Err(RejectedRemote::Scheme),
            parsed => parsed.map_err(|_| RejectedRemote::Invalid)?,
        };
        if !matches!(url.scheme(), "http" | "https") {
            return Err(RejectedRemote::Scheme);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(RejectedRemote::Invalid);
        }
        webhooks::check(&url, local).map_err(|rejected| match rejected {
            RejectedUrl::Local => RejectedRemote::Local,
            RejectedUrl::Invalid | RejectedUrl::Reserved => RejectedRemote::Address,
        })?;
        let (user, password) = (url.username().to_owned(), url.password().map(str::to_owned));
        if user.is_empty() && password.is_none() {
            return Ok(Self {
                shown: text.to_owned(),
                credentials: None,
            });
        }
        let mask = |text: &str| if text.is_empty() { "" } else { MASK };
        let masked = url
            .set_username(mask(&user))
            .and_then(|()| url.set_password(password.as_deref().map(mask)));
        masked.map_err(|()| RejectedRemote::Invalid)?;
        let credentials = match password {
            Some(password) => format!("{user}:{password}"),
            None => user,
        };
        Ok(Self {
            shown: url.into(),
            credentials: Some(Secret::new(credentials)),
        })
    }
}

/// A change of a stored URL. Absent parts do not change.
#[derive(Debug, Clone, Default)]
pub struct UrlChange {
    /// The URL, which can contain credentials.
    pub url: Option<String>,
    /// The username. An empty one is removed.
    pub user: Option<String>,
    /// The password. An empty one is removed.
    pub password: Option<Secret<String>>,
}

impl RemoteUrl {
    /// Changes a stored URL. A URL with another scheme, host or port does not keep the stored credentials, which are
    /// meant for one server. A client sends the URL that it has read, so a masked username or password is the stored
    /// one.
    ///
    /// # Errors
    /// Returns why the URL is not accepted. A mask without a stored value for the server is invalid.
    pub fn changed(stored: Option<Self>, change: UrlChange, local: bool) -> Result<Self, RejectedRemote> {
        let given = change
            .url
            .map(|url| Self::parse_with_masks(url.trim(), local))
            .transpose()?;
        let target = given.as_ref().or(stored.as_ref());
        let target = target.ok_or(RejectedRemote::Invalid)?.shown.clone();
        let kept = stored.filter(|stored| origin(&stored.shown) == origin(&target));
        let kept = kept.and_then(|kept| kept.credentials);
        let kept = kept.as_ref().map(decoded).unwrap_or_default();
        let sent = given.and_then(|given| given.credentials);
        let sent = sent.as_ref().map_or_else(|| kept.clone(), decoded);
        let user = match change.user.unwrap_or(sent.user) {
            masked if masked == MASK && kept.user.is_empty() => return Err(RejectedRemote::Invalid),
            masked if masked == MASK => kept.user,
            user => user,
        };
        let password = match change.password.or(sent.password) {
            Some(masked) if masked.expose() == MASK => Some(kept.password.ok_or(RejectedRemote::Invalid)?),
            password => password,
        };
        let password = password.filter(|password| !password.expose().is_empty());
        let mut url = Url::parse(&target).map_err(|_| RejectedRemote::Invalid)?;
        if user.is_empty() && password.is_none() {
            let is_plain = url.username().is_empty() && url.password().is_none();
            if is_plain {
                return Self::parse(&target, local);
            }
        }
        let encoded = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
        let password = password.map(|password| encoded(password.expose()));
        url.set_username(&encoded(&user))
            .and_then(|()| url.set_password(password.as_deref()))
            .map_err(|()| RejectedRemote::Invalid)?;
        Self::parse(url.as_str(), local)
    }
}

fn origin(shown: &str) -> Option<Origin> {
    Url::parse(shown).ok().map(|url| url.origin())
}

/// Username and password, decoded.
#[derive(Clone, Default)]
pub(super) struct RemoteCredentials {
    pub(super) user: String,
    pub(super) password: Option<Secret<String>>,
}

impl RemoteCredentials {
    /// Returns whether the username or password is the mask of a displayed URL.
    fn has_mask(&self) -> bool {
        let password = self.password.as_ref();
        self.user == MASK || password.is_some_and(|password| password.expose() == MASK)
    }
}

/// Returns the credentials of [`RemoteUrl::credentials`].
pub(super) fn decoded(credentials: &Secret<String>) -> RemoteCredentials {
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    match credentials.expose().split_once(':') {
        Some((user, password)) => RemoteCredentials {
            user: decoded(user),
            password: Some(Secret::new(decoded(password))),
        },
        None => RemoteCredentials {
            user: decoded(credentials.expose()),
            password: None,
        },
    }
}

/// Replaces the credentials in a text that may contain them, such as an error of the remote repository.
pub(super) fn without_credentials(text: &str, credentials: &Secret<String>) -> String {
    let RemoteCredentials { user, password } = decoded(credentials);
    let (raw_user, raw_password) = credentials
        .expose()
        .split_once(':')
        .unwrap_or((credentials.expose(), ""));
    let decoded_password = password
        .as_ref()
        .map_or("", |password| password.expose().as_str());
    let mut text = text.to_owned();
    for secret in [raw_password, decoded_password] {
        if !secret.is_empty() {
            text = text.replace(secret, MASK);
        }
    }
    // A token can be the username. A shorter name is no token, and is part of other words.
    for name in [raw_user, &user] {
        if name.len() >= MIN_MASKED_NAME_LENGTH {
            text = text.replace(name, MASK);
        }
    }
    text
}

/// Returns the URL of a service of a remote repository, without credentials.
pub(super) fn service(shown: &str, service: &str) -> Result<Url, RejectedRemote> {
    let mut url = Url::parse(shown).map_err(|_| RejectedRemote::Invalid)?;
    let path = format!("{}/{service}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url.set_username("").map_err(|()| RejectedRemote::Invalid)?;
    url.set_password(None).map_err(|()| RejectedRemote::Invalid)?;
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remote_url_requires_http_and_public_host() {
        let rejected = |text: &str| RemoteUrl::parse(text, false).err();
        for text in [
            "http://example.com/a.git",
            "https://example.com:8443/a/b",
            "https://u:p@example.com/",
        ] {
            assert_eq!(rejected(text), None, "{text}");
        }
        for (text, reason) in [
            ("ssh://git@example.com/a.git", RejectedRemote::Scheme),
            ("git://example.com/a.git", RejectedRemote::Scheme),
            ("file:///etc", RejectedRemote::Scheme),
            ("git@example.com:a.git", RejectedRemote::Scheme),
            ("", RejectedRemote::Scheme),
            ("example.com/a.git", RejectedRemote::Scheme),
            ("http://", RejectedRemote::Invalid),
            ("http://exa mple.com/", RejectedRemote::Invalid),
            ("http://example.com/\r\n", RejectedRemote::Invalid),
            ("http://example.com/a?b", RejectedRemote::Invalid),
            ("http://example.com/a#b", RejectedRemote::Invalid),
            ("http://*****:*****@example.com/a", RejectedRemote::Invalid),
            ("http://*****:p@example.com/a", RejectedRemote::Invalid),
            ("http://u:*****@example.com/a", RejectedRemote::Invalid),
            ("http://%2A%2A%2A%2A%2A@example.com/a", RejectedRemote::Invalid),
            ("http://127.0.0.1/a", RejectedRemote::Local),
            ("http://localhost/a", RejectedRemote::Local),
            ("http://u:p@[::1]/a", RejectedRemote::Local),
            ("http://169.254.169.254/a", RejectedRemote::Address),
        ] {
            assert_eq!(rejected(text), Some(reason), "{text}");
        }
        assert!(RemoteUrl::parse("http://localhost:1/a", true).is_ok());
        assert!(RemoteUrl::parse("http://169.254.169.254/a", true).is_err());
    }

    #[test]
    fn credentials_are_masked_and_restored() {
        for (text, shown, user, password) in [
            (
                "https://ada:p%40ss@example.com/a.git",
                "https://*****:*****@example.com/a.git",
                "ada",
                Some("p@ss"),
            ),
            (
                "https://token@example.com/a",
                "https://*****@example.com/a",
                "token",
                None,
            ),
            (
                "https://:x@example.com/a",
                "https://:*****@example.com/a",
                "",
                Some("x"),
            ),
        ] {
            let url = RemoteUrl::parse(text, false).expect("a URL");
            assert_eq!(url.shown, shown);
            let credentials = url.credentials.expect("credentials");
            let found = decoded(&credentials);
            assert_eq!(found.user, user);
            assert_eq!(found.password.map(Secret::into_exposed).as_deref(), password);
            let service = service(&url.shown, "info/refs").expect("a URL");
            assert!(service.as_str().starts_with("https://example.com/a"), "{service}");
            assert!(service.path().ends_with("/info/refs"));
        }
        let plain = RemoteUrl::parse("https://example.com/a.git/", false).expect("a URL");
        assert_eq!(plain.shown, "https://example.com/a.git/");
        assert!(plain.credentials.is_none());
        let url = service(&plain.shown, "git-receive-pack").expect("a URL");
        assert_eq!(url.as_str(), "https://example.com/a.git/git-receive-pack");
    }

    fn changed(
        stored: &str,
        url: Option<&str>,
        user: Option<&str>,
        password: Option<&str>,
    ) -> (String, String) {
        try_changed(stored, url, user, password).expect("a URL")
    }

    /// Returns the changed URL, and its username and password.
    fn try_changed(
        stored: &str,
        url: Option<&str>,
        user: Option<&str>,
        password: Option<&str>,
    ) -> Result<(String, String), RejectedRemote> {
        let stored = (!stored.is_empty()).then(|| RemoteUrl::parse(stored, false).expect("a URL"));
        let change = UrlChange {
            url: url.map(str::to_owned),
            user: user.map(str::to_owned),
            password: password.map(|password| Secret::new(password.to_owned())),
        };
        let url = RemoteUrl::changed(stored, change, false)?;
        let credentials = url.credentials.as_ref().map(decoded);
        let credentials = credentials.map(|found| {
            let password = found.password.map(Secret::into_exposed);
            format!("{} {}", found.user, password.unwrap_or_default())
        });
        Ok((url.shown, credentials.unwrap_or_default()))
    }

    #[test]
    fn each_masked_part_is_the_stored_one() {
        let stored = "https://ada:p%40ss@example.com/a.git";
        for (url, user, password, expected) in [
            ("https://*****:new@example.com/a.git", None, None, "ada new"),
            ("https://bob:*****@example.com/a.git", None, None, "bob p@ss"),
            ("https://*****:*****@example.com/b.git", None, None, "ada p@ss"),
            ("https://*****@example.com/a.git", None, None, "ada "),
            ("https://example.com/a.git", Some("*****"), Some("new"), "ada new"),
            (
                "https://example.com/a.git",
                Some("bob"),
                Some("*****"),
                "bob p@ss",
            ),
            (
                "https://*****:*****@example.org/a",
                Some("bob"),
                Some("new"),
                "bob new",
            ),
        ] {
            let found = try_changed(stored, Some(url), user, password);
            assert_eq!(
                found.map(|(_, credentials)| credentials),
                Ok(expected.to_owned()),
                "{url}"
            );
        }
        let invalid = Err(RejectedRemote::Invalid);
        for url in [
            "https://*****:*****@example.org/a.git",
            "https://*****:new@example.org/a.git",
            "https://bob:*****@example.org/a.git",
            "http://*****:*****@example.com/a.git",
        ] {
            assert_eq!(try_changed(stored, Some(url), None, None), invalid, "{url}");
            assert_eq!(try_changed("", Some(url), None, None), invalid, "{url}");
        }
        let without_password = "https://token@example.com/a";
        let url = Some("https://*****:*****@example.com/a");
        assert_eq!(try_changed(without_password, url, None, None), invalid);
        let without_user = "https://:x@example.com/a";
        assert_eq!(try_changed(without_user, url, None, None), invalid);
    }

    #[test]
    fn credentials_remain_while_the_server_is_the_same() {
        let stored = "https://ada:p%40ss@example.com/a.git";
        let shown = "https://*****:*****@example.com/a.git";
        let same = (shown.to_owned(), "ada p@ss".to_owned());
        assert_eq!(changed(stored, None, None, None), same);
        assert_eq!(changed(stored, Some(shown), None, None), same);
        let moved = changed(stored, Some("https://example.com:443/b"), None, None);
        assert_eq!(moved.1, "ada p@ss");
        assert!(moved.0.ends_with("/b"), "{moved:?}");
        for other in [
            "https://example.org/a.git",
            "http://example.com/a.git",
            "https://example.com:1/a.git",
        ] {
            assert_eq!(
                changed(stored, Some(other), None, None),
                (other.to_owned(), String::new())
            );
        }
        assert_eq!(
            changed(stored, None, Some("bob"), None),
            (shown.to_owned(), "bob p@ss".to_owned())
        );
        assert_eq!(
            changed(stored, None, None, Some("1%41:@")),
            (shown.to_owned(), "ada 1%41:@".to_owned())
        );
        let removed = changed(stored, None, Some(""), Some(""));
        assert_eq!(removed, ("https://example.com/a.git".to_owned(), String::new()));
        let new = changed("", Some("https://example.com/a"), Some("u:v"), Some("w"));
        assert_eq!(
            new,
            ("https://*****:*****@example.com/a".to_owned(), "u:v w".to_owned())
        );
        assert_eq!(
            changed("", Some("HTTPS://Example.com/x"), None, None),
            ("HTTPS://Example.com/x".to_owned(), String::new())
        );
    }

    #[test]
    fn credentials_are_removed_from_texts() {
        let credentials = Secret::new("ada:p%40ss".to_owned());
        assert_eq!(
            without_credentials("no access for ada with p@ss or p%40ss", &credentials),
            "no access for ***** with ***** or *****"
        );
    }
}
