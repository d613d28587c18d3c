//! Preconditions of requests on the state of the changed resource.

use chrono::{DateTime, SubsecRound, Utc};

use crate::kernel::error::{Error, Result};

/// Fails if the resource was modified after the date of an `If-Unmodified-Since` header. HTTP dates have a
/// resolution of one second, so a change within that second passes. An invalid date is ignored.
///
/// # Errors
/// Returns `PreconditionFailed` if the resource was modified later.
pub fn check_unmodified_since(header: Option<&str>, changed: DateTime<Utc>) -> Result<()> {
    let limit = header.map(str::trim).and_then(|text| {
        let http = DateTime::parse_from_rfc2822(text);
        http.or_else(|_| DateTime::parse_from_rfc3339(text)).ok()
    });
    match limit {
        Some(limit) if changed.trunc_subsecs(0) > limit => Err(Error::PreconditionFailed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed() -> DateTime<Utc> {
        "2024-05-06T07:08:09.900Z".parse().expect("a time")
    }

    fn passes(header: &str) -> bool {
        check_unmodified_since(Some(header), changed()).is_ok()
    }

    #[test]
    fn if_unmodified_since_fails_after_later_change() {
        assert!(!passes("Mon, 06 May 2024 07:08:08 GMT"));
        assert!(!passes("2024-05-06T07:08:08Z"));
    }

    #[test]
    fn if_unmodified_since_passes_for_change_in_same_second_or_before() {
        assert!(passes("Mon, 06 May 2024 07:08:09 GMT"));
        assert!(passes("Tue, 07 May 2024 00:00:00 GMT"));
        assert!(passes("2024-05-06T09:08:09+02:00"));
    }

    #[test]
    fn if_unmodified_since_ignores_invalid_date() {
        assert!(passes("yesterday") && passes(""));
        assert!(check_unmodified_since(None, changed()).is_ok());
    }
}
