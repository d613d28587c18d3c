//! Thousands of generated expressions and zone names. Valid expressions are rewritten in an equivalent form.
//! Mutated ones are rejected or still valid. The seed is fixed, so that failures are reproducible.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SEED: u64 = 0x5eed_c205;

/// The fields, with their minimum, maximum and names. Names are numbered from the minimum.
const FIELDS: [(u16, u16, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (
        1,
        12,
        &[
            "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
        ],
    ),
    (0, 7, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
];

/// Returns a value of a field, as a number or as a name in random case.
fn value(random: &mut StdRng, number: u16, (low, _, names): (u16, u16, &[&str])) -> String {
    let name = names.get(usize::from(number - low));
    match name.filter(|_| random.random_range(0..3) == 0) {
        Some(name) if random.random_range(0..2) == 0 => name.to_uppercase(),
        Some(name) => (*name).to_owned(),
        None if random.random_range(0..4) == 0 => format!("{number:02}"),
        None => number.to_string(),
    }
}

fn field(random: &mut StdRng, index: usize) -> String {
    let shape = FIELDS[index];
    let mut items = Vec::new();
    for _ in 0..random.random_range(1..4) {
        let (one, other) = (
            random.random_range(shape.0..=shape.1),
            random.random_range(shape.0..=shape.1),
        );
        let (low, high) = (one.min(other), one.max(other));
        let step = random.random_range(1..=shape.1);
        let single = value(random, one, shape);
        let range = format!("{}-{}", value(random, low, shape), value(random, high, shape));
        items.push(match random.random_range(0..7) {
            0 => "*".to_owned(),
            1 => format!("*/{step}"),
            2 => range,
            3 => format!("{range}/{step}"),
            4 => format!("{single}/{step}"),
            _ => single,
        });
    }
    items.join(",")
}

fn expression(random: &mut StdRng) -> String {
    let fields: [String; 5] = std::array::from_fn(|index| match random.random_range(0..3) {
        0 => "*".to_owned(),
        _ => field(random, index),
    });
    fields.join([" ", "  ", "\t"][random.random_range(0..3)])
}

/// Writes a parsed expression as numbers and ranges. Day fields retain their `*`, because it differs in
/// meaning from all numbers.
fn written(expression: &CronExpression) -> String {
    let pattern = &expression.pattern.pattern;
    let listed = |numbers: Vec<u16>| {
        let ranges = numbers
            .chunk_by(|one, next| one + 1 == *next)
            .map(|range| match range {
                [first, .., last] => format!("{first}-{last}"),
                _ => range[0].to_string(),
            });
        ranges.collect::<Vec<_>>().join(",")
    };
    let days = |star: bool, numbers| if star { "*".to_owned() } else { listed(numbers) };
    format!(
        "{} {} {} {} {}",
        listed(pattern.minutes.values()),
        listed(pattern.hours.values()),
        days(pattern.is_dom_wildcard(), pattern.days.values()),
        listed(pattern.months.values()),
        days(pattern.is_dow_wildcard(), pattern.days_of_week.values()),
    )
}

/// Returns the next times after a moment. Checks that they ascend, are whole minutes, and are found in both
/// directions.
fn times(recurrence: &Recurrence, after: DateTime<Utc>, text: &str) -> Vec<DateTime<Utc>> {
    let mut times = vec![after];
    for _ in 0..4 {
        let last = times[times.len() - 1];
        let next = recurrence
            .next_after(last)
            .unwrap_or_else(|| panic!("{text:?} has no occurrence after {last}"));
        assert!(next > last, "{text:?}: {next} is not after {last}");
        assert_eq!(next.timestamp() % 60, 0, "{text:?}: {next}");
        assert_eq!(recurrence.last_until(next), Some(next), "{text:?}");
        times.push(next);
    }
    times.split_off(1)
}

fn moment(random: &mut StdRng) -> DateTime<Utc> {
    // From 2020 to 2037, and half of the time near a clock change in some zone.
    let near = [1_774_745_000, 1_793_000_000, 1_772_900_000, 1_775_300_000];
    let seconds = match random.random_range(0..2) {
        0 => near[random.random_range(0..near.len())] + random.random_range(0..600_000),
        _ => random.random_range(1_577_836_800..2_145_916_800),
    };
    clock(seconds).expect("a moment")
}

#[test]
fn generated_expressions_round_trip() {
    let mut random = StdRng::seed_from_u64(SEED);
    let zones = [
        "UTC",
        "America/New_York",
        "Australia/Lord_Howe",
        "Apia",
        "Pacific Time (US & Canada)",
    ];
    for _ in 0..8_000 {
        let text = expression(&mut random);
        let read = CronExpression::parse(&text).unwrap_or_else(|| panic!("{text:?} is refused"));
        let again = written(&read);
        let reparsed = CronExpression::parse(&again)
            .unwrap_or_else(|| panic!("{text:?} is {again:?}, which is refused"));
        assert_eq!(
            (written(&reparsed), reparsed.every_hour),
            (again.clone(), read.every_hour),
            "{text:?}"
        );
        let zone = zone(zones[random.random_range(0..zones.len())]).expect("a zone");
        let [first, second] = [read, reparsed].map(|expression| Recurrence::new(expression, zone.clone()));
        let after = moment(&mut random);
        assert_eq!(
            times(&first, after, &text),
            times(&second, after, &again),
            "{text:?} and {again:?}"
        );
    }
}

#[test]
fn mutated_expressions_are_rejected_or_valid() {
    let mut random = StdRng::seed_from_u64(SEED + 1);
    let letters: Vec<char> = "0123456789*/,- \t\n\r\0LW#?@+%&xXäöj\u{661}\u{a0}\u{feff}sunJAN\u{1f4a5}"
        .chars()
        .collect();
    let (mut accepted, mut rejected) = (0, 0);
    for _ in 0..20_000 {
        let mut text: Vec<char> = expression(&mut random).chars().collect();
        for _ in 0..random.random_range(1..4) {
            let (at, letter) = (
                random.random_range(0..text.len()),
                letters[random.random_range(0..letters.len())],
            );
            match random.random_range(0..3) {
                0 => text[at] = letter,
                1 => text.insert(at, letter),
                _ => drop(text.remove(at)),
            }
        }
        let text: String = text.into_iter().collect();
        match Recurrence::parse(&text, "Europe/Berlin") {
            None => rejected += 1,
            Some(recurrence) => {
                times(&recurrence, moment(&mut random), &text);
                assert_eq!(text.split_ascii_whitespace().count(), 5, "{text:?}");
                accepted += 1;
            }
        }
    }
    assert!(accepted > 1_000 && rejected > 10_000, "{accepted} and {rejected}");
}

#[test]
fn mutated_time_zone_names_are_rejected_unless_known() {
    let mut random = StdRng::seed_from_u64(SEED + 2);
    let names: Vec<String> = jiff::tz::TimeZoneDatabase::bundled()
        .available()
        .map(|name| name.to_string())
        .collect();
    assert!(names.len() > 400, "{}", names.len());
    for name in &names {
        let found = zone(name).unwrap_or_else(|| panic!("{name} is refused"));
        assert_eq!(found.iana_name(), Some(name.as_str()));
        assert!(
            zone(&name.to_lowercase()).is_none() || name.to_lowercase() == *name,
            "{name}"
        );
    }
    let letters: Vec<char> = "abcXYZ019 /_-+.,:&()'\0\n\u{e9}\u{202e}\u{1f4a5}"
        .chars()
        .collect();
    let mut accepted = 0;
    for round in 0..20_000 {
        let mut text: Vec<char> = match round % 2 {
            0 => names[random.random_range(0..names.len())].chars().collect(),
            _ => Vec::new(),
        };
        for _ in 0..random.random_range(1..8) {
            let at = random.random_range(0..=text.len());
            match text.get_mut(at) {
                Some(letter) if random.random_range(0..2) == 0 => {
                    *letter = letters[random.random_range(0..letters.len())]
                }
                _ => text.insert(at, letters[random.random_range(0..letters.len())]),
            }
        }
        let text: String = text.into_iter().collect();
        if let Some(found) = zone(&text) {
            // The mutation produced the name of another zone or of a city.
            let own = found.iana_name().expect("a name");
            assert!(own.ends_with(&text.replace(' ', "_")), "{text:?} is {own}");
            accepted += 1;
        }
    }
    assert!(accepted < 500, "{accepted}");
}
