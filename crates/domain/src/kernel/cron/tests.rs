//! Clock changes and the validity of expressions. The expected times come from another implementation.

use super::*;

fn instant(text: &str) -> DateTime<Utc> {
    DateTime::parse_from_rfc3339(text).expect("a time").to_utc()
}

fn recurrence(expression: &str, zone: &str) -> Recurrence {
    Recurrence::parse(expression, zone).unwrap_or_else(|| panic!("{expression} in {zone}"))
}

/// Checks that each time follows the previous one, and is the last until the next one.
fn follows(expression: &str, zone: &str, from: &str, times: &[&str]) {
    let recurrence = recurrence(expression, zone);
    let times: Vec<_> = times.iter().map(|time| instant(time)).collect();
    let mut now = instant(from);
    for time in &times {
        assert_eq!(
            recurrence.next_after(now),
            Some(*time),
            "{expression} in {zone} after {now}"
        );
        now = *time;
    }
    for pair in times.windows(2) {
        let moment = chrono::TimeDelta::seconds(1);
        assert_eq!(
            recurrence.last_until(pair[1]),
            Some(pair[1]),
            "{expression} in {zone}"
        );
        assert_eq!(
            recurrence.last_until(pair[1] - moment),
            Some(pair[0]),
            "{expression} in {zone}"
        );
    }
}

#[test]
fn skipped_time_runs_once_after_clock_change() {
    let day = [
        "2026-03-07T02:30:00-05:00",
        "2026-03-08T03:00:00-04:00",
        "2026-03-09T02:30:00-04:00",
    ];
    follows(
        "30 2 * * *",
        "America/New_York",
        "2026-03-07T00:00:00-05:00",
        &day,
    );
    let several = [
        "2026-03-28T02:30:00+01:00",
        "2026-03-29T03:00:00+02:00",
        "2026-03-30T02:00:00+02:00",
    ];
    follows(
        "*/30 2 * * *",
        "Europe/Berlin",
        "2026-03-28T02:00:00+01:00",
        &several,
    );
    let midnight = ["2026-09-05T00:00:00-04:00", "2026-09-06T01:00:00-03:00"];
    follows(
        "0 0 * * *",
        "America/Santiago",
        "2026-09-04T12:00:00-04:00",
        &midnight,
    );
    // Half an hour is skipped.
    let half = ["2026-10-04T02:30:00+11:00", "2026-10-05T02:15:00+11:00"];
    follows(
        "15 2 * * *",
        "Australia/Lord_Howe",
        "2026-10-03T12:00:00+10:30",
        &half,
    );
}

#[test]
fn hourly_expression_runs_in_every_existing_hour() {
    let forward = [
        "2026-03-08T01:17:00-05:00",
        "2026-03-08T03:17:00-04:00",
        "2026-03-08T04:17:00-04:00",
    ];
    for expression in ["17 * * * *", "17 0-23 * * *", "17 0-11,12/1 * * *"] {
        follows(
            expression,
            "America/New_York",
            "2026-03-08T01:00:00-05:00",
            &forward,
        );
    }
    let back = [
        "2026-11-01T01:17:00-04:00",
        "2026-11-01T01:17:00-05:00",
        "2026-11-01T02:17:00-05:00",
    ];
    follows(
        "17 */1 * * *",
        "America/New_York",
        "2026-11-01T01:00:00-04:00",
        &back,
    );
}

#[test]
fn repeated_time_runs_twice() {
    let twice = [
        "2026-11-01T01:30:00-04:00",
        "2026-11-01T01:30:00-05:00",
        "2026-11-02T01:30:00-05:00",
    ];
    follows(
        "30 1 * * *",
        "America/New_York",
        "2026-11-01T00:00:00-04:00",
        &twice,
    );
    let half = [
        "2026-04-05T01:45:00+11:00",
        "2026-04-05T01:45:00+10:30",
        "2026-04-06T01:45:00+10:30",
    ];
    follows(
        "45 1 * * *",
        "Australia/Lord_Howe",
        "2026-04-05T00:00:00+11:00",
        &half,
    );
}

