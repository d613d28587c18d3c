//! File content in a request: plain text or Base64.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;

use crate::kernel::error::{Error, Result};

/// Base64 with optional padding, because some encoders omit it.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Decodes `text`. Base64 may contain whitespace and lack padding. Other characters outside the alphabet are
/// rejected, so that corrupted content is never stored.
///
/// # Errors
/// Returns `Error::Rejected` if it is not valid Base64.
pub fn decode(text: String, base64: bool) -> Result<Bytes> {
    if !base64 {
        return Ok(text.into());
    }
    let mut text = text.into_bytes();
    text.retain(|byte| !byte.is_ascii_whitespace());
    let bytes = LENIENT.decode(text);
    bytes
        .map(Bytes::from)
        .map_err(|_| Error::Rejected("content is not valid Base64".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_accepts_line_breaks_and_missing_padding() {
        for (text, expected) in [
            ("", ""),
            ("Zm9v", "foo"),
            ("Zm9vYg==", "foob"),
            ("Zm9vYg", "foob"),
            ("Zm9v\r\nYg==\n", "foob"),
            (" Zm 9v ", "foo"),
        ] {
            assert_eq!(decode(text.to_owned(), true).unwrap(), expected, "{text:?}");
        }
    }

    #[test]
    fn invalid_base64_is_rejected() {
        for text in ["Zm9v!", "Zm9vY", "====", "Zm9v\0", "ä", "_-_-"] {
            assert!(
                matches!(decode(text.to_owned(), true), Err(Error::Rejected(_))),
                "{text:?}"
            );
        }
    }

    #[test]
    fn text_content_is_unchanged() {
        assert_eq!(decode(" a\r\n\0".to_owned(), false).unwrap(), " a\r\n\0");
    }
}
