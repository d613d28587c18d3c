//! Parser of `git diff-tree` output, with limits.

use tokio::io::AsyncRead;

use super::{Diff, DiffEntry, DiffLimits, DiffStats, LineSide};
use crate::line_reader::LineReader;
use crate::{Error, Oid, Result};

/// Maximum length of a path in the raw part, in bytes.
const MAX_PATH_BYTES: usize = 64 * 1024;

/// Parses the raw part and the following patches of one `diff-tree --raw --patch -z`.
pub(super) struct DiffParser<'a, R> {
    source: LineReader<R>,
    only: Option<&'a str>,
    limits: DiffLimits,
    at_end: bool,
}

impl<'a, R: AsyncRead + Unpin> DiffParser<'a, R> {
    /// Returns a parser for all entries, or only for entries with the new path `only`.
    pub(super) fn new(source: R, only: Option<&'a str>, limits: DiffLimits) -> Self {
        Self {
            source: LineReader::new(source),
            only,
            limits,
            at_end: false,
        }
    }

    /// Returns whether the parser read all output instead of stopping at a limit.
    pub(super) fn at_end(&self) -> bool {
        self.at_end
    }

    /// Reads the diff up to its end or a limit.
    pub(super) async fn read(&mut self) -> Result<Diff> {
        let mut diff = Diff::default();
        let mut files = self.raw().await?.into_iter();
        let (mut lines, mut bytes, mut size) = (0, 0, 0);
        let mut current: Option<Box<DiffEntry>> = None;
        let mut in_hunks = false;
        loop {
            let line = self.source.line(b'\n', self.limits.patch_bytes).await?;
            let starts_file = line
                .as_ref()
                .is_none_or(|line| line.bytes.starts_with(b"diff --git "));
            let Some(line) = line.filter(|_| !starts_file) else {
                if let Some(mut done) = current.take() {
                    bytes += done.diff.len();
                    let full = bytes > self.limits.bytes || lines > self.limits.lines;
                    if full {
                        done.collapse();
                    }
                    diff.entries.push(*done);
                    if full {
                        self.rest(&mut diff, files);
                        return Ok(diff);
                    }
                }
                let Some(next) = files.next() else {
                    self.at_end = true;
                    return Ok(diff);
                };
                if diff.entries.len() >= self.limits.files {
                    diff.truncated = true;
                    return Ok(diff);
                }
                (current, in_hunks, size) = (next, false, 0);
                continue;
            };
            let Some(entry) = &mut current else { continue };
            in_hunks |= line.bytes.starts_with(b"@@") || line.bytes.starts_with(b"Binary files ");
            if !in_hunks {
                continue;
            }
            size += line.len;
            if size >= self.limits.patch_bytes {
                entry.omit_large();
            } else {
                lines += 1;
                entry.diff.push_str(&String::from_utf8_lossy(&line.bytes));
            }
        }
    }

    /// Adds the files whose patches are not read.
    fn rest(&self, diff: &mut Diff, files: impl Iterator<Item = Option<Box<DiffEntry>>>) {
        for mut file in files.flatten() {
            if diff.entries.len() >= self.limits.files {
                diff.truncated = true;
                return;
            }
            file.collapse();
            diff.entries.push(*file);
        }
    }

    /// Returns the entries of the raw part without patches; `None` for excluded entries.
    ///
    /// The whole raw part is read even if it is long, because the patches follow it in the same order. Only
    /// enough entries are stored to detect that there are too many.
    async fn raw(&mut self) -> Result<Vec<Option<Box<DiffEntry>>>> {
        let mut files = Vec::new();
        loop {
            let header = self.field().await?;
            // An empty field separates the raw part from the patches.
            let Some(header) = header.as_deref().and_then(|field| field.strip_prefix(':')) else {
                return Ok(files);
            };
            let words: Vec<_> = header.split(' ').collect();
            let [a_mode, b_mode, _, _, status] = words.as_slice() else {
                return Err(unreadable());
            };
            let old_path = self.field().await?.ok_or_else(unreadable)?;
            let moved = status.starts_with(['R', 'C']);
            let new_path = if moved {
                self.field().await?.ok_or_else(unreadable)?
            } else {
                old_path.clone()
            };
            let entry = DiffEntry {
                old_path,
                new_path,
                a_mode: mode(a_mode),
                b_mode: mode(b_mode),
                new_file: *status == "A",
                renamed_file: status.starts_with('R'),
                deleted_file: *status == "D",
                ..DiffEntry::default()
            };
            if *status == "T" {
                // A change of type has two patches: one removes the old file, one adds the new.
                let old = DiffEntry {
                    b_mode: mode("0"),
                    deleted_file: true,
                    ..entry.clone()
                };
                let new = DiffEntry {
                    a_mode: mode("0"),
                    new_file: true,
                    ..entry
                };
                self.push_entry(&mut files, old);
                self.push_entry(&mut files, new);
            } else {
                self.push_entry(&mut files, entry);
            }
        }
    }

