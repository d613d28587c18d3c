//! Notes.

use domain::discussion::noteable::NoteableKey;
use domain::discussion::notes::{self, NewNote, NoteSort};
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::NotesApi;
use crate::app::App;
use crate::views::discussion::note::{created, in_detail, note};
use contract::timestamp::Timestamp;
use contract::{
    CreateEpicNoteRequest, CreateIssueNoteRequest, CreateMergeRequestNoteRequest, CreateSnippetNoteRequest,
    CreatedNote, DeleteEpicNoteRequest, DeleteIssueNoteRequest, DeleteMergeRequestNoteRequest,
    DeleteSnippetNoteRequest, GetEpicNoteRequest, GetIssueNoteRequest, GetMergeRequestNoteRequest,
    GetSnippetNoteRequest, ListEpicNotesRequest, ListIssueNotesRequest, ListMergeRequestNotesRequest,
    ListSnippetNotesRequest, Note, NoteInDetail, NoteOrder, SortDirection, UpdateEpicNoteRequest,
    UpdateIssueNoteRequest, UpdateMergeRequestNoteRequest, UpdateSnippetNoteRequest,
};

fn note_sort(order: Option<NoteOrder>, direction: Option<SortDirection>) -> NoteSort {
    NoteSort {
        by_update: order == Some(NoteOrder::UpdatedAt),
        ascending: direction == Some(SortDirection::Asc),
    }
}

impl App {
    async fn list_notes(
        &self,
        space: impl Into<SpaceAccess>,
        key: NoteableKey,
        sort: NoteSort,
        page: PageRequest,
    ) -> Result<Page<Note>> {
        let page = notes::list(&self.backend, &space.into(), key, sort, &page).await?;
        Ok(page.map(|detail| note(&self.backend.instance.base_url, detail)))
    }

    async fn create_note(
        &self,
        space: impl Into<SpaceAccess>,
        key: NoteableKey,
        new: NewNote,
    ) -> Result<CreatedNote> {
        let result = notes::create(&self.backend, &space.into(), key, new).await?;
        Ok(created(&self.backend.instance.base_url, result))
    }

    async fn get_note(&self, space: impl Into<SpaceAccess>, key: NoteableKey, id: i64) -> Result<Note> {
        let detail = notes::get(&self.backend, &space.into(), key, id).await?;
        Ok(note(&self.backend.instance.base_url, detail))
    }

    async fn get_note_in_detail(
        &self,
        space: impl Into<SpaceAccess>,
        key: NoteableKey,
        id: i64,
    ) -> Result<NoteInDetail> {
        let (detail, noteable) = notes::get_with_noteable(&self.backend, &space.into(), key, id).await?;
        Ok(in_detail(&self.backend.instance.base_url, detail, &noteable))
    }

    async fn update_note(
        &self,
        space: impl Into<SpaceAccess>,
        key: NoteableKey,
        id: i64,
        body: String,
    ) -> Result<Note> {
        let detail = notes::update(&self.backend, &space.into(), key, id, body).await?;
        Ok(note(&self.backend.instance.base_url, detail))
    }

    async fn delete_note(
        &self,
        space: impl Into<SpaceAccess>,
        key: NoteableKey,
        id: i64,
        unmodified_since: Option<String>,
    ) -> Result<()> {
        notes::delete(&self.backend, &space.into(), key, id, unmodified_since.as_deref()).await
    }
}

impl NotesApi for App {
    async fn list_issue_notes(
        &self,
        access: ProjectAccess,
        request: ListIssueNotesRequest,
        page: PageRequest,
    ) -> Result<Page<Note>> {
        let sort = note_sort(request.order_by, request.sort);
        self.list_notes(access, NoteableKey::Issue(request.issue_iid), sort, page)
            .await
    }

    async fn create_issue_note(
        &self,
        access: ProjectAccess,
        request: CreateIssueNoteRequest,
    ) -> Result<CreatedNote> {
        let body = request.body;
        let new = NewNote {
            body: body.body,
            confidential: body.confidential || body.internal,
            created_at: body.created_at.map(Timestamp::to_utc),
        };
        self.create_note(access, NoteableKey::Issue(request.issue_iid), new)
            .await
    }

    async fn get_issue_note(&self, access: ProjectAccess, request: GetIssueNoteRequest) -> Result<Note> {
        self.get_note(access, NoteableKey::Issue(request.issue_iid), request.note_id)
            .await
    }

    async fn update_issue_note(
        &self,
        access: ProjectAccess,
        request: UpdateIssueNoteRequest,
    ) -> Result<Note> {
        self.update_note(
            access,
            NoteableKey::Issue(request.issue_iid),
            request.note_id,
            request.body.body,
        )
        .await
    }

    async fn delete_issue_note(&self, access: ProjectAccess, request: DeleteIssueNoteRequest) -> Result<()> {
        self.delete_note(
            access,
            NoteableKey::Issue(request.issue_iid),
            request.note_id,
            request.if_unmodified_since,
        )
        .await
    }

