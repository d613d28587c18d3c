//! Personal snippets.

use domain::code::snippets::{self, Change, FileAction, FileChange, Home, NewFile, NewSnippet, Row};
use domain::identity::access::InstanceAccess;
use domain::kernel::download::{Download, DownloadContent};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::SnippetsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::code::snippet::snippet;
use crate::views::enums::Convert;
use contract::{
    CreateSnippetRequest, DeleteSnippetRequest, GetRawSnippetRequest, GetSnippetRequest, Snippet,
    SnippetFileAction, SnippetFileCreate, SnippetFileUpdate, SnippetUpdate, UpdateSnippetRequest,
};

/// Converts an update of a project snippet or personal snippet.
pub(crate) fn change(body: SnippetUpdate) -> Change {
    Change {
        title: body.title,
        file_name: body.file_name,
        content: body.content,
        files: body.files.into_iter().flatten().map(file_change).collect(),
        description: body.description.into_patch(),
        visibility: body.visibility.map(Convert::convert),
    }
}

fn file_change(file: SnippetFileUpdate) -> FileChange {
    FileChange {
        action: match file.action {
            SnippetFileAction::Update => FileAction::Update,
            SnippetFileAction::Move => FileAction::Move,
            SnippetFileAction::Create => FileAction::Create,
            SnippetFileAction::Delete => FileAction::Delete,
        },
        name: file.file_path,
        previous: file.previous_path,
        content: file.content,
    }
}

/// Returns the files of a new snippet, given in one of two ways; the contract allows only one of them.
pub(crate) fn files(
    name: Option<String>,
    content: Option<String>,
    files: Option<Vec<SnippetFileCreate>>,
) -> Vec<NewFile> {
    let alone = name.zip(content).map(|(name, content)| NewFile { name, content });
    let listed = files.into_iter().flatten().map(|file| NewFile {
        name: file.file_path,
        content: file.content,
    });
    alone.into_iter().chain(listed).collect()
}

impl App {
    /// Returns a snippet in the format of the contract.
    pub(crate) fn snippet(&self, row: Row) -> Snippet {
        snippet(&self.backend.instance.base_url, row)
    }

    /// Returns the content of a snippet as a download.
    pub(crate) async fn raw_snippet(&self, home: Home<'_>, id: i64) -> Result<Download> {
        let raw = snippets::content(&self.backend, home, id).await?;
        Ok(Download {
            content_type: "text/plain; charset=utf-8".to_owned(),
            file_name: raw.file_name,
            attachment: false,
            etag: Some(raw.digest),
            headers: Vec::new(),
            content: DownloadContent::Bytes(raw.content.into()),
        })
    }
}

impl SnippetsApi for App {
    async fn list_snippets(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<Snippet>> {
        let page = snippets::list_own(&self.backend, &access.caller, &page).await?;
        Ok(page.map(|row| self.snippet(row)))
    }

    async fn list_public_snippets(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<Snippet>> {
        let page = snippets::list_public(&self.backend, &access.caller, &page).await?;
        Ok(page.map(|row| self.snippet(row)))
    }

    async fn create_snippet(&self, access: InstanceAccess, request: CreateSnippetRequest) -> Result<Snippet> {
        let body = request.body;
        let new = NewSnippet {
            title: body.title,
            files: files(body.file_name, body.content, body.files),
            description: body.description,
            visibility: body.visibility.map(Convert::convert),
        };
        let made = snippets::create(&self.backend, Home::Personal(&access.caller), new).await?;
        Ok(self.snippet(made))
    }

    async fn get_snippet(&self, access: InstanceAccess, request: GetSnippetRequest) -> Result<Snippet> {
        let home = Home::Personal(&access.caller);
        Ok(self.snippet(snippets::read(&self.backend, home, request.id).await?))
    }

    async fn update_snippet(&self, access: InstanceAccess, request: UpdateSnippetRequest) -> Result<Snippet> {
        let home = Home::Personal(&access.caller);
        let changed = snippets::edit(&self.backend, home, request.id, change(request.body)).await?;
        Ok(self.snippet(changed))
    }

    async fn delete_snippet(&self, access: InstanceAccess, request: DeleteSnippetRequest) -> Result<()> {
        let home = Home::Personal(&access.caller);
        let condition = request.if_unmodified_since.as_deref();
        snippets::delete(&self.backend, home, request.id, condition).await
    }

    async fn get_raw_snippet(
        &self,
        access: InstanceAccess,
        request: GetRawSnippetRequest,
    ) -> Result<Download> {
        self.raw_snippet(Home::Personal(&access.caller), request.id).await
    }
}
