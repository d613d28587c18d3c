//! Results of the checks of `doctor` and `backup verify`.

use serde::Serialize;

/// One check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// The checked things, such as `repositories`.
    pub subject: &'static str,
    /// Their number.
    pub checked: u64,
    /// Problems, one line each.
    pub problems: Vec<String>,
}

impl Check {
    /// Creates a check that has not checked anything.
    #[must_use]
    pub fn new(subject: &'static str) -> Self {
        Self {
            subject,
            checked: 0,
            problems: Vec::new(),
        }
    }
}
