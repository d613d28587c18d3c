//! Parts of multipart forms: their number, sizes and names. A library splits the body into parts.

use serde_json::{Map, Value};

use crate::form;

/// Maximum number of parts in a form.
pub const MAX_PARTS: usize = 1_000;

/// The parameter that a form contains as a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileParameter<'f> {
    /// The name.
    pub name: &'f str,
    /// Whether the parameter must be a file. Otherwise, a part without a file name is a text.
    pub required: bool,
}

/// How a part is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PartKind {
    /// An attribute, which [`FormParts::add`] receives.
    Text,
    /// The file.
    File,
    /// The part has no name, and is not read.
    Unnamed,
}

/// Reason why a form is rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormError {
    /// The text for the client.
    #[error("{0}")]
    Invalid(String),
    /// The texts of all parts have too many bytes.
    #[error("the texts of the form are too large")]
    TooLarge,
}

/// The attributes of the parts of a form that were read so far.
#[derive(Debug)]
pub struct FormParts<'f> {
    file: Option<FileParameter<'f>>,
    bytes_left: u64,
    count: usize,
    attributes: Map<String, Value>,
}

impl<'f> FormParts<'f> {
    /// Starts a form whose texts have at most `text_bytes` bytes together.
    #[must_use]
    pub fn new(file: Option<FileParameter<'f>>, text_bytes: u64) -> Self {
        Self {
            file,
            bytes_left: text_bytes,
            count: 0,
            attributes: Map::new(),
        }
    }

    /// Counts a part, and returns how it is read.
    ///
    /// # Errors
    /// [`FormError::Invalid`] if the form has too many parts, or if the file has no file name.
    pub fn begin(&mut self, name: Option<&str>, has_file_name: bool) -> Result<PartKind, FormError> {
        self.count += 1;
        if self.count > MAX_PARTS {
            let text = format!("the body has too many parts (maximum is {MAX_PARTS})");
            return Err(FormError::Invalid(text));
        }
        let Some(name) = name else {
            return Ok(PartKind::Unnamed);
        };
        match self.file.filter(|file| file.name == name) {
            Some(_) if has_file_name => Ok(PartKind::File),
            Some(file) if file.required => Err(invalid(name)),
            _ => Ok(PartKind::Text),
        }
    }

    /// Returns the number of bytes that the next text can have.
    #[must_use]
    pub fn bytes_left(&self) -> u64 {
        self.bytes_left
    }

    /// Adds a text by the bracket rules.
    ///
    /// # Errors
    /// [`FormError::TooLarge`] if the texts have too many bytes. [`FormError::Invalid`] if the text is not UTF-8, or if
    /// the name is invalid.
    pub fn add(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), FormError> {
        let left = self.bytes_left.checked_sub(bytes.len() as u64);
        self.bytes_left = left.ok_or(FormError::TooLarge)?;
        let text = String::from_utf8(bytes).map_err(|_| invalid(name))?;
        form::insert(&mut self.attributes, name, Value::String(text)).map_err(FormError::Invalid)
    }

    /// Returns the attributes.
    #[must_use]
    pub fn finish(self) -> Map<String, Value> {
        self.attributes
    }
}

fn invalid(name: &str) -> FormError {
    FormError::Invalid(format!("{name} is invalid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn part_is_file_by_its_parameter_and_file_name() {
        let file = |required| FileParameter {
            name: "file",
            required,
        };
        for (file, name, has_file_name, kind) in [
            (Some(file(true)), Some("file"), true, Ok(PartKind::File)),
            (Some(file(true)), Some("file"), false, Err(invalid("file"))),
            (Some(file(false)), Some("file"), true, Ok(PartKind::File)),
            (Some(file(false)), Some("file"), false, Ok(PartKind::Text)),
            (Some(file(true)), Some("other"), true, Ok(PartKind::Text)),
            (Some(file(true)), None, true, Ok(PartKind::Unnamed)),
            (None, Some("file"), true, Ok(PartKind::Text)),
            (None, Some(""), false, Ok(PartKind::Text)),
        ] {
            let found = FormParts::new(file, 0).begin(name, has_file_name);
            assert_eq!(found, kind, "{file:?} {name:?} {has_file_name}");
        }
    }

    #[test]
    fn texts_are_limited_together() {
        let mut parts = FormParts::new(None, 5);
        assert_eq!(parts.add("a[]", b"123".to_vec()), Ok(()));
        assert_eq!(parts.bytes_left(), 2);
        assert_eq!(parts.add("a[]", b"45".to_vec()), Ok(()));
        assert_eq!(parts.add("a[]", b"6".to_vec()), Err(FormError::TooLarge));
        assert_eq!(Value::Object(parts.finish()), json!({ "a": ["123", "45"] }));
    }

    #[test]
    fn number_of_parts_is_limited() {
        let mut parts = FormParts::new(None, 0);
        for _ in 0..MAX_PARTS {
            assert_eq!(parts.begin(None, false), Ok(PartKind::Unnamed));
        }
        assert!(parts.begin(None, false).is_err());
    }

    #[test]
    fn texts_that_are_not_utf_8_are_rejected() {
        let mut parts = FormParts::new(None, 5);
        assert_eq!(parts.add("a", vec![0xff]), Err(invalid("a")));
    }
}
