//! Commits of a repository.

use domain::code::commits::cherry_pick::{self, ApplyMode};
use domain::code::commits::comments::{self, LineType, NewComment};
use domain::code::commits::commit::AuthorOverride;
use domain::code::commits::content;
use domain::code::commits::create::{self, FileActionKind, NewCommit, NewFileAction};
use domain::code::commits::listing::{self, CommitDetail, CommitFilter, RefKind};
use domain::code::commits::signature;
use domain::code::commits::start_point::StartPoint;
use domain::delivery::pipelines;
use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};
use domain::review::merge_requests;

use crate::api::routes::CommitsApi;
use crate::app::App;
use crate::views::code::commit as view;
use crate::views::review::merge_request::state_filter;
use contract::MaybeUndefined;
use contract::{
    CherryPickCommitRequest, Commit, CommitAction, CommitActionKind, CommitComment, CommitOrder, CommitRef,
    CommitRefFilter, CommitSequence, CommitSignature, CreateCommitCommentRequest, CreateCommitRequest, Diff,
    DiffLineType, FileEncoding, GetCommitRequest, GetCommitSequenceRequest, GetCommitSignatureRequest,
    ListCommitCommentsRequest, ListCommitDiffsRequest, ListCommitMergeRequestsRequest, ListCommitRefsRequest,
    ListCommitsRequest, MergeRequest, RevertCommitRequest,
};

impl CommitsApi for App {
    async fn list_commits(
        &self,
        access: ProjectAccess,
        request: ListCommitsRequest,
        page: PageRequest,
    ) -> Result<Page<Commit>> {
        let filter = CommitFilter {
            revision: request.ref_name,
            since: request.since.map(|time| time.to_utc()),
            until: request.until.map(|time| time.to_utc()),
            path: request.path,
            all: request.all,
            first_parent: request.first_parent,
            order: match request.order {
                Some(CommitOrder::Topo) => listing::CommitOrder::Topo,
                Some(CommitOrder::Default) | None => listing::CommitOrder::Default,
            },
            with_stats: request.with_stats,
        };
        let page = listing::list(&self.backend, &access, filter, &page).await?;
        let shas = page.items.iter().map(|detail| detail.commit.id.to_string());
        let last = pipelines::newest_of_commits(&self.backend, &access, shas.collect()).await?;
        let url = self.project_url(&access);
        Ok(page.map(|detail| {
            let sha = detail.commit.id.to_string();
            let last = last.iter().find(|pipeline| pipeline.sha == sha);
            view::with_status(detail, last, &url)
        }))
    }

    async fn create_commit(&self, access: ProjectAccess, request: CreateCommitRequest) -> Result<Commit> {
        let body = request.body;
        let new = NewCommit {
            branch: body.branch,
            message: body.commit_message,
            start: StartPoint {
                branch: body.start_branch,
                sha: body.start_sha,
                project: body.start_project,
            },
            force: body.force,
            author: AuthorOverride {
                name: body.author_name,
                email: body.author_email,
            },
            actions: body.actions.into_iter().map(action).collect::<Result<_>>()?,
            with_stats: body.stats,
        };
        let detail = create::create(&self.backend, &access, new).await?;
        self.commit(&access, detail).await
    }

    async fn get_commit(&self, access: ProjectAccess, request: GetCommitRequest) -> Result<Commit> {
        let detail = listing::get(&self.backend, &access, &request.sha, request.stats).await?;
        self.commit(&access, detail).await
    }

