//! Validation of titles and colors of labels.

use super::colors;
use crate::kernel::error::{Error, Result};

/// Color of labels that were created without one.
pub(crate) const DEFAULT_COLOR: &str = "#428BCA";

/// Maximum length of a title, in characters.
const MAX_TITLE_LENGTH: usize = 255;

/// Validates a trimmed title.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, too long or contains a comma, which separates
/// titles in lists.
pub fn check_title(title: &str) -> Result<()> {
    let error = if title.is_empty() {
        "can't be blank"
    } else if title.chars().count() > MAX_TITLE_LENGTH {
        "is too long (maximum is 255 characters)"
    } else if title.contains(',') {
        "is invalid"
    } else {
        return Ok(());
    };
    Err(Error::attribute("title", error))
}

/// Parses a color and returns it in its stored form.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the color is invalid.
pub fn parse_color(text: &str) -> Result<String> {
    colors::parse(text.trim()).ok_or_else(|| Error::attribute("color", "must be a valid color code"))
}
