//! Commits as plain data, parsed from and serialized to the bytes that Git stores.
//!
//! This parser exists because libgit2 rejects commits that `git` accepts, such as malformed identities and
//! dates of old imports. It also preserves messages unchanged.

mod encoding;
mod original;

use std::fmt::Write as _;

use chrono::{DateTime, FixedOffset, Offset, Utc};

pub(super) use original::{OriginalCommit, read_original};

use encoding::TextEncoding;

use super::result_memory::ResultSize;
use super::{Error, Oid, Repository, Result, object_memory};

/// Start of the year 1 in UTC, in seconds since the epoch.
const MIN_SECONDS: i64 = -62_135_596_800;
/// Last second of the year 9999 in UTC, in seconds since the epoch.
const MAX_SECONDS: i64 = 253_402_300_799;

/// Name, email address and time of an author, committer or tagger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    /// The name: any text when read; on writing, characters that Git cannot store are removed.
    pub name: String,
    /// The email address as stored; may be empty.
    pub email: String,
    /// The time with its UTC offset, to the second. If it was read, it is in the years 1 to 9999.
    pub time: DateTime<FixedOffset>,
}

/// A commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    /// The commit ID.
    pub id: Oid,
    /// IDs of the parents, first parent first; empty for a root commit.
    pub parents: Vec<Oid>,
    /// ID of the root tree.
    pub tree: Oid,
    /// The full message with its line ends, decoded with the encoding of the commit.
    pub message: String,
    /// The author.
    pub author: Signature,
    /// The committer.
    pub committer: Signature,
}

impl Signature {
    /// Returns a signature with a time in UTC.
    #[must_use]
    pub fn new(name: impl Into<String>, email: impl Into<String>, time: DateTime<Utc>) -> Self {
        Self {
            name: name.into(),
            email: email.into(),
            time: time.fixed_offset(),
        }
    }

    /// Parses `name <email> seconds offset`. Missing parts become empty or the epoch.
    fn parse(line: &[u8], decode: impl Fn(&[u8]) -> String) -> Self {
        let parts = SignatureParts::split(line);
        let (seconds, offset) = parts.time();
        Self {
            name: decode(parts.name),
            email: decode(parts.email),
            time: time(seconds, offset),
        }
    }

    /// Serializes the signature and drops characters that Git does not allow in it.
    pub(super) fn to_line(&self) -> String {
        format!(
            "{} {}",
            self.identity(),
            date(self.time.timestamp(), *self.time.offset())
        )
    }

    /// Serializes the name and the email address.
    fn identity(&self) -> String {
        let name = clean(&self.name);
        let email = clean(&self.email);
        // Git rejects an identity without a name.
        let name = if name.is_empty() {
            email.split('@').next().unwrap_or_default()
        } else {
            name.as_str()
        };
        let name = if name.is_empty() { "unknown" } else { name };
        format!("{name} <{email}>")
    }
}

/// The parts of the line of a signature, as stored.
struct SignatureParts<'a> {
    name: &'a [u8],
    email: &'a [u8],
    date: &'a [u8],
}

impl<'a> SignatureParts<'a> {
    fn split(line: &'a [u8]) -> Self {
        let open = line.iter().position(|&b| b == b'<').unwrap_or(line.len());
        let rest = line.get(open + 1..).unwrap_or_default();
        let close = rest.iter().position(|&b| b == b'>').unwrap_or(rest.len());
        let last = line
            .iter()
            .rposition(|&b| b == b'>')
            .map_or(line.len(), |at| at + 1);
        Self {
            name: line.get(..open).unwrap_or_default().trim_ascii(),
            email: rest.get(..close).unwrap_or_default().trim_ascii(),
            date: line.get(last..).unwrap_or_default(),
        }
    }

    /// Returns the time in seconds since the epoch, which can be outside of the range of [`time`], and the UTC offset.
    fn time(&self) -> (i64, Option<FixedOffset>) {
        let date = String::from_utf8_lossy(self.date);
        let mut date = date.split_ascii_whitespace();
        let seconds = date.next().and_then(|text| text.parse().ok()).unwrap_or(0);
        (seconds, date.next().and_then(parse_offset))
    }

    /// Serializes the stored time.
    fn stored_date(&self) -> String {
        let (seconds, offset) = self.time();
        date(seconds, offset.unwrap_or(Utc.fix()))
    }

    /// Serializes the stored name and email address without characters that Git does not allow in them.
    fn stored_identity(&self) -> Vec<u8> {
        let clean = |text: &[u8]| -> Vec<u8> {
            let characters = text.iter().copied();
            characters
                .filter(|byte| !matches!(byte, b'<' | b'>') && !byte.is_ascii_control())
                .collect()
        };
        let (name, email) = (clean(self.name), clean(self.email));
        let name = if name.is_empty() {
            b"unknown".to_vec()
        } else {
            name
        };
        [name.as_slice(), b" <", &email, b">"].concat()
    }
}

