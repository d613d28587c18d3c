//! Triggers: tokens by which systems outside start pipelines of a project, in the name of who made the trigger. The database
//! finds a token by its digest; the token itself is encrypted, as its owner may read it again.

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect, QueryTrait,
};
use storage::entities::ci_variables::Kind;
use storage::entities::pipeline_triggers as triggers;
use storage::entities::pipeline_triggers::{ActiveModel, Column, Entity, Model};
use storage::entities::pipelines::Source;
use storage::entities::{now, projects, users};

use crate::error::{Error, Result};
use crate::secrets::{self, Secret, Token};
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::{Caller, refuse_shut_out};
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::links;
use crate::services::listing::bounded_count;
use crate::services::pipelines::{self, NewPipeline, NewVariable};
use crate::services::preconditions;
use crate::services::projects::hold;

/// How many triggers a project may have.
const MOST: u64 = 100;

/// What secret scanners know the tokens by.
const PREFIX: &str = "hftrig-";

/// How much of a token others than its owner are shown: the prefix, and a few letters of what is secret.
const SHOWN: usize = PREFIX.len() + 4;

/// A pipeline that a trigger started.
#[derive(Debug, Clone)]
pub struct Started {
    /// The pipeline.
    pub row: pipelines::Row,
    /// The whole path of its project.
    pub path: String,
}

/// A trigger as the caller may see it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The trigger.
    pub trigger: Model,
    /// Who made it.
    pub owner: users::Model,
    /// The token for its owner, and how it begins for others.
    pub token: Secret<String>,
}

/// A page of the triggers of a project, the oldest first.
///
/// # Errors
/// Whatever the database reports, and when a token cannot be decrypted.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Row>> {
    let db = backend.database.read();
    let wanted = triggers::of_project(access.project.id);
    let total = bounded_count(db, wanted.clone().into_query()).await?;
    let found = wanted
        .find_also_related(users::Entity)
        .offset(page.offset())
        .limit(page.limit() + 1)
        .all(db)
        .await?;
    let rows = found
        .into_iter()
        .filter_map(|(trigger, owner)| Some(show(backend, access, trigger, owner?)));
    Ok(Page::new(page, rows.collect::<Result<_>>()?, total))
}

/// One trigger of a project.
///
/// # Errors
/// 404.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Row> {
    let found = triggers::of_project(access.project.id)
        .filter(Column::Id.eq(id))
        .find_also_related(users::Entity)
        .one(backend.database.read())
        .await?;
    match found {
        Some((trigger, Some(owner))) => show(backend, access, trigger, owner),
        _ => Err(missing()),
    }
}

/// Makes a trigger of the caller's.
///
/// # Errors
/// 400 for a blank description, and for more than a project may have.
pub async fn create(backend: &Backend, access: &ProjectAccess, description: String) -> Result<Row> {
    check(&description)?;
    let (project_id, owner) = (access.project.id, access.caller.signed_in()?);
    let token = Token::generate(PREFIX);
    let digest = token.digest();
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        owner_id: Set(owner.id),
        description: Set(description),
        token_encrypted: Set(backend.keyring.encrypt(token.expose(), &place(&digest))?),
        beginning: Set(token.expose().chars().take(SHOWN).collect()),
        digest: Set(digest),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let made = backend
        .database
        .transaction(async |transaction| {
            // One at a time, so that two cannot both be the last.
            hold(transaction, project_id).await?;
            if triggers::of_project(project_id).count(transaction).await? >= MOST {
                let text = format!("Maximum number of pipeline triggers ({MOST}) exceeded");
                return Err(Error::attribute("base", text));
            }
            Ok(row.insert(transaction).await?)
        })
        .await?;
    show(backend, access, made, owner.clone())
}

/// Changes what a trigger is for.
///
/// # Errors
/// 404, and 400 as [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    description: Option<String>,
) -> Result<Row> {
    description.as_deref().map(check).transpose()?;
    let project_id = access.project.id;
    backend
        .database
        .transaction(async |transaction| {
            let mut row = lock(transaction, project_id, id).await?.into_active_model();
            if let Some(description) = description {
                row.description = Set(description);
            }
            row.updated_at = Set(now());
            row.update(transaction).await?;
            Ok::<_, Error>(())
        })
        .await?;
    get(backend, access, id).await
}

