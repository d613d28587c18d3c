//! Commits that cherry-pick and rebase copy, with their authors and messages.
//!
//! As in `git`, the copies are in UTF-8. A text that cannot be converted is copied byte for byte, with the header that
//! names its encoding.

use super::encoding::TextEncoding;
use super::{Commit, SignatureParts, header, read_with, serialize_lines, split_headers};
use crate::result_memory::ResultSize;
use crate::{Oid, Repository, Result, Signature};

/// A commit to copy.
pub(crate) struct OriginalCommit {
    /// The commit.
    pub(crate) commit: Commit,
    /// The time of the author as stored, which can be outside of the range of the time in `commit`.
    date: String,
    /// The texts as stored, if they cannot be converted to UTF-8.
    stored: Option<StoredTexts>,
}

/// Texts of a commit in an encoding that the server cannot convert.
struct StoredTexts {
    /// The name and the email address of the author.
    author: Vec<u8>,
    message: Vec<u8>,
    encoding: Option<Vec<u8>>,
}

impl OriginalCommit {
    fn parse(id: Oid, data: &[u8]) -> Result<Self> {
        let commit = Commit::parse(id, data)?;
        let (headers, message) = split_headers(data);
        let encoding = header(headers.clone(), b"encoding");
        let author = SignatureParts::split(header(headers, b"author").unwrap_or_default());
        let text_encoding = TextEncoding::of_header(encoding);
        let is_valid = [author.name, author.email, message]
            .into_iter()
            .all(|text| text_encoding.is_valid(text));
        let stored = (!is_valid).then(|| StoredTexts {
            author: author.stored_identity(),
            message: message.to_vec(),
            encoding: encoding.map(<[u8]>::to_vec),
        });
        Ok(Self {
            commit,
            date: author.stored_date(),
            stored,
        })
    }

    /// Serializes a copy with another tree and parent. `note` is added to the end of the message.
    pub(crate) fn copy(&self, tree: Oid, parent: Oid, note: Option<&str>, committer: &Signature) -> Vec<u8> {
        let (author, message, encoding) = match &self.stored {
            Some(stored) => {
                let message = stored.message.as_slice();
                let message = if note.is_some() {
                    message.trim_ascii_end()
                } else {
                    message
                };
                (stored.author.clone(), message, stored.encoding.as_deref())
            }
            None => {
                let message = self.commit.message.as_str();
                let message = if note.is_some() {
                    message.trim_end()
                } else {
                    message
                };
                (
                    self.commit.author.identity().into_bytes(),
                    message.as_bytes(),
                    None,
                )
            }
        };
        let message = [message, note.unwrap_or_default().as_bytes()].concat();
        let author = [author.as_slice(), b" ", self.date.as_bytes()].concat();
        serialize_lines(tree, &[parent], &author, committer, encoding, &message)
    }
}

impl Repository {
    /// Returns commits to copy by ID, in the given order.
    ///
    /// # Errors
    /// As [`Repository::commit`], for the first failure.
    pub(crate) async fn original_commits(&self, ids: Vec<Oid>) -> Result<Vec<OriginalCommit>> {
        let mut size = self.result_size();
        self.git2(move |repository| {
            let commits = ids
                .into_iter()
                .map(|id| read_with(repository, id, &mut size, OriginalCommit::parse));
            commits.collect()
        })
        .await
    }
}

/// Reads a commit to copy by ID.
pub(crate) fn read_original(repository: &git2::Repository, id: Oid) -> Result<OriginalCommit> {
    read_with(repository, id, &mut ResultSize::new(None), OriginalCommit::parse)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::signature;

    const HEAD: &[u8] = b"tree 4b825dc642cb6eb9a060e54bf8d69288fbee4904\n";

    fn copy(data: &[u8], note: Option<&str>) -> Vec<u8> {
        let data = [HEAD, data].concat();
        let original = OriginalCommit::parse(Oid::ZERO_SHA1, &data).unwrap();
        original.copy(original.commit.tree, Oid::ZERO_SHA1, note, &signature())
    }

    /// Returns a copy with the given lines around its committer.
    fn expected(author: &[u8], rest: &[u8]) -> Vec<u8> {
        let parent = format!("parent {}\nauthor ", Oid::ZERO_SHA1);
        let committer = format!("\ncommitter {}\n", signature().to_line());
        [HEAD, parent.as_bytes(), author, committer.as_bytes(), rest].concat()
    }

    #[test]
    fn copy_converts_texts_to_utf8() {
        let copied = copy(
            b"author \xcf\xe5\xf2\xf0 <p@x> 1 +0000\ncommitter C <c> 2 +0000\nencoding windows-1251\n\n\xcf\xf0\n",
            None,
        );
        let message = "\nПр\n".as_bytes();
        assert_eq!(copied, expected("Петр <p@x> 1 +0000".as_bytes(), message));
    }

    #[test]
    fn copy_preserves_time_that_is_not_shown() {
        let copied = copy(
            b"author A <a> 8210266876799 +0100\ncommitter C <c> 2 +0000\n\nm",
            None,
        );
        assert_eq!(copied, expected(b"A <a> 8210266876799 +0100", b"\nm"));
    }

    #[test]
    fn copy_preserves_texts_that_cannot_be_converted() {
        let data =
            b"author \xe9<A <a@\xe9> 1 +0200\ncommitter C <c> 2 +0000\nencoding IBM-1047\n\n\xe9\0text\n\n";
        let copied = copy(data, None);
        assert_eq!(
            copied,
            expected(b"\xe9 <A a@\xe9> 1 +0200", b"encoding IBM-1047\n\n\xe9text\n\n")
        );
        let copied = copy(data, Some("\n\nnote"));
        assert_eq!(
            copied,
            expected(
                b"\xe9 <A a@\xe9> 1 +0200",
                b"encoding IBM-1047\n\n\xe9text\n\nnote"
            )
        );
        // Invalid UTF-8 without a declared encoding.
        let copied = copy(b"author \xe9 <a@x> 1 +0000\ncommitter C <c> 2 +0000\n\nm\n", None);
        assert_eq!(copied, expected(b"\xe9 <a@x> 1 +0000", b"\nm\n"));
    }
}
