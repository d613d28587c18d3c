//! Feature flags of projects. [`changes`] updates them, and [`rules`] validates flags and strategies.

mod changes;
mod rules;

pub use changes::{FlagUpdate, NewFlag, ScopeUpdate, StrategyUpdate, create, delete, update};

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, QueryFilter};
use storage::entities::feature_flags::{self, Column, Model};
use storage::entities::{feature_flag_scopes, feature_flag_strategies, feature_flag_user_lists};

use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;

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
    /// Its user list, if any.
    pub user_list: Option<feature_flag_user_lists::Model>,
}

/// Returns a page of a project's flags, oldest first, optionally filtered by `active`.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    active: Option<bool>,
    page: &PageRequest,
) -> Result<Page<FlagDetail>> {
    let db = backend.database.read();
    let mut query = feature_flags::of_project(access.project.id);
    if let Some(active) = active {
        query = query.filter(Column::Active.eq(active));
    }
    let Page { items, rest } = page_of(db, query, page).await?;
    let items = details(db, items).await?;
    Ok(Page { items, rest })
}

/// Returns one flag of a project, by name.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, name: &str) -> Result<FlagDetail> {
    let db = backend.database.read();
    let found = feature_flags::of_project(access.project.id).filter(Column::Name.eq(name));
    detail(db, found.one(db).await?.ok_or_else(not_found)?).await
}

async fn detail(db: &impl ConnectionTrait, flag: Model) -> Result<FlagDetail> {
    let found = details(db, vec![flag]).await?;
    found.into_iter().next().ok_or_else(not_found)
}

/// Loads the strategies of flags, in two statements.
pub(super) async fn details(db: &impl ConnectionTrait, flags: Vec<Model>) -> Result<Vec<FlagDetail>> {
    let of_flags = feature_flag_strategies::of_flags(flags.iter().map(|flag| flag.id));
    let strategies = match flags.is_empty() {
        true => Vec::new(),
        false => {
            let with_lists = of_flags.find_also_related(feature_flag_user_lists::Entity);
            with_lists.all(db).await?
        }
    };
    let of_strategies = feature_flag_scopes::of_strategies(strategies.iter().map(|(one, _)| one.id));
    let mut scopes: HashMap<i64, Vec<feature_flag_scopes::Model>> = HashMap::new();
    if !strategies.is_empty() {
        for scope in of_strategies.all(db).await? {
            scopes.entry(scope.strategy_id).or_default().push(scope);
        }
    }
    let mut of_flag: HashMap<i64, Vec<StrategyDetail>> = HashMap::new();
    for (strategy, user_list) in strategies {
        of_flag
            .entry(strategy.feature_flag_id)
            .or_default()
            .push(StrategyDetail {
                scopes: scopes.remove(&strategy.id).unwrap_or_default(),
                user_list,
                strategy,
            });
    }
    let details = flags.into_iter().map(|flag| FlagDetail {
        strategies: of_flag.remove(&flag.id).unwrap_or_default(),
        flag,
    });
    Ok(details.collect())
}

fn not_found() -> Error {
    Error::not_found("")
}