impl Commit {
    /// Parses a stored commit.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the bytes contain no tree, that is, if the object is not a commit.
    pub(super) fn parse(id: Oid, data: &[u8]) -> Result<Self> {
        let (headers, message) = split_headers(data);
        let encoding = TextEncoding::of_header(header(headers.clone(), b"encoding"));
        let decode = |bytes: &[u8]| encoding.decode(bytes);
        let mut tree = None;
        let mut parents = Vec::new();
        let (mut author, mut committer) = (None, None);
        for (name, value) in headers {
            match name {
                b"tree" => tree = tree.or(parse_id(value)),
                b"parent" => parents.extend(parse_id(value)),
                b"author" => author = author.or_else(|| Some(Signature::parse(value, decode))),
                b"committer" => committer = committer.or_else(|| Some(Signature::parse(value, decode))),
                _ => {}
            }
        }
        let tree = tree.ok_or(Error::ObjectNotFound)?;
        let author = author.unwrap_or_else(|| Signature::parse(b"", decode));
        let committer = committer.unwrap_or_else(|| author.clone());
        Ok(Self {
            id,
            parents,
            tree,
            message: decode(message),
            author,
            committer,
        })
    }

    /// Returns the first line of the message.
    #[must_use]
    pub fn title(&self) -> &str {
        self.message
            .trim_start_matches(['\n', '\r'])
            .lines()
            .next()
            .unwrap_or_default()
    }
}

impl Repository {
    /// Returns a commit by ID.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the ID is not a commit, and [`Error::MemoryExhausted`].
    pub async fn commit(&self, id: Oid) -> Result<Commit> {
        let mut size = self.result_size();
        self.git2(move |repository| read_counted(repository, id, &mut size))
            .await
    }

    /// Returns commits by ID, in the given order.
    ///
    /// # Errors
    /// As [`Self::commit`], for the first failure.
    pub async fn commits(&self, ids: Vec<Oid>) -> Result<Vec<Commit>> {
        let mut size = self.result_size();
        self.git2(move |repository| {
            let commits = ids.into_iter().map(|id| read_counted(repository, id, &mut size));
            commits.collect()
        })
        .await
    }

    /// Returns the existing commits of a list of IDs, in one call to the blocking pool.
    ///
    /// # Errors
    /// If the repository cannot be read.
    pub async fn existing_commits(&self, ids: Vec<Oid>) -> Result<Vec<Commit>> {
        let mut size = self.result_size();
        self.git2(move |repository| {
            let found = ids.into_iter().map(|id| read_counted(repository, id, &mut size));
            found
                .filter(|commit| !matches!(commit, Err(Error::ObjectNotFound)))
                .collect()
        })
        .await
    }
}

/// Reads a commit by ID for an operation that does not return the commit.
pub(super) fn read(repository: &git2::Repository, id: Oid) -> Result<Commit> {
    read_counted(repository, id, &mut ResultSize::new(None))
}

/// Reads a commit by ID and adds its size to that of the result.
fn read_counted(repository: &git2::Repository, id: Oid, size: &mut ResultSize) -> Result<Commit> {
    read_with(repository, id, size, Commit::parse)
}

/// Reads a commit by ID, adds its size to that of the result, and parses it.
fn read_with<T>(
    repository: &git2::Repository,
    id: Oid,
    size: &mut ResultSize,
    parse: impl FnOnce(Oid, &[u8]) -> Result<T>,
) -> Result<T> {
    object_memory::check(repository, id)?;
    let odb = repository.odb()?;
    let object = odb.read(id).map_err(super::error::absent)?;
    if object.kind() != git2::ObjectType::Commit {
        return Err(Error::ObjectNotFound);
    }
    size.add(object.len())?;
    parse(id, object.data())
}

/// Serializes a commit as Git stores it.
///
/// NUL bytes are dropped from the message, because Git would end it there.
pub(super) fn serialize(
    tree: Oid,
    parents: &[Oid],
    message: &str,
    author: &Signature,
    committer: &Signature,
) -> Vec<u8> {
    let author = author.to_line();
    serialize_lines(
        tree,
        parents,
        author.as_bytes(),
        committer,
        None,
        message.as_bytes(),
    )
}

