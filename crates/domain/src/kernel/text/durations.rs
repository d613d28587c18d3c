//! Working time as text: an hour has 60 minutes, a day 8 hours, a week 5 days, a month 4 weeks.

const MINUTE: i64 = 60;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 8 * HOUR;
const WEEK: i64 = 5 * DAY;
const MONTH: i64 = 4 * WEEK;

/// Maximum duration, in seconds.
pub const MAX_SECONDS: i64 = 1_000_000 * MONTH;

/// The units, longest first.
const UNITS: [(&str, i64); 6] = [
    ("mo", MONTH),
    ("w", WEEK),
    ("d", DAY),
    ("h", HOUR),
    ("m", MINUTE),
    ("s", 1),
];

/// Parses a duration such as `1w 2d 3h30m` or `-1h` into seconds. A bare number counts hours. Returns `None`
/// if it is invalid, zero or longer than [`MAX_SECONDS`].
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Ok(hours) = rest.parse::<u32>() {
        return within(sign, i64::from(hours).checked_mul(HOUR)?);
    }
    let (mut rest, mut total) = (rest, 0_i64);
    while !rest.is_empty() {
        let digits = rest.find(|digit: char| !digit.is_ascii_digit())?;
        let count: i64 = rest[..digits].parse().ok()?;
        let unit = &rest[digits..];
        // `mo` precedes `m`, so that a month is not read as a minute.
        let (name, seconds) = UNITS.iter().find(|(name, _)| unit.starts_with(name))?;
        total = total.checked_add(count.checked_mul(*seconds)?)?;
        rest = unit[name.len()..].trim_start();
    }
    within(sign, total)
}

fn within(sign: i64, seconds: i64) -> Option<i64> {
    (1..=MAX_SECONDS).contains(&seconds).then_some(sign * seconds)
}

/// Formats a duration, such as `1w 2d 30m`. Returns `None` for zero.
#[must_use]
pub fn format_duration(seconds: i64) -> Option<String> {
    let mut rest = seconds.checked_abs()?;
    let mut words = Vec::new();
    for (name, unit) in UNITS {
        if rest >= unit {
            words.push(format!("{}{name}", rest / unit));
            rest %= unit;
        }
    }
    let sign = if seconds < 0 { "-" } else { "" };
    (!words.is_empty()).then(|| format!("{sign}{}", words.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_units_are_working_time() {
        for (text, seconds) in [
            ("3h", 3 * HOUR),
            ("1d 2h", 10 * HOUR),
            ("1w2d3h4m5s", 40 * HOUR + 16 * HOUR + 3 * HOUR + 245),
            ("1mo", 160 * HOUR),
            ("-30m", -1800),
            ("+2", 2 * HOUR),
        ] {
            assert_eq!(parse(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn invalid_duration_is_rejected() {
        for text in [
            "",
            "-",
            "h",
            "3x",
            "3 h",
            "3h,",
            "0h",
            "--3h",
            "99999999999999999999h",
            "9999999mo",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn duration_is_formatted_in_longest_units() {
        assert_eq!(format_duration(10 * HOUR).as_deref(), Some("1d 2h"));
        assert_eq!(format_duration(-90 * MINUTE).as_deref(), Some("-1h 30m"));
        assert_eq!(format_duration(0), None);
        assert_eq!(
            format_duration(parse("2mo 1w 4d 7h 59m 1s").unwrap_or(0)).as_deref(),
            Some("2mo 1w 4d 7h 59m 1s")
        );
    }
}
