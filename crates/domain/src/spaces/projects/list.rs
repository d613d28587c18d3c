//! Lists of projects: filters, sort orders, offset and keyset pagination.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use sea_orm::sea_query::{Expr, Query, UnionType};
use sea_orm::{
    ColumnTrait, Condition, ConnectionTrait, EntityTrait, ExprTrait, QueryFilter, QueryOrder, QuerySelect,
    QueryTrait, Select, SelectTwo,
};
use storage::entities::access::{
    code_readable_projects, projects_with_level, projects_with_role, unindexed, visible_among,
    visible_projects,
};
use storage::entities::columns;
use storage::entities::custom_attributes::Column as Attribute;
use storage::entities::projects::{self, Column, FeatureAccess};
use storage::entities::related_rows::RelatedRows;
use storage::entities::selectivity::{TARGET_ID, if_few};
use storage::entities::{
    AccessLevel, Visibility, fold, job_token_allowlist_entries, namespace_ancestors, namespaces, now,
    project_languages, project_shares, project_stars, project_texts, project_topics, unexpired,
};

use super::ProjectDetail;
use super::row::load_details;
use crate::accounts::custom_attributes;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{MAX_OFFSET, Page, PagePosition, PageRequest};
use crate::kernel::policy::InstancePlan;
use crate::kernel::query::{PageTotal, contains, contains_in, ends_with, starts_with};

/// Maximum number of topics in a filter.
const MAX_TOPICS: usize = 20;

/// Sort orders of projects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ProjectOrder {
    /// ID.
    Id,
    /// Name.
    Name,
    /// Last part of the path.
    Path,
    /// Creation time.
    #[default]
    CreatedAt,
    /// Time of the last update.
    UpdatedAt,
    /// Time of the last activity.
    LastActivityAt,
}

impl ProjectOrder {
    fn column(self) -> Column {
        match self {
            Self::Id => Column::Id,
            Self::Name => Column::NameKey,
            Self::Path => Column::PathKey,
            Self::CreatedAt => Column::CreatedAt,
            Self::UpdatedAt => Column::UpdatedAt,
            Self::LastActivityAt => Column::LastActivityAt,
        }
    }
}

/// Selects the projects of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GroupProjects {
    /// Projects in the group.
    Inside {
        /// The group.
        id: i64,
        /// Whether to include projects of subgroups.
        with_subgroups: bool,
        /// Whether to include projects shared with the group.
        with_shared: bool,
    },
    /// Projects shared with the group.
    SharedWith(i64),
}

/// Filter of a list of projects; conditions are combined with AND. The names are those of the contract.
#[allow(missing_docs)]
#[derive(Debug, Clone, Default)]
pub struct ProjectFilter {
    /// Only projects in the personal namespace of this user.
    pub of_user: Option<i64>,
    /// Only projects of this group.
    pub of_group: Option<GroupProjects>,
    /// Only forks of this project.
    pub forked_from: Option<i64>,
    /// Only this project, and the projects whose jobs can use it with their job tokens.
    pub job_token_scope_of: Option<i64>,
    pub archived: Option<bool>,
    pub visibility: Option<Visibility>,
    pub search: Option<String>,
    pub search_namespaces: bool,
    pub owned: bool,
    pub membership: bool,
    pub starred: bool,
    /// Only projects with all of these topics.
    pub topics: Vec<String>,
    pub with_issues_enabled: bool,
    pub with_merge_requests_enabled: bool,
    pub with_programming_language: Option<String>,
    /// Only projects whose wiki or repository failed its last check.
    pub checksum_failed: bool,
    pub min_access_level: Option<i64>,
    pub id_after: Option<i64>,
    pub id_before: Option<i64>,
    pub last_activity_after: Option<DateTime<Utc>>,
    pub last_activity_before: Option<DateTime<Utc>>,
    /// Only projects with all of these attributes; ignored unless the caller is an administrator.
    pub custom_attributes: BTreeMap<String, String>,
    pub order: ProjectOrder,
    pub ascending: bool,
}

