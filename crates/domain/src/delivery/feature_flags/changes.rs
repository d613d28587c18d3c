//! Creates, updates and deletes feature flags. Changes of strategies lock their flag.

use std::collections::{BTreeSet, HashMap};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::feature_flag_strategies as strategies;
use storage::entities::feature_flag_strategies::StrategyKind;
use storage::entities::feature_flags::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{feature_flag_scopes as scopes, feature_flag_user_lists, now, row_changes};

use crate::delivery::feature_flags::rules::{self, StrategyParameters};
use crate::delivery::feature_flags::{FlagDetail, StrategyDetail, detail, not_found};
use crate::delivery::variables;
use crate::identity::access::ProjectAccess;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::{Backend, preconditions};
use crate::spaces::projects;

/// Default environment scope of a strategy: all environments.
const ALL_ENVIRONMENTS: &str = "*";

/// Attributes of a new flag.
#[derive(Debug, Clone, Default)]
pub struct NewFlag {
    /// Name of the flag.
    pub name: String,
    /// Description of the flag.
    pub description: Option<String>,
    /// Whether the flag is active.
    pub active: bool,
    /// Strategies of the flag, without IDs.
    pub strategies: Vec<StrategyUpdate>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct FlagUpdate {
    /// Name of the flag.
    pub name: Option<String>,
    /// Description; `Some(None)` removes it.
    pub description: Option<Option<String>>,
    /// Whether the flag is active.
    pub active: Option<bool>,
    /// Strategies to change. Strategies that are not listed stay.
    pub strategies: Vec<StrategyUpdate>,
}

/// A change to an existing strategy, if it has an ID, or a new strategy.
#[derive(Debug, Clone, Default)]
pub struct StrategyUpdate {
    /// ID of the strategy.
    pub id: Option<i64>,
    /// Whether to delete it.
    pub remove: bool,
    /// Kind of the strategy.
    pub kind: Option<StrategyKind>,
    /// Parameters of the strategy.
    pub parameters: Option<StrategyParameters>,
    /// ID of the user list; `Some(None)` removes it.
    pub user_list_id: Option<Option<i64>>,
    /// Environment scopes to change. Scopes that are not listed stay.
    pub scopes: Vec<ScopeUpdate>,
}

/// A change to an existing scope, if it has an ID, or a new scope.
#[derive(Debug, Clone, Default)]
pub struct ScopeUpdate {
    /// ID of the scope.
    pub id: Option<i64>,
    /// Whether to delete it.
    pub remove: bool,
    /// Pattern of environment names.
    pub environment_scope: Option<String>,
}

/// Creates a flag.
///
/// # Errors
/// Returns `Error::InvalidAttributes` or `Error::InvalidParameters` if an attribute is invalid or the name is taken.
/// Returns `Error::Rejected` if the project has too many flags. Returns `Error::Overloaded` if too little memory is
/// left for the strategies. Returns `Error::Forbidden` if the feature flags are not available to the caller.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewFlag) -> Result<FlagDetail> {
    access.check_feature_flags()?;
    rules::check_name(&new.name)?;
    let project_id = access.project.id;
    let at = now();
    let flag = ActiveModel {
        project_id: Set(project_id),
        name: Set(new.name),
        description: Set(new.description),
        active: Set(new.active),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            projects::lock_for_insert(transaction, project_id).await?;
            let own = feature_flags::of_project(project_id);
            if own.count(transaction).await? >= rules::MAX_FLAGS {
                let text = format!(
                    "The maximum number of feature flags ({}) is reached",
                    rules::MAX_FLAGS
                );
                return Err(Error::Rejected(text.into()));
            }
            let flag = flag.insert(transaction).await.map_err(map_insert_error)?;
            let caller = &access.caller;
            change_strategies(transaction, caller, &flag, new.strategies).await?;
            detail(transaction, caller, flag).await
        })
        .await
}

/// Updates a flag.
///
/// # Errors
/// Returns `Error::NotFound` if the flag, a strategy or a scope does not exist. Otherwise fails like
/// [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    change: FlagUpdate,
) -> Result<FlagDetail> {
    access.check_feature_flags()?;
    if let Some(name) = &change.name {
        rules::check_name(name)?;
    }
    backend
        .database
        .transaction(async |transaction| {
            let flag = lock(transaction, access, name).await?;
            let mut changed = flag.clone().into_active_model();
            if let Some(name) = change.name {
                changed.name = Set(name);
            }
            if let Some(description) = change.description {
                changed.description = Set(description);
            }
            if let Some(active) = change.active {
                changed.active = Set(active);
            }
            let caller = &access.caller;
            if change_strategies(transaction, caller, &flag, change.strategies).await? {
                changed.updated_at = Set(now());
            }
            let changed = row_changes::update_if_changed(transaction, &flag, changed).await;
            detail(transaction, caller, changed.map_err(map_insert_error)?).await
        })
        .await
}

