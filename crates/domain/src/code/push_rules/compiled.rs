//! Push rules with compiled expressions, and what they allow. The module reads neither the database nor repositories.

use std::collections::HashSet;
use std::sync::LazyLock;

use git::{Commit, NewCommit, NewFile};
use regex::Regex;
use storage::entities::fold;
use storage::entities::push_rules::Model;

use super::secrets;
use crate::kernel::error::{Error, Result};
use crate::kernel::text::re2::{InvalidRegex, SearchRegex};

/// Maximum length of a message that an expression is searched for in, in bytes.
const MAX_MESSAGE_BYTES: usize = 64 << 10;
/// Maximum length of a path or email address in an error, in characters.
const MAX_SHOWN_CHARS: usize = 500;
/// Bytes of a unit of `max_file_size`.
const MIB: u64 = 1 << 20;

/// The line by which an author accepts the Developer Certificate of Origin.
static SIGN_OFF: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new("Signed-off-by:.+<.+@.+>").ok());

/// A rule with compiled expressions.
#[derive(Debug, Clone)]
pub struct CompiledRule {
    pub(super) row: Model,
    commit_message: Option<SearchRegex>,
    forbidden_message: Option<SearchRegex>,
    branch_name: Option<SearchRegex>,
    author_email: Option<SearchRegex>,
    file_name: Option<SearchRegex>,
}

/// The user who adds commits.
#[derive(Debug, Clone)]
pub(super) struct Pusher {
    /// The name.
    pub(super) name: String,
    /// The folded addresses that are confirmed.
    pub(super) confirmed: HashSet<String>,
    /// The folded addresses that are not confirmed.
    pub(super) unconfirmed: HashSet<String>,
}

impl CompiledRule {
    /// Compiles a stored rule, which takes noticeable time.
    ///
    /// # Errors
    /// Returns `Error::Internal` if an expression is not valid, although it was valid when it was stored.
    pub fn compile(row: Model) -> Result<Self> {
        let compiled = |text: &Option<String>, multi_line: bool| {
            let compile = |text: &String| SearchRegex::compile(text, multi_line);
            text.as_ref().map(compile).transpose()
        };
        let compile = || {
            Ok::<_, InvalidRegex>(Self {
                commit_message: compiled(&row.commit_message_regex, true)?,
                forbidden_message: compiled(&row.commit_message_negative_regex, true)?,
                branch_name: compiled(&row.branch_name_regex, false)?,
                author_email: compiled(&row.author_email_regex, false)?,
                file_name: compiled(&row.file_name_regex, false)?,
                row: row.clone(),
            })
        };
        compile().map_err(Error::internal)
    }

    /// Returns why a branch cannot have a name.
    #[must_use]
    pub fn branch_fault(&self, name: &str) -> Option<String> {
        let fault = || {
            format!(
                "Branch name does not follow the pattern '{}'",
                pattern(&self.row.branch_name_regex)
            )
        };
        self.branch_name
            .as_ref()
            .filter(|regex| !regex.is_in(name))
            .map(|_| fault())
    }

    /// Returns why a push cannot delete a tag.
    #[must_use]
    pub fn tag_deletion_fault(&self) -> Option<String> {
        self.row
            .deny_delete_tag
            .then(|| "You cannot delete a tag".to_owned())
    }

    /// Returns whether there are conditions on commits.
    pub(super) fn has_commit_conditions(&self) -> bool {
        let row = &self.row;
        self.commit_message.is_some()
            || self.forbidden_message.is_some()
            || self.author_email.is_some()
            || row.member_check
            || row.commit_committer_check
            || row.commit_committer_name_check
            || row.reject_unsigned_commits
            || row.reject_non_dco_commits
    }

    /// Returns whether there are conditions on the paths of files.
    pub(super) fn has_path_conditions(&self) -> bool {
        self.file_name.is_some() || self.row.prevent_secrets
    }

    /// Returns the maximum size of a file in bytes.
    pub(super) fn max_file_bytes(&self) -> Option<u64> {
        let size = u64::try_from(self.row.max_file_size).unwrap_or_default();
        (size > 0).then(|| size.saturating_mul(MIB))
    }

