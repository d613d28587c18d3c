//! Projects, their topics and stars.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, one_of, reference, table, unique};

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        create(
            manager,
            table("projects")
                .col(big_integer("namespace_id"))
                .col(big_integer_null("creator_id"))
                .col(text("name"))
                .col(text("name_key"))
                .col(text("path"))
                .col(text("path_key"))
                .col(text_null("description"))
                .col(text("visibility"))
                .col(text_null("default_branch"))
                .col(text_null("avatar"))
                .col(boolean("archived").default(false))
                .col(text("repository_access_level").default("enabled"))
                .col(text("issues_access_level").default("enabled"))
                .col(text("merge_requests_access_level").default("enabled"))
                .col(text("wiki_access_level").default("enabled"))
                .col(text("builds_access_level").default("enabled"))
                .col(text("snippets_access_level").default("enabled"))
                .col(text("container_registry_access_level").default("enabled"))
                .col(text("forking_access_level").default("enabled"))
                .col(text("pages_access_level").default("private"))
                .col(text("merge_method").default("merge"))
                .col(boolean("request_access_enabled").default(true))
                .col(boolean("public_jobs").default(true))
                .col(boolean("shared_runners_enabled").default(true))
                .col(boolean("lfs_enabled").default(true))
                .col(boolean("packages_enabled").default(true))
                .col(boolean("service_desk_enabled").default(false))
                .col(boolean_null("emails_disabled"))
                .col(boolean("auto_devops_enabled").default(true))
                .col(text("auto_devops_deploy_strategy").default("continuous"))
                .col(text("auto_cancel_pending_pipelines").default("enabled"))
                .col(text_null("ci_config_path"))
                .col(integer_null("ci_default_git_depth").default(50))
                .col(text("build_git_strategy").default("fetch"))
                .col(integer("build_timeout").default(3600))
                .col(text_null("build_coverage_regex"))
                .col(boolean("only_allow_merge_if_pipeline_succeeds").default(false))
                .col(boolean("only_allow_merge_if_all_discussions_are_resolved").default(false))
                .col(boolean("allow_merge_on_skipped_pipeline").default(false))
                .col(boolean("resolve_outdated_diff_discussions").default(false))
                .col(boolean("remove_source_branch_after_merge").default(true))
                .col(boolean("printing_merge_request_link_enabled").default(true))
                .col(boolean("autoclose_referenced_issues").default(true))
                .col(text_null("suggestion_commit_message"))
                .col(text_null("issues_template"))
                .col(text_null("merge_requests_template"))
                .col(integer("approvals_before_merge").default(0))
                .col(boolean("mirror").default(false))
                .col(big_integer_null("mirror_user_id"))
                .col(boolean("mirror_trigger_builds").default(false))
                .col(boolean("only_mirror_protected_branches").default(false))
                .col(boolean("mirror_overwrites_diverged_branches").default(false))
                .col(text_null("external_authorization_classification_label"))
                .col(text("repository_storage").default("default"))
                .col(text_null("import_url_encrypted"))
                .col(text("import_status").default("none"))
                .col(text_null("import_error"))
                .col(integer("star_count").default(0))
                .col(integer("forks_count").default(0))
                .col(integer("open_issues_count").default(0))
                .col(big_integer_null("forked_from_id"))
                .col(text_null("runners_token_encrypted"))
                .col(date_null("marked_for_deletion_on"))
                .col(timestamp_with_time_zone_null("deletion_started_at"))
                .col(big_integer("repository_size").default(0))
                .col(big_integer("commit_count").default(0))
                .col(timestamp_with_time_zone("last_activity_at"))
                .col(timestamp_with_time_zone("created_at"))
                .col(timestamp_with_time_zone("updated_at"))
                .foreign_key(&mut reference(
                    "projects",
                    "namespace_id",
                    "namespaces",
                    ForeignKeyAction::Restrict,
                ))
                .foreign_key(&mut reference(
                    "projects",
                    "creator_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "projects",
                    "mirror_user_id",
                    "users",
                    ForeignKeyAction::SetNull,
                ))
                .foreign_key(&mut reference(
                    "projects",
                    "forked_from_id",
                    "projects",
                    ForeignKeyAction::SetNull,
                ))
                .check(one_of(
                    "projects",
                    "visibility",
                    &["private", "internal", "public"],
                ))
                .check(one_of(
                    "projects",
                    "repository_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "issues_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "merge_requests_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "wiki_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "builds_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "snippets_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "container_registry_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "forking_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "pages_access_level",
                    &["enabled", "private", "disabled"],
                ))
                .check(one_of(
                    "projects",
                    "merge_method",
                    &["merge", "rebase_merge", "ff"],
                ))
                .check(one_of(
                    "projects",
                    "auto_devops_deploy_strategy",
                    &["continuous", "manual", "timed_incremental"],
                ))
                .check(one_of(
                    "projects",
                    "auto_cancel_pending_pipelines",
                    &["enabled", "disabled"],
                ))
                .check(one_of("projects", "build_git_strategy", &["fetch", "clone"]))
                .check(one_of(
                    "projects",
                    "import_status",
                    &["none", "scheduled", "started", "finished", "failed"],
                )),
            [
                unique("projects", &["namespace_id", "path_key"]),
                unique("projects", &["namespace_id", "name_key"]),
                index("projects", &["visibility", "id"]),
                index("projects", &["created_at", "id"]),
                index("projects", &["updated_at", "id"]),
                index("projects", &["last_activity_at", "id"]),
                index("projects", &["name", "id"]),
                index("projects", &["path", "id"]),
                index("projects", &["creator_id"]),
                index("projects", &["mirror_user_id"]),
                index("projects", &["forked_from_id"]),
            ],
        )
        .await?;
        create(
            manager,
            table("project_topics")
                .col(big_integer("project_id"))
                .col(text("name"))
                .foreign_key(&mut reference(
                    "project_topics",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("project_topics", &["project_id", "name"]),
                index("project_topics", &["name"]),
            ],
        )
        .await?;
        create(
            manager,
            table("project_stars")
                .col(big_integer("user_id"))
                .col(big_integer("project_id"))
                .col(timestamp_with_time_zone("created_at"))
                .foreign_key(&mut reference(
                    "project_stars",
                    "user_id",
                    "users",
                    ForeignKeyAction::Cascade,
                ))
                .foreign_key(&mut reference(
                    "project_stars",
                    "project_id",
                    "projects",
                    ForeignKeyAction::Cascade,
                )),
            [
                unique("project_stars", &["user_id", "project_id"]),
                index("project_stars", &["project_id", "id"]),
            ],
        )
        .await?;
        Ok(())
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["projects", "project_topics", "project_stars"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
