//! To-do items.

use domain::discussion::noteable::NoteableKey;
use domain::discussion::todos::{self, TodoFilter, TodoTargetKind};
use domain::identity::access::{InstanceAccess, ProjectAccess};
use domain::identity::space_access::SpaceAccess;
use domain::kernel::error::Result;
use domain::kernel::page::{Page, PageRequest};

use crate::api::routes::TodosApi;
use crate::app::App;
use crate::views::discussion::todo::todo;
use crate::views::enums::Convert;
use contract::{
    CreateIssueTodoRequest, CreateMergeRequestTodoRequest, FinishTodoRequest, ListTodosRequest, Todo,
    TodoTargetType,
};

impl App {
    /// Creates a to-do item of the caller for a target.
    async fn create_todo(&self, access: ProjectAccess, key: NoteableKey) -> Result<Todo> {
        let created = todos::create(&self.backend, &SpaceAccess::from(access), key).await?;
        Ok(todo(&self.backend.instance, created))
    }
}

impl TodosApi for App {
    async fn list_todos(
        &self,
        access: InstanceAccess,
        request: ListTodosRequest,
        page: PageRequest,
    ) -> Result<Page<Todo>> {
        let filter = TodoFilter {
            action: request.action.map(Convert::convert),
            author_id: request.author_id,
            project_id: request.project_id,
            group_id: request.group_id,
            state: request.state.map(Convert::convert),
            target_kind: request.r#type.map(|kind| match kind {
                TodoTargetType::Issue => TodoTargetKind::Issue,
                TodoTargetType::MergeRequest => TodoTargetKind::MergeRequest,
                TodoTargetType::Epic => TodoTargetKind::Epic,
            }),
        };
        let page = todos::list(&self.backend, &access.caller, &filter, &page).await?;
        Ok(page.map(|detail| todo(&self.backend.instance, detail)))
    }

    async fn finish_todos(&self, access: InstanceAccess) -> Result<()> {
        todos::mark_all_done(&self.backend, &access.caller).await
    }

    async fn finish_todo(&self, access: InstanceAccess, request: FinishTodoRequest) -> Result<Todo> {
        let done = todos::mark_done(&self.backend, &access.caller, request.todo_id).await?;
        Ok(todo(&self.backend.instance, done))
    }

    async fn create_issue_todo(
        &self,
        access: ProjectAccess,
        request: CreateIssueTodoRequest,
    ) -> Result<Todo> {
        self.create_todo(access, NoteableKey::Issue(request.issue_iid))
            .await
    }

    async fn create_merge_request_todo(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestTodoRequest,
    ) -> Result<Todo> {
        self.create_todo(access, NoteableKey::MergeRequest(request.merge_request_iid))
            .await
    }
}
