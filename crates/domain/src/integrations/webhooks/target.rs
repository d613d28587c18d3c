//! Address of a webhook. The password is stored separately, so that it is never displayed.

use std::net::IpAddr;

use percent_encoding::percent_decode_str;
use url::{Host, Url};

use super::address::is_allowed;
use crate::secrets::Secret;

/// Maximum length of an address, in bytes.
const MAX_URL_LENGTH: usize = 2048;

/// Replacement for a password in a displayed address.
pub const MASKED_PASSWORD: &str = "*****";

/// A valid address for a webhook.
#[derive(Debug, Clone)]
pub struct WebhookTarget {
    /// The address for display: a password is replaced by [`MASKED_PASSWORD`].
    pub shown: String,
    /// The password, percent-encoded as received.
    pub password: Option<Secret<String>>,
}

/// The reason why an address is not accepted.
#[derive(Debug, Clone, Copy, thiserror::Error, PartialEq, Eq)]
pub enum RejectedUrl {
    /// It is not an HTTP or HTTPS URL with a host.
    #[error("the address is not an HTTP URL")]
    Invalid,
    /// The host is forbidden because it is local.
    #[error("the host is in the local network")]
    Local,
    /// The host is forbidden in any case.
    #[error("the host is reserved")]
    Reserved,
}

impl WebhookTarget {
    /// Parses the address that a user entered. Host names are not resolved here; their addresses are checked
    /// when a connection is opened. `local` allows loopback and private hosts.
    ///
    /// # Errors
    /// Returns [`RejectedUrl`] if the address is not http or https with a permitted host.
    pub fn parse(text: &str, local: bool) -> Result<Self, RejectedUrl> {
        if text.len() > MAX_URL_LENGTH || text.contains(|c: char| c.is_control() || c.is_whitespace()) {
            return Err(RejectedUrl::Invalid);
        }
        let mut url = Url::parse(text).map_err(|_| RejectedUrl::Invalid)?;
        check(&url, local)?;
        let Some(password) = url.password().map(str::to_owned) else {
            return Ok(Self {
                shown: text.to_owned(),
                password: None,
            });
        };
        url.set_password(Some(MASKED_PASSWORD))
            .map_err(|()| RejectedUrl::Invalid)?;
        Ok(Self {
            shown: url.into(),
            password: Some(Secret::new(password)),
        })
    }

    /// Returns whether another displayed address has the same origin: scheme, host and port. The parts are compared
    /// as parsed, so the case and the spelling of the host and a default port make no difference. A trailing dot of
    /// the host does: without it, a name may resolve to another host.
    #[must_use]
    pub fn has_origin_of(&self, shown: &str) -> bool {
        parse_both(&self.shown, shown).is_some_and(|(own, other)| own.origin() == other.origin())
    }

    /// Returns whether another displayed address has the same username.
    #[must_use]
    pub fn has_username_of(&self, shown: &str) -> bool {
        parse_both(&self.shown, shown).is_some_and(|(own, other)| own.username() == other.username())
    }
}

fn parse_both(one: &str, other: &str) -> Option<(Url, Url)> {
    Some((Url::parse(one).ok()?, Url::parse(other).ok()?))
}

/// URL and credentials of a request.
pub(super) struct WebhookDestination {
    /// The URL without user and password.
    pub url: Url,
    /// User and password, decoded.
    pub credentials: Option<(String, Option<String>)>,
}

/// Restores the URL and credentials from a displayed address and its password. Without a password, the address can
/// contain one that is not masked.
pub(super) fn destination(
    shown: &str,
    password: Option<&Secret<String>>,
) -> Result<WebhookDestination, RejectedUrl> {
    let mut url = Url::parse(shown).map_err(|_| RejectedUrl::Invalid)?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let named = !url.username().is_empty() || url.password().is_some();
    let credentials = named.then(|| {
        let contained = url.password().filter(|contained| *contained != MASKED_PASSWORD);
        let password = password.map(|password| password.expose().as_str()).or(contained);
        (decoded(url.username()), password.map(decoded))
    });
    url.set_username("").map_err(|()| RejectedUrl::Invalid)?;
    url.set_password(None).map_err(|()| RejectedUrl::Invalid)?;
    url.set_fragment(None);
    Ok(WebhookDestination { url, credentials })
}

impl RejectedUrl {
    /// Returns the text for the log of deliveries and the state of mirrors. It names the setting that forbids the
    /// address.
    pub(in crate::integrations) fn reason(self) -> &'static str {
        match self {
            Self::Local => {
                "the address is not allowed (setting: allow_local_requests_from_hooks_and_services)"
            }
            Self::Invalid | Self::Reserved => "the address is not allowed",
        }
    }
}

