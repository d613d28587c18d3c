//! To-do items.

use domain::discussion::todos::{self, TodoDetail, TodoTargetDetail};
use domain::kernel::Instance;
use serde::Serialize;
use serde_json::Value;
use storage::entities::namespaces;

use crate::views::accounts::users::reference;
use crate::views::enums::Convert;
use crate::views::planning::{epic, issue};
use crate::views::review::merge_request;
use contract::{Todo, TodoGroup, TodoProject, TodoTargetType};

/// Returns a to-do item in the format of the contract.
#[must_use]
pub fn todo(instance: &Instance, detail: TodoDetail) -> Todo {
    let base = instance.base_url.as_str();
    let note_id = detail.todo.note_id;
    let target = target_view(instance, detail.target);
    Todo {
        id: detail.todo.id,
        project: detail.project.map(project),
        group: target.group,
        author: detail.author.map(|user| reference(base, user)),
        action_name: detail.todo.action.convert(),
        target_type: target.kind,
        target: target.target,
        target_url: match note_id {
            Some(id) => format!("{}#note_{id}", target.url),
            None => target.url,
        },
        body: detail.note_body.unwrap_or(target.title),
        state: detail.todo.state.convert(),
        created_at: detail.todo.created_at.into(),
        updated_at: detail.todo.updated_at.into(),
    }
}

/// The target of a to-do item.
struct TargetView {
    kind: TodoTargetType,
    target: Value,
    url: String,
    title: String,
    group: Option<TodoGroup>,
}

fn target_view(instance: &Instance, target: TodoTargetDetail) -> TargetView {
    let options = issue::IssueViewOptions {
        elsewhere: true,
        labels_details: false,
    };
    match target {
        TodoTargetDetail::Issue(detail) => {
            let view = issue::issue(instance, *detail, options);
            TargetView {
                kind: TodoTargetType::Issue,
                url: view.web_url.clone(),
                title: view.title.clone(),
                group: None,
                target: json(view),
            }
        }
        TodoTargetDetail::MergeRequest(detail) => {
            let view = merge_request::merge_request(instance, *detail, options);
            TargetView {
                kind: TodoTargetType::MergeRequest,
                url: view.web_url.clone(),
                title: view.title.clone(),
                group: None,
                target: json(view),
            }
        }
        TodoTargetDetail::Epic(detail) => {
            let group = group(&detail.group);
            let options = epic::EpicViewOptions {
                group_id: detail.epic.namespace_id,
                labels_details: false,
            };
            let view = epic::epic(&instance.base_url, *detail, options);
            TargetView {
                kind: TodoTargetType::Epic,
                url: view.web_url.clone(),
                title: view.title.clone(),
                group: Some(group),
                target: json(view),
            }
        }
    }
}

/// Converts a type of the contract to JSON, which cannot fail.
fn json(view: impl Serialize) -> Value {
    serde_json::to_value(view).unwrap_or_default()
}

fn project(project: todos::TodoProject) -> TodoProject {
    let todos::TodoProject {
        project,
        path,
        namespace_name,
    } = project;
    TodoProject {
        id: project.id,
        description: project.description,
        name_with_namespace: format!("{namespace_name} / {}", project.name),
        name: project.name,
        path: project.path,
        path_with_namespace: path,
        created_at: project.created_at.into(),
    }
}

fn group(group: &namespaces::Model) -> TodoGroup {
    TodoGroup {
        id: group.id,
        name: group.name.clone(),
        path: group.path.clone(),
        kind: group.kind.convert(),
        full_path: group.full_path.clone(),
    }
}
