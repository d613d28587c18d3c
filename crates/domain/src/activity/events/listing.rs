//! Lists of events that are visible to the caller.

use std::collections::HashMap;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use sea_orm::sea_query::{ColumnRef, Expr, ExprTrait, IntoColumnRef, IntoTableRef, Query};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::access::{Viewer, code_readable_projects, projects_with_level, visible_projects};
use storage::entities::events::{Column, Entity, EventAction, EventTargetType, Model};
use storage::entities::{AccessLevel, commit_comments, issues, merge_requests, notes, now, projects, users};

use crate::activity::push_data::PushData;
use crate::identity::access::{ProjectAccess, UserAccess};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

/// Filter of events.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Action of the events.
    pub action: Option<EventAction>,
    /// Types of the targets.
    pub targets: Option<Vec<EventTargetType>>,
    /// Only events before this day.
    pub before: Option<NaiveDate>,
    /// Only events after this day.
    pub after: Option<NaiveDate>,
    /// Whether the oldest events come first.
    pub ascending: bool,
}

/// An event with its related rows.
#[derive(Debug, Clone)]
pub struct Happened {
    /// The event.
    pub event: Model,
    /// The user who caused it.
    pub author: users::Model,
    /// Details of a push.
    pub push: Option<PushData>,
    /// Comment on a commit that is the target, with its author.
    pub comment: Option<(commit_comments::Model, users::Model)>,
    /// Note that is the target.
    pub note: Option<Noted>,
}

/// The note of an event.
#[derive(Debug, Clone)]
pub struct Noted {
    /// The note.
    pub note: notes::Model,
    /// Its author.
    pub writer: users::Model,
    /// IID of the noteable, if it has one.
    pub iid: Option<i64>,
}

/// Returns a page of the events of a project.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_project(
    backend: &Backend,
    access: &ProjectAccess,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Happened>> {
    let mut wanted = Entity::find()
        .filter(Column::ProjectId.eq(access.project.id))
        .filter(targets_are_visible(access.caller.viewer()));
    if !access.can_read_code() {
        wanted = wanted.filter(is_about_code().not());
    }
    listed(backend, wanted, filter, page).await
}

/// Returns a page of the events of a user. A private profile has no events for others.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn of_user(
    backend: &Backend,
    access: &UserAccess,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Happened>> {
    let themself = access
        .caller
        .as_user()
        .is_some_and(|caller| caller.id == access.user.id);
    if access.user.private_profile && !themself && !access.caller.is_admin() {
        return Ok(Page::new(page, Vec::new(), 0));
    }
    let wanted = Entity::find()
        .filter(Column::AuthorId.eq(access.user.id))
        .filter(visible(access.caller.viewer(), themself));
    listed(backend, wanted, filter, page).await
}

