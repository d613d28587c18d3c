//! Variables of pipelines and of schedules. Their values are encrypted at rest and never appear in logs,
//! errors or webhooks.

use std::collections::HashSet;

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::entities::ci_variables::VariableKind;
use storage::entities::pipeline_variables::{self, ActiveModel, Entity};

use crate::delivery::access::check_can_read;
use crate::delivery::variables::rules;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};

/// Maximum number of variables of a pipeline or a schedule.
pub(crate) const MAX_VARIABLES: u64 = 200;

/// A variable for jobs.
#[derive(Debug, Clone)]
pub struct Variable {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Secret<String>,
    /// Whether jobs get the value or a file with it.
    pub kind: VariableKind,
}

impl Variable {
    /// Creates a variable, by default of the kind that passes the value.
    #[must_use]
    pub fn new(key: String, value: Secret<String>, kind: Option<VariableKind>) -> Self {
        Self {
            key,
            value,
            kind: kind.unwrap_or(VariableKind::EnvVar),
        }
    }
}

/// A variable for a new pipeline.
pub type NewVariable = Variable;

/// Lists the variables of a pipeline in their original order.
///
/// # Errors
/// Returns `NotFound` if the pipeline does not exist and `Forbidden` if pipelines are not visible to the
/// caller. Fails if a value cannot be decrypted.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    pipeline_id: i64,
    page: &PageRequest,
) -> Result<Page<Variable>> {
    check_can_read(access)?;
    let db = backend.database.read();
    super::find(db, access.project.id, pipeline_id).await?;
    let page = page_of(db, pipeline_variables::of_pipeline(pipeline_id), page).await?;
    let rows = page.items.into_iter().map(|row| {
        Ok(Variable {
            value: decrypt(
                backend,
                &row.value_encrypted,
                &value_context(pipeline_id, &row.key),
            )?,
            key: row.key,
            kind: row.kind,
        })
    });
    Ok(Page {
        items: rows.collect::<Result<_>>()?,
        rest: page.rest,
    })
}

/// Validates a key and a value.
///
/// # Errors
/// Returns a validation error for the attribute.
pub(crate) fn check(key: Option<&str>, value: &Secret<String>) -> Result<()> {
    rules::check(key, value, false, "*")
}

/// Validates the variables, their uniqueness and their number.
///
/// # Errors
/// Returns a validation error for the attribute, or for `variables`.
pub(crate) fn check_all(given: &[NewVariable]) -> Result<()> {
    if given.len() as u64 > MAX_VARIABLES {
        let text = format!("are too many (maximum is {MAX_VARIABLES})");
        return Err(Error::attribute("variables", text));
    }
    let mut keys = HashSet::new();
    for variable in given {
        check(Some(&variable.key), &variable.value)?;
        if !keys.insert(&variable.key) {
            let text = format!("have duplicate values ({})", variable.key);
            return Err(Error::attribute("variables", text));
        }
    }
    Ok(())
}

/// Inserts the variables of a pipeline.
pub(super) async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    pipeline_id: i64,
    given: Vec<NewVariable>,
) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let encryptor = backend.keyring.encryptor(transaction).await?;
    let rows = given.into_iter().map(|variable| {
        let context = value_context(pipeline_id, &variable.key);
        Ok(ActiveModel {
            pipeline_id: Set(pipeline_id),
            value_encrypted: Set(encryptor.encrypt(variable.value.expose(), &context)?),
            key: Set(variable.key),
            kind: Set(variable.kind),
            ..Default::default()
        })
    });
    let rows: Vec<ActiveModel> = rows.collect::<Result<_>>()?;
    Entity::insert_many(rows)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}

/// Decrypts a value of a context.
///
/// # Errors
/// Returns an error if the value was encrypted for another context or with another key.
pub(crate) fn decrypt(
    backend: &Backend,
    sealed: &str,
    context: &EncryptionContext,
) -> Result<Secret<String>> {
    Ok(backend.keyring.decrypt(sealed, context)?)
}

/// Returns the context that an encrypted value is bound to.
fn value_context(pipeline_id: i64, key: &str) -> EncryptionContext {
    EncryptedColumn::PipelineVariableValue.context(&[&pipeline_id, &key])
}
