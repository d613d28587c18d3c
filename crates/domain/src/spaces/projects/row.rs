//! Projects with all displayed data, loaded in a fixed number of statements for a page.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, DbErr, EntityTrait, QueryFilter};
use storage::entities::access as levels;
use storage::entities::access::Viewer;
use storage::entities::projects::{self, FeatureAccess, ProjectWithNamespace};
use storage::entities::{
    AccessLevel, custom_attributes, namespaces, now, project_shares, project_topics, unexpired, users,
};

use crate::code::code_analysis::DetectedLicense;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::EffectiveAccess;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};
use crate::spaces::namespaces::full_names;

/// A project with its associations and the caller's access.
#[derive(Debug, Clone)]
pub struct ProjectDetail {
    /// The project.
    pub project: projects::Model,
    /// The namespace.
    pub namespace: namespaces::Model,
    /// The names of the namespace and its ancestors, separated by ` / `.
    pub namespace_name: String,
    /// The owner of a personal namespace.
    pub owner: Option<users::Model>,
    /// The topics, sorted.
    pub topics: Vec<String>,
    /// The groups it is shared with, limited to those visible to the caller.
    pub shares: Vec<(project_shares::Model, namespaces::Model)>,
    /// The project it was forked from, if visible to the caller.
    pub forked_from: Option<Box<Self>>,
    /// The caller's effective access.
    pub effective_access: EffectiveAccess,
    /// The caller's role as a direct member.
    pub project_role: Option<AccessLevel>,
    /// The caller's highest role in the group and its ancestors.
    pub group_role: Option<AccessLevel>,
    /// The registration token for runners; only for Maintainers, and only where it may be displayed.
    pub runners_token: Option<Secret<String>>,
    /// The custom attributes, if requested.
    pub custom_attributes: Vec<custom_attributes::Model>,
    /// The license, if requested.
    pub license: Option<DetectedLicense>,
}

impl ProjectDetail {
    /// Returns whether the caller may use a feature.
    #[must_use]
    pub fn has_feature(&self, feature: FeatureAccess) -> bool {
        self.effective_access.has_feature(feature)
    }

    /// Returns whether the caller may read the code.
    #[must_use]
    pub fn can_read_code(&self) -> bool {
        let project = &self.project;
        self.effective_access
            .can_read_code(project.repository_access_level, project.visibility)
    }
}

/// Loads a project; `secrets` adds the registration token of runners for Maintainers.
///
/// # Errors
/// Returns an error if a database query fails or a token cannot be decrypted.
pub async fn get(backend: &Backend, access: ProjectAccess, secrets: bool) -> Result<ProjectDetail> {
    let project_id = access.project.id;
    let encrypted = access.project.runners_token_encrypted.clone();
    let maintains = access.has_role(AccessLevel::Maintainer);
    let mut row = load_detail(backend, &access.caller, (access.project, access.namespace)).await?;
    if let Some(encrypted) = encrypted.filter(|_| secrets && maintains) {
        row.runners_token = Some(
            backend
                .keyring
                .decrypt(&encrypted, &runners_token_context(project_id))?,
        );
    }
    Ok(row)
}

/// Returns the context that the token of a project is encrypted for.
pub(super) fn runners_token_context(project_id: i64) -> EncryptionContext {
    EncryptedColumn::ProjectRunnersToken.context(&[&project_id])
}

async fn load_detail(
    backend: &Backend,
    caller: &Caller,
    found: ProjectWithNamespace,
) -> Result<ProjectDetail> {
    let id = found.0.id;
    let rows = load_details(backend.database.read(), caller, vec![found]).await?;
    rows.into_iter()
        .next()
        .ok_or_else(|| crate::kernel::error::Error::internal(format!("project {id} is missing")))
}

/// Loads the associations of a page of projects.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn load_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: Vec<ProjectWithNamespace>,
) -> Result<Vec<ProjectDetail>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let sources = sources_of_forks(db, caller.viewer(), &found).await?;
    let related = ProjectAssociations::load(db, caller, found.iter().chain(sources.values())).await?;
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

/// Returns the visible source projects of forks, by ID.
async fn sources_of_forks(
    db: &impl ConnectionTrait,
    viewer: Viewer,
    found: &[ProjectWithNamespace],
) -> Result<HashMap<i64, ProjectWithNamespace>, DbErr> {
    let ids: Vec<i64> = found
        .iter()
        .filter_map(|(project, _)| project.forked_from_id)
        .collect();
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let sources = projects::not_deleted()
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

/// Associations of the projects of a page, by ID.
#[derive(Default)]
struct ProjectAssociations {
    names: HashMap<i64, String>,
    owners: HashMap<i64, users::Model>,
    topics: HashMap<i64, Vec<String>>,
    shares: HashMap<i64, Vec<(project_shares::Model, namespaces::Model)>>,
    levels: levels::RoleLevels,
}

impl ProjectAssociations {
    async fn load<'a>(
        db: &impl ConnectionTrait,
        caller: &Caller,
        found: impl Iterator<Item = &'a ProjectWithNamespace>,
    ) -> Result<Self> {
        let mut related = Self::default();
        // Callers often own the projects. Their row was read for this request.
        let caller_row = caller.as_user().map(|user| (user.id, user.clone()));
        related.owners.extend(caller_row);
        let (mut ids, mut namespace_ids) = (Vec::new(), Vec::new());
        let (mut subgroup_ids, mut owner_ids) = (Vec::new(), Vec::new());
        for (project, namespace) in found {
            ids.push(project.id);
            namespace_ids.push(namespace.id);
            if namespace.parent_id.is_some() {
                subgroup_ids.push(namespace.id);
            } else {
                related.names.insert(namespace.id, namespace.name.clone());
            }
            let owner = namespace.owner_id;
            owner_ids.extend(owner.filter(|id| !related.owners.contains_key(id)));
        }
        let today = now().date_naive();
        related.topics = project_topics::of_projects(db, ids.iter().copied()).await?;
        if !subgroup_ids.is_empty() {
            related.names.extend(full_names(db, subgroup_ids).await?);
        }
        if !owner_ids.is_empty() {
            let owners = users::Entity::find().filter(users::Column::Id.is_in(owner_ids));
            for owner in owners.all(db).await? {
                related.owners.insert(owner.id, owner);
            }
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
        let namespaces_of_projects: Vec<(i64, i64)> = ids.iter().copied().zip(namespace_ids).collect();
        related.levels = levels::levels(db, user.id, &namespaces_of_projects, today).await?;
        Ok(related)
    }

    fn row(
        &self,
        caller: &Caller,
        (project, namespace): ProjectWithNamespace,
        forked_from: Option<Box<ProjectDetail>>,
    ) -> ProjectDetail {
        let personal = namespace.owner_id.is_some();
        let owned = personal && namespace.owner_id == caller.as_user().map(|user| user.id);
        let project_role = self.levels.direct.get(&project.id).copied();
        ProjectDetail {
            namespace_name: self.names.get(&namespace.id).cloned().unwrap_or_default(),
            owner: namespace.owner_id.and_then(|id| self.owners.get(&id).cloned()),
            topics: self.topics.get(&project.id).cloned().unwrap_or_default(),
            shares: self.shares.get(&project.id).cloned().unwrap_or_default(),
            effective_access: caller.effective_access(self.levels.projects.get(&project.id).copied()),
            // The owner of a personal project is displayed as its Maintainer, with or without a membership.
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
