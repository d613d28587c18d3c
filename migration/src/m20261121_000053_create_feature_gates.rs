//! Feature gates and their targets.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers =
            |column, target| reference("feature_gate_targets", column, target, ForeignKeyAction::Cascade);
        let percentage = |column: &'static str| {
            Check::named(
                format!("ck_feature_gates_{column}"),
                Expr::col(column).between(0, 100),
            )
        };
        create(
            manager,
            table("feature_gates")
                .col(text("name"))
                .col(boolean("enabled"))
                .col(integer_null("percentage_of_time"))
                .col(integer_null("percentage_of_actors"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .check(percentage("percentage_of_time"))
                .check(percentage("percentage_of_actors")),
            [unique("feature_gates", &["name"])],
        )
        .await?;
        create(
            manager,
            table("feature_gate_targets")
                .col(big_integer("feature_gate_id"))
                .col(big_integer_null("user_id"))
                .col(big_integer_null("namespace_id"))
                .col(big_integer_null("project_id"))
                .col(text_null("feature_group"))
                .foreign_key(&mut refers("feature_gate_id", "feature_gates"))
                .foreign_key(&mut refers("user_id", "users"))
                .foreign_key(&mut refers("namespace_id", "namespaces"))
                .foreign_key(&mut refers("project_id", "projects"))
                .check(exactly_one(
                    "feature_gate_targets",
                    &["user_id", "namespace_id", "project_id", "feature_group"],
                )),
            [
                unique("feature_gate_targets", &["feature_gate_id", "user_id"]),
                unique("feature_gate_targets", &["feature_gate_id", "namespace_id"]),
                unique("feature_gate_targets", &["feature_gate_id", "project_id"]),
                unique("feature_gate_targets", &["feature_gate_id", "feature_group"]),
                index("feature_gate_targets", &["user_id"]),
                index("feature_gate_targets", &["namespace_id"]),
                index("feature_gate_targets", &["project_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["feature_gates", "feature_gate_targets"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
