//! Streaming JSON parser: reads objects by entry and lists by item, and tracks the position.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::bounded::truncate;
use super::error::ReportError;

/// Size of the read buffer, in bytes.
const PIECE: usize = 64 << 10;
/// Maximum length of a text in a document, in encoded bytes.
pub const MAX_TEXT_BYTES: usize = 4 << 20;
/// Maximum nesting of a document.
pub const MAX_NESTING: usize = 100;
/// Maximum length of a fault message in an error, in characters, because it quotes the document.
const MAX_FAULT_LENGTH: usize = 200;
/// The UTF-8 byte order mark that Windows programs add.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// An object that is read by entry.
pub trait ObjectReader {
    /// The supported keys; others are skipped.
    const KEYS: &'static [&'static str];

    /// Reads the value of a supported key.
    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &DocumentPosition,
    ) -> Result<(), A::Error>;
}

/// A list that is read by item.
pub trait ListReader {
    /// Reads the next item; returns false at the end.
    fn item<'de, A: SeqAccess<'de>>(
        &mut self,
        list: &mut A,
        trail: &DocumentPosition,
    ) -> Result<bool, A::Error>;
}

/// Current position in a document; after an error, the position of the error.
#[derive(Debug, Default)]
pub struct DocumentPosition(RefCell<Vec<PositionStep>>);

#[derive(Debug, Clone, Copy)]
enum PositionStep {
    Key(&'static str),
    Index(usize),
}

impl DocumentPosition {
    /// Reads a value at a step. An error leaves the trail at that step.
    fn at<T, E>(&self, step: PositionStep, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.0.borrow_mut().push(step);
        let value = read()?;
        self.0.borrow_mut().pop();
        Ok(value)
    }

    /// Returns the attribute at the root of the document.
    fn attribute(&self) -> &'static str {
        match self.0.borrow().first() {
            Some(PositionStep::Key(key)) => key,
            _ => "base",
        }
    }

    /// Returns the position as a JSON pointer.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.0.borrow().iter() {
            // Writing to a `String` does not fail.
            let _ = match step {
                PositionStep::Key(key) => write!(pointer, "/{key}"),
                PositionStep::Index(index) => write!(pointer, "/{index}"),
            };
        }
        pointer
    }
}

/// Deserializes an object or a list into its reader.
pub struct ObjectSeed<'a, T> {
    into: &'a mut T,
    trail: &'a DocumentPosition,
}

/// Deserializes a list into its reader.
pub struct ListSeed<'a, T>(ObjectSeed<'a, T>);

impl<'a, T> ObjectSeed<'a, T> {
    /// Creates a deserializer of an object.
    pub fn of(into: &'a mut T, trail: &'a DocumentPosition) -> Self {
        Self { into, trail }
    }

    /// Creates a deserializer of a list.
    pub fn each(into: &'a mut T, trail: &'a DocumentPosition) -> ListSeed<'a, T> {
        ListSeed(Self { into, trail })
    }
}

impl<'de, T: ObjectReader> DeserializeSeed<'de> for ObjectSeed<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: ObjectReader> Visitor<'de> for ObjectSeed<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = vec![false; T::KEYS.len()];
        while let Some(known) = map.next_key_seed(KeySeed(T::KEYS))? {
            let Some(index) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let key = T::KEYS[index];
            if std::mem::replace(&mut seen[index], true) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            let trail = self.trail;
            trail.at(PositionStep::Key(key), || self.into.entry(key, &mut map, trail))?;
        }
        Ok(())
    }
}

impl<'de, T: ListReader> DeserializeSeed<'de> for ListSeed<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Null is an empty list.
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: ListReader> Visitor<'de> for ListSeed<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let ObjectSeed { into, trail } = self.0;
        let mut index = 0;
        while trail.at(PositionStep::Index(index), || into.item(&mut list, trail))? {
            index += 1;
        }
        Ok(())
    }
}

