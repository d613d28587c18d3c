//! Projects: a repository and everything kept around it (specification 2.6).

use chrono::{DateTime, NaiveDate, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::LockType;
use sea_orm::{ActiveValue::Set, Condition, QuerySelect};
use serde::{Deserialize, Serialize};

use super::{Visibility, fold, numeric_id};

/// Who may use a feature of a project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum FeatureAccess {
    /// Everybody who sees the project.
    Enabled,
    /// Members only.
    Private,
    /// Nobody: the feature is off.
    Disabled,
}

/// How merge requests are merged (specification 2.0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum MergeMethod {
    /// By a merge commit, whenever there is no conflict.
    Merge,
    /// By a merge commit, only where a fast-forward is possible.
    RebaseMerge,
    /// By fast-forward only.
    Ff,
}

/// How a made-up pipeline deploys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum DeployStrategy {
    /// At once.
    Continuous,
    /// When somebody says so.
    Manual,
    /// Bit by bit.
    TimedIncremental,
}

/// On or off, in the words of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Switch {
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
    /// By updating what the last job left.
    Fetch,
    /// Afresh.
    Clone,
}

/// How far an import or fork has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum ImportStatus {
    /// There is none.
    None,
    /// It waits.
    Scheduled,
    /// It runs.
    Started,
    /// It is done.
    Finished,
    /// It failed.
    Failed,
}

/// Projects: a repository and everything kept around it (specification 2.6).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "projects")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The namespace it lies in.
    pub namespace_id: i64,
    /// Who made it.
    pub creator_id: Option<i64>,
    /// The name that is shown; unique in the namespace.
    pub name: String,
    /// The name folded.
    pub name_key: String,
    /// The last part of the path; unique in the namespace.
    pub path: String,
    /// The path folded.
    pub path_key: String,
    /// What it is for.
    pub description: Option<String>,
    /// The description folded, for searching.
    pub description_key: Option<String>,
    /// Who may see it.
    pub visibility: Visibility,
    /// The branch that is shown first; none while the repository is empty.
    pub default_branch: Option<String>,
    /// The file name of the picture.
    pub avatar: Option<String>,
    /// Whether it is read-only (specification 3.2).
    pub archived: bool,
    /// Who may use the repository.
    pub repository_access_level: FeatureAccess,
    /// Who may use issues.
    pub issues_access_level: FeatureAccess,
    /// Who may use merge requests.
    pub merge_requests_access_level: FeatureAccess,
    /// Who may use the wiki.
    pub wiki_access_level: FeatureAccess,
    /// Who may see jobs and pipelines.
    pub builds_access_level: FeatureAccess,
    /// Who may use snippets.
    pub snippets_access_level: FeatureAccess,
    /// Who may use the registry of container images.
    pub container_registry_access_level: FeatureAccess,
    /// Who may fork it.
    pub forking_access_level: FeatureAccess,
    /// Who may see its pages.
    pub pages_access_level: FeatureAccess,
    /// How merge requests are merged.
    pub merge_method: MergeMethod,
    /// Whether users may ask to join.
    pub request_access_enabled: bool,
    /// Whether jobs of a public project are seen by everybody.
    pub public_jobs: bool,
    /// Whether the instance's runners serve it.
    pub shared_runners_enabled: bool,
    /// Whether large files may be kept apart.
    pub lfs_enabled: bool,
    /// Whether it keeps packages.
    pub packages_enabled: bool,
    /// Whether issues may come by mail.
    pub service_desk_enabled: bool,
    /// Whether mail is off; inherited when absent.
    pub emails_disabled: Option<bool>,
    /// Whether a pipeline is made up when none is defined.
    pub auto_devops_enabled: bool,
    /// How such a pipeline deploys.
    pub auto_devops_deploy_strategy: DeployStrategy,
    /// Whether a newer pipeline cancels older ones that wait.
    pub auto_cancel_pending_pipelines: Switch,
    /// Where the definition of pipelines lies, when not in the usual place.
    pub ci_config_path: Option<String>,
    /// How many commits a job fetches; all when absent.
    pub ci_default_git_depth: Option<i32>,
    /// How a job gets the code.
    pub build_git_strategy: GitStrategy,
    /// How long a job may run, in seconds.
    pub build_timeout: i32,
    /// The expression that finds the coverage in a job log.
    pub build_coverage_regex: Option<String>,
    /// Whether a merge needs a pipeline that succeeded.
    pub only_allow_merge_if_pipeline_succeeds: bool,
    /// Whether a merge needs all discussions resolved.
    pub only_allow_merge_if_all_discussions_are_resolved: bool,
    /// Whether a skipped pipeline counts as one that succeeded.
    pub allow_merge_on_skipped_pipeline: bool,
    /// Whether a push resolves discussions on lines it changes.
    pub resolve_outdated_diff_discussions: bool,
    /// Whether a merge removes the source branch unless told otherwise.
    pub remove_source_branch_after_merge: bool,
    /// Whether a push answers with a link to open a merge request.
    pub printing_merge_request_link_enabled: bool,
    /// Whether issues named in commits are closed by a merge.
    pub autoclose_referenced_issues: bool,
    /// The message of commits that apply suggestions.
    pub suggestion_commit_message: Option<String>,
    /// The text new issues begin with.
    pub issues_template: Option<String>,
    /// The text new merge requests begin with.
    pub merge_requests_template: Option<String>,
    /// How many approvals a merge needs.
    pub approvals_before_merge: i32,
    /// Whether it is kept as a copy of another repository.
    pub mirror: bool,
    /// Whom the copying acts as.
    pub mirror_user_id: Option<i64>,
    /// Whether the copying starts pipelines.
    pub mirror_trigger_builds: bool,
    /// Whether only protected branches are copied.
    pub only_mirror_protected_branches: bool,
    /// Whether the copying overwrites branches that went their own way.
    pub mirror_overwrites_diverged_branches: bool,
    /// The label an outside authority decides by.
    pub external_authorization_classification_label: Option<String>,
    /// The storage the repository lies on.
    pub repository_storage: String,
    /// Where it was or is imported from, encrypted, since the address may hold a password.
    pub import_url_encrypted: Option<String>,
    /// How far an import or fork has come.
    pub import_status: ImportStatus,
    /// Why the import failed.
    pub import_error: Option<String>,
    /// How many users starred it.
    pub star_count: i32,
    /// How many forks of it exist.
    pub forks_count: i32,
    /// How many issues are open.
    pub open_issues_count: i32,
    /// The project it was forked from.
    pub forked_from_id: Option<i64>,
    /// The token runners register with, encrypted.
    pub runners_token_encrypted: Option<String>,
    /// The day deletion was asked for, where it is delayed (specification 3.3).
    pub marked_for_deletion_on: Option<NaiveDate>,
    /// When its removal began; from then on it is invisible.
    pub deletion_started_at: Option<DateTime<Utc>>,
    /// The size of the repository in bytes, kept by a job.
    pub repository_size: i64,
    /// How many commits the default branch has, kept by a job.
    pub commit_count: i64,
    /// When anything happened in it.
    pub last_activity_at: DateTime<Utc>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When the row was changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The namespace it lies in.
    #[sea_orm(
        belongs_to = "super::namespaces::Entity",
        from = "Column::NamespaceId",
        to = "super::namespaces::Column::Id"
    )]
    Namespace,
    /// Who made it.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::CreatorId",
        to = "super::users::Column::Id"
    )]
    Creator,
}

