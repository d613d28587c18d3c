//! Files of a repository, one at a time.

use crate::api::contract::{
    BlameRange, CreateFileRequest, DeleteFileRequest, FileEncoding, FileWriteResult,
    GetFileBlameMetadataRequest, GetFileBlameRequest, GetFileMetadataRequest, GetFileRequest,
    GetRawFileMetadataRequest, GetRawFileRequest, RepositoryFile, RepositoryFilesApi, UpdateFileRequest,
};
use crate::api::download::disposition;
use crate::api::types::{Download, WithHeaders};
use crate::app::App;
use crate::error::Result;
use crate::services::access::ProjectAccess;
use crate::services::commits::committing::AuthorOverride;
use crate::services::commits::content;
use crate::services::files::{self, Change, Write};
use crate::views::file as view;

impl RepositoryFilesApi for App {
    async fn get_file(
        &self,
        access: ProjectAccess,
        request: GetFileRequest,
    ) -> Result<WithHeaders<RepositoryFile>> {
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
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
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
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
        let body = request.body;
        let result = FileWriteResult {
            file_path: request.file_path.clone(),
            branch: body.branch.clone(),
        };
        let write = Write {
            path: request.file_path,
            branch: body.branch,
            start_branch: body.start_branch,
            message: body.commit_message,
            author: AuthorOverride {
                name: body.author_name,
                email: body.author_email,
            },
            change: Change::Create {
                content: content::decode(body.content, body.encoding == Some(FileEncoding::Base64))?,
            },
        };
        files::write(&self.backend, &access, write).await?;
        Ok(result)
    }

    async fn update_file(
        &self,
        access: ProjectAccess,
        request: UpdateFileRequest,
    ) -> Result<FileWriteResult> {
        let body = request.body;
        let result = FileWriteResult {
            file_path: request.file_path.clone(),
            branch: body.branch.clone(),
        };
        let write = Write {
            path: request.file_path,
            branch: body.branch,
            start_branch: body.start_branch,
            message: body.commit_message,
            author: AuthorOverride {
                name: body.author_name,
                email: body.author_email,
            },
            change: Change::Update {
                content: content::decode(body.content, body.encoding == Some(FileEncoding::Base64))?,
                last_commit_id: body.last_commit_id,
            },
        };
        files::write(&self.backend, &access, write).await?;
        Ok(result)
    }

    async fn delete_file(&self, access: ProjectAccess, request: DeleteFileRequest) -> Result<()> {
        let body = request.body;
        let write = Write {
            path: request.file_path,
            branch: body.branch,
            start_branch: body.start_branch,
            message: body.commit_message,
            author: AuthorOverride {
                name: body.author_name,
                email: body.author_email,
            },
            change: Change::Delete {
                last_commit_id: body.last_commit_id,
            },
        };
        files::write(&self.backend, &access, write).await
    }

    async fn get_file_blame(
        &self,
        access: ProjectAccess,
        request: GetFileBlameRequest,
    ) -> Result<WithHeaders<Vec<BlameRange>>> {
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
        let ranges = files::blame(&self.backend, &access, &file).await?;
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
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
        Ok(WithHeaders {
            headers: view::headers(&file),
            body: (),
        })
    }

    async fn get_raw_file(&self, access: ProjectAccess, request: GetRawFileRequest) -> Result<Download> {
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
        let (content, is_text) = files::open(&self.backend, &access, &file).await?;
        let content_type = if is_text {
            "text/plain"
        } else {
            "application/octet-stream"
        };
        Ok(Download {
            content_type: content_type.to_owned(),
            file_name: file.name().to_owned(),
            attachment: false,
            etag: Some(file.blob.to_string()),
            headers: view::headers(&file),
            content,
        })
    }

    async fn get_raw_file_metadata(
        &self,
        access: ProjectAccess,
        request: GetRawFileMetadataRequest,
    ) -> Result<WithHeaders<()>> {
        let file = files::find(&self.backend, &access, request.file_path, request.r#ref).await?;
        let mut headers = view::headers(&file);
        headers.push(("ETag", format!("\"{}\"", file.blob)));
        headers.push(("Accept-Ranges", "bytes".to_owned()));
        headers.push(("Content-Disposition", disposition(file.name(), false)));
        Ok(WithHeaders { headers, body: () })
    }
}
