//! Rows related to issues and merge requests, loaded in one statement per page. Only milestones are joined to the rows
//! of the page.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, DbErr, EntityTrait, QueryFilter, QueryTrait};
use storage::entities::access::Viewer;
use storage::entities::issuables::{assignees_part, label_links, reviewers_part};
use storage::entities::labels::{LabelParts, LabelSummary};
use storage::entities::related_rows::{PartKey, RelatedRow, RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{
    closing_merge_requests, columns, issues, merge_requests, milestones, namespaces, notes, now, projects,
};

use super::IssuableKind;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::query::load_related;
use crate::planning::milestones::MilestoneDetail;
use crate::planning::system_notes::NoteableId;

/// An issue or merge request.
pub(crate) trait Issuable {
    /// Kind of the issuable.
    const KIND: IssuableKind;

    /// Returns its ID.
    fn id(&self) -> i64;
    /// Returns its IID.
    fn iid(&self) -> i64;
    /// Returns the ID of its project.
    fn project_id(&self) -> i64;
    /// Returns the ID of its author.
    fn author_id(&self) -> Option<i64>;
    /// Returns the IDs of the other users in its representation, who closed or merged it, or will merge it.
    fn other_user_ids(&self) -> [Option<i64>; 3];
    /// Returns the ID of its milestone.
    fn milestone_id(&self) -> Option<i64>;

    /// Returns its kind and ID.
    fn noteable_id(&self) -> NoteableId {
        match Self::KIND {
            IssuableKind::Issue => NoteableId::Issue(self.id()),
            IssuableKind::MergeRequest => NoteableId::MergeRequest(self.id()),
        }
    }
}

impl Issuable for issues::Model {
    const KIND: IssuableKind = IssuableKind::Issue;

    fn id(&self) -> i64 {
        self.id
    }

    fn iid(&self) -> i64 {
        self.iid
    }

    fn project_id(&self) -> i64 {
        self.project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn other_user_ids(&self) -> [Option<i64>; 3] {
        [self.closed_by_id, None, None]
    }

    fn milestone_id(&self) -> Option<i64> {
        self.milestone_id
    }
}

impl Issuable for merge_requests::Model {
    const KIND: IssuableKind = IssuableKind::MergeRequest;

    fn id(&self) -> i64 {
        self.id
    }

    fn iid(&self) -> i64 {
        self.iid
    }

    fn project_id(&self) -> i64 {
        self.target_project_id
    }

    fn author_id(&self) -> Option<i64> {
        self.author_id
    }

    fn other_user_ids(&self) -> [Option<i64>; 3] {
        [self.closed_by_id, self.merged_by_id, self.merge_user_id]
    }

    fn milestone_id(&self) -> Option<i64> {
        self.milestone_id
    }
}

/// An issuable with its milestone. Pages have milestones without descriptions, which [`AssociationRequest`] reads once.
pub(crate) type WithMilestone<T> = (T, Option<milestones::Model>);

/// The issuables of a page, of either kind, whose related rows are requested.
pub(crate) struct AssociationRequest<'a> {
    /// The caller, whose memory is reserved for large texts.
    pub caller: &'a Caller,
    /// The user who reads.
    pub viewer: Viewer,
    /// The issues.
    pub issues: &'a [WithMilestone<issues::Model>],
    /// The merge requests.
    pub merge_requests: &'a [WithMilestone<merge_requests::Model>],
    /// The full paths of projects that are already known.
    pub paths: HashMap<i64, String>,
    /// IDs of further users.
    pub user_ids: Vec<i64>,
}

/// Related rows of the issuables of a page.
#[derive(Debug, Default)]
pub(crate) struct Associations {
    paths: HashMap<i64, String>,
    users: HashMap<i64, UserSummary>,
    milestones: HashMap<i64, Arc<MilestoneDetail>>,
    of_issues: LinkedRows,
    of_merge_requests: LinkedRows,
    /// What the viewer can see of the references of issues; `None` if everything.
    visible: Option<VisibleReferences>,
    unresolved: HashSet<i64>,
}

/// Rows linked to the issuables of a kind.
#[derive(Debug, Default)]
struct LinkedRows {
    labels: HashMap<i64, Vec<LabelSummary>>,
    assignees: HashMap<i64, Vec<UserSummary>>,
    /// Only of merge requests.
    reviewers: HashMap<i64, Vec<UserSummary>>,
}

/// References of issues that the viewer can see.
#[derive(Debug, Default)]
struct VisibleReferences {
    /// Number of closing merge requests. Others may belong to private projects.
    merge_requests: HashMap<i64, i64>,
    /// Issues to which issues were moved.
    moved_to: HashSet<i64>,
}

impl AssociationRequest<'_> {
    /// Loads the related rows, in one statement with the parts that were added to `related`. Also returns the rows of
    /// those parts.
    ///
    /// # Errors
    /// Returns the errors of [`load_related`].
    pub async fn load(
        self,
        db: &impl ConnectionTrait,
        mut related: RelatedRows,
    ) -> Result<(Associations, RelatedRowSets)> {
        let database = db.get_database_backend();
        let references: Vec<References> = self
            .issues
            .iter()
            .map(References::of)
            .chain(self.merge_requests.iter().map(References::of))
            .collect();
        let project_ids = references.iter().map(|ids| ids.project_id);
        let project_ids: Vec<i64> = project_ids.filter(|id| !self.paths.contains_key(id)).collect();
        let user_ids = references.iter().flat_map(|ids| ids.user_ids).flatten();
        let group_ids: Vec<i64> = references
            .iter()
            .filter_map(|ids| ids.milestone_group_id)
            .collect();
        let projects = related.add(projects::paths_part(database, &project_ids));
        let groups = related.add(namespaces::full_paths_part(database, &group_ids));
        let users = related.add(UserSummary::part(database, user_ids.chain(self.user_ids)));
        let of_issues = LinkedParts::add(&mut related, self.issues, database);
        let of_merge_requests = LinkedParts::add(&mut related, self.merge_requests, database);
        let visible = VisibleParts::add(&mut related, self.viewer, self.issues, database);
        let merge_request_ids: Vec<i64> = self.merge_requests.iter().map(|(row, _)| row.id).collect();
        let unresolved = related.add(notes::unresolved_part(database, &merge_request_ids));
        let milestones = self.issues.iter().filter_map(|(_, milestone)| milestone.as_ref());
        let milestones = milestones.chain(self.merge_requests.iter().filter_map(|(_, row)| row.as_ref()));
        let milestones: HashMap<i64, &milestones::Model> = milestones.map(|row| (row.id, row)).collect();
        let not_described = milestones.values().filter(|row| row.description.is_none());
        let not_described: Vec<i64> = not_described.map(|row| row.id).collect();
        let descriptions = related.add(milestones::descriptions_part(database, &not_described));
        let mut rows = load_related(db, self.caller, related).await?;
        let mut paths = self.paths;
        paths.extend(rows.take_by_owner(projects, |row| Ok(projects::full_path_of(row)))?);
        let group_paths = rows.take_by_owner(groups, first_text)?;
        let mut descriptions = rows.take_by_owner(descriptions, first_text)?;
        let milestones = milestones.into_values().filter_map(|row| {
            let mut detail = milestone_detail(row, &paths, &group_paths)?;
            let description = descriptions.remove(&row.id);
            detail.milestone.description = description.or(detail.milestone.description);
            Some((row.id, Arc::new(detail)))
        });
        let associations = Associations {
            milestones: milestones.collect(),
            users: rows.take_by_owner(users, UserSummary::read)?,
            of_issues: of_issues.take(&mut rows)?,
            of_merge_requests: of_merge_requests.take(&mut rows)?,
            visible: visible.map(|parts| parts.take(&mut rows)),
            unresolved: owners(&mut rows, unresolved),
            paths,
        };
        Ok((associations, rows))
    }
}

