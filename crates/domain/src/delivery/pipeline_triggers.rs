//! Pipeline triggers: tokens with which external systems start pipelines as the user who created the trigger.
//! A token is looked up by its digest. The token itself is stored encrypted, because its owner may read it
//! again.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::ci_variables::VariableKind;
use storage::entities::pipeline_triggers as triggers;
use storage::entities::pipeline_triggers::{ActiveModel, Column, Entity, Model};
use storage::entities::pipelines::PipelineSource;
use storage::entities::{now, projects, row_changes, users};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::delivery::access::check_can_create;
use crate::delivery::pipelines::{self, NewPipeline, NewVariable};
use crate::identity::access::ProjectAccess;
use crate::identity::authentication::check_account_active;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::count_for_page;
use crate::kernel::urls;
use crate::secrets::{self, EncryptedColumn, EncryptionContext, Secret, Token};
use crate::spaces::projects::lock_for_insert;

/// Maximum number of triggers of a project.
const MAX_TRIGGERS: u64 = 100;

/// Prefix of tokens, which secret scanners recognize.
const PREFIX: &str = "hftrig-";

/// Length of the token that others than its owner see: the prefix and four secret characters.
const VISIBLE_TOKEN_LENGTH: usize = PREFIX.len() + 4;

/// A pipeline started by a trigger.
#[derive(Debug, Clone)]
pub struct TriggeredPipeline {
    /// The pipeline.
    pub row: pipelines::PipelineDetail,
    /// The full path of its project.
    pub path: String,
}

/// A trigger as displayed to the caller.
#[derive(Debug, Clone)]
pub struct TriggerDetail {
    /// The trigger.
    pub trigger: Model,
    /// The user who created it.
    pub owner: users::Model,
    /// The full token for its owner, the start of it for others.
    pub token: Secret<String>,
}

/// Lists the triggers of a project, oldest first.
///
/// # Errors
/// Returns an error if a database query fails or a token cannot be decrypted.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<TriggerDetail>> {
    let db = backend.database.read();
    let query = triggers::of_project(access.project.id);
    let all = query.clone().into_query();
    let found = query
        .find_also_related(users::Entity)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let total = count_for_page(db, page, found.len(), all).await?;
    let rows = found
        .into_iter()
        .filter_map(|(trigger, owner)| Some(detail(backend, access, trigger, owner?)));
    Ok(Page::new(page, rows.collect::<Result<_>>()?, total))
}

/// Returns a trigger of a project.
///
/// # Errors
/// Returns `NotFound` if the trigger does not exist.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<TriggerDetail> {
    let found = triggers::of_project(access.project.id)
        .filter(Column::Id.eq(id))
        .find_also_related(users::Entity)
        .one(backend.database.read())
        .await?;
    match found {
        Some((trigger, Some(owner))) => detail(backend, access, trigger, owner),
        _ => Err(not_found()),
    }
}

/// Creates a trigger owned by the caller.
///
/// # Errors
/// Returns a validation error for a blank description and beyond the maximum number of triggers.
pub async fn create(backend: &Backend, access: &ProjectAccess, description: String) -> Result<TriggerDetail> {
    check(&description)?;
    let (project_id, owner) = (access.project.id, access.caller.signed_in()?);
    let token = Token::generate(PREFIX);
    let digest = token.digest();
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        owner_id: Set(owner.id),
        description: Set(description),
        beginning: Set(token.expose().chars().take(VISIBLE_TOKEN_LENGTH).collect()),
        digest: Set(digest.clone()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let created = backend
        .database
        .transaction(async |transaction| {
            // Lock the project, so that two requests cannot exceed the limit together.
            lock_for_insert(transaction, project_id).await?;
            if triggers::of_project(project_id).count(transaction).await? >= MAX_TRIGGERS {
                let text = format!("Maximum number of pipeline triggers ({MAX_TRIGGERS}) exceeded");
                return Err(Error::attribute("base", text));
            }
            let encryptor = backend.keyring.encryptor(transaction).await?;
            row.token_encrypted = Set(encryptor.encrypt(token.expose(), &token_context(&digest))?);
            let trigger = row.insert(transaction).await?;
            let event = event(AuditKind::PipelineTriggerCreated, access, &trigger);
            audit::record(transaction, &access.caller, event).await?;
            Ok(trigger)
        })
        .await?;
    detail(backend, access, created, owner.clone())
}

/// Updates the description of a trigger.
///
/// # Errors
/// Returns `NotFound` if the trigger does not exist, and a validation error as [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    description: Option<String>,
) -> Result<TriggerDetail> {
    description.as_deref().map(check).transpose()?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            let former = lock(transaction, project_id, id).await?;
            let mut row = former.clone().into_active_model();
            if let Some(description) = description {
                row.description = Set(description);
            }
            let trigger = row_changes::update_if_changed(transaction, &former, row).await?;
            if trigger == former {
                return Ok(());
            }
            let event = event(AuditKind::PipelineTriggerChanged, access, &trigger);
            audit::record(transaction, &access.caller, event).await
        })
        .await?;
    get(backend, access, id).await
}

