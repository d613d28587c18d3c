//! Points in time.

use chrono::{DateTime, FixedOffset, SecondsFormat, SubsecRound, Utc};
use poem_openapi::NewType;
use serde::{Serialize, Serializer};

/// A point in time: UTC with milliseconds, or a Git time in its own offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, NewType)]
#[oai(to_header = false)]
pub struct Timestamp(DateTime<FixedOffset>);

impl Timestamp {
    /// Returns the time in UTC, in microseconds, which both databases store without loss.
    #[must_use]
    pub fn to_utc(self) -> DateTime<Utc> {
        self.0.to_utc().trunc_subsecs(6)
    }
}

impl From<DateTime<Utc>> for Timestamp {
    fn from(time: DateTime<Utc>) -> Self {
        Self(time.fixed_offset())
    }
}

impl From<DateTime<FixedOffset>> for Timestamp {
    fn from(time: DateTime<FixedOffset>) -> Self {
        Self(time)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let in_utc = self.0.offset().local_minus_utc() == 0;
        serializer.serialize_str(&self.0.to_rfc3339_opts(SecondsFormat::Millis, in_utc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn to_utc_has_microseconds() {
        let time = DateTime::parse_from_rfc3339("2014-02-27T10:14:56.123456789+02:00").expect("a time");
        let expected = DateTime::parse_from_rfc3339("2014-02-27T08:14:56.123456Z").expect("a time");
        assert_eq!(Timestamp(time).to_utc(), expected);
    }

    #[test]
    fn serialize_writes_milliseconds_and_the_offset() {
        let shown = |text: &str| {
            let time = DateTime::parse_from_rfc3339(text).map(Timestamp).expect("a time");
            serde_json::to_string(&time).expect("JSON")
        };
        assert_eq!(shown("2020-07-01T12:00:00Z"), "\"2020-07-01T12:00:00.000Z\"");
        assert_eq!(
            shown("2014-02-27T10:14:56.5+02:00"),
            "\"2014-02-27T10:14:56.500+02:00\""
        );
    }
}
