//! Projects.

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{ExprTrait, LockType, Query};
use sea_orm::{ActiveValue::Set, Condition, DbBackend, QuerySelect};
use serde::{Deserialize, Serialize};

use super::related_rows::{RelatedPart, RelatedRow};
use super::{Visibility, fold, namespaces, numeric_id};

/// Access to a feature of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum FeatureAccess {
    /// Everyone who can see the project.
    Enabled,
    /// Only members.
    Private,
    /// Disabled.
    Disabled,
}

/// How merge requests are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    /// With a merge commit, if there is no conflict.
    Merge,
    /// With a merge commit, only if a fast-forward is possible.
    RebaseMerge,
    /// Only by fast-forward.
    Ff,
}

/// Whether merge requests are squashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum SquashOption {
    /// Never, regardless of the merge request.
    Never,
    /// Always, regardless of the merge request.
    Always,
    /// By default.
    DefaultOn,
    /// Only if a merge request requires it.
    DefaultOff,
}

impl SquashOption {
    /// Returns whether a new merge request is squashed that requires nothing.
    #[must_use]
    pub fn is_default(self) -> bool {
        matches!(self, Self::Always | Self::DefaultOn)
    }

    /// Returns whether a merge request is squashed that requires this.
    #[must_use]
    pub fn applies_to(self, is_required: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::DefaultOn | Self::DefaultOff => is_required,
        }
    }
}

/// Deployment strategy of Auto DevOps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeployStrategy {
    /// Immediately.
    Continuous,
    /// Manually.
    Manual,
    /// Incrementally.
    TimedIncremental,
}

/// On or off, with the values of the API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum OnOff {
    /// On.
    Enabled,
    /// Off.
    Disabled,
}

/// How a job gets the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum GitStrategy {
    /// Updates the working copy of the last job.
    Fetch,
    /// Clones the repository.
    Clone,
}

/// Status of an import or fork.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ImportStatus {
    /// Not imported.
    None,
    /// Waiting.
    Scheduled,
    /// Running.
    Started,
    /// Finished.
    Finished,
    /// It failed.
    Failed,
}

/// Projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "projects")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The namespace.
    pub namespace_id: i64,
    /// The creator.
    pub creator_id: Option<i64>,
    /// The display name; unique within the namespace.
    pub name: String,
    /// The name folded.
    pub name_key: String,
    /// The last component of the path; unique within the namespace.
    pub path: String,
    /// The path folded.
    pub path_key: String,
    /// The description.
    pub description: Option<String>,
    /// The folded description, for searching.
    pub description_key: Option<String>,
    /// The visibility.
    pub visibility: Visibility,
    /// The default branch; none while the repository is empty.
    pub default_branch: Option<String>,
    /// The file name of the avatar.
    pub avatar: Option<String>,
    /// Whether it is archived, that is, read-only.
    pub archived: bool,
    /// Access to the repository.
    pub repository_access_level: FeatureAccess,
    /// Access to issues.
    pub issues_access_level: FeatureAccess,
    /// Access to merge requests.
    pub merge_requests_access_level: FeatureAccess,
    /// Access to the wiki.
    pub wiki_access_level: FeatureAccess,
    /// Access to jobs and pipelines.
    pub builds_access_level: FeatureAccess,
    /// Access to snippets.
    pub snippets_access_level: FeatureAccess,
    /// Access to the container registry.
    pub container_registry_access_level: FeatureAccess,
    /// Access to packages.
    pub package_registry_access_level: FeatureAccess,
    /// Access to releases.
    pub releases_access_level: FeatureAccess,
    /// Access to environments and deployments.
    pub environments_access_level: FeatureAccess,
    /// Access to feature flags.
    pub feature_flags_access_level: FeatureAccess,
    /// Access to clusters.
    pub infrastructure_access_level: FeatureAccess,
    /// Access to metrics dashboards.
    pub monitor_access_level: FeatureAccess,
    /// Access to vulnerabilities.
    pub security_and_compliance_access_level: FeatureAccess,
    /// Access to forking.
    pub forking_access_level: FeatureAccess,
    /// Access to the project's pages.
    pub pages_access_level: FeatureAccess,
    /// How merge requests are merged.
    pub merge_method: MergeMethod,
    /// Whether merge requests are squashed.
    pub squash_option: SquashOption,
    /// Whether users may request access.
    pub request_access_enabled: bool,
    /// Whether jobs of a public project are public.
    pub public_jobs: bool,
    /// Whether shared runners are enabled.
    pub shared_runners_enabled: bool,
    /// Whether Git LFS is enabled.
    pub lfs_enabled: bool,
    /// Whether issues can be created by email.
    pub service_desk_enabled: bool,
    /// Whether email is disabled; inherited if absent.
    pub emails_disabled: Option<bool>,
    /// Whether Auto DevOps is used without a pipeline definition.
    pub auto_devops_enabled: bool,
    /// The deployment strategy of Auto DevOps.
    pub auto_devops_deploy_strategy: DeployStrategy,
    /// Whether a newer pipeline cancels older pending ones.
    pub auto_cancel_pending_pipelines: OnOff,
    /// The path of the pipeline definition, if not the default.
    pub ci_config_path: Option<String>,
    /// Number of commits that a job fetches; all if absent.
    pub ci_default_git_depth: Option<i32>,
    /// How a job gets the code.
    pub build_git_strategy: GitStrategy,
    /// The time limit of a job in seconds.
    pub build_timeout: i32,
    /// The regular expression that extracts the coverage from a job log.
    pub build_coverage_regex: Option<String>,
    /// Whether a merge requires a successful pipeline.
    pub only_allow_merge_if_pipeline_succeeds: bool,
    /// Whether a merge requires all discussions to be resolved.
    pub only_allow_merge_if_all_discussions_are_resolved: bool,
    /// Whether a merge requires all external status checks to have passed.
    pub only_allow_merge_if_all_status_checks_passed: bool,
    /// Whether a skipped pipeline counts as successful.
    pub allow_merge_on_skipped_pipeline: bool,
    /// Whether a push resolves discussions on changed lines.
    pub resolve_outdated_diff_discussions: bool,
    /// Whether a merge removes the source branch by default.
    pub remove_source_branch_after_merge: bool,
    /// Whether the output of a push contains a link to open a merge request.
    pub printing_merge_request_link_enabled: bool,
    /// Whether a merge closes issues that its commits refer to.
    pub autoclose_referenced_issues: bool,
    /// The message of commits that apply suggestions.
    pub suggestion_commit_message: Option<String>,
    /// The default description of new issues.
    pub issues_template: Option<String>,
    /// The default description of new merge requests.
    pub merge_requests_template: Option<String>,
    /// Number of approvals that a merge requires.
    pub approvals_before_merge: i32,
    /// Whether new commits of a merge request delete its approvals.
    pub reset_approvals_on_push: bool,
    /// Whether authors can approve their merge requests.
    pub merge_requests_author_approval: bool,
    /// Whether users with commits in a merge request cannot approve it.
    pub merge_requests_disable_committers_approval: bool,
    /// Whether merge requests cannot have approval rules of their own.
    pub disable_overriding_approvers_per_merge_request: bool,
    /// Whether only the jobs of the project and of its allowlist can use it with their job tokens.
    pub job_token_scope_enabled: bool,
    /// Whether it is a mirror of another repository.
    pub mirror: bool,
    /// The user of the mirror updates.
    pub mirror_user_id: Option<i64>,
    /// Whether mirror updates start pipelines.
    pub mirror_trigger_builds: bool,
    /// Whether only protected branches are mirrored.
    pub only_mirror_protected_branches: bool,
    /// Whether mirror updates overwrite diverged branches.
    pub mirror_overwrites_diverged_branches: bool,
    /// The classification label for external authorization.
    pub external_authorization_classification_label: Option<String>,
    /// The storage of the repository.
    pub repository_storage: String,
    /// The import URL, encrypted because it may contain a password.
    pub import_url_encrypted: Option<String>,
    /// The status of an import or fork.
    pub import_status: ImportStatus,
    /// Why the import failed.
    pub import_error: Option<String>,
    /// Number of stars.
    pub star_count: i32,
    /// Number of forks.
    pub forks_count: i32,
    /// Number of open issues.
    pub open_issues_count: i32,
    /// The project it was forked from.
    pub forked_from_id: Option<i64>,
    /// The registration token of runners, encrypted.
    pub runners_token_encrypted: Option<String>,
    /// The date of a delayed deletion request.
    pub marked_for_deletion_on: Option<NaiveDate>,
    /// When its deletion started; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// The size of the repository in bytes, updated by a job.
    pub repository_size: i64,
    /// Number of commits on the default branch, updated by a job.
    pub commit_count: i64,
    /// Time of the last activity.
    pub last_activity_at: DateTime<Utc>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When the row was last changed.
    pub updated_at: DateTime<Utc>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The namespace.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::NamespaceId",
        to = "super::namespaces::Column::Id"
    )]
    Namespace,
    /// The creator.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::CreatorId",
        to = "super::users::Column::Id"
    )]
    Creator,
}

impl Related<namespaces::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Namespace.def()
    }
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Creator.def()
    }
}

