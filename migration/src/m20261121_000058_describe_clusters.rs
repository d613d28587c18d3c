//! Attributes of clusters, and their connection settings.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const CLUSTERS: &str = "clusters";

fn columns() -> [(&'static str, ColumnDef); 4] {
    [
        ("domain", text_null("domain")),
        ("environment_scope", text("environment_scope").default("*").take()),
        ("enabled", boolean("enabled").default(true).take()),
        ("managed", boolean("managed").default(true).take()),
    ]
}

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (_, column) in columns() {
            let add = Table::alter().table(CLUSTERS).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        manager
            .create_index(unique(CLUSTERS, &["project_id", "environment_scope"]))
            .await?;
        let refers = |column, target, action| reference("cluster_platforms", column, target, action);
        create(
            manager,
            table("cluster_platforms")
                .col(big_integer("cluster_id"))
                .col(big_integer_null("user_id"))
                .col(text("api_url"))
                .col(text("token_encrypted"))
                .col(text_null("ca_cert"))
                .col(text_null("namespace"))
                .col(text("authorization_type"))
                .foreign_key(&mut refers("cluster_id", CLUSTERS, ForeignKeyAction::Cascade))
                .foreign_key(&mut refers("user_id", "users", ForeignKeyAction::SetNull))
                .check(one_of(
                    "cluster_platforms",
                    "authorization_type",
                    &["unknown_authorization", "rbac", "abac"],
                )),
            [
                unique("cluster_platforms", &["cluster_id"]),
                index("cluster_platforms", &["user_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["cluster_platforms"]).await?;
        let scopes = Index::drop()
            .name("uq_clusters_project_id_environment_scope")
            .table(CLUSTERS)
            .to_owned();
        manager.drop_index(scopes).await?;
        for (name, _) in columns() {
            let less = Table::alter().table(CLUSTERS).drop_column(name).to_owned();
            manager.alter_table(less).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
