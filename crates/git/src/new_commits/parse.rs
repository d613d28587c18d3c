//! Parsers of the output of Git programs.

use std::collections::HashSet;
use std::io::{BufRead, Read};
use std::ops::ControlFlow;

use super::{NewCommit, NewFile, TOO_LARGE};
use crate::commit::{parse_id, split_headers};
use crate::{Commit, Error, Oid, Result};

/// Maximum size of a commit in bytes.
const MAX_COMMIT_BYTES: u64 = 1 << 20;
/// Maximum length of a line, path or entry in bytes.
const MAX_LINE_BYTES: u64 = 64 << 10;

/// Mode of a file that does not exist.
const NO_FILE: &[u8] = b"000000";

/// Visits the commits in the output of `git cat-file --batch`.
pub(super) fn commits<T>(
    mut reader: impl BufRead,
    mut visit: impl FnMut(NewCommit) -> ControlFlow<T>,
) -> Result<Option<T>> {
    while let Some(header) = token(&mut reader, b'\n')? {
        let mut fields = header.split(|&byte| byte == b' ');
        let id = fields.next().and_then(parse_id);
        let (Some(id), Some(b"commit"), Some(size)) = (id, fields.next(), fields.next().and_then(number))
        else {
            return Err(malformed("cat-file"));
        };
        if size > MAX_COMMIT_BYTES {
            return Err(TOO_LARGE);
        }
        // One byte more for the end of the line.
        let mut data = Vec::new();
        reader.by_ref().take(size + 1).read_to_end(&mut data)?;
        if data.pop() != Some(b'\n') || data.len() as u64 != size {
            return Err(malformed("cat-file"));
        }
        let new = NewCommit {
            is_signed: is_signed(&data),
            commit: Commit::parse(id, &data)?,
        };
        if let ControlFlow::Break(value) = visit(new) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

fn is_signed(data: &[u8]) -> bool {
    let (mut headers, _) = split_headers(data);
    headers
        .any(|(name, value)| matches!(name, b"gpgsig" | b"gpgsig-sha256") && !value.trim_ascii().is_empty())
}

/// Visits the files in the output of `git diff-tree -c -z`. Each entry consists of a colon for each parent, the modes and IDs
/// of the file in each parent, the mode and ID in the commit, and the statuses. The path follows.
pub(super) fn files<T>(
    mut reader: impl BufRead,
    mut visit: impl FnMut(NewFile) -> ControlFlow<T>,
) -> Result<Option<T>> {
    while let Some(entry) = token(&mut reader, 0)? {
        let parents = entry.iter().take_while(|&&byte| byte == b':').count();
        if parents == 0 {
            // The ID of a commit.
            continue;
        }
        let path = token(&mut reader, 0)?.ok_or_else(|| malformed("diff-tree"))?;
        let fields = entry
            .get(parents..)
            .unwrap_or_default()
            .split(|&byte| byte == b' ');
        let fields: Vec<&[u8]> = fields.collect();
        // The modes come first, then the IDs.
        let (Some(mode), Some(id), Some(statuses)) = (
            fields.get(parents),
            fields.get(2 * parents + 1).and_then(|id| parse_id(id)),
            fields.get(2 * parents + 2),
        ) else {
            return Err(malformed("diff-tree"));
        };
        if *mode == NO_FILE {
            continue;
        }
        let file = NewFile {
            path: String::from_utf8_lossy(&path).into_owned(),
            id,
            is_added: statuses.iter().all(|&status| status == b'A'),
        };
        if let ControlFlow::Break(value) = visit(file) {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// Returns the paths in the output of `git diff-tree -z`, also those of deleted files.
pub(super) fn paths(mut reader: impl BufRead, limit: usize) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    while let Some(entry) = token(&mut reader, 0)? {
        if !entry.starts_with(b":") {
            // The ID of a commit.
            continue;
        }
        let path = token(&mut reader, 0)?.ok_or_else(|| malformed("diff-tree"))?;
        if paths.len() >= limit {
            return Err(Error::LimitExceeded("too many files differ"));
        }
        paths.push(String::from_utf8_lossy(&path).into_owned());
    }
    Ok(paths)
}

/// Returns the blobs above a size in the output of `git cat-file --batch-check`.
pub(super) fn blobs_above(mut reader: impl BufRead, bytes: u64) -> Result<HashSet<Oid>> {
    let mut found = HashSet::new();
    while let Some(line) = token(&mut reader, b'\n')? {
        let mut fields = line.split(|&byte| byte == b' ');
        let id = fields.next().and_then(parse_id);
        let (Some(id), Some(kind), Some(size)) = (id, fields.next(), fields.next().and_then(number)) else {
            return Err(malformed("cat-file"));
        };
        if kind == b"blob" && size > bytes {
            found.insert(id);
        }
    }
    Ok(found)
}

/// Returns the bytes up to `end`, without it. Returns `None` at the end of the output.
fn token(reader: &mut impl BufRead, end: u8) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(end, &mut bytes)?;
    if read == 0 {
        return Ok(None);
    }
    match bytes.pop() {
        Some(last) if last == end => Ok(Some(bytes)),
        _ => Err(TOO_LARGE),
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn malformed(command: &'static str) -> Error {
    Error::Program {
        command,
        stderr: "printed an unexpected line".to_owned(),
    }
}