/// Deletes a trigger and invalidates its token.
///
/// # Errors
/// Returns `NotFound` if the trigger does not exist, or `PreconditionFailed` if it was modified after the
/// given date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            // The start of a pipeline locks the project until it is committed.
            projects::lock_for_insert(transaction, project_id).await?;
            let row = lock(transaction, project_id, id).await?;
            preconditions::check_unmodified_since(unmodified_since, row.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            let event = event(AuditKind::PipelineTriggerDeleted, access, &row);
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

fn event(kind: AuditKind, access: &ProjectAccess, trigger: &Model) -> AuditEvent {
    let target = AuditTarget::new("PipelineTrigger", trigger.id, trigger.description.clone());
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Starts a pipeline with the token of a trigger of a project, which is given by ID or full path.
///
/// # Errors
/// Returns `NotFound` for an unknown token or one of another project, and `Forbidden` if its owner cannot
/// create pipelines. Returns a validation error if the ref does not exist or a variable is invalid.
pub async fn run(
    backend: &Backend,
    project: &str,
    token: Secret<String>,
    ref_name: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<TriggeredPipeline> {
    let db = backend.database.read();
    let found = Entity::find()
        .filter(Column::Digest.eq(secrets::digest(token.expose())))
        .find_also_related(users::Entity)
        .one(db)
        .await?;
    let found = found.and_then(|(trigger, owner)| Some((trigger, owner?)));
    let Some((trigger, owner)) = found.filter(|(_, owner)| owner.deletion_started_at.is_none()) else {
        return Err(not_found());
    };
    let named = projects::by_reference(db, project).await?;
    if named.is_none_or(|(named, _)| named.id != trigger.project_id) {
        return Err(not_found());
    }
    check_account_active(&owner)?;
    // An owner without access to the project cannot create pipelines. The token proves knowledge of the
    // project, so this returns 403 instead of 404.
    let access = ProjectAccess::find(backend, Caller::user(owner), &trigger.project_id.to_string()).await;
    let access = access.map_err(|error| match error {
        Error::NotFound(_) => Error::forbidden(),
        other => other,
    })?;
    check_can_create(&access)?;
    let variables = variables.into_iter().map(|(key, value)| NewVariable {
        key,
        value: Secret::new(value),
        kind: VariableKind::EnvVar,
    });
    let variables: Vec<NewVariable> = variables.collect();
    pipelines::check_variables(&variables)?;
    let reference = pipelines::resolve_ref(backend, &access, ref_name).await?;
    let reference = reference.ok_or_else(pipelines::ref_not_found)?;
    pipelines::check_ref(backend, &access, &reference).await?;
    let new = NewPipeline {
        project_id: trigger.project_id,
        reference,
        source: PipelineSource::Trigger,
        user_id: trigger.owner_id,
        variables,
        trigger_id: Some(trigger.id),
        schedule: None,
    };
    let created = backend
        .database
        .transaction(async |transaction| {
            if projects::lock_for_insert(transaction, new.project_id)
                .await?
                .is_none()
            {
                return Err(not_found());
            }
            // Fails if the trigger was deleted concurrently.
            let mut row = lock(transaction, new.project_id, trigger.id)
                .await?
                .into_active_model();
            row.last_used_at = Set(Some(now()));
            row.update(transaction).await?;
            pipelines::insert(backend, transaction, new).await
        })
        .await?;
    Ok(TriggeredPipeline {
        row: pipelines::with_user(backend.database.read(), created).await?,
        path: urls::project_path(&access.namespace, &access.project),
    })
}

/// Returns a trigger of a project, locked until the transaction ends.
async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = triggers::of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await?.ok_or_else(not_found)
}

fn detail(
    backend: &Backend,
    access: &ProjectAccess,
    trigger: Model,
    owner: users::Model,
) -> Result<TriggerDetail> {
    let is_owner = access.caller.as_user().is_some_and(|user| user.id == owner.id);
    let token = match is_owner {
        true => backend
            .keyring
            .decrypt(&trigger.token_encrypted, &token_context(&trigger.digest))?,
        false => Secret::new(trigger.beginning.clone()),
    };
    Ok(TriggerDetail {
        trigger,
        owner,
        token,
    })
}

fn check(description: impl AsRef<str>) -> Result<()> {
    match description.as_ref().trim().is_empty() {
        true => Err(Error::attribute("description", "can't be blank")),
        false => Ok(()),
    }
}

/// Returns the context that an encrypted token is bound to.
fn token_context(digest: &str) -> EncryptionContext {
    EncryptedColumn::TriggerToken.context(&[&digest])
}

fn not_found() -> Error {
    Error::not_found("")
}
