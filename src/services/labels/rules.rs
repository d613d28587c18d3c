//! What a label may be called, and how it may look.

use super::colors;
use crate::error::{Error, Result};

/// The colour of labels that nobody chose one for.
pub(in crate::services) const DEFAULT_COLOR: &str = "#428BCA";

/// The most characters of a title.
const LONGEST_TITLE: usize = 255;

/// Checks a title that is trimmed already.
///
/// # Errors
/// 400 for one that is blank or too long, or has a comma: titles are told in lists separated by commas.
pub fn title(title: &str) -> Result<()> {
    let fault = if title.is_empty() {
        "can't be blank"
    } else if title.chars().count() > LONGEST_TITLE {
        "is too long (maximum is 255 characters)"
    } else if title.contains(',') {
        "is invalid"
    } else {
        return Ok(());
    };
    Err(Error::attribute("title", fault))
}

/// A colour as it is kept.
///
/// # Errors
/// 400 for what is none.
pub fn color(text: &str) -> Result<String> {
    colors::parse(text.trim()).ok_or_else(|| Error::attribute("color", "must be a valid color code"))
}