/// As [`serialize`], with the line of the author, and the name of the encoding of this line and the message if it is
/// not UTF-8.
fn serialize_lines(
    tree: Oid,
    parents: &[Oid],
    author: &[u8],
    committer: &Signature,
    encoding: Option<&[u8]>,
    message: &[u8],
) -> Vec<u8> {
    let mut head = format!("tree {tree}\n");
    for parent in parents {
        // Writing to a string cannot fail.
        let _ = writeln!(head, "parent {parent}");
    }
    let committer = committer.to_line();
    let mut data = [
        head.as_bytes(),
        b"author ",
        author,
        b"\ncommitter ",
        committer.as_bytes(),
    ]
    .concat();
    if let Some(encoding) = encoding {
        data.extend_from_slice(b"\nencoding ");
        data.extend_from_slice(encoding);
    }
    data.extend_from_slice(b"\n\n");
    data.extend(message.iter().copied().filter(|byte| *byte != 0));
    data
}

/// Returns the value of the first header with a name.
fn header<'a>(mut headers: impl Iterator<Item = (&'a [u8], &'a [u8])>, name: &[u8]) -> Option<&'a [u8]> {
    headers.find(|(found, _)| *found == name).map(|(_, value)| value)
}

/// Splits a commit or tag into its headers, without continuation lines, and its message.
pub(super) fn split_headers(data: &[u8]) -> (impl Iterator<Item = (&[u8], &[u8])> + Clone, &[u8]) {
    let end = if data.starts_with(b"\n") {
        Some(0)
    } else {
        find(data, b"\n\n").map(|at| at + 1)
    };
    let (headers, message) = match end {
        Some(end) => (
            data.get(..end).unwrap_or_default(),
            data.get(end + 1..).unwrap_or_default(),
        ),
        None => (data, &[][..]),
    };
    let headers = headers
        .split(|&b| b == b'\n')
        .filter(|line| !line.starts_with(b" "))
        .filter_map(|line| {
            let space = line.iter().position(|&b| b == b' ')?;
            Some((line.get(..space)?, line.get(space + 1..)?))
        });
    (headers, message)
}

/// Parses the signature of a tag, which has no encoding header.
pub(super) fn parse_signature(line: &[u8]) -> Signature {
    Signature::parse(line, |bytes| TextEncoding::Utf8.decode(bytes))
}

pub(super) fn parse_id(hex: &[u8]) -> Option<Oid> {
    let hex = std::str::from_utf8(hex).ok()?;
    if hex.len() == 40 {
        Oid::from_str(hex).ok()
    } else {
        None
    }
}

fn find(data: &[u8], needle: &[u8]) -> Option<usize> {
    data.windows(needle.len()).position(|window| window == needle)
}

fn parse_offset(text: &str) -> Option<FixedOffset> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+')?),
    };
    let number: i32 = digits.parse().ok().filter(|number| *number <= 9999)?;
    FixedOffset::east_opt(sign * (number / 100 * 60 + number % 100) * 60)
}

/// Returns a time. In UTC and in its offset, it is in the years 1 to 9999, which all formats of responses can
/// represent.
fn time(seconds: i64, offset: Option<FixedOffset>) -> DateTime<FixedOffset> {
    let offset = offset.unwrap_or(Utc.fix());
    let shift = i64::from(offset.local_minus_utc());
    let seconds = seconds.clamp(MIN_SECONDS - shift.min(0), MAX_SECONDS - shift.max(0));
    let utc = DateTime::<Utc>::from_timestamp(seconds, 0).unwrap_or_default();
    utc.with_timezone(&offset)
}

/// Serializes a time. `git` cannot read times before 1970.
fn date(seconds: i64, offset: FixedOffset) -> String {
    let minutes = offset.local_minus_utc() / 60;
    let sign = if minutes < 0 { '-' } else { '+' };
    let minutes = minutes.unsigned_abs();
    let seconds = seconds.max(0);
    format!("{seconds} {sign}{:02}{:02}", minutes / 60, minutes % 60)
}

