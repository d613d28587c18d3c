//! What users, and with them their personal namespaces, may be called.

use regex::Regex;
use std::sync::LazyLock;

use crate::error::{Error, Result};

/// Most characters of a name, a user name or an address.
const MAX_LENGTH: usize = 255;

/// Words that mean something at the top of the server's own paths, or did in the reference service: neither a
/// user nor a group at the top level may take them.
const RESERVED: [&str; 52] = [
    "-",
    ".well-known",
    "404.html",
    "422.html",
    "500.html",
    "502.html",
    "503.html",
    "abuse_reports",
    "admin",
    "api",
    "apple-touch-icon.png",
    "assets",
    "autocomplete",
    "dashboard",
    "deploy.html",
    "docs",
    "explore",
    "favicon.ico",
    "favicon.png",
    "files",
    "groups",
    "health_check",
    "help",
    "import",
    "internal",
    "invites",
    "jwt",
    "login",
    "metrics",
    "new",
    "notes",
    "notification_settings",
    "oauth",
    "profile",
    "projects",
    "public",
    "robots.txt",
    "s",
    "search",
    "sent_notifications",
    "sitemap",
    "sitemap.xml",
    "slash-command-logo.png",
    "snippets",
    "system",
    "teams",
    "unicorn_test",
    "unsubscribes",
    "uploads",
    "user",
    "users",
    "v2",
];

/// Whether a path at the top level belongs to the server itself, without regard to case.
#[must_use]
pub fn is_reserved(path: &str) -> bool {
    RESERVED.iter().any(|word| word.eq_ignore_ascii_case(path))
}

/// Checks a user name, which becomes the path of the personal namespace.
///
/// # Errors
/// 400 under `username`.
pub fn check_username(username: &str) -> Result<()> {
    static SHAPE: LazyLock<Option<Regex>> =
        LazyLock::new(|| Regex::new(r"\A[A-Za-z0-9_.][A-Za-z0-9_.\-]*\z").ok());
    let folded = username.to_ascii_lowercase();
    let shaped = SHAPE.as_ref().is_some_and(|shape| shape.is_match(username));
    let refused_end = [".", ".git", ".atom"].iter().any(|end| folded.ends_with(end));
    if !shaped || refused_end {
        return Err(Error::attribute(
            "username",
            "can contain only letters, digits, '_', '-' and '.'. Cannot start with '-' or end in '.', '.git' or '.atom'.",
        ));
    }
    check_length("username", username)?;
    if is_reserved(username) {
        return Err(Error::attribute("username", "is a reserved name"));
    }
    Ok(())
}

/// Checks an address for mail: something on both sides of one `@`, and nothing a mail header could trip over.
///
/// # Errors
/// 400 under `email`.
pub fn check_email(email: &str) -> Result<()> {
    let harmless = !email
        .chars()
        .any(|char| char.is_whitespace() || char.is_control() || "<>,;\"()[]\\".contains(char));
    let parts: Vec<&str> = email.split('@').collect();
    let whole = matches!(parts.as_slice(), [local, domain] if !local.is_empty() && !domain.is_empty());
    if !harmless || !whole {
        return Err(Error::attribute("email", "is invalid"));
    }
    check_length("email", email)
}

fn check_length(attribute: &'static str, text: &str) -> Result<()> {
    if text.chars().count() > MAX_LENGTH {
        let fault = format!("is too long (maximum is {MAX_LENGTH} characters)");
        return Err(Error::attribute(attribute, fault));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usernames_are_safe_path_segments() {
        for good in ["ada", "Ada.L", "_x", ".dot", "a-b_c.d", "7"] {
            assert!(check_username(good).is_ok(), "{good}");
        }
        let long = "a".repeat(256);
        for bad in [
            "", "-ada", "ada.", "ada.git", "ada.GIT", "ada.atom", "a b", "a/b", "..", ".", "ädä", "a\n",
            "api", "API", "Users", "-", &long,
        ] {
            assert!(check_username(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses_have_two_sides_and_no_traps() {
        for good in ["a@b", "root@localhost", "ada+git@example.com"] {
            assert!(check_email(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\r\nBcc: c@d", "<a@b>"] {
            assert!(check_email(bad).is_err(), "{bad}");
        }
    }
}
