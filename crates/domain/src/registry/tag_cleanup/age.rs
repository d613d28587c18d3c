//! Durations in text form, such as `1h`, `2 weeks` or `1month`: a day has 24 hours, a month 30 days, a year
//! 365.

use chrono::TimeDelta;
use jiff::Span;

/// Parses a duration. Returns `None` if it is invalid, zero or negative.
#[must_use]
pub fn parse(text: &str) -> Option<TimeDelta> {
    let span: Span = text.trim().to_lowercase().parse().ok()?;
    let days = i64::from(span.get_years()) * 365
        + i64::from(span.get_months()) * 30
        + i64::from(span.get_weeks()) * 7
        + i64::from(span.get_days());
    let hours = days.checked_mul(24)?.checked_add(i64::from(span.get_hours()))?;
    let seconds = hours
        .checked_mul(3_600)?
        .checked_add(span.get_minutes().checked_mul(60)?)?
        .checked_add(span.get_seconds())?;
    TimeDelta::try_seconds(seconds).filter(|span| *span > TimeDelta::zero())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn age_accepts_units_and_combinations() {
        const HOUR: i64 = 3_600;
        const DAY: i64 = 24 * HOUR;
        for (text, seconds) in [
            ("1h", HOUR),
            ("1d", DAY),
            ("1month", 30 * DAY),
            ("1mo", 30 * DAY),
            ("1 day", DAY),
            ("2 weeks", 14 * DAY),
            ("1m", 60),
            ("90s", 90),
            ("1 year", 365 * DAY),
            (
                "1y 2mo 3w 4d 5h 6m 7s",
                (365 + 60 + 21 + 4) * DAY + 5 * HOUR + 367,
            ),
            ("3 days, 4 hours", 3 * DAY + 4 * HOUR),
            (" 12 Hours ", 12 * HOUR),
            ("1h30m", 90 * 60),
            ("P2W", 14 * DAY),
        ] {
            assert_eq!(
                parse(text).map(|span| span.num_seconds()),
                Some(seconds),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_age_is_rejected() {
        for text in [
            "",
            " ",
            "7",
            "d",
            "1 fortnight",
            "-1d",
            "1d ago",
            "0d",
            "0.2s",
            "1d;",
            "yesterday",
            "999999999999999999999d",
            "99999999y",
            "1\u{661}d",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn longest_ages_are_accepted() {
        for text in ["19998y", "239976mo", "7304484d", "631107417600s"] {
            assert!(parse(text).is_some(), "{text}");
        }
    }
}
