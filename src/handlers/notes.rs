//! Notes.

use crate::api::contract::{
    CreateIssueNoteRequest, CreatedNote, DeleteIssueNoteRequest, GetIssueNoteRequest, ListIssueNotesRequest,
    Note, NoteOrder, NotesApi, SortDirection, UpdateIssueNoteRequest,
};
use crate::api::types::{Page, Timestamp};
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::notes::{self, Filter, Key, NewNote};
use crate::views::note::{created, note};

fn filter(order: Option<NoteOrder>, direction: Option<SortDirection>) -> Filter {
    Filter {
        by_change: order == Some(NoteOrder::UpdatedAt),
        ascending: direction == Some(SortDirection::Asc),
    }
}

impl NotesApi for App {
    async fn list_issue_notes(
        &self,
        access: ProjectAccess,
        request: ListIssueNotesRequest,
    ) -> Result<Page<Note>> {
        let key = Key::Issue(request.issue_iid);
        let filter = filter(request.order_by, request.sort);
        let page = notes::list(&self.backend, &access, key, filter, &request.page).await?;
        Ok(page.map(|row| note(&self.backend.instance.base_url, row)))
    }

    async fn create_issue_note(
        &self,
        access: ProjectAccess,
        request: CreateIssueNoteRequest,
    ) -> Result<CreatedNote> {
        let new = NewNote {
            body: request.body.body,
            confidential: request.body.confidential,
            created_at: request.body.created_at.map(Timestamp::to_utc),
        };
        let posted = notes::create(&self.backend, &access, Key::Issue(request.issue_iid), new).await?;
        Ok(created(&self.backend.instance.base_url, posted))
    }

    async fn get_issue_note(&self, access: ProjectAccess, request: GetIssueNoteRequest) -> Result<Note> {
        let key = Key::Issue(request.issue_iid);
        let row = notes::read(&self.backend, &access, key, request.note_id).await?;
        Ok(note(&self.backend.instance.base_url, row))
    }

    async fn update_issue_note(
        &self,
        access: ProjectAccess,
        request: UpdateIssueNoteRequest,
    ) -> Result<Note> {
        let key = Key::Issue(request.issue_iid);
        let row = notes::edit(&self.backend, &access, key, request.note_id, request.body.body).await?;
        Ok(note(&self.backend.instance.base_url, row))
    }

    async fn delete_issue_note(&self, access: ProjectAccess, request: DeleteIssueNoteRequest) -> Result<()> {
        let key = Key::Issue(request.issue_iid);
        let unmodified_since = request.if_unmodified_since.as_deref();
        notes::delete(&self.backend, &access, key, request.note_id, unmodified_since).await
    }
}
