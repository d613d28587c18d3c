//! Approval rules that the code owners of the target branch imply (ADR 68). They are not stored.

use std::collections::BTreeSet;

use git::Oid;
use sha2::{Digest, Sha256};

/// IDs of these rules are above all IDs of stored rules, and below 2^53, so that clients with floating-point numbers read them.
const FIRST_ID: i64 = 1 << 52;
/// Name of the rule for a change whose owners cannot be determined.
pub const UNKNOWN_OWNERS: &str = "CODEOWNERS";

/// A rule that a line of the file with code owners implies for a merge request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerRule {
    /// The ID, which depends on the merge request, the section and the pattern.
    pub id: i64,
    /// The pattern.
    pub name: String,
    /// Name of the section.
    pub section: Option<String>,
    /// Number of approvals that the rule requires if the protection of the target branch requires code owners. 0 in an optional
    /// section.
    pub approvals: u8,
    /// Users whose approvals count.
    pub approvers: OwnerApprovers,
}

/// Users whose approvals count for a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnerApprovers {
    /// All users, because the owners cannot be determined.
    All,
    /// These users, and the direct members of these groups.
    Of {
        /// IDs of the users.
        user_ids: BTreeSet<i64>,
        /// IDs of the groups.
        group_ids: BTreeSet<i64>,
    },
}

/// The rules of a merge request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OwnerRules {
    /// The rules, in the order of the file.
    pub rules: Vec<OwnerRule>,
    /// The head of the target branch, from which the file was read.
    pub target: Option<Oid>,
}

impl OwnerRule {
    /// Returns the ID of the rule for a pattern of a section.
    #[must_use]
    pub fn id_of(merge_request_id: i64, section: Option<&str>, pattern: &str) -> i64 {
        let mut digest = Sha256::new();
        digest.update(merge_request_id.to_be_bytes());
        digest.update(section.map(str::to_lowercase).unwrap_or_default());
        // Neither names nor patterns contain a line break.
        digest.update("\n");
        digest.update(pattern);
        let digest: [u8; 32] = digest.finalize().into();
        let [a, b, c, d, e, f, ..] = digest;
        FIRST_ID + i64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    fn ids(&self) -> Option<(&BTreeSet<i64>, &BTreeSet<i64>)> {
        match &self.approvers {
            OwnerApprovers::All => None,
            OwnerApprovers::Of { user_ids, group_ids } => Some((user_ids, group_ids)),
        }
    }
}

impl OwnerRules {
    /// Returns whether a rule has this ID.
    #[must_use]
    pub fn contains(&self, id: i64) -> bool {
        self.rules.iter().any(|rule| rule.id == id)
    }

    /// Returns the IDs of the users of all rules.
    #[must_use]
    pub fn user_ids(&self) -> BTreeSet<i64> {
        let ids = self.rules.iter().filter_map(OwnerRule::ids);
        ids.flat_map(|(users, _)| users.iter().copied()).collect()
    }

    /// Returns the IDs of the groups of all rules.
    #[must_use]
    pub fn group_ids(&self) -> BTreeSet<i64> {
        let ids = self.rules.iter().filter_map(OwnerRule::ids);
        ids.flat_map(|(_, groups)| groups.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_differ_and_are_exact_as_floating_point_numbers() {
        let ids = [
            OwnerRule::id_of(1, None, "*"),
            OwnerRule::id_of(2, None, "*"),
            OwnerRule::id_of(1, Some("*"), ""),
            OwnerRule::id_of(1, Some("Docs"), "*"),
        ];
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), 4);
        assert!(ids.iter().all(|id| (FIRST_ID..1 << 53).contains(id)));
        assert_eq!(OwnerRule::id_of(1, Some("docs"), "*"), ids[3]);
    }
}