/// Lists projects.
///
/// # Errors
/// Returns a validation error for too many topics or custom attributes. Returns `NotAllowed` for a page beyond the
/// maximum depth, except in an allowlist, and for keyset pagination in an order other than the ID.
pub async fn list(
    backend: &Backend,
    caller: &Caller,
    filter: &ProjectFilter,
    page: &PageRequest,
) -> Result<Page<ProjectDetail>> {
    custom_attributes::check_filter(&filter.custom_attributes)?;
    if filter.topics().count() > MAX_TOPICS {
        return Err(Error::parameter("topic is invalid"));
    }
    let db = backend.database.read();
    if page.keyset {
        if filter.order != ProjectOrder::Id {
            let text = "Keyset pagination is not yet available for this type of request";
            return Err(Error::NotAllowed(Some(text.into())));
        }
        let query = filter.select(backend, caller).await?.limit(page.limit());
        let found = columns::all_joined(db, filter.with_namespaces(query)).await?;
        let related = RelatedRows::default();
        let (items, _) = load_details(db, caller, with_namespace(found), related).await?;
        let next = if filter.ascending { "id_after" } else { "id_before" };
        let last = items.last().map(|row| (next, row.project.id));
        return Ok(Page {
            items,
            rest: PagePosition::Keyset(last),
        });
    }
    // An allowlist has few projects, and its list has no keyset pagination.
    let is_few = filter.job_token_scope_of.is_some();
    if !is_few && page.is_beyond_max_offset() {
        let text = format!(
            "Offset pagination has a maximum allowed offset of {MAX_OFFSET} for requests that return objects of \
             type Project. Remaining records can be retrieved using keyset pagination."
        );
        return Err(Error::NotAllowed(Some(text.into())));
    }
    let all = filter.select(backend, caller).await?;
    let query = all.clone().offset(page.offset()).limit(page.limit() + 1);
    let mut found = columns::all_joined(db, filter.with_namespaces(query)).await?;
    let total = PageTotal::of_page(page, &mut found, None, || all.into_query());
    let mut related = RelatedRows::default();
    let counted = related.add(total.part());
    let (items, mut rows) = load_details(db, caller, with_namespace(found), related).await?;
    Ok(Page {
        items,
        rest: total.position(&rows.take(counted)),
    })
}

fn with_namespace(
    found: Vec<(projects::Model, Option<namespaces::Model>)>,
) -> Vec<projects::ProjectWithNamespace> {
    found
        .into_iter()
        .filter_map(|(project, namespace)| Some((project, namespace?)))
        .collect()
}

impl ProjectFilter {
    /// Selects the IDs of all matching projects in order.
    async fn select(&self, backend: &Backend, caller: &Caller) -> Result<Select<projects::Entity>> {
        let db = backend.database.read();
        let found = self.found();
        let some = self.candidates(db, caller, &found).await?;
        let is_few = some.is_some();
        let live = || Column::DeletionStartedAt.is_null();
        let (viewer, today) = (caller.viewer(), now().date_naive());
        let seen = match (some, self.least()) {
            (Some(ids), least) => {
                let user = caller.as_user().map(|user| user.id);
                let ids = visible_among(db, viewer, user, &ids, least, today).await?;
                Condition::all().add(Column::Id.is_in(ids)).add(live())
            }
            (None, Some(least)) => match caller.as_user() {
                // A user with a role in a project can see it.
                Some(user) => {
                    let with_role = projects_with_role(db, user.id, least, today).await?;
                    Condition::all().add(with_role).add(live())
                }
                None => nothing(),
            },
            (None, None) => visible_projects(viewer, today),
        };
        let stars = self.stars(caller).map(QueryTrait::into_query);
        let inside = match self.of_group {
            Some(group) => Some(of_group(db, group, is_few).await?),
            None => None,
        };
        let ids = projects::Entity::find()
            .select_only()
            .column(Column::Id)
            .filter(seen)
            .filter(Condition::all().add_option(inside))
            .filter(Condition::all().add_option(stars.map(|stars| Column::Id.in_subquery(stars))))
            .filter(self.of_project())
            .filter(found)
            .filter(self.of_features(caller))
            .filter(self.of_data(backend, caller));
        Ok(self.ordered(ids))
    }

