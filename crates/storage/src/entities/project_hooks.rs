//! Webhooks of projects.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use sea_orm::sea_query::{Keyword, LockType};
use sea_orm::{FromQueryResult, Iterable, QueryOrder, QuerySelect};
use serde::{Deserialize, Serialize};

use super::now;

/// Kind of event that a webhook may subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A push to a branch.
    Push,
    /// A push of a tag.
    TagPush,
    /// An issue changed.
    Issue,
    /// A confidential issue changed.
    ConfidentialIssue,
    /// A comment.
    Note,
    /// A comment on a confidential noteable, or a confidential comment.
    ConfidentialNote,
    /// A merge request changed.
    MergeRequest,
    /// A job changed.
    Job,
    /// A pipeline changed.
    Pipeline,
    /// A wiki page changed.
    WikiPage,
    /// A release was created, updated or deleted.
    Release,
}

impl HookEvent {
    /// Returns the value of the event header.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Push => "Push Hook",
            Self::TagPush => "Tag Push Hook",
            Self::Issue => "Issue Hook",
            Self::ConfidentialIssue => "Confidential Issue Hook",
            Self::Note => "Note Hook",
            Self::ConfidentialNote => "Confidential Note Hook",
            Self::MergeRequest => "Merge Request Hook",
            Self::Job => "Job Hook",
            Self::Pipeline => "Pipeline Hook",
            Self::WikiPage => "Wiki Page Hook",
            Self::Release => "Release Hook",
        }
    }

    /// Returns the name in the log of deliveries.
    #[must_use]
    pub fn trigger(self) -> &'static str {
        match self {
            Self::Push => "push_hooks",
            Self::TagPush => "tag_push_hooks",
            Self::Issue => "issue_hooks",
            Self::ConfidentialIssue => "confidential_issue_hooks",
            Self::Note => "note_hooks",
            Self::ConfidentialNote => "confidential_note_hooks",
            Self::MergeRequest => "merge_request_hooks",
            Self::Job => "job_hooks",
            Self::Pipeline => "pipeline_hooks",
            Self::WikiPage => "wiki_page_hooks",
            Self::Release => "release_hooks",
        }
    }

    /// Returns the column that enables the event.
    fn column(self) -> Column {
        match self {
            Self::Push => Column::PushEvents,
            Self::TagPush => Column::TagPushEvents,
            Self::Issue => Column::IssuesEvents,
            Self::ConfidentialIssue => Column::ConfidentialIssuesEvents,
            Self::Note => Column::NoteEvents,
            Self::ConfidentialNote => Column::ConfidentialNoteEvents,
            Self::MergeRequest => Column::MergeRequestsEvents,
            Self::Job => Column::JobEvents,
            Self::Pipeline => Column::PipelineEvents,
            Self::WikiPage => Column::WikiPageEvents,
            Self::Release => Column::ReleasesEvents,
        }
    }
}

/// Meaning of the branch filter of a webhook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
pub enum BranchFilterStrategy {
    /// A name, or a pattern with wildcards.
    Wildcard,
    /// A regular expression.
    Regex,
    /// The filter is ignored.
    AllBranches,
}

/// Webhooks of projects.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "project_hooks")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// The URL without the password, with placeholders for URL variables.
    pub url: String,
    /// The password of the URL, encrypted.
    pub password_encrypted: Option<String>,
    /// The secret token sent to the receiver, encrypted.
    pub token_encrypted: Option<String>,
    /// Whether push events trigger the webhook.
    pub push_events: bool,
    /// The branches whose pushes trigger it; all if absent.
    pub push_events_branch_filter: Option<String>,
    /// Whether tag push events trigger the webhook.
    pub tag_push_events: bool,
    /// Whether issue events trigger the webhook.
    pub issues_events: bool,
    /// Whether events of confidential issues trigger the webhook.
    pub confidential_issues_events: bool,
    /// Whether merge request events trigger the webhook.
    pub merge_requests_events: bool,
    /// Whether comments trigger the webhook.
    pub note_events: bool,
    /// Whether confidential comments trigger the webhook.
    pub confidential_note_events: bool,
    /// Whether job events trigger the webhook.
    pub job_events: bool,
    /// Whether pipeline events trigger the webhook.
    pub pipeline_events: bool,
    /// Whether wiki page events trigger the webhook.
    pub wiki_page_events: bool,
    /// Whether the receiver's certificate must be valid.
    pub enable_ssl_verification: bool,
    /// Number of failed attempts since the last success.
    pub failures: i32,
    /// Time of the first of these failures.
    pub failing_since: Option<DateTime<Utc>>,
    /// When it was disabled after failing for too long.
    pub disabled_at: Option<DateTime<Utc>>,
    /// When the row was created.
    pub created_at: DateTime<Utc>,
    /// When its settings were last changed.
    pub updated_at: DateTime<Utc>,
    /// Whether release events trigger the webhook.
    pub releases_events: bool,
    /// The names of the custom headers, as a JSON array; none if there are no custom headers.
    pub custom_header_keys: Option<String>,
    /// The names and values of the custom headers, as a JSON array of pairs, encrypted.
    pub custom_headers_encrypted: Option<String>,
    /// The token that signs deliveries, encrypted.
    pub signing_token_encrypted: Option<String>,
    /// The keys of the URL variables, as a JSON array; none if there are no URL variables.
    pub url_variable_keys: Option<String>,
    /// The keys and values of the URL variables, as a JSON array of pairs, encrypted.
    pub url_variables_encrypted: Option<String>,
    /// The name.
    pub name: Option<String>,
    /// The description.
    pub description: Option<String>,
    /// The template of the request bodies; the payload is sent if absent.
    pub custom_webhook_template: Option<String>,
    /// The meaning of the branch filter.
    pub branch_filter_strategy: BranchFilterStrategy,
    /// When its deletion started; it is hidden since.
    pub deletion_started_at: Option<DateTime<Utc>>,
}