impl Associations {
    /// Returns the full path of the project, or `None` if the project was deleted since the page was read.
    pub fn path(&self, issuable: &impl Issuable) -> Option<String> {
        self.paths.get(&issuable.project_id()).cloned()
    }

    /// Returns a user by ID, unless deleted.
    pub fn user(&self, id: Option<i64>) -> Option<UserSummary> {
        id.and_then(|id| self.users.get(&id).cloned())
    }

    /// Returns the assignees in order of assignment.
    pub fn assignees<T: Issuable>(&mut self, issuable: &T) -> Vec<UserSummary> {
        let rows = self.linked_rows(T::KIND);
        rows.assignees.remove(&issuable.id()).unwrap_or_default()
    }

    /// Returns the reviewers of a merge request in the order of the requests.
    pub fn reviewers(&mut self, merge_request: &merge_requests::Model) -> Vec<UserSummary> {
        let reviewers = &mut self.of_merge_requests.reviewers;
        reviewers.remove(&merge_request.id).unwrap_or_default()
    }

    /// Returns the labels, sorted by title.
    pub fn labels<T: Issuable>(&mut self, issuable: &T) -> Vec<LabelSummary> {
        let rows = self.linked_rows(T::KIND);
        rows.labels.remove(&issuable.id()).unwrap_or_default()
    }

