//! Selection of tags for a bulk deletion. It is pure and deterministic.

use std::cmp::Reverse;

use chrono::{DateTime, Utc};

use crate::kernel::text::anchored_regex::AnchoredRegex;
use crate::kernel::text::re2::InvalidRegex;
use crate::registry::jobs::delete_registry_tags::CleanupRules;

/// The tag that is never deleted.
const LATEST: &str = "latest";

/// A [`CleanupRules`] with compiled expressions.
#[derive(Debug)]
pub struct CompiledRules {
    delete: AnchoredRegex,
    keep: Option<AnchoredRegex>,
    keep_n: Option<u64>,
    before: Option<DateTime<Utc>>,
}

/// A tag whose name matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TagCandidate {
    /// The ID.
    pub id: i64,
    /// The creation time of its image, if known.
    pub created_at: Option<DateTime<Utc>>,
}

impl CompiledRules {
    /// Compiles the rules.
    ///
    /// # Errors
    /// Returns [`InvalidRegex`] for the first invalid expression.
    pub fn compile(rules: &CleanupRules) -> Result<Self, InvalidRegex> {
        Ok(Self {
            delete: AnchoredRegex::compile(&rules.delete)?,
            keep: rules.keep.as_deref().map(AnchoredRegex::compile).transpose()?,
            keep_n: rules.keep_n,
            before: rules.before,
        })
    }

    /// Returns whether a tag with this name may be deleted.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let is_kept = |keep: &AnchoredRegex| keep.matches(name);
        name != LATEST && self.delete.matches(name) && !self.keep.as_ref().is_some_and(is_kept)
    }

    /// Returns the tags to delete, out of all whose names [match](Self::matches). Without the tags it
    /// returned before, it returns the remaining ones, so that an interrupted run can be resumed.
    #[must_use]
    pub fn select(&self, mut candidates: Vec<TagCandidate>) -> Vec<i64> {
        if let Some(keep_n) = self.keep_n {
            // Newest first, and unknown times before them. Ties are broken by the higher ID.
            candidates.sort_unstable_by_key(|tag| {
                Reverse((tag.created_at.unwrap_or(DateTime::<Utc>::MAX_UTC), tag.id))
            });
            let keep_count = usize::try_from(keep_n)
                .unwrap_or(usize::MAX)
                .min(candidates.len());
            candidates.drain(..keep_count);
        }
        if let Some(before) = self.before {
            candidates.retain(|tag| tag.created_at.is_some_and(|time| time < before));
        }
        candidates.into_iter().map(|tag| tag.id).collect()
    }
}

#[cfg(test)]
mod tests;
