//! Reads the strategies of feature flags. The memory of their texts is reserved before the texts are read, and a user
//! list that several strategies use is read once.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use sea_orm::sea_query::{Expr, ExprTrait, Query, SubQueryStatement};
use sea_orm::{
    ColumnTrait, ConnectionTrait, EntityTrait, JoinType, QueryFilter, QueryOrder, QuerySelect, RelationTrait,
};
use storage::entities::feature_flag_scopes as scopes;
use storage::entities::feature_flag_strategies::{self as strategies, StrategyKind};
use storage::entities::feature_flag_user_lists as lists;
use storage::entities::{columns, row_conditions::is_among};

use super::StrategyDetail;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::patterns::matches_pattern;
use crate::kernel::query::text_bytes;

/// The stored parameters of a strategy without parameters.
const NO_PARAMETERS: &str = "{}";

/// A strategy whose texts have not been read, with their sizes in bytes.
struct MeasuredStrategy {
    /// The row. Its parameters are [`NO_PARAMETERS`] until they are read.
    row: strategies::Model,
    parameter_bytes: u64,
    user_list_bytes: u64,
    scope_bytes: u64,
}

impl MeasuredStrategy {
    fn has_parameters(&self) -> bool {
        self.parameter_bytes > NO_PARAMETERS.len() as u64
    }
}

/// Returns the strategies of flags, oldest first, by the ID of the flag. With an environment, only the strategies that
/// apply to it are returned.
///
/// # Errors
/// Returns `Overloaded` if too little memory is left for the texts.
pub(super) async fn of_flags(
    db: &impl ConnectionTrait,
    caller: &Caller,
    flag_ids: Vec<i64>,
    environment: Option<&str>,
) -> Result<HashMap<i64, Vec<StrategyDetail>>> {
    let mut found = measure(db, flag_ids).await?;
    let mut scopes = read_scopes(db, caller, &found).await?;
    if let Some(environment) = environment {
        found.retain(|strategy| {
            let scopes = scopes.get(&strategy.row.id);
            scopes.is_some_and(|scopes| applies(scopes, environment))
        });
    }
    let shown: u64 = found
        .iter()
        .map(|strategy| strategy.parameter_bytes + strategy.user_list_bytes)
        .sum();
    let list_sizes = found
        .iter()
        .filter_map(|strategy| Some((strategy.row.user_list_id?, strategy.user_list_bytes)));
    let list_sizes: HashMap<i64, u64> = list_sizes.collect();
    let parameters: u64 = found.iter().map(|strategy| strategy.parameter_bytes).sum();
    let read_twice = parameters.saturating_add(list_sizes.values().sum());
    // The response contains the user list of each strategy. While the texts are read, they also exist as rows.
    caller.reserve_memory(shown.saturating_add(read_twice))?;
    read_parameters(db, &mut found).await?;
    let user_lists = read_user_lists(db, &found).await?;
    caller.release_memory(read_twice);
    let mut details: HashMap<i64, Vec<StrategyDetail>> = HashMap::new();
    let mut read = 0_u64;
    for MeasuredStrategy { row, .. } in found {
        let user_list = match row.user_list_id {
            Some(id) => match user_lists.get(&id) {
                Some(list) => Some(Arc::clone(list)),
                // The list was deleted after the strategy was read.
                None => continue,
            },
            None => None,
        };
        let list_bytes = user_list.as_ref().map_or(0, |list| list.user_xids.len());
        read = read.saturating_add((row.parameters.len() + list_bytes) as u64);
        details
            .entry(row.feature_flag_id)
            .or_default()
            .push(StrategyDetail {
                scopes: scopes.remove(&row.id).unwrap_or_default(),
                user_list,
                strategy: row,
            });
    }
    // Texts can grow between the statements.
    caller.reserve_memory(read.saturating_sub(shown))?;
    Ok(details)
}

fn applies(scopes: &[scopes::Model], environment: &str) -> bool {
    let mut scopes = scopes.iter();
    scopes.any(|scope| matches_pattern(&scope.environment_scope, environment))
}

