//! Attributes of push rules.

use std::borrow::Cow;
use std::collections::BTreeMap;

use storage::entities::push_rules::{ActiveModel, Model};

use crate::kernel::error::{Error, Result};
use crate::kernel::patch::{Patch, assign};
use crate::kernel::text::re2::SearchRegex;

/// Maximum length of an expression in characters.
const MAX_EXPRESSION_LENGTH: usize = 511;
/// Maximum length of the expression for messages that are not allowed, in characters.
const MAX_NEGATIVE_LENGTH: usize = 2_047;

/// Names of the attributes, in the order of the contract.
const NAMES: [&str; 13] = [
    "deny_delete_tag",
    "member_check",
    "prevent_secrets",
    "commit_message_regex",
    "commit_message_negative_regex",
    "branch_name_regex",
    "author_email_regex",
    "file_name_regex",
    "max_file_size",
    "commit_committer_check",
    "commit_committer_name_check",
    "reject_unsigned_commits",
    "reject_non_dco_commits",
];

/// Attributes to set; absent ones stay. An empty expression is none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushRuleUpdate {
    /// Whether pushes cannot delete tags.
    pub deny_delete_tag: Option<bool>,
    /// Whether the authors of commits must be users.
    pub member_check: Option<bool>,
    /// Whether files whose names suggest secrets cannot be added.
    pub prevent_secrets: Option<bool>,
    /// Expression that messages of commits must match.
    pub commit_message_regex: Patch<String>,
    /// Expression that messages of commits must not match.
    pub commit_message_negative_regex: Patch<String>,
    /// Expression that names of branches must match.
    pub branch_name_regex: Patch<String>,
    /// Expression that email addresses of authors and committers must match.
    pub author_email_regex: Patch<String>,
    /// Expression that paths of added files must not match.
    pub file_name_regex: Patch<String>,
    /// Maximum size of a file in MiB; 0 if there is no maximum.
    pub max_file_size: Option<i64>,
    /// Whether the committer must have a confirmed email address of the user who pushes.
    pub commit_committer_check: Option<bool>,
    /// Whether the committer must have the name of the user who pushes.
    pub commit_committer_name_check: Option<bool>,
    /// Whether commits must have a signature.
    pub reject_unsigned_commits: Option<bool>,
    /// Whether commits must have a sign-off.
    pub reject_non_dco_commits: Option<bool>,
}

impl PushRuleUpdate {
    /// Checks that there is an attribute.
    pub(super) fn check_not_empty(&self) -> Result<()> {
        match *self == Self::default() {
            true => Err(Error::no_parameters(&NAMES)),
            false => Ok(()),
        }
    }

    /// Writes the attributes to a row if all are valid.
    pub(super) fn apply(&self, row: &mut ActiveModel) -> Result<()> {
        let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
        let change = self.clone();
        for (name, expression, column) in [
            (
                "commit_message_regex",
                change.commit_message_regex,
                &mut row.commit_message_regex,
            ),
            (
                "commit_message_negative_regex",
                change.commit_message_negative_regex,
                &mut row.commit_message_negative_regex,
            ),
            (
                "branch_name_regex",
                change.branch_name_regex,
                &mut row.branch_name_regex,
            ),
            (
                "author_email_regex",
                change.author_email_regex,
                &mut row.author_email_regex,
            ),
            (
                "file_name_regex",
                change.file_name_regex,
                &mut row.file_name_regex,
            ),
        ] {
            let expression = match expression {
                Patch::Set(text) if text.is_empty() => Patch::Clear,
                other => other,
            };
            if let Some(fault) = expression.value().and_then(|text| expression_fault(name, text)) {
                errors.insert(name.into(), vec![fault.into()]);
            }
            expression.apply_to(column);
        }
        let size = change.max_file_size.map(i32::try_from);
        if change.max_file_size.is_some_and(|size| size < 0) {
            errors.insert(
                "max_file_size".into(),
                vec!["must be greater than or equal to 0".into()],
            );
        } else if size.is_some_and(|size| size.is_err()) {
            let text = format!("must be less than or equal to {}", i32::MAX);
            errors.insert("max_file_size".into(), vec![text.into()]);
        }
        if !errors.is_empty() {
            return Err(Error::InvalidAttributes(errors));
        }
        assign(&mut row.max_file_size, size.and_then(std::result::Result::ok));
        assign(&mut row.deny_delete_tag, change.deny_delete_tag);
        assign(&mut row.member_check, change.member_check);
        assign(&mut row.prevent_secrets, change.prevent_secrets);
        assign(&mut row.commit_committer_check, change.commit_committer_check);
        assign(
            &mut row.commit_committer_name_check,
            change.commit_committer_name_check,
        );
        assign(&mut row.reject_unsigned_commits, change.reject_unsigned_commits);
        assign(&mut row.reject_non_dco_commits, change.reject_non_dco_commits);
        Ok(())
    }
}

