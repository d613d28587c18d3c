//! Expiry dates and uses of SSH keys of users.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::one_of;

#[derive(DeriveMigrationName)]
pub struct Migration;

const KEYS: &str = "user_keys";
const EXPIRES: &str = "expires_at";
const USAGE: &str = "usage_type";
/// The value for all uses.
const ALL_USES: &str = "auth_and_signing";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let usage = text(USAGE)
            .default(ALL_USES)
            .check(one_of(KEYS, USAGE, &[ALL_USES, "auth", "signing"]))
            .to_owned();
        for column in [timestamp_with_time_zone_null(EXPIRES), usage] {
            let add = Table::alter().table(KEYS).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        Ok(())
    }

    /// Former versions accept each key for all uses and at all times. So keys with limits are deleted.
    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let is_limited = Condition::any()
            .add(Expr::col(EXPIRES).is_not_null())
            .add(Expr::col(USAGE).ne(ALL_USES));
        let limited = Query::delete().from_table(KEYS).cond_where(is_limited).to_owned();
        manager.get_connection().execute(&limited).await?;
        for column in [USAGE, EXPIRES] {
            let remove = Table::alter().table(KEYS).drop_column(column).to_owned();
            manager.alter_table(remove).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
