//! Conditions that callers put on a deletion (specification 7, status 412).

use chrono::{DateTime, SubsecRound, Utc};

use crate::error::{Error, Result};

/// Refuses when a resource changed after the HTTP date of `If-Unmodified-Since`. Such dates have whole seconds;
/// a text that is no date is ignored (facts on errors).
///
/// # Errors
/// 412.
pub fn unmodified_since(header: Option<&str>, updated_at: DateTime<Utc>) -> Result<()> {
    let limit = header.and_then(|text| DateTime::parse_from_rfc2822(text.trim()).ok());
    match limit {
        Some(limit) if updated_at.trunc_subsecs(0) > limit => Err(Error::PreconditionFailed),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(header: &str) -> bool {
        let updated = DateTime::parse_from_rfc3339("2026-01-31T12:00:00.700Z").expect("a time");
        unmodified_since(Some(header), updated.to_utc()).is_err()
    }

    #[test]
    fn later_changes_are_refused_to_the_second() {
        assert!(refused("Sat, 31 Jan 2026 11:59:59 GMT"));
        assert!(!refused("Sat, 31 Jan 2026 12:00:00 GMT"));
        assert!(!refused("Sat, 31 Jan 2026 12:00:01 GMT"));
    }

    #[test]
    fn what_is_no_date_is_ignored() {
        for text in ["", "yesterday", "2026-01-01T00:00:00Z"] {
            assert!(!refused(text), "{text}");
        }
    }
}
