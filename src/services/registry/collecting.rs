//! The collector: what nobody needs any more goes, and nothing else, whoever pushes meanwhile.
//!
//! Each step takes away what the one before left alone for long enough, by itself and to its end:
//! 1. uploads that nobody went on with;
//! 2. manifests that no tag and no other manifest leads to;
//! 3. what a repository has of blobs that none of its manifests needs and nobody asked for;
//! 4. blobs that no repository has;
//! 5. pieces that belong to nobody, with the objects that they are.
//!
//! Steps 2 to 4 say what they take in the statement that takes it, or lock it and look again. So who pushes either was before,
//! and it stays, or comes after, and finds that it is not there.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::sea_query::{Expr, Query, SelectStatement};
use sea_orm::{
    ColumnTrait, Condition, DatabaseTransaction, DeleteMany, EntityTrait, ExprTrait, QueryFilter, QueryOrder,
    QuerySelect, Select,
};
use storage::entities::{
    now, registry_blobs as blobs, registry_manifest_references as references,
    registry_manifests as manifests, registry_pieces as pieces, registry_repositories as repositories,
    registry_repository_blobs as links, registry_tags as tags, registry_uploads as uploads,
};

use crate::error::Result;
use crate::services::Backend;

/// How long a client may take between two requests that belong together: an upload and its next part, a blob and the
/// manifest that needs it.
const GRACE: TimeDelta = TimeDelta::hours(24);
/// How many rows are looked at or removed at a time.
const BATCH: u64 = 500;

/// What was removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Collected {
    /// Manifests.
    pub manifests: u64,
    /// Blobs of a repository.
    pub links: u64,
    /// Blobs.
    pub blobs: u64,
}

/// Removes uploads that nobody goes on with, and the objects of whatever belongs to nobody. How many there were is answered.
///
/// # Errors
/// Whatever the storage or the database reports.
pub async fn sweep(backend: &Backend) -> Result<u64> {
    let db = backend.database.write();
    let ended = uploads::Entity::delete_many()
        .filter(uploads::Column::UpdatedAt.lt(now() - GRACE))
        .exec(db)
        .await?;
    let mut swept = ended.rows_affected;
    loop {
        let orphans = pieces::orphans(backend.database.read(), now() - GRACE, BATCH).await?;
        if orphans.is_empty() {
            return Ok(swept);
        }
        for piece in orphans {
            remove(backend, &piece).await?;
            swept += 1;
        }
    }
}

/// Removes pieces that belong to nobody as soon as they do. What cannot be removed now is swept.
pub(super) async fn discard(backend: &Backend, left: Vec<pieces::Model>) {
    for piece in left {
        if let Err(error) = remove(backend, &piece).await {
            tracing::warn!(%error, key = piece.key, "failed to remove a part of a blob; it is removed later");
        }
    }
}

/// The object first: a row without an object is found again.
async fn remove(backend: &Backend, piece: &pieces::Model) -> Result<()> {
    backend.objects.discard(&piece.key).await?;
    pieces::Entity::delete_by_id(piece.id)
        .exec(backend.database.write())
        .await?;
    Ok(())
}

/// Removes manifests, and what repositories have of blobs, and blobs, that were of no use for long enough.
///
/// # Errors
/// Whatever the database reports.
pub async fn collect(backend: &Backend) -> Result<Collected> {
    let mut collected = Collected::default();
    if backend.instance.untagged_image_days > 0 {
        let kept = TimeDelta::days(i64::from(backend.instance.untagged_image_days));
        collected.manifests = manifests_of_no_use(backend, now() - kept).await?;
    }
    collected.links = links_of_no_use(backend, now() - GRACE).await?;
    collected.blobs = blobs_of_no_use(backend, now() - GRACE).await?;
    Ok(collected)
}

/// Manifests without a tag since before an instant, which no list names and which are not about another that is there.
async fn manifests_of_no_use(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
    let old = manifests::Column::UntaggedSince.lt(before);
    let candidates = manifests::Entity::find()
        .select_only()
        .column(manifests::Column::Id)
        .column(manifests::Column::RepositoryId)
        .filter(old.clone());
    let useless = manifests::Entity::delete_many()
        .filter(old)
        .filter(Expr::not_exists(parents()))
        .filter(Expr::not_exists(tags_of()))
        .filter(Expr::not_exists(subjects()));
    take_away(backend, manifests::Column::Id, candidates, useless).await
}

/// Takes away of what stands in repositories what is still useless when nobody pushes. The candidates are told with their
/// repositories, and looked at batch by batch.
async fn take_away<E: EntityTrait>(
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
            let gone = async |transaction: &DatabaseTransaction| {
                // Pushes to the repository wait, so that none of them counts on what goes.
                if repositories::hold(transaction, repository_id).await?.is_none() {
                    return Ok(0);
                }
                let gone = useless.clone().filter(id.eq(row)).exec(transaction).await?;
                Ok::<_, crate::error::Error>(gone.rows_affected)
            };
            removed += backend.database.transaction(gone).await?;
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

/// Blobs that a repository has, that none of its manifests needs, and that nobody asked for since an instant.
async fn links_of_no_use(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
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
    take_away(backend, links::Column::Id, candidates, useless).await
}

/// Forgets what a restored copy cannot count on. Objects are copied after the rows that name them, and those of uploads and of
/// blobs of no use may have gone in between; who pushes them again would be told that they are there.
///
/// # Errors
/// Whatever the database reports.
pub async fn begin_anew(backend: &Backend) -> Result<()> {
    let db = backend.database.write();
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

/// Notes which blobs no repository has, and removes those of which that was noted before an instant.
async fn blobs_of_no_use(backend: &Backend, before: DateTime<Utc>) -> Result<u64> {
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
                .transaction(async |transaction| of_no_use(transaction, id, before).await)
                .await?;
        }
    }
}

/// Removes one blob, if it is still of no use once nobody else can say otherwise.
async fn of_no_use(transaction: &DatabaseTransaction, id: i64, before: DateTime<Utc>) -> Result<u64> {
    let locked = blobs::Entity::find_by_id(id)
        .filter(blobs::Column::UnreferencedSince.lt(before))
        .lock_exclusive()
        .one(transaction)
        .await?;
    if locked.is_none() {
        return Ok(0);
    }
    // Asked in a statement of its own, which sees what was committed while the row was waited for.
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
    let gone = blobs::Entity::delete_by_id(id).exec(transaction).await?;
    Ok(gone.rows_affected)
}
