//! Projects with all that is shown of them, gathered in a handful of statements however many they are.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};
use storage::entities::access as levels;
use storage::entities::access::Viewer;
use storage::entities::projects::{self, FeatureAccess, Found};
use storage::entities::{
    AccessLevel, custom_attributes, namespaces, now, project_shares, project_topics, unexpired, users,
};

use crate::error::Result;
use crate::policy::Standing;
use crate::secrets::Secret;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::authentication::Caller;
use crate::services::code_analysis::Licensed;
use crate::services::namespaces::full_names;

/// A project with what belongs to it, and what the caller is to it.
#[derive(Debug, Clone)]
pub struct Row {
    /// The project.
    pub project: projects::Model,
    /// The namespace it lies in.
    pub namespace: namespaces::Model,
    /// The names of the namespace and all above it, separated by ` / `.
    pub namespace_name: String,
    /// The owner of the namespace, when it is a personal one.
    pub owner: Option<users::Model>,
    /// The topics, sorted.
    pub topics: Vec<String>,
    /// The groups it is shared with, as far as the caller may see them.
    pub shares: Vec<(project_shares::Model, namespaces::Model)>,
    /// The project it was forked from, if the caller may see it.
    pub forked_from: Option<Box<Self>>,
    /// What the caller is to it.
    pub standing: Standing,
    /// The caller's role as a direct member.
    pub project_role: Option<AccessLevel>,
    /// The caller's highest role in the group and those above.
    pub group_role: Option<AccessLevel>,
    /// The token that runners register with; there only for Maintainers, and only where it may be shown.
    pub runners_token: Option<Secret<String>>,
    /// What administrators attached; there only where it was asked for.
    pub custom_attributes: Vec<custom_attributes::Model>,
    /// The licence; there only where it was asked for.
    pub license: Option<Licensed>,
}

impl Row {
    /// Whether the caller may use a feature.
    #[must_use]
    pub fn available(&self, feature: FeatureAccess) -> bool {
        self.standing.has(feature)
    }

    /// Whether the caller may read the code.
    #[must_use]
    pub fn code_is_readable(&self) -> bool {
        let project = &self.project;
        self.standing
            .reads_code(project.repository_access_level, project.visibility)
    }
}

/// One project, freshly read; `secrets` adds the runners' token for Maintainers.
///
/// # Errors
/// Whatever the database reports, or a token that cannot be decrypted.
pub async fn read(backend: &Backend, access: ProjectAccess, secrets: bool) -> Result<Row> {
    let project_id = access.project.id;
    let encrypted = access.project.runners_token_encrypted.clone();
    let maintains = access.holds(AccessLevel::Maintainer);
    let mut row = decorate_one(backend, &access.caller, (access.project, access.namespace)).await?;
    if let Some(encrypted) = encrypted.filter(|_| secrets && maintains) {
        row.runners_token = Some(
            backend
                .keyring
                .decrypt(&encrypted, &runners_token_place(project_id))?,
        );
    }
    Ok(row)
}

/// The place that a project's token is encrypted for.
pub(super) fn runners_token_place(project_id: i64) -> String {
    format!("projects.runners_token:{project_id}")
}

async fn decorate_one(backend: &Backend, caller: &Caller, found: Found) -> Result<Row> {
    let id = found.0.id;
    let rows = decorate(backend.database.read(), caller, vec![found]).await?;
    rows.into_iter()
        .next()
        .ok_or_else(|| crate::error::Error::internal(format!("project {id} was not found")))
}

/// Adds what belongs to projects, for the whole page at once.
///
/// # Errors
/// Whatever the database reports.
pub async fn decorate(db: &impl ConnectionTrait, caller: &Caller, found: Vec<Found>) -> Result<Vec<Row>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let sources = sources_of_forks(db, caller.viewer(), &found).await?;
    let related = Related::load(db, caller, found.iter().chain(sources.values())).await?;
    let rows = found.into_iter().map(|found| {
        let source = found
            .0
            .forked_from_id
            .and_then(|id| sources.get(&id).cloned())
            .map(|source| Box::new(related.row(caller, source, None)));
        related.row(caller, found, source)
    });
    Ok(rows.collect())
}

