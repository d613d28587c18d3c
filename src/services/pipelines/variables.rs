//! Variables of pipelines and of schedules: their values are encrypted at rest, and told in no log, error or hook.

use std::collections::HashSet;

use sea_orm::{ActiveValue::Set, DatabaseTransaction, EntityTrait};
use storage::entities::ci_variables::Kind;
use storage::entities::pipeline_variables::{self, ActiveModel, Entity};

use crate::error::{Error, Result};
use crate::secrets::Secret;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::kernel::page::{Page, PageRequest};
use crate::services::listing::page_of;
use crate::services::variables::rules;

/// How many variables a pipeline or a schedule may have.
pub(in crate::services) const MOST: u64 = 200;

/// A variable that jobs get.
#[derive(Debug, Clone)]
pub struct Variable {
    /// What it is called.
    pub key: String,
    /// What it holds.
    pub value: Secret<String>,
    /// What jobs get of it.
    pub kind: Kind,
}

impl Variable {
    /// One of which jobs get the value, unless another kind is said.
    #[must_use]
    pub fn new(key: String, value: Secret<String>, kind: Option<Kind>) -> Self {
        Self {
            key,
            value,
            kind: kind.unwrap_or(Kind::EnvVar),
        }
    }
}

/// A variable for a new pipeline.
pub type NewVariable = Variable;

/// The variables of a pipeline, in the order they were given.
///
/// # Errors
/// 404; 403 where pipelines are not there for the caller; and when a value cannot be decrypted.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    pipeline_id: i64,
    page: &PageRequest,
) -> Result<Page<Variable>> {
    super::refuse_reader(access)?;
    let db = backend.database.read();
    super::find(db, access.project.id, pipeline_id).await?;
    let page = page_of(db, pipeline_variables::of_pipeline(pipeline_id), page).await?;
    let rows = page.items.into_iter().map(|row| {
        Ok(Variable {
            value: open(backend, &row.value_encrypted, &place(pipeline_id, &row.key))?,
            key: row.key,
            kind: row.kind,
        })
    });
    Ok(Page {
        items: rows.collect::<Result<_>>()?,
        rest: page.rest,
    })
}

/// Refuses a key or a value that breaks a rule.
///
/// # Errors
/// 400 under the name of the attribute.
pub(in crate::services) fn check(key: Option<&str>, value: &Secret<String>) -> Result<()> {
    rules::check(key, value, false, "*")
}

/// Refuses variables of which one breaks a rule, two are called the same, or that are too many.
///
/// # Errors
/// 400 under the name of the attribute, or under `variables`.
pub(in crate::services) fn check_all(given: &[NewVariable]) -> Result<()> {
    if given.len() as u64 > MOST {
        let text = format!("are too many (maximum is {MOST})");
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

/// Writes the variables of a pipeline.
pub(super) async fn insert(
    backend: &Backend,
    transaction: &DatabaseTransaction,
    pipeline_id: i64,
    given: Vec<NewVariable>,
) -> Result<()> {
    if given.is_empty() {
        return Ok(());
    }
    let rows = given.into_iter().map(|variable| {
        Ok(ActiveModel {
            pipeline_id: Set(pipeline_id),
            value_encrypted: Set(seal(
                backend,
                &variable.value,
                &place(pipeline_id, &variable.key),
            )?),
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

/// Encrypts a value for the place where it is to stand.
///
/// # Errors
/// When it cannot be encrypted.
pub(in crate::services) fn seal(backend: &Backend, value: &Secret<String>, place: &str) -> Result<String> {
    Ok(backend.keyring.encrypt(value.expose(), place)?)
}

/// Decrypts a value that stands in a place.
///
/// # Errors
/// When it was encrypted for another place, or by another key.
pub(in crate::services) fn open(backend: &Backend, sealed: &str, place: &str) -> Result<Secret<String>> {
    Ok(backend.keyring.decrypt(sealed, place)?)
}

/// Where a value stands, for which alone it can be decrypted.
fn place(pipeline_id: i64, key: &str) -> String {
    format!("pipeline_variables.value:{pipeline_id}:{key}")
}
