//! Releases with their related rows: author, links, milestones, evidence, and the commit of the tag.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use sea_orm::sea_query::{Asterisk, Expr, Func, Query};
use sea_orm::{ActiveEnum, ColumnTrait, ConnectionTrait, DbBackend, EntityTrait, QueryFilter};
use storage::entities::issues::{self, IssueState};
use storage::entities::related_rows::{PartKey, RelatedPart, RelatedRowSets, RelatedRows};
use storage::entities::release_evidences::EvidenceSummary;
use storage::entities::release_links::LinkSummary;
use storage::entities::users::UserSummary;
use storage::entities::{columns, milestones, namespaces, now, release_milestones, releases};

use super::rules::{is_historical, is_upcoming};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::Role;
use crate::kernel::query::text_bytes;
use crate::kernel::urls;
use crate::planning::milestones::MilestoneDetail;

/// A release with its related rows, as far as the caller can read them.
#[derive(Debug, Clone)]
pub struct ReleaseDetail {
    /// The release.
    pub release: releases::Model,
    /// The full path of the project.
    pub full_path: String,
    /// The path of the project in its namespace.
    pub path: String,
    /// Whether its date is in the future.
    pub is_upcoming: bool,
    /// Whether it was published before it was created here.
    pub is_historical: bool,
    /// Whether the caller can read the code of the project, and thus the name of the tag.
    pub can_read_code: bool,
    /// The related rows; `None` in a list without them.
    pub content: Option<ReleaseContent>,
}

/// Related rows of a release.
#[derive(Debug, Clone)]
pub struct ReleaseContent {
    /// The author; `None` if deleted.
    pub author: Option<UserSummary>,
    /// The links, newest first.
    pub links: Vec<LinkSummary>,
    /// The milestones; empty if the caller cannot read them. Releases with the same milestone share it.
    pub milestones: Vec<Arc<ReleaseMilestone>>,
    /// The parts that only readers of the code see.
    pub code: Option<ReleaseCode>,
    /// Whether the caller can update the release.
    pub can_update: bool,
}

/// A milestone of a release, with the numbers of its issues that the caller can see.
#[derive(Debug, Clone)]
pub struct ReleaseMilestone {
    /// The milestone.
    pub detail: MilestoneDetail,
    /// The number of issues.
    pub total: i64,
    /// The number of closed issues.
    pub closed: i64,
}

/// Parts of a release that only readers of the code see.
#[derive(Debug, Clone, Default)]
pub struct ReleaseCode {
    /// The commit of the tag; `None` if the tag does not exist or is not on a commit.
    pub commit: Option<git::Commit>,
    /// The evidence, oldest first.
    pub evidences: Vec<EvidenceSummary>,
}

/// Returns releases without related rows.
pub(super) fn without_content(
    accesses: &HashMap<i64, ProjectAccess>,
    rows: Vec<releases::Model>,
) -> Vec<ReleaseDetail> {
    let time = now();
    let details = rows.into_iter().filter_map(|release| {
        let access = accesses.get(&release.project_id)?;
        Some(ReleaseDetail {
            full_path: urls::project_path(&access.namespace, &access.project),
            path: access.project.path.clone(),
            is_upcoming: is_upcoming(&release, time),
            is_historical: is_historical(&release),
            can_read_code: access.can_read_code(),
            content: None,
            release,
        })
    });
    details.collect()
}

/// Returns one release of a project with its related rows.
///
/// # Errors
/// Returns an error if a database query or a Git operation fails.
pub(super) async fn load_one(
    backend: &Backend,
    access: &ProjectAccess,
    release: releases::Model,
) -> Result<ReleaseDetail> {
    let accesses = HashMap::from([(access.project.id, access.clone())]);
    let details = load(backend, &accesses, vec![release]).await?;
    details.into_iter().next().ok_or_else(super::rules::not_found)
}

