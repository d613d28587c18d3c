//! Publishes files: creates or finds the package, and adds the file, in one transaction.

use chrono::{DateTime, Utc};
use parsers::cargo::CrateVersion;
use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::entities::packages::{self, PackageStatus, PackageType};
use storage::entities::{fold, now, package_blobs, package_files, package_metadata, package_tags};

use super::access::check_access;
use super::content::{self, StoredContent};
use super::deletion::{enqueue_collection, file_target, package_target};
use super::protection::{self, PackageChange, ProtectedName};
use super::reauthorization::authorize_again;
use super::usage::count_upload;
use crate::audit::{self, AuditEvent, AuditKind};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Error;
use crate::kernel::settings::PROJECT_PACKAGES_SIZE;
use crate::spaces::projects::lock_for_insert;

/// Maximum number of files of a package.
const MAX_FILES: u64 = 1_000;
/// Maximum number of files of a Maven package. Each deployment of a snapshot adds files with new names.
const MAX_MAVEN_FILES: u64 = 10_000;
/// Maximum number of tags of an npm package.
pub(super) const MAX_TAGS: u64 = 1_000;

/// A file to publish.
#[derive(Debug, Clone)]
pub struct NewPackageFile {
    /// The format.
    pub package_type: PackageType,
    /// The name of the package.
    pub name: String,
    /// The name in the form that the format compares.
    pub lookup_name: String,
    /// The version.
    pub version: String,
    /// The status of the package. If absent, the status of an existing package does not change.
    pub status: Option<PackageStatus>,
    /// The name of the file.
    pub file_name: String,
    /// The versions of Python that the file supports.
    pub requires_python: Option<String>,
    /// Treatment of duplicates.
    pub on_duplicate: DuplicateRule,
    /// Conditions on a new version, depending on the other versions.
    pub versions: VersionRule,
    /// A document about a new package, as JSON.
    pub metadata: Option<String>,
    /// Tags that belong to this version from now on.
    pub tags: Vec<String>,
}

/// Treatment of a package or file that exists already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DuplicateRule {
    /// A further file with the same name is added.
    Allow,
    /// The file replaces the file with the same name.
    ReplaceFile,
    /// The package can exist, but no version of it has a file with this name.
    RefuseFile,
    /// The package must not exist.
    RefusePackage,
}

/// Conditions on a new version, depending on the other versions of the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionRule {
    /// No conditions.
    Any,
    /// The package has fewer versions than this number.
    AtMost(u64),
    /// As `AtMost`. The other versions have exactly the same name, and differ in more than build metadata.
    Crate(u64),
}

/// Reason why a file was not published.
#[derive(Debug, thiserror::Error)]
pub enum AddFileError {
    /// The version exists already.
    #[error("the package exists already")]
    PackageExists,
    /// A version of the package has a file with this name already.
    #[error("the file exists already")]
    FileExists,
    /// The package has the maximum number of files.
    #[error("the package has too many files (maximum is {0})")]
    TooManyFiles(u64),
    /// The package has the maximum number of versions.
    #[error("the package has too many versions (maximum is {0}); delete old versions")]
    TooManyVersions(u64),
    /// The package has the maximum number of tags.
    #[error("the package has too many tags (maximum is {0})")]
    TooManyTags(u64),
    /// Another package with this name is equal in the form that the format compares.
    #[error("the package {0} has a similar name")]
    SimilarName(String),
    /// Another error.
    #[error(transparent)]
    Failed(Error),
}

impl<E: Into<Error>> From<E> for AddFileError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

/// Publishes a file. Discards its content if that fails. The caller is authorized again, because storing the content
/// can take minutes.
///
/// # Errors
/// Returns the variants of [`AddFileError`], such as `Error::Forbidden` if the packages of the project are disabled or
/// a protection rule does not allow the upload, `Error::FileTooLarge` if the packages of the project are too large with
/// the file, and `Error::NotFound` if the project was deleted or the caller cannot see it any more. Returns
/// `Error::Unauthorized` if the credentials are no longer valid.
pub async fn add_file(
    backend: &Backend,
    access: &ProjectAccess,
    new: NewPackageFile,
    content: StoredContent,
) -> Result<(packages::Model, package_files::Model), AddFileError> {
    let added = add_authorized(backend, access, &new, &content).await;
    match &added {
        Ok((package, _)) => count_upload(package.package_type, content.size),
        Err(_) => content::discard(backend, content).await,
    }
    added
}

