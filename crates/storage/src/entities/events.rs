//! Events: the source of event lists and webhooks.

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// Action of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EventAction {
    /// A merge request was approved.
    Approved,
    /// A target was closed.
    Closed,
    /// A user commented.
    Commented,
    /// A target was created.
    Created,
    /// A target was deleted.
    Destroyed,
    /// A membership expired.
    Expired,
    /// A user became a member.
    Joined,
    /// A user is no longer a member.
    Left,
    /// A merge request was merged.
    Merged,
    /// References were pushed.
    Pushed,
    /// A target was reopened.
    Reopened,
    /// A target was updated.
    Updated,
}

/// Type of an event's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum EventTargetType {
    /// A comment on a commit.
    CommitNote,
    /// An issue.
    Issue,
    /// A job of a pipeline.
    Job,
    /// A merge request.
    MergeRequest,
    /// A milestone.
    Milestone,
    /// A note on an issue, a merge request or a snippet.
    Note,
    /// A pipeline.
    Pipeline,
    /// The project itself.
    Project,
    /// A release.
    Release,
    /// A snippet.
    Snippet,
    /// A user.
    User,
}

/// Events: the source of event lists and webhooks.
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel, row_derive::ReadColumns)]
#[sea_orm(table_name = "events")]
pub struct Model {
    /// The ID, never reused.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; none if it was deleted or the event has no project.
    pub project_id: Option<i64>,
    /// The author; none if unknown or deleted.
    pub author_id: Option<i64>,
    /// The action.
    pub action: EventAction,
    /// The type of the target.
    pub target_type: Option<EventTargetType>,
    /// The ID of the target.
    pub target_id: Option<i64>,
    /// The IID of the target within the project.
    pub target_iid: Option<i64>,
    /// The title of the target at that time.
    pub target_title: Option<String>,
    /// Additional data as JSON; its format depends on action and target.
    pub data: Option<String>,
    /// When it happened.
    pub created_at: DateTime<Utc>,
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
    /// The author.
    #[sea_orm(
        belongs_to = "super::users::Entity",
        from = "Column::AuthorId",
        to = "super::users::Column::Id"
    )]
    Author,
}

impl Related<super::projects::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Project.def()
    }
}

impl Related<super::users::Entity> for Entity {
    fn to() -> RelationDef {
        Relation::Author.def()
    }
}

impl ActiveModelBehavior for ActiveModel {}
