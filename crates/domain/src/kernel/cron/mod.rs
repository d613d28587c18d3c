//! Recurring times: cron expressions in a time zone.
//!
//! Expressions refer to local time. A local time that occurs twice, because clocks go back, matches twice. A
//! local time that is skipped, because clocks go forward, matches once at the moment of the change. An
//! expression that matches every hour matches again in the next hour instead.

mod zones;

use std::sync::LazyLock;

use chrono::{DateTime, Utc};
use croner::Cron;
use croner::errors::CronError;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use regex::Regex;

pub use zones::zone;

/// Maximum length of an expression, in bytes.
const MAX_LENGTH: usize = 255;

/// Instant used to check whether an expression ever matches. Its value is arbitrary.
const SAMPLE: i64 = 1_767_225_600;

/// Five fields of numbers or names, as ranges, steps and lists. The parser alone accepts more: names in any
/// field, years, and the last days of months.
static GRAMMAR: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let field = |names: &str| {
        let value = format!(r"(?:[0-9]{{1,2}}{names})");
        let item = format!(r"(?:\*|{value}(?:-{value})?)(?:/[0-9]{{1,2}})?");
        format!("{item}(?:,{item})*")
    };
    let months = "|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec";
    let days = "|sun|mon|tue|wed|thu|fri|sat";
    let fields = ["", "", "", months, days].map(field);
    Regex::new(&format!("^(?i:{})$", fields.join(r"[ \t]+"))).ok()
});

/// A cron expression: minute, hour, day of the month, month and day of the week. If both day fields are
/// restricted, either one matches.
#[derive(Debug, Clone)]
pub struct CronExpression {
    pattern: Cron,
    every_hour: bool,
}

/// An expression and its time zone.
#[derive(Debug, Clone)]
pub struct Recurrence {
    expression: CronExpression,
    zone: TimeZone,
}

impl CronExpression {
    /// Parses an expression. Returns `None` if it does not have five valid fields, or never matches, such as
    /// February 31.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > MAX_LENGTH || !GRAMMAR.as_ref()?.is_match(text) {
            return None;
        }
        let mut fields: Vec<String> = text.split_ascii_whitespace().map(plain).collect();
        if let Some(days) = fields.last_mut() {
            *days = within_the_week(days);
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            // `5/15` means `5-59/15`, as in other implementations.
            .sloppy_ranges(true)
            .build();
        let pattern = parser.parse(&fields.join(" ")).ok()?;
        // Checked only if the day of the week is unrestricted. The search below would go through all years.
        if pattern.pattern.is_dow_wildcard() && !has_possible_day(&pattern) {
            return None;
        }
        // Independent of the notation: `0-23` and `*/1` are every hour, too.
        let every_hour = pattern.pattern.hours.values().len() == 24;
        let read = Self { pattern, every_hour };
        read.next(SAMPLE, true).map(|_| read)
    }

    /// Returns the first matching local time after another, or from it if `inclusive`.
    fn next(&self, wall: i64, inclusive: bool) -> Option<i64> {
        reached(self.pattern.find_next_occurrence(&clock(wall)?, inclusive))
    }

    /// Returns the last matching local time up to another.
    fn previous(&self, wall: i64) -> Option<i64> {
        reached(self.pattern.find_previous_occurrence(&clock(wall)?, true))
    }
}

/// Returns whether one of the months has one of the days.
fn has_possible_day(pattern: &Cron) -> bool {
    let first = pattern.pattern.days.values().into_iter().min();
    let months = pattern.pattern.months.values();
    first.is_some_and(|day| months.iter().any(|month| day <= days_of(*month)))
}

/// Returns the maximum number of days in a month.
fn days_of(month: u16) -> u16 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Recurrence {
    /// Combines an expression and a time zone.
    #[must_use]
    pub fn new(expression: CronExpression, zone: TimeZone) -> Self {
        Self { expression, zone }
    }

    /// Parses a stored expression and zone name. Returns `None` if one of them is invalid.
    #[must_use]
    pub fn parse(expression: &str, zone_name: &str) -> Option<Self> {
        Some(Self::new(CronExpression::parse(expression)?, zone(zone_name)?))
    }

    /// Returns the first time after an instant, or `None` beyond the range of the calendar.
    #[must_use]
    pub fn next_after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (mut from, mut inclusive) = (instant.timestamp(), false);
        // Each round covers a period with one UTC offset.
        loop {
            let since = Timestamp::from_second(from).ok()?;
            let offset = self.offset(since);
            let found = self.expression.next(from + offset, inclusive)?;
            let change = self.zone.following(since).next();
            let Some(change) = change.filter(|change| change.timestamp().as_second() <= found - offset)
            else {
                return clock(found - offset);
            };
            let moved = change.timestamp().as_second();
            let left_out = found < moved + i64::from(change.offset().seconds());
            if left_out && !self.expression.every_hour {
                return clock(moved);
            }
            (from, inclusive) = (moved, true);
        }
    }

    /// Returns the last time up to and including an instant, or `None` before the range of the calendar.
    #[must_use]
    pub fn last_until(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let mut until = instant.timestamp();
        loop {
            let offset = self.offset(Timestamp::from_second(until).ok()?);
            let found = self.expression.previous(until + offset)?;
            let change = self
                .zone
                .preceding(Timestamp::from_second(until + 1).ok()?)
                .next();
            let Some(change) = change.filter(|change| change.timestamp().as_second() > found - offset) else {
                return clock(found - offset);
            };
            let moved = change.timestamp().as_second();
            let before = self.offset(Timestamp::from_second(moved - 1).ok()?);
            let left_out = found >= moved + before;
            if left_out && !self.expression.every_hour {
                return clock(moved);
            }
            until = moved - 1;
        }
    }

    /// Returns the UTC offset in seconds.
    fn offset(&self, instant: Timestamp) -> i64 {
        i64::from(self.zone.to_offset(instant).seconds())
    }
}

/// Normalizes a field that allows every value.
fn plain(field: &str) -> String {
    match field.split(',').any(|item| matches!(item, "*" | "*/1")) {
        true => "*".to_owned(),
        false => field.to_owned(),
    }
}

/// Limits steps without an end to Saturday, as for `*`. The parser counts Sunday again as day 7, so it reads
/// `1/3` as Monday, Thursday and Sunday.
fn within_the_week(field: &str) -> String {
    let items = field.split(',').map(|item| match item.split_once('/') {
        Some((day, step)) if !day.contains(['*', '-']) => {
            let first = if day.parse() == Ok(7) { "0" } else { day };
            format!("{first}-6/{step}")
        }
        _ => item.to_owned(),
    });
    items.collect::<Vec<_>>().join(",")
}

/// Returns an instant. Local times use the same type, as if their zone had no offset.
fn clock(seconds: i64) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds, 0)
}

fn reached(found: Result<DateTime<Utc>, CronError>) -> Option<i64> {
    found.ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod compared;
#[cfg(test)]
mod generated;
#[cfg(test)]
mod tests;
