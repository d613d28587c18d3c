//! System notes: they record changes of their noteable.

use chrono::NaiveDate;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait};
use storage::entities::notes::{ActiveModel, Column, Entity};
use storage::entities::todos::TodoTarget;
use storage::entities::{now, users};

use crate::kernel::text::durations::format_duration;

/// The kind and ID of a noteable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoteableId {
    /// An issue, by its ID.
    Issue(i64),
    /// A merge request, by its ID.
    MergeRequest(i64),
    /// A snippet, by its ID.
    Snippet(i64),
    /// An epic, by its ID.
    Epic(i64),
}

impl NoteableId {
    /// Returns an empty note row on this noteable.
    pub(crate) fn row(self) -> ActiveModel {
        let mut row = ActiveModel::default();
        match self {
            Self::Issue(id) => row.issue_id = Set(Some(id)),
            Self::MergeRequest(id) => row.merge_request_id = Set(Some(id)),
            Self::Snippet(id) => row.snippet_id = Set(Some(id)),
            Self::Epic(id) => row.epic_id = Set(Some(id)),
        }
        row
    }

    /// Returns the target of to-do items, or `None` if this noteable cannot have any.
    pub(crate) fn todo_target(self) -> Option<TodoTarget> {
        match self {
            Self::Issue(id) => Some(TodoTarget::Issue(id)),
            Self::MergeRequest(id) => Some(TodoTarget::MergeRequest(id)),
            Self::Epic(id) => Some(TodoTarget::Epic(id)),
            Self::Snippet(_) => None,
        }
    }

    /// Returns the condition that a note belongs to this noteable.
    pub(crate) fn condition(self) -> Expr {
        match self {
            Self::Issue(id) => Column::IssueId.eq(id),
            Self::MergeRequest(id) => Column::MergeRequestId.eq(id),
            Self::Snippet(id) => Column::SnippetId.eq(id),
            Self::Epic(id) => Column::EpicId.eq(id),
        }
    }
}

