//! Creates pipelines.

use chrono::{DateTime, Utc};
use sea_orm::{ActiveModelTrait, ActiveValue::Set, DatabaseTransaction};
use storage::entities::ci_variables::VariableKind;
use storage::entities::now;
use storage::entities::pipelines::{ActiveModel, BranchOrTag, Model, PipelineSource, PipelineStatus};

use super::variables::{self, NewVariable};
use super::{PipelineDetail, with_user};
use crate::code::repository_access;
use crate::code::{branch_protection, tag_protection};
use crate::delivery::access::check_can_create;
use crate::delivery::freeze_periods;
use crate::delivery::pipelines::{events, status};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::Secret;
use crate::spaces::projects;

/// Variable that marks a freeze period of the project.
const FREEZE_VARIABLE: &str = "CI_DEPLOY_FREEZE";

/// A branch or tag with its commit.
#[derive(Debug, Clone)]
pub(crate) struct PipelineRef {
    /// The short name.
    pub name: String,
    /// Whether it is a tag.
    pub tag: bool,
    /// The commit.
    pub sha: String,
}

impl PipelineRef {
    /// Returns the ref of a pipeline with the recorded commit, which may not be the current one.
    pub fn of(pipeline: &Model) -> Self {
        Self {
            name: pipeline.ref_name.clone(),
            tag: pipeline.tag,
            sha: pipeline.sha.clone(),
        }
    }

    /// Returns the branch or tag without the commit.
    pub fn branch_or_tag(&self) -> BranchOrTag<'_> {
        BranchOrTag {
            name: &self.name,
            tag: self.tag,
        }
    }
}

/// Attributes of a new pipeline.
#[derive(Debug, Clone)]
pub(crate) struct NewPipeline {
    /// The project.
    pub project_id: i64,
    /// The ref.
    pub reference: PipelineRef,
    /// The source of the pipeline.
    pub source: PipelineSource,
    /// The user who creates it.
    pub user_id: i64,
    /// The variables for its jobs.
    pub variables: Vec<NewVariable>,
    /// The trigger that creates it.
    pub trigger_id: Option<i64>,
    /// The schedule that creates it, and the scheduled time.
    pub schedule: Option<(i64, Option<DateTime<Utc>>)>,
}

/// Creates a pipeline for the head of a branch or tag.
///
/// # Errors
/// Returns a validation error if the ref does not exist or a variable is invalid. Returns `Forbidden` as
/// [`check_can_create`] and [`check_ref`].
pub async fn create(
    backend: &Backend,
    access: &ProjectAccess,
    ref_name: &str,
    given: Vec<NewVariable>,
) -> Result<PipelineDetail> {
    check_can_create(access)?;
    variables::check_all(&given)?;
    let reference = resolve_ref(backend, access, ref_name)
        .await?
        .ok_or_else(ref_not_found)?;
    check_ref(backend, access, &reference).await?;
    let new = NewPipeline {
        project_id: access.project.id,
        reference,
        source: PipelineSource::Api,
        user_id: access.caller.signed_in()?.id,
        variables: given,
        trigger_id: None,
        schedule: None,
    };
    let pipeline = backend
        .database
        .transaction(async |transaction| {
            projects::lock_for_insert(transaction, new.project_id).await?;
            insert(backend, transaction, new).await
        })
        .await?;
    with_user(backend.database.read(), pipeline).await
}

/// Returns the error of a missing ref.
pub(crate) fn ref_not_found() -> Error {
    Error::attribute("base", "Reference not found")
}

/// Returns the branch with a name or, without one, the tag. The prefixes `refs/heads/` and `refs/tags/` are
/// optional. Returns `None` if neither exists.
///
/// # Errors
/// Returns a validation error for a blank name, and an error if a Git operation fails.
pub(crate) async fn resolve_ref(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
) -> Result<Option<PipelineRef>> {
    if name.trim().is_empty() {
        return Err(Error::parameter("ref is empty"));
    }
    let repository = repository_access::open(backend, access);
    let (branch, tag) = match (name.strip_prefix("refs/heads/"), name.strip_prefix("refs/tags/")) {
        (Some(branch), _) => (Some(branch), None),
        (_, Some(tag)) => (None, Some(tag)),
        _ => (Some(name), Some(name)),
    };
    if let Some(name) = branch {
        match repository.branch(name).await {
            Ok(found) => {
                return Ok(Some(PipelineRef {
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
        Ok(found) => Ok(found.commit.map(|commit| PipelineRef {
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

/// Refuses a protected branch that the caller may neither push to nor merge into, and a protected tag that the caller
/// may not create, because its jobs get protected variables.
///
/// # Errors
/// Returns `Forbidden` for such a branch or tag.
pub(crate) async fn check_ref(
    backend: &Backend,
    access: &ProjectAccess,
    reference: &PipelineRef,
) -> Result<()> {
    if reference.tag {
        let rules = tag_protection::tag_rules(backend, access).await?;
        return match rules.can_create(&reference.name) {
            true => Ok(()),
            false => Err(Error::forbidden_because(
                "You are not allowed to run pipelines for this protected tag",
            )),
        };
    }
    match branch_protection::branch_rules(backend, access)
        .await?
        .can_merge(&reference.name)
    {
        true => Ok(()),
        false => Err(Error::forbidden_because(
            "You are not allowed to run pipelines for this protected branch",
        )),
    }
}

/// Inserts a pipeline with its variables, and enqueues webhook deliveries. The caller has locked the project,
/// and checked the variables and the permissions.
///
/// # Errors
/// Returns an error if a database query fails.
pub(crate) async fn insert(
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
        status: Set(PipelineStatus::Pending),
        user_id: Set(Some(new.user_id)),
        trigger_id: Set(new.trigger_id),
        schedule_id: Set(new.schedule.map(|(id, _)| id)),
        scheduled_for: Set(new.schedule.and_then(|(_, time)| time)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let pipeline = row.insert(transaction).await?;
    let mut given = new.variables;
    if freeze_periods::is_frozen(transaction, new.project_id, pipeline.created_at).await? {
        given.retain(|variable| variable.key != FREEZE_VARIABLE);
        given.push(NewVariable {
            key: FREEZE_VARIABLE.to_owned(),
            value: Secret::new("true".to_owned()),
            kind: VariableKind::EnvVar,
        });
    }
    variables::insert(backend, transaction, pipeline.id, given).await?;
    events::publish_pipeline(transaction, &pipeline, &[], Some(new.user_id)).await?;
    status::enqueue_auto_merges(transaction, &pipeline).await?;
    Ok(pipeline)
}