/// Reads the strategies of flags without their texts, oldest first.
async fn measure(db: &impl ConnectionTrait, flag_ids: Vec<i64>) -> Result<Vec<MeasuredStrategy>> {
    if flag_ids.is_empty() {
        return Ok(Vec::new());
    }
    let scope_row = i64::try_from(size_of::<scopes::Model>()).unwrap_or(i64::MAX);
    let scope_text = Expr::col((scopes::Entity, scopes::Column::EnvironmentScope));
    let scope_bytes = text_bytes(scope_text).add(Expr::Constant(scope_row.into()));
    let id = Expr::col((strategies::Entity, strategies::Column::Id));
    let of_strategy = Query::select()
        .expr(scope_bytes.sum().cast_as("bigint"))
        .from(scopes::Entity)
        .and_where(Expr::col((scopes::Entity, scopes::Column::StrategyId)).eq(id))
        .take();
    let of_strategy = Expr::from(SubQueryStatement::from(of_strategy));
    let parameters = Expr::col((strategies::Entity, strategies::Column::Parameters));
    let user_xids = Expr::col((lists::Entity, lists::Column::UserXids));
    let of_flags = is_among(
        db.get_database_backend(),
        strategies::Column::FeatureFlagId.into_expr(),
        flag_ids,
    );
    type Row = (i64, i64, StrategyKind, Option<i64>, i64, Option<i64>, Option<i64>);
    let rows: Vec<Row> = strategies::Entity::find()
        .select_only()
        .column(strategies::Column::Id)
        .column(strategies::Column::FeatureFlagId)
        .column(strategies::Column::Name)
        .column(strategies::Column::UserListId)
        .column_as(text_bytes(parameters), "parameter_bytes")
        .column_as(text_bytes(user_xids), "user_list_bytes")
        .column_as(of_strategy, "scope_bytes")
        .join(JoinType::LeftJoin, strategies::Relation::UserList.def())
        .filter(of_flags)
        .order_by_asc(strategies::Column::Id)
        .into_tuple()
        .all(db)
        .await?;
    let bytes = |size: i64| u64::try_from(size).unwrap_or_default();
    let measured = rows.into_iter().map(
        |(id, feature_flag_id, name, user_list_id, parameters, list, scopes)| MeasuredStrategy {
            row: strategies::Model {
                id,
                feature_flag_id,
                name,
                parameters: NO_PARAMETERS.to_owned(),
                user_list_id,
            },
            parameter_bytes: bytes(parameters),
            user_list_bytes: list.map_or(0, bytes),
            scope_bytes: scopes.map_or(0, bytes),
        },
    );
    Ok(measured.collect())
}

/// Reads the scopes of strategies, oldest first, by the ID of the strategy.
async fn read_scopes(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: &[MeasuredStrategy],
) -> Result<HashMap<i64, Vec<scopes::Model>>> {
    let mut by_strategy: HashMap<i64, Vec<scopes::Model>> = HashMap::new();
    if found.is_empty() {
        return Ok(by_strategy);
    }
    let size: u64 = found.iter().map(|strategy| strategy.scope_bytes).sum();
    // While they are read, the scopes exist twice: as rows of the database and as models.
    caller.reserve_memory(size.saturating_mul(2))?;
    let ids = found.iter().map(|strategy| strategy.row.id);
    let rows = scopes::of_strategies(db.get_database_backend(), ids);
    for scope in columns::all(db, rows).await? {
        by_strategy.entry(scope.strategy_id).or_default().push(scope);
    }
    caller.release_memory(size);
    Ok(by_strategy)
}

/// Reads the rows of the strategies with parameters. Strategies that were deleted meanwhile are left out.
async fn read_parameters(db: &impl ConnectionTrait, found: &mut Vec<MeasuredStrategy>) -> Result<()> {
    let with_parameters = found.iter().filter(|strategy| strategy.has_parameters());
    let ids: Vec<i64> = with_parameters.map(|strategy| strategy.row.id).collect();
    if ids.is_empty() {
        return Ok(());
    }
    let rows = strategies::Entity::find().filter(is_among(
        db.get_database_backend(),
        strategies::Column::Id.into_expr(),
        ids,
    ));
    let rows = columns::all(db, rows).await?;
    let mut rows: HashMap<i64, strategies::Model> = rows.into_iter().map(|row| (row.id, row)).collect();
    found.retain_mut(|strategy| {
        if !strategy.has_parameters() {
            return true;
        }
        match rows.remove(&strategy.row.id) {
            Some(row) => {
                strategy.row = row;
                true
            }
            None => false,
        }
    });
    Ok(())
}

/// Reads each user list of the strategies once, by its ID.
async fn read_user_lists(
    db: &impl ConnectionTrait,
    found: &[MeasuredStrategy],
) -> Result<HashMap<i64, Arc<lists::Model>>> {
    let ids: BTreeSet<i64> = found
        .iter()
        .filter_map(|strategy| strategy.row.user_list_id)
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = lists::Entity::find().filter(is_among(
        db.get_database_backend(),
        lists::Column::Id.into_expr(),
        ids,
    ));
    let rows = columns::all(db, rows).await?;
    Ok(rows.into_iter().map(|row| (row.id, Arc::new(row))).collect())
}
