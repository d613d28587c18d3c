//! To-do items.

use domain::discussion::noteable::Key;
use domain::discussion::todos::{self, Filter, Subject};
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
    async fn mark_todo(&self, access: ProjectAccess, key: Key) -> Result<Todo> {
        let made = todos::mark(&self.backend, &SpaceAccess::from(access), key).await?;
        Ok(todo(&self.backend.instance, made))
    }
}

impl TodosApi for App {
    async fn list_todos(
        &self,
        access: InstanceAccess,
        request: ListTodosRequest,
        page: PageRequest,
    ) -> Result<Page<Todo>> {
        let filter = Filter {
            action: request.action.map(Convert::convert),
            author_id: request.author_id,
            project_id: request.project_id,
            group_id: request.group_id,
            state: request.state.map(Convert::convert),
            subject: request.r#type.map(|kind| match kind {
                TodoTargetType::Issue => Subject::Issue,
                TodoTargetType::MergeRequest => Subject::MergeRequest,
                TodoTargetType::Epic => Subject::Epic,
            }),
        };
        let page = todos::list(&self.backend, &access.caller, &filter, &page).await?;
        Ok(page.map(|row| todo(&self.backend.instance, row)))
    }

    async fn finish_todos(&self, access: InstanceAccess) -> Result<()> {
        todos::finish_all(&self.backend, &access.caller).await
    }

    async fn finish_todo(&self, access: InstanceAccess, request: FinishTodoRequest) -> Result<Todo> {
        let done = todos::finish(&self.backend, &access.caller, request.todo_id).await?;
        Ok(todo(&self.backend.instance, done))
    }

    async fn create_issue_todo(
        &self,
        access: ProjectAccess,
        request: CreateIssueTodoRequest,
    ) -> Result<Todo> {
        self.mark_todo(access, Key::Issue(request.issue_iid)).await
    }

    async fn create_merge_request_todo(
        &self,
        access: ProjectAccess,
        request: CreateMergeRequestTodoRequest,
    ) -> Result<Todo> {
        self.mark_todo(access, Key::MergeRequest(request.merge_request_iid))
            .await
    }
}
