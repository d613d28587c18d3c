//! Lists of events that are visible to the caller.

use std::collections::HashMap;

use chrono::{DateTime, Days, NaiveDate, NaiveTime, Utc};
use sea_orm::sea_query::{ColumnRef, Expr, ExprTrait, IntoColumnRef, IntoTableRef, Query, SelectStatement};
use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, QueryFilter, QueryOrder, Select};
use storage::entities::access::{
    Viewer, code_readable_projects, projects_with_level, projects_with_milestones, visible_projects,
};
use storage::entities::events::{Column, Entity, EventAction, EventTargetType, Model};
use storage::entities::related_rows::{RelatedPart, RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{AccessLevel, commit_comments, issues, merge_requests, notes, now, projects};

use crate::activity::push_data::PushData;
use crate::identity::access::{ProjectAccess, UserAccess};
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{all_with_texts, uncounted_page_of};

/// Filter and sort order of a list of events.
#[derive(Debug, Clone, Default)]
pub struct EventFilter {
    /// Action of the events.
    pub action: Option<EventAction>,
    /// Types of the targets.
    pub target_types: Option<Vec<EventTargetType>>,
    /// Only events before this day.
    pub before: Option<NaiveDate>,
    /// Only events after this day.
    pub after: Option<NaiveDate>,
    /// Whether the oldest events come first.
    pub ascending: bool,
}

/// An event with its related rows.
#[derive(Debug, Clone)]
pub struct EventDetail {
    /// The event.
    pub event: Model,
    /// The user who caused it.
    pub author: UserSummary,
    /// Details of a push.
    pub push: Option<PushData>,
    /// Comment on a commit that is the target, with its author.
    pub comment: Option<(commit_comments::Model, UserSummary)>,
    /// Note that is the target.
    pub note: Option<NoteSummary>,
}

/// The note of an event.
#[derive(Debug, Clone)]
pub struct NoteSummary {
    /// The note.
    pub note: notes::Model,
    /// Its author.
    pub author: UserSummary,
    /// IID of the noteable, if it has one.
    pub iid: Option<i64>,
}

/// Returns a page of the events of a project.
///
/// # Errors
/// Returns `Error::Overloaded` if too little memory is left for notes, or an error if the database fails.
pub async fn list_of_project(
    backend: &Backend,
    access: &ProjectAccess,
    filter: EventFilter,
    page: &PageRequest,
) -> Result<Page<EventDetail>> {
    let mut query = Entity::find()
        .filter(Column::ProjectId.eq(access.project.id))
        .filter(visible_targets(access.caller.viewer()));
    if !access.can_read_code() {
        query = query.filter(code_events().not());
    }
    list(backend, &access.caller, query, filter, page).await
}

/// Returns a page of the events of a user. A private profile has no events for others.
///
/// # Errors
/// Returns `Error::Overloaded` if too little memory is left for notes, or an error if the database fails.
pub async fn list_of_user(
    backend: &Backend,
    access: &UserAccess,
    filter: EventFilter,
    page: &PageRequest,
) -> Result<Page<EventDetail>> {
    let is_self = access
        .caller
        .as_user()
        .is_some_and(|caller| caller.id == access.user.id);
    if access.user.private_profile && !is_self && !access.caller.is_admin() {
        return Ok(Page::new(page, Vec::new(), 0));
    }
    let query = Entity::find()
        .filter(Column::AuthorId.eq(access.user.id))
        .filter(visible(access.caller.viewer(), is_self));
    list(backend, &access.caller, query, filter, page).await
}

/// Returns a page of the events of the caller, or of all users in the caller's projects.
///
/// # Errors
/// Returns `Error::Unauthorized` if the caller is anonymous.
pub async fn list_own(
    backend: &Backend,
    caller: &Caller,
    all_users: bool,
    filter: EventFilter,
    page: &PageRequest,
) -> Result<Page<EventDetail>> {
    let id = caller.signed_in()?.id;
    let today = now().date_naive();
    let scope = if all_users {
        Column::ProjectId.in_subquery(project_ids(projects_with_level(id, AccessLevel::Guest, today)))
    } else {
        Column::AuthorId.eq(id)
    };
    let query = Entity::find()
        .filter(scope)
        .filter(visible(caller.viewer(), true));
    list(backend, caller, query, filter, page).await
}

/// Types whose updates only trigger webhooks and are not listed.
const WEBHOOK_ONLY_TYPES: [EventTargetType; 5] = [
    EventTargetType::Issue,
    EventTargetType::Job,
    EventTargetType::MergeRequest,
    EventTargetType::Pipeline,
    EventTargetType::Release,
];

/// Matches events that reveal code.
fn code_events() -> Condition {
    Condition::any().add(Column::Action.eq(EventAction::Pushed)).add(
        Condition::all()
            .add(Column::TargetType.is_not_null())
            .add(Column::TargetType.eq(EventTargetType::CommitNote)),
    )
}

/// Matches events whose target is visible, for issues, merge requests, milestones and notes. Events of deleted
/// issues, merge requests and notes are hidden, because their visibility is unknown. The visibility of a
/// milestone depends only on its project.
fn visible_targets(viewer: Viewer) -> Condition {
    let today = now().date_naive();
    let issue = (issues::Entity, issues::Column::Id).into_column_ref();
    let merge_request = (merge_requests::Entity, merge_requests::Column::Id).into_column_ref();
    let note = (notes::Entity, notes::Column::Id).into_column_ref();
    let project = (projects::Entity, projects::Column::Id).into_column_ref();
    Condition::all()
        .add(with_row(
            EventTargetType::Milestone,
            Column::ProjectId,
            projects::Entity,
            project,
            projects_with_milestones(viewer, today),
        ))
        .add(with_row(
            EventTargetType::Issue,
            Column::TargetId,
            issues::Entity,
            issue,
            issues::visible(viewer, today),
        ))
        .add(with_row(
            EventTargetType::MergeRequest,
            Column::TargetId,
            merge_requests::Entity,
            merge_request,
            merge_requests::visible(viewer, today),
        ))
        .add(with_row(
            EventTargetType::Note,
            Column::TargetId,
            notes::Entity,
            note,
            notes::visible(viewer, today),
        ))
}

/// Matches events of one type whose target or project meets a condition, and all events of other types.
fn with_row(
    kind: EventTargetType,
    reference: Column,
    table: impl IntoTableRef,
    id: ColumnRef,
    condition: Condition,
) -> Condition {
    let row = Query::select()
        .expr(Expr::val(1))
        .from(table)
        .and_where(Expr::col(id).eq(Expr::col((Entity, reference))))
        .cond_where(condition)
        .take();
    Condition::any()
        .add(Column::TargetType.is_null())
        .add(Column::TargetType.ne(kind))
        .add(Expr::exists(row))
}

/// Matches events in visible projects. `without_project` includes events without a project, or of a deleted
/// one.
fn visible(viewer: Viewer, without_project: bool) -> Condition {
    let today = now().date_naive();
    let in_projects = Condition::all()
        .add(Column::ProjectId.in_subquery(project_ids(visible_projects(viewer, today))))
        .add(
            Condition::any()
                .add(code_events().not())
                .add(Column::ProjectId.in_subquery(project_ids(code_readable_projects(viewer, today)))),
        );
    let in_projects = in_projects.add(visible_targets(viewer));
    let mut visible = Condition::any().add(in_projects);
    if without_project || viewer == Viewer::Admin {
        visible = visible.add(Column::ProjectId.is_null());
    }
    visible
}

fn project_ids(condition: Condition) -> SelectStatement {
    Query::select()
        .column((projects::Entity, projects::Column::Id))
        .from(projects::Entity)
        .cond_where(condition)
        .take()
}

async fn list(
    backend: &Backend,
    caller: &Caller,
    query: Select<Entity>,
    filter: EventFilter,
    page: &PageRequest,
) -> Result<Page<EventDetail>> {
    // Lists show the author, so events without one are omitted. Updates, pipelines and jobs only trigger
    // webhooks.
    let webhook_only = Condition::all()
        .add(Column::Action.eq(EventAction::Updated))
        .add(Column::TargetType.is_not_null())
        .add(Column::TargetType.is_in(WEBHOOK_ONLY_TYPES));
    let mut query = query
        .filter(Column::AuthorId.is_not_null())
        .filter(webhook_only.not());
    if let Some(action) = filter.action {
        query = query.filter(Column::Action.eq(action));
    }
    if let Some(target_types) = filter.target_types {
        query = query.filter(Column::TargetType.is_in(target_types));
    }
    if let Some(day) = filter.before {
        query = query.filter(Column::CreatedAt.lt(start_of_day(day)));
    }
    if let Some(next) = filter.after.map(|day| day + Days::new(1)) {
        query = query.filter(Column::CreatedAt.gte(start_of_day(next)));
    }
    let query = if filter.ascending {
        query.order_by_asc(Column::Id)
    } else {
        query.order_by_desc(Column::Id)
    };
    let db = backend.database.read();
    let (found, total) = uncounted_page_of(db, query, page).await?;
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, caller, found, related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
}

fn start_of_day(day: NaiveDate) -> DateTime<Utc> {
    day.and_time(NaiveTime::MIN).and_utc()
}

/// Loads the related rows of a whole page: the comments, the notes, and the users in one statement with the parts of
/// `related`.
async fn load_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    events: Vec<Model>,
    mut related: RelatedRows,
) -> Result<(Vec<EventDetail>, RelatedRowSets)> {
    let ids = |kind: EventTargetType| {
        let events = events.iter().filter(|event| event.target_type == Some(kind));
        events.filter_map(|event| event.target_id).collect::<Vec<i64>>()
    };
    let comment_ids = ids(EventTargetType::CommitNote);
    let comments = match comment_ids.is_empty() {
        true => Vec::new(),
        false => {
            let comments = commit_comments::Entity::find();
            let comments = comments.filter(commit_comments::Column::Id.is_in(comment_ids));
            all_with_texts(db, caller, comments).await?
        }
    };
    let note_ids = ids(EventTargetType::Note);
    let notes = match note_ids.is_empty() {
        true => Vec::new(),
        false => {
            let notes = notes::Entity::find().filter(notes::Column::Id.is_in(note_ids));
            all_with_texts(db, caller, notes).await?
        }
    };
    let database = db.get_database_backend();
    // Only the IIDs: many notes can belong to one issue with a long description.
    let iids = |rows: SelectStatement, id: Expr, iid: Expr, ids: &[i64]| {
        let part = RelatedPart::of_owners(database, rows, id, ids)?;
        Some(part.with_number(iid))
    };
    let issue_ids: Vec<i64> = notes.iter().filter_map(|note| note.issue_id).collect();
    let issue_iids = related.add(iids(
        Query::select().from(issues::Entity).take(),
        issues::Column::Id.into_expr(),
        issues::Column::Iid.into_expr(),
        &issue_ids,
    ));
    let merge_request_ids: Vec<i64> = notes.iter().filter_map(|note| note.merge_request_id).collect();
    let merge_request_iids = related.add(iids(
        Query::select().from(merge_requests::Entity).take(),
        merge_requests::Column::Id.into_expr(),
        merge_requests::Column::Iid.into_expr(),
        &merge_request_ids,
    ));
    let mut notes_by_id: HashMap<i64, _> = notes.into_iter().map(|note| (note.id, note)).collect();
    let mut comments_by_id: HashMap<i64, _> = comments.into_iter().map(|row| (row.id, row)).collect();
    let authors = events.iter().filter_map(|event| event.author_id);
    let comment_authors = comments_by_id.values().filter_map(|comment| comment.author_id);
    let note_authors = notes_by_id.values().filter_map(|note| note.author_id);
    let user_ids = authors.chain(comment_authors).chain(note_authors);
    let users = related.add(UserSummary::part(database, user_ids));
    let mut rows = related.load(db).await?;
    let users_by_id = rows.take_by_owner(users, UserSummary::read)?;
    let issue_iids = rows.take_by_owner(issue_iids, |row| Ok(row.number))?;
    let merge_request_iids = rows.take_by_owner(merge_request_iids, |row| Ok(row.number))?;
    let details = events.into_iter().filter_map(|event| {
        // An event is deleted with its author, possibly since the page was read.
        let author = users_by_id.get(&event.author_id?)?.clone();
        let comment = match (event.target_type, event.target_id) {
            (Some(EventTargetType::CommitNote), Some(id)) => comments_by_id.remove(&id),
            _ => None,
        };
        let comment = comment.and_then(|comment| {
            let author = users_by_id.get(&comment.author_id?)?.clone();
            Some((comment, author))
        });
        let note = match (event.target_type, event.target_id) {
            (Some(EventTargetType::Note), Some(id)) => notes_by_id.remove(&id),
            _ => None,
        };
        let note = note.and_then(|note| {
            let author = users_by_id.get(&note.author_id?)?.clone();
            let of_issue = note.issue_id.and_then(|id| issue_iids.get(&id));
            let of_merge_request = note.merge_request_id.and_then(|id| merge_request_iids.get(&id));
            let iid = of_issue.or(of_merge_request).copied().flatten();
            Some(NoteSummary { note, author, iid })
        });
        let push = match event.action {
            EventAction::Pushed => event
                .data
                .as_deref()
                .and_then(|data| serde_json::from_str(data).ok()),
            _ => None,
        };
        Some(EventDetail {
            author,
            push,
            comment,
            note,
            event,
        })
    });
    Ok((details.collect(), rows))
}