/// Deletes a flag and returns its last state.
///
/// # Errors
/// Returns `Error::NotFound` if the flag does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`. Returns `Error::Forbidden` if the feature flags are not available to the caller.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<FlagDetail> {
    access.check_feature_flags()?;
    backend
        .database
        .transaction(async |transaction| {
            let flag = lock(transaction, access, name).await?;
            preconditions::check_unmodified_since(unmodified_since, flag.updated_at)?;
            let deleted = detail(transaction, &access.caller, flag).await?;
            Entity::delete_by_id(deleted.flag.id).exec(transaction).await?;
            Ok(deleted)
        })
        .await
}

/// Changes the strategies of a locked flag and validates the result. Returns whether the strategies changed.
async fn change_strategies(
    transaction: &DatabaseTransaction,
    caller: &Caller,
    flag: &Model,
    changes: Vec<StrategyUpdate>,
) -> Result<bool> {
    if changes.is_empty() {
        return Ok(false);
    }
    let former = detail(transaction, caller, flag.clone()).await?.strategies;
    let mut strategies_by_id: HashMap<i64, StrategyDetail> =
        former.iter().cloned().map(|one| (one.strategy.id, one)).collect();
    for (index, change) in changes.into_iter().enumerate() {
        let indexed = IndexedStrategy { flag, index };
        match change.id {
            // Strategies that were deleted or belong to another flag do not exist here.
            Some(id) => {
                let own = strategies_by_id.remove(&id).ok_or_else(not_found)?;
                if change.remove {
                    let deleted = strategies::Entity::delete_by_id(id);
                    deleted.exec(transaction).await?;
                } else {
                    indexed.write(transaction, Some(own), change).await?;
                }
            }
            None if change.remove => {}
            None => indexed.write(transaction, None, change).await?,
        }
    }
    let remaining = detail(transaction, caller, flag.clone()).await?.strategies;
    if remaining.len() > rules::MAX_STRATEGIES {
        let text = format!("Too many strategies (maximum is {})", rules::MAX_STRATEGIES);
        return Err(Error::attribute("strategies", text));
    }
    Ok(remaining != former)
}

/// A strategy, identified by its index in the request.
struct IndexedStrategy<'a> {
    flag: &'a Model,
    index: usize,
}

