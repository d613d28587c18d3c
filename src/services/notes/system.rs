//! Notes that nobody writes: they tell of changes to what they stand on.

use chrono::NaiveDate;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveValue::Set, ColumnTrait, DatabaseTransaction, DbErr, EntityTrait};
use storage::entities::notes::{ActiveModel, Column, Entity};
use storage::entities::todos::Target;
use storage::entities::{now, users};

use crate::services::durations::humane;

/// What a note stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parent {
    /// An issue, by its id.
    Issue(i64),
    /// A merge request, by its id.
    MergeRequest(i64),
    /// A snippet, by its id.
    Snippet(i64),
    /// An epic, by its id.
    Epic(i64),
}

impl Parent {
    /// A row that stands on it, and says nothing yet.
    pub(in crate::services) fn row(self) -> ActiveModel {
        let mut row = ActiveModel::default();
        match self {
            Self::Issue(id) => row.issue_id = Set(Some(id)),
            Self::MergeRequest(id) => row.merge_request_id = Set(Some(id)),
            Self::Snippet(id) => row.snippet_id = Set(Some(id)),
            Self::Epic(id) => row.epic_id = Set(Some(id)),
        }
        row
    }

    /// It as what a to-do item is about; none of what there are no such items for.
    pub(in crate::services) fn todo_target(self) -> Option<Target> {
        match self {
            Self::Issue(id) => Some(Target::Issue(id)),
            Self::MergeRequest(id) => Some(Target::MergeRequest(id)),
            Self::Epic(id) => Some(Target::Epic(id)),
            Self::Snippet(_) => None,
        }
    }

    /// Rows that stand on it.
    pub(in crate::services) fn holds(self) -> Expr {
        match self {
            Self::Issue(id) => Column::IssueId.eq(id),
            Self::MergeRequest(id) => Column::MergeRequestId.eq(id),
            Self::Snippet(id) => Column::SnippetId.eq(id),
            Self::Epic(id) => Column::EpicId.eq(id),
        }
    }
}

