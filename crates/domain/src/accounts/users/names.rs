//! Rules for user names, which are also the paths of personal namespaces, and for email addresses.

use crate::kernel::error::{Error, Result};
use crate::kernel::names;

/// Validates a user name, which is also the path of the personal namespace.
///
/// # Errors
/// Returns a validation error for `username`.
pub fn check_username(username: &str) -> Result<()> {
    check("username", names::path_fault(username, true))
}

/// Validates an email address: text on both sides of one `@`, without characters that could break a mail
/// header.
///
/// # Errors
/// Returns a validation error for `email`.
pub fn check_email(email: &str) -> Result<()> {
    let harmless = !email
        .chars()
        .any(|char| char.is_whitespace() || char.is_control() || "<>,;\"()[]\\".contains(char));
    let parts: Vec<&str> = email.split('@').collect();
    let has_both_parts =
        matches!(parts.as_slice(), [local, domain] if !local.is_empty() && !domain.is_empty());
    if !harmless || !has_both_parts {
        return Err(Error::attribute("email", "is invalid"));
    }
    check("email", names::length_fault(email))
}

fn check(attribute: &'static str, fault: Option<&'static str>) -> Result<()> {
    fault.map_or(Ok(()), |fault| Err(Error::attribute(attribute, fault)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn username_must_be_safe_path_segment() {
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
    fn email_rejects_invalid_and_unsafe_addresses() {
        for good in ["a@b", "root@localhost", "ada+git@example.com"] {
            assert!(check_email(good).is_ok(), "{good}");
        }
        for bad in ["", "a", "@b", "a@", "a@b@c", "a b@c", "a@b\r\nBcc: c@d", "<a@b>"] {
            assert!(check_email(bad).is_err(), "{bad}");
        }
    }
}