    /// Returns why a commit cannot be added, by its message and the email addresses in it.
    pub(super) fn commit_fault(&self, commit: &Commit) -> Option<String> {
        self.message_fault(&commit.message)
            .or_else(|| self.email_fault(commit))
    }

    fn message_fault(&self, message: &str) -> Option<String> {
        let has_expression = self.commit_message.is_some() || self.forbidden_message.is_some();
        if has_expression && message.len() > MAX_MESSAGE_BYTES {
            return Some(format!(
                "Commit message is too long (maximum is {MAX_MESSAGE_BYTES} bytes)"
            ));
        }
        if self
            .commit_message
            .as_ref()
            .is_some_and(|regex| !regex.is_in(message))
        {
            let expected = pattern(&self.row.commit_message_regex);
            return Some(format!("Commit message does not follow the pattern '{expected}'"));
        }
        if self
            .forbidden_message
            .as_ref()
            .is_some_and(|regex| regex.is_in(message))
        {
            let forbidden = pattern(&self.row.commit_message_negative_regex);
            return Some(format!(
                "Commit message contains the forbidden pattern '{forbidden}'"
            ));
        }
        let is_signed_off = || SIGN_OFF.as_ref().is_some_and(|regex| regex.is_match(message));
        let is_refused = self.row.reject_non_dco_commits && !is_signed_off();
        is_refused.then(|| "Commit message must contain a DCO signoff".to_owned())
    }

    fn email_fault(&self, commit: &Commit) -> Option<String> {
        let regex = self.author_email.as_ref()?;
        let people = [("Author", &commit.author), ("Committer", &commit.committer)];
        let (role, person) = people
            .into_iter()
            .find(|(_, person)| !regex.is_in(&person.email))?;
        let (email, expected) = (shown(&person.email), pattern(&self.row.author_email_regex));
        Some(format!(
            "{role}'s email '{email}' does not follow the pattern '{expected}'"
        ))
    }

    /// Returns why a commit cannot be added by this user.
    pub(super) fn committer_fault(&self, commit: &Commit, pusher: &Pusher) -> Option<String> {
        let email = &commit.committer.email;
        let key = fold(email);
        if self.row.commit_committer_check && !pusher.confirmed.contains(&key) {
            let email = shown(email);
            return Some(match pusher.unconfirmed.contains(&key) {
                true => format!("Committer email '{email}' is not verified."),
                false => format!(
                    "You cannot push commits for '{email}'. You can only push commits that were committed with one of \
                     your own verified emails."
                ),
            });
        }
        let is_refused = self.row.commit_committer_name_check && commit.committer.name != pusher.name;
        is_refused.then(|| {
            let (name, expected) = (shown(&commit.committer.name), &pusher.name);
            format!("Committer name '{name}' is not the name of your account '{expected}'")
        })
    }

    /// Returns why a commit cannot be added without a signature.
    pub(super) fn signature_fault(&self, new: &NewCommit) -> Option<String> {
        let is_refused = self.row.reject_unsigned_commits && !new.is_signed;
        is_refused.then(|| "Commit must be signed with a GPG key".to_owned())
    }

    /// Returns why a file cannot be added at its path. Files that exist can be changed.
    pub(super) fn path_fault(&self, file: &NewFile) -> Option<String> {
        if !file.is_added {
            return None;
        }
        let is_prohibited = |regex: &&SearchRegex| regex.is_in(&file.path);
        let own = self.file_name.as_ref().filter(is_prohibited);
        let own = own.map(|_| pattern(&self.row.file_name_regex));
        let secret = || {
            self.row
                .prevent_secrets
                .then(|| secrets::matching_expression(&file.path))
        };
        let found = own.or_else(|| secret().flatten())?;
        Some(format!(
            "File name {} was prohibited by the pattern \"{found}\".",
            shown(&file.path)
        ))
    }

    /// Returns why a file is too large.
    pub(super) fn size_fault(&self, path: &str) -> String {
        let size = self.row.max_file_size;
        format!(
            "File \"{}\" is larger than the allowed size of {size} MB",
            shown(path)
        )
    }
}

/// Returns why the author of a commit is refused.
pub(super) fn author_fault(email: &str) -> String {
    format!("Author '{}' is not a member of team", shown(email))
}

fn pattern(expression: &Option<String>) -> &str {
    expression.as_deref().unwrap_or_default()
}

fn shown(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}
