//! Resolves mentions and cross-references in user text, and creates to-do items and system notes for them.
//!
//! [`listen`] analyzes a text before the transaction that writes it. [`Said::enter`] writes the results in
//! that transaction, so that they are atomic with the text.

mod commits;
mod cross_references;
mod mentioned_users;
mod reference_lookup;

use sea_orm::{ConnectionTrait, DatabaseTransaction};

pub(crate) use commits::{commit_reference, name_commit};
pub(crate) use reference_lookup::meant;

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
pub(crate) enum Kind {
    /// An issue.
    Issue,
    /// A merge request.
    MergeRequest,
    /// An epic.
    Epic,
}

/// Context of a text, which decides who can read it.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    /// The project or group, with the writer as the caller.
    pub place: &'a SpaceAccess,
    /// The type of the noteable.
    pub kind: Kind,
    /// Whether the noteable is confidential.
    pub confidential: bool,
    /// Users who can see it in spite of that: the author and the assignees.
    pub own: Vec<i64>,
    /// Whether the text is a confidential note, visible from Reporter.
    pub confidential_note: bool,
}

impl<'a> Scene<'a> {
    /// Creates the context of an issue; `assignees` can see it even if it is confidential.
    pub fn of_issue(
        place: &'a SpaceAccess,
        confidential: bool,
        author: Option<i64>,
        assignees: Vec<i64>,
    ) -> Self {
        Self {
            place,
            kind: Kind::Issue,
            confidential,
            own: author.into_iter().chain(assignees).collect(),
            confidential_note: false,
        }
    }

    /// Creates the context of a merge request.
    pub fn of_merge_request(place: &'a SpaceAccess) -> Self {
        Self {
            place,
            kind: Kind::MergeRequest,
            confidential: false,
            own: Vec::new(),
            confidential_note: false,
        }
    }

    /// Creates the context of an epic.
    pub fn of_epic(place: &'a SpaceAccess, confidential: bool, author: Option<i64>) -> Self {
        Self {
            place,
            kind: Kind::Epic,
            confidential,
            own: author.into_iter().collect(),
            confidential_note: false,
        }
    }

    /// Returns whether references create cross-reference notes. Confidential notes and epics create none,
    /// because the referenced noteables may be visible to more users.
    fn names_others(&self) -> bool {
        !self.confidential_note && self.kind != Kind::Epic
    }

    /// Returns the context of a note on the noteable.
    pub fn note(self, confidential: bool) -> Self {
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
pub(crate) async fn assignees(db: &impl ConnectionTrait, issue: &issues::Model) -> Result<Vec<i64>> {
    let found = assignees_of(db, issuables::IssuableKind::Issue, [issue.id]).await?;
    Ok(found.into_values().flatten().map(|user| user.id).collect())
}

/// The mentions and references in a text.
#[derive(Debug, Default)]
pub(crate) struct Said {
    mentioned: Vec<(i64, TodoAction)>,
    named: cross_references::Named,
}

/// The location and author of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Written<'a> {
    /// The project or group, with the author as the caller.
    pub place: &'a SpaceAccess,
    /// The noteable.
    pub on: NoteableId,
    /// The IID of the noteable.
    pub iid: i64,
    /// The note, if the text is a note.
    pub note_id: Option<i64>,
    /// The user.
    pub author_id: i64,
}

impl<'a> Written<'a> {
    /// Describes the title and description of a noteable, by its IID.
    pub fn on(place: &'a SpaceAccess, on: NoteableId, iid: i64, author_id: i64) -> Self {
        Self {
            place,
            on,
            iid,
            note_id: None,
            author_id,
        }
    }

    /// Describes a note on the noteable.
    pub fn note(self, note_id: i64) -> Self {
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
pub(crate) async fn listen(
    backend: &Backend,
    scene: &Scene<'_>,
    before: &[&str],
    after: &[&str],
) -> Result<Said> {
    if !after.iter().any(|text| has_references(text)) {
        return Ok(Said::default());
    }
    let old: Vec<Mention> = before.iter().flat_map(|text| mentions(text)).collect();
    let new = after.iter().flat_map(|text| mentions(text));
    let fresh = new.filter(|mention| !old.iter().any(|other| other.name == mention.name));
    Ok(Said {
        mentioned: mentioned_users::mentioned(backend, scene, fresh.collect()).await?,
        named: match scene.names_others() {
            true => cross_references::named(backend, scene.place, before, after).await?,
            false => cross_references::Named::default(),
        },
    })
}

impl Said {
    /// Creates the to-do items and notes in the transaction that writes the text. `assigned` are new
    /// assignees, who also get to-do items.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn enter(
        self,
        transaction: &DatabaseTransaction,
        written: Written<'_>,
        assigned: Vec<i64>,
    ) -> Result<()> {
        let cause = TodoCause {
            scope: written.place.scope(),
            author_id: Some(written.author_id),
            note_id: written.note_id,
        };
        if let Some(target) = written.on.todo_target() {
            // For a user who is assigned and mentioned, the assignment takes precedence.
            let assigned = assigned.into_iter().map(|id| (id, TodoAction::Assigned));
            let users = assigned.chain(self.mentioned).collect();
            todo_writer::create(transaction, target, cause, users).await?;
        }
        self.named.enter(transaction, written).await
    }
}