fn expression_fault(name: &str, text: &str) -> Option<String> {
    let max = match name {
        "commit_message_negative_regex" => MAX_NEGATIVE_LENGTH,
        _ => MAX_EXPRESSION_LENGTH,
    };
    if text.chars().count() > max {
        return Some(format!("is too long (maximum is {max} characters)"));
    }
    // PostgreSQL rejects the character, and other databases do not preserve it.
    if text.contains('\0') {
        return Some("contains a NUL character; use `\\x00`".to_owned());
    }
    let invalid = SearchRegex::compile(text, false).err()?;
    Some(format!("not valid RE2 syntax: {invalid}"))
}

/// Returns the attributes that are set, for audit events.
pub(super) fn summary(rule: &Model) -> String {
    let texts = [
        ("commit_message_regex", &rule.commit_message_regex),
        (
            "commit_message_negative_regex",
            &rule.commit_message_negative_regex,
        ),
        ("branch_name_regex", &rule.branch_name_regex),
        ("author_email_regex", &rule.author_email_regex),
        ("file_name_regex", &rule.file_name_regex),
    ];
    let flags = [
        ("deny_delete_tag", rule.deny_delete_tag),
        ("member_check", rule.member_check),
        ("prevent_secrets", rule.prevent_secrets),
        ("commit_committer_check", rule.commit_committer_check),
        ("commit_committer_name_check", rule.commit_committer_name_check),
        ("reject_unsigned_commits", rule.reject_unsigned_commits),
        ("reject_non_dco_commits", rule.reject_non_dco_commits),
    ];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
    let mut parts: Vec<String> = flags.map(|(name, _)| name.to_owned()).collect();
    if rule.max_file_size > 0 {
        parts.push(format!("max_file_size {}", rule.max_file_size));
    }
    let texts = texts
        .into_iter()
        .filter_map(|(name, text)| Some((name, text.as_ref()?)));
    parts.extend(texts.map(|(name, text)| format!("{name} {text}")));
    parts.join(", ")
}

#[cfg(test)]
mod tests {
    use sea_orm::ActiveValue::Set;

    use super::*;

    #[test]
    fn empty_expression_is_none_and_faults_are_reported_together() {
        let mut row = ActiveModel::default();
        let cleared = PushRuleUpdate {
            branch_name_regex: Patch::Set(String::new()),
            max_file_size: Some(3),
            ..PushRuleUpdate::default()
        };
        cleared.apply(&mut row).unwrap();
        assert_eq!((row.branch_name_regex, row.max_file_size), (Set(None), Set(3)));
        let invalid = PushRuleUpdate {
            branch_name_regex: Patch::Set("x".repeat(512)),
            file_name_regex: Patch::Set("(".to_owned()),
            commit_message_negative_regex: Patch::Set("x".repeat(2_047)),
            max_file_size: Some(-1),
            ..PushRuleUpdate::default()
        };
        let Err(Error::InvalidAttributes(errors)) = invalid.apply(&mut ActiveModel::default()) else {
            panic!("not refused");
        };
        let names: Vec<_> = errors.keys().map(|name| name.to_string()).collect();
        assert_eq!(names, ["branch_name_regex", "file_name_regex", "max_file_size"]);
    }
}
