//! Reading JSON from a file bit by bit: an object entry by entry and a list item by item, with the place where it is.

use std::cell::RefCell;
use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;

use super::bounded::cut;
use crate::error::{Error, Result};

/// How much of the file is in memory at a time, in bytes.
const PIECE: usize = 64 << 10;
/// The longest text that a document may have, in bytes as they are sent.
pub const LONGEST_TEXT: usize = 4 << 20;
/// How deep a document may nest.
pub const DEEPEST: usize = 100;
/// How much of what a fault says is told, in characters: it repeats what stands in the document.
const LONGEST_FAULT: usize = 200;
/// What programs of Windows put before a text.
const BYTE_ORDER_MARK: [u8; 3] = [0xEF, 0xBB, 0xBF];

/// Something that is read entry by entry.
pub trait Object {
    /// The keys that it knows; others are passed over.
    const KEYS: &'static [&'static str];

    /// Reads the value of one of them.
    fn entry<'de, A: MapAccess<'de>>(
        &mut self,
        key: &'static str,
        map: &mut A,
        trail: &Trail,
    ) -> Result<(), A::Error>;
}

/// Something that is read item by item.
pub trait List {
    /// Reads the next item; false when there is none.
    fn item<'de, A: SeqAccess<'de>>(&mut self, list: &mut A, trail: &Trail) -> Result<bool, A::Error>;
}

/// Where in a document the reader is; where it broke off, when it did.
#[derive(Debug, Default)]
pub struct Trail(RefCell<Vec<Step>>);

#[derive(Debug, Clone, Copy)]
enum Step {
    Key(&'static str),
    Index(usize),
}

impl Trail {
    /// What is read at a step. A failure leaves the trail where it is.
    fn at<T, E>(&self, step: Step, read: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.0.borrow_mut().push(step);
        let value = read()?;
        self.0.borrow_mut().pop();
        Ok(value)
    }

    /// The attribute at the root of the document.
    fn attribute(&self) -> &'static str {
        match self.0.borrow().first() {
            Some(Step::Key(key)) => key,
            _ => "base",
        }
    }

    /// The place as a JSON pointer.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for step in self.0.borrow().iter() {
            // Writing to a text does not fail.
            let _ = match step {
                Step::Key(key) => write!(pointer, "/{key}"),
                Step::Index(index) => write!(pointer, "/{index}"),
            };
        }
        pointer
    }
}

/// Reads an object or a list into what knows it.
pub struct Entries<'a, T> {
    into: &'a mut T,
    trail: &'a Trail,
}

/// The same for lists.
pub struct Each<'a, T>(Entries<'a, T>);

impl<'a, T> Entries<'a, T> {
    /// Of an object.
    pub fn of(into: &'a mut T, trail: &'a Trail) -> Self {
        Self { into, trail }
    }

    /// Of a list.
    pub fn each(into: &'a mut T, trail: &'a Trail) -> Each<'a, T> {
        Each(Self { into, trail })
    }
}

impl<'de, T: Object> DeserializeSeed<'de> for Entries<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, T: Object> Visitor<'de> for Entries<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = vec![false; T::KEYS.len()];
        while let Some(known) = map.next_key_seed(Known(T::KEYS))? {
            let Some(index) = known else {
                map.next_value::<IgnoredAny>()?;
                continue;
            };
            let key = T::KEYS[index];
            if std::mem::replace(&mut seen[index], true) {
                return Err(A::Error::custom(format_args!("duplicate key `{key}`")));
            }
            let trail = self.trail;
            trail.at(Step::Key(key), || self.into.entry(key, &mut map, trail))?;
        }
        Ok(())
    }
}

impl<'de, T: List> DeserializeSeed<'de> for Each<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // Null is a list of nothing.
        deserializer.deserialize_any(self)
    }
}

impl<'de, T: List> Visitor<'de> for Each<'_, T> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let Entries { into, trail } = self.0;
        let mut index = 0;
        while trail.at(Step::Index(index), || into.item(&mut list, trail))? {
            index += 1;
        }
        Ok(())
    }
}

/// Which of the known keys a key is.
struct Known(&'static [&'static str]);

impl<'de> DeserializeSeed<'de> for Known {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_identifier(self)
    }
}

impl Visitor<'_> for Known {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|known| *known == key))
    }
}

/// Reads a document from its beginning into what knows it.
///
/// # Errors
/// 400 for what is no JSON or does not fit, with the place; 500 when the file cannot be read.
pub fn parse(file: &mut File, trail: &Trail, into: &mut impl Object) -> Result<()> {
    begin(file).map_err(Error::internal)?;
    let reader = BufReader::with_capacity(PIECE, Guard::new(file));
    let mut deserializer = serde_json::Deserializer::from_reader(reader);
    let read = Entries::of(into, trail).deserialize(&mut deserializer);
    let read = read.and_then(|()| deserializer.end());
    read.map_err(|error| refusal(error, trail))
}

/// Goes to where the text of a file begins.
fn begin(file: &mut File) -> io::Result<()> {
    file.rewind()?;
    let mut mark = Vec::with_capacity(BYTE_ORDER_MARK.len());
    file.take(BYTE_ORDER_MARK.len() as u64).read_to_end(&mut mark)?;
    if mark != BYTE_ORDER_MARK {
        file.seek(SeekFrom::Start(0))?;
    }
    Ok(())
}

fn refusal(error: serde_json::Error, trail: &Trail) -> Error {
    let (what, place) = parts(&error);
    match (error.classify(), error.io_error_kind()) {
        // What the guard says.
        (Category::Io, Some(ErrorKind::InvalidData)) => Error::parameter(what),
        (Category::Io, _) => Error::internal(error),
        (Category::Data, _) => {
            let pointer = trail.pointer();
            let pointer = if pointer.is_empty() { "/" } else { &pointer };
            Error::attribute(trail.attribute(), format!("{pointer}: {what}{place}"))
        }
        (Category::Syntax | Category::Eof, _) => {
            Error::parameter(format!("the body is not valid JSON: {what}{place}"))
        }
    }
}

/// What is wrong, in short, and where.
fn parts(error: &serde_json::Error) -> (String, String) {
    let place = format!(" at line {} column {}", error.line(), error.column());
    let whole = error.to_string();
    let what = whole.strip_suffix(&place).unwrap_or(&whole);
    (cut(what, LONGEST_FAULT), place)
}

/// Refuses what the parser would hold in memory whatever its size: texts, and the brackets around what is passed over.
struct Guard<R> {
    inner: R,
    depth: usize,
    /// The bytes of the text that it is in.
    text: Option<usize>,
    escaped: bool,
}

impl<R> Guard<R> {
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
        if self.depth > DEEPEST {
            return Err(too_much(format!(
                "the body is nested too deeply (maximum is {DEEPEST} levels)"
            )));
        }
        if let Some(length) = &mut self.text {
            *length += 1;
            if *length > LONGEST_TEXT {
                let most = LONGEST_TEXT >> 20;
                return Err(too_much(format!(
                    "a string in the body is too long (maximum is {most} MiB)"
                )));
            }
        }
        Ok(())
    }
}

fn too_much(text: String) -> io::Error {
    io::Error::new(ErrorKind::InvalidData, text)
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        for byte in &buffer[..read] {
            self.watch(*byte)?;
        }
        Ok(read)
    }
}
