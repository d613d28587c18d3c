//! CI/CD variables of the instance, of projects and of groups. Their values are encrypted at rest and never
//! appear in logs or errors. [`rules`] validates them.

pub(crate) mod rules;

pub(crate) use rules::{
    environment_name_faults as faults_of_environment, scope_faults as faults_of_environment_scope,
};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::ci_variables::{self, ActiveModel, Column, Entity, INSTANCE_ID, Model, VariableKind};
use storage::entities::{Scope, now, row_changes};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::{GroupAccess, InstanceAccess, ProjectAccess};
use crate::identity::space_access;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::page_of;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// Default environment scope: all environments.
const ALL_ENVIRONMENTS: &str = "*";

/// Owner of variables that the caller may access: the instance, a project or a group.
#[derive(Debug, Clone, Copy)]
pub struct VariableOwner(Option<Scope>);

impl From<InstanceAccess> for VariableOwner {
    fn from(_: InstanceAccess) -> Self {
        Self(None)
    }
}

impl From<ProjectAccess> for VariableOwner {
    fn from(access: ProjectAccess) -> Self {
        Self(Some(Scope::Project(access.project.id)))
    }
}

impl From<GroupAccess> for VariableOwner {
    fn from(access: GroupAccess) -> Self {
        Self(Some(Scope::Group(access.group.id)))
    }
}

/// A variable with its value.
#[derive(Debug, Clone)]
pub struct VariableDetail {
    /// The variable.
    pub variable: Model,
    /// The value.
    pub value: Secret<String>,
}

/// Attributes of a variable; absent ones are unchanged, or get the default for a new variable.
#[derive(Debug, Clone, Default)]
pub struct VariableUpdate {
    /// The value.
    pub value: Option<Secret<String>>,
    /// Whether jobs get the value or a file with it.
    pub kind: Option<VariableKind>,
    /// Whether only jobs of protected branches and tags get it.
    pub protected: Option<bool>,
    /// Whether job logs mask the value.
    pub masked: Option<bool>,
    /// Whether a new variable cannot be read again, which is not supported.
    pub masked_and_hidden: bool,
    /// The environment scope.
    pub environment_scope: Option<String>,
}

/// Identifies a variable of an owner.
#[derive(Debug, Clone)]
pub struct VariableKey {
    /// The key.
    pub key: String,
    /// The environment scope, which distinguishes variables with the same key.
    pub environment_scope: Option<String>,
}

/// The owner whose variables are changed, and the author of the change.
#[derive(Debug, Clone)]
pub struct VariableEditor {
    owner: VariableOwner,
    actor: Actor,
    entity: AuditEntity,
}

impl From<InstanceAccess> for VariableEditor {
    fn from(access: InstanceAccess) -> Self {
        Self {
            actor: Actor::from(&access.caller),
            entity: AuditEntity::instance(),
            owner: access.into(),
        }
    }
}

impl From<GroupAccess> for VariableEditor {
    fn from(access: GroupAccess) -> Self {
        Self {
            actor: Actor::from(&access.caller),
            entity: access.audit_entity(),
            owner: access.into(),
        }
    }
}

impl From<ProjectAccess> for VariableEditor {
    fn from(access: ProjectAccess) -> Self {
        Self {
            actor: Actor::from(&access.caller),
            entity: access.audit_entity(),
            owner: access.into(),
        }
    }
}

impl VariableEditor {
    async fn record(
        &self,
        transaction: &DatabaseTransaction,
        kind: AuditKind,
        variable: &Model,
    ) -> Result<()> {
        let text = format!("{} ({})", variable.key, variable.environment_scope);
        let event = AuditEvent::new(
            kind,
            self.entity.clone(),
            AuditTarget::new("Variable", variable.id, text),
        );
        audit::record(transaction, &self.actor, event).await
    }
}

