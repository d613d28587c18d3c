//! Names of backups.

use std::fmt;

use chrono::{DateTime, NaiveDateTime, TimeDelta, Utc};
use serde::{Deserialize, Serialize};

/// Form of the time in a name.
const TIME: &str = "%Y-%m-%dT%H%M%SZ";

/// Name of a backup: the time of its start, such as `2026-11-24T150159Z`. Names sort by time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct BackupId(String);

impl BackupId {
    /// Parses a name.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let id = Self(text.to_owned());
        (id.time()?.format(TIME).to_string() == text).then_some(id)
    }

    /// Returns a name for a backup that starts now. It follows the newest one, also if the clock was set back.
    pub(super) fn next(newest: Option<&Self>, now: DateTime<Utc>) -> Self {
        let earliest = newest
            .and_then(Self::time)
            .map(|time| time + TimeDelta::seconds(1));
        let now = now.naive_utc();
        let time = earliest.map_or(now, |earliest| earliest.max(now));
        Self(time.format(TIME).to_string())
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn time(&self) -> Option<NaiveDateTime> {
        NaiveDateTime::parse_from_str(&self.0, TIME).ok()
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_parsed_strictly_and_sort_by_time() {
        let at = |text: &str| text.parse::<DateTime<Utc>>().expect("a time");
        let first = BackupId::next(None, at("2026-11-24T15:01:59.9Z"));
        assert_eq!(first.as_str(), "2026-11-24T150159Z");
        let later = BackupId::next(Some(&first), at("2027-01-01T00:00:00Z"));
        let clock_was_set_back = BackupId::next(Some(&later), at("2026-12-01T00:00:00Z"));
        assert!(first < later && later < clock_was_set_back);
        assert_eq!(BackupId::parse(first.as_str()), Some(first));
        for text in [
            "",
            "..",
            "2026-11-24T150159",
            "2026-11-24T150159Z/..",
            "2026-1-24T150159Z",
            ".tmpab12",
        ] {
            assert_eq!(BackupId::parse(text), None, "{text}");
        }
    }
}