    /// Selects the projects with these IDs and their namespaces. Rows are wide, so only those of the page are
    /// read. Preceding ones are skipped in the index of the order, which covers the columns of
    /// [`visible_projects`].
    fn with_namespaces(
        &self,
        ids: Select<projects::Entity>,
    ) -> SelectTwo<projects::Entity, namespaces::Entity> {
        let rows = projects::Entity::find().filter(Column::Id.in_subquery(ids.into_query()));
        self.ordered(rows.find_also_related(namespaces::Entity))
    }

    fn ordered<S: QueryOrder>(&self, rows: S) -> S {
        let direction = if self.ascending {
            sea_orm::Order::Asc
        } else {
            sea_orm::Order::Desc
        };
        let rows = rows.order_by(self.order.column(), direction.clone());
        match self.order {
            ProjectOrder::Id => rows,
            _ => rows.order_by(Column::Id, direction),
        }
    }

    /// Returns the minimum role in the projects: `owned` overrides `min_access_level`, which overrides
    /// `membership`.
    fn least(&self) -> Option<AccessLevel> {
        let level = self.min_access_level.and_then(AccessLevel::from_number);
        match (self.owned, level, self.membership) {
            (true, ..) => Some(AccessLevel::Owner),
            (false, Some(level), _) => Some(level),
            (false, None, true) => Some(AccessLevel::Guest),
            (false, None, false) => None,
        }
    }

    /// Returns the topics that projects must have, trimmed as stored topics are.
    fn topics(&self) -> impl Iterator<Item = &str> {
        let topics = self.topics.iter().map(|topic| topic.trim());
        topics.filter(|topic| !topic.is_empty())
    }

    /// Selects the caller's starred projects, if requested; ignored without a caller.
    fn stars(&self, caller: &Caller) -> Option<Select<project_stars::Entity>> {
        let user = caller.as_user().filter(|_| self.starred)?;
        let stars = project_stars::Entity::find()
            .select_only()
            .column_as(project_stars::Column::ProjectId, TARGET_ID)
            .filter(project_stars::Column::UserId.eq(user.id));
        Some(stars)
    }

    /// Returns a small superset of the projects that match the search or the stars, or `None` if it is large
    /// or neither is requested. The planner of neither database can estimate this and would scan the whole
    /// list for a few rows.
    async fn candidates(
        &self,
        db: &impl ConnectionTrait,
        caller: &Caller,
        found: &Condition,
    ) -> Result<Option<BTreeSet<i64>>> {
        let starred = match self.stars(caller) {
            Some(stars) => if_few(db, stars.into_query()).await?,
            None => None,
        };
        if starred.is_some() || found.is_empty() {
            return Ok(starred);
        }
        let text = self.search.as_deref().map(fold).unwrap_or_default();
        let longest = text.split_whitespace().max_by_key(|word| word.len());
        if let Some(word) = longest.filter(|_| !self.search_namespaces)
            && project_texts::is_supported(db)
        {
            return Ok(project_texts::candidates(db, word).await?);
        }
        let holders = projects::not_deleted()
            .select_only()
            .column_as(Column::Id, TARGET_ID)
            .filter(found.clone());
        Ok(if_few(db, holders.into_query()).await?)
    }

