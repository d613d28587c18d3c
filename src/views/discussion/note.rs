//! Notes.

use domain::discussion::noteable::Noteable;
use domain::discussion::notes::{NoteDetail, NoteOrAwardEmoji};
use storage::entities::notes::{Model, NoteKind};

use crate::views::accounts::users::author;
use crate::views::discussion::award_emoji::award_emoji;
use contract::MaybeUndefined;
use contract::map::Map;
use contract::{AwardEmoji, CreatedNote, Note, NoteInDetail, NoteType, NoteableType};

/// Returns a note in the format of the contract.
#[must_use]
pub fn note(base: &str, detail: NoteDetail) -> Note {
    let NoteDetail {
        note,
        author: user,
        iid,
    } = detail;
    let (noteable_type, noteable_id) = noteable(&note);
    Note {
        id: note.id,
        r#type: note.kind.map(|kind| match kind {
            NoteKind::Diff => NoteType::DiffNote,
            NoteKind::Discussion => NoteType::DiscussionNote,
        }),
        author: author(base, user, note.created_at),
        attachment: None,
        created_at: note.created_at.into(),
        updated_at: note.updated_at.into(),
        system: note.system,
        noteable_id,
        noteable_type,
        resolvable: note.kind.is_some(),
        confidential: note.confidential,
        internal: note.confidential,
        noteable_iid: iid,
        commands_changes: Map::default(),
        body: note.body,
    }
}

/// Returns a note with details of its noteable.
#[must_use]
pub fn in_detail(base: &str, detail: NoteDetail, noteable: &Noteable) -> NoteInDetail {
    let note = note(base, detail);
    NoteInDetail {
        id: note.id,
        r#type: note.r#type,
        title: noteable.title().to_owned(),
        file_name: noteable.file_name().map(str::to_owned),
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
        internal: note.internal,
        noteable_iid: note.noteable_iid,
        commands_changes: note.commands_changes,
    }
}

/// Returns the result of the creation of a note.
#[must_use]
pub fn created(base: &str, created: NoteOrAwardEmoji) -> CreatedNote {
    match created {
        NoteOrAwardEmoji::Note(detail) => created_note(note(base, *detail)),
        NoteOrAwardEmoji::AwardEmoji(detail) => created_award_emoji(award_emoji(base, *detail)),
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
        internal: Some(note.internal),
        noteable_iid: Some(note.noteable_iid).into(),
        commands_changes: Some(note.commands_changes),
        awardable_id: None,
        awardable_type: None,
    }
}

fn created_award_emoji(award_emoji: AwardEmoji) -> CreatedNote {
    CreatedNote {
        id: award_emoji.id,
        r#type: MaybeUndefined::Undefined,
        body: None,
        attachment: MaybeUndefined::Undefined,
        author: None,
        name: Some(award_emoji.name),
        user: Some(award_emoji.user),
        created_at: award_emoji.created_at,
        updated_at: award_emoji.updated_at,
        system: None,
        noteable_id: None,
        noteable_type: None,
        resolvable: None,
        confidential: None,
        internal: None,
        noteable_iid: MaybeUndefined::Undefined,
        commands_changes: None,
        awardable_id: Some(award_emoji.awardable_id),
        awardable_type: Some(award_emoji.awardable_type),
    }
}

/// Returns the type and ID of the noteable. Exactly one of the columns has a value.
pub(crate) fn noteable(note: &Model) -> (NoteableType, i64) {
    let columns = [
        (NoteableType::Issue, note.issue_id),
        (NoteableType::MergeRequest, note.merge_request_id),
        (NoteableType::Snippet, note.snippet_id),
        (NoteableType::Epic, note.epic_id),
    ];
    let noteable = columns.into_iter().find_map(|(kind, id)| Some((kind, id?)));
    noteable.unwrap_or((NoteableType::Issue, 0))
}
