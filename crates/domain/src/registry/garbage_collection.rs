//! Garbage collection of the container registry, safe during concurrent pushes.
//!
//! Each step is independent and deletes data that has been unreferenced for long enough, mostly because of the
//! step before:
//! 1. abandoned uploads;
//! 2. manifests that no tag and no other manifest refers to;
//! 3. links to blobs that no manifest of the repository refers to and no client requested recently;
//! 4. blobs without a link;
//! 5. orphaned pieces, with their objects.
//!
//! Steps 2 to 4 repeat the condition in the deleting statement, or lock the row and check it again. A concurrent
//! push is therefore either seen and its data retained, or it finds that the data does not exist.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DeleteMany, EntityTrait, ExprTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use storage::database::Database;
use storage::entities::{
    now, registry_blobs as blobs, registry_manifest_references as references,
    registry_manifests as manifests, registry_pieces as pieces, registry_repositories as repositories,
    registry_repository_blobs as links, registry_tags as tags, registry_uploads as uploads,
};

use crate::integrations::object_storage::SweepProgress;
use crate::kernel::Backend;
use crate::kernel::error::Result;

/// Maximum time between two related requests of a client: an upload and its next part, or a blob and its
/// manifest.
const GRACE_PERIOD: TimeDelta = TimeDelta::hours(24);
/// Number of rows that are read or deleted at a time.
const BATCH: u64 = 500;

/// Numbers of deleted rows.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct CollectionStats {
    /// Manifests.
    pub manifests: u64,
    /// Links between blobs and repositories.
    pub links: u64,
    /// Blobs.
    pub blobs: u64,
}

/// Deletes abandoned uploads and the objects of orphaned pieces, and returns their number. An object that cannot be
/// deleted remains for the next sweep.
///
/// # Errors
/// Returns an error if a database query fails, or if an object could not be deleted.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let db = backend.database.write();
    let ended = uploads::Entity::delete_many()
        .filter(uploads::Column::UpdatedAt.lt(now() - GRACE_PERIOD))
        .exec(db)
        .await?;
    let (mut progress, mut after) = (SweepProgress::new(), None);
    loop {
        let db = backend.database.read();
        let orphans = pieces::orphans(db, now() - GRACE_PERIOD, after, BATCH).await?;
        let Some(last) = orphans.last() else { break };
        after = Some((last.created_at, last.id));
        for piece in orphans {
            if !progress.record(remove(backend, &piece).await) {
                return progress.finish();
            }
        }
    }
    Ok(ended.rows_affected + progress.finish()?)
}

/// Deletes orphaned pieces immediately. If that fails, a later sweep deletes them.
pub(super) async fn discard(backend: &Backend, pieces: Vec<pieces::Model>) {
    for piece in pieces {
        if let Err(error) = remove(backend, &piece).await {
            tracing::warn!(%error, key = piece.key, "failed to delete a piece of a blob");
        }
    }
}

/// Deletes the object first: a row without an object is found again.
async fn remove(backend: &Backend, piece: &pieces::Model) -> Result<()> {
    backend.objects.discard(&piece.key).await?;
    pieces::Entity::delete_by_id(piece.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Deletes manifests, blob links and blobs that have been unreferenced for long enough.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn collect(backend: &Backend) -> Result<CollectionStats> {
    let mut collected = CollectionStats::default();
    if backend.instance.untagged_image_days > 0 {
        let retention = TimeDelta::days(i64::from(backend.instance.untagged_image_days));
        // No image is older than the first representable date.
        if let Some(before) = now().checked_sub_signed(retention) {
            collected.manifests = delete_unused_manifests(backend, before).await?;
        }
    }
    collected.links = delete_unused_links(backend, now() - GRACE_PERIOD).await?;
    collected.blobs = delete_unused_blobs(backend, now() - GRACE_PERIOD).await?;
    Ok(collected)
}

/// Deletes manifests that have been untagged since before an instant, unless a list contains them or their
/// subject exists.
async fn delete_unused_manifests(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
    // Each candidate is deleted in a transaction. Children of an index can be old and never become deletable.
    let unused = Condition::all()
        .add(manifests::Column::UntaggedSince.lt(before))
        .add(Expr::not_exists(parents()))
        .add(Expr::not_exists(tags_of()))
        .add(Expr::not_exists(subjects()));
    let candidates = manifests::Entity::find()
        .select_only()
        .column(manifests::Column::Id)
        .column(manifests::Column::RepositoryId)
        .filter(unused.clone());
    let useless = manifests::Entity::delete_many().filter(unused);
    delete_unreferenced(backend, manifests::Column::Id, candidates, useless).await
}

/// Deletes rows of repositories that are still unreferenced while pushes are blocked. The candidates are
/// returned with their repositories and processed in batches.
async fn delete_unreferenced<E: EntityTrait>(
    backend: &Backend,
    id: E::Column,
    candidates: Select<E>,
    useless: DeleteMany<E>,
) -> Result<u64> {
    let (mut removed, mut after) = (0, 0);
    loop {
        let found: Vec<(i64, i64)> = candidates
            .clone()
            .filter(id.gt(after))
            .order_by_asc(id)
            .limit(BATCH)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        let Some((last, _)) = found.last() else {
            return Ok(removed);
        };
        after = *last;
        for (row, repository_id) in found {
            let delete_row = async |transaction: &DatabaseTransaction| {
                // The lock blocks pushes to the repository, so that none of them relies on the deleted row.
                if repositories::lock_for_push(transaction, repository_id)
                    .await?
                    .is_none()
                {
                    return Ok(0);
                }
                let deleted = useless.clone().filter(id.eq(row)).exec(transaction).await?;
                Ok::<_, crate::kernel::error::Error>(deleted.rows_affected)
            };
            removed += backend.database.transaction(delete_row).await?;
        }
    }
}

fn parents() -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(references::Entity)
        .and_where(
            Expr::col((references::Entity, references::Column::ChildId))
                .equals((manifests::Entity, manifests::Column::Id)),
        )
        .take()
}

fn tags_of() -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(tags::Entity)
        .and_where(
            Expr::col((tags::Entity, tags::Column::ManifestId))
                .equals((manifests::Entity, manifests::Column::Id)),
        )
        .take()
}