/// Checks that an address has a permitted scheme and host. Literal IP addresses are checked here, since a
/// client resolves only names.
pub(in crate::integrations) fn check(url: &Url, local: bool) -> Result<(), RejectedUrl> {
    if !matches!(url.scheme(), "http" | "https") || url.port_or_known_default() == Some(0) {
        return Err(RejectedUrl::Invalid);
    }
    let permits = |local| match url.host() {
        None => None,
        Some(Host::Ipv4(address)) => Some(is_allowed(IpAddr::V4(address), local)),
        Some(Host::Ipv6(address)) => Some(is_allowed(IpAddr::V6(address), local)),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_local = name == "localhost" || name.ends_with(".localhost");
            (!name.is_empty()).then_some(local || !is_local)
        }
    };
    match permits(local) {
        None => Err(RejectedUrl::Invalid),
        Some(true) => Ok(()),
        Some(false) if permits(true) == Some(true) => Err(RejectedUrl::Local),
        Some(false) => Err(RejectedUrl::Reserved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhook_url_requires_http_and_public_host() {
        for text in [
            "http://example.com/hook",
            "https://ci.example.com:8443/a?b=c",
            "HTTP://EXAMPLE.COM",
        ] {
            assert!(WebhookTarget::parse(text, false).is_ok(), "{text}");
        }
        for text in [
            "",
            "example.com",
            "ftp://example.com",
            "file:///etc/passwd",
            "gopher://example.com",
            "http://",
            "http://example.com:0/",
            "http://exa mple.com",
            "http://example.com/\r\nX: y",
            "http://localhost/",
            "http://a.LOCALHOST./",
            "http://127.0.0.1/",
            "http://127.1/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0177.0.0.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://169.254.169.254/latest/meta-data",
            "http://0/",
            "http://user@127.0.0.1/",
            "http://example.com@127.0.0.1/",
            "http://127\u{3002}0\u{3002}0\u{3002}1/",
            "http://\u{24db}\u{24de}\u{24d2}\u{24d0}\u{24db}\u{24d7}\u{24de}\u{24e2}\u{24e3}/",
            "http://%6c%6f%63%61%6c%68%6f%73%74/",
            "http://[fe80::1%25lo]/",
            "http://127.0.0.1.:80/",
        ] {
            assert!(WebhookTarget::parse(text, false).is_err(), "{text}");
        }
        assert!(WebhookTarget::parse("http://localhost:1/", true).is_ok());
        assert!(WebhookTarget::parse("http://169.254.169.254/", true).is_err());
        assert!(WebhookTarget::parse(&format!("http://e.com/{}", "x".repeat(2048)), true).is_err());
    }

    #[test]
    fn rejection_distinguishes_local_and_reserved_hosts() {
        for (text, reason) in [
            ("http://", RejectedUrl::Invalid),
            ("ftp://localhost/", RejectedUrl::Invalid),
            ("http://localhost/", RejectedUrl::Local),
            ("http://127.1/", RejectedUrl::Local),
            ("http://[::1]/", RejectedUrl::Local),
            ("http://169.254.169.254/", RejectedUrl::Reserved),
        ] {
            assert_eq!(WebhookTarget::parse(text, false).err(), Some(reason), "{text}");
        }
    }

    #[test]
    fn webhook_url_password_is_masked_and_sent_as_credentials() {
        let target = WebhookTarget::parse("https://ada:p%40ss@example.com/x#y", false).expect("a target");
        assert_eq!(target.shown, "https://ada:*****@example.com/x#y");
        assert!(!format!("{target:?}").contains("p%40ss"));
        let parts = destination(&target.shown, target.password.as_ref()).expect("a destination");
        assert_eq!(parts.url.as_str(), "https://example.com/x");
        assert_eq!(
            parts.credentials,
            Some(("ada".to_owned(), Some("p@ss".to_owned())))
        );
    }

    #[test]
    fn origin_is_compared_as_parsed() {
        let target = |text: &str| WebhookTarget::parse(text, true).expect("a target");
        let stored = "https://ada:*****@hooks.example.com/a?b=c";
        for same in [
            "https://hooks.example.com",
            "https://hooks.example.com:443/",
            "HTTPS://HOOKS.Example.COM/a",
            "https://bob:secret@hooks.example.com/d?e#f",
            "https://hooks%2Eexample.com/",
            "https://hooks\u{3002}example.com/",
            "https:\\\\hooks.example.com\\@evil.example.com",
        ] {
            assert!(target(same).has_origin_of(stored), "{same}");
        }
        for other in [
            "http://hooks.example.com/a?b=c",
            "http://hooks.example.com:443/",
            "https://hooks.example.com:8443/",
            "https://hooks.example.com./",
            "https://hooks.example.org/",
            "https://example.com/",
            "https://hooks.example.com.evil.example/",
            "https://hooks.example.com@evil.example/",
            "https://h\u{43e}\u{43e}ks.example.com/",
        ] {
            assert!(!target(other).has_origin_of(stored), "{other}");
        }
        for (one, other, same) in [
            (
                "https://b\u{fc}cher.example/",
                "https://xn--bcher-kva.example/a",
                true,
            ),
            (
                "https://B\u{dc}CHER.example/",
                "https://b\u{fc}cher.example/",
                true,
            ),
            ("https://b\u{fc}cher.example/", "https://bucher.example/", false),
            ("http://127.0.0.1/", "http://2130706433/", true),
            ("http://127.0.0.1/", "http://[::ffff:7f00:1]/", false),
            ("http://[::1]/", "http://[0:0::1]:80/", true),
            ("https://example.com/", "no address", false),
        ] {
            assert_eq!(target(one).has_origin_of(other), same, "{one} {other}");
        }
    }

    #[test]
    fn username_is_compared_with_its_case() {
        let target = WebhookTarget::parse("https://ada:x@example.com/", false).expect("a target");
        assert!(target.has_username_of("https://ada@example.org/y"));
        assert!(!target.has_username_of("https://Ada:x@example.com/"));
        assert!(!target.has_username_of("https://example.com/"));
    }
}
