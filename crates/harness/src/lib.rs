//! Test harness for integration tests.
//!
//! A test binary with `harness = false` registers its functions with [`tests!`](crate::tests) and calls [`main`]. The
//! harness accepts the arguments of `cargo test` and nextest. A test whose requirement is missing is reported as ignored.

mod arguments;
pub mod directory;
mod failures;
pub mod postgresql;
mod processes;
mod registration;
mod supervisor;
mod timings;

use std::process::ExitCode;

use libtest_mimic::Trial;

pub use registration::{
    Asynchronous, EVERY_DATABASE, Function, ON_POSTGRESQL, ON_SQLITE, POSTGRESQL, Requirement, Run,
    Synchronous, Test, TestFuture, Tests, Variant, run_on_threads,
};

#[doc(hidden)]
pub use inventory;

/// Environment variable with a [`Selection`].
const SELECTION: &str = "HOLDFAST_TEST_REQUIREMENTS";

/// Runs the registered tests that the arguments select.
#[must_use]
pub fn main() -> ExitCode {
    if let Some(code) = supervisor::run_if_requested() {
        return code;
    }
    failures::install();
    let (arguments, filters) = match arguments::parse(std::env::args().collect()) {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    let selection = match Selection::read() {
        Ok(selection) => selection,
        Err(error) => return error,
    };
    let mut ignored = Ignored::default();
    let mut trials = Vec::new();
    for (name, test, variant) in registered() {
        let is_selected = selection != Selection::Only || variant.requirement.is_some();
        if !is_selected || !filters.select(&name, arguments.exact) {
            continue;
        }
        let missing = selection.missing(variant);
        let run = || test.run.run(variant.name);
        let trial_name = name.clone();
        let trial = Trial::test(name, move || {
            timings::measure(&trial_name, || failures::catch(run))
        });
        let trial = trial.with_ignored_flag(missing.is_some());
        if arguments.is_filtered_out(&trial) {
            continue;
        }
        if let Some(reason) = missing
            && arguments.is_ignored(&trial)
        {
            ignored.count(reason);
        }
        trials.push(trial);
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if !arguments.list {
        timings::print();
        ignored.print();
    }
    conclusion.exit_code()
}

/// Returns all tests with their names, ordered by name.
fn registered() -> Vec<(String, &'static Test, &'static Variant)> {
    let tests = inventory::iter::<Tests>.into_iter().flat_map(|tests| tests.0);
    let variants = tests.flat_map(|test| test.variants.iter().map(move |variant| (test, variant)));
    let mut named: Vec<_> = variants
        .map(|(test, variant)| (test.name(variant), test, variant))
        .collect();
    named.sort_unstable_by(|(one, ..), (other, ..)| one.cmp(other));
    for pair in named.windows(2) {
        assert_ne!(pair[0].0, pair[1].0, "a test is registered twice");
    }
    named
}

/// Treatment of tests that have a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Selection {
    /// Ignores the tests whose requirement is missing.
    Available,
    /// `all`: ignores no test. Tests whose requirement is missing fail.
    All,
    /// `none`: ignores all tests that have a requirement.
    None,
    /// `only`: runs all tests that have a requirement, and no others.
    Only,
}

impl Selection {
    #[expect(clippy::print_stderr, reason = "part of the test report")]
    fn read() -> Result<Self, ExitCode> {
        match std::env::var(SELECTION).unwrap_or_default().as_str() {
            "" => Ok(Self::Available),
            "all" => Ok(Self::All),
            "none" => Ok(Self::None),
            "only" => Ok(Self::Only),
            other => {
                eprintln!("{SELECTION} is {other:?} (must be all, none or only)");
                Err(ExitCode::FAILURE)
            }
        }
    }

    /// Returns how to enable a test, if it is to be ignored.
    fn missing(self, variant: &Variant) -> Option<&'static str> {
        match self {
            Self::Available => variant.missing(),
            Self::All | Self::Only => None,
            Self::None => variant
                .requirement
                .map(|_| "HOLDFAST_TEST_REQUIREMENTS is `none`."),
        }
    }
}

/// Numbers of ignored tests by reason.
#[derive(Default)]
struct Ignored(Vec<(&'static str, usize)>);

impl Ignored {
    fn count(&mut self, reason: &'static str) {
        match self.0.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => self.0.push((reason, 1)),
        }
    }

    #[expect(clippy::print_stdout, reason = "part of the test report")]
    fn print(&self) {
        for (reason, count) in &self.0 {
            println!("ignored {count} tests: {reason}\n");
        }
    }
}
