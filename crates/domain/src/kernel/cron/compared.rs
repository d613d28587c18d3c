//! Comparison with another implementation, croniter. `compared.tsv` contains its results.
//! `tests/clients/python/cron.py` describes the table, generates it and checks it against croniter.

use super::*;

const TABLE: &str = include_str!("compared.tsv");

/// Returns all times after one instant and up to another, searching forward.
fn forward(recurrence: &Recurrence, since: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let next = |time: &DateTime<Utc>| recurrence.next_after(*time);
    std::iter::successors(next(&since), next)
        .take_while(|time| *time <= until)
        .collect()
}

/// Returns the same times, searching backward.
fn backward(recurrence: &Recurrence, since: DateTime<Utc>, until: DateTime<Utc>) -> Vec<DateTime<Utc>> {
    let previous = |time: &DateTime<Utc>| recurrence.last_until(*time - chrono::TimeDelta::seconds(1));
    let mut times: Vec<_> = std::iter::successors(recurrence.last_until(until), previous)
        .take_while(|time| *time > since)
        .collect();
    times.reverse();
    times
}

#[test]
fn times_of_a_year_match_reference_table() {
    let mut lines = 0;
    for line in TABLE.lines() {
        let [zone, expression, since, until, count, sum] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line:?} is not a line of the table");
        };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let [since, until] = [since, until].map(|text| clock(number(text)).expect("an instant"));
        let recurrence = Recurrence::parse(expression, zone).unwrap_or_else(|| panic!("{line:?} is refused"));
        let times = forward(&recurrence, since, until);
        let total = |total: i64, time: &DateTime<Utc>| (total * 31 + time.timestamp()) % (1 << 32);
        let found = (times.len().to_string(), times.iter().fold(0, total).to_string());
        assert_eq!(found, (count.to_owned(), sum.to_owned()), "{line:?}: {times:?}");
        assert_eq!(backward(&recurrence, since, until), times, "{line:?}");
        lines += 1;
    }
    assert!(lines > 500, "{lines}");
}

/// Cases in which croniter deviates from crontab(5).
#[test]
fn times_follow_crontab_rules_where_croniter_deviates() {
    for (expression, zone, since, next) in [
        (
            "5-5 * * * *",
            "UTC",
            "2026-01-01T00:30:00Z",
            "2026-01-01T01:05:00Z",
        ),
        (
            "0 0 */1 * 1",
            "UTC",
            "2026-01-01T00:00:00Z",
            "2026-01-05T00:00:00Z",
        ),
        (
            "0 0 */13 * 1-7",
            "UTC",
            "2026-01-01T00:00:00Z",
            "2026-01-02T00:00:00Z",
        ),
        (
            "*/20 * * * *",
            "Australia/Lord_Howe",
            "2026-04-05T01:40:00+11:00",
            "2026-04-05T01:40:00+10:30",
        ),
    ] {
        let recurrence = Recurrence::parse(expression, zone).expect("an expression");
        let [since, next] =
            [since, next].map(|time| DateTime::parse_from_rfc3339(time).expect("a time").to_utc());
        assert_eq!(
            recurrence.next_after(since),
            Some(next),
            "{expression} in {zone} after {since}"
        );
    }
}
