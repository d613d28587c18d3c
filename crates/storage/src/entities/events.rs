//! The record of what happened: what the lists of events show and webhooks tell (specification 6).

use chrono::{DateTime, Utc};
use sea_orm::entity::prelude::*;
use serde::{Deserialize, Serialize};

/// What was done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// A merge request was approved.
    Approved,
    /// Something was closed.
    Closed,
    /// Somebody commented.
    Commented,
    /// Something was made.
    Created,
    /// Something was removed.
    Destroyed,
    /// A membership ended by its date.
    Expired,
    /// Somebody became a member.
    Joined,
    /// Somebody ceased to be a member.
    Left,
    /// A merge request was merged.
    Merged,
    /// References moved.
    Pushed,
    /// Something was opened again.
    Reopened,
    /// Something was changed.
    Updated,
}

/// What something was done to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, EnumIter, DeriveActiveEnum, Serialize, Deserialize)]
#[sea_orm(rs_type = "String", db_type = "Text", rename_all = "snake_case")]
#[serde(rename_all = "snake_case")]
pub enum TargetType {
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
    /// A snippet.
    Snippet,
    /// A user.
    User,
}

/// The record of what happened: what the lists of events show and webhooks tell (specification 6).
#[derive(Clone, Debug, PartialEq, Eq, DeriveEntityModel)]
#[sea_orm(table_name = "events")]
pub struct Model {
    /// The id, never given out twice.
    #[sea_orm(primary_key)]
    pub id: i64,
    /// The project; none when it is gone or it happened in none.
    pub project_id: Option<i64>,
    /// Who did it; none when nobody is known or the user is gone.
    pub author_id: Option<i64>,
    /// What was done.
    pub action: Action,
    /// What it was done to.
    pub target_type: Option<TargetType>,
    /// The id of that.
    pub target_id: Option<i64>,
    /// The number of that within the project.
    pub target_iid: Option<i64>,
    /// The title of that at the time.
    pub target_title: Option<String>,
    /// What else there is to tell, as JSON; its form follows from action and target.
    pub data: Option<String>,
    /// When it happened.
    pub created_at: DateTime<Utc>,
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
    /// Who did it.
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