/// Removes characters that Git cannot store in an identity, and punctuation that Git strips at both ends.
fn clean(text: &str) -> String {
    let characters: String = text
        .chars()
        .filter(|c| !matches!(c, '<' | '>') && !c.is_control())
        .collect();
    characters
        .trim_matches(|c: char| c.is_whitespace() || matches!(c, ',' | ':' | ';' | '"' | '\\' | '\''))
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::{Commit, Signature};
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid};

    fn parse(data: &[u8]) -> Commit {
        Commit::parse(Oid::ZERO_SHA1, data).unwrap()
    }

    const TREE: &str = "tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";

    #[test]
    fn parse_commit_preserves_message_and_utc_offset() {
        let commit = parse(
            format!("{TREE}author A B <a@b> 1393488896 +0200\ncommitter C <> 1393488897 -0730\n\n\nTitle\n\nBody\n")
                .as_bytes(),
        );
        assert_eq!(commit.message, "\nTitle\n\nBody\n");
        assert_eq!(commit.title(), "Title");
        assert_eq!(commit.author.time.to_rfc3339(), "2014-02-27T10:14:56+02:00");
        assert_eq!(
            commit.committer.time.offset().local_minus_utc(),
            -(7 * 60 + 30) * 60
        );
        assert_eq!(commit.committer.email, "");
        assert!(commit.parents.is_empty());
    }

    #[test]
    fn parse_commit_accepts_malformed_signatures() {
        let commit =
            parse(format!("{TREE}author no mail\ncommitter X <x> y> 99999999999999 +9999\n\n").as_bytes());
        assert_eq!(
            (commit.author.name.as_str(), commit.author.email.as_str()),
            ("no mail", "")
        );
        assert_eq!(commit.committer.email, "x");
        assert_eq!(commit.message, "");
        let commit = parse(format!("{TREE}author A <a> 1 +0000 junk").as_bytes());
        assert_eq!(commit.committer, commit.author);
        assert!(matches!(
            Commit::parse(Oid::ZERO_SHA1, b""),
            Err(Error::ObjectNotFound)
        ));
        assert!(matches!(
            Commit::parse(Oid::ZERO_SHA1, b"\n\n\n"),
            Err(Error::ObjectNotFound)
        ));
    }

    #[test]
    fn parse_commit_limits_time_to_years_with_four_digits() {
        for (date, expected) in [
            ("8210266876799 +0100", "9999-12-31T23:59:59+01:00"),
            ("99999999999999 -0730", "9999-12-31T16:29:59-07:30"),
            ("253402300799 +0000", "9999-12-31T23:59:59+00:00"),
            ("-99999999999999 +0000", "0001-01-01T00:00:00+00:00"),
            ("-99999999999999 -0100", "0001-01-01T00:00:00-01:00"),
            ("99999999999999999999 +0000", "1970-01-01T00:00:00+00:00"),
        ] {
            let commit = parse(format!("{TREE}author A <a> {date}\ncommitter A <a> {date}\n\n").as_bytes());
            assert_eq!(commit.author.time.to_rfc3339(), expected);
            let utc = commit.committer.time.to_utc().to_rfc3339();
            assert_eq!(utc.len(), expected.len(), "{utc}");
        }
    }

    #[test]
    fn parse_commit_decodes_declared_latin1() {
        let mut data = format!("{TREE}author J\u{0}").into_bytes();
        data.pop();
        data.extend(
            b"\xf6rg <j> 1 +0000\ncommitter J <j> 1 +0000\nencoding ISO-8859-1\ngpgsig x\n y\n\n\xfcber",
        );
        let commit = parse(&data);
        assert_eq!(
            (commit.author.name.as_str(), commit.message.as_str()),
            ("Jörg", "über")
        );
    }

    #[test]
    fn signature_line_removes_special_characters() {
        let mut signature = Signature::new(
            "Eve <x> 1 +0000\ncommitter Mallory",
            " e\0v<e@>x\n",
            chrono::Utc::now(),
        );
        signature.time = chrono::DateTime::parse_from_rfc3339("2020-01-02T03:04:05-03:30").unwrap();
        assert_eq!(
            signature.to_line(),
            "Eve x 1 +0000committer Mallory <eve@x> 1577946845 -0330"
        );
        signature.name = " <> ".into();
        assert_eq!(signature.to_line(), "eve <eve@x> 1577946845 -0330");
        signature.email = String::new();
        assert_eq!(signature.to_line(), "unknown <> 1577946845 -0330");
    }

    #[tokio::test]
    async fn commit_matches_git_show() {
        let fixture = Fixture::new("main").await;
        let first = testing::commit(&fixture.repository, "main", &[("a", "1")]).await;
        let second = testing::commit(&fixture.repository, "main", &[("b", "2")]).await;
        let commit = fixture.repository.commit(second).await.unwrap();
        assert_eq!(commit.parents, [first]);
        let shown = fixture.git(&["show", "-s", "--format=%T|%an|%ae|%at|%B", &second.to_string()]);
        let expected = format!(
            "{}|{}|{}|{}|{}",
            commit.tree,
            commit.author.name,
            commit.author.email,
            commit.author.time.timestamp(),
            commit.message
        );
        assert_eq!(shown.trim_end(), expected.trim_end());
        assert!(matches!(
            fixture.repository.commit(commit.tree).await,
            Err(Error::ObjectNotFound)
        ));
        assert!(matches!(
            fixture.repository.commit(Oid::ZERO_SHA1).await,
            Err(Error::ObjectNotFound)
        ));
        assert_eq!(
            fixture.repository.commits(vec![second, first]).await.unwrap()[1].id,
            first
        );
    }
}
