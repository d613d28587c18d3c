//! Authors of commits.

/// Returns an author. The contract deprecates line counts, so they are always 0.
#[must_use]
pub fn contributor(author: git::Contributor) -> contract::Contributor {
    contract::Contributor {
        name: author.name,
        email: author.email,
        commits: i64::try_from(author.commits).unwrap_or(i64::MAX),
        additions: 0,
        deletions: 0,
    }
}