    /// Returns the conditions on the project row.
    fn of_project(&self) -> Condition {
        let personal = |user_id: i64| {
            namespaces::Entity::find()
                .select_only()
                .column(namespaces::Column::Id)
                .filter(namespaces::Column::OwnerId.eq(user_id))
                .into_query()
        };
        Condition::all()
            .add_option(
                self.of_user
                    .map(|id| Column::NamespaceId.in_subquery(personal(id))),
            )
            .add_option(self.forked_from.map(|id| Column::ForkedFromId.eq(id)))
            .add_option(self.job_token_scope_of.map(in_job_token_scope))
            .add_option(self.archived.map(|archived| Column::Archived.eq(archived)))
            .add_option(
                self.visibility
                    .map(|visibility| Column::Visibility.eq(visibility)),
            )
            .add_option(self.id_after.map(|id| Column::Id.gt(id)))
            .add_option(self.id_before.map(|id| Column::Id.lt(id)))
            .add_option(
                self.last_activity_after
                    .map(|time| Column::LastActivityAt.gt(time)),
            )
            .add_option(
                self.last_activity_before
                    .map(|time| Column::LastActivityAt.lt(time)),
            )
    }

    /// Returns the search condition. Every word occurs in the name, path or description of the project, or in
    /// the name or path of a parent namespace.
    fn found(&self) -> Condition {
        let text = self.search.as_deref().map(fold).unwrap_or_default();
        text.split_whitespace().fold(Condition::all(), |all, word| {
            let anywhere = Condition::any()
                .add(contains(Column::NameKey, word))
                .add(contains(Column::PathKey, word))
                .add(contains(Column::DescriptionKey, word))
                .add_option(
                    self.search_namespaces
                        .then(|| Column::NamespaceId.in_subquery(namespaces_below(word))),
                )
                .add_option(split_path_condition(word).filter(|_| self.search_namespaces));
            all.add(anywhere)
        })
    }

    /// Returns the condition that features are enabled and available to the caller.
    fn of_features(&self, caller: &Caller) -> Condition {
        let usable = |column: Column| {
            let members = match caller.as_user() {
                None => nothing(),
                Some(user) if user.admin => Condition::all(),
                Some(user) => projects_with_level(user.id, AccessLevel::Guest, now().date_naive()),
            };
            let private = Condition::all()
                .add(column.eq(FeatureAccess::Private))
                .add(members);
            Condition::any()
                .add(column.eq(FeatureAccess::Enabled))
                .add(private)
        };
        let if_requested = |requested: bool, column| requested.then(|| usable(column));
        Condition::all()
            .add_option(if_requested(self.with_issues_enabled, Column::IssuesAccessLevel))
            .add_option(if_requested(
                self.with_merge_requests_enabled,
                Column::MergeRequestsAccessLevel,
            ))
    }

    /// Returns the conditions on topics, languages, custom attributes and checks; no project fails a check. Filters
    /// that the caller or the plan may not use are ignored.
    fn of_data(&self, backend: &Backend, caller: &Caller) -> Condition {
        let language = self.with_programming_language.as_deref();
        let language = language.filter(|name| !name.is_empty());
        let checks = self.checksum_failed && backend.instance.plan >= InstancePlan::Premium;
        let attributes = caller
            .is_admin()
            .then(|| custom_attributes::has_all(&self.custom_attributes, Column::Id, Attribute::ProjectId))
            .flatten();
        let topics = self.topics();
        let topics = topics.map(|topic| Column::Id.in_subquery(project_topics::projects_with(topic)));
        let condition = Condition::all()
            .add_option(language.map(|name| uses_language(name, caller)))
            .add_option(checks.then(nothing))
            .add_option(attributes);
        topics.fold(condition, Condition::add)
    }
}

/// Returns the condition that the code contains a language and is readable by the caller.
fn uses_language(language: &str, caller: &Caller) -> Condition {
    Condition::all()
        .add(Column::Id.in_subquery(project_languages::projects_with(language)))
        .add(code_readable_projects(caller.viewer(), now().date_naive()))
}

