//! `docs/LIMITS.md` has the values of the settings and constants, and lists all of them.

use std::path::{Path, PathBuf};

use holdfast::config::ConfigOptions;

/// Files whose constants limit requests. All of their limits must be on the page.
const FILES: [&str; 28] = [
    "src/web/limits.rs",
    "src/web/connections/mod.rs",
    "src/web/connections/body_rate.rs",
    "src/web/connections/drain_body.rs",
    "src/api/body.rs",
    "src/api/form.rs",
    "src/api/parameters/mod.rs",
    "crates/parsers/src/form.rs",
    "crates/parsers/src/json.rs",
    "crates/parsers/src/group_archive/entry.rs",
    "crates/parsers/src/group_archive/layout.rs",
    "crates/parsers/src/group_archive/mod.rs",
    "crates/parsers/src/group_archive/records.rs",
    "crates/git/src/slots.rs",
    "crates/git/src/process/confinement.rs",
    "crates/git/src/process/mod.rs",
    "crates/git/src/object_memory.rs",
    "crates/git/src/spool.rs",
    "crates/git/src/diff/mod.rs",
    "crates/git/src/diff/changed_paths.rs",
    "crates/git/src/diff/direct.rs",
    "crates/git/src/diff/parse.rs",
    "crates/git/src/diff/tree_walk.rs",
    "crates/domain/src/identity/known_addresses.rs",
    "crates/domain/src/identity/password_attempts.rs",
    "crates/domain/src/kernel/budgets/upload_slots.rs",
    "crates/domain/src/kernel/budgets/payload_slots.rs",
    "crates/domain/src/transfers/imports/archive.rs",
];
/// Beginnings of the names of constants that are limits.
const LIMIT_NAMES: [&str; 11] = [
    "MAX_",
    "UNLIMITED_",
    "GRACE_PERIOD",
    "CHUNK_TIMEOUT",
    "SLOT_TIMEOUT",
    "DRAIN_TIMEOUT",
    "TIME_LIMIT",
    "RAW_TIME_LIMIT",
    "MEMORY_FACTOR",
    "MIN_MEMORY",
    "RETENTION",
];
/// Settings that limit nothing that requests use.
const OTHER_SETTINGS: [&str; 2] = ["untagged_image_days", "low_disk_bytes"];

fn read(path: impl AsRef<Path>) -> String {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the values of the page by setting, or by `FILE: CONSTANT`.
fn values() -> Vec<(String, String)> {
    let page = read("docs/LIMITS.md");
    let rows = page
        .lines()
        .filter(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect::<Vec<_>>());
    rows.filter(|cells| cells.len() == 5).map(|cells| (cells[2].replace('`', ""), cells[1].clone())).collect()
}

/// Returns the number at the start of a value, if there is one.
fn number(value: &str) -> Option<u64> {
    let digits: String = value.chars().take_while(|c| c.is_ascii_digit() || *c == ',').filter(|c| *c != ',').collect();
    digits.parse().ok()
}

/// Returns the value of a constant expression: a product of numbers with shifts, or a duration in seconds or days.
fn evaluate(expression: &str) -> Option<u64> {
    let durations = ["Duration::from_secs(", "TimeDelta::days("];
    let product = durations.iter().find_map(|start| expression.strip_prefix(start));
    let expression = product.map_or(expression, |rest| rest.trim_end_matches(')'));
    let factors = expression.split('*').map(|factor| {
        let (base, shift) = factor.split_once("<<").unwrap_or((factor, "0"));
        let plain = |text: &str| text.trim().replace('_', "").parse::<u64>().ok();
        Some(plain(base)? << plain(shift)?)
    });
    factors.product()
}

/// Returns the expression of a constant in a source.
fn constant(source: &str, name: &str) -> Option<String> {
    let declaration = source.lines().find(|line| line.contains(&format!("const {name}: ")))?;
    Some(declaration.split_once(" = ")?.1.trim_end_matches(';').to_owned())
}

fn page_has_values_of_constants() {
    let mut compared = 0;
    for (origin, value) in values() {
        let Some((file, name)) = origin.split_once(": ") else { continue };
        let expression = constant(&read(file), name).unwrap_or_else(|| panic!("{origin} does not exist"));
        assert_eq!(number(&value), evaluate(&expression), "{origin}: {value}, but {expression}");
        compared += 1;
    }
    assert!(compared > 15, "{compared}");
}

fn page_has_defaults_of_settings() {
    let defaults = format!("{:#?}", ConfigOptions::default().settings().expect("settings"));
    let mut compared = 0;
    for (name, value) in values() {
        let Some(default) = defaults.lines().find_map(|line| line.trim().strip_prefix(&format!("{name}: "))) else {
            continue;
        };
        let Some(number) = number(&value) else { continue };
        assert_eq!(default.trim_end_matches(['s', ',']).parse(), Ok(number), "{name}: {value}, but {default}");
        compared += 1;
    }
    assert!(compared > 8, "{compared}");
}

fn page_lists_all_limits() {
    let page = read("docs/LIMITS.md");
    for file in FILES {
        let source = read(file);
        // Constants of tests limit no requests.
        let code = source.split("\nmod tests {").next().unwrap_or_default();
        for line in code.lines() {
            let name = line.split_once("const ").and_then(|(_, rest)| rest.split_once(": ")).map(|(name, _)| name);
            let Some(name) = name.filter(|name| LIMIT_NAMES.iter().any(|start| name.starts_with(start))) else {
                continue;
            };
            assert!(page.contains(&format!("`{file}`: `{name}`")), "{file}: {name} is not in docs/LIMITS.md");
        }
    }
    let readme = read("README.md");
    let keys = readme.lines().filter(|line| line.starts_with("| `--")).filter_map(|line| line.split('`').nth(5));
    let limits = keys.filter(|key| {
        let words = ["max_", "timeout", "per_minute", "bytes", "connections", "concurrency", "seconds", "days"];
        words.iter().any(|word| key.contains(word)) && !OTHER_SETTINGS.contains(key)
    });
    let missing: Vec<&str> = limits.filter(|key| !page.contains(&format!("`{key}`"))).collect();
    assert!(missing.is_empty(), "docs/LIMITS.md lacks {missing:?}");
}

harness::tests![page_has_values_of_constants, page_has_defaults_of_settings, page_lists_all_limits];
