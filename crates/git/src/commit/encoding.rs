//! Encodings of the texts of commits.

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// Encoding of the names and the message of a commit.
#[derive(Debug, Clone, Copy)]
pub(super) enum TextEncoding {
    /// UTF-8, the default.
    Utf8,
    /// ISO-8859-1 with all control characters. The standard of `encoding_rs` decodes this name as Windows-1252.
    Latin1,
    /// Another encoding.
    Other(&'static Encoding),
    /// An encoding that the server cannot decode. Texts are shown as UTF-8.
    Unknown,
}

impl TextEncoding {
    /// Returns the encoding that the header `encoding` of a commit names, if the commit has one.
    pub(super) fn of_header(value: Option<&[u8]>) -> Self {
        let Some(label) = value else {
            return Self::Utf8;
        };
        if is_latin1(label) {
            return Self::Latin1;
        }
        match Encoding::for_label_no_replacement(label) {
            Some(encoding) if encoding == UTF_8 => Self::Utf8,
            Some(encoding) if encoding != UTF_16LE && encoding != UTF_16BE => Self::Other(encoding),
            _ => Self::Unknown,
        }
    }

    /// Decodes a text, and replaces invalid bytes.
    pub(super) fn decode(self, bytes: &[u8]) -> String {
        match self {
            Self::Latin1 => bytes.iter().map(|&byte| char::from(byte)).collect(),
            Self::Other(encoding) => encoding.decode_without_bom_handling(bytes).0.into_owned(),
            Self::Utf8 | Self::Unknown => String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// Returns whether [`Self::decode`] loses nothing.
    pub(super) fn is_valid(self, bytes: &[u8]) -> bool {
        match self {
            Self::Latin1 => true,
            Self::Other(encoding) => !encoding.decode_without_bom_handling(bytes).1,
            Self::Utf8 => std::str::from_utf8(bytes).is_ok(),
            Self::Unknown => false,
        }
    }
}

fn is_latin1(label: &[u8]) -> bool {
    let plain: Vec<u8> = label
        .iter()
        .filter(|b| b.is_ascii_alphanumeric())
        .map(u8::to_ascii_lowercase)
        .collect();
    matches!(plain.as_slice(), b"iso88591" | b"latin1")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_encodings_are_decoded() {
        for (label, bytes, text) in [
            (&b"windows-1251"[..], &b"\xcf\xf0\xe8\xe2\xe5\xf2"[..], "Привет"),
            (b"KOI8-R", b"\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"),
            (b"Shift_JIS", b"\x93\xfa\x96\x7b", "日本"),
            (b"EUC-JP", b"\xc6\xfc\xcb\xdc", "日本"),
            (b"GBK", b"\xd6\xd0\xb9\xfa", "中国"),
            (b"ISO-8859-15", b"\xa4", "€"),
            (b"ISO-8859-1", b"\xfc\x80", "ü\u{80}"),
            (b"utf8", "ü".as_bytes(), "ü"),
        ] {
            let encoding = TextEncoding::of_header(Some(label));
            assert_eq!(encoding.decode(bytes), text);
            assert!(encoding.is_valid(bytes), "{text}");
        }
    }

    #[test]
    fn undecodable_texts_are_not_valid() {
        for (label, bytes) in [
            (None, &b"\xff"[..]),
            (Some(&b"EUC-JP"[..]), b"\xc6"),
            (Some(b"IBM-1047"), b"text"),
            (Some(b"UTF-16"), b"text"),
            (Some(b"HZ-GB-2312"), b"text"),
        ] {
            assert!(!TextEncoding::of_header(label).is_valid(bytes), "{label:?}");
        }
    }
}