impl IndexedStrategy<'_> {
    /// Returns the error for an attribute of the strategy.
    fn fault(&self, attribute: &str, text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::attribute(format!("strategies[{}][{attribute}]", self.index), text)
    }

    /// Inserts or updates a strategy with its scopes.
    async fn write(
        &self,
        transaction: &DatabaseTransaction,
        former: Option<StrategyDetail>,
        change: StrategyUpdate,
    ) -> Result<()> {
        let known = former.as_ref().map(|former| &former.strategy);
        let Some(kind) = change.kind.or(known.map(|known| known.name)) else {
            return Err(Error::parameter(format!(
                "strategies[{}][name] is missing",
                self.index
            )));
        };
        let parameters = match (change.parameters, known) {
            (Some(parameters), _) => parameters,
            (None, Some(known)) => serde_json::from_str(&known.parameters).map_err(Error::internal)?,
            (None, None) => StrategyParameters::new(),
        };
        let list = change
            .user_list_id
            .unwrap_or_else(|| known.and_then(|known| known.user_list_id));
        if let Some((attribute, text)) = rules::parameter_fault(kind, &parameters, list.is_some()) {
            return Err(self.fault(attribute, text));
        }
        if let Some(list) = list.filter(|list| known.and_then(|known| known.user_list_id) != Some(*list)) {
            self.check_list(transaction, list).await?;
        }
        let mut row = strategies::ActiveModel {
            feature_flag_id: Set(self.flag.id),
            name: Set(kind),
            parameters: Set(serde_json::to_string(&parameters).map_err(Error::internal)?),
            user_list_id: Set(list),
            ..Default::default()
        };
        let written = match known {
            Some(known) => {
                row.id = Set(known.id);
                row.update(transaction).await
            }
            None => row.insert(transaction).await,
        };
        let written = written.map_err(|error| match Violation::of(&error) {
            // The user list was deleted meanwhile.
            Some(Violation::ForeignKey(_)) => self.fault("user_list_id", "is invalid"),
            _ => error.into(),
        })?;
        let own = former.map(|former| former.scopes);
        self.write_scopes(transaction, written.id, own, change.scopes)
            .await
    }

    /// Rejects a user list that does not exist in the project.
    async fn check_list(&self, transaction: &DatabaseTransaction, list: i64) -> Result<()> {
        let own = feature_flag_user_lists::of_project(self.flag.project_id)
            .filter(feature_flag_user_lists::Column::Id.eq(list));
        match own.count(transaction).await? {
            0 => Err(self.fault("user_list_id", "is invalid")),
            _ => Ok(()),
        }
    }

    /// Writes the scopes of a strategy. A new strategy without scopes applies to all environments.
    async fn write_scopes(
        &self,
        transaction: &DatabaseTransaction,
        strategy: i64,
        former: Option<Vec<scopes::Model>>,
        mut changes: Vec<ScopeUpdate>,
    ) -> Result<()> {
        if former.is_none() && changes.is_empty() {
            changes.push(ScopeUpdate {
                environment_scope: Some(ALL_ENVIRONMENTS.to_owned()),
                ..ScopeUpdate::default()
            });
        }
        let former = former.unwrap_or_default();
        let mut names: HashMap<i64, String> = former
            .into_iter()
            .map(|scope| (scope.id, scope.environment_scope))
            .collect();
        let (mut deleted, mut new) = (Vec::new(), Vec::new());
        let mut renamed = Vec::new();
        for (at, change) in changes.into_iter().enumerate() {
            let field = format!("scopes][{at}][environment_scope");
            if let Some(name) = &change.environment_scope {
                let texts = variables::faults_of_environment_scope(name);
                if let Some(text) = texts.into_iter().next() {
                    return Err(self.fault(&field, text));
                }
            }
            match (change.id, change.remove, change.environment_scope) {
                (Some(id), _, _) if !names.contains_key(&id) => return Err(not_found()),
                (Some(id), true, _) => {
                    names.remove(&id);
                    deleted.push(id);
                }
                (Some(id), false, Some(name)) => {
                    names.insert(id, name);
                    renamed.push(id);
                }
                (Some(_), false, None) | (None, true, _) => {}
                (None, false, Some(name)) => new.push(name),
                (None, false, None) => {
                    return Err(Error::parameter(format!(
                        "strategies[{}][{field}] is missing",
                        self.index
                    )));
                }
            }
        }
        let all: Vec<&String> = names.values().chain(&new).collect();
        if all.len() > rules::MAX_SCOPES {
            let text = format!("Too many scopes (maximum is {})", rules::MAX_SCOPES);
            return Err(self.fault("scopes", text));
        }
        if all.iter().collect::<BTreeSet<_>>().len() < all.len() {
            return Err(self.fault("scopes", "has already been taken"));
        }
        // Renamed scopes are deleted first, so that two of them can swap names.
        deleted.extend(&renamed);
        if !deleted.is_empty() {
            let deleted = scopes::Entity::delete_many().filter(scopes::Column::Id.is_in(deleted));
            deleted.exec(transaction).await?;
        }
        let renamed_scopes = renamed
            .into_iter()
            .filter_map(|id| Some((Some(id), names.remove(&id)?)));
        for (id, name) in renamed_scopes.chain(new.into_iter().map(|name| (None, name))) {
            let mut row = scopes::ActiveModel {
                strategy_id: Set(strategy),
                environment_scope: Set(name),
                ..Default::default()
            };
            if let Some(id) = id {
                row.id = Set(id);
            }
            row.insert(transaction).await?;
        }
        Ok(())
    }
}

/// Locks a flag of the project until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, name: &str) -> Result<Model> {
    let found = feature_flags::of_project(access.project.id).filter(Column::Name.eq(name));
    found.lock_exclusive().one(db).await?.ok_or_else(not_found)
}

/// Maps a database error of an insert or update.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::is_unique(&error, "uq_feature_flags_project_id_name") {
        true => Error::attribute("name", "has already been taken"),
        false => error.into(),
    }
}