/// The visible projects that these were forked from, by id.
async fn sources_of_forks(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: &[Found],
) -> Result<HashMap<i64, Found>, DbErr> {
    let ids: Vec<i64> = found
        .iter()
        .filter_map(|(project, _)| project.forked_from_id)
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sources = projects::live()
        .find_also_related(namespaces::Entity)
        .filter(projects::Column::Id.is_in(ids))
        .filter(levels::visible_projects(viewer, now().date_naive()))
        .all(db)
        .await?;
    Ok(sources
        .into_iter()
        .filter_map(|(project, namespace)| Some((project.id, (project, namespace?))))
        .collect())
}

/// What belongs to the projects of a page, by their ids.
#[derive(Default)]
struct Related {
    names: HashMap<i64, String>,
    owners: HashMap<i64, users::Model>,
    topics: HashMap<i64, Vec<String>>,
    shares: HashMap<i64, Vec<(project_shares::Model, namespaces::Model)>>,
    levels: levels::Levels,
}

impl Related {
    async fn load<'a>(
        db: &impl ConnectionTrait,
        caller: &Caller,
        found: impl Iterator<Item = &'a Found>,
    ) -> Result<Self> {
        let (mut ids, mut namespace_ids, mut owner_ids) = (Vec::new(), Vec::new(), Vec::new());
        for (project, namespace) in found {
            ids.push(project.id);
            namespace_ids.push(namespace.id);
            owner_ids.extend(namespace.owner_id);
        }
        let today = now().date_naive();
        let mut related = Self {
            names: full_names(db, namespace_ids.iter().copied()).await?,
            topics: project_topics::of_projects(db, ids.iter().copied()).await?,
            ..Self::default()
        };
        let owners = users::Entity::find().filter(users::Column::Id.is_in(owner_ids));
        for owner in owners.all(db).await? {
            related.owners.insert(owner.id, owner);
        }
        let shares = project_shares::of(ids.iter().copied())
            .filter(levels::visible_groups(caller.viewer(), today))
            .filter(unexpired(project_shares::Column::ExpiresAt, today))
            .all(db)
            .await?;
        for (share, group) in shares {
            if let Some(group) = group {
                related
                    .shares
                    .entry(share.project_id)
                    .or_default()
                    .push((share, group));
            }
        }
        let Some(user) = caller.as_user() else {
            return Ok(related);
        };
        let places: Vec<(i64, i64)> = ids.iter().copied().zip(namespace_ids).collect();
        related.levels = levels::levels(db, user.id, &places, today).await?;
        Ok(related)
    }

    fn row(&self, caller: &Caller, (project, namespace): Found, forked_from: Option<Box<Row>>) -> Row {
        let personal = namespace.owner_id.is_some();
        let owned = personal && namespace.owner_id == caller.as_user().map(|user| user.id);
        let project_role = self.levels.direct.get(&project.id).copied();
        Row {
            namespace_name: self.names.get(&namespace.id).cloned().unwrap_or_default(),
            owner: namespace.owner_id.and_then(|id| self.owners.get(&id).cloned()),
            topics: self.topics.get(&project.id).cloned().unwrap_or_default(),
            shares: self.shares.get(&project.id).cloned().unwrap_or_default(),
            standing: caller.standing(self.levels.projects.get(&project.id).copied()),
            // The owner of a personal project is shown as its Maintainer, with or without a membership.
            project_role: project_role.or(owned.then_some(AccessLevel::Maintainer)),
            group_role: self
                .levels
                .namespaces
                .get(&namespace.id)
                .copied()
                .filter(|_| !personal),
            project,
            namespace,
            forked_from,
            runners_token: None,
            custom_attributes: Vec::new(),
            license: None,
        }
    }
}
