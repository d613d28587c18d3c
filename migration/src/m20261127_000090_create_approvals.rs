//! Approvals of merge requests, and the rules of projects about them. The number of approvals that a project stored
//! without effect becomes a rule.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const APPROVALS: &str = "approvals";
const RULES: &str = "approval_rules";
const USERS: &str = "approval_rule_users";
const GROUPS: &str = "approval_rule_groups";
const BRANCHES: &str = "approval_rule_branches";

/// Settings of projects, with their defaults.
const SETTINGS: [(&str, bool); 3] = [
    ("reset_approvals_on_push", true),
    ("merge_requests_author_approval", false),
    ("merge_requests_disable_committers_approval", false),
];

/// The largest number of approvals that a rule can require.
const MAX_REQUIRED: i32 = 100;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for (name, default) in SETTINGS {
            let column = boolean(name).default(default).to_owned();
            let add = Table::alter().table("projects").add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        let cascade = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        create(
            manager,
            table(APPROVALS)
                .col(big_integer("merge_request_id"))
                .col(big_integer("user_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut cascade(APPROVALS, "merge_request_id", "merge_requests"))
                .foreign_key(&mut cascade(APPROVALS, "user_id", "users")),
            [
                unique(APPROVALS, &["merge_request_id", "user_id"]),
                index(APPROVALS, &["user_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table(RULES)
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(text("rule_type"))
                .col(integer("approvals_required"))
                .col(boolean("applies_to_all_protected_branches").default(false))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade(RULES, "project_id", "projects"))
                .check(one_of(RULES, "rule_type", &["any_approver", "regular"])),
            [index(RULES, &["project_id"])],
        )
        .await?;
        for (name, column, target) in [
            (USERS, "user_id", "users"),
            (GROUPS, "group_id", "namespaces"),
            (BRANCHES, "protected_branch_id", "protected_branches"),
        ] {
            create(
                manager,
                table(name)
                    .col(big_integer("approval_rule_id"))
                    .col(big_integer(column))
                    .foreign_key(&mut cascade(name, "approval_rule_id", RULES))
                    .foreign_key(&mut cascade(name, column, target)),
                [
                    unique(name, &["approval_rule_id", column]),
                    index(name, &[column]),
                ],
            )
            .await?;
        }
        create_rules(manager).await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[APPROVALS, RULES, USERS, GROUPS, BRANCHES]).await?;
        for (name, _) in SETTINGS.iter().rev() {
            let remove = Table::alter().table("projects").drop_column(*name).to_owned();
            manager.alter_table(remove).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}

/// Creates the rules of projects that require approvals.
async fn create_rules(manager: &SchemaManager<'_>) -> Result<(), DbErr> {
    let db = manager.get_connection();
    let limit = Query::update()
        .table("projects")
        .value("approvals_before_merge", MAX_REQUIRED)
        .and_where(Expr::col("approvals_before_merge").gt(MAX_REQUIRED))
        .to_owned();
    db.execute(&limit).await?;
    let required = Query::select()
        .column("id")
        .expr(Expr::val("All Members"))
        .expr(Expr::val("any_approver"))
        .column("approvals_before_merge")
        .column("updated_at")
        .column("updated_at")
        .from("projects")
        .and_where(Expr::col("approvals_before_merge").gt(0))
        .take();
    let columns = [
        "project_id",
        "name",
        "rule_type",
        "approvals_required",
        "created_at",
        "updated_at",
    ];
    let mut insert = Query::insert();
    insert.into_table(RULES).columns(columns);
    insert
        .select_from(required)
        .map_err(|error| DbErr::Custom(error.to_string()))?;
    db.execute(&insert).await.map(|_| ())
}
