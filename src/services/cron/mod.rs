//! Times that come again: cron expressions, read on the clocks of a time zone.
//!
//! What an expression says is the time on the wall. Times that come twice, where the clocks go back, count twice. Times that
//! are left out, where they go forward, are made up for by the moment the clocks move, once; but what comes every hour comes
//! again in the next one.

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

/// The longest expression that is read, in bytes.
const LONGEST: usize = 255;

/// The instant from which an expression is asked whether it ever comes; any would do.
const SAMPLE: i64 = 1_767_225_600;

/// Five fields of numbers, or names where there are names, as ranges, steps and lists. The parser alone takes more: names in
/// any field, years, the last days of months.
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

/// A cron expression: minute, hour, day of the month, month and day of the week. Where both days are restricted, either
/// will do.
#[derive(Debug, Clone)]
pub struct Expression {
    pattern: Cron,
    every_hour: bool,
}

/// An expression and the zone whose clocks it is read on.
#[derive(Debug, Clone)]
pub struct Recurrence {
    expression: Expression,
    zone: TimeZone,
}

impl Expression {
    /// Reads an expression. None for what is no expression of five fields, and for what never comes, as the 31st of February.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() > LONGEST || !GRAMMAR.as_ref()?.is_match(text) {
            return None;
        }
        let mut fields: Vec<String> = text.split_ascii_whitespace().map(plain).collect();
        if let Some(days) = fields.last_mut() {
            *days = within_the_week(days);
        }
        let parser = CronParser::builder()
            .seconds(Seconds::Disallowed)
            .year(Year::Disallowed)
            // `5/15` is `5-59/15`, as everywhere else.
            .sloppy_ranges(true)
            .build();
        let pattern = parser.parse(&fields.join(" ")).ok()?;
        // Asked where the days of the week say nothing: the search below goes through all calendars that there are.
        if pattern.pattern.is_dow_wildcard() && !has_a_day(&pattern) {
            return None;
        }
        // However that is said: `0-23` and `*/1` are every hour, too.
        let every_hour = pattern.pattern.hours.values().len() == 24;
        let read = Self { pattern, every_hour };
        read.next(SAMPLE, true).map(|_| read)
    }

    /// The first time on the wall after another, or from it on.
    fn next(&self, wall: i64, inclusive: bool) -> Option<i64> {
        reached(self.pattern.find_next_occurrence(&clock(wall)?, inclusive))
    }

    /// The last time on the wall up to another.
    fn previous(&self, wall: i64) -> Option<i64> {
        reached(self.pattern.find_previous_occurrence(&clock(wall)?, true))
    }
}

/// Whether one of the months has one of the days.
fn has_a_day(pattern: &Cron) -> bool {
    let first = pattern.pattern.days.values().into_iter().min();
    let months = pattern.pattern.months.values();
    first.is_some_and(|day| months.iter().any(|month| day <= days_of(*month)))
}

/// How many days a month has at most.
fn days_of(month: u16) -> u16 {
    match month {
        2 => 29,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Recurrence {
    /// When an expression comes on the clocks of a zone.
    #[must_use]
    pub fn new(expression: Expression, zone: TimeZone) -> Self {
        Self { expression, zone }
    }

    /// What was stored as an expression and the name of a zone. None where one of the two is not what it should be.
    #[must_use]
    pub fn read(expression: &str, zone_name: &str) -> Option<Self> {
        Some(Self::new(Expression::parse(expression)?, zone(zone_name)?))
    }

    /// The first time after an instant. None when it is beyond what calendars reach.
    #[must_use]
    pub fn next_after(&self, instant: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let (mut from, mut inclusive) = (instant.timestamp(), false);
        // Each round is a stretch in which the clocks run evenly.
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

    /// The last time up to an instant, which may be the instant itself. None when it is before what calendars reach.
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

    /// How far the clocks are ahead of UTC, in seconds.
    fn offset(&self, instant: Timestamp) -> i64 {
        i64::from(self.zone.to_offset(instant).seconds())
    }
}

/// A field that allows everything, in one way of saying so.
fn plain(field: &str) -> String {
    match field.split(',').any(|item| matches!(item, "*" | "*/1")) {
        true => "*".to_owned(),
        false => field.to_owned(),
    }
}

/// Days of the week in which steps without an end go on to Saturday, as those of `*` do. The parser takes the other name of
/// Sunday for the end of the week, and `1/3` for Monday, Thursday and Sunday.
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

/// An instant, or a time on the wall as if it were one in a zone whose clocks never move.
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