/// Lists the variables of an owner, oldest first.
///
/// # Errors
/// Returns an error if a database query fails or a value cannot be decrypted.
pub async fn list(
    backend: &Backend,
    holder: VariableOwner,
    page: &PageRequest,
) -> Result<Page<VariableDetail>> {
    let page = page_of(backend.database.read(), ci_variables::within(holder.0), page).await?;
    let rows: Result<Vec<VariableDetail>> = page.items.into_iter().map(|row| decrypt(backend, row)).collect();
    Ok(Page {
        items: rows?,
        rest: page.rest,
    })
}

/// Returns a variable of an owner.
///
/// # Errors
/// Returns `NotFound` if the variable does not exist, and `Conflict` if several match.
pub async fn get(backend: &Backend, holder: VariableOwner, name: &VariableKey) -> Result<VariableDetail> {
    let variable = find(backend.database.read(), holder, name, false).await?;
    decrypt(backend, variable)
}

/// Creates a variable.
///
/// # Errors
/// Returns a validation error for each invalid attribute, for a duplicate key and beyond the maximum number
/// of variables.
pub async fn create(
    backend: &Backend,
    editor: VariableEditor,
    key: String,
    change: VariableUpdate,
) -> Result<VariableDetail> {
    // A caller who asks for a hidden value must not store one that others can read.
    if change.masked_and_hidden {
        return Err(Error::attribute(
            "masked_and_hidden",
            "is not supported; use masked",
        ));
    }
    let holder = editor.owner;
    let value = change.value.unwrap_or_default();
    let scope = change
        .environment_scope
        .unwrap_or_else(|| ALL_ENVIRONMENTS.to_owned());
    let masked = change.masked.unwrap_or(false);
    rules::check(Some(&key), &value, masked, &scope)?;
    let at = now();
    let row = ActiveModel {
        instance: Set(holder.0.is_none().then_some(INSTANCE_ID)),
        project_id: Set(holder.0.and_then(Scope::project_id)),
        namespace_id: Set(holder.0.and_then(Scope::namespace_id)),
        key: Set(key.clone()),
        environment_scope: Set(scope),
        value_encrypted: Set(String::new()),
        kind: Set(change.kind.unwrap_or(VariableKind::EnvVar)),
        protected: Set(change.protected.unwrap_or(false)),
        masked: Set(masked),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let variable = backend
        .database
        .transaction(async |transaction| {
            check_limit(transaction, holder).await?;
            let variable = row.insert(transaction).await;
            // The value is encrypted for the ID of the row, which is known only now.
            let variable = variable.map_err(|error| map_insert_error(error, &key))?;
            let encryptor = backend.keyring.encryptor(transaction).await?;
            let mut sealed = variable.clone().into_active_model();
            sealed.value_encrypted = Set(encryptor.encrypt(value.expose(), &value_context(variable.id))?);
            let variable = sealed.update(transaction).await?;
            editor
                .record(transaction, AuditKind::VariableCreated, &variable)
                .await?;
            Ok::<_, Error>(variable)
        })
        .await?;
    decrypt(backend, variable)
}

/// Updates a variable.
///
/// # Errors
/// Returns `NotFound` if the variable does not exist, `Conflict` if several match, and a validation error as
/// [`create`].
pub async fn update(
    backend: &Backend,
    editor: VariableEditor,
    name: &VariableKey,
    change: VariableUpdate,
) -> Result<VariableDetail> {
    let changed = backend
        .database
        .transaction(async |transaction| {
            let variable = find(transaction, editor.owner, name, true).await?;
            let (id, mut row) = (variable.id, variable.clone().into_active_model());
            // A value that no key decrypts can be replaced.
            let stored = decrypt(backend, variable.clone()).map(|detail| detail.value);
            let new_value = change.value.filter(|value| {
                !stored
                    .as_ref()
                    .is_ok_and(|stored| stored.expose() == value.expose())
            });
            let value = match &new_value {
                Some(value) => value.clone(),
                None => stored?,
            };
            let masked = change.masked.unwrap_or(variable.masked);
            let former_scope = variable.environment_scope.clone();
            let scope = change.environment_scope.unwrap_or(former_scope);
            rules::check(None, &value, masked, &scope)?;
            if new_value.is_some() {
                let encryptor = backend.keyring.encryptor(transaction).await?;
                row.value_encrypted = Set(encryptor.encrypt(value.expose(), &value_context(id))?);
            }
            row.kind = Set(change.kind.unwrap_or(variable.kind));
            row.protected = Set(change.protected.unwrap_or(variable.protected));
            (row.masked, row.environment_scope) = (Set(masked), Set(scope));
            let changed = row_changes::update_if_changed(transaction, &variable, row).await;
            let changed = changed.map_err(|error| map_insert_error(error, &name.key))?;
            if variable != changed {
                editor
                    .record(transaction, AuditKind::VariableChanged, &changed)
                    .await?;
            }
            Ok::<_, Error>(changed)
        })
        .await?;
    decrypt(backend, changed)
}

/// Deletes a variable.
///
/// # Errors
/// Returns `NotFound` if the variable does not exist, `Conflict` if several match, and `PreconditionFailed`
/// if it was modified after the given date.
pub async fn delete(
    backend: &Backend,
    editor: VariableEditor,
    name: &VariableKey,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let variable = find(transaction, editor.owner, name, true).await?;
            preconditions::check_unmodified_since(unmodified_since, variable.updated_at)?;
            Entity::delete_by_id(variable.id).exec(transaction).await?;
            editor
                .record(transaction, AuditKind::VariableDeleted, &variable)
                .await
        })
        .await
}

