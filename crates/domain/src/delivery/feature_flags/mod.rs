//! Feature flags of projects. [`changes`] updates them, [`rules`] validates flags and strategies, and [`strategies`]
//! reads strategies.

mod changes;
mod rules;
mod strategies;

pub use changes::{FlagUpdate, NewFlag, ScopeUpdate, StrategyUpdate, create, delete, update};

use std::sync::Arc;

use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::feature_flags::{self, Column, Model};
use storage::entities::{feature_flag_scopes, feature_flag_strategies, feature_flag_user_lists};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_with_texts;

/// A flag with its strategies.
#[derive(Debug, Clone)]
pub struct FlagDetail {
    /// The flag.
    pub flag: Model,
    /// Its strategies, oldest first.
    pub strategies: Vec<StrategyDetail>,
}

/// A strategy with its related rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StrategyDetail {
    /// The strategy.
    pub strategy: feature_flag_strategies::Model,
    /// Its environment scopes.
    pub scopes: Vec<feature_flag_scopes::Model>,
    /// Its user list, if any. Strategies with the same list share it.
    pub user_list: Option<Arc<feature_flag_user_lists::Model>>,
}

/// Returns a page of a project's flags, oldest first, optionally filtered by `active`.
///
/// # Errors
/// Returns `Error::Forbidden` if the feature flags are not available to the caller. Returns `Error::Overloaded` if too
/// little memory is left for the strategies.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    active: Option<bool>,
    page: &PageRequest,
) -> Result<Page<FlagDetail>> {
    access.check_feature_flags()?;
    let db = backend.database.read();
    let mut query = feature_flags::of_project(access.project.id);
    if let Some(active) = active {
        query = query.filter(Column::Active.eq(active));
    }
    let Page { items, rest } = page_with_texts(db, &access.caller, query, page).await?;
    let items = details(db, &access.caller, items, None).await?;
    Ok(Page { items, rest })
}

/// Returns one flag of a project, by name.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project. Otherwise fails like [`list`].
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<FlagDetail> {
    access.check_feature_flags()?;
    let db = backend.database.read();
    let found = feature_flags::of_project(access.project.id).filter(Column::Name.eq(name));
    let flag = found.one(db).await?.ok_or_else(not_found)?;
    detail(db, &access.caller, flag).await
}

async fn detail(db: &impl ConnectionTrait, caller: &Caller, flag: Model) -> Result<FlagDetail> {
    let found = details(db, caller, vec![flag], None).await?;
    found.into_iter().next().ok_or_else(not_found)
}

/// Reads the strategies of flags; with an environment, only those that apply to it.
pub(super) async fn details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    flags: Vec<Model>,
    environment: Option<&str>,
) -> Result<Vec<FlagDetail>> {
    let ids = flags.iter().map(|flag| flag.id).collect();
    let mut of_flags = strategies::of_flags(db, caller, ids, environment).await?;
    let details = flags.into_iter().map(|flag| FlagDetail {
        strategies: of_flags.remove(&flag.id).unwrap_or_default(),
        flag,
    });
    Ok(details.collect())
}

fn not_found() -> Error {
    Error::not_found("")
}
