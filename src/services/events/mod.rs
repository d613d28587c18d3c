//! What happened: recorded in the transaction of the change, shown in lists, and told to webhooks (specification 6).
//!
//! An area that makes something happen calls [`record`] within its own transaction, and that is all: activity of the
//! project, the event and the outbox of the hooks that are told of it are written together with the change.

pub mod listing;
pub mod pushes;

use sea_orm::sea_query::Expr;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use serde::Serialize;

pub use storage::entities::events::{Action, TargetType};
use storage::entities::project_hooks::Kind;
use storage::entities::{events, now, projects};

use crate::error::{Error, Result};
use crate::services::hooks::outbox;

/// Something that happened.
#[derive(Debug, Clone)]
pub struct NewEvent {
    /// In which project; none when it is not in any, or in one that goes away with it.
    pub project_id: Option<i64>,
    /// Who did it.
    pub author_id: Option<i64>,
    /// What was done.
    pub action: Action,
    /// What it was done to.
    pub target: Option<Target>,
    /// What else there is to tell, as JSON.
    pub data: Option<String>,
    /// Which hooks are told.
    pub told: Option<Told>,
}

/// What something was done to.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its kind.
    pub kind: TargetType,
    /// Its id.
    pub id: i64,
    /// Its number within the project.
    pub iid: Option<i64>,
    /// Its title.
    pub title: Option<String>,
}

/// Which hooks are told of an event.
#[derive(Debug, Clone)]
pub struct Told {
    /// Those that want to know of this.
    pub kind: Kind,
    /// Of those that limit branches, the ones that want to know of this one.
    pub branch: Option<String>,
}

impl NewEvent {
    /// Something that a user did in a project; nobody is told unless said otherwise.
    #[must_use]
    pub fn new(project_id: i64, author_id: i64, action: Action) -> Self {
        Self {
            project_id: Some(project_id),
            author_id: Some(author_id),
            action,
            target: None,
            data: None,
            told: None,
        }
    }

    /// The same with more to tell.
    ///
    /// # Errors
    /// When the data cannot be expressed in JSON.
    pub fn with_data(mut self, data: &impl Serialize) -> Result<Self> {
        self.data = Some(serde_json::to_string(data).map_err(Error::internal)?);
        Ok(self)
    }
}

/// A project as what something was done to.
#[must_use]
pub fn project_target(project: &projects::Model) -> Target {
    Target {
        kind: TargetType::Project,
        id: project.id,
        iid: None,
        title: Some(project.name.clone()),
    }
}

/// Records an event with the activity of its project, and what hooks are to be told of it.
///
/// # Errors
/// Whatever the database reports.
pub async fn record(transaction: &DatabaseTransaction, new: NewEvent) -> Result<()> {
    if let Some(project_id) = new.project_id {
        projects::Entity::update_many()
            .col_expr(projects::Column::LastActivityAt, Expr::value(now()))
            .filter(projects::Column::Id.eq(project_id))
            .exec(transaction)
            .await?;
    }
    write(transaction, new).await
}

/// As [`record`], where the change marks the activity itself.
pub(super) async fn write(transaction: &DatabaseTransaction, new: NewEvent) -> Result<()> {
    let target = new.target;
    let row = events::ActiveModel {
        project_id: Set(new.project_id),
        author_id: Set(new.author_id),
        action: Set(new.action),
        target_type: Set(target.as_ref().map(|target| target.kind)),
        target_id: Set(target.as_ref().map(|target| target.id)),
        target_iid: Set(target.as_ref().and_then(|target| target.iid)),
        target_title: Set(target.and_then(|target| target.title)),
        data: Set(new.data),
        created_at: Set(now()),
        ..Default::default()
    };
    let event = row.insert(transaction).await?;
    match new.told {
        Some(told) => outbox::announce(transaction, &event, &told).await,
        None => Ok(()),
    }
}
