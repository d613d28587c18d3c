//! Regular expressions for the whole names of tags.

use regex::bytes::{Regex, RegexBuilder};

use super::re2::{self, InvalidRegex, MAX_NESTING};

/// Maximum size of a compiled expression, in bytes. The time of a match is proportional to it.
const MAX_PROGRAM_BYTES: usize = 256 * 1024;

/// A regular expression that must match a whole text.
#[derive(Debug)]
pub struct AnchoredRegex(Regex);

impl AnchoredRegex {
    /// Compiles an expression, which takes noticeable time.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] with the reason.
    pub fn compile(expression: &str) -> Result<Self, InvalidRegex> {
        let expression = &*re2::without_quotes(expression);
        // Compile it alone first, so that it cannot close the group that is added below and open another.
        let unicode = needs_unicode(expression)?;
        re2::check_compatible(expression)?;
        build(&format!(r"\A(?:{expression})\z"), unicode)
            .map(Self)
            .map_err(re2::reason)
    }

    /// Returns whether the whole text matches.
    #[must_use]
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text.as_bytes())
    }
}

/// Returns whether an expression needs Unicode. Tag names are ASCII. Without Unicode, `\w` and similar
/// classes match as in RE2, and the compiled size is a hundredth.
fn needs_unicode(expression: &str) -> Result<bool, InvalidRegex> {
    match build(expression, false) {
        Ok(_) => Ok(false),
        Err(regex::Error::Syntax(_)) => build(expression, true).map(|_| true).map_err(re2::reason),
        Err(error) => Err(re2::reason(error)),
    }
}

fn build(expression: &str, unicode: bool) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression)
        .unicode(unicode)
        .octal(true)
        .size_limit(MAX_PROGRAM_BYTES)
        .dfa_size_limit(MAX_PROGRAM_BYTES * 4)
        .nest_limit(MAX_NESTING)
        .build()
}
