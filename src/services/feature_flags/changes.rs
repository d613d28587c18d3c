//! Feature flags made, changed and removed. Whoever changes the strategies of a flag holds the flag.

use std::collections::{BTreeSet, HashMap};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::feature_flag_strategies as strategies;
use storage::entities::feature_flag_strategies::Kind;
use storage::entities::feature_flags::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{feature_flag_scopes as scopes, feature_flag_user_lists, now};

use crate::error::{Error, Result};
use crate::services::access::ProjectAccess;
use crate::services::feature_flags::rules::{self, Parameters};
use crate::services::feature_flags::{Row, Strategy, missing, row};
use crate::services::projects;
use crate::services::{Backend, preconditions, variables};

/// The environments of a strategy of which nothing is said: all.
const EVERYWHERE: &str = "*";

/// A new flag.
#[derive(Debug, Clone, Default)]
pub struct NewFlag {
    /// What it is called.
    pub name: String,
    /// What it is for.
    pub description: Option<String>,
    /// Whether it is on at all.
    pub active: bool,
    /// For whom it is on; none has an id.
    pub strategies: Vec<StrategyChange>,
}

/// What a caller says of a flag; what is absent stays.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// What it is called.
    pub name: Option<String>,
    /// What it is for; nothing, when that is said.
    pub description: Option<Option<String>>,
    /// Whether it is on at all.
    pub active: Option<bool>,
    /// For whom it is on; those that are not named stay.
    pub strategies: Vec<StrategyChange>,
}

/// What a caller says of a strategy: of one that is there, by its id, or of a new one.
#[derive(Debug, Clone, Default)]
pub struct StrategyChange {
    /// The id.
    pub id: Option<i64>,
    /// It is to go.
    pub remove: bool,
    /// How it chooses.
    pub kind: Option<Kind>,
    /// What it goes by.
    pub parameters: Option<Parameters>,
    /// The id of the list of users that it goes by; none, when that is said.
    pub user_list_id: Option<Option<i64>>,
    /// The environments in which it counts; those that are not named stay.
    pub scopes: Vec<ScopeChange>,
}

/// What a caller says of a scope: of one that is there, by its id, or of a new one.
#[derive(Debug, Clone, Default)]
pub struct ScopeChange {
    /// The id.
    pub id: Option<i64>,
    /// It is to go.
    pub remove: bool,
    /// The environments.
    pub environment_scope: Option<String>,
}

/// Makes a flag.
///
/// # Errors
/// 400 under each attribute that breaks a rule, for a name that another flag has, and for more than there may be.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewFlag) -> Result<Row> {
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
            // One at a time, so that two cannot both be the last.
            projects::hold(transaction, project_id).await?;
            let own = feature_flags::of_project(project_id);
            if own.count(transaction).await? >= rules::MOST_FLAGS {
                let text = format!(
                    "The maximum number of feature flags ({}) is reached",
                    rules::MOST_FLAGS
                );
                return Err(Error::Refused(text.into()));
            }
            let flag = flag.insert(transaction).await.map_err(refused)?;
            change_strategies(transaction, &flag, new.strategies).await?;
            row(transaction, flag).await
        })
        .await
}

/// Changes what is said of a flag.
///
/// # Errors
/// 404, also for a strategy or scope that it does not have, and 400 as [`create`].
pub async fn update(backend: &Backend, access: &ProjectAccess, name: &str, change: Change) -> Result<Row> {
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
            change_strategies(transaction, &flag, change.strategies).await?;
            changed.updated_at = Set(now());
            let flag = changed.update(transaction).await.map_err(refused)?;
            row(transaction, flag).await
        })
        .await
}

/// Removes a flag, and gives it as it was.
///
/// # Errors
/// 404, and 412 when it changed after the caller's date.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<Row> {
    backend
        .database
        .transaction(async |transaction| {
            let flag = lock(transaction, access, name).await?;
            preconditions::unmodified_since(unmodified_since, flag.updated_at)?;
            let gone = row(transaction, flag).await?;
            Entity::delete_by_id(gone.flag.id).exec(transaction).await?;
            Ok(gone)
        })
        .await
}

