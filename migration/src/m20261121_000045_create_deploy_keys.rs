//! Deploy keys of projects, and the fingerprints of all SSH keys: one row for each fingerprint. The database
//! thus prevents a key from being registered twice, by users or projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let refers = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table("deploy_keys")
                .col(text("title"))
                .col(text("key"))
                .col(text("fingerprint"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at")),
            [unique("deploy_keys", &["fingerprint"])],
        )
        .await?;
        create(
            manager,
            table("project_deploy_keys")
                .col(big_integer("project_id"))
                .col(big_integer("deploy_key_id"))
                .col(boolean("can_push").default(false))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut refers("project_deploy_keys", "project_id", "projects"))
                .foreign_key(&mut refers("project_deploy_keys", "deploy_key_id", "deploy_keys")),
            [
                unique("project_deploy_keys", &["project_id", "deploy_key_id"]),
                index("project_deploy_keys", &["deploy_key_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("taken_fingerprints")
                .col(text("fingerprint"))
                .col(big_integer_null("user_key_id"))
                .col(big_integer_null("deploy_key_id"))
                .foreign_key(&mut refers("taken_fingerprints", "user_key_id", "user_keys"))
                .foreign_key(&mut refers("taken_fingerprints", "deploy_key_id", "deploy_keys"))
                .check(exactly_one(
                    "taken_fingerprints",
                    &["user_key_id", "deploy_key_id"],
                )),
            [
                unique("taken_fingerprints", &["fingerprint"]),
                index("taken_fingerprints", &["user_key_id"]),
                index("taken_fingerprints", &["deploy_key_id"]),
            ],
        )
        .await?;
        let held = Query::select()
            .columns(["fingerprint", "id"])
            .from("user_keys")
            .to_owned();
        let mut taken = Query::insert();
        taken
            .into_table("taken_fingerprints")
            .columns(["fingerprint", "user_key_id"])
            .select_from(held)
            .map_err(|error| DbErr::Custom(error.to_string()))?;
        manager.get_connection().execute(&taken).await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(
            manager,
            &["deploy_keys", "project_deploy_keys", "taken_fingerprints"],
        )
        .await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
