//! Making pipelines, whoever asks for them.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction};
use storage::entities::ci_variables::Kind;
use storage::entities::now;
use storage::entities::pipelines::{ActiveModel, Model, Source, Status};

use super::variables::{self, NewVariable};
use super::{Row, progress, refuse_maker, telling, with_user};
use crate::error::{Error, Result};
use crate::secrets::Secret;
use crate::services::access::ProjectAccess;
use crate::services::projects;
use crate::services::{Backend, commits, freeze_periods, push_rules};

/// The variable that says that the project is frozen.
const FROZEN: &str = "CI_DEPLOY_FREEZE";

/// A branch or tag, and the commit it stands at.
#[derive(Debug, Clone)]
pub(in crate::services) struct Reference {
    /// The short name.
    pub name: String,
    /// It is a tag.
    pub tag: bool,
    /// The commit.
    pub sha: String,
}

impl Reference {
    /// That of a pipeline, wherever it stands by now.
    pub fn of(pipeline: &Model) -> Self {
        Self {
            name: pipeline.ref_name.clone(),
            tag: pipeline.tag,
            sha: pipeline.sha.clone(),
        }
    }
}

/// A pipeline that is to be made.
#[derive(Debug, Clone)]
pub(in crate::services) struct NewPipeline {
    /// The project.
    pub project_id: i64,
    /// What it is for.
    pub reference: Reference,
    /// What makes it.
    pub source: Source,
    /// Who makes it.
    pub user_id: i64,
    /// What its jobs get.
    pub variables: Vec<NewVariable>,
    /// The trigger that makes it.
    pub trigger_id: Option<i64>,
    /// The schedule that makes it, and the time for which it does.
    pub schedule: Option<(i64, Option<DateTime<Utc>>)>,
}

/// Makes a pipeline for the commit that a branch or tag stands at.
///
/// # Errors
/// 400 for a reference that is not there and for variables that break a rule; 403 as [`refuse_maker`] and
/// [`refuse_reference`].
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    ref_name: &str,
    given: Vec<NewVariable>,
) -> Result<Row> {
    refuse_maker(access)?;
    variables::check_all(&given)?;
    let reference = resolve(backend, access, ref_name).await?.ok_or_else(unknown)?;
    refuse_reference(backend, access, &reference).await?;
    let new = NewPipeline {
        project_id: access.project.id,
        reference,
        source: Source::Api,
        user_id: access.caller.signed_in()?.id,
        variables: given,
        trigger_id: None,
        schedule: None,
    };
    let made = backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, new.project_id).await?;
            insert(backend, transaction, new).await
        })
        .await?;
    with_user(backend.database.read(), made).await
}

/// What is told of a reference that is not there.
pub(in crate::services) fn unknown() -> Error {
    Error::attribute("base", "Reference not found")
}

/// The branch of a name or, without one, the tag; with or without `refs/heads/` or `refs/tags/`. None when there is neither.
///
/// # Errors
/// 400 for a blank name, and whatever the repository reports.
pub(in crate::services) async fn resolve(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
) -> Result<Option<Reference>> {
    if name.trim().is_empty() {
        return Err(Error::parameter("ref is empty"));
    }
    let repository = commits::open(backend, access);
    let (branch, tag) = match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
        (Some(branch), _) => (Some(branch), None),
        (_, Some(tag)) => (None, Some(tag)),
        _ => (Some(name), Some(name)),
    };
    if let Some(name) = branch {
        match repository.branch(name).await {
            Ok(found) => {
                return Ok(Some(Reference {
                    name: name.to_owned(),
                    tag: false,
                    sha: found.commit.to_string(),
                }));
            }
            Err(git::Error::BranchNotFound | git::Error::InvalidReferenceName) => {}
            Err(git::Error::RepositoryMissing) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
    }
    let Some(name) = tag else { return Ok(None) };
    match repository.tag(name).await {
        Ok(found) => Ok(found.commit.map(|commit| Reference {
            name: name.to_owned(),
            tag: true,
            sha: commit.to_string(),
        })),
        Err(git::Error::TagNotFound | git::Error::InvalidReferenceName | git::Error::RepositoryMissing) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// Refuses a protected branch into which the caller may neither push nor merge: jobs of such a branch get protected
/// variables.
///
/// # Errors
/// 403.
pub(in crate::services) async fn refuse_reference(
    backend: &Backend,
    access: &ProjectAccess,
    reference: &Reference,
) -> Result<()> {
    if reference.tag {
        return Ok(());
    }
    match push_rules::rules(backend, access)
        .await?
        .may_merge(&reference.name)
    {
        true => Ok(()),
        false => Err(Error::forbidden_because(
            "You are not allowed to run pipelines for this protected branch",
        )),
    }
}

/// Writes a pipeline with its variables, and tells hooks of it. The project is locked, the variables are checked, and whoever
/// makes it may.
///
/// # Errors
/// Whatever the database reports.
pub(in crate::services) async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    new: NewPipeline,
) -> Result<Model> {
    let at = now();
    let row = ActiveModel {
        project_id: Set(new.project_id),
        sha: Set(new.reference.sha),
        ref_name: Set(new.reference.name),
        tag: Set(new.reference.tag),
        source: Set(new.source),
        status: Set(Status::Pending),
        user_id: Set(Some(new.user_id)),
        trigger_id: Set(new.trigger_id),
        schedule_id: Set(new.schedule.map(|(id, _)| id)),
        scheduled_for: Set(new.schedule.and_then(|(_, time)| time)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let made = row.insert(transaction).await?;
    let mut given = new.variables;
    if freeze_periods::is_frozen(transaction, new.project_id, made.created_at).await? {
        given.retain(|variable| variable.key != FROZEN);
        given.push(NewVariable {
            key: FROZEN.to_owned(),
            value: Secret::new("true".to_owned()),
            kind: Kind::EnvVar,
        });
    }
    variables::insert(backend, transaction, made.id, given).await?;
    telling::pipeline(transaction, &made, &[], Some(new.user_id)).await?;
    progress::wake(transaction, &made).await?;
    Ok(made)
}
