//! Projects with all displayed data, loaded in at most two statements for a page.

use std::collections::HashMap;

use sea_orm::{ColumnTrait, ConnectionTrait, DbBackend, DbErr, QueryFilter};
use storage::entities::access::{LevelParts, RoleLevels, Viewer, visible_projects};
use storage::entities::container_expiration_policies::{self, ExpirationPolicy};
use storage::entities::projects::{self, FeatureAccess, ProjectWithNamespace};
use storage::entities::related_rows::{PartKey, RelatedRow, RelatedRowSets, RelatedRows};
use storage::entities::users::UserSummary;
use storage::entities::{
    AccessLevel, ShareSummary, custom_attributes, namespace_ancestors, namespaces, now, project_shares,
    project_topics,
};

use crate::code::code_analysis::DetectedLicense;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;
use crate::kernel::policy::EffectiveAccess;
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};
use crate::spaces::namespaces::joined_names;

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
    pub owner: Option<UserSummary>,
    /// The topics, sorted.
    pub topics: Vec<String>,
    /// The groups it is shared with, limited to those visible to the caller.
    pub shares: Vec<ShareSummary>,
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
    /// The expiration policy of the container registry.
    pub expiration_policy: ExpirationPolicy,
    /// The total size of the files of packages in bytes, if requested.
    pub packages_size: i64,
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
    let related = RelatedRows::default();
    let (rows, _) = load_details(backend.database.read(), caller, vec![found], related).await?;
    rows.into_iter()
        .next()
        .ok_or_else(|| crate::kernel::error::Error::internal(format!("project {id} is missing")))
}

/// Loads the associations of a page of projects, in one statement with the parts of `related`, and one for the source
/// projects of forks. Also returns the rows of those parts.
///
/// # Errors
/// Returns an error if a database query fails.
pub async fn load_details(
    db: &impl ConnectionTrait,
    caller: &Caller,
    found: Vec<ProjectWithNamespace>,
    mut related: RelatedRows,
) -> Result<(Vec<ProjectDetail>, RelatedRowSets)> {
    let sources = sources_of_forks(db, caller.viewer(), &found).await?;
    let all: Vec<&ProjectWithNamespace> = found.iter().chain(sources.values()).collect();
    let parts = AssociationParts::add(&mut related, db.get_database_backend(), caller, &all);
    let mut loaded = related.load(db).await?;
    let associations = parts.take(&mut loaded, caller, &all)?;
    let rows = found.into_iter().map(|found| {
        let source = found
            .0
            .forked_from_id
            .and_then(|id| sources.get(&id).cloned())
            .map(|source| Box::new(associations.row(caller, source, None)));
        associations.row(caller, found, source)
    });
    Ok((rows.collect(), loaded))
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
        .filter(visible_projects(viewer, now().date_naive()))
        .all(db)
        .await?;
    Ok(sources
        .into_iter()
        .filter_map(|(project, namespace)| Some((project.id, (project, namespace?))))
        .collect())
}

/// The parts of a statement with the associations of projects.
struct AssociationParts {
    topics: PartKey,
    names: PartKey,
    owners: PartKey,
    shares: PartKey,
    expirations: PartKey,
    /// The roles of the caller, if signed in.
    levels: Option<LevelParts>,
}

impl AssociationParts {
    fn add(
        related: &mut RelatedRows,
        database: DbBackend,
        caller: &Caller,
        found: &[&ProjectWithNamespace],
    ) -> Self {
        let (viewer, today) = (caller.viewer(), now().date_naive());
        let user_id = caller.as_user().map(|user| user.id);
        let ids: Vec<i64> = found.iter().map(|(project, _)| project.id).collect();
        let subgroups = found
            .iter()
            .filter(|(_, namespace)| namespace.parent_id.is_some());
        let subgroup_ids: Vec<i64> = subgroups.map(|(_, namespace)| namespace.id).collect();
        let owner_ids = found.iter().filter_map(|(_, namespace)| namespace.owner_id);
        // Callers often own the projects. Their row was read for this request.
        let owner_ids = owner_ids.filter(|id| Some(*id) != user_id);
        let namespaces = with_namespace_ids(found);
        Self {
            topics: related.add(project_topics::part(database, &ids)),
            names: related.add(namespace_ancestors::names_part(database, &subgroup_ids)),
            owners: related.add(UserSummary::part(database, owner_ids)),
            shares: related.add(project_shares::part(database, viewer, today, &ids)),
            expirations: related.add(container_expiration_policies::part(database, &ids)),
            levels: user_id.map(|id| LevelParts::add(related, database, id, &namespaces, today)),
        }
    }

    fn take(
        self,
        rows: &mut RelatedRowSets,
        caller: &Caller,
        found: &[&ProjectWithNamespace],
    ) -> Result<ProjectAssociations> {
        let mut names = joined_names(rows.take(self.names));
        let others = found
            .iter()
            .filter(|(_, namespace)| namespace.parent_id.is_none());
        names.extend(others.map(|(_, namespace)| (namespace.id, namespace.name.clone())));
        let mut owners = rows.take_by_owner(self.owners, UserSummary::read)?;
        owners.extend(caller.as_user().map(|user| (user.id, UserSummary::from(user))));
        let topic = |row: RelatedRow| {
            let [name, ..] = row.texts;
            Ok(name.unwrap_or_default())
        };
        let mut topics = rows.take_grouped(self.topics, topic)?;
        topics.values_mut().for_each(|names| names.sort_unstable());
        Ok(ProjectAssociations {
            names,
            owners,
            topics,
            shares: rows.take_grouped(self.shares, ShareSummary::read)?,
            expirations: rows.take_by_owner(self.expirations, ExpirationPolicy::read)?,
            levels: match self.levels {
                Some(parts) => parts.take(rows, &with_namespace_ids(found))?,
                None => RoleLevels::default(),
            },
        })
    }
}

/// Returns the IDs of projects, each with the ID of its namespace.
fn with_namespace_ids(found: &[&ProjectWithNamespace]) -> Vec<(i64, i64)> {
    let ids = found
        .iter()
        .map(|(project, namespace)| (project.id, namespace.id));
    ids.collect()
}

/// Associations of the projects of a page, by ID.
struct ProjectAssociations {
    names: HashMap<i64, String>,
    owners: HashMap<i64, UserSummary>,
    topics: HashMap<i64, Vec<String>>,
    shares: HashMap<i64, Vec<ShareSummary>>,
    expirations: HashMap<i64, ExpirationPolicy>,
    levels: RoleLevels,
}

impl ProjectAssociations {
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
            expiration_policy: self.expirations.get(&project.id).cloned().unwrap_or_default(),
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
            packages_size: 0,
            custom_attributes: Vec::new(),
            license: None,
        }
    }
}