async fn add_authorized(
    backend: &Backend,
    access: &ProjectAccess,
    new: &NewPackageFile,
    content: &StoredContent,
) -> Result<(packages::Model, package_files::Model), AddFileError> {
    let access = authorize_again(backend, access).await?;
    // The sum reads all files of the project, so it is computed before other uploads wait for the lock.
    let existing = package_files::total_size_of_project(backend.database.read(), access.project.id).await?;
    backend
        .database
        .transaction(async |transaction| {
            let added = add(transaction, &access, new, content).await?;
            check_total_size(transaction, backend, access.project.id, existing).await?;
            Ok(added)
        })
        .await
}

async fn add(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    new: &NewPackageFile,
    content: &StoredContent,
) -> Result<(packages::Model, package_files::Model), AddFileError> {
    // Uploads to a project wait here for each other, so duplicates are found and limits are exact.
    let access = &lock_project(transaction, access).await?;
    let name = ProtectedName {
        package_type: new.package_type,
        name: &new.name,
        lookup_name: &new.lookup_name,
    };
    protection::check(transaction, access, name, PackageChange::Push).await?;
    if new.on_duplicate == DuplicateRule::RefuseFile {
        check_file_name(transaction, access, new).await?;
    }
    let at = now();
    let existing = packages::by_version(
        access.project.id,
        new.package_type,
        &new.lookup_name,
        &new.version,
    );
    // Locked, because a package can be deleted without the lock of the project.
    let (package, kind) = match existing.lock_exclusive().one(transaction).await? {
        Some(package) => {
            resolve_duplicate(transaction, new, &package).await?;
            let package = touch(transaction, package, new.status, at).await?;
            (package, AuditKind::PackageFileAdded)
        }
        None => {
            check_versions(transaction, access, new).await?;
            let package = insert_package(transaction, access, new, at).await?;
            (package, AuditKind::PackagePublished)
        }
    };
    let file = insert_file(transaction, &package, new, content, at).await?;
    set_tags(transaction, &package, &new.tags, at).await?;
    let target = match kind {
        AuditKind::PackagePublished => package_target(&package),
        _ => file_target(&package, &file),
    };
    let event = AuditEvent::new(kind, access.audit_entity(), target);
    audit::record(transaction, &access.caller, event).await?;
    Ok((package, file))
}

/// Locks the project. Returns the access to the locked row, which can differ from the row at the start of the upload.
async fn lock_project(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
) -> Result<ProjectAccess, AddFileError> {
    let project = lock_for_insert(transaction, access.project.id).await?;
    if project.archived {
        return Err(Error::forbidden().into());
    }
    let locked = ProjectAccess {
        project,
        ..access.clone()
    };
    check_access(&locked)?;
    Ok(locked)
}

/// Refuses a file, which is inserted already, if the packages of the project are too large with it. Uploads to a
/// project wait for each other, so the total is exact. `existing` is the size of the files that existed before the
/// lock, and the highest of their IDs. It can include files that were deleted since, so the exact total is computed
/// before a file is refused.
async fn check_total_size(
    transaction: &DatabaseTransaction,
    backend: &Backend,
    project_id: i64,
    existing: (i64, i64),
) -> Result<(), AddFileError> {
    let limit = backend.instance.max_project_package_bytes;
    let is_within = |total: i64| u64::try_from(total).is_ok_and(|total| total <= limit);
    let (size, newest) = existing;
    let added = package_files::total_size_after(transaction, project_id, newest).await?;
    if is_within(size.saturating_add(added)) {
        return Ok(());
    }
    let (total, _) = package_files::total_size_of_project(transaction, project_id).await?;
    if is_within(total) {
        return Ok(());
    }
    let text =
        format!("the packages of the project are too large (maximum is {limit} bytes); delete packages");
    Err(Error::FileTooLarge(text).because_of(PROJECT_PACKAGES_SIZE).into())
}