/// Returns a page of the events of the caller, or of all users in the caller's projects.
///
/// # Errors
/// Returns `Error::Unauthorized` if the caller is anonymous.
pub async fn own(
    backend: &Backend,
    caller: &Caller,
    everybody: bool,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Happened>> {
    let id = caller.signed_in()?.id;
    let today = now().date_naive();
    let whose = if everybody {
        Column::ProjectId.in_subquery(ids(projects_with_level(id, AccessLevel::Guest, today)))
    } else {
        Column::AuthorId.eq(id)
    };
    let wanted = Entity::find()
        .filter(whose)
        .filter(visible(caller.viewer(), true));
    listed(backend, wanted, filter, page).await
}

/// Types whose updates only trigger webhooks and are not listed.
const FOR_HOOKS: [EventTargetType; 4] = [
    EventTargetType::Issue,
    EventTargetType::Job,
    EventTargetType::MergeRequest,
    EventTargetType::Pipeline,
];

/// Matches events that reveal code.
fn is_about_code() -> Condition {
    Condition::any().add(Column::Action.eq(EventAction::Pushed)).add(
        Condition::all()
            .add(Column::TargetType.is_not_null())
            .add(Column::TargetType.eq(EventTargetType::CommitNote)),
    )
}

/// Matches events whose target is visible, for issues, merge requests and notes. Events of deleted targets
/// are hidden, because their visibility is unknown.
fn targets_are_visible(viewer: Viewer) -> Condition {
    let today = now().date_naive();
    let issue = (issues::Entity, issues::Column::Id).into_column_ref();
    let merge_request = (merge_requests::Entity, merge_requests::Column::Id).into_column_ref();
    let note = (notes::Entity, notes::Column::Id).into_column_ref();
    Condition::all()
        .add(about(
            EventTargetType::Issue,
            issues::Entity,
            issue,
            issues::visible(viewer, today),
        ))
        .add(about(
            EventTargetType::MergeRequest,
            merge_requests::Entity,
            merge_request,
            merge_requests::visible(viewer, today),
        ))
        .add(about(
            EventTargetType::Note,
            notes::Entity,
            note,
            notes::visible(viewer, today),
        ))
}

/// Matches events of one type whose target meets a condition, and all events of other types.
fn about(kind: EventTargetType, table: impl IntoTableRef, id: ColumnRef, condition: Condition) -> Condition {
    let target = Query::select()
        .expr(Expr::val(1))
        .from(table)
        .and_where(Expr::col(id).eq(Expr::col((Entity, Column::TargetId))))
        .cond_where(condition)
        .take();
    Condition::any()
        .add(Column::TargetType.is_null())
        .add(Column::TargetType.ne(kind))
        .add(Expr::exists(target))
}

/// Matches events in visible projects. `homeless` includes events without a project, or of a deleted one.
fn visible(viewer: Viewer, homeless: bool) -> Condition {
    let today = now().date_naive();
    let seen = Condition::all()
        .add(Column::ProjectId.in_subquery(ids(visible_projects(viewer, today))))
        .add(
            Condition::any()
                .add(is_about_code().not())
                .add(Column::ProjectId.in_subquery(ids(code_readable_projects(viewer, today)))),
        );
    let seen = seen.add(targets_are_visible(viewer));
    let mut visible = Condition::any().add(seen);
    if homeless || viewer == Viewer::Admin {
        visible = visible.add(Column::ProjectId.is_null());
    }
    visible
}

fn ids(wanted: Condition) -> sea_orm::sea_query::SelectStatement {
    Query::select()
        .column((projects::Entity, projects::Column::Id))
        .from(projects::Entity)
        .cond_where(wanted)
        .take()
}

async fn listed(
    backend: &Backend,
    wanted: Select<Entity>,
    filter: Filter,
    page: &PageRequest,
) -> Result<Page<Happened>> {
    // Lists show the author, so events without one are left out. Updates, pipelines and jobs only trigger
    // webhooks.
    let edits = Condition::all()
        .add(Column::Action.eq(EventAction::Updated))
        .add(Column::TargetType.is_not_null())
        .add(Column::TargetType.is_in(FOR_HOOKS));
    let mut wanted = wanted.filter(Column::AuthorId.is_not_null()).filter(edits.not());
    if let Some(action) = filter.action {
        wanted = wanted.filter(Column::Action.eq(action));
    }
    if let Some(targets) = filter.targets {
        wanted = wanted.filter(Column::TargetType.is_in(targets));
    }
    if let Some(day) = filter.before {
        wanted = wanted.filter(Column::CreatedAt.lt(midnight(day)));
    }
    if let Some(next) = filter.after.map(|day| day + Days::new(1)) {
        wanted = wanted.filter(Column::CreatedAt.gte(midnight(next)));
    }
    let wanted = if filter.ascending {
        wanted.order_by_asc(Column::Id)
    } else {
        wanted.order_by_desc(Column::Id)
    };
    let db = backend.database.read();
    let found = page_of(db, wanted, page).await?;
    let items = decorate(db, found.items).await?;
    Ok(Page {
        items,
        rest: found.rest,
    })
}

fn midnight(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Loads the related rows of a whole page.
async fn decorate(db: &impl ConnectionTrait, events: Vec<Model>) -> Result<Vec<Happened>> {
    if events.is_empty() {
        return Ok(Vec::new());
    }
    let ids = |kind: EventTargetType| {
        let about = events.iter().filter(move |event| event.target_type == Some(kind));
        about.filter_map(|event| event.target_id)
    };
    let comments = commit_comments::Entity::find()
        .filter(commit_comments::Column::Id.is_in(ids(EventTargetType::CommitNote)))
        .all(db)
        .await?;
    let noted = notes::Entity::find()
        .find_also_related(issues::Entity)
        .find_also_related(merge_requests::Entity)
        .filter(notes::Column::Id.is_in(ids(EventTargetType::Note)))
        .all(db)
        .await?;
    let mut noted: HashMap<i64, _> = noted.into_iter().map(|row| (row.0.id, row)).collect();
    let mut comments: HashMap<i64, _> = comments.into_iter().map(|row| (row.id, row)).collect();
    let authors = events.iter().filter_map(|event| event.author_id);
    let writers = comments.values().filter_map(|comment| comment.author_id);
    let commenters = noted.values().filter_map(|(note, ..)| note.author_id);
    let people = users::Entity::find()
        .filter(users::Column::Id.is_in(authors.chain(writers).chain(commenters)))
        .all(db)
        .await?;
    let people: HashMap<i64, _> = people.into_iter().map(|user| (user.id, user)).collect();
    let happened = events.into_iter().filter_map(|event| {
        // A user removed since the page was read took the event along.
        let author = people.get(&event.author_id?)?.clone();
        let comment = match (event.target_type, event.target_id) {
            (Some(EventTargetType::CommitNote), Some(id)) => comments.remove(&id),
            _ => None,
        };
        let comment = comment.and_then(|comment| {
            let writer = people.get(&comment.author_id?)?.clone();
            Some((comment, writer))
        });
        let note = match (event.target_type, event.target_id) {
            (Some(EventTargetType::Note), Some(id)) => noted.remove(&id),
            _ => None,
        };
        let note = note.and_then(|(note, issue, merge_request)| {
            let writer = people.get(&note.author_id?)?.clone();
            let iid = issue.map(|issue| issue.iid);
            let iid = iid.or(merge_request.map(|merge_request| merge_request.iid));
            Some(Noted { note, writer, iid })
        });
        let push = match event.action {
            EventAction::Pushed => event
                .data
                .as_deref()
                .and_then(|data| serde_json::from_str(data).ok()),
            _ => None,
        };
        Some(Happened {
            author,
            push,
            comment,
            note,
            event,
        })
    });
    Ok(happened.collect())
}