    async fn list_merge_request_notes(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestNotesRequest,
        page: PageRequest,
    ) -> Result<Page<Note>> {
        let sort = note_sort(request.order_by, request.sort);
        self.list_notes(
            access,
            NoteableKey::MergeRequest(request.merge_request_iid),
            sort,
            page,
        )
        .await
    }

    async fn create_merge_request_note(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestNoteRequest,
    ) -> Result<CreatedNote> {
        let body = request.body;
        let new = NewNote {
            body: body.body,
            confidential: body.confidential || body.internal,
            created_at: body.created_at.map(Timestamp::to_utc),
        };
        self.create_note(access, NoteableKey::MergeRequest(request.merge_request_iid), new)
            .await
    }

    async fn get_merge_request_note(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestNoteRequest,
    ) -> Result<Note> {
        self.get_note(
            access,
            NoteableKey::MergeRequest(request.merge_request_iid),
            request.note_id,
        )
        .await
    }

    async fn update_merge_request_note(
        &self,
        access: ProjectAccess,
        request: UpdateMergeRequestNoteRequest,
    ) -> Result<Note> {
        self.update_note(
            access,
            NoteableKey::MergeRequest(request.merge_request_iid),
            request.note_id,
            request.body.body,
        )
        .await
    }

    async fn delete_merge_request_note(
        &self,
        access: ProjectAccess,
        request: DeleteMergeRequestNoteRequest,
    ) -> Result<()> {
        self.delete_note(
            access,
            NoteableKey::MergeRequest(request.merge_request_iid),
            request.note_id,
            request.if_unmodified_since,
        )
        .await
    }

    async fn list_snippet_notes(
        &self,
        access: ProjectAccess,
        request: ListSnippetNotesRequest,
        page: PageRequest,
    ) -> Result<Page<Note>> {
        let sort = note_sort(request.order_by, request.sort);
        self.list_notes(access, NoteableKey::Snippet(request.snippet_id), sort, page)
            .await
    }

    async fn create_snippet_note(
        &self,
        access: ProjectAccess,
        request: CreateSnippetNoteRequest,
    ) -> Result<CreatedNote> {
        let body = request.body;
        let new = NewNote {
            body: body.body,
            confidential: body.confidential || body.internal,
            created_at: body.created_at.map(Timestamp::to_utc),
        };
        self.create_note(access, NoteableKey::Snippet(request.snippet_id), new)
            .await
    }

    async fn get_snippet_note(
        &self,
        access: ProjectAccess,
        request: GetSnippetNoteRequest,
    ) -> Result<NoteInDetail> {
        self.get_note_in_detail(access, NoteableKey::Snippet(request.snippet_id), request.note_id)
            .await
    }

    async fn update_snippet_note(
        &self,
        access: ProjectAccess,
        request: UpdateSnippetNoteRequest,
    ) -> Result<Note> {
        self.update_note(
            access,
            NoteableKey::Snippet(request.snippet_id),
            request.note_id,
            request.body.body,
        )
        .await
    }

    async fn delete_snippet_note(
        &self,
        access: ProjectAccess,
        request: DeleteSnippetNoteRequest,
    ) -> Result<()> {
        self.delete_note(
            access,
            NoteableKey::Snippet(request.snippet_id),
            request.note_id,
            request.if_unmodified_since,
        )
        .await
    }

    async fn list_epic_notes(
        &self,
        access: GroupAccess,
        request: ListEpicNotesRequest,
        page: PageRequest,
    ) -> Result<Page<Note>> {
        let sort = note_sort(request.order_by, request.sort);
        self.list_notes(access, NoteableKey::Epic(request.epic_id), sort, page)
            .await
    }

    async fn create_epic_note(
        &self,
        access: GroupAccess,
        request: CreateEpicNoteRequest,
    ) -> Result<CreatedNote> {
        let new = NewNote {
            body: request.body.body,
            confidential: request.body.confidential || request.body.internal,
            created_at: None,
        };
        self.create_note(access, NoteableKey::Epic(request.epic_id), new)
            .await
    }

    async fn get_epic_note(&self, access: GroupAccess, request: GetEpicNoteRequest) -> Result<NoteInDetail> {
        self.get_note_in_detail(access, NoteableKey::Epic(request.epic_id), request.note_id)
            .await
    }

    async fn update_epic_note(&self, access: GroupAccess, request: UpdateEpicNoteRequest) -> Result<Note> {
        let (key, body) = (NoteableKey::Epic(request.epic_id), request.body.body);
        self.update_note(access, key, request.note_id, body).await
    }

    async fn delete_epic_note(&self, access: GroupAccess, request: DeleteEpicNoteRequest) -> Result<()> {
        let condition = request.if_unmodified_since;
        self.delete_note(
            access,
            NoteableKey::Epic(request.epic_id),
            request.note_id,
            condition,
        )
        .await
    }
}
