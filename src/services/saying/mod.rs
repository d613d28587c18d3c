//! What follows from what users write: whoever is mentioned gets a to-do item, and what is named gets a note that tells where.
//!
//! A text is looked at before the transaction in which it is written ([`listen`]); what follows is entered in that
//! ([`Said::enter`]), with the text or not at all.

mod commits;
mod meaning;
mod naming;
mod people;

use sea_orm::{ConnectionTrait, DatabaseTransaction};

pub(in crate::services) use commits::{commit_reference, name_commit};
pub(in crate::services) use meaning::meant;

use storage::entities::issuables::{self, assignees_of};
use storage::entities::issues;
use storage::entities::todos::Action;

use crate::error::Result;
use crate::services::Backend;
use crate::services::notes::system::Parent;
use crate::services::places::Place;
use crate::services::texts::mentions::{Mention, mentions};
use crate::services::todos::{self, Because};

/// What kind of thing a text stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::services) enum Kind {
    /// An issue.
    Issue,
    /// A merge request.
    MergeRequest,
    /// An epic.
    Epic,
}

/// Where a text is written, as far as it decides who may read it.
#[derive(Debug)]
pub(in crate::services) struct Scene<'a> {
    /// The project or group, and who writes.
    pub place: &'a Place,
    /// What it stands on.
    pub kind: Kind,
    /// That is confidential.
    pub confidential: bool,
    /// Who sees it although it is: its author, and those it is assigned to.
    pub own: Vec<i64>,
    /// The text is a note for Reporters alone.
    pub confidential_note: bool,
}

impl<'a> Scene<'a> {
    /// That of the texts of an issue; `assignees` see it although it is confidential.
    pub fn of_issue(place: &'a Place, confidential: bool, author: Option<i64>, assignees: Vec<i64>) -> Self {
        Self {
            place,
            kind: Kind::Issue,
            confidential,
            own: author.into_iter().chain(assignees).collect(),
            confidential_note: false,
        }
    }

    /// That of the texts of a merge request.
    pub fn of_merge_request(place: &'a Place) -> Self {
        Self {
            place,
            kind: Kind::MergeRequest,
            confidential: false,
            own: Vec::new(),
            confidential_note: false,
        }
    }

    /// That of the texts of an epic.
    pub fn of_epic(place: &'a Place, confidential: bool, author: Option<i64>) -> Self {
        Self {
            place,
            kind: Kind::Epic,
            confidential,
            own: author.into_iter().collect(),
            confidential_note: false,
        }
    }

    /// Whether what is named there is told so. Notes for few tell nobody, and neither do epics: what they name may be seen
    /// by others than they are.
    fn names_others(&self) -> bool {
        !self.confidential_note && self.kind != Kind::Epic
    }

    /// That of a note there.
    pub fn note(self, confidential: bool) -> Self {
        Self {
            confidential_note: confidential,
            ..self
        }
    }
}

/// Those a confidential issue is assigned to, who see it.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn assignees(
    db: &impl ConnectionTrait,
    issue: &issues::Model,
) -> Result<Vec<i64>> {
    let found = assignees_of(db, issuables::Kind::Issue, [issue.id]).await?;
    Ok(found.into_values().flatten().map(|user| user.id).collect())
}

/// What a text says that something follows from.
#[derive(Debug, Default)]
pub(in crate::services) struct Said {
    mentioned: Vec<(i64, Action)>,
    named: naming::Named,
}

/// What a text was written on, and by whom.
#[derive(Debug, Clone, Copy)]
pub(in crate::services) struct Written<'a> {
    /// The project or group, and who wrote it.
    pub place: &'a Place,
    /// What it stands on.
    pub on: Parent,
    /// The number of that within the project or group.
    pub iid: i64,
    /// The note that it is, if it is one.
    pub note_id: Option<i64>,
    /// The user.
    pub author_id: i64,
}

impl<'a> Written<'a> {
    /// Title and description of a thing, by its number.
    pub fn on(place: &'a Place, on: Parent, iid: i64, author_id: i64) -> Self {
        Self {
            place,
            on,
            iid,
            note_id: None,
            author_id,
        }
    }

    /// A note there.
    pub fn note(self, note_id: i64) -> Self {
        Self {
            note_id: Some(note_id),
            ..self
        }
    }
}

/// Title and description of a thing, as texts; what is absent says nothing.
pub(in crate::services) fn texts<'a>(
    title: Option<&'a str>,
    description: Option<&'a String>,
) -> [&'a str; 2] {
    [title.unwrap_or_default(), description.map_or("", String::as_str)]
}

/// Whether nothing follows from a text, whoever writes it.
pub(in crate::services) fn is_silent(text: &str) -> bool {
    !text.contains(['@', '#', '!']) && !text.contains("://")
}

/// Finds what follows from texts: from what is said in `after` and was not in `before`. A user who may not read them is not
/// meant, and nothing is named that the writer does not see.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn listen(
    backend: &Backend,
    scene: &Scene<'_>,
    before: &[&str],
    after: &[&str],
) -> Result<Said> {
    if after.iter().all(|text| is_silent(text)) {
        return Ok(Said::default());
    }
    let old: Vec<Mention> = before.iter().flat_map(|text| mentions(text)).collect();
    let new = after.iter().flat_map(|text| mentions(text));
    let fresh = new.filter(|mention| !old.iter().any(|other| other.name == mention.name));
    Ok(Said {
        mentioned: people::mentioned(backend, scene, fresh.collect()).await?,
        named: match scene.names_others() {
            true => naming::named(backend, scene.place, before, after).await?,
            false => naming::Named::default(),
        },
    })
}

impl Said {
    /// Enters what follows, in the transaction that enters the text; and that what it stands on was `assigned` to these users.
    ///
    /// # Errors
    /// Whatever the database reports.
    pub async fn enter(
        self,
        transaction: &DatabaseTransaction,
        written: Written<'_>,
        assigned: Vec<i64>,
    ) -> Result<()> {
        let because = Because {
            scope: written.place.scope(),
            author_id: Some(written.author_id),
            note_id: written.note_id,
        };
        if let Some(target) = written.on.todo_target() {
            // Who is both has something to do rather than to read.
            let assigned = assigned.into_iter().map(|id| (id, Action::Assigned));
            let users = assigned.chain(self.mentioned).collect();
            todos::make(transaction, target, because, users).await?;
        }
        self.named.enter(transaction, written).await
    }
}
