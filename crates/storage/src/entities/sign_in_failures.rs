//! Failed sign-in attempts within the counted period.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Expr, Query};
use sea_orm::{DbBackend, ExprTrait, QueryOrder};

use super::related_rows::{RelatedPart, bigint};
use super::row_conditions::is_among_texts;
use crate::clock::scheduling_time;

/// Failed sign-in attempts within the counted period.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "sign_in_failures")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The keyed digest of the account.
    pub account: String,
    /// The keyed digest of the network address, if it is known.
    pub address: Option<String>,
    /// The interface that the credentials were sent to.
    pub context: String,
    /// When the attempt failed.
    pub failed_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the failures of an account since `instant`, latest first. Rows from before the clock was set
/// back do not count.
pub fn of_account(account: &str, instant: DateTime<Utc>) -> Select<Entity> {
    since(instant).filter(Column::Account.eq(account))
}

/// Selects the failures of an account from one address since `instant`, latest first. Rows from before the clock was set
/// back do not count.
pub fn of_account_at(account: &str, address: &str, instant: DateTime<Utc>) -> Select<Entity> {
    of_account(account, instant).filter(Column::Address.eq(address))
}

/// Selects the failures of all accounts from an address in one context since `instant`, latest first. Rows from before the clock was set
/// back do not count.
pub fn of_address(address: &str, context: &str, instant: DateTime<Utc>) -> Select<Entity> {
    since(instant)
        .filter(Column::Address.eq(address))
        .filter(Column::Context.eq(context))
}

/// Returns a part with the numbers of failures since `instant` of the accounts with at least `least` failures. The account is
/// the first text. None without accounts.
#[must_use]
pub fn counts_part(
    database: DbBackend,
    accounts: Vec<String>,
    instant: DateTime<Utc>,
    least: i64,
) -> Option<RelatedPart> {
    if accounts.is_empty() {
        return None;
    }
    let rows = Query::select()
        .from(Entity)
        .and_where(is_among_texts(database, Column::Account.into_expr(), accounts))
        .and_where(Column::FailedAt.gt(instant))
        .and_where(Column::FailedAt.lte(scheduling_time() + super::MAX_CLOCK_DIFFERENCE))
        .add_group_by([Column::Account.into_expr()])
        .and_having(Column::Id.count().gte(least))
        .take();
    let part = RelatedPart::new(rows, bigint(Expr::val(0_i64)));
    let part = part.with_number(Column::Id.count());
    Some(part.with_texts([Column::Account.into_expr()]))
}

fn since(instant: DateTime<Utc>) -> Select<Entity> {
    Entity::find()
        .filter(Column::FailedAt.gt(instant))
        .filter(Column::FailedAt.lte(scheduling_time() + super::MAX_CLOCK_DIFFERENCE))
        .order_by_desc(Column::FailedAt)
        .order_by_desc(Column::Id)
}