/// Returns releases with their related rows. `accesses` contains the projects of all releases.
///
/// # Errors
/// Returns `Error::Overloaded` if too little memory is left for the milestones, or an error if a database query or a
/// Git operation fails.
pub(super) async fn load(
    backend: &Backend,
    accesses: &HashMap<i64, ProjectAccess>,
    rows: Vec<releases::Model>,
) -> Result<Vec<ReleaseDetail>> {
    let Some(access) = accesses.values().next().filter(|_| !rows.is_empty()) else {
        return Ok(Vec::new());
    };
    let db = backend.database.read();
    let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
    let mut related = RelatedRows::default();
    let parts = Parts::add(&mut related, db.get_database_backend(), access, &rows, &ids);
    let mut found = parts.take(&mut related.load(db).await?)?;
    let mut milestones = milestones_of(db, &access.caller, accesses, &found).await?;
    let mut commits = commits(backend, accesses, &rows).await?;
    let mut details = without_content(accesses, rows);
    for detail in &mut details {
        let id = detail.release.id;
        let Some(access) = accesses.get(&detail.release.project_id) else {
            continue;
        };
        let can_plan = SpaceAccess::from(access.clone()).check_planning().is_ok();
        let own = milestones.remove(&id).unwrap_or_default();
        let evidences = found.evidences.remove(&id).unwrap_or_default();
        let author = detail.release.author_id;
        detail.content = Some(ReleaseContent {
            author: author.and_then(|author| found.authors.get(&author).cloned()),
            links: found.links.remove(&id).unwrap_or_default(),
            milestones: if can_plan { own } else { Vec::new() },
            code: commits
                .remove(&id)
                .map(|commit| ReleaseCode { commit, evidences }),
            can_update: access.has_role(Role::Developer) && !access.project.archived,
        });
    }
    Ok(details)
}

/// The parts of a statement with the related rows of releases.
struct Parts {
    authors: PartKey,
    links: PartKey,
    evidences: PartKey,
    milestones: PartKey,
    counts: PartKey,
}

/// The rows of the parts.
struct FoundRows {
    authors: HashMap<i64, UserSummary>,
    links: HashMap<i64, Vec<LinkSummary>>,
    evidences: HashMap<i64, Vec<EvidenceSummary>>,
    /// IDs of milestones with the sizes of their descriptions in bytes, by ID of the release.
    milestones: HashMap<i64, Vec<(i64, u64)>>,
    /// Numbers of all and of closed issues by ID of the milestone.
    counts: HashMap<i64, (i64, i64)>,
}

impl Parts {
    fn add(
        related: &mut RelatedRows,
        database: DbBackend,
        access: &ProjectAccess,
        rows: &[releases::Model],
        ids: &[i64],
    ) -> Self {
        let authors: BTreeSet<i64> = rows.iter().filter_map(|row| row.author_id).collect();
        Self {
            authors: related.add(UserSummary::part(database, authors)),
            links: related.add(LinkSummary::part(database, ids)),
            evidences: related.add(EvidenceSummary::part(database, ids)),
            milestones: related.add(release_milestones::part(database, ids).map(|part| {
                let description = Expr::col((milestones::Entity, milestones::Column::Description));
                part.with_number(text_bytes(description))
            })),
            counts: related.add(Some(issue_counts(database, access, ids))),
        }
    }

    fn take(self, rows: &mut RelatedRowSets) -> Result<FoundRows> {
        let mut counts: HashMap<i64, (i64, i64)> = HashMap::new();
        for row in rows.take(self.counts) {
            let [state, ..] = row.texts;
            let (total, closed) = counts.entry(row.owner_id).or_default();
            let number = row.number.unwrap_or_default();
            *total += number;
            if IssueState::try_from_value(&state.unwrap_or_default())? == IssueState::Closed {
                *closed += number;
            }
        }
        Ok(FoundRows {
            authors: rows.take_by_owner(self.authors, UserSummary::read)?,
            links: rows.take_grouped(self.links, LinkSummary::read)?,
            evidences: rows.take_grouped(self.evidences, |row| Ok(row.into()))?,
            milestones: rows.take_grouped(self.milestones, |row| {
                let size = row.number.unwrap_or_default();
                Ok((row.id, u64::try_from(size).unwrap_or_default()))
            })?,
            counts,
        })
    }
}

/// Returns a part with the numbers of the issues of milestones that the caller can see, by state.
fn issue_counts(database: DbBackend, access: &ProjectAccess, ids: &[i64]) -> RelatedPart {
    let rows = Query::select()
        .from(issues::Entity)
        .and_where(issues::Column::MilestoneId.in_subquery(release_milestones::ids_of(database, ids)))
        .cond_where(issues::visible(access.caller.viewer(), now().date_naive()))
        .group_by_col((issues::Entity, issues::Column::MilestoneId))
        .group_by_col((issues::Entity, issues::Column::State))
        .take();
    RelatedPart::new(rows, issues::Column::MilestoneId.into_expr())
        .with_number(Func::count(Expr::col(Asterisk)).into())
        .with_texts([issues::Column::State.into_expr()])
}