/// Refuses a file whose name a file of any version of the package has, because the list of a package contains the files
/// of all versions.
async fn check_file_name(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    new: &NewPackageFile,
) -> Result<(), AddFileError> {
    let same = package_files::Entity::find()
        .inner_join(packages::Entity)
        .filter(packages::Column::ProjectId.eq(access.project.id))
        .filter(packages::Column::PackageType.eq(new.package_type))
        .filter(packages::Column::LookupName.eq(new.lookup_name.as_str()))
        .filter(package_files::Column::DistinctName.eq(new.file_name.as_str()));
    match same.one(transaction).await? {
        Some(_) => Err(AddFileError::FileExists),
        None => Ok(()),
    }
}

/// Refuses a duplicate, or deletes the file that the new file replaces.
async fn resolve_duplicate(
    transaction: &DatabaseTransaction,
    new: &NewPackageFile,
    package: &packages::Model,
) -> Result<(), AddFileError> {
    if new.on_duplicate == DuplicateRule::RefusePackage {
        return Err(AddFileError::PackageExists);
    }
    let files = package_files::of_package(package.id);
    let same = package_files::Column::DistinctName.eq(new.file_name.as_str());
    if new.on_duplicate == DuplicateRule::ReplaceFile {
        let deleted = package_files::Entity::delete_many()
            .filter(package_files::Column::PackageId.eq(package.id))
            .filter(same)
            .exec(transaction)
            .await?;
        if deleted.rows_affected > 0 {
            enqueue_collection(transaction).await?;
        }
    }
    let limit = match new.package_type {
        PackageType::Maven => MAX_MAVEN_FILES,
        _ => MAX_FILES,
    };
    match files.count(transaction).await? >= limit {
        true => Err(AddFileError::TooManyFiles(limit)),
        false => Ok(()),
    }
}

/// Checks the conditions on a new version. The lock of the project serializes uploads, so the result is exact.
async fn check_versions(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    new: &NewPackageFile,
) -> Result<(), AddFileError> {
    let others = packages::of_project(access.project.id)
        .filter(packages::Column::PackageType.eq(new.package_type))
        .filter(packages::Column::LookupName.eq(new.lookup_name.as_str()));
    match new.versions {
        VersionRule::Any => Ok(()),
        VersionRule::AtMost(limit) => match others.count(transaction).await? < limit {
            true => Ok(()),
            false => Err(AddFileError::TooManyVersions(limit)),
        },
        VersionRule::Crate(limit) => {
            let others: Vec<(String, String)> = others
                .select_only()
                .column(packages::Column::Name)
                .column(packages::Column::Version)
                .limit(limit)
                .into_tuple()
                .all(transaction)
                .await?;
            check_crate(new, &others, limit)
        }
    }
}

/// Checks the version of a crate against the names and versions of its other versions.
fn check_crate(new: &NewPackageFile, others: &[(String, String)], limit: u64) -> Result<(), AddFileError> {
    if let Some((name, _)) = others.iter().find(|(name, _)| *name != new.name) {
        return Err(AddFileError::SimilarName(name.clone()));
    }
    let version = CrateVersion::parse(&new.version).map_err(Error::internal)?;
    let is_same = |other: &str| CrateVersion::parse(other).is_ok_and(|other| other.is_same_release(&version));
    if others.iter().any(|(_, other)| is_same(other)) {
        return Err(AddFileError::PackageExists);
    }
    match (others.len() as u64) < limit {
        true => Ok(()),
        false => Err(AddFileError::TooManyVersions(limit)),
    }
}