impl Related<super::namespaces::Entity> for Entity {
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
    /// Keeps the folded description in step with the description.
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

/// A project and its namespace by whole path, without regard to case; not one that is being removed. A bare
/// word is never a project.
///
/// # Errors
/// Whatever the database reports.
pub async fn by_full_path(db: &impl ConnectionTrait, full_path: &str) -> Result<Option<Found>, DbErr> {
    let Some((namespace, path)) = full_path.rsplit_once('/') else {
        return Ok(None);
    };
    let named = Condition::all()
        .add(super::namespaces::Column::FullPathKey.eq(fold(namespace)))
        .add(Column::PathKey.eq(fold(path)));
    one_with_namespace(db, named).await
}

/// A project and its namespace by id or whole path; digits are always an id (specification 2.0).
///
/// # Errors
/// Whatever the database reports.
pub async fn by_reference(db: &impl ConnectionTrait, reference: &str) -> Result<Option<Found>, DbErr> {
    match numeric_id(reference) {
        Some(id) => one_with_namespace(db, Condition::all().add(Column::Id.eq(id))).await,
        None => by_full_path(db, reference).await,
    }
}

/// Locks a project until the transaction ends; none when it is not there.
///
/// # Errors
/// Whatever the database reports.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    live().filter(Column::Id.eq(id)).lock_exclusive().one(db).await
}

/// As [`lock`], against others who do the same: for those who add to a project or change what belongs to it. Rows that refer
/// to the project may come meanwhile, so that nobody who has made one waits here in a circle.
///
/// # Errors
/// Whatever the database reports.
pub async fn hold(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    let found = live().filter(Column::Id.eq(id)).lock(LockType::NoKeyUpdate);
    found.one(db).await
}

/// All projects that are not being removed.
pub fn live() -> Select<Entity> {
    Entity::find().filter(Column::DeletionStartedAt.is_null())
}

/// A project with the namespace it lies in.
pub type Found = (Model, super::namespaces::Model);

async fn one_with_namespace(db: &impl ConnectionTrait, named: Condition) -> Result<Option<Found>, DbErr> {
    let found = live()
        .find_also_related(super::namespaces::Entity)
        .filter(named)
        .one(db)
        .await?;
    Ok(found.and_then(|(project, namespace)| Some((project, namespace?))))
}
