//! Award emoji.

use domain::discussion::award_emoji::{self, AwardableKey};
use domain::discussion::noteable::NoteableKey;
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::AwardEmojiApi;
use crate::app::App;
use crate::views::discussion::award_emoji::award_emoji;
use contract::{
    AwardEmoji, CreateEpicAwardEmojiRequest, CreateEpicNoteAwardEmojiRequest, CreateIssueAwardEmojiRequest,
    CreateIssueNoteAwardEmojiRequest, CreateMergeRequestAwardEmojiRequest,
    CreateMergeRequestNoteAwardEmojiRequest, CreateSnippetAwardEmojiRequest,
    CreateSnippetNoteAwardEmojiRequest, DeleteEpicAwardEmojiRequest, DeleteEpicNoteAwardEmojiRequest,
    DeleteIssueAwardEmojiRequest, DeleteIssueNoteAwardEmojiRequest, DeleteMergeRequestAwardEmojiRequest,
    DeleteMergeRequestNoteAwardEmojiRequest, DeleteSnippetAwardEmojiRequest,
    DeleteSnippetNoteAwardEmojiRequest, GetEpicAwardEmojiRequest, GetEpicNoteAwardEmojiRequest,
    GetIssueAwardEmojiRequest, GetIssueNoteAwardEmojiRequest, GetMergeRequestAwardEmojiRequest,
    GetMergeRequestNoteAwardEmojiRequest, GetSnippetAwardEmojiRequest, GetSnippetNoteAwardEmojiRequest,
    ListEpicAwardEmojiRequest, ListEpicNoteAwardEmojiRequest, ListIssueAwardEmojiRequest,
    ListIssueNoteAwardEmojiRequest, ListMergeRequestAwardEmojiRequest, ListMergeRequestNoteAwardEmojiRequest,
    ListSnippetAwardEmojiRequest, ListSnippetNoteAwardEmojiRequest,
};

/// Returns the key of a noteable, or of a note on it.
fn key(noteable: NoteableKey, note_id: Option<i64>) -> AwardableKey {
    AwardableKey { noteable, note_id }
}

impl App {
    async fn list_award_emoji(
        &self,
        space: impl Into<SpaceAccess>,
        key: AwardableKey,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let page = award_emoji::list(&self.backend, &space.into(), key, &page).await?;
        Ok(page.map(|detail| award_emoji(&self.backend.instance.base_url, detail)))
    }

    async fn create_award_emoji(
        &self,
        space: impl Into<SpaceAccess>,
        key: AwardableKey,
        name: &str,
    ) -> Result<AwardEmoji> {
        let detail = award_emoji::create(&self.backend, &space.into(), key, name).await?;
        Ok(award_emoji(&self.backend.instance.base_url, detail))
    }

    async fn get_award_emoji(
        &self,
        space: impl Into<SpaceAccess>,
        key: AwardableKey,
        id: i64,
    ) -> Result<AwardEmoji> {
        let detail = award_emoji::get(&self.backend, &space.into(), key, id).await?;
        Ok(award_emoji(&self.backend.instance.base_url, detail))
    }

    async fn delete_award_emoji(
        &self,
        space: impl Into<SpaceAccess>,
        key: AwardableKey,
        id: i64,
        unmodified_since: Option<String>,
    ) -> Result<()> {
        award_emoji::delete(&self.backend, &space.into(), key, id, unmodified_since.as_deref()).await
    }
}

impl AwardEmojiApi for App {
    async fn list_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListIssueAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::Issue(request.issue_iid), None);
        self.list_award_emoji(access, key, page).await
    }

    async fn create_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateIssueAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Issue(request.issue_iid), None);
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetIssueAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Issue(request.issue_iid), None);
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteIssueAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::Issue(request.issue_iid), None);
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListIssueNoteAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::Issue(request.issue_iid), Some(request.note_id));
        self.list_award_emoji(access, key, page).await
    }

    async fn create_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateIssueNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Issue(request.issue_iid), Some(request.note_id));
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetIssueNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Issue(request.issue_iid), Some(request.note_id));
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteIssueNoteAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::Issue(request.issue_iid), Some(request.note_id));
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_merge_request_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::MergeRequest(request.merge_request_iid), None);
        self.list_award_emoji(access, key, page).await
    }

    async fn create_merge_request_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::MergeRequest(request.merge_request_iid), None);
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_merge_request_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::MergeRequest(request.merge_request_iid), None);
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_merge_request_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteMergeRequestAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::MergeRequest(request.merge_request_iid), None);
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_merge_request_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListMergeRequestNoteAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(
            NoteableKey::MergeRequest(request.merge_request_iid),
            Some(request.note_id),
        );
        self.list_award_emoji(access, key, page).await
    }

    async fn create_merge_request_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(
            NoteableKey::MergeRequest(request.merge_request_iid),
            Some(request.note_id),
        );
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_merge_request_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetMergeRequestNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(
            NoteableKey::MergeRequest(request.merge_request_iid),
            Some(request.note_id),
        );
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_merge_request_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteMergeRequestNoteAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(
            NoteableKey::MergeRequest(request.merge_request_iid),
            Some(request.note_id),
        );
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_snippet_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListSnippetAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::Snippet(request.snippet_id), None);
        self.list_award_emoji(access, key, page).await
    }

    async fn create_snippet_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateSnippetAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Snippet(request.snippet_id), None);
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_snippet_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetSnippetAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Snippet(request.snippet_id), None);
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_snippet_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteSnippetAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::Snippet(request.snippet_id), None);
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_snippet_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListSnippetNoteAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::Snippet(request.snippet_id), Some(request.note_id));
        self.list_award_emoji(access, key, page).await
    }

    async fn create_snippet_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateSnippetNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Snippet(request.snippet_id), Some(request.note_id));
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_snippet_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetSnippetNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::Snippet(request.snippet_id), Some(request.note_id));
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_snippet_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteSnippetNoteAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::Snippet(request.snippet_id), Some(request.note_id));
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_epic_award_emoji(
        &self,
        access: GroupAccess,
        request: ListEpicAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), None);
        self.list_award_emoji(access, key, page).await
    }

    async fn create_epic_award_emoji(
        &self,
        access: GroupAccess,
        request: CreateEpicAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), None);
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_epic_award_emoji(
        &self,
        access: GroupAccess,
        request: GetEpicAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), None);
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_epic_award_emoji(
        &self,
        access: GroupAccess,
        request: DeleteEpicAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), None);
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }

    async fn list_epic_note_award_emoji(
        &self,
        access: GroupAccess,
        request: ListEpicNoteAwardEmojiRequest,
        page: PageRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), Some(request.note_id));
        self.list_award_emoji(access, key, page).await
    }

    async fn create_epic_note_award_emoji(
        &self,
        access: GroupAccess,
        request: CreateEpicNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), Some(request.note_id));
        self.create_award_emoji(access, key, &request.body.name).await
    }

    async fn get_epic_note_award_emoji(
        &self,
        access: GroupAccess,
        request: GetEpicNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), Some(request.note_id));
        self.get_award_emoji(access, key, request.award_id).await
    }

    async fn delete_epic_note_award_emoji(
        &self,
        access: GroupAccess,
        request: DeleteEpicNoteAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(NoteableKey::EpicIid(request.epic_iid), Some(request.note_id));
        self.delete_award_emoji(access, key, request.award_id, request.if_unmodified_since)
            .await
    }
}