#[test]
fn zone_without_clock_changes_runs_at_fixed_times() {
    let india = ["2026-03-29T02:30:00+05:30", "2026-03-30T02:30:00+05:30"];
    follows("30 2 * * *", "Asia/Kolkata", "2026-03-29T00:00:00+05:30", &india);
    let leap = ["2024-02-29T00:00:00Z", "2028-02-29T00:00:00Z"];
    follows("0 0 29 2 *", "UTC", "2020-12-01T00:00:00Z", &leap);
}

#[test]
fn day_of_month_or_day_of_week_matches() {
    let either = [
        "2026-11-06T00:00:00Z",
        "2026-11-13T00:00:00Z",
        "2026-11-20T00:00:00Z",
    ];
    follows("0 0 13 * fri", "UTC", "2026-11-01T00:00:00Z", &either);
    let dates = [
        "2026-11-27T00:00:00Z",
        "2026-12-04T00:00:00Z",
        "2026-12-11T00:00:00Z",
        "2026-12-13T00:00:00Z",
    ];
    follows("0 0 13 * 5", "UTC", "2026-11-20T12:00:00Z", &dates);
    follows(
        "0 0 * * 7",
        "UTC",
        "2026-11-20T12:00:00Z",
        &["2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z"],
    );
}

#[test]
fn weekday_steps_end_on_saturday() {
    let thursdays = [
        "2026-11-23T05:00:00Z",
        "2026-11-26T05:00:00Z",
        "2026-11-30T05:00:00Z",
    ];
    for week in ["1/3", "mon/3", "1-6/3"] {
        let expression = format!("0 5 * * {week}");
        follows(&expression, "UTC", "2026-11-20T12:00:00Z", &thursdays);
    }
    let sundays = [
        "2026-11-22T05:00:00Z",
        "2026-11-25T05:00:00Z",
        "2026-11-28T05:00:00Z",
        "2026-11-29T05:00:00Z",
    ];
    for week in ["*/3", "0/3", "7/3", "07/3", "SUN/3", "0-7/3"] {
        let expression = format!("0 5 * * {week}");
        follows(&expression, "UTC", "2026-11-21T12:00:00Z", &sundays);
    }
    let saturdays = ["2026-11-21T05:00:00Z", "2026-11-28T05:00:00Z"];
    follows("0 5 * * 6/2", "UTC", "2026-11-20T12:00:00Z", &saturdays);
}

#[test]
fn fraction_of_second_is_before_next_minute() {
    let recurrence = recurrence("* * * * *", "UTC");
    let within = instant("2026-01-01T00:00:59.9Z");
    assert_eq!(
        recurrence.next_after(within),
        Some(instant("2026-01-01T00:01:00Z"))
    );
    assert_eq!(
        recurrence.last_until(within),
        Some(instant("2026-01-01T00:00:00Z"))
    );
}

#[test]
fn expression_requires_five_valid_fields() {
    for good in [
        "* * * * *",
        " 0 22 * * 1-5 ",
        "0\t0  1,15 jan-MAR,Dec Sun",
        "5/15 0-23/2 */3 * sun-tue",
        "0 0 * * fri-sun",
        "*,5 * * * *",
        "00 07 * * *",
    ] {
        assert!(CronExpression::parse(good).is_some(), "{good}");
    }
    for bad in [
        "",
        " ",
        "* * * *",
        "* * * * * *",
        "0 0 0 * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * * 8",
        "*/0 * * * *",
        "5-1 * * * *",
        "1,,2 * * * *",
        "jan * * * *",
        "* * * sun *",
        "* * * * jan",
        "* * * * 1mon",
        "0 0 L * *",
        "0 0 1W * *",
        "0 0 * * 1#2",
        "0 0 ? * *",
        "@daily",
        "H * * * *",
        "/5 * * * *",
        "-1 * * * *",
        "1- * * * *",
        "0 0 31 2 *",
        "0 0 30 feb *",
        "0 0 31 4,6,9,11 *",
        "* * * * *; ls",
        "*\n* * * *",
        "\u{661} * * * *",
        "every day",
    ] {
        assert!(CronExpression::parse(bad).is_none(), "{bad:?}");
    }
    assert!(CronExpression::parse(&format!("{}1 * * * *", "1,".repeat(200))).is_none());
}

