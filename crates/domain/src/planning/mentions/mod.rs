//! Resolves mentions and cross-references in user text, and creates to-do items and system notes for them.
//!
//! [`resolve`] analyzes a text before the transaction that writes it. [`TextEffects::save`] writes the results
//! in that transaction, so that they are atomic with the text.

mod commits;
mod cross_references;
mod mentioned_users;
mod reference_lookup;

use sea_orm::{ConnectionTrait, DatabaseTransaction};

pub(crate) use commits::{commit_reference, record_commit_reference};
pub(crate) use reference_lookup::resolve_references;

use storage::entities::issuables::{self, assignees_of};
use storage::entities::issues;
use storage::entities::todos::TodoAction;

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::text::mentions::{Mention, mentions};
use crate::kernel::text::references::has_references;
use crate::planning::system_notes::NoteableId;
use crate::planning::todo_writer::{self, TodoCause};

/// Type of the noteable that a text belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AudienceKind {
    /// An issue.
    Issue,
    /// A merge request.
    MergeRequest,
    /// An epic.
    Epic,
}

/// Context of a text, which decides who can read it.
#[derive(Debug)]
pub(crate) struct TextAudience<'a> {
    /// The project or group, with the writer as the caller.
    pub space: &'a SpaceAccess,
    /// The type of the noteable.
    pub kind: AudienceKind,
    /// Whether the noteable is confidential.
    pub confidential: bool,
    /// Users who can see it in spite of that: the author and the assignees.
    pub participant_ids: Vec<i64>,
    /// Whether the text is a confidential note, visible from Reporter.
    pub confidential_note: bool,
}

impl<'a> TextAudience<'a> {
    /// Creates the context of an issue; `assignees` can see it even if it is confidential.
    pub fn of_issue(
        space: &'a SpaceAccess,
        confidential: bool,
        author: Option<i64>,
        assignees: Vec<i64>,
    ) -> Self {
        Self {
            space,
            kind: AudienceKind::Issue,
            confidential,
            participant_ids: author.into_iter().chain(assignees).collect(),
            confidential_note: false,
        }
    }

    /// Creates the context of a merge request.
    pub fn of_merge_request(space: &'a SpaceAccess) -> Self {
        Self {
            space,
            kind: AudienceKind::MergeRequest,
            confidential: false,
            participant_ids: Vec::new(),
            confidential_note: false,
        }
    }

    /// Creates the context of an epic.
    pub fn of_epic(space: &'a SpaceAccess, confidential: bool, author: Option<i64>) -> Self {
        Self {
            space,
            kind: AudienceKind::Epic,
            confidential,
            participant_ids: author.into_iter().collect(),
            confidential_note: false,
        }
    }

    /// Returns whether references create cross-reference notes. Confidential notes and epics create none,
    /// because the referenced noteables may be visible to more users.
    fn has_cross_references(&self) -> bool {
        !self.confidential_note && self.kind != AudienceKind::Epic
    }

    /// Returns the context of a note on the noteable.
    pub fn for_note(self, confidential: bool) -> Self {
        Self {
            confidential_note: confidential,
            ..self
        }
    }
}

/// Returns the assignees of a confidential issue, who can see it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn assignee_ids(db: &impl ConnectionTrait, issue: &issues::Model) -> Result<Vec<i64>> {
    let assignees = assignees_of(db, issuables::IssuableKind::Issue, [issue.id]).await?;
    Ok(assignees.into_values().flatten().map(|user| user.id).collect())
}

/// The mentions and references in a text, which create to-do items and system notes.
#[derive(Debug, Default)]
pub(crate) struct TextEffects {
    mentioned_users: Vec<(i64, TodoAction)>,
    cross_references: cross_references::CrossReferences,
}

/// The location and author of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextSource<'a> {
    /// The project or group, with the author as the caller.
    pub space: &'a SpaceAccess,
    /// The noteable.
    pub noteable: NoteableId,
    /// The IID of the noteable.
    pub iid: i64,
    /// The note, if the text is a note.
    pub note_id: Option<i64>,
    /// The user.
    pub author_id: i64,
}

impl<'a> TextSource<'a> {
    /// Describes the title and description of a noteable, by its IID.
    pub fn new(space: &'a SpaceAccess, noteable: NoteableId, iid: i64, author_id: i64) -> Self {
        Self {
            space,
            noteable,
            iid,
            note_id: None,
            author_id,
        }
    }

    /// Describes a note on the noteable.
    pub fn for_note(self, note_id: i64) -> Self {
        Self {
            note_id: Some(note_id),
            ..self
        }
    }
}

/// Returns title and description as texts; absent ones are empty.
pub(crate) fn texts<'a>(title: Option<&'a str>, description: Option<&'a String>) -> [&'a str; 2] {
    [title.unwrap_or_default(), description.map_or("", String::as_str)]
}

/// Finds the mentions and references in `after` that are not in `before`. Mentions of users who cannot read
/// the text are ignored, as are references that the writer cannot see.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn resolve(
    backend: &Backend,
    audience: &TextAudience<'_>,
    before: &[&str],
    after: &[&str],
) -> Result<TextEffects> {
    if !after.iter().any(|text| has_references(text)) {
        return Ok(TextEffects::default());
    }
    let old: Vec<Mention> = before.iter().flat_map(|text| mentions(text)).collect();
    let new = after.iter().flat_map(|text| mentions(text));
    let added = new.filter(|mention| !old.iter().any(|other| other.name == mention.name));
    Ok(TextEffects {
        mentioned_users: mentioned_users::find(backend, audience, added.collect()).await?,
        cross_references: match audience.has_cross_references() {
            true => cross_references::find(backend, audience.space, before, after).await?,
            false => cross_references::CrossReferences::default(),
        },
    })
}

impl TextEffects {
    /// Creates the to-do items and notes in the transaction that writes the text. `newly_assigned` users also
    /// receive to-do items.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn save(
        self,
        transaction: &DatabaseTransaction,
        source: TextSource<'_>,
        newly_assigned: Vec<i64>,
    ) -> Result<()> {
        let cause = TodoCause {
            scope: source.space.scope(),
            author_id: Some(source.author_id),
            note_id: source.note_id,
        };
        if let Some(target) = source.noteable.todo_target() {
            // For a user who is assigned and mentioned, the assignment takes precedence.
            let assigned = newly_assigned.into_iter().map(|id| (id, TodoAction::Assigned));
            let users = assigned.chain(self.mentioned_users).collect();
            todo_writer::create(transaction, target, cause, users).await?;
        }
        self.cross_references.save(transaction, source).await
    }
}
