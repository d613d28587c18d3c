//! Signatures of commits.

use crate::{Error, Oid, Repository, Result, commit};

/// Maximum size of a signature in bytes. Signatures with the largest keys have less than 10 KiB.
const MAX_SIGNATURE_BYTES: usize = 64 * 1024;

/// The signature of a commit, and the signed content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitSignature {
    /// The signature as stored, without the indentation of its lines.
    pub signature: Vec<u8>,
    /// The commit object without the signature.
    pub content: Vec<u8>,
}

impl Repository {
    /// Returns the signature of a commit, or `None` if the commit is not signed.
    ///
    /// # Errors
    /// [`Error::ObjectNotFound`] if the ID is not a commit, [`Error::LimitExceeded`] if the signature is too large.
    pub async fn commit_signature(&self, id: Oid) -> Result<Option<CommitSignature>> {
        self.git2(move |repository| {
            // Checks the memory that the object needs.
            commit::read(repository, id)?;
            let (signature, content) = match repository.extract_signature(&id, None) {
                Err(error) if error.code() == git2::ErrorCode::NotFound => return Ok(None),
                extracted => extracted?,
            };
            if signature.len() > MAX_SIGNATURE_BYTES {
                return Err(Error::LimitExceeded("the signature of the commit is too large"));
            }
            Ok(Some(CommitSignature {
                signature: signature.to_vec(),
                content: content.to_vec(),
            }))
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use crate::test_repository::TestRepository;
    use crate::{CommitSignature, Error, Oid};

    /// Stores a commit with additional headers and returns its ID.
    fn commit_with(sample: &TestRepository, headers: &str) -> Oid {
        let tree = sample.git(&["rev-parse", "main^{tree}"]);
        let who = "A <a@example.com> 1700000000 +0000";
        let data = format!("tree {tree}author {who}\ncommitter {who}\n{headers}\nmessage\n");
        let opened = git2::Repository::open_bare(sample.repository.path()).unwrap();
        let odb = opened.odb().unwrap();
        odb.write(git2::ObjectType::Commit, data.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn signature_is_separated_from_content() {
        let sample = TestRepository::with_history();
        let signed = commit_with(&sample, "gpgsig -----BEGIN X-----\n line\n -----END X-----\n");
        let unsigned = commit_with(&sample, "");
        let found = sample.repository.commit_signature(signed).await.unwrap();
        let opened = git2::Repository::open_bare(sample.repository.path()).unwrap();
        let odb = opened.odb().unwrap();
        let expected = CommitSignature {
            signature: b"-----BEGIN X-----\nline\n-----END X-----".to_vec(),
            content: odb.read(unsigned).unwrap().data().to_vec(),
        };
        assert_eq!(found, Some(expected));
        assert_eq!(sample.repository.commit_signature(unsigned).await.unwrap(), None);
    }

    #[tokio::test]
    async fn large_signature_and_unknown_commit_are_refused() {
        let sample = TestRepository::with_history();
        let large = commit_with(&sample, &format!("gpgsig {}\n", "x".repeat(65 * 1024)));
        let refused = sample.repository.commit_signature(large).await;
        assert!(matches!(refused, Err(Error::LimitExceeded(_))), "{refused:?}");
        let missing = sample.repository.commit_signature(Oid::ZERO_SHA1).await;
        assert!(matches!(missing, Err(Error::ObjectNotFound)), "{missing:?}");
    }
}