/// Removes a trigger; its token is good for nothing from then on.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
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
            // Whoever starts a pipeline holds the project until that is written.
            projects::hold(transaction, project_id).await?;
            let row = lock(transaction, project_id, id).await?;
            preconditions::unmodified_since(unmodified_since, row.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Starts a pipeline by the token of a trigger of a project, which is named by number or whole path.
///
/// # Errors
/// 404 for a token that nobody knows, or of another project; 403 where its owner may not make pipelines; 400 for a reference
/// that is not there and for variables that break a rule.
pub async fn run(
    backend: &Backend,
    project: &str,
    token: Secret<String>,
    ref_name: &str,
    variables: impl IntoIterator<Item = (String, String)>,
) -> Result<Started> {
    let db = backend.database.read();
    let found = Entity::find()
        .filter(Column::Digest.eq(secrets::digest(token.expose())))
        .find_also_related(users::Entity)
        .one(db)
        .await?;
    let found = found.and_then(|(trigger, owner)| Some((trigger, owner?)));
    let Some((trigger, owner)) = found.filter(|(_, owner)| owner.deletion_started_at.is_none()) else {
        return Err(missing());
    };
    let named = projects::by_reference(db, project).await?;
    if named.is_none_or(|(named, _)| named.id != trigger.project_id) {
        return Err(missing());
    }
    refuse_shut_out(&owner)?;
    // An owner who sees the project no longer may not make pipelines either; that it is there, the token says.
    let access = ProjectAccess::find(backend, Caller::user(owner), &trigger.project_id.to_string()).await;
    let access = access.map_err(|error| match error {
        Error::NotFound(_) => Error::forbidden(),
        other => other,
    })?;
    pipelines::refuse_maker(&access)?;
    let variables = variables.into_iter().map(|(key, value)| NewVariable {
        key,
        value: Secret::new(value),
        kind: Kind::EnvVar,
    });
    let variables: Vec<NewVariable> = variables.collect();
    pipelines::check_variables(&variables)?;
    let reference = pipelines::resolve(backend, &access, ref_name).await?;
    let reference = reference.ok_or_else(pipelines::unknown)?;
    pipelines::refuse_reference(backend, &access, &reference).await?;
    let new = NewPipeline {
        project_id: trigger.project_id,
        reference,
        source: Source::Trigger,
        user_id: trigger.owner_id,
        variables,
        trigger_id: Some(trigger.id),
        schedule: None,
    };
    let made = backend
        .database
        .transaction(async |transaction| {
            if projects::hold(transaction, new.project_id).await?.is_none() {
                return Err(missing());
            }
            // Whether it was removed meanwhile.
            let mut row = lock(transaction, new.project_id, trigger.id)
                .await?
                .into_active_model();
            row.last_used_at = Set(Some(now()));
            row.update(transaction).await?;
            pipelines::insert(backend, transaction, new).await
        })
        .await?;
    Ok(Started {
        row: pipelines::with_user(backend.database.read(), made).await?,
        path: links::project_path(&access.namespace, &access.project),
    })
}

/// A trigger of a project, locked until the transaction ends.
async fn lock(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = triggers::of_project(project_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await?.ok_or_else(missing)
}

fn show(backend: &Backend, access: &ProjectAccess, trigger: Model, owner: users::Model) -> Result<Row> {
    let is_owner = access.caller.as_user().is_some_and(|user| user.id == owner.id);
    let token = match is_owner {
        true => backend
            .keyring
            .decrypt(&trigger.token_encrypted, &place(&trigger.digest))?,
        false => Secret::new(trigger.beginning.clone()),
    };
    Ok(Row {
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

/// Where a token stands, for which alone it can be decrypted.
fn place(digest: &str) -> String {
    format!("pipeline_triggers.token:{digest}")
}

fn missing() -> Error {
    Error::not_found("")
}