/// Changes the strategies of a flag, which is locked, and looks at what became of them.
async fn change_strategies(
    transaction: &DatabaseTransaction,
    flag: &Model,
    changes: Vec<StrategyChange>,
) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let there = row(transaction, flag.clone()).await?.strategies;
    let mut there: HashMap<i64, Strategy> = there.into_iter().map(|one| (one.strategy.id, one)).collect();
    for (index, change) in changes.into_iter().enumerate() {
        let place = Place { flag, index };
        match change.id {
            // What was removed, or is of another flag, is not there.
            Some(id) => {
                let own = there.remove(&id).ok_or_else(missing)?;
                if change.remove {
                    let gone = strategies::Entity::delete_by_id(id);
                    gone.exec(transaction).await?;
                } else {
                    place.write(transaction, Some(own), change).await?;
                }
            }
            None if change.remove => {}
            None => place.write(transaction, None, change).await?,
        }
    }
    let left = strategies::of_flags([flag.id]).count(transaction).await?;
    if usize::try_from(left).unwrap_or(usize::MAX) > rules::MOST_STRATEGIES {
        let text = format!("Too many strategies (maximum is {})", rules::MOST_STRATEGIES);
        return Err(Error::attribute("strategies", text));
    }
    Ok(())
}

/// A strategy among those that were sent.
struct Place<'a> {
    flag: &'a Model,
    index: usize,
}

impl Place<'_> {
    /// One attribute breaks a rule.
    fn fault(&self, attribute: &str, text: impl Into<std::borrow::Cow<'static, str>>) -> Error {
        Error::attribute(format!("strategies[{}][{attribute}]", self.index), text)
    }

    /// Writes a strategy with its scopes.
    async fn write(
        &self,
        transaction: &DatabaseTransaction,
        former: Option<Strategy>,
        change: StrategyChange,
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
            (None, None) => Parameters::new(),
        };
        let list = change
            .user_list_id
            .unwrap_or_else(|| known.and_then(|known| known.user_list_id));
        if let Some((attribute, text)) = rules::fault(kind, &parameters, list.is_some()) {
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
            // The list went away in the meantime.
            Some(Violation::ForeignKey(_)) => self.fault("user_list_id", "is invalid"),
            _ => error.into(),
        })?;
        let own = former.map(|former| former.scopes);
        self.write_scopes(transaction, written.id, own, change.scopes)
            .await
    }

    /// Refuses a list of another project, or one that is not there.
    async fn check_list(&self, transaction: &DatabaseTransaction, list: i64) -> Result<()> {
        let own = feature_flag_user_lists::of_project(self.flag.project_id)
            .filter(feature_flag_user_lists::Column::Id.eq(list));
        match own.count(transaction).await? {
            0 => Err(self.fault("user_list_id", "is invalid")),
            _ => Ok(()),
        }
    }

    /// Writes the scopes of a strategy. A new strategy of which no scope is said counts everywhere.
    async fn write_scopes(
        &self,
        transaction: &DatabaseTransaction,
        strategy: i64,
        former: Option<Vec<scopes::Model>>,
        mut changes: Vec<ScopeChange>,
    ) -> Result<()> {
        if former.is_none() && changes.is_empty() {
            changes.push(ScopeChange {
                environment_scope: Some(EVERYWHERE.to_owned()),
                ..ScopeChange::default()
            });
        }
        let former = former.unwrap_or_default();
        let mut names: HashMap<i64, String> = former
            .into_iter()
            .map(|scope| (scope.id, scope.environment_scope))
            .collect();
        let (mut gone, mut new) = (Vec::new(), Vec::new());
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
                (Some(id), _, _) if !names.contains_key(&id) => return Err(missing()),
                (Some(id), true, _) => {
                    names.remove(&id);
                    gone.push(id);
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
        if all.len() > rules::MOST_SCOPES {
            let text = format!("Too many scopes (maximum is {})", rules::MOST_SCOPES);
            return Err(self.fault("scopes", text));
        }
        if all.iter().collect::<BTreeSet<_>>().len() < all.len() {
            return Err(self.fault("scopes", "has already been taken"));
        }
        // Those that are renamed make room first, so that two may change places.
        gone.extend(&renamed);
        if !gone.is_empty() {
            let gone = scopes::Entity::delete_many().filter(scopes::Column::Id.is_in(gone));
            gone.exec(transaction).await?;
        }
        let kept = renamed
            .into_iter()
            .filter_map(|id| Some((Some(id), names.remove(&id)?)));
        for (id, name) in kept.chain(new.into_iter().map(|name| (None, name))) {
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

/// A flag of the project, locked until the transaction ends.
async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, name: &str) -> Result<Model> {
    let found = feature_flags::of_project(access.project.id).filter(Column::Name.eq(name));
    found.lock_exclusive().one(db).await?.ok_or_else(missing)
}

/// Why a row was not written.
fn refused(error: DbErr) -> Error {
    match Violation::is_unique(&error, "uq_feature_flags_project_id_name") {
        true => Error::attribute("name", "has already been taken"),
        false => error.into(),
    }
}
