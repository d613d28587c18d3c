//! Notes.

use domain::discussion::noteable::Noteable;
use domain::discussion::notes::{Posted, Row};
use storage::entities::notes::{Model, NoteKind};

use crate::views::accounts::users::author;
use crate::views::discussion::award_emoji::award;
use contract::MaybeUndefined;
use contract::map::Map;
use contract::{AwardEmoji, CreatedNote, Note, NoteInDetail, NoteType, NoteableType};

/// Returns a note in the format of the contract.
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
            NoteKind::Diff => NoteType::DiffNote,
            NoteKind::Discussion => NoteType::DiscussionNote,
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

/// Returns a note with details of its noteable.
#[must_use]
pub fn in_detail(base: &str, row: Row, on: &Noteable) -> NoteInDetail {
    let note = note(base, row);
    NoteInDetail {
        id: note.id,
        r#type: note.r#type,
        title: on.title().to_owned(),
        file_name: on.file_name().map(str::to_owned),
        expires_at: None,
        body: note.body,
        attachment: note.attachment,
        author: note.author,
        created_at: note.created_at,
        updated_at: note.updated_at,
        system: note.system,
        noteable_id: note.noteable_id,
        noteable_type: note.noteable_type,
        resolvable: note.resolvable,
        confidential: note.confidential,
        noteable_iid: note.noteable_iid,
        commands_changes: note.commands_changes,
    }
}

/// Returns the result of a posted note.
#[must_use]
pub fn created(base: &str, posted: Posted) -> CreatedNote {
    match posted {
        Posted::Note(row) => created_note(note(base, *row)),
        Posted::Award(given) => created_award(award(base, *given)),
    }
}

fn created_note(note: Note) -> CreatedNote {
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

fn created_award(award: AwardEmoji) -> CreatedNote {
    CreatedNote {
        id: award.id,
        r#type: MaybeUndefined::Undefined,
        body: None,
        attachment: MaybeUndefined::Undefined,
        author: None,
        name: Some(award.name),
        user: Some(award.user),
        created_at: award.created_at,
        updated_at: award.updated_at,
        system: None,
        noteable_id: None,
        noteable_type: None,
        resolvable: None,
        confidential: None,
        noteable_iid: MaybeUndefined::Undefined,
        commands_changes: None,
        awardable_id: Some(award.awardable_id),
        awardable_type: Some(award.awardable_type),
    }
}

/// Returns the noteable, which is exactly one of the columns.
pub(crate) fn noteable(note: &Model) -> (NoteableType, i64) {
    let kinds = [
        (NoteableType::Issue, note.issue_id),
        (NoteableType::MergeRequest, note.merge_request_id),
        (NoteableType::Snippet, note.snippet_id),
        (NoteableType::Epic, note.epic_id),
    ];
    let on = kinds.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    on.unwrap_or((NoteableType::Issue, 0))
}
