//! Webhooks of projects (specification 2.6 and 6).

use chrono::{DateTime, Utc};
use sea_orm::QueryOrder;
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What a hook may be told of (specification 6).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A branch moved.
    Push,
    /// A tag moved.
    TagPush,
    /// An issue changed.
    Issue,
    /// A confidential issue changed.
    ConfidentialIssue,
    /// Somebody commented.
    Note,
    /// Somebody commented on something confidential.
    ConfidentialNote,
    /// A merge request changed.
    MergeRequest,
    /// A job changed.
    Job,
    /// A pipeline changed.
    Pipeline,
    /// A page of the wiki changed.
    WikiPage,
}

impl Kind {
    /// What the header of a delivery calls it.
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
        }
    }

    /// What the log of deliveries calls it.
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
        }
    }

    /// The column that says whether a hook is told of it.
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
        }
    }
}

/// Webhooks of projects (specification 2.6 and 6).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "project_hooks")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project.
    pub project_id: i64,
    /// Where to send, as it may be shown: without the password.
    pub url: String,
    /// The password of the address, encrypted.
    pub password_encrypted: Option<String>,
    /// What the receiver knows deliveries by, encrypted.
    pub token_encrypted: Option<String>,
    /// Whether it is told of branches that move.
    pub push_events: bool,
    /// Which branches; all when absent.
    pub push_events_branch_filter: Option<String>,
    /// Whether it is told of tags.
    pub tag_push_events: bool,
    /// Whether it is told of issues.
    pub issues_events: bool,
    /// Whether it is told of confidential issues.
    pub confidential_issues_events: bool,
    /// Whether it is told of merge requests.
    pub merge_requests_events: bool,
    /// Whether it is told of comments.
    pub note_events: bool,
    /// Whether it is told of comments on what is confidential.
    pub confidential_note_events: bool,
    /// Whether it is told of jobs.
    pub job_events: bool,
    /// Whether it is told of pipelines.
    pub pipeline_events: bool,
    /// Whether it is told of pages of the wiki.
    pub wiki_page_events: bool,
    /// Whether the receiver's certificate must be valid.
    pub enable_ssl_verification: bool,
    /// Attempts that failed since the last success.
    pub failures: i32,
    /// When the first of them was.
    pub failing_since: Option<DateTime<Utc>>,
    /// When it was switched off for failing too long.
    pub disabled_at: Option<DateTime<Utc>>,
    /// When the row was made.
    pub created_at: DateTime<Utc>,
    /// When its settings were changed last.
    pub updated_at: DateTime<Utc>,
}

/// How the table relates to others.
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

/// The hooks of a project, in the order they were made.
pub fn of_project(project_id: i64) -> Select<Entity> {
    Entity::find()
        .filter(Column::ProjectId.eq(project_id))
        .order_by_asc(Column::Id)
}

/// Those hooks of a project that are told of something.
///
/// # Errors
/// Whatever the database reports.
pub async fn told_of(db: &impl ConnectionTrait, project_id: i64, kind: Kind) -> Result<Vec<Model>, DbErr> {
    of_project(project_id)
        .filter(kind.column().eq(true))
        .all(db)
        .await
}
