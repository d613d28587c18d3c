//! Command line of a test binary.

use libtest_mimic::Arguments;

/// Options that are followed by a value.
const WITH_VALUE: [&str; 6] = [
    "--test-threads",
    "--logfile",
    "--skip",
    "--color",
    "--format",
    "-Z",
];

/// Texts of which a test name must contain one. None selects all tests.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Filters(Vec<String>);

impl Filters {
    /// Returns whether a test is selected.
    pub(crate) fn select(&self, name: &str, exact: bool) -> bool {
        let matches = |filter: &String| {
            if exact {
                name == filter
            } else {
                name.contains(filter.as_str())
            }
        };
        self.0.is_empty() || self.0.iter().any(matches)
    }
}

/// A command line that cannot be parsed.
pub(crate) struct Invalid(Vec<String>);

impl Invalid {
    /// Prints the error and exits.
    pub(crate) fn exit(self) -> ! {
        // The parser of the library prints its own error and exits.
        let _ = Arguments::from_iter(self.0);
        std::process::exit(2)
    }
}

/// Parses the arguments of libtest. In contrast to the library, accepts several filters and `RUST_TEST_THREADS`.
pub(crate) fn parse(all: Vec<String>) -> Result<(Arguments, Filters), Invalid> {
    let (options, filters) = split(all);
    let mut arguments = Arguments::from_iter(options);
    if arguments.test_threads.is_none()
        && let Ok(text) = std::env::var("RUST_TEST_THREADS")
    {
        match text.parse() {
            Ok(threads) if threads > 0 => arguments.test_threads = Some(threads),
            _ => {
                return Err(Invalid(vec![
                    "RUST_TEST_THREADS".to_owned(),
                    format!("--test-threads={text}"),
                ]));
            }
        }
    }
    Ok((arguments, filters))
}

fn split(all: Vec<String>) -> (Vec<String>, Filters) {
    let (mut options, mut filters) = (Vec::new(), Vec::new());
    let mut all = all.into_iter();
    // The name of the program.
    options.extend(all.next());
    while let Some(argument) = all.next() {
        if argument == "--" {
            filters.extend(all.by_ref());
        } else if WITH_VALUE.contains(&argument.as_str()) {
            options.push(argument);
            options.extend(all.next());
        } else if argument == "--no-capture" {
            options.push("--nocapture".to_owned());
        } else if argument.starts_with('-') {
            options.push(argument);
        } else {
            filters.push(argument);
        }
    }
    (options, Filters(filters))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn filters_are_separated_from_options_and_their_values() {
        let (options, filters) = split(words(
            "it a:: --skip b --test-threads 3 c -Z unstable-options --exact",
        ));
        assert_eq!(
            options,
            words("it --skip b --test-threads 3 -Z unstable-options --exact")
        );
        assert_eq!(filters, Filters(words("a:: c")));
    }

    #[test]
    fn any_filter_selects_a_test_and_exact_filters_match_whole_names() {
        let filters = Filters(words("a:: c::d"));
        assert!(
            filters.select("a::b", false)
                && filters.select("x::c::d::e", false)
                && !filters.select("b", false)
        );
        assert!(filters.select("c::d", true) && !filters.select("a::b", true));
        assert!(Filters::default().select("b", true));
    }
}
