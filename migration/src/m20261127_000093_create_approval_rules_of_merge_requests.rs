//! Approval rules of merge requests, which replace those of the project; whether a project permits them; and the settings
//! of groups that lock the approval settings of their projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::index;

#[derive(DeriveMigrationName)]
pub struct Migration;

const RULES: &str = "approval_rules";

/// Settings of groups. The default restricts nothing.
const GROUP_SETTINGS: [&str; 4] = [
    "allow_author_approval",
    "allow_committer_approval",
    "allow_approval_rule_overrides",
    "retain_approvals_on_push",
];

/// Setting of projects.
const NO_OVERRIDES: &str = "disable_overriding_approvers_per_merge_request";

/// Columns of a rule of a merge request with the tables that they refer to.
const REFERENCES: [(&str, &str, &str); 2] = [
    ("merge_request_id", "merge_requests", "CASCADE"),
    ("source_rule_id", RULES, "SET NULL"),
];

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        add_flag(manager, "projects", NO_OVERRIDES, false).await?;
        for name in GROUP_SETTINGS {
            add_flag(manager, "namespaces", name, true).await?;
        }
        for (column, target, action) in REFERENCES {
            // SQLite adds a foreign key only together with its column.
            let sql = format!(
                "ALTER TABLE {RULES} ADD COLUMN {column} bigint NULL
                 CONSTRAINT fk_{RULES}_{column} REFERENCES {target} (id) ON DELETE {action}"
            );
            manager.get_connection().execute_unprepared(&sql).await?;
        }
        drop_index(manager, "ix_approval_rules_project_id").await?;
        for columns in [
            &["project_id", "merge_request_id"][..],
            &["merge_request_id"],
            &["source_rule_id"],
        ] {
            manager.create_index(index(RULES, columns)).await?;
        }
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        // Without the column, the rules would apply to all merge requests of the project.
        let delete = Query::delete()
            .from_table(RULES)
            .and_where(Expr::col("merge_request_id").is_not_null())
            .to_owned();
        manager.get_connection().execute(&delete).await?;
        for name in [
            "ix_approval_rules_source_rule_id",
            "ix_approval_rules_merge_request_id",
            "ix_approval_rules_project_id_merge_request_id",
        ] {
            drop_index(manager, name).await?;
        }
        manager.create_index(index(RULES, &["project_id"])).await?;
        for (column, _, _) in REFERENCES.iter().rev() {
            drop_column(manager, RULES, column).await?;
        }
        for name in GROUP_SETTINGS.iter().rev() {
            drop_column(manager, "namespaces", name).await?;
        }
        drop_column(manager, "projects", NO_OVERRIDES).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

async fn add_flag(
    manager: &SchemaManager<'_>,
    table: &'static str,
    name: &'static str,
    default: bool,
) -> Result<(), DbErr> {
    let column = boolean(name).default(default).to_owned();
    let add = Table::alter().table(table).add_column(column).to_owned();
    manager.alter_table(add).await
}

async fn drop_column(
    manager: &SchemaManager<'_>,
    table: &'static str,
    name: &'static str,
) -> Result<(), DbErr> {
    let remove = Table::alter().table(table).drop_column(name).to_owned();
    manager.alter_table(remove).await
}

async fn drop_index(manager: &SchemaManager<'_>, name: &'static str) -> Result<(), DbErr> {
    let drop = Index::drop().name(name).table(RULES).to_owned();
    manager.drop_index(drop).await
}
