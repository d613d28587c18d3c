//! Parsing of dates and date-times. Times have the formats of RFC 3339, and others of ISO 8601.

use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, SecondsFormat, TimeDelta, Timelike, Utc};

/// Formats of ISO 8601 in addition to RFC 3339. `%#z` accepts `Z`, and offsets with or without a colon and minutes.
const ZONED_FORMATS: [&str; 4] = [
    "%Y-%m-%dT%H:%M:%S%.f%#z",
    "%Y-%m-%dT%H:%M%#z",
    "%Y%m%dT%H%M%S%.f%#z",
    "%Y%m%dT%H%M%#z",
];

/// Returns a date-time in the format of RFC 3339, or `None` if the text is invalid. Without an offset, it is in UTC.
pub(super) fn timestamp(text: &str) -> Option<String> {
    let text = with_separators(text.trim());
    let in_format = |format: &&str| DateTime::parse_from_str(&text, format).ok();
    let zoned = DateTime::parse_from_rfc3339(&text)
        .ok()
        .or_else(|| ZONED_FORMATS.iter().find_map(in_format));
    let utc = |time: NaiveDateTime| time.and_utc().fixed_offset();
    let naive = || text.parse::<NaiveDateTime>().ok().map(utc);
    let day = || {
        text.parse::<NaiveDate>()
            .ok()
            .and_then(|day| day.and_hms_opt(0, 0, 0))
            .map(utc)
    };
    let time = zoned.or_else(naive).or_else(day)?;
    // Databases differ on leap seconds, so they become the following second.
    let time = match time.nanosecond().checked_sub(1_000_000_000) {
        Some(beyond) => time
            .with_nanosecond(beyond)
            .and_then(|time| time.checked_add_signed(TimeDelta::seconds(1)))?,
        None => time,
    };
    is_common_year(&time.naive_utc().date()).then(|| time.to_rfc3339_opts(SecondsFormat::AutoSi, true))
}

/// Returns a date in the format of RFC 3339, or `None` if the text is invalid. A time is ignored.
pub(super) fn date(text: &str) -> Option<String> {
    let text = text.trim();
    let zoned = || {
        DateTime::parse_from_rfc3339(text)
            .ok()
            .map(|time| time.with_timezone(&Utc).date_naive())
    };
    let day = text.parse::<NaiveDate>().ok().or_else(zoned)?;
    is_common_year(&day).then(|| day.to_string())
}

/// Replaces spaces in a date-time: one after the date by `T`, and one before the offset by `+`, because a `+` that is
/// not encoded in a query arrives as a space.
fn with_separators(text: &str) -> String {
    let text = match text.split_at_checked(10) {
        Some((date, rest)) if rest.starts_with(' ') => format!("{date}T{}", rest.trim_start()),
        _ => text.to_owned(),
    };
    let is_offset = |zone: &str| zone.bytes().all(|byte| byte.is_ascii_digit() || byte == b':');
    let with_plus = text
        .rsplit_once(' ')
        .filter(|(_, zone)| is_offset(zone))
        .map(|(time, zone)| format!("{}+{zone}", time.trim_end()));
    with_plus.unwrap_or(text)
}

/// Returns whether the year has four digits: some databases cannot store others, and no format displays them.
fn is_common_year(day: &NaiveDate) -> bool {
    (1..=9999).contains(&day.year())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_times_of_iso_8601_are_accepted() {
        for (sent, expected) in [
            ("2026-01-02T03:04:05 02:00", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02T03:04:05 0200", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02T03:04:05.5 02", "2026-01-02T03:04:05.500+02:00"),
            ("2026-01-02T03:04:05+0200", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02 03:04:05+02:00", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02 03:04:05 02:00", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02 03:04:05 +0200", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02 03:04:05  0200", "2026-01-02T03:04:05+02:00"),
            ("2026-01-02 03:04:05", "2026-01-02T03:04:05Z"),
            ("2026-01-02T03:04Z", "2026-01-02T03:04:00Z"),
            ("20260102T030405Z", "2026-01-02T03:04:05Z"),
            ("20260102T030405 0200", "2026-01-02T03:04:05+02:00"),
            ("20260102T0304Z", "2026-01-02T03:04:00Z"),
        ] {
            assert_eq!(timestamp(sent).as_deref(), Some(expected), "{sent}");
        }
    }

    #[test]
    fn other_date_times_are_rejected() {
        for sent in [
            "2026-01-02T03:04:05 x",
            "2026-01-02T03:04:05 02:00 02:00",
            "2026-01-02 T03:04:05Z",
            "2026-01-02 :",
            "ä026-01-02 03:04:05",
            "202601T030405Z",
            "20260102T250405Z",
        ] {
            assert_eq!(timestamp(sent), None, "{sent}");
        }
    }
}