/// Deserializes a key to one of the supported keys.
struct KeySeed(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for KeySeed {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for KeySeed {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == key))
    }
}

/// Parses a document from its start.
///
/// # Errors
/// Returns an error with the position if the document is invalid, and [`ReportError::Io`] if it cannot be read.
pub fn parse(
    file: &mut (impl Read + Seek),
    trail: &DocumentPosition,
    into: &mut impl ObjectReader,
) -> Result<(), ReportError> {
    begin(file)?;
    let reader = BufReader::with_capacity(PIECE, LimitedReader::new(file));
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let read = ObjectSeed::of(into, trail).deserialize(&mut deserializer);
    let read = read.and_then(|()| deserializer.end());
    read.map_err(|error| parse_error(error, trail))
}

/// Moves to the start of the text in a file, after the byte order mark.
fn begin(file: &mut (impl Read + Seek)) -> io::Result<()> {
    file.rewind()?;
    let mut mark = Vec::with_capacity(BYTE_ORDER_MARK.len());
    file.by_ref()
        .take(BYTE_ORDER_MARK.len() as u64)
        .read_to_end(&mut mark)?;
    if mark != BYTE_ORDER_MARK {
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(())
}

fn parse_error(error: serde_json::Error, trail: &DocumentPosition) -> ReportError {
    let (what, position) = parts(&error);
    match (error.classify(), error.io_error_kind()) {
        // Limits enforced by `LimitedReader`.
        (Category::Io, Some(ErrorKind::InvalidData)) => ReportError::Invalid(what),
        (Category::Io, _) => ReportError::Io(error.into()),
        (Category::Data, _) => {
            let pointer = trail.pointer();
            let pointer = if pointer.is_empty() { "/" } else { &pointer };
            ReportError::Attribute {
                name: trail.attribute(),
                text: format!("{pointer}: {what}{position}"),
            }
        }
        (Category::Syntax | Category::Eof, _) => {
            ReportError::Invalid(format!("the body is not valid JSON: {what}{position}"))
        }
    }
}

/// Returns a short reason and the position of an error.
fn parts(error: &serde_json::Error) -> (String, String) {
    let position = format!(" at line {} column {}", error.line(), error.column());
    let text = error.to_string();
    let what = text.strip_suffix(&position).unwrap_or(&text);
    (truncate(what, MAX_FAULT_LENGTH), position)
}

/// Reader that limits what the parser buffers regardless of size: texts, and the nesting of skipped values.
struct LimitedReader<R> {
    inner: R,
    depth: usize,
    /// Length of the current text in bytes, if inside one.
    text: Option<usize>,
    escaped: bool,
}

impl<R> LimitedReader<R> {
    fn new(inner: R) -> Self {
        Self {
            inner,
            depth: 0,
            text: None,
            escaped: false,
        }
    }

    fn watch(&mut self, byte: u8) -> io::Result<()> {
        match self.text {
            Some(_) if self.escaped => self.escaped = false,
            Some(_) if byte == b'\\' => self.escaped = true,
            Some(_) if byte == b'"' => self.text = None,
            None => match byte {
                b'"' => self.text = Some(0),
                b'[' | b'{' => self.depth += 1,
                b']' | b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            },
            Some(_) => {}
        }
        if self.depth > MAX_NESTING {
            return Err(limit_error(format!(
                "the body is nested too deeply (maximum is {MAX_NESTING} levels)"
            )));
        }
        if let Some(length) = &mut self.text {
            *length += 1;
            if *length > MAX_TEXT_BYTES {
                let most = MAX_TEXT_BYTES >> 20;
                return Err(limit_error(format!(
                    "a string in the body is too long (maximum is {most} MiB)"
                )));
            }
        }
        Ok(())
    }
}

fn limit_error(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

impl<R: Read> Read for LimitedReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for byte in &buffer[..read] {
            self.watch(*byte)?;
        }
        Ok(read)
    }
}
