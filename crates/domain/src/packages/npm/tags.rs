//! Tags of packages, such as `latest`.

use std::collections::BTreeMap;

use parsers::npm::{NpmName, NpmTag, NpmVersion};
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, Select};
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::{now, package_tags};
use tokio::io::AsyncReadExt;

use super::{parse_name, protected, versions};
use crate::accounts::uploads::UploadedFile;
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::packages::access::check_access;
use crate::packages::client_lists::PackageScope;
use crate::packages::creation::{MAX_TAGS, set_tag};
use crate::packages::protection::{self, PackageChange};
use crate::spaces::projects::lock_for_insert;

/// Maximum size of a body with a version, in bytes.
const MAX_VERSION_BYTES: u64 = 4 << 10;

/// Returns the version of each tag of a package. If no version has the tag `latest`, it is the tag of the highest
/// version.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid, and `Forbidden` if the packages of the project are disabled.
/// Returns `NotFound` if the package does not exist; `Unauthorized` in place of it for a client without credentials in
/// a group.
pub async fn list(
    backend: &Backend,
    scope: &PackageScope<'_>,
    name: &str,
) -> Result<BTreeMap<String, String>> {
    versions::tags(backend, scope, name).await
}

/// Sets a tag to a version, which the body contains as a JSON string.
///
/// # Errors
/// Returns `InvalidParameters` if the name, the tag or the version is invalid, or the package has [`MAX_TAGS`] tags
/// already. Returns `NotFound` if the version does not exist, and `Forbidden` if the packages of the project are
/// disabled.
pub async fn set(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    tag: &str,
    body: UploadedFile,
) -> Result<()> {
    check_access(access)?;
    let name = parse_name(name)?;
    let tag = NpmTag::parse(tag).ok_or_else(|| Error::parameter("tag is invalid"))?;
    let version = read_version(body).await?;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, access.project.id).await?;
            protection::check(transaction, access, protected(&name), PackageChange::Push).await?;
            let found = packages::by_version(
                access.project.id,
                PackageType::Npm,
                name.as_str(),
                version.as_str(),
            )
            .filter(packages::Column::Status.eq(PackageStatus::Default));
            let package = found.one(transaction).await?;
            let package = package.ok_or_else(|| Error::not_found("Package"))?;
            let former = named(access, &name, &tag).one(transaction).await?;
            match former {
                Some(former) if former.package_id == package.id => return Ok(()),
                Some(_) => {}
                None => {
                    let count = of_package(access, &name).count(transaction).await?;
                    if count >= MAX_TAGS {
                        let text = format!("the package has too many tags (maximum is {MAX_TAGS})");
                        return Err(Error::parameter(text));
                    }
                }
            }
            set_tag(transaction, &package, tag.as_str(), now()).await?;
            let event = AuditEvent::new(
                AuditKind::PackageTagChanged,
                access.audit_entity(),
                AuditTarget::named("PackageTag", format!("{name}@{tag}")),
            );
            audit::record(transaction, &access.caller, event.to(version.as_str())).await
        })
        .await
}

/// Deletes a tag. The version remains.
///
/// # Errors
/// Returns `InvalidParameters` if the name is invalid, `NotFound` if the tag does not exist, and `Forbidden` if the
/// packages of the project are disabled.
pub async fn delete(backend: &Backend, access: &ProjectAccess, name: &str, tag: &str) -> Result<()> {
    check_access(access)?;
    let name = parse_name(name)?;
    // Other names are not looked up, because a database does not accept every text.
    let not_found = || Error::not_found("Package tag");
    let tag = NpmTag::parse(tag).ok_or_else(not_found)?;
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, access.project.id).await?;
            protection::check(transaction, access, protected(&name), PackageChange::Push).await?;
            let found = named(access, &name, &tag).one(transaction).await?;
            let found = found.ok_or_else(not_found)?;
            package_tags::Entity::delete_by_id(found.id)
                .exec(transaction)
                .await?;
            let event = AuditEvent::new(
                AuditKind::PackageTagDeleted,
                access.audit_entity(),
                AuditTarget::named("PackageTag", format!("{name}@{tag}")),
            );
            audit::record(transaction, &access.caller, event).await
        })
        .await
}

fn of_package(access: &ProjectAccess, name: &NpmName) -> Select<package_tags::Entity> {
    package_tags::Entity::find()
        .filter(package_tags::Column::ProjectId.eq(access.project.id))
        .filter(package_tags::Column::LookupName.eq(name.as_str()))
}

fn named(access: &ProjectAccess, name: &NpmName, tag: &NpmTag) -> Select<package_tags::Entity> {
    of_package(access, name).filter(package_tags::Column::Tag.eq(tag.as_str()))
}

/// Reads a version from a body.
async fn read_version(body: UploadedFile) -> Result<NpmVersion> {
    let mut text = Vec::new();
    let mut content = body.file.take(MAX_VERSION_BYTES);
    content.read_to_end(&mut text).await.map_err(Error::internal)?;
    let text: String = serde_json::from_slice(&text)
        .map_err(|_| Error::parameter("the body must be a version as a JSON string"))?;
    NpmVersion::parse(&text).map_err(|error| Error::parameter(format!("version {error}")))
}
