//! Validation of titles and colors of labels.

use super::colors;
use crate::kernel::error::{Error, Result};

/// Color of labels that were created without one.
pub(crate) const DEFAULT_COLOR: &str = "#428BCA";

/// Maximum length of a title, in characters.
const LONGEST_TITLE: usize = 255;

/// Validates a trimmed title.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the title is blank, too long or contains a comma, which separates
/// titles in lists.
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

/// Returns the color as it is stored.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the color is invalid.
pub fn color(text: &str) -> Result<String> {
    colors::parse(text.trim()).ok_or_else(|| Error::attribute("color", "must be a valid color code"))
}