#[async_trait::async_trait]
impl ActiveModelBehavior for ActiveModel {
    /// Updates the folded description when the description changes.
    async fn before_save<C>(mut self, _db: &C, _insert: bool) -> Result<Self, DbErr>
    where
        C: ConnectionTrait,
    {
        if let Set(description) = &self.description {
            self.description_key = Set(description.as_deref().map(fold));
        }
        Ok(self)
    }
}

/// Returns a project and its namespace by full path, ignoring case, unless it is being deleted. A path
/// without a slash is never a project.
///
/// # Errors
/// Any database error.
pub async fn by_full_path(
    db: &impl ConnectionTrait,
    full_path: &str,
) -> Result<Option<ProjectWithNamespace>, DbErr> {
    match at_path(full_path) {
        Some(named) => one_with_namespace(db, named).await,
        None => Ok(None),
    }
}

/// Returns the condition for a full path, on projects with their namespaces.
fn at_path(full_path: &str) -> Option<Condition> {
    let (namespace, path) = full_path.rsplit_once('/')?;
    let named = Condition::all()
        .add(namespaces::Column::FullPathKey.eq(fold(namespace)))
        .add(Column::PathKey.eq(fold(path)));
    Some(named)
}

/// Returns the condition for an ID or full path, on projects with their namespaces; none for a text that no project has.
pub(super) fn named(reference: &str) -> Option<Condition> {
    match numeric_id(reference) {
        Some(id) => Some(Condition::all().add(Column::Id.eq(id))),
        None => at_path(reference),
    }
}

/// Returns a project and its namespace by ID or full path; digits are always an ID.
///
/// # Errors
/// Any database error.
pub async fn by_reference(
    db: &impl ConnectionTrait,
    reference: &str,
) -> Result<Option<ProjectWithNamespace>, DbErr> {
    match named(reference) {
        Some(named) => one_with_namespace(db, named).await,
        None => Ok(None),
    }
}

/// Locks a project until the transaction ends; returns none if it does not exist.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    not_deleted()
        .filter(Column::Id.eq(id))
        .lock_exclusive()
        .one(db)
        .await
}

/// As [`lock`], but only against other calls of this function. Used to add to a project or to change its
/// contents. Rows that reference the project may be inserted meanwhile, so that transactions with such rows
/// cannot deadlock here.
///
/// # Errors
/// Any database error.
pub async fn lock_for_insert(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = not_deleted()
        .filter(Column::Id.eq(id))
        .lock(LockType::NoKeyUpdate);
    found.one(db).await
}

/// Selects all projects that are not being deleted.
pub fn not_deleted() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}

/// A project with its namespace.
pub type ProjectWithNamespace = (Model, namespaces::Model);

async fn one_with_namespace(
    db: &impl ConnectionTrait,
    named: Condition,
) -> Result<Option<ProjectWithNamespace>, DbErr> {
    let found = not_deleted()
        .find_also_related(namespaces::Entity)
        .filter(named)
        .one(db)
        .await?;
    Ok(found.and_then(|(project, namespace)| Some((project, namespace?))))
}

/// Returns a part with the paths of projects, for [`full_path_of`]; none without IDs.
#[must_use]
pub fn paths_part(database: DbBackend, ids: &[i64]) -> Option<RelatedPart> {
    let in_namespace = namespaces::Column::Id
        .into_expr()
        .eq(Column::NamespaceId.into_expr());
    let rows = Query::select()
        .from(Entity)
        .cross_join(namespaces::Entity)
        .and_where(in_namespace)
        .take();
    let part = RelatedPart::of_owners(database, rows, Column::Id.into_expr(), ids)?;
    Some(part.with_texts([namespaces::Column::FullPath.into_expr(), Column::Path.into_expr()]))
}

/// Returns the full path of a project from a row of [`paths_part`].
#[must_use]
pub fn full_path_of(row: RelatedRow) -> String {
    let [namespace, path, ..] = row.texts.map(Option::unwrap_or_default);
    format!("{namespace}/{path}")
}

/// Returns a part with the number of projects in the personal namespace of each user. Users without projects have no
/// row; none without IDs.
#[must_use]
pub fn personal_counts_part(database: DbBackend, user_ids: &[i64]) -> Option<RelatedPart> {
    let owner_id = || namespaces::Column::OwnerId.into_expr();
    let in_namespace = Column::NamespaceId
        .into_expr()
        .eq(namespaces::Column::Id.into_expr());
    let rows = Query::select()
        .from(namespaces::Entity)
        .cross_join(Entity)
        .and_where(in_namespace)
        .and_where(Column::DeletionStartedAt.is_null())
        .add_group_by([owner_id()])
        .take();
    let part = RelatedPart::of_owners(database, rows, owner_id(), user_ids)?;
    Some(part.with_number(Column::Id.count()))
}