/// Writes notes of the system, in this order, in the name of whoever made the change, if anybody is known.
///
/// # Errors
/// Whatever the database reports.
pub async fn write(
    transaction: &DatabaseTransaction,
    parent: Parent,
    author_id: Option<i64>,
    bodies: Vec<String>,
) -> Result<(), DbErr> {
    if bodies.is_empty() {
        return Ok(());
    }
    let rows = bodies.into_iter().map(|body| written(parent, author_id, body));
    Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// A note of the system that names another thing: who may not see that does not see the note.
pub(in crate::services) fn naming(
    on: Parent,
    named: Parent,
    author_id: Option<i64>,
    body: String,
) -> ActiveModel {
    let mut row = written(on, author_id, body);
    match named {
        Parent::Issue(id) => row.referenced_issue_id = Set(Some(id)),
        Parent::MergeRequest(id) => row.referenced_merge_request_id = Set(Some(id)),
        // No text on these names anything.
        Parent::Snippet(_) | Parent::Epic(_) => {}
    }
    row
}

/// A note of the system that names a commit of a project: who may not read the code of that does not see the note.
pub(in crate::services) fn naming_commit(
    on: Parent,
    project_id: i64,
    author_id: i64,
    body: String,
) -> ActiveModel {
    ActiveModel {
        referenced_project_id: Set(Some(project_id)),
        ..written(on, Some(author_id), body)
    }
}

fn written(on: Parent, author_id: Option<i64>, body: String) -> ActiveModel {
    let at = now();
    ActiveModel {
        author_id: Set(author_id),
        body: Set(body),
        system: Set(true),
        created_at: Set(at),
        updated_at: Set(at),
        ..on.row()
    }
}

/// The title changed: what is new and what went is marked, in whole words.
#[must_use]
pub fn retitled(old: &str, new: &str) -> String {
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

/// Those that it is assigned to changed; none when they did not.
#[must_use]
pub fn assigned(old: &[users::Model], new: &[users::Model]) -> Option<String> {
    let names = |all: &[users::Model], but: &[users::Model]| {
        let fresh = all
            .iter()
            .filter(|user| !but.iter().any(|other| other.id == user.id));
        joined(fresh.map(|user| format!("@{}", user.username)).collect())
    };
    let parts: Vec<String> = [
        names(new, old).map(|names| format!("assigned to {names}")),
        names(old, new).map(|names| format!("unassigned {names}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    joined(parts)
}

/// `a`, `a and b`, `a, b, and c`; none of nothing.
fn joined(mut parts: Vec<String>) -> Option<String> {
    let last = parts.pop()?;
    Some(match parts.len() {
        0 => last,
        1 => format!("{} and {last}", parts[0]),
        _ => format!("{}, and {last}", parts.join(", ")),
    })
}

/// The milestone changed to the one of this title, or went.
#[must_use]
pub fn milestone(title: Option<&str>) -> String {
    match title {
        Some(title) => format!("changed milestone to %{}", quoted(title)),
        None => "removed milestone".to_owned(),
    }
}

/// Titles that are not one word are written in quotes.
fn quoted(title: &str) -> String {
    let plain = title
        .chars()
        .all(|each| each.is_alphanumeric() || "_-.".contains(each));
    match plain {
        true => title.to_owned(),
        false => format!("\"{title}\""),
    }
}

/// The day it is due changed, or went.
#[must_use]
pub fn due(day: Option<NaiveDate>) -> String {
    match day {
        Some(day) => format!("changed due date to {}", day.format("%B %-d, %Y")),
        None => "removed due date".to_owned(),
    }
}

/// The weight changed, or went.
#[must_use]
pub fn weight(weight: Option<i32>) -> String {
    match weight {
        Some(weight) => format!("changed weight to **{weight}**"),
        None => "removed the weight".to_owned(),
    }
}

/// It is to be merged into another branch.
#[must_use]
pub fn retargeted(old: &str, new: &str) -> String {
    format!("changed target branch from `{old}` to `{new}`")
}

/// Comments became something for members only, or for everybody again; `noun` says on what.
#[must_use]
pub fn locked(noun: &str, locked: bool) -> String {
    match locked {
        true => format!("locked this {noun}"),
        false => format!("unlocked this {noun}"),
    }
}

/// The estimate changed, in seconds; 0 is none.
#[must_use]
pub fn estimated(seconds: i64) -> String {
    match humane(seconds) {
        Some(time) => format!("changed time estimate to {time}"),
        None => "removed time estimate".to_owned(),
    }
}

/// Time was spent, in seconds, or taken off.
#[must_use]
pub fn spent(seconds: i64) -> String {
    let time = humane(seconds.saturating_abs()).unwrap_or_default();
    match seconds < 0 {
        true => format!("subtracted {time} of time spent"),
        false => format!("added {time} of time spent"),
    }
}

/// All time that was spent was taken back.
#[must_use]
pub fn spent_nothing() -> String {
    "removed time spent".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn new_titles_are_marked_where_they_differ() {
        assert_eq!(
            retitled("old rest", "new rest"),
            "changed title from **{-old-} rest** to **{+new+} rest**"
        );
        assert_eq!(
            retitled("one", "one two"),
            "changed title from **one** to **one {+two+}**"
        );
        assert_eq!(retitled("a a", "a"), "changed title from **a {-a-}** to **a**");
    }

    #[test]
    fn lists_of_names_read_like_sentences() {
        let all = |names: &[&str]| joined(names.iter().map(ToString::to_string).collect());
        assert_eq!(all(&[]), None);
        assert_eq!(all(&["a"]).as_deref(), Some("a"));
        assert_eq!(all(&["a", "b"]).as_deref(), Some("a and b"));
        assert_eq!(all(&["a", "b", "c"]).as_deref(), Some("a, b, and c"));
    }

    #[test]
    fn days_and_titles_are_written_out() {
        assert_eq!(
            due(NaiveDate::from_ymd_opt(2026, 1, 2)),
            "changed due date to January 2, 2026"
        );
        assert_eq!(milestone(Some("v1.0")), "changed milestone to %v1.0");
        assert_eq!(
            milestone(Some("next year")),
            "changed milestone to %\"next year\""
        );
    }
}
