//! Emoji that users award.

use crate::api::contract::{
    AwardEmoji, AwardEmojiApi, CreateIssueAwardEmojiRequest, CreateIssueNoteAwardEmojiRequest,
    DeleteIssueAwardEmojiRequest, DeleteIssueNoteAwardEmojiRequest, GetIssueAwardEmojiRequest,
    GetIssueNoteAwardEmojiRequest, ListIssueAwardEmojiRequest, ListIssueNoteAwardEmojiRequest,
};
use crate::api::types::Page;
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::award_emoji::{self, Award, Key};
use crate::services::notes;
use crate::views::award_emoji::award;

/// The issue with this number, or a note on it.
fn key(issue_iid: i64, note: Option<i64>) -> Key {
    Key {
        on: notes::Key::Issue(issue_iid),
        note,
    }
}

impl App {
    fn award(&self, given: Award) -> AwardEmoji {
        award(&self.backend.instance.base_url, given)
    }
}

impl AwardEmojiApi for App {
    async fn list_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListIssueAwardEmojiRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(request.issue_iid, None);
        let page = award_emoji::list(&self.backend, &access, key, &request.page).await?;
        Ok(page.map(|given| self.award(given)))
    }

    async fn create_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateIssueAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(request.issue_iid, None);
        let given = award_emoji::create(&self.backend, &access, key, &request.body.name).await?;
        Ok(self.award(given))
    }

    async fn get_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetIssueAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(request.issue_iid, None);
        let given = award_emoji::read(&self.backend, &access, key, request.award_id).await?;
        Ok(self.award(given))
    }

    async fn delete_issue_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteIssueAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(request.issue_iid, None);
        let unmodified_since = request.if_unmodified_since.as_deref();
        award_emoji::delete(&self.backend, &access, key, request.award_id, unmodified_since).await
    }

    async fn list_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: ListIssueNoteAwardEmojiRequest,
    ) -> Result<Page<AwardEmoji>> {
        let key = key(request.issue_iid, Some(request.note_id));
        let page = award_emoji::list(&self.backend, &access, key, &request.page).await?;
        Ok(page.map(|given| self.award(given)))
    }

    async fn create_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: CreateIssueNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(request.issue_iid, Some(request.note_id));
        let given = award_emoji::create(&self.backend, &access, key, &request.body.name).await?;
        Ok(self.award(given))
    }

    async fn get_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: GetIssueNoteAwardEmojiRequest,
    ) -> Result<AwardEmoji> {
        let key = key(request.issue_iid, Some(request.note_id));
        let given = award_emoji::read(&self.backend, &access, key, request.award_id).await?;
        Ok(self.award(given))
    }

    async fn delete_issue_note_award_emoji(
        &self,
        access: ProjectAccess,
        request: DeleteIssueNoteAwardEmojiRequest,
    ) -> Result<()> {
        let key = key(request.issue_iid, Some(request.note_id));
        let unmodified_since = request.if_unmodified_since.as_deref();
        award_emoji::delete(&self.backend, &access, key, request.award_id, unmodified_since).await
    }
}
