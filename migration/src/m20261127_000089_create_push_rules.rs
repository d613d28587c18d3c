//! Push rules of projects and groups. The rule of a group is only a template of the rules of new projects.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, exactly_one, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

const RULES: &str = "push_rules";

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let cascade = |column, target| reference(RULES, column, target, ForeignKeyAction::Cascade);
        let flag = |name: &'static str| boolean(name).default(false).to_owned();
        create(
            manager,
            table(RULES)
                .col(big_integer_null("project_id"))
                .col(big_integer_null("namespace_id"))
                .col(text_null("commit_message_regex"))
                .col(text_null("commit_message_negative_regex"))
                .col(text_null("branch_name_regex"))
                .col(text_null("author_email_regex"))
                .col(text_null("file_name_regex"))
                .col(flag("deny_delete_tag"))
                .col(flag("member_check"))
                .col(flag("prevent_secrets"))
                .col(integer("max_file_size").default(0))
                .col(flag("commit_committer_check"))
                .col(flag("commit_committer_name_check"))
                .col(flag("reject_unsigned_commits"))
                .col(flag("reject_non_dco_commits"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut cascade("project_id", "projects"))
                .foreign_key(&mut cascade("namespace_id", "namespaces"))
                .check(exactly_one(RULES, &["project_id", "namespace_id"]))
                .check(Check::named(
                    "ck_push_rules_max_file_size",
                    Expr::col("max_file_size").gte(0),
                )),
            [unique(RULES, &["project_id"]), unique(RULES, &["namespace_id"])],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &[RULES]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