    /// Returns the milestone. All issuables with the milestone share it.
    pub fn milestone(&self, issuable: &impl Issuable) -> Option<Arc<MilestoneDetail>> {
        let id = issuable.milestone_id()?;
        self.milestones.get(&id).cloned()
    }

    /// Returns whether a merge request has unresolved discussions.
    pub fn is_unresolved(&self, merge_request: &merge_requests::Model) -> bool {
        self.unresolved.contains(&merge_request.id)
    }

    /// Limits the references of an issue to what the viewer can see: the number of closing merge requests, and the
    /// issue that it was moved to.
    pub fn hide_invisible(&self, issue: &mut issues::Model) {
        let Some(visible) = &self.visible else {
            return;
        };
        let count = visible.merge_requests.get(&issue.id).copied().unwrap_or_default();
        issue.merge_requests_count = i32::try_from(count).unwrap_or(i32::MAX);
        issue.moved_to_id = issue.moved_to_id.filter(|id| visible.moved_to.contains(id));
    }

    fn linked_rows(&mut self, kind: IssuableKind) -> &mut LinkedRows {
        match kind {
            IssuableKind::Issue => &mut self.of_issues,
            IssuableKind::MergeRequest => &mut self.of_merge_requests,
        }
    }
}

/// IDs of the rows to which an issuable refers.
struct References {
    project_id: i64,
    user_ids: [Option<i64>; 4],
    milestone_group_id: Option<i64>,
}

impl References {
    fn of((issuable, milestone): &WithMilestone<impl Issuable>) -> Self {
        let [closed_by, merged_by, merge_user] = issuable.other_user_ids();
        Self {
            project_id: issuable.project_id(),
            user_ids: [issuable.author_id(), closed_by, merged_by, merge_user],
            milestone_group_id: milestone.as_ref().and_then(|milestone| milestone.namespace_id),
        }
    }
}

/// The parts of [`LinkedRows`].
struct LinkedParts {
    labels: LabelParts,
    assignees: PartKey,
    reviewers: PartKey,
}

impl LinkedParts {
    fn add<T: Issuable>(
        related: &mut RelatedRows,
        issuables: &[WithMilestone<T>],
        database: DbBackend,
    ) -> Self {
        let ids: Vec<i64> = issuables.iter().map(|(issuable, _)| issuable.id()).collect();
        Self {
            labels: LabelParts::add(related, database, label_links(T::KIND), &ids),
            assignees: related.add(assignees_part(database, T::KIND, &ids)),
            reviewers: related.add(match T::KIND {
                IssuableKind::Issue => None,
                IssuableKind::MergeRequest => reviewers_part(database, &ids),
            }),
        }
    }

