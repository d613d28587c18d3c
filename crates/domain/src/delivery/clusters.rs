//! Clusters of projects. Their settings are stored, and the server never connects to them. Tokens are
//! encrypted at rest and never appear in responses, logs or errors.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DbErr, EntityTrait, PaginatorTrait,
    QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::cluster_platforms as platforms;
use storage::entities::cluster_platforms::Authorization;
use storage::entities::clusters::{self, ActiveModel, Column, Entity, Model};
use storage::entities::{now, users};

use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::delivery::variables;
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::page_of;
use crate::kernel::{Backend, preconditions, urls};
use crate::secrets::{EncryptedColumn, EncryptionContext, Secret};
use crate::spaces::projects;

/// Maximum clusters of a project.
const MAX_CLUSTERS: u64 = 100;

/// Maximum length of a token, in characters.
const MAX_TOKEN_LENGTH: usize = 10_000;

/// Maximum length of a DNS label, and so of a namespace.
const MAX_LABEL_LENGTH: usize = 63;

/// Default environment scope: all environments.
const ALL_ENVIRONMENTS: &str = "*";

/// A cluster with its related rows.
#[derive(Debug, Clone)]
pub struct ClusterDetail {
    /// The cluster.
    pub cluster: Model,
    /// Connection settings of the cluster.
    pub platform: platforms::Model,
    /// The user who added it, unless deleted.
    pub user: Option<users::Model>,
}

/// Attributes of a new cluster.
#[derive(Debug, Clone)]
pub struct NewCluster {
    /// Name of the cluster.
    pub name: String,
    /// Base domain of the services in it.
    pub domain: Option<String>,
    /// The environments that it is for.
    pub environment_scope: Option<String>,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Whether the server may create namespaces in it.
    pub managed: bool,
    /// URL of its API.
    pub api_url: String,
    /// Token for its API.
    pub token: Secret<String>,
    /// CA certificate of its API.
    pub ca_cert: Option<String>,
    /// Kubernetes namespace.
    pub namespace: Option<String>,
    /// Authorization mode of the cluster.
    pub authorization: Option<Authorization>,
}

/// Returns a page of a project's clusters, oldest first.
///
/// # Errors
/// Returns `Error::Forbidden` if the clusters are not available to the caller.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    page: &PageRequest,
) -> Result<Page<ClusterDetail>> {
    access.check_infrastructure()?;
    let db = backend.database.read();
    let page = page_of(db, clusters::of_project(access.project.id), page).await?;
    Ok(Page {
        items: load_details(db, page.items).await?,
        rest: page.rest,
    })
}

/// Returns one cluster of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
/// Fails like [`list`] if the clusters are not available to the caller.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<ClusterDetail> {
    access.check_infrastructure()?;
    let db = backend.database.read();
    let found = clusters::of_project(access.project.id).filter(Column::Id.eq(id));
    let found = found.one(db).await?.ok_or_else(not_found)?;
    let rows = load_details(db, vec![found]).await?;
    rows.into_iter().next().ok_or_else(not_found)
}

/// Registers an existing cluster.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if an attribute is invalid or the environment scope is taken. Returns
/// `Error::Rejected` if the project has `MAX_CLUSTERS` clusters already.
/// Fails like [`list`] if the clusters are not available to the caller.
pub async fn create(backend: &Backend, access: &ProjectAccess, new: NewCluster) -> Result<ClusterDetail> {
    access.check_infrastructure()?;
    let blank = |text: Option<String>| text.filter(|text| !text.trim().is_empty());
    let new = NewCluster {
        domain: blank(new.domain),
        ca_cert: blank(new.ca_cert),
        namespace: blank(new.namespace),
        ..new
    };
    let scope = new
        .environment_scope
        .as_deref()
        .unwrap_or(ALL_ENVIRONMENTS)
        .to_owned();
    check(&new, &scope)?;
    let user = access.caller.signed_in()?;
    let project_id = access.project.id;
    let at = now();
    let row = ActiveModel {
        project_id: Set(Some(project_id)),
        name: Set(new.name),
        domain: Set(new.domain),
        environment_scope: Set(scope),
        enabled: Set(new.enabled),
        managed: Set(new.managed),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let (cluster, platform) = backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            projects::lock_for_insert(transaction, project_id).await?;
            if clusters::of_project(project_id).count(transaction).await? >= MAX_CLUSTERS {
                let text = format!("The maximum number of clusters ({MAX_CLUSTERS}) is reached");
                return Err(Error::Rejected(text.into()));
            }
            let cluster = row.insert(transaction).await.map_err(map_insert_error)?;
            let encryptor = backend.keyring.encryptor(transaction).await?;
            let token = encryptor.encrypt(new.token.expose(), &token_context(cluster.id))?;
            let platform = platforms::ActiveModel {
                cluster_id: Set(cluster.id),
                user_id: Set(Some(user.id)),
                api_url: Set(new.api_url),
                token_encrypted: Set(token),
                ca_cert: Set(new.ca_cert),
                namespace: Set(new.namespace),
                authorization_type: Set(new.authorization.unwrap_or(Authorization::Rbac)),
                ..Default::default()
            };
            let platform = platform.insert(transaction).await?;
            audit::record(
                transaction,
                &access.caller,
                event(AuditKind::ClusterAdded, access, &cluster),
            )
            .await?;
            Ok((cluster, platform))
        })
        .await?;
    Ok(ClusterDetail {
        cluster,
        platform,
        user: Some(user.clone()),
    })
}