    fn push_entry(&self, files: &mut Vec<Option<Box<DiffEntry>>>, entry: DiffEntry) {
        if files.len() <= self.limits.files {
            let is_wanted = self.only.is_none_or(|path| path == entry.new_path);
            files.push(is_wanted.then(|| Box::new(entry)));
        }
    }

    async fn field(&mut self) -> Result<Option<String>> {
        let Some(field) = self.source.line(0, MAX_PATH_BYTES).await? else {
            return Ok(None);
        };
        let bytes = field.bytes.strip_suffix(&[0]).unwrap_or(&field.bytes);
        Ok(Some(String::from_utf8_lossy(bytes).into_owned()))
    }
}

/// Returns a mode of the raw part without leading zeros; a missing file has `0`.
fn mode(octal: &str) -> String {
    let trimmed = octal.trim_start_matches('0');
    if trimmed.is_empty() {
        "0".to_owned()
    } else {
        trimmed.to_owned()
    }
}

fn unreadable() -> Error {
    Error::Program {
        command: "diff-tree",
        stderr: "its output could not be read".to_owned(),
    }
}

/// Returns the sums of a `diff-tree --stdin --numstat -z` by commit.
pub(super) fn numstat(output: &[u8]) -> Vec<(Oid, DiffStats)> {
    let mut sums: Vec<(Oid, DiffStats)> = Vec::new();
    let mut fields = output.split(|byte| *byte == 0 || *byte == b'\n');
    while let Some(field) = fields.next() {
        let text = String::from_utf8_lossy(field);
        let mut columns = text.splitn(3, '\t');
        match (columns.next(), columns.next(), columns.next()) {
            (Some(additions), Some(deletions), Some(path)) => {
                if let Some((_, stats)) = sums.last_mut() {
                    // Binary files have dashes instead of numbers.
                    stats.additions += additions.parse().unwrap_or(0);
                    stats.deletions += deletions.parse().unwrap_or(0);
                }
                // A renamed file has an empty path here and two following path fields.
                if path.is_empty() {
                    fields.next();
                    fields.next();
                }
            }
            _ => {
                if let Ok(commit) = Oid::from_str(&text)
                    && text.len() == 40
                {
                    sums.push((commit, DiffStats::default()));
                }
            }
        }
    }
    sums
}

/// Returns both line counters, the old one first, at a removed or added line with the given number on its
/// side. Returns `None` if the patch does not change the line.
pub(super) fn changed_line(patch: &str, number: u32, side: LineSide) -> Option<(u32, u32)> {
    let (mut old, mut new) = (0_u32, 0_u32);
    for line in patch.split('\n') {
        let changed = match line.as_bytes().first() {
            Some(b'@') => {
                (old, new) = hunk_start(line)?;
                continue;
            }
            Some(b'-') => LineSide::Old,
            Some(b'+') => LineSide::New,
            Some(b' ') => {
                (old, new) = (old + 1, new + 1);
                continue;
            }
            _ => continue,
        };
        let own = match changed {
            LineSide::Old => old,
            LineSide::New => new,
        };
        if changed == side && own == number {
            return Some((old, new));
        }
        match changed {
            LineSide::Old => old += 1,
            LineSide::New => new += 1,
        }
    }
    None
}

/// Parses the first line numbers of a hunk from `@@ -old,count +new,count @@`.
fn hunk_start(line: &str) -> Option<(u32, u32)> {
    let mut words = line.split(' ').skip(1);
    let mut number = |sign| words.next()?.strip_prefix(sign)?.split(',').next()?.parse().ok();
    Some((number('-')?, number('+')?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "@@ -1,3 +1,3 @@ fn\n one\n-two\n+zwei\n three\n@@ -10,2 +10,1 @@\n ten\n-eleven\n";

    #[test]
    fn changed_line_is_found_by_old_or_new_number() {
        let moved = "@@ -1,3 +1,4 @@\n+zero\n+half\n one\n-two\n three\n";
        for (patch, number, side, found) in [
            (PATCH, 2, LineSide::New, Some((3, 2))),
            (PATCH, 1, LineSide::New, None),
            (PATCH, 3, LineSide::New, None),
            (PATCH, 2, LineSide::Old, Some((2, 2))),
            (PATCH, 11, LineSide::Old, Some((11, 11))),
            (PATCH, 10, LineSide::Old, None),
            (moved, 1, LineSide::New, Some((1, 1))),
            (moved, 2, LineSide::Old, Some((2, 4))),
            (moved, 4, LineSide::Old, None),
        ] {
            assert_eq!(changed_line(patch, number, side), found, "{number} {side:?}");
        }
    }
}
