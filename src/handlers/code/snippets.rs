//! Personal snippets.

use domain::code::snippets::{
    self, CreationTimes, NewSnippet, NewSnippetFile, SnippetDetail, SnippetFileAction, SnippetFileUpdate,
    SnippetScope, SnippetUpdate,
};
use domain::identity::access::InstanceAccess;
use domain::kernel::download::{Download, DownloadContent};
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::SnippetsApi;
use crate::app::App;
use crate::handlers::patch::IntoPatch;
use crate::views::code::snippet::snippet;
use crate::views::enums::Convert;
use contract::timestamp::Timestamp;
use contract::{
    CreateSnippetRequest, DeleteSnippetRequest, GetRawSnippetRequest, GetSnippetRequest,
    ListAllSnippetsRequest, Snippet, SnippetFileCreate, UpdateSnippetRequest,
};

/// Converts an update of a project snippet or personal snippet.
pub(crate) fn update(body: contract::SnippetUpdate) -> SnippetUpdate {
    SnippetUpdate {
        title: body.title,
        file_name: body.file_name,
        content: body.content,
        files: body.files.into_iter().flatten().map(file_update).collect(),
        description: body.description.into_patch(),
        visibility: body.visibility.map(Convert::convert),
    }
}

fn file_update(file: contract::SnippetFileUpdate) -> SnippetFileUpdate {
    SnippetFileUpdate {
        action: match file.action {
            contract::SnippetFileAction::Update => SnippetFileAction::Update,
            contract::SnippetFileAction::Move => SnippetFileAction::Move,
            contract::SnippetFileAction::Create => SnippetFileAction::Create,
            contract::SnippetFileAction::Delete => SnippetFileAction::Delete,
        },
        name: file.file_path,
        previous_name: file.previous_path,
        content: file.content,
    }
}

/// Returns the files of a new snippet, given in one of two ways; the contract allows only one of them.
pub(crate) fn files(
    name: Option<String>,
    content: Option<String>,
    files: Option<Vec<SnippetFileCreate>>,
) -> Vec<NewSnippetFile> {
    let single = name
        .zip(content)
        .map(|(name, content)| NewSnippetFile { name, content });
    let listed = files.into_iter().flatten().map(|file| NewSnippetFile {
        name: file.file_path,
        content: file.content,
    });
    single.into_iter().chain(listed).collect()
}

impl App {
    /// Returns a snippet in the format of the contract.
    pub(crate) fn snippet(&self, detail: SnippetDetail) -> Snippet {
        snippet(&self.backend.instance.base_url, detail)
    }

    /// Returns the content of a snippet as a download.
    pub(crate) async fn raw_snippet(&self, scope: SnippetScope<'_>, id: i64) -> Result<Download> {
        let content = snippets::get_content(&self.backend, scope, id).await?;
        Ok(Download {
            content_type: "text/plain; charset=utf-8".to_owned(),
            file_name: content.file_name,
            attachment: false,
            etag: Some(content.digest),
            headers: Vec::new(),
            content: DownloadContent::Bytes(content.content.into()),
        })
    }
}

impl SnippetsApi for App {
    async fn list_snippets(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<Snippet>> {
        let page = snippets::list_own(&self.backend, &access.caller, &page).await?;
        Ok(page.map(|detail| self.snippet(detail)))
    }

    async fn list_all_snippets(
        &self,
        access: InstanceAccess,
        request: ListAllSnippetsRequest,
        page: PageRequest,
    ) -> Result<Page<Snippet>> {
        let created = CreationTimes {
            after: request.created_after.map(Timestamp::to_utc),
            before: request.created_before.map(Timestamp::to_utc),
        };
        let page = snippets::list_visible(&self.backend, &access.caller, created, &page).await?;
        Ok(page.map(|detail| self.snippet(detail)))
    }

    async fn list_public_snippets(&self, access: InstanceAccess, page: PageRequest) -> Result<Page<Snippet>> {
        let page = snippets::list_public(&self.backend, &access.caller, &page).await?;
        Ok(page.map(|detail| self.snippet(detail)))
    }

    async fn create_snippet(&self, access: InstanceAccess, request: CreateSnippetRequest) -> Result<Snippet> {
        let body = request.body;
        let new = NewSnippet {
            title: body.title,
            files: files(body.file_name, body.content, body.files),
            description: body.description,
            visibility: body.visibility.map(Convert::convert),
        };
        let snippet = snippets::create(&self.backend, SnippetScope::Personal(&access.caller), new).await?;
        Ok(self.snippet(snippet))
    }

    async fn get_snippet(&self, access: InstanceAccess, request: GetSnippetRequest) -> Result<Snippet> {
        let scope = SnippetScope::Personal(&access.caller);
        Ok(self.snippet(snippets::get(&self.backend, scope, request.id).await?))
    }

    async fn update_snippet(&self, access: InstanceAccess, request: UpdateSnippetRequest) -> Result<Snippet> {
        let scope = SnippetScope::Personal(&access.caller);
        let snippet = snippets::update(&self.backend, scope, request.id, update(request.body)).await?;
        Ok(self.snippet(snippet))
    }

    async fn delete_snippet(&self, access: InstanceAccess, request: DeleteSnippetRequest) -> Result<()> {
        let scope = SnippetScope::Personal(&access.caller);
        let condition = request.if_unmodified_since.as_deref();
        snippets::delete(&self.backend, scope, request.id, condition).await
    }

    async fn get_raw_snippet(
        &self,
        access: InstanceAccess,
        request: GetRawSnippetRequest,
    ) -> Result<Download> {
        self.raw_snippet(SnippetScope::Personal(&access.caller), request.id)
            .await
    }
}
