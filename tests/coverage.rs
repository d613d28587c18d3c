//! Checks that every documented response status was tested. Runs after all other tests (`cargo test --test coverage`)
//! and reads the marks they wrote to `HOLDFAST_COVERAGE_DIR`. The list `tests/coverage.allow` may only shrink.

// A test that cannot continue panics.
#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::Path;

use contract::table::operations;

/// Statuses that every operation documents and that occur only on failure or overload.
const FAULTS: [u16; 4] = [429, 500, 503, 507];

#[test]
fn every_documented_status_is_tested() {
    let folder = std::env::var("HOLDFAST_COVERAGE_DIR").expect("HOLDFAST_COVERAGE_DIR, as .ci/run sets it");
    let seen: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("marks of a test run")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().replace('.', " "))
        .collect();
    assert!(seen.len() > 100, "the marks are not those of a whole test run");
    let documented: BTreeSet<String> = operations()
        .iter()
        .flat_map(|operation| {
            let statuses = operation.statuses.iter().filter(|status| !FAULTS.contains(status));
            statuses.map(|status| format!("{} {status}", operation.id))
        })
        .collect();
    let unseen: BTreeSet<String> = documented.difference(&seen).cloned().collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/coverage.allow");
    let allowed: BTreeSet<String> =
        std::fs::read_to_string(path).expect("the list").lines().map(str::to_owned).collect();
    let new: Vec<&String> = unseen.difference(&allowed).collect();
    assert!(new.is_empty(), "documented but not tested:\n{new:#?}");
    let stale: Vec<&String> = allowed.difference(&unseen).collect();
    assert!(stale.is_empty(), "tested or removed: delete from tests/coverage.allow:\n{stale:#?}");
}
