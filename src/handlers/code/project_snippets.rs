//! Snippets of projects.

use domain::code::snippets::{self, NewSnippet, SnippetScope};
use domain::identity::access::ProjectAccess;
use domain::kernel::download::Download;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::ProjectSnippetsApi;
use crate::app::App;
use crate::handlers::code::snippets::{files, update};
use crate::views::enums::Convert;
use contract::{
    CreateProjectSnippetRequest, DeleteProjectSnippetRequest, GetProjectSnippetRequest,
    GetRawProjectSnippetRequest, Snippet, UpdateProjectSnippetRequest,
};

impl ProjectSnippetsApi for App {
    async fn list_project_snippets(&self, access: ProjectAccess, page: PageRequest) -> Result<Page<Snippet>> {
        let page = snippets::list_of_project(&self.backend, &access, &page).await?;
        Ok(page.map(|detail| self.snippet(detail)))
    }

    async fn create_project_snippet(
        &self,
        access: ProjectAccess,
        request: CreateProjectSnippetRequest,
    ) -> Result<Snippet> {
        let body = request.body;
        let new = NewSnippet {
            title: body.title,
            files: files(body.file_name, body.content.or(body.code), body.files),
            description: body.description,
            visibility: body.visibility.map(Convert::convert),
        };
        let snippet = snippets::create(&self.backend, SnippetScope::Project(&access), new).await?;
        Ok(self.snippet(snippet))
    }

    async fn get_project_snippet(
        &self,
        access: ProjectAccess,
        request: GetProjectSnippetRequest,
    ) -> Result<Snippet> {
        let scope = SnippetScope::Project(&access);
        Ok(self.snippet(snippets::get(&self.backend, scope, request.snippet_id).await?))
    }

    async fn update_project_snippet(
        &self,
        access: ProjectAccess,
        request: UpdateProjectSnippetRequest,
    ) -> Result<Snippet> {
        let (scope, id) = (SnippetScope::Project(&access), request.snippet_id);
        let snippet = snippets::update(&self.backend, scope, id, update(request.body)).await?;
        Ok(self.snippet(snippet))
    }

    async fn delete_project_snippet(
        &self,
        access: ProjectAccess,
        request: DeleteProjectSnippetRequest,
    ) -> Result<()> {
        let (scope, id) = (SnippetScope::Project(&access), request.snippet_id);
        snippets::delete(&self.backend, scope, id, request.if_unmodified_since.as_deref()).await
    }

    async fn get_raw_project_snippet(
        &self,
        access: ProjectAccess,
        request: GetRawProjectSnippetRequest,
    ) -> Result<Download> {
        self.raw_snippet(SnippetScope::Project(&access), request.snippet_id)
            .await
    }
}
