//! Checks of the parsers of multipart forms, and of the search for packs.

use serde_json::{Map, Value};

use super::parameters::check_parameters;
use crate::form;
use crate::multipart::{FileParameter, FormError, FormParts, MAX_PARTS, PartKind};
use crate::pack_start::{MAX_SEARCHED, PACK_START, PackSearch, SearchResult};

/// Maximum size of the texts of a form in a check, in bytes.
const TEXT_BYTES: u64 = 64;

/// Reads the lines of the input as parts of a form. A line that starts with `f` has a file name, and a line without `=` has
/// no name. The attributes must be those of the texts, and limited in number and size.
pub fn multipart_form(input: &[u8]) {
    let parameters = [
        None,
        Some(FileParameter {
            name: "file",
            required: false,
        }),
        Some(FileParameter {
            name: "file",
            required: true,
        }),
    ];
    for file in parameters {
        read_form(input, file);
    }
}

fn read_form(input: &[u8], file: Option<FileParameter<'_>>) {
    let mut parts = FormParts::new(file, TEXT_BYTES);
    let mut texts: Vec<(String, String)> = Vec::new();
    let mut expected = Map::new();
    let mut size = 0;
    for (number, line) in input.split(|byte| *byte == b'\n').enumerate() {
        let (has_file_name, rest) = match line.split_first() {
            Some((b'f', rest)) => (true, rest),
            Some((_, rest)) => (false, rest),
            None => (false, line),
        };
        let end = rest.iter().position(|byte| *byte == b'=');
        let (name, value) = rest.split_at(end.unwrap_or(rest.len()));
        let Ok(name) = std::str::from_utf8(name) else {
            return;
        };
        let value = value.get(1..).unwrap_or_default();
        match parts.begin(end.map(|_| name), has_file_name) {
            Ok(PartKind::Unnamed) => assert_eq!(end, None),
            Ok(PartKind::File) => {
                assert!(
                    has_file_name && file.is_some_and(|file| file.name == name),
                    "{name:?}"
                );
            }
            Ok(PartKind::Text) => {
                size += value.len() as u64;
                match parts.add(name, value.to_vec()) {
                    Ok(()) => {
                        let text = String::from_utf8_lossy(value).into_owned();
                        let same = form::insert(&mut expected, name, Value::String(text.clone()));
                        assert_eq!(same, Ok(()));
                        texts.push((name.to_owned(), text));
                    }
                    Err(FormError::TooLarge) => {
                        assert!(size > TEXT_BYTES, "{size}");
                        return;
                    }
                    // An error ends the request.
                    Err(FormError::Invalid(_)) => return,
                }
                assert_eq!(parts.bytes_left(), TEXT_BYTES - size);
            }
            Err(error) => {
                let is_file = file.is_some_and(|file| file.required && file.name == name);
                assert!(number >= MAX_PARTS || (is_file && !has_file_name), "{error}");
                return;
            }
        }
        assert!(number < MAX_PARTS, "{number}");
    }
    let attributes = parts.finish();
    assert_eq!(attributes, expected);
    check_parameters(&Ok(attributes), &texts);
}

/// Searches a response for the start of a pack. The result must not depend on the pieces in which the response arrives.
pub fn pack_start(input: &[u8]) {
    let Some((length, response)) = input.split_first() else {
        return;
    };
    if response.len() > MAX_SEARCHED {
        return;
    }
    let contains = response
        .windows(PACK_START.len())
        .any(|window| window == PACK_START);
    for length in [
        usize::from(*length).max(1),
        1,
        PACK_START.len(),
        response.len().max(1),
    ] {
        let mut search = PackSearch::default();
        let mut results = response.chunks(length).map(|piece| search.feed(piece));
        assert_eq!(
            results.any(|result| result == SearchResult::Found),
            contains,
            "{length}"
        );
    }
}
