//! Deletes a user who is already hidden, with the personal namespace and its projects.

use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::{namespaces, users};
use storage::jobs::JobFailure;

use crate::accounts::avatars;
use crate::accounts::jobs::delete_user::DeleteUser;
use crate::discussion::{award_emoji, notes};
use crate::kernel::Backend;
use crate::lifecycle::deletion::namespaces::delete_tree;
use crate::lifecycle::deletion::rows::{self, RowOwner};
use crate::spaces::projects::stars;

/// Runs the job.
///
/// # Errors
/// Returns an error if Git or the database fails; the job is then retried.
pub async fn run_job(backend: Backend, job: DeleteUser) -> Result<(), JobFailure> {
    // Only a user who is marked for deletion: the payload alone is not sufficient proof. The user row is
    // deleted last.
    let user = users::Entity::find_by_id(job.user_id)
        .filter(users::Column::DeletionStartedAt.is_not_null())
        .one(backend.database.read())
        .await?;
    if user.is_none() {
        return Ok(());
    }
    for group in &job.groups {
        delete_tree(&backend, *group).await?;
    }
    if let Some(personal) = namespaces::of_user(backend.database.read(), job.user_id).await? {
        delete_tree(&backend, personal.id).await?;
    }
    if job.hard {
        rows::delete_all(&backend, RowOwner::Commenter(job.user_id)).await?;
        notes::delete_all_of_user(&backend, job.user_id).await?;
    }
    award_emoji::delete_all_of_user(&backend, job.user_id).await?;
    stars::delete_all_of_user(&backend, job.user_id).await?;
    avatars::remove(&backend, avatars::AvatarOwner::User(job.user_id)).await?;
    rows::delete_all(&backend, RowOwner::User(job.user_id)).await?;
    users::Entity::delete_by_id(job.user_id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}
