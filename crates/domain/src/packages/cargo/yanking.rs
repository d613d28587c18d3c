//! Yanks of versions: new lock files do not select a yanked version, which can still be downloaded.

use parsers::cargo::IndexEntry;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use storage::entities::packages::{self, PackageType};
use storage::entities::{now, package_metadata};

use super::{parse, version_not_found};
use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::packages::access::check_access;
use crate::packages::deletion::package_target;
use crate::packages::protection::{self, PackageChange, ProtectedName};
use crate::spaces::projects::lock_for_insert;

/// Sets whether a version is yanked.
///
/// # Errors
/// Returns `NotFound` if the version does not exist. Returns `Forbidden` if the packages of the project are disabled or a
/// protection rule does not allow uploads.
pub async fn set_yanked(
    backend: &Backend,
    access: &ProjectAccess,
    name: &str,
    version: &str,
    yanked: bool,
) -> Result<()> {
    check_access(access)?;
    let (name, version) = parse(name, version)?;
    let lookup_name = name.canonical();
    backend
        .database
        .transaction(async |transaction| {
            lock_for_insert(transaction, access.project.id).await?;
            let found = packages::by_version(
                access.project.id,
                PackageType::Cargo,
                &lookup_name,
                version.as_str(),
            );
            let package = found.one(transaction).await?.ok_or_else(version_not_found)?;
            protection::check(
                transaction,
                access,
                ProtectedName::of(&package),
                PackageChange::Push,
            )
            .await?;
            let document = package_metadata::Entity::find()
                .filter(package_metadata::Column::PackageId.eq(package.id))
                .one(transaction)
                .await?
                .ok_or_else(version_not_found)?;
            let mut entry = IndexEntry::parse(&document.content).map_err(Error::internal)?;
            if entry.yanked == yanked {
                return Ok(());
            }
            entry.yanked = yanked;
            let line = entry.to_line().map_err(Error::internal)?;
            package_metadata::Entity::update_many()
                .col_expr(package_metadata::Column::Content, Expr::value(line))
                .filter(package_metadata::Column::Id.eq(document.id))
                .exec(transaction)
                .await?;
            packages::Entity::update_many()
                .col_expr(packages::Column::UpdatedAt, Expr::value(now()))
                .filter(packages::Column::Id.eq(package.id))
                .exec(transaction)
                .await?;
            let kind = match yanked {
                true => AuditKind::PackageYanked,
                false => AuditKind::PackageUnyanked,
            };
            let event = AuditEvent::new(kind, access.audit_entity(), package_target(&package));
            audit::record(transaction, &access.caller, event).await
        })
        .await
}