async fn insert_package(
    transaction: &DatabaseTransaction,
    access: &ProjectAccess,
    new: &NewPackageFile,
    at: DateTime<Utc>,
) -> Result<packages::Model, AddFileError> {
    let row = packages::ActiveModel {
        project_id: Set(access.project.id),
        creator_id: Set(access.caller.as_user().map(|user| user.id)),
        package_type: Set(new.package_type),
        name: Set(new.name.clone()),
        name_key: Set(fold(&new.name)),
        lookup_name: Set(new.lookup_name.clone()),
        version: Set(new.version.clone()),
        status: Set(new.status.unwrap_or(PackageStatus::Default)),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let package = row.insert(transaction).await?;
    if let Some(content) = &new.metadata {
        let row = package_metadata::ActiveModel {
            package_id: Set(package.id),
            content: Set(content.clone()),
            ..Default::default()
        };
        row.insert(transaction).await?;
    }
    Ok(package)
}

/// Records the change of a package.
async fn touch(
    transaction: &DatabaseTransaction,
    package: packages::Model,
    status: Option<PackageStatus>,
    at: DateTime<Utc>,
) -> Result<packages::Model, AddFileError> {
    let mut row = package.into_active_model();
    if let Some(status) = status {
        row.status = Set(status);
    }
    row.updated_at = Set(at);
    Ok(row.update(transaction).await?)
}

async fn insert_file(
    transaction: &DatabaseTransaction,
    package: &packages::Model,
    new: &NewPackageFile,
    content: &StoredContent,
    at: DateTime<Utc>,
) -> Result<package_files::Model, AddFileError> {
    let is_distinct = new.on_duplicate != DuplicateRule::Allow;
    let row = package_files::ActiveModel {
        package_id: Set(package.id),
        file_name: Set(new.file_name.clone()),
        distinct_name: Set(is_distinct.then(|| new.file_name.clone())),
        size: Set(i64::try_from(content.size).map_err(Error::internal)?),
        md5: Set(content.md5.clone()),
        sha1: Set(content.sha1.clone()),
        sha256: Set(content.sha256.clone()),
        sha512: Set(Some(content.sha512.clone())),
        requires_python: Set(new.requires_python.clone()),
        created_at: Set(at),
        ..Default::default()
    };
    let file = row.insert(transaction).await?;
    if !package_blobs::attach(transaction, content.blob.id, Some(file.id)).await? {
        return Err(AddFileError::Failed(Error::TimedOut));
    }
    Ok(file)
}

/// Moves the tags of an upload to its version, or creates them. Uploads to a project wait for each other, so the limit
/// is exact.
async fn set_tags(
    transaction: &DatabaseTransaction,
    package: &packages::Model,
    tags: &[String],
    at: DateTime<Utc>,
) -> Result<(), AddFileError> {
    if tags.is_empty() {
        return Ok(());
    }
    let of_package = package_tags::Entity::find()
        .filter(package_tags::Column::ProjectId.eq(package.project_id))
        .filter(package_tags::Column::LookupName.eq(package.lookup_name.as_str()));
    let former = of_package.clone().count(transaction).await?;
    for tag in tags {
        set_tag(transaction, package, tag, at).await?;
    }
    let count = of_package.count(transaction).await?;
    match count > former && count > MAX_TAGS {
        true => Err(AddFileError::TooManyTags(MAX_TAGS)),
        false => Ok(()),
    }
}

/// Moves a tag to a version, or creates it.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn set_tag(
    transaction: &DatabaseTransaction,
    package: &packages::Model,
    tag: &str,
    at: DateTime<Utc>,
) -> Result<(), Error> {
    let row = package_tags::ActiveModel {
        project_id: Set(package.project_id),
        lookup_name: Set(package.lookup_name.clone()),
        tag: Set(tag.to_owned()),
        package_id: Set(package.id),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let columns = [
        package_tags::Column::ProjectId,
        package_tags::Column::LookupName,
        package_tags::Column::Tag,
    ];
    let moved = OnConflict::columns(columns)
        .update_columns([package_tags::Column::PackageId, package_tags::Column::UpdatedAt])
        .to_owned();
    package_tags::Entity::insert(row)
        .on_conflict(moved)
        .exec_without_returning(transaction)
        .await?;
    Ok(())
}