    async fn list_commit_refs(
        &self,
        access: ProjectAccess,
        request: ListCommitRefsRequest,
        page: PageRequest,
    ) -> Result<Page<CommitRef>> {
        let filter = match request.r#type {
            Some(CommitRefFilter::Branch) => Some(RefKind::Branch),
            Some(CommitRefFilter::Tag) => Some(RefKind::Tag),
            Some(CommitRefFilter::All) | None => None,
        };
        let page = listing::list_refs(&self.backend, &access, &request.sha, filter, &page).await?;
        Ok(page.map(view::reference))
    }

    async fn list_commit_merge_requests(
        &self,
        access: ProjectAccess,
        request: ListCommitMergeRequestsRequest,
        page: PageRequest,
    ) -> Result<Page<MergeRequest>> {
        let state = request.state.and_then(state_filter);
        let page = merge_requests::list_by_commit(&self.backend, &access, &request.sha, state, &page).await?;
        Ok(page.map(|detail| self.merge_request(detail, &access)))
    }

    async fn get_commit_sequence(
        &self,
        access: ProjectAccess,
        request: GetCommitSequenceRequest,
    ) -> Result<CommitSequence> {
        let count = listing::sequence(&self.backend, &access, &request.sha, request.first_parent).await?;
        Ok(view::sequence(count))
    }

    async fn get_commit_signature(
        &self,
        access: ProjectAccess,
        request: GetCommitSignatureRequest,
    ) -> Result<CommitSignature> {
        let found = signature::get_signature(&self.backend, &access, &request.sha).await?;
        Ok(view::signature(found))
    }

    async fn cherry_pick_commit(
        &self,
        access: ProjectAccess,
        request: CherryPickCommitRequest,
    ) -> Result<Commit> {
        self.apply_commit(&access, &request.sha, &request.body.branch, ApplyMode::CherryPick)
            .await
    }

    async fn revert_commit(&self, access: ProjectAccess, request: RevertCommitRequest) -> Result<Commit> {
        self.apply_commit(&access, &request.sha, &request.body.branch, ApplyMode::Revert)
            .await
    }

    async fn list_commit_diffs(
        &self,
        access: ProjectAccess,
        request: ListCommitDiffsRequest,
        page: PageRequest,
    ) -> Result<Page<Diff>> {
        let page = listing::list_diffs(&self.backend, &access, &request.sha, &page).await?;
        Ok(page.map(view::diff))
    }

    async fn list_commit_comments(
        &self,
        access: ProjectAccess,
        request: ListCommitCommentsRequest,
        page: PageRequest,
    ) -> Result<Page<CommitComment>> {
        let page = comments::list(&self.backend, &access, &request.sha, &page).await?;
        Ok(page.map(|comment| view::comment(comment, &self.backend.instance.base_url)))
    }

    async fn create_commit_comment(
        &self,
        access: ProjectAccess,
        request: CreateCommitCommentRequest,
    ) -> Result<CommitComment> {
        let body = request.body;
        let new = NewComment {
            note: body.note,
            path: body.path,
            line: body.line,
            side: body.line_type.map(|side| match side {
                DiffLineType::New => LineType::New,
                DiffLineType::Old => LineType::Old,
            }),
        };
        let comment = comments::create(&self.backend, &access, &request.sha, new).await?;
        Ok(view::comment(comment, &self.backend.instance.base_url))
    }
}

impl App {
    pub(crate) fn project_url(&self, access: &ProjectAccess) -> String {
        view::project_url(&self.backend.instance.base_url, access)
    }

    /// Returns a commit with details.
    async fn commit(&self, access: &ProjectAccess, detail: CommitDetail) -> Result<Commit> {
        let sha = detail.commit.id.to_string();
        let last = pipelines::newest_of_commit(&self.backend, access, &sha).await?;
        let path = self.path_of(access);
        Ok(view::detail(
            detail,
            last.as_ref(),
            access.project.id,
            self.at(&path),
        ))
    }

    async fn apply_commit(
        &self,
        access: &ProjectAccess,
        revision: &str,
        branch: &str,
        mode: ApplyMode,
    ) -> Result<Commit> {
        let detail = cherry_pick::apply_commit(&self.backend, access, revision, branch, mode).await?;
        // A new commit has no pipeline.
        Ok(view::with_status(detail, None, &self.project_url(access)))
    }
}

fn action(action: CommitAction) -> Result<NewFileAction> {
    let base64 = action.encoding == Some(FileEncoding::Base64);
    let kind = match action.action {
        CommitActionKind::Create => FileActionKind::Create,
        CommitActionKind::Update => FileActionKind::Update,
        CommitActionKind::Move => FileActionKind::Move,
        CommitActionKind::Delete => FileActionKind::Delete,
        CommitActionKind::Chmod => FileActionKind::Chmod,
    };
    let content = match action.content {
        MaybeUndefined::Value(text) => Some(content::decode(text, base64)?),
        MaybeUndefined::Null | MaybeUndefined::Undefined => None,
    };
    Ok(NewFileAction {
        kind,
        path: action.file_path,
        previous_path: action.previous_path,
        content,
        last_commit_id: action.last_commit_id,
        executable: action.execute_filemode,
    })
}