/// Returns the condition that a project belongs to a group or is shared with it. Few projects are looked up
/// by ID; many are filtered while the list is read. If another condition looks up IDs already, this one only
/// filters: PostgreSQL turns two lists of IDs into their product of lookups.
async fn of_group(db: &impl ConnectionTrait, group: GroupProjects, few_others: bool) -> Result<Condition> {
    let (id, with_subgroups, with_shared) = match group {
        GroupProjects::Inside {
            id,
            with_subgroups,
            with_shared,
        } => (id, with_subgroups, with_shared),
        GroupProjects::SharedWith(id) => {
            return Ok(Condition::all().add(Column::Id.in_subquery(shared_with(id))));
        }
    };
    let inside = |namespace: Expr| match with_subgroups {
        true => namespace.in_subquery(namespace_ancestors::at_or_below(id)),
        false => namespace.eq(id),
    };
    let shared = with_shared.then(|| shared_with(id));
    let mut all = projects::Entity::find()
        .select_only()
        .column_as(Column::Id, TARGET_ID)
        .filter(inside(Column::NamespaceId.into_expr()))
        .into_query();
    if let Some(shared) = &shared {
        all.union(UnionType::All, shared.clone());
    }
    if !with_subgroups {
        // A single group is small enough for a lookup by ID.
        return Ok(Condition::all().add(Column::Id.in_subquery(all)));
    }
    Ok(match if_few(db, all).await? {
        Some(ids) if few_others => Condition::all().add(unindexed(Column::Id).is_in(ids)),
        Some(ids) => Condition::all().add(Column::Id.is_in(ids)),
        None => Condition::any()
            .add(inside(unindexed(Column::NamespaceId)))
            .add_option(shared.map(|shared| unindexed(Column::Id).in_subquery(shared))),
    })
}

/// Selects the IDs of the projects that are shared with a group.
fn shared_with(group_id: i64) -> sea_orm::sea_query::SelectStatement {
    project_shares::Entity::find()
        .select_only()
        .column_as(project_shares::Column::ProjectId, TARGET_ID)
        .filter(project_shares::Column::GroupId.eq(group_id))
        .filter(unexpired(project_shares::Column::ExpiresAt, now().date_naive()))
        .into_query()
}

/// A condition that is never true.
fn nothing() -> Condition {
    Condition::all().add(Expr::val(1).eq(0))
}

/// Selects a project, and the projects whose jobs can use it with their job tokens.
fn in_job_token_scope(project_id: i64) -> Condition {
    use job_token_allowlist_entries::{Column as Entry, Entity};

    let allowed = Entity::find()
        .select_only()
        .column(Entry::AllowedProjectId)
        .filter(Entry::ProjectId.eq(project_id))
        .filter(Entry::AllowedProjectId.is_not_null());
    Condition::any()
        .add(Column::Id.eq(project_id))
        .add(Column::Id.in_subquery(allowed.into_query()))
}

/// Selects the IDs of namespaces with a word in their path, or in their name or that of an ancestor.
fn namespaces_below(word: &str) -> sea_orm::sea_query::SelectStatement {
    use namespace_ancestors::Column as Ancestor;
    const ABOVE: &str = "line";
    const NAMED: &str = "named";
    Query::select()
        .column((ABOVE, Ancestor::NamespaceId))
        .from_as(namespace_ancestors::Entity, ABOVE)
        .join_as(
            sea_orm::JoinType::InnerJoin,
            namespaces::Entity,
            NAMED,
            Expr::col((NAMED, namespaces::Column::Id)).eq(Expr::col((ABOVE, Ancestor::AncestorId))),
        )
        .cond_where(
            Condition::any()
                .add(contains_in(Expr::col((NAMED, namespaces::Column::NameKey)), word))
                .add(contains_in(
                    Expr::col((NAMED, namespaces::Column::FullPathKey)),
                    word,
                )),
        )
        .take()
}

/// Returns the condition for a word with a slash, split at its last slash. The namespace path ends with the
/// first part, and the project path starts with the second.
fn split_path_condition(word: &str) -> Option<Condition> {
    let (before, after) = word.rsplit_once('/')?;
    let above = namespaces::Entity::find()
        .select_only()
        .column(namespaces::Column::Id)
        .filter(ends_with(namespaces::Column::FullPathKey, before))
        .into_query();
    Some(
        Condition::all()
            .add(starts_with(Column::PathKey, after))
            .add(Column::NamespaceId.in_subquery(above)),
    )
}
