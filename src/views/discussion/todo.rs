//! To-do items.

use domain::discussion::todos::{Home, Row, Thing};
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
pub fn todo(instance: &Instance, row: Row) -> Todo {
    let base = instance.base_url.as_str();
    let note = row.todo.note_id;
    let shown = target_view(instance, row.thing);
    Todo {
        id: row.todo.id,
        project: row.home.map(project),
        group: shown.group,
        author: row.author.map(|user| reference(base, &user)),
        action_name: row.todo.action.convert(),
        target_type: shown.kind,
        target: shown.target,
        target_url: match note {
            Some(id) => format!("{}#note_{id}", shown.url),
            None => shown.url,
        },
        body: row.note.unwrap_or(shown.title),
        state: row.todo.state.convert(),
        created_at: row.todo.created_at.into(),
        updated_at: row.todo.updated_at.into(),
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

fn target_view(instance: &Instance, thing: Thing) -> TargetView {
    let parts = issue::IssueViewOptions {
        elsewhere: true,
        labels_details: false,
    };
    match thing {
        Thing::Issue(row) => {
            let shown = issue::issue(instance, *row, parts);
            TargetView {
                kind: TodoTargetType::Issue,
                url: shown.web_url.clone(),
                title: shown.title.clone(),
                group: None,
                target: value(shown),
            }
        }
        Thing::MergeRequest(row) => {
            let shown = merge_request::merge_request(instance, *row, parts);
            TargetView {
                kind: TodoTargetType::MergeRequest,
                url: shown.web_url.clone(),
                title: shown.title.clone(),
                group: None,
                target: value(shown),
            }
        }
        Thing::Epic(row) => {
            let group = group(&row.group);
            let parts = epic::EpicViewOptions {
                group_id: row.epic.namespace_id,
                labels_details: false,
            };
            let shown = epic::epic(&instance.base_url, *row, parts);
            TargetView {
                kind: TodoTargetType::Epic,
                url: shown.web_url.clone(),
                title: shown.title.clone(),
                group: Some(group),
                target: value(shown),
            }
        }
    }
}

/// Converts a type of the contract to JSON, which cannot fail.
fn value(shown: impl Serialize) -> Value {
    serde_json::to_value(shown).unwrap_or_default()
}

fn project(home: Home) -> TodoProject {
    let Home {
        project,
        path,
        namespace_name,
    } = home;
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