    fn take(self, rows: &mut RelatedRowSets) -> Result<LinkedRows, DbErr> {
        Ok(LinkedRows {
            labels: self.labels.take(rows),
            assignees: rows.take_grouped(self.assignees, UserSummary::read)?,
            reviewers: rows.take_grouped(self.reviewers, UserSummary::read)?,
        })
    }
}

/// The parts of [`VisibleReferences`].
struct VisibleParts {
    merge_requests: PartKey,
    moved_to: PartKey,
}

impl VisibleParts {
    fn add(
        related: &mut RelatedRows,
        viewer: Viewer,
        issues: &[WithMilestone<issues::Model>],
        database: DbBackend,
    ) -> Option<Self> {
        if viewer == Viewer::Admin {
            return None;
        }
        let today = now().date_naive();
        let closed = issues.iter().filter(|(issue, _)| issue.merge_requests_count > 0);
        let closed: Vec<i64> = closed.map(|(issue, _)| issue.id).collect();
        let moved_to: Vec<i64> = issues.iter().filter_map(|(issue, _)| issue.moved_to_id).collect();
        let counts = closing_merge_requests::visible_counts_part(database, viewer, today, &closed);
        Some(Self {
            merge_requests: related.add(counts),
            moved_to: related.add(issues::visible_part(database, viewer, today, &moved_to)),
        })
    }

    fn take(self, rows: &mut RelatedRowSets) -> VisibleReferences {
        let counts = rows.take(self.merge_requests).into_iter();
        VisibleReferences {
            merge_requests: counts
                .map(|row| (row.owner_id, row.number.unwrap_or_default()))
                .collect(),
            moved_to: owners(rows, self.moved_to),
        }
    }
}

/// Returns the owners of the rows of a part.
fn owners(rows: &mut RelatedRowSets, part: PartKey) -> HashSet<i64> {
    rows.take(part).into_iter().map(|row| row.owner_id).collect()
}

fn first_text(row: RelatedRow) -> Result<String, DbErr> {
    let [text, ..] = row.texts;
    Ok(text.unwrap_or_default())
}

/// Returns a milestone with the path of its project or group.
fn milestone_detail(
    milestone: &milestones::Model,
    paths: &HashMap<i64, String>,
    group_paths: &HashMap<i64, String>,
) -> Option<MilestoneDetail> {
    let path = match (milestone.project_id, milestone.namespace_id) {
        (Some(id), _) => paths.get(&id)?,
        (None, id) => group_paths.get(&id?)?,
    };
    Some(MilestoneDetail::new(milestone.clone(), path.clone()))
}

/// Adds the milestones, without descriptions, to issuables that were read without them.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn with_milestones<T: Issuable>(
    db: &impl ConnectionTrait,
    issuables: Vec<T>,
) -> Result<Vec<WithMilestone<T>>> {
    let ids: Vec<i64> = issuables.iter().filter_map(Issuable::milestone_id).collect();
    let mut found = milestones::Entity::find().filter(milestones::Column::Id.is_in(ids.clone()));
    QueryTrait::query(&mut found)
        .clear_selects()
        .exprs(milestones::columns_without_description());
    let found = match ids.is_empty() {
        true => Vec::new(),
        false => columns::all(db, found).await?,
    };
    let found: HashMap<i64, milestones::Model> = found.into_iter().map(|row| (row.id, row)).collect();
    let rows = issuables.into_iter().map(|issuable| {
        let milestone = issuable.milestone_id().and_then(|id| found.get(&id).cloned());
        (issuable, milestone)
    });
    Ok(rows.collect())
}
