//! Repositories and tags of the container registry.

use domain::kernel::urls::registry_host;
use domain::registry::listing::RepositoryDetail;
use storage::entities::container_expiration_policies::ExpirationPolicy;
use storage::entities::{registry_manifests, registry_tags};

use crate::views::enums::Convert;
use contract::{ContainerExpirationPolicy, RegistryRepository, RegistryTag, RegistryTagDetails};

/// Number of digits of a short revision.
const SHORT: usize = 9;

/// Returns the expiration policy of a project.
#[must_use]
pub fn expiration_policy(policy: &ExpirationPolicy) -> ContainerExpirationPolicy {
    ContainerExpirationPolicy {
        cadence: policy.cadence.convert(),
        enabled: policy.next_run_at.is_some(),
        keep_n: policy.keep_n,
        older_than: policy.older_than.map(Convert::convert),
        name_regex: policy.name_regex_delete.clone(),
        name_regex_delete: policy.name_regex_delete.clone(),
        name_regex_keep: policy.name_regex_keep.clone(),
        next_run_at: policy.next_run_at.map(Into::into),
    }
}

/// Returns a repository; `base` is the base URL.
#[must_use]
pub fn repository(base: &str, row: RepositoryDetail) -> RegistryRepository {
    let RepositoryDetail {
        repository,
        path,
        tags_count,
        tags,
    } = row;
    let tags = tags.map(|names| names.into_iter().map(|name| tag(base, &path, name)).collect());
    RegistryRepository {
        id: repository.id,
        name: repository.name,
        project_id: repository.project_id,
        location: format!("{}/{path}", registry_host(base)),
        path,
        created_at: repository.created_at.into(),
        tags_count,
        tags,
    }
}

/// Returns a tag of the repository with this path.
#[must_use]
pub fn tag(base: &str, path: &str, name: String) -> RegistryTag {
    let path = format!("{path}:{name}");
    RegistryTag {
        name,
        location: format!("{}/{path}", registry_host(base)),
        path,
    }
}

/// Returns a tag of the repository with this path, and its manifest.
#[must_use]
pub fn tag_details(
    base: &str,
    path: &str,
    row: registry_tags::Model,
    manifest: registry_manifests::Model,
) -> RegistryTagDetails {
    let RegistryTag { name, path, location } = tag(base, path, row.name);
    let digits = |digest: String| match digest.split_once(':') {
        Some((_, digits)) => digits.to_owned(),
        None => digest,
    };
    let revision = manifest.config_digest.map(digits);
    RegistryTagDetails {
        name,
        path,
        location,
        short_revision: revision
            .as_deref()
            .map(|digits| digits.chars().take(SHORT).collect()),
        revision,
        digest: manifest.digest,
        created_at: manifest.image_created_at.map(Into::into),
        total_size: manifest.total_size,
    }
}
