//! Events of the newest issue, note, merge request, pipeline, job or release of a project.

use std::collections::BTreeMap;

use sea_orm::sea_query::{Expr, ExprTrait, Query};
use sea_orm::{ColumnTrait, Condition, EntityTrait, QueryFilter, QueryOrder};
use storage::entities::events::{Column, Entity, EventAction, EventTargetType, Model};
use storage::entities::{
    ci_jobs, commit_comments, issues, merge_requests, notes, pipelines, release_links, releases,
};

use super::no_data;
use crate::delivery::pipelines::events::{JobEventData, PipelineEventData};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::planning::issuables::events::IssuableEventData;
use crate::releases::events::{ReleaseAction, ReleaseEventData};

/// Returns an event of the newest issue, as if it had just reached its state. `plain` has the other columns.
/// Confidential issues and others never replace each other.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn issue(backend: &Backend, plain: Model, confidential: bool) -> Result<Model> {
    let newest = issues::Entity::find()
        .filter(issues::Column::ProjectId.eq(plain.project_id))
        .filter(issues::Column::Confidential.eq(confidential))
        .order_by_desc(issues::Column::Iid);
    let issue = newest.one(backend.database.read()).await?;
    let issue = issue.ok_or_else(|| match confidential {
        true => no_data("Ensure the project has confidential issues."),
        false => no_data("Ensure the project has issues."),
    })?;
    let (action, word) = match issue.state {
        issues::IssueState::Opened => (EventAction::Created, "open"),
        issues::IssueState::Closed => (EventAction::Closed, "close"),
    };
    let data = IssuableEventData {
        action: word.to_owned(),
        changes: BTreeMap::new(),
        oldrev: None,
    };
    Ok(Model {
        action,
        target_type: Some(EventTargetType::Issue),
        target_id: Some(issue.id),
        data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
        ..plain
    })
}

/// Returns an event of the newest merge request, in the same way.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn merge_request(backend: &Backend, plain: Model) -> Result<Model> {
    use merge_requests::MergeRequestState;
    let newest = merge_requests::Entity::find()
        .filter(merge_requests::Column::TargetProjectId.eq(plain.project_id))
        .order_by_desc(merge_requests::Column::Iid);
    let merge_request = newest.one(backend.database.read()).await?;
    let merge_request = merge_request.ok_or_else(|| no_data("Ensure the project has merge requests."))?;
    let (action, word) = match merge_request.state {
        MergeRequestState::Opened | MergeRequestState::Locked => (EventAction::Created, "open"),
        MergeRequestState::Closed => (EventAction::Closed, "close"),
        MergeRequestState::Merged => (EventAction::Merged, "merge"),
    };
    let data = IssuableEventData {
        action: word.to_owned(),
        changes: BTreeMap::new(),
        oldrev: None,
    };
    Ok(Model {
        action,
        target_type: Some(EventTargetType::MergeRequest),
        target_id: Some(merge_request.id),
        data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
        ..plain
    })
}

/// Returns an event of the newest pipeline in its present state.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn pipeline(backend: &Backend, plain: Model) -> Result<Model> {
    let db = backend.database.read();
    let newest = pipelines::Entity::find()
        .filter(pipelines::Column::ProjectId.eq(plain.project_id))
        .order_by_desc(pipelines::Column::Id);
    let pipeline = newest.one(db).await?;
    let pipeline = pipeline.ok_or_else(|| no_data("Ensure the project has CI pipelines."))?;
    let data = PipelineEventData::of(&pipeline, &ci_jobs::current(db, pipeline.id).await?);
    Ok(Model {
        action: EventAction::Updated,
        target_type: Some(EventTargetType::Pipeline),
        target_id: Some(pipeline.id),
        data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
        ..plain
    })
}

/// Returns an event of the newest job in its present state.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn job(backend: &Backend, plain: Model) -> Result<Model> {
    let newest = ci_jobs::Entity::find()
        .filter(ci_jobs::Column::ProjectId.eq(plain.project_id))
        .order_by_desc(ci_jobs::Column::Id);
    let job = newest.one(backend.database.read()).await?;
    let job = job.ok_or_else(|| no_data("Ensure the project has CI jobs."))?;
    let data = JobEventData::from(&job);
    Ok(Model {
        action: EventAction::Updated,
        target_type: Some(EventTargetType::Job),
        target_id: Some(job.id),
        data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
        ..plain
    })
}

/// Returns an event of the newest release, as if it had just been created.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn release(backend: &Backend, plain: Model) -> Result<Model> {
    let db = backend.database.read();
    let newest = releases::Entity::find()
        .filter(releases::Column::ProjectId.eq(plain.project_id))
        .order_by_desc(releases::Column::Id);
    let release = newest.one(db).await?;
    let release = release.ok_or_else(|| no_data("Ensure the project has releases."))?;
    let links = release_links::of_release(release.id).all(db).await?;
    let data = ReleaseEventData::of(ReleaseAction::Create, &release, links, None);
    Ok(Model {
        action: EventAction::Updated,
        target_type: Some(EventTargetType::Release),
        target_id: Some(release.id),
        data: Some(serde_json::to_string(&data).map_err(Error::internal)?),
        ..plain
    })
}

/// Returns the event of the newest comment that triggered webhooks, on any noteable.
///
/// # Errors
/// Returns `Error::Unprocessable` if the project has none.
pub(super) async fn note(backend: &Backend, plain: Model, confidential: bool) -> Result<Model> {
    let on_hidden = Query::select()
        .expr(Expr::val(1))
        .from(issues::Entity)
        .and_where(
            Expr::col((issues::Entity, issues::Column::Id))
                .eq(Expr::col((notes::Entity, notes::Column::IssueId))),
        )
        .and_where(Expr::col((issues::Entity, issues::Column::Confidential)).eq(true))
        .take();
    let hidden = Condition::any()
        .add(Expr::col((notes::Entity, notes::Column::Confidential)).eq(true))
        .add(Expr::exists(on_hidden));
    let of_kind = match confidential {
        true => hidden,
        false => hidden.not(),
    };
    let on_thing = Query::select()
        .expr(Expr::val(1))
        .from(notes::Entity)
        .and_where(Expr::col((notes::Entity, notes::Column::Id)).eq(Expr::col((Entity, Column::TargetId))))
        .cond_where(of_kind)
        .take();
    let mut condition = Condition::any().add(
        Condition::all()
            .add(Column::TargetType.eq(EventTargetType::Note))
            .add(Expr::exists(on_thing)),
    );
    if !confidential {
        let on_commit = Query::select()
            .expr(Expr::val(1))
            .from(commit_comments::Entity)
            .and_where(
                Expr::col((commit_comments::Entity, commit_comments::Column::Id))
                    .eq(Expr::col((Entity, Column::TargetId))),
            )
            .take();
        condition = condition.add(
            Condition::all()
                .add(Column::TargetType.eq(EventTargetType::CommitNote))
                .add(Expr::exists(on_commit)),
        );
    }
    let newest = Entity::find()
        .filter(Column::ProjectId.eq(plain.project_id))
        .filter(Column::Action.eq(EventAction::Commented))
        .filter(condition)
        .order_by_desc(Column::Id);
    let found = newest.one(backend.database.read()).await?;
    let found = found.ok_or_else(|| match confidential {
        true => no_data("Ensure the project has confidential notes."),
        false => no_data("Ensure the project has notes."),
    })?;
    Ok(Model {
        action: EventAction::Commented,
        target_type: found.target_type,
        target_id: found.target_id,
        ..plain
    })
}