/// Relations of the table.
#[derive(Copy, Clone, Debug, EnumIter, DeriveRelation)]
pub enum Relation {
    /// The project.
    #[sea_orm(
        belongs_to = "super::projects::Entity",
        from = "Column::ProjectId",
        to = "super::projects::Column::Id"
    )]
    Project,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}

/// Selects the webhooks of a project in creation order, except those that are being deleted.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .filter(Column::DeletionStartedAt.is_null())
        .order_by_asc(Column::Id)
}

/// Selects the webhooks of a project in creation order, with nulls in place of their password, custom headers and URL
/// variables. These can be large, and a list does not contain them.
pub fn of_project_for_list(project_id: i64) -> Select<Entity> {
    Column::iter().fold(
        of_project(project_id).select_only(),
        |hooks, column| match column {
            Column::PasswordEncrypted | Column::CustomHeadersEncrypted | Column::UrlVariablesEncrypted => {
                hooks.column_as(Expr::Keyword(Keyword::Null), column)
            }
            column => hooks.column(column),
        },
    )
}

/// Selects a webhook, unless it is being deleted.
pub fn by_id(id: i64) -> Select<Entity> {
    Entity::find_by_id(id).filter(Column::DeletionStartedAt.is_null())
}

/// Hides a webhook. Returns false if its deletion has started already.
///
/// # Errors
/// Any database error.
pub async fn hide(db: &impl ConnectionTrait, id: i64) -> Result<bool, DbErr> {
    let hidden = Entity::update_many()
        .col_expr(Column::DeletionStartedAt, Expr::value(now()))
        .filter(Column::Id.eq(id))
        .filter(Column::DeletionStartedAt.is_null())
        .exec(db)
        .await?;
    Ok(hidden.rows_affected > 0)
}

/// Locks a webhook until the transaction ends; returns none if it does not exist or is being deleted. Deliveries may be
/// inserted meanwhile.
///
/// # Errors
/// Any database error.
pub async fn lock(db: &impl ConnectionTrait, id: i64) -> Result<Option<Model>, DbErr> {
    by_id(id).lock(LockType::NoKeyUpdate).one(db).await
}

/// A webhook without its values and template, which can be large.
#[derive(Debug, Clone, PartialEq, Eq, FromQueryResult)]
pub struct Subscriber {
    /// The ID.
    pub id: i64,
    /// The URL without the password, with placeholders for URL variables.
    pub url: String,
    /// The branches whose pushes trigger it; all if absent.
    pub push_events_branch_filter: Option<String>,
    /// The meaning of the branch filter.
    pub branch_filter_strategy: BranchFilterStrategy,
    /// When it was disabled after failing for too long.
    pub disabled_at: Option<DateTime<Utc>>,
}

/// Returns the webhooks of a project that an event triggers, in creation order.
///
/// # Errors
/// Any database error.
pub async fn subscribed_to(
    db: &impl ConnectionTrait,
    project_id: i64,
    kind: HookEvent,
) -> Result<Vec<Subscriber>, DbErr> {
    of_project(project_id)
        .select_only()
        .columns([
            Column::Id,
            Column::Url,
            Column::PushEventsBranchFilter,
            Column::BranchFilterStrategy,
            Column::DisabledAt,
        ])
        .filter(kind.column().eq(true))
        .into_model::<Subscriber>()
        .all(db)
        .await
}