/// Returns the milestones of releases, by ID of the release. Reserves the memory of the descriptions before they are
/// read.
async fn milestones_of(
    db: &impl ConnectionTrait,
    caller: &Caller,
    accesses: &HashMap<i64, ProjectAccess>,
    found: &FoundRows,
) -> Result<HashMap<i64, Vec<Arc<ReleaseMilestone>>>> {
    let shown = || found.milestones.values().flatten().copied();
    let sizes: BTreeMap<i64, u64> = shown().collect();
    if sizes.is_empty() {
        return Ok(HashMap::new());
    }
    // The response contains each milestone once for each release.
    let shown: u64 = shown().map(|(_, size)| size).sum();
    // A row also contains the folded description. While rows are read, they exist twice.
    let read = sizes.values().sum::<u64>().saturating_mul(4);
    caller.reserve_memory(shown.saturating_add(read))?;
    let query = milestones::Entity::find()
        .find_also_related(namespaces::Entity)
        .filter(milestones::Column::Id.is_in(sizes.into_keys()));
    let mut details = HashMap::new();
    for (mut milestone, group) in columns::all_joined(db, query).await? {
        let project = milestone.project_id.and_then(|id| accesses.get(&id));
        let path = match (group, project) {
            (Some(group), _) => group.full_path,
            (None, Some(access)) => urls::project_path(&access.namespace, &access.project),
            (None, None) => continue,
        };
        let (total, closed) = found.counts.get(&milestone.id).copied().unwrap_or_default();
        let id = milestone.id;
        // Only searches use the folded text.
        milestone.description_key = None;
        let detail = MilestoneDetail::new(milestone, path);
        let with_counts = ReleaseMilestone {
            detail,
            total,
            closed,
        };
        details.insert(id, Arc::new(with_counts));
    }
    caller.release_memory(read);
    let of_releases = found.milestones.iter().map(|(release_id, ids)| {
        let own = ids.iter().filter_map(|(id, _)| details.get(id).cloned());
        (*release_id, own.collect())
    });
    Ok(of_releases.collect())
}

/// Returns the commits of the tags of releases whose code the caller can read, by ID of the release.
async fn commits(
    backend: &Backend,
    accesses: &HashMap<i64, ProjectAccess>,
    rows: &[releases::Model],
) -> Result<HashMap<i64, Option<git::Commit>>> {
    let mut by_project: HashMap<i64, Vec<&releases::Model>> = HashMap::new();
    for row in rows {
        by_project.entry(row.project_id).or_default().push(row);
    }
    let mut found = HashMap::new();
    for (project_id, rows) in by_project {
        let Some(access) = accesses.get(&project_id).filter(|access| access.can_read_code()) else {
            continue;
        };
        let tags = rows.iter().map(|row| row.tag.clone()).collect();
        let commits = commits_of_tags(backend, access, tags).await?;
        found.extend(rows.iter().map(|row| row.id).zip(commits));
    }
    Ok(found)
}

/// Returns the commits of tags in the given order.
pub(super) async fn commits_of_tags(
    backend: &Backend,
    access: &ProjectAccess,
    tags: Vec<String>,
) -> Result<Vec<Option<git::Commit>>> {
    let count = tags.len();
    let repository = repository_access::open(backend, access);
    let tags = match repository.tags_named(tags).await {
        Err(git::Error::RepositoryMissing) => return Ok(vec![None; count]),
        tags => tags?,
    };
    let ids: Vec<Option<git::Oid>> = tags
        .into_iter()
        .map(|tag| tag.and_then(|tag| tag.commit))
        .collect();
    // A tag can be deleted and its commit pruned meanwhile.
    let commits = repository
        .existing_commits(ids.iter().copied().flatten().collect())
        .await?;
    let commits: HashMap<git::Oid, git::Commit> =
        commits.into_iter().map(|commit| (commit.id, commit)).collect();
    Ok(ids.into_iter().map(|id| commits.get(&id?).cloned()).collect())
}
