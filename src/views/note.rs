//! Notes.

use crate::api::contract::{AwardableType, CreatedNote, Note, NoteType, NoteableType};
use crate::api::types::{Map, MaybeUndefined};
use crate::entities::notes::{Kind, Model};
use crate::services::award_emoji::Award;
use crate::services::notes::{Posted, Row};
use crate::views::users::{author, reference};

/// A note as the contract shows it.
#[must_use]
pub fn note(base: &str, row: Row) -> Note {
    let Row {
        note,
        author: writer,
        iid,
    } = row;
    let (noteable_type, noteable_id) = noteable(&note);
    Note {
        id: note.id,
        r#type: note.kind.map(|kind| match kind {
            Kind::Diff => NoteType::DiffNote,
            Kind::Discussion => NoteType::DiscussionNote,
        }),
        author: author(base, writer, note.created_at),
        attachment: None,
        created_at: note.created_at.into(),
        updated_at: note.updated_at.into(),
        system: note.system,
        noteable_id,
        noteable_type,
        resolvable: note.kind.is_some(),
        confidential: note.confidential,
        noteable_iid: iid,
        commands_changes: Map::default(),
        body: note.body,
    }
}

/// What became of a note that was sent.
#[must_use]
pub fn created(base: &str, posted: Posted) -> CreatedNote {
    match posted {
        Posted::Note(row) => written(note(base, *row)),
        Posted::Award(award) => awarded(base, *award),
    }
}

fn written(note: Note) -> CreatedNote {
    CreatedNote {
        id: note.id,
        r#type: Some(note.r#type).into(),
        body: Some(note.body),
        attachment: Some(note.attachment).into(),
        author: Some(note.author),
        name: None,
        user: None,
        created_at: note.created_at,
        updated_at: note.updated_at,
        system: Some(note.system),
        noteable_id: Some(note.noteable_id),
        noteable_type: Some(note.noteable_type),
        resolvable: Some(note.resolvable),
        confidential: Some(note.confidential),
        noteable_iid: Some(note.noteable_iid).into(),
        commands_changes: Some(note.commands_changes),
        awardable_id: None,
        awardable_type: None,
    }
}

fn awarded(base: &str, award: Award) -> CreatedNote {
    let Award { award, user } = award;
    let kinds = [
        (AwardableType::Issue, award.issue_id),
        (AwardableType::MergeRequest, award.merge_request_id),
        (AwardableType::Snippet, award.snippet_id),
        (AwardableType::Epic, award.epic_id),
        (AwardableType::Note, award.note_id),
    ];
    let to = kinds.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    CreatedNote {
        id: award.id,
        r#type: MaybeUndefined::Undefined,
        body: None,
        attachment: MaybeUndefined::Undefined,
        author: None,
        name: Some(award.name),
        user: Some(reference(base, &user)),
        created_at: award.created_at.into(),
        updated_at: award.updated_at.into(),
        system: None,
        noteable_id: None,
        noteable_type: None,
        resolvable: None,
        confidential: None,
        noteable_iid: MaybeUndefined::Undefined,
        commands_changes: None,
        awardable_id: to.as_ref().map(|(_, id)| *id),
        awardable_type: to.map(|(kind, _)| kind),
    }
}

/// What a note stands on: it is always one thing.
pub(super) fn noteable(note: &Model) -> (NoteableType, i64) {
    let kinds = [
        (NoteableType::Issue, note.issue_id),
        (NoteableType::MergeRequest, note.merge_request_id),
        (NoteableType::Snippet, note.snippet_id),
        (NoteableType::Epic, note.epic_id),
    ];
    let on = kinds.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    on.unwrap_or((NoteableType::Issue, 0))
}
