//! Protected tags, protected branches of groups, and grants of protected refs to users, groups and deploy keys. Each
//! protection has one role for each action, so servers of the previous version enforce the roles of all protections of
//! branches of projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const BRANCHES: &str = "protected_branches";
const GROUP_BRANCHES: &str = "group_protected_branches";
const TAGS: &str = "protected_tags";
const GRANTS: &str = "protected_ref_grants";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        for column in [
            boolean("allow_force_push").default(false).to_owned(),
            integer_null("unprotect_access_level"),
        ] {
            let add = Table::alter().table(BRANCHES).add_column(column).to_owned();
            manager.alter_table(add).await?;
        }
        let cascade = |table, column, target| reference(table, column, target, ForeignKeyAction::Cascade);
        // 0 means no role.
        let is_level = |column: &'static str| Expr::col(column).is_in([0, 30, 40, 60]);
        create(
            manager,
            table(GROUP_BRANCHES)
                .col(big_integer("namespace_id"))
                .col(text("name"))
                .col(integer("push_access_level"))
                .col(integer("merge_access_level"))
                .col(integer_null("unprotect_access_level"))
                .col(boolean("allow_force_push").default(false))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade(GROUP_BRANCHES, "namespace_id", "namespaces"))
                .check(Check::named(
                    "ck_group_protected_branches_levels",
                    is_level("push_access_level").and(is_level("merge_access_level")),
                )),
            [unique(GROUP_BRANCHES, &["namespace_id", "name"])],
        )
        .await?;
        create(
            manager,
            table(TAGS)
                .col(big_integer("project_id"))
                .col(text("name"))
                .col(integer("create_access_level"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade(TAGS, "project_id", "projects"))
                .check(Check::named(
                    "ck_protected_tags_levels",
                    Expr::col("create_access_level").is_in([0, 30, 40]),
                )),
            [unique(TAGS, &["project_id", "name"])],
        )
        .await?;
        create(
            manager,
            table(GRANTS)
                .col(big_integer_null("protected_branch_id"))
                .col(big_integer_null("protected_tag_id"))
                .col(text("action"))
                .col(big_integer_null("user_id"))
                .col(big_integer_null("group_id"))
                .col(big_integer_null("deploy_key_id"))
                .foreign_key(&mut cascade(GRANTS, "protected_branch_id", BRANCHES))
                .foreign_key(&mut cascade(GRANTS, "protected_tag_id", TAGS))
                .foreign_key(&mut cascade(GRANTS, "user_id", "users"))
                .foreign_key(&mut cascade(GRANTS, "group_id", "namespaces"))
                .foreign_key(&mut cascade(GRANTS, "deploy_key_id", "deploy_keys"))
                .check(one_of(
                    GRANTS,
                    "action",
                    &["push", "merge", "unprotect", "create"],
                ))
                .check(exactly_one(GRANTS, &["protected_branch_id", "protected_tag_id"]))
                .check(exactly_one(GRANTS, &["user_id", "group_id", "deploy_key_id"])),
            [
                index(GRANTS, &["protected_branch_id"]),
                index(GRANTS, &["protected_tag_id"]),
                index(GRANTS, &["user_id"]),
                index(GRANTS, &["group_id"]),
                index(GRANTS, &["deploy_key_id"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[GROUP_BRANCHES, TAGS, GRANTS]).await?;
        for column in ["unprotect_access_level", "allow_force_push"] {
            let remove = Table::alter().table(BRANCHES).drop_column(column).to_owned();
            manager.alter_table(remove).await?;
        }
        Ok(())
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