/// Decided by the months alone: a search through all years takes most of a second.
#[test]
fn impossible_date_is_detected_without_search() {
    let pattern = |text: &str| text.parse::<Cron>().expect("a pattern");
    for never in ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30,31 2 *"] {
        assert!(!has_possible_day(&pattern(never)), "{never}");
    }
    // A restricted day of the week matches in any month.
    assert!(CronExpression::parse("0 0 31 9 */5").is_some());
    for possible in ["0 0 29 2 *", "0 0 31 4,5 *", "0 0 * * *", "0 0 30,1 2 *"] {
        assert!(has_possible_day(&pattern(possible)), "{possible}");
    }
}

#[test]
fn time_zone_accepts_common_and_iana_names() {
    for (name, same) in [
        ("UTC", "Etc/UTC"),
        ("Istanbul", "Europe/Istanbul"),
        ("Hong Kong", "Asia/Hong_Kong"),
        ("Newfoundland", "America/St_Johns"),
        ("Buenos Aires", "America/Argentina/Buenos_Aires"),
        ("Pacific Time (US & Canada)", "America/Los_Angeles"),
        ("Wellington", "Pacific/Auckland"),
    ] {
        let times = [name, same].map(|zone| {
            let recurrence = recurrence("0 12 * * *", zone);
            recurrence.next_after(instant("2026-06-01T00:00:00Z"))
        });
        assert_eq!(times[0], times[1], "{name}");
    }
    for (name, zone_name) in zones::COMMON {
        assert!(zone(name).is_some(), "{name}: {zone_name}");
    }
    for bad in [
        "",
        " ",
        "Europe",
        "europe/berlin",
        "Europe/Berlin ",
        "Mars/Base",
        "../UTC",
        "+02:00",
        "\0",
    ] {
        assert!(zone(bad).is_none(), "{bad:?}");
    }
}

#[test]
fn next_and_last_times_agree_over_a_year() {
    for zone in [
        "America/New_York",
        "Europe/Berlin",
        "Australia/Lord_Howe",
        "Asia/Kathmandu",
        "Africa/Casablanca",
    ] {
        for expression in [
            "*/20 * * * *",
            "30 2 * * *",
            "15 1-3 */2 * *",
            "0 0 13 * 5",
            "59 23 * * sun",
        ] {
            let recurrence = recurrence(expression, zone);
            let (mut now, end) = (instant("2026-01-01T00:00:00Z"), instant("2027-01-01T00:00:00Z"));
            while now < end {
                let next = recurrence.next_after(now).expect("another time");
                assert!(next > now, "{expression} in {zone} at {now}");
                assert_eq!(
                    recurrence.last_until(next),
                    Some(next),
                    "{expression} in {zone} at {now}"
                );
                now = next;
            }
        }
    }
}

#[test]
fn random_text_is_rejected_or_runs_at_whole_minutes() {
    let letters: Vec<char> = "0123456789*/,- \t\nLW#?@+xäjansun".chars().collect();
    let mut state = 7_u32;
    let mut random = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % below
    };
    let start = instant("2026-03-08T00:00:00Z");
    let mut sound = 0;
    for round in 0..20_000 {
        // Half of them are expressions with one character changed.
        let mut text: Vec<char> = match round % 2 {
            0 => "5,10 */2 1-15 * 1-5".chars().collect(),
            _ => (0..random(16)).map(|_| letters[random(letters.len())]).collect(),
        };
        if let Some(last) = text.len().checked_sub(1) {
            let at = random(last + 1);
            text[at] = letters[random(letters.len())];
        }
        let text: String = text.into_iter().collect();
        if let Some(recurrence) = Recurrence::parse(&text, "America/New_York") {
            let next = recurrence
                .next_after(start)
                .unwrap_or_else(|| panic!("{text:?} never matches"));
            assert_eq!(next.timestamp() % 60, 0, "{text:?}");
            assert!(text.split_ascii_whitespace().count() == 5, "{text:?}");
            sound += 1;
        }
        assert!(zone(&text).is_none(), "{text:?}");
    }
    assert!(sound > 1_000, "{sound}");
}
