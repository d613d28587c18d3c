//! Single files of a repository.

use domain::code::commits::commit::AuthorOverride;
use domain::code::commits::content;
use domain::code::files::{self, FileChange, NewFileCommit};
use domain::identity::access::ProjectAccess;
use domain::kernel::download::Download;
use domain::kernel::error::Result;

use crate::api::download::disposition;
use crate::api::response::WithHeaders;
use crate::api::routes::RepositoryFilesApi;
use crate::app::App;
use crate::views::code::file as view;
use contract::{
    BlameRange, CreateFileRequest, DeleteFileRequest, FileCommit, FileEncoding, FileWriteResult,
    GetFileBlameMetadataRequest, GetFileBlameRequest, GetFileMetadataRequest, GetFileRequest,
    GetRawFileMetadataRequest, GetRawFileRequest, RepositoryFile, UpdateFileRequest,
};

impl App {
    /// Commits a change of one file.
    async fn commit_file(
        &self,
        access: &ProjectAccess,
        path: String,
        commit: FileCommit,
        author: AuthorOverride,
        change: FileChange,
    ) -> Result<FileWriteResult> {
        let branch = commit.branch.clone();
        let new = NewFileCommit {
            path,
            branch: commit.branch,
            start_branch: commit.start_branch,
            message: commit.commit_message,
            author,
            change,
        };
        let file_path = files::commit_change(&self.backend, access, new).await?;
        Ok(FileWriteResult { file_path, branch })
    }
}

impl RepositoryFilesApi for App {
    async fn get_file(
        &self,
        access: ProjectAccess,
        request: GetFileRequest,
    ) -> Result<WithHeaders<RepositoryFile>> {
        let file = files::get(&self.backend, &access, request.file_path, request.r#ref).await?;
        let content = files::content(&self.backend, &access, &file).await?;
        Ok(WithHeaders {
            headers: view::headers(&file),
            body: view::file(&file, &content),
        })
    }

    async fn get_file_metadata(
        &self,
        access: ProjectAccess,
        request: GetFileMetadataRequest,
    ) -> Result<WithHeaders<()>> {
        let file = files::get(&self.backend, &access, request.file_path, request.r#ref).await?;
        Ok(WithHeaders {
            headers: view::headers(&file),
            body: (),
        })
    }

    async fn create_file(
        &self,
        access: ProjectAccess,
        request: CreateFileRequest,
    ) -> Result<FileWriteResult> {
        let (path, body) = (request.file_path, request.body);
        let content = content::decode(body.content, body.encoding == Some(FileEncoding::Base64))?;
        let change = FileChange::Create { content };
        let author = AuthorOverride {
            name: body.author_name,
            email: body.author_email,
        };
        self.commit_file(&access, path, body.file_commit, author, change)
            .await
    }

    async fn update_file(
        &self,
        access: ProjectAccess,
        request: UpdateFileRequest,
    ) -> Result<FileWriteResult> {
        let (path, body) = (request.file_path, request.body);
        let change = FileChange::Update {
            content: content::decode(body.content, body.encoding == Some(FileEncoding::Base64))?,
            last_commit_id: body.last_commit_id,
        };
        let author = AuthorOverride {
            name: body.author_name,
            email: body.author_email,
        };
        self.commit_file(&access, path, body.file_commit, author, change)
            .await
    }

    async fn delete_file(&self, access: ProjectAccess, request: DeleteFileRequest) -> Result<()> {
        let (path, body) = (request.file_path, request.body);
        let change = FileChange::Delete {
            last_commit_id: body.last_commit_id,
        };
        let author = AuthorOverride {
            name: body.author_name,
            email: body.author_email,
        };
        self.commit_file(&access, path, body.file_commit, author, change)
            .await?;
        Ok(())
    }

    async fn get_file_blame(
        &self,
        access: ProjectAccess,
        request: GetFileBlameRequest,
    ) -> Result<WithHeaders<Vec<BlameRange>>> {
        let (file, ranges) = files::blame(&self.backend, &access, request.file_path, request.r#ref).await?;
        Ok(WithHeaders {
            headers: view::headers(&file),
            body: ranges.into_iter().map(view::blame).collect(),
        })
    }

    async fn get_file_blame_metadata(
        &self,
        access: ProjectAccess,
        request: GetFileBlameMetadataRequest,
    ) -> Result<WithHeaders<()>> {
        let file = files::get(&self.backend, &access, request.file_path, request.r#ref).await?;
        Ok(WithHeaders {
            headers: view::headers(&file),
            body: (),
        })
    }

    async fn get_raw_file(&self, access: ProjectAccess, request: GetRawFileRequest) -> Result<Download> {
        let file = files::get(&self.backend, &access, request.file_path, request.r#ref).await?;
        let (content, is_text) = files::open(&self.backend, &access, &file).await?;
        Ok(view::raw(&file, content, is_text))
    }

    async fn get_raw_file_metadata(
        &self,
        access: ProjectAccess,
        request: GetRawFileMetadataRequest,
    ) -> Result<WithHeaders<()>> {
        let file = files::get(&self.backend, &access, request.file_path, request.r#ref).await?;
        let mut headers = view::headers(&file);
        headers.push(("ETag", format!("\"{}\"", file.blob)));
        headers.push(("Accept-Ranges", "bytes".to_owned()));
        headers.push(("Content-Disposition", disposition(file.name(), false)));
        Ok(WithHeaders { headers, body: () })
    }
}