fn subjects() -> SelectStatement {
    const SUBJECT: &str = "subject";
    Query::select()
        .expr(Expr::val(1))
        .from_as(manifests::Entity, SUBJECT)
        .and_where(
            Expr::col((SUBJECT, manifests::Column::RepositoryId))
                .equals((manifests::Entity, manifests::Column::RepositoryId)),
        )
        .and_where(
            Expr::col((SUBJECT, manifests::Column::Digest))
                .equals((manifests::Entity, manifests::Column::SubjectDigest)),
        )
        .take()
}

/// Deletes links to blobs that no manifest of the repository needs and that have not been requested since an
/// instant.
async fn delete_unused_links(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
    let needed = Query::select()
        .expr(Expr::val(1))
        .from(references::Entity)
        .and_where(
            Expr::col((references::Entity, references::Column::RepositoryId))
                .equals((links::Entity, links::Column::RepositoryId)),
        )
        .and_where(
            Expr::col((references::Entity, references::Column::BlobId))
                .equals((links::Entity, links::Column::BlobId)),
        )
        .take();
    let of_no_use = Condition::all()
        .add(links::Column::TouchedAt.lt(before))
        .add(Expr::not_exists(needed));
    let candidates = links::Entity::find()
        .select_only()
        .column(links::Column::Id)
        .column(links::Column::RepositoryId)
        .filter(of_no_use.clone());
    let useless = links::Entity::delete_many().filter(of_no_use);
    delete_unreferenced(backend, links::Column::Id, candidates, useless).await
}

/// Deletes rows that are not reliable in a restored backup: uploads and unreferenced blobs, whose objects can be
/// deleted during a backup. Otherwise the server would report missing objects as existing.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn reset_after_restore(database: &Database) -> Result<()> {
    let db = database.write();
    uploads::Entity::delete_many().exec(db).await?;
    blobs::Entity::delete_many()
        .filter(blobs::Column::UnreferencedSince.is_not_null())
        .filter(Expr::not_exists(linked()))
        .exec(db)
        .await?;
    Ok(())
}

fn linked() -> SelectStatement {
    Query::select()
        .expr(Expr::val(1))
        .from(links::Entity)
        .and_where(
            Expr::col((links::Entity, links::Column::BlobId)).equals((blobs::Entity, blobs::Column::Id)),
        )
        .take()
}

/// Marks blobs without a repository, and deletes blobs that were marked before an instant.
async fn delete_unused_blobs(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
    let db = backend.database.write();
    blobs::Entity::update_many()
        .col_expr(blobs::Column::UnreferencedSince, Expr::value(now()))
        .filter(blobs::Column::UnreferencedSince.is_null())
        .filter(Expr::not_exists(linked()))
        .exec(db)
        .await?;
    let (mut removed, mut after) = (0, 0);
    loop {
        let found: Vec<i64> = blobs::Entity::find()
            .select_only()
            .column(blobs::Column::Id)
            .filter(blobs::Column::Id.gt(after))
            .filter(blobs::Column::UnreferencedSince.lt(before))
            .order_by_asc(blobs::Column::Id)
            .limit(BATCH)
            .into_tuple()
            .all(backend.database.read())
            .await?;
        let Some(last) = found.last() else {
            return Ok(removed);
        };
        after = *last;
        for id in found {
            removed += backend
                .database
                .transaction(async |transaction| delete_if_unused(transaction, id, before).await)
                .await?;
        }
    }
}

/// Deletes a blob if it is still unreferenced while it is locked.
async fn delete_if_unused(transaction: &DatabaseTransaction, id: i64, before: DateTime<Utc>) -> Result<u64> {
    let locked = blobs::Entity::find_by_id(id)
        .filter(blobs::Column::UnreferencedSince.lt(before))
        .lock_exclusive()
        .one(transaction)
        .await?;
    if locked.is_none() {
        return Ok(0);
    }
    // A separate statement sees the commits that happened while it waited for the row lock.
    let linked = links::Entity::find()
        .filter(links::Column::BlobId.eq(id))
        .limit(1)
        .one(transaction)
        .await?;
    if linked.is_some() {
        blobs::Entity::update_many()
            .col_expr(
                blobs::Column::UnreferencedSince,
                Expr::value(None::<DateTime<Utc>>),
            )
            .filter(blobs::Column::Id.eq(id))
            .exec(transaction)
            .await?;
        return Ok(0);
    }
    let deleted = blobs::Entity::delete_by_id(id).exec(transaction).await?;
    Ok(deleted.rows_affected)
}