async fn find(
    db: &impl ConnectionTrait,
    holder: VariableOwner,
    name: &VariableKey,
    lock: bool,
) -> Result<Model> {
    let mut query = ci_variables::within(holder.0).filter(Column::Key.eq(&name.key));
    if let Some(scope) = &name.environment_scope {
        query = query.filter(Column::EnvironmentScope.eq(scope));
    }
    if lock {
        query = query.lock_exclusive();
    }
    let mut found = query.limit(2).all(db).await?.into_iter();
    match (found.next(), found.next()) {
        (Some(variable), None) => Ok(variable),
        (Some(_), Some(_)) => Err(Error::Conflict(
            "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'"
                .into(),
        )),
        (None, _) => Err(Error::not_found(match holder.0 {
            None => "InstanceVariable",
            Some(Scope::Project(_)) => "Variable",
            Some(Scope::Group(_)) => "GroupVariable",
        })),
    }
}

/// Checks that the maximum number of variables is not reached. Concurrent additions wait.
async fn check_limit(transaction: &DatabaseTransaction, holder: VariableOwner) -> Result<()> {
    match holder.0 {
        Some(scope) => space_access::lock(transaction, scope).await?,
        // The instance has no row to lock. Concurrent additions near the limit lock the existing variables
        // instead.
        None => {
            ci_variables::within(None)
                .lock_exclusive()
                .all(transaction)
                .await?;
        }
    }
    let (most, of) = rules::max_variables(holder.0);
    if ci_variables::within(holder.0).count(transaction).await? >= most {
        let text = format!("Maximum number of {of} variables ({most}) exceeded");
        return Err(Error::attribute("base", text));
    }
    Ok(())
}

/// Maps the error of an insert.
fn map_insert_error(error: DbErr, key: &str) -> Error {
    match Violation::of(&error) {
        Some(Violation::Unique(_)) => Error::attribute("key", format!("({key}) has already been taken")),
        _ => error.into(),
    }
}

fn decrypt(backend: &Backend, variable: Model) -> Result<VariableDetail> {
    let value = backend
        .keyring
        .decrypt(&variable.value_encrypted, &value_context(variable.id))?;
    Ok(VariableDetail { variable, value })
}

/// Returns the context that an encrypted value is bound to.
fn value_context(id: i64) -> EncryptionContext {
    EncryptedColumn::CiVariableValue.context(&[&id])
}
