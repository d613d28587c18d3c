//! Feature flags of projects, their strategies and environment scopes.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("feature_flags")
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(text_null("description"))
                .col(boolean("active"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("feature_flags", "project_id", "projects")),
            [
                unique("feature_flags", &["project_id", "name"]),
                index("feature_flags", &["project_id", "id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("feature_flag_strategies")
                .col(big_integer("feature_flag_id"))
                .col(text("name"))
                .col(text("parameters"))
                .col(big_integer_null("user_list_id"))
                .foreign_key(&mut refers(
                    "feature_flag_strategies",
                    "feature_flag_id",
                    "feature_flags",
                ))
                // The server prevents the deletion of a list in use; if the project is deleted, both are
                // deleted.
                .foreign_key(&mut refers(
                    "feature_flag_strategies",
                    "user_list_id",
                    "feature_flag_user_lists",
                ))
                .check(one_of(
                    "feature_flag_strategies",
                    "name",
                    &[
                        "default",
                        "gradualRolloutUserId",
                        "userWithId",
                        "flexibleRollout",
                        "serviceUserList",
                        "gitlabUserList",
                    ],
                )),
            [
                index("feature_flag_strategies", &["feature_flag_id"]),
                index("feature_flag_strategies", &["user_list_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("feature_flag_scopes")
                .col(big_integer("strategy_id"))
                .col(text("environment_scope"))
                .foreign_key(&mut refers(
                    "feature_flag_scopes",
                    "strategy_id",
                    "feature_flag_strategies",
                )),
            [unique(
                "feature_flag_scopes",
                &["strategy_id", "environment_scope"],
            )],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(
            manager,
            &["feature_flags", "feature_flag_strategies", "feature_flag_scopes"],
        )
        .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
