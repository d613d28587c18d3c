//! Removes a user who is out of sight already, with the personal namespace and its projects.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde::{Deserialize, Serialize};
use storage::entities::{commit_comments, namespaces, users};
use storage::jobs::{Failure, Job};

use crate::services::Backend;
use crate::services::namespaces::remove_tree;
use crate::services::{avatars, award_emoji, notes};

/// Removes a user for good. Every step finds what earlier ones left, so it may be killed at any point.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeleteUser {
    /// The user.
    pub user_id: i64,
    /// Whether what they wrote goes too.
    pub hard: bool,
    /// The groups that go with the user.
    pub groups: Vec<i64>,
}

impl Job for DeleteUser {
    const KIND: &'static str = "delete_user";

    fn dedup_key(&self) -> Option<String> {
        Some(self.user_id.to_string())
    }
}

/// Runs the job.
///
/// # Errors
/// When Git or the database fails; the job is tried again then.
pub async fn run(backend: Backend, job: DeleteUser) -> Result<(), Failure> {
    // Only one that was taken out of sight: the payload is not proof enough. The row is the last to go.
    let user = users::Entity::find_by_id(job.user_id)
        .filter(users::Column::DeletionStartedAt.is_not_null())
        .one(backend.database.read())
        .await?;
    if user.is_none() {
        return Ok(());
    }
    for group in &job.groups {
        remove_tree(&backend, *group).await?;
    }
    if let Some(personal) = namespaces::of_user(backend.database.read(), job.user_id).await? {
        remove_tree(&backend, personal.id).await?;
    }
    if job.hard {
        commit_comments::Entity::delete_many()
            .filter(commit_comments::Column::AuthorId.eq(job.user_id))
            .exec(backend.database.write())
            .await?;
        notes::remove_all_of(&backend, job.user_id).await?;
    }
    award_emoji::remove_all_of(&backend, job.user_id).await?;
    avatars::remove(&backend, avatars::Owner::User(job.user_id)).await?;
    users::Entity::delete_by_id(job.user_id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}