/// Writes system notes in this order. Their author is the user whose change they describe, if known.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn write(
    transaction: &DatabaseTransaction,
    noteable: NoteableId,
    author_id: Option<i64>,
    bodies: Vec<String>,
) -> Result<(), DbErr> {
    if bodies.is_empty() {
        return Ok(());
    }
    let rows = bodies.into_iter().map(|body| new_note(noteable, author_id, body));
    Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// Returns a system note that references another noteable. Users who cannot see that noteable do not see the
/// note.
pub(crate) fn cross_reference(
    noteable: NoteableId,
    source: NoteableId,
    author_id: Option<i64>,
    body: String,
) -> ActiveModel {
    let mut row = new_note(noteable, author_id, body);
    match source {
        NoteableId::Issue(id) => row.referenced_issue_id = Set(Some(id)),
        NoteableId::MergeRequest(id) => row.referenced_merge_request_id = Set(Some(id)),
        // System notes never reference these.
        NoteableId::Snippet(_) | NoteableId::Epic(_) => {}
    }
    row
}

/// Returns a system note that references a commit of a project. Users who cannot read the code of the project
/// do not see the note.
pub(crate) fn commit_reference(
    noteable: NoteableId,
    project_id: i64,
    author_id: i64,
    body: String,
) -> ActiveModel {
    ActiveModel {
        referenced_project_id: Set(Some(project_id)),
        ..new_note(noteable, Some(author_id), body)
    }
}

fn new_note(noteable: NoteableId, author_id: Option<i64>, body: String) -> ActiveModel {
    let at = now();
    ActiveModel {
        author_id: Set(author_id),
        body: Set(body),
        system: Set(true),
        created_at: Set(at),
        updated_at: Set(at),
        ..noteable.row()
    }
}

/// Returns the text of a changed title, with added and removed text marked in whole words.
#[must_use]
pub fn title_changed(old: &str, new: &str) -> String {
    let (old_words, new_words): (Vec<&str>, Vec<&str>) = (old.split(' ').collect(), new.split(' ').collect());
    let same = |pair: &(&&str, &&str)| pair.0 == pair.1;
    let head = old_words.iter().zip(&new_words).take_while(same).count();
    let tail = old_words[head..]
        .iter()
        .rev()
        .zip(new_words[head..].iter().rev())
        .take_while(same)
        .count();
    let marked = |words: &[&str], mark: char| {
        let middle = words[head..words.len() - tail].join(" ");
        let middle = match middle.is_empty() {
            true => String::new(),
            false => format!("{{{mark}{middle}{mark}}}"),
        };
        let parts = [
            words[..head].join(" "),
            middle,
            words[words.len() - tail..].join(" "),
        ];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    };
    format!(
        "changed title from **{}** to **{}**",
        marked(&old_words, '-'),
        marked(&new_words, '+')
    )
}

/// Returns the text of changed assignees, or `None` if they are unchanged.
#[must_use]
pub fn assignees_changed(old: &[users::Model], new: &[users::Model]) -> Option<String> {
    let added = |names| format!("assigned to {names}");
    let removed = |names| format!("unassigned {names}");
    users_changed(old, new, added, removed)
}

/// Returns the text of changed reviewers, or `None` if they are unchanged.
#[must_use]
pub fn reviewers_changed(old: &[users::Model], new: &[users::Model]) -> Option<String> {
    let added = |names| format!("requested review from {names}");
    let removed = |names| format!("removed review request for {names}");
    users_changed(old, new, added, removed)
}

/// Returns the texts for the added users and for the removed users, or `None` if the users are unchanged.
fn users_changed(
    old: &[users::Model],
    new: &[users::Model],
    added: impl FnOnce(String) -> String,
    removed: impl FnOnce(String) -> String,
) -> Option<String> {
    let added = difference(new, old).map(added);
    let removed = difference(old, new).map(removed);
    join_list(added.into_iter().chain(removed).collect())
}

/// Returns the names of the users that are not among the others.
fn difference(users: &[users::Model], others: &[users::Model]) -> Option<String> {
    let difference = users
        .iter()
        .filter(|user| !others.iter().any(|other| other.id == user.id));
    join_list(difference.map(|user| format!("@{}", user.username)).collect())
}

/// Joins parts as `a`, `a and b` or `a, b, and c`; returns `None` without parts.
fn join_list(mut parts: Vec<String>) -> Option<String> {
    let last = parts.pop()?;
    Some(match parts.len() {
        0 => last,
        1 => format!("{} and {last}", parts[0]),
        _ => format!("{}, and {last}", parts.join(", ")),
    })
}

/// Returns the text of a changed or removed milestone.
#[must_use]
pub fn milestone_changed(title: Option<&str>) -> String {
    match title {
        Some(title) => format!("changed milestone to %{}", quoted(title)),
        None => "removed milestone".to_owned(),
    }
}

/// Quotes titles that are not a single word.
fn quoted(title: &str) -> String {
    let plain = title
        .chars()
        .all(|each| each.is_alphanumeric() || "_-.".contains(each));
    match plain {
        true => title.to_owned(),
        false => format!("\"{title}\""),
    }
}

/// Returns the text of a changed or removed due date.
#[must_use]
pub fn due_date_changed(day: Option<NaiveDate>) -> String {
    match day {
        Some(day) => format!("changed due date to {}", day.format("%B %-d, %Y")),
        None => "removed due date".to_owned(),
    }
}

/// Returns the text of a changed or removed weight.
#[must_use]
pub fn weight_changed(weight: Option<i32>) -> String {
    match weight {
        Some(weight) => format!("changed weight to **{weight}**"),
        None => "removed the weight".to_owned(),
    }
}

/// Returns the text of a changed target branch.
#[must_use]
pub fn target_branch_changed(old: &str, new: &str) -> String {
    format!("changed target branch from `{old}` to `{new}`")
}

/// Returns the text of a locked or unlocked discussion; `noun` names the noteable.
#[must_use]
pub fn discussion_lock_changed(noun: &str, locked: bool) -> String {
    match locked {
        true => format!("locked this {noun}"),
        false => format!("unlocked this {noun}"),
    }
}

/// Returns the text of a changed time estimate in seconds; 0 means that it was removed.
#[must_use]
pub fn estimate_changed(seconds: i64) -> String {
    match format_duration(seconds) {
        Some(time) => format!("changed time estimate to {time}"),
        None => "removed time estimate".to_owned(),
    }
}

/// Returns the text of time spent in seconds, or removed if negative.
#[must_use]
pub fn time_spent(seconds: i64) -> String {
    let time = format_duration(seconds.saturating_abs()).unwrap_or_default();
    match seconds < 0 {
        true => format!("subtracted {time} of time spent"),
        false => format!("added {time} of time spent"),
    }
}

/// Returns the text of a reset of the time spent.
#[must_use]
pub fn time_spent_reset() -> String {
    "removed time spent".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn title_change_note_marks_changed_words() {
        assert_eq!(
            title_changed("old rest", "new rest"),
            "changed title from **{-old-} rest** to **{+new+} rest**"
        );
        assert_eq!(
            title_changed("one", "one two"),
            "changed title from **one** to **one {+two+}**"
        );
        assert_eq!(
            title_changed("a a", "a"),
            "changed title from **a {-a-}** to **a**"
        );
    }

    #[test]
    fn names_are_joined_as_english_list() {
        let list = |names: &[&str]| join_list(names.iter().map(ToString::to_string).collect());
        assert_eq!(list(&[]), None);
        assert_eq!(list(&["a"]).as_deref(), Some("a"));
        assert_eq!(list(&["a", "b"]).as_deref(), Some("a and b"));
        assert_eq!(list(&["a", "b", "c"]).as_deref(), Some("a, b, and c"));
    }

    #[test]
    fn due_date_and_milestone_notes_format_values() {
        assert_eq!(
            due_date_changed(NaiveDate::from_ymd_opt(2026, 1, 2)),
            "changed due date to January 2, 2026"
        );
        assert_eq!(milestone_changed(Some("v1.0")), "changed milestone to %v1.0");
        assert_eq!(
            milestone_changed(Some("next year")),
            "changed milestone to %\"next year\""
        );
    }
}
