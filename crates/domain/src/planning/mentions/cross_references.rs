//! Cross-references: each referenced issue and merge request gets one system note about the location. Users
//! who cannot see that location do not see the note.

use sea_orm::sea_query::IntoCondition;
use sea_orm::sea_query::{Expr, ExprTrait, LockType, Order, Query};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, DatabaseTransaction, EntityTrait, QueryFilter, QuerySelect,
};
use storage::entities::notes::{ActiveModel, Column, Entity};
use storage::entities::{issuables, issues, merge_requests, now};

use super::{TextSource, resolve_references};
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::text::references;
use crate::planning::system_notes::{self, NoteableId};

/// Referenced noteables, by ID.
#[derive(Debug, Default)]
pub(super) struct CrossReferences {
    /// Issues.
    pub issues: Vec<i64>,
    /// Merge requests.
    pub merge_requests: Vec<i64>,
}

/// Finds the references in `after` that are not in `before`, in a text of the project, limited to what the
/// caller can see.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn find(
    backend: &Backend,
    space: &SpaceAccess,
    before: &[&str],
    after: &[&str],
) -> Result<CrossReferences> {
    let Some(project) = &space.project else {
        return Ok(CrossReferences::default());
    };
    let (db, base) = (backend.database.read(), backend.instance.base_url.as_str());
    let (viewer, today) = (space.caller.viewer(), now().date_naive());
    let location = (project, &space.namespace);
    let added = |parse: fn(&str, &str) -> Vec<references::Reference>| {
        let old: Vec<_> = before.iter().flat_map(|text| parse(text, base)).collect();
        let new = after.iter().flat_map(|text| parse(text, base));
        new.filter(|reference| !old.contains(reference))
            .collect::<Vec<_>>()
    };
    let mut found = CrossReferences::default();
    let columns = (issues::Column::ProjectId, issues::Column::Iid);
    if let Some(referenced) = resolve_references(db, location, added(references::issues), columns).await? {
        found.issues = issues::Entity::find()
            .select_only()
            .column(issues::Column::Id)
            .filter(referenced)
            .filter(issues::visible(viewer, today))
            .into_tuple()
            .all(db)
            .await?;
    }
    let columns = (
        merge_requests::Column::TargetProjectId,
        merge_requests::Column::Iid,
    );
    if let Some(referenced) =
        resolve_references(db, location, added(references::merge_requests), columns).await?
    {
        found.merge_requests = merge_requests::Entity::find()
            .select_only()
            .column(merge_requests::Column::Id)
            .filter(referenced)
            .filter(merge_requests::visible(viewer, today))
            .into_tuple()
            .all(db)
            .await?;
    }
    Ok(found)
}

impl CrossReferences {
    /// Writes the notes on noteables that have none from this location.
    ///
    /// # Errors
    /// Returns an error if a database query fails.
    pub async fn save(self, transaction: &DatabaseTransaction, source: TextSource<'_>) -> Result<()> {
        let (column, id, noun, sigil) = match source.noteable {
            NoteableId::Issue(id) => (Column::ReferencedIssueId, id, "issue", '#'),
            NoteableId::MergeRequest(id) => (Column::ReferencedMergeRequestId, id, "merge request", '!'),
            NoteableId::Snippet(_) | NoteableId::Epic(_) => return Ok(()),
        };
        let author = Some(source.author_id);
        self.create_notes(
            transaction,
            source.space,
            Some(source.noteable),
            column.eq(id),
            |target, path| {
                let body = format!("mentioned in {noun} {path}{sigil}{}", source.iid);
                system_notes::cross_reference(target, source.noteable, author, body)
            },
        )
        .await
    }

    /// Creates a note on each target except `source`, unless it has a system note that matches `existing`.
    /// The note is built from the target and the path by which the target refers to this location. The path
    /// is empty within a project.
    pub(super) async fn create_notes(
        self,
        transaction: &DatabaseTransaction,
        space: &SpaceAccess,
        source: Option<NoteableId>,
        existing: impl IntoCondition,
        note: impl Fn(NoteableId, &str) -> ActiveModel,
    ) -> Result<()> {
        let issues = lock_existing(transaction, issuables::IssuableKind::Issue, self.issues).await?;
        let merge_requests = issuables::IssuableKind::MergeRequest;
        let merge_requests = lock_existing(transaction, merge_requests, self.merge_requests).await?;
        let targets = issues
            .into_iter()
            .map(|(id, project)| (NoteableId::Issue(id), project));
        let merge_requests = merge_requests.into_iter();
        let targets =
            targets.chain(merge_requests.map(|(id, project)| (NoteableId::MergeRequest(id), project)));
        let mut targets: Vec<(NoteableId, i64)> =
            targets.filter(|(target, _)| Some(*target) != source).collect();
        if targets.is_empty() {
            return Ok(());
        }
        let with_note: Vec<(Option<i64>, Option<i64>)> = Entity::find()
            .select_only()
            .columns([Column::IssueId, Column::MergeRequestId])
            .filter(existing)
            .filter(Column::System.eq(true))
            .filter(is_on_any(&targets))
            .into_tuple()
            .all(transaction)
            .await?;
        targets.retain(|(target, _)| {
            !with_note.iter().any(|(issue, merge_request)| match target {
                NoteableId::Issue(id) => *issue == Some(*id),
                NoteableId::MergeRequest(id) => *merge_request == Some(*id),
                NoteableId::Snippet(_) | NoteableId::Epic(_) => false,
            })
        });
        if targets.is_empty() {
            return Ok(());
        }
        let (project_id, path) = (
            space.project.as_ref().map(|project| project.id),
            space.full_path(),
        );
        let rows = targets
            .into_iter()
            .map(|(target, project)| match project_id == Some(project) {
                true => note(target, ""),
                false => note(target, &path),
            });
        Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
        Ok(())
    }
}

/// Matches the notes on targets.
fn is_on_any(targets: &[(NoteableId, i64)]) -> Condition {
    let issues = targets.iter().filter_map(|(target, _)| match target {
        NoteableId::Issue(id) => Some(*id),
        _ => None,
    });
    let merge_requests = targets.iter().filter_map(|(target, _)| match target {
        NoteableId::MergeRequest(id) => Some(*id),
        _ => None,
    });
    Condition::any()
        .add(Column::IssueId.is_in(issues))
        .add(Column::MergeRequestId.is_in(merge_requests))
}

/// Returns the targets that still exist, with their projects, locked until the transaction ends.
async fn lock_existing(
    transaction: &DatabaseTransaction,
    kind: issuables::IssuableKind,
    ids: Vec<i64>,
) -> Result<Vec<(i64, i64)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let project = kind.project();
    let locked = Query::select()
        .columns(["id", project])
        .from(kind.table())
        .and_where(Expr::col("id").is_in(ids))
        .order_by("id", Order::Asc)
        .lock(LockType::KeyShare)
        .take();
    let rows = transaction.query_all(&locked).await?;
    let targets = rows
        .iter()
        .map(|row| Ok((row.try_get("", "id")?, row.try_get("", project)?)));
    targets.collect()
}