/// Deletes the settings of a cluster.
///
/// # Errors
/// Returns `Error::NotFound` if the cluster does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`.
/// Fails like [`list`] if the clusters are not available to the caller.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    access.check_infrastructure()?;
    backend
        .database
        .transaction(async |transaction| {
            let found = clusters::of_project(access.project.id).filter(Column::Id.eq(id));
            let found = found.lock_exclusive().one(transaction).await?;
            let cluster = found.ok_or_else(not_found)?;
            preconditions::check_unmodified_since(unmodified_since, cluster.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            audit::record(
                transaction,
                &access.caller,
                event(AuditKind::ClusterRemoved, access, &cluster),
            )
            .await
        })
        .await
}

fn event(kind: AuditKind, access: &ProjectAccess, cluster: &Model) -> AuditEvent {
    let target = AuditTarget::new("Cluster", cluster.id, cluster.name.clone());
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Loads the related rows of a whole page. Rows deleted meanwhile are left out.
async fn load_details(db: &impl ConnectionTrait, found: Vec<Model>) -> Result<Vec<ClusterDetail>> {
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let platforms = platforms::Entity::find()
        .find_also_related(users::Entity)
        .filter(platforms::Column::ClusterId.is_in(found.iter().map(|cluster| cluster.id)))
        .all(db)
        .await?;
    let mut platforms: HashMap<i64, _> = platforms
        .into_iter()
        .map(|(platform, user)| (platform.cluster_id, (platform, user)))
        .collect();
    let rows = found.into_iter().filter_map(|cluster| {
        let (platform, user) = platforms.remove(&cluster.id)?;
        Some(ClusterDetail {
            user,
            platform,
            cluster,
        })
    });
    Ok(rows.collect())
}

/// Checks all rules and reports all violations. No text repeats a token.
fn check(new: &NewCluster, scope: &str) -> Result<()> {
    let mut errors: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    let mut fault = |attribute: &'static str, text: Cow<'static, str>| {
        errors.entry(attribute.into()).or_default().push(text);
    };
    if new.name.trim().is_empty() {
        fault("name", "can't be blank".into());
    }
    for text in variables::faults_of_environment_scope(scope) {
        fault("environment_scope", text);
    }
    if new
        .domain
        .as_deref()
        .is_some_and(|domain| !domain.split('.').all(is_dns_label))
    {
        fault("domain", "is not a fully qualified domain name".into());
    }
    if let Err(Error::InvalidAttributes(blocked)) = urls::check_http_url(API_URL, &new.api_url) {
        for text in blocked.into_values().flatten() {
            fault(API_URL, text);
        }
    }
    let token = new.token.expose();
    if token.trim().is_empty() {
        fault(TOKEN, "can't be blank".into());
    }
    if token.chars().count() > MAX_TOKEN_LENGTH {
        let text = format!("is too long (maximum is {MAX_TOKEN_LENGTH} characters)");
        fault(TOKEN, text.into());
    }
    let lower = |name: &str| is_dns_label(name) && !name.contains(|char: char| char.is_ascii_uppercase());
    if new.namespace.as_deref().is_some_and(|name| !lower(name)) {
        fault("platform_kubernetes_attributes[namespace]", "is invalid".into());
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Error::InvalidAttributes(errors)),
    }
}

/// Attribute names in errors.
const API_URL: &str = "platform_kubernetes_attributes[api_url]";
const TOKEN: &str = "platform_kubernetes_attributes[token]";

/// Returns whether a text is a DNS label.
fn is_dns_label(text: &str) -> bool {
    let inner = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let outer = !text.starts_with('-') && !text.ends_with('-');
    inner && outer && (1..=MAX_LABEL_LENGTH).contains(&text.len())
}

/// Maps a database error of an insert.
fn map_insert_error(error: DbErr) -> Error {
    match Violation::is_unique(&error, "uq_clusters_project_id_environment_scope") {
        true => Error::attribute("environment_scope", "cannot add duplicated environment scope"),
        false => error.into(),
    }
}

/// Returns the context to which the encryption of a cluster's token is bound.
fn token_context(cluster_id: i64) -> EncryptionContext {
    EncryptedColumn::ClusterToken.context(&[&cluster_id])
}

fn not_found() -> Error {
    Error::not_found("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_must_be_valid_dns_label() {
        let long = "a".repeat(63);
        for good in ["a", "A-1", "1", &long] {
            assert!(is_dns_label(good), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in ["", "-a", "a-", "a_b", "a b", "ä", "a\n", &longer] {
            assert!(!is_dns_label(bad), "{bad:?}");
        }
    }
}
