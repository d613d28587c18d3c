//! Links of releases to their assets.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter, QuerySelect,
};
use storage::database::Violation;
use storage::entities::release_links::{self, ActiveModel, Column, Entity, Model, ReleaseLinkType};
use storage::entities::{now, projects, row_changes};
use url::Url;

use super::rules;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patch::{Patch, assign};
use crate::kernel::preconditions;
use crate::kernel::query::page_of;

/// Maximum links of a release.
pub const MAX_LINKS: usize = 200;
/// Maximum number of characters of a name.
const MAX_NAME_LENGTH: usize = 255;
/// Maximum size of a URL in bytes. An index of PostgreSQL cannot contain longer values.
const MAX_URL_BYTES: usize = 2048;
/// Maximum number of characters of a path.
const MAX_PATH_LENGTH: usize = 128;

/// Attributes of a new link.
#[derive(Debug, Clone)]
pub struct NewLink {
    /// The name.
    pub name: String,
    /// The URL.
    pub url: String,
    /// The path below the downloads of the release.
    pub filepath: Option<String>,
    /// The kind of the asset.
    pub link_type: Option<ReleaseLinkType>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct LinkUpdate {
    /// The name.
    pub name: Option<String>,
    /// The URL.
    pub url: Option<String>,
    /// The path below the downloads of the release.
    pub filepath: Patch<String>,
    /// The kind of the asset.
    pub link_type: Option<ReleaseLinkType>,
}

/// Returns a page of the links of a release, newest first.
///
/// # Errors
/// Returns `Error::NotFound` if the tag has no release.
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    page: &PageRequest,
) -> Result<Page<Model>> {
    let db = backend.database.read();
    let release = rules::find(db, access, tag).await?;
    page_of(db, release_links::of_release(release.id), page).await
}

/// Returns a link of a release.
///
/// # Errors
/// Returns `Error::NotFound` if the release or the link does not exist.
pub async fn get(backend: &Backend, access: &ProjectAccess, tag: &str, id: i64) -> Result<Model> {
    let db = backend.database.read();
    let release = rules::find(db, access, tag).await?;
    let found = release_links::of_release(release.id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(rules::not_found)
}

/// Adds a link to a release.
///
/// # Errors
/// Returns `Error::NotFound` if the tag has no release. Returns `Error::InvalidAttributes` if an attribute is invalid
/// or another link of the release has the same name, URL or path. Returns `Error::Rejected` if the release has
/// [`MAX_LINKS`] links already.
pub async fn create(backend: &Backend, access: &ProjectAccess, tag: &str, new: NewLink) -> Result<Model> {
    rules::check_tag(backend, access, tag).await?;
    let row = valid_row(new)?;
    backend
        .database
        .transaction(async |transaction| {
            let release = lock_release(transaction, access, tag).await?;
            let count = release_links::of_release(release).count(transaction).await?;
            if count >= MAX_LINKS as u64 {
                return Err(Error::Rejected(too_many().into()));
            }
            insert(transaction, release, row, now()).await
        })
        .await
}

/// Updates a link of a release.
///
/// # Errors
/// Returns `Error::NotFound` if the release or the link does not exist. Returns `Error::InvalidParameters` if neither
/// the name nor the URL is given, and `Error::InvalidAttributes` like [`create`].
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    id: i64,
    update: LinkUpdate,
) -> Result<Model> {
    if update.name.is_none() && update.url.is_none() {
        return Err(Error::no_parameters(&["name", "url"]));
    }
    rules::check_tag(backend, access, tag).await?;
    let name = update.name.map(valid_name).transpose()?;
    let url = update.url.map(valid_url).transpose()?;
    let filepath = match update.filepath {
        Patch::Keep => Patch::Keep,
        Patch::Clear => Patch::Clear,
        Patch::Set(path) => valid_path(Some(path))?.map_or(Patch::Clear, Patch::Set),
    };
    backend
        .database
        .transaction(async |transaction| {
            let release = lock_release(transaction, access, tag).await?;
            let former = lock(transaction, release, id).await?;
            let mut row = former.clone().into_active_model();
            assign(&mut row.name, name);
            assign(&mut row.url, url);
            filepath.apply_to(&mut row.filepath);
            assign(&mut row.link_type, update.link_type);
            let changed = row_changes::update_if_changed(transaction, &former, row).await;
            changed.map_err(map_violation)
        })
        .await
}

/// Deletes a link of a release and returns it.
///
/// # Errors
/// Returns `Error::NotFound` if the release or the link does not exist. Returns `Error::PreconditionFailed` if it
/// changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<Model> {
    rules::check_tag(backend, access, tag).await?;
    backend
        .database
        .transaction(async |transaction| {
            let release = lock_release(transaction, access, tag).await?;
            let link = lock(transaction, release, id).await?;
            preconditions::check_unmodified_since(unmodified_since, link.updated_at)?;
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(link)
        })
        .await
}

/// Returns the URL of the asset with a path below the downloads of a release, without its leading slash.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases or the code of the project are not available to the caller. Returns
/// `Error::NotFound` if the tag has no release, or the release has no link with this path.
pub async fn download_url(
    backend: &Backend,
    access: &ProjectAccess,
    tag: &str,
    path: &str,
) -> Result<String> {
    rules::check_code(access)?;
    let db = backend.database.read();
    let release = rules::find(db, access, tag).await?;
    let found = release_links::of_release(release.id)
        .filter(Column::Filepath.eq(format!("/{path}")))
        .one(db)
        .await?;
    let link = found.ok_or_else(rules::not_found)?;
    // The parsed form contains only characters that a header can contain.
    Url::parse(&link.url).map(String::from).map_err(Error::internal)
}

/// Validates the links of a new release.
///
/// # Errors
/// Returns `Error::Rejected` with the errors of the first invalid link, or if two links have the same name, URL or path.
pub(super) fn valid_rows(links: Vec<NewLink>) -> Result<Vec<ActiveModel>> {
    let failed = |text: String| Error::Rejected(format!("Validation failed: {text}").into());
    if links.len() > MAX_LINKS {
        return Err(failed(too_many()));
    }
    let (mut names, mut urls, mut paths) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut rows = Vec::new();
    for link in links {
        let row = valid_row(link).map_err(|error| match error {
            Error::InvalidAttributes(errors) => {
                let texts = errors
                    .iter()
                    .flat_map(|(name, texts)| texts.iter().map(move |text| format!("Links {name} {text}")));
                failed(texts.collect::<Vec<_>>().join(", "))
            }
            other => other,
        })?;
        let path = row.filepath.as_ref().clone();
        let duplicate = if !names.insert(row.name.as_ref().clone()) {
            Some("name")
        } else if !urls.insert(row.url.as_ref().clone()) {
            Some("url")
        } else if path.is_some_and(|path| !paths.insert(path)) {
            Some("filepath")
        } else {
            None
        };
        if let Some(attribute) = duplicate {
            return Err(failed(format!("Links {attribute} has already been taken")));
        }
        rows.push(row);
    }
    Ok(rows)
}

/// Inserts a valid link of a release.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    release_id: i64,
    row: ActiveModel,
    at: DateTime<Utc>,
) -> Result<Model> {
    let row = ActiveModel {
        release_id: Set(release_id),
        created_at: Set(at),
        updated_at: Set(at),
        ..row
    };
    row.insert(transaction).await.map_err(map_violation)
}

/// Locks the project and the release of a tag, and returns the ID of the release. The lock of the project serializes
/// inserts, so that concurrent ones cannot exceed the maximum.
async fn lock_release(transaction: &DatabaseTransaction, access: &ProjectAccess, tag: &str) -> Result<i64> {
    let project = projects::lock_for_insert(transaction, access.project.id).await?;
    project.ok_or_else(|| Error::not_found("Project"))?;
    Ok(rules::find(transaction, access, tag).await?.id)
}

async fn lock(db: &impl ConnectionTrait, release_id: i64, id: i64) -> Result<Model> {
    let found = release_links::of_release(release_id).filter(Column::Id.eq(id));
    found.lock_exclusive().one(db).await?.ok_or_else(rules::not_found)
}

fn too_many() -> String {
    format!("A release has too many links (maximum is {MAX_LINKS})")
}

fn valid_row(new: NewLink) -> Result<ActiveModel> {
    Ok(ActiveModel {
        name: Set(valid_name(new.name)?),
        url: Set(valid_url(new.url)?),
        filepath: Set(valid_path(new.filepath)?),
        link_type: Set(new.link_type.unwrap_or(ReleaseLinkType::Other)),
        ..Default::default()
    })
}

fn valid_name(name: String) -> Result<String> {
    if name.trim().is_empty() {
        return Err(Error::attribute("name", "can't be blank"));
    }
    if name.chars().count() > MAX_NAME_LENGTH {
        return Err(Error::attribute(
            "name",
            "is too long (maximum is 255 characters)",
        ));
    }
    Ok(name)
}

fn valid_url(url: String) -> Result<String> {
    if url.trim().is_empty() {
        return Err(Error::attribute("url", "can't be blank"));
    }
    if url.len() > MAX_URL_BYTES {
        return Err(Error::attribute("url", "is too long (maximum is 2048 bytes)"));
    }
    let forbidden = |char: char| char.is_whitespace() || char.is_control() || "<>\"\\".contains(char);
    let is_plain = !url.contains(forbidden);
    let is_allowed =
        Url::parse(&url).is_ok_and(|url| matches!(url.scheme(), "http" | "https" | "ftp") && url.has_host());
    match is_plain && is_allowed {
        true => Ok(url),
        false => Err(Error::attribute(
            "url",
            "is blocked: Only allowed schemes are http, https, ftp",
        )),
    }
}

/// Validates a path below the downloads of a release. An empty path is none.
fn valid_path(path: Option<String>) -> Result<Option<String>> {
    let Some(path) = path.filter(|path| !path.is_empty()) else {
        return Ok(None);
    };
    if path.chars().count() > MAX_PATH_LENGTH {
        return Err(Error::attribute(
            "filepath",
            "is too long (maximum is 128 characters)",
        ));
    }
    let is_allowed = |char: char| char.is_ascii_alphanumeric() || "-._/".contains(char);
    let segments = path.strip_prefix('/').map(|path| path.split('/'));
    let is_valid = path.chars().all(is_allowed)
        && path.ends_with(|char: char| char.is_ascii_alphanumeric())
        // Clients remove such segments from a URL.
        && segments.is_some_and(|mut segments| segments.all(|one| !matches!(one, "" | "." | "..")));
    match is_valid {
        true => Ok(Some(path)),
        false => Err(Error::attribute("filepath", "is in an invalid format")),
    }
}

/// Maps the database error of an insert or update to the error of its cause.
fn map_violation(error: DbErr) -> Error {
    let taken = |name: &'static str| Error::attribute(name, "has already been taken");
    match Violation::of(&error) {
        Some(Violation::Unique(constraint)) => match constraint.as_str() {
            "uq_release_links_release_id_name" => taken("name"),
            "uq_release_links_release_id_url" => taken("url"),
            _ => taken("filepath"),
        },
        Some(Violation::ForeignKey(_)) => rules::not_found(),
        _ => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_must_be_absolute_and_plain() {
        for good in ["/a", "/bin/linux-amd64", "/v1.0/a_b.tar.gz", "/.hidden/a"] {
            assert!(valid_path(Some(good.to_owned())).is_ok(), "{good}");
        }
        for bad in [
            "a", "/", "a/", "/a/", "//a", "/a//b", "/../a", "/a/./b", "/a b", "/a%20b", "/ä", "/a\n",
        ] {
            assert!(valid_path(Some(bad.to_owned())).is_err(), "{bad}");
        }
        assert!(valid_path(Some(format!("/{}", "a".repeat(128)))).is_err());
        assert!(matches!(valid_path(Some(String::new())), Ok(None)));
    }

    #[test]
    fn url_requires_known_scheme_and_host() {
        for good in ["https://h/a", "http://h:8080/a?b=c#d", "ftp://h/a", "https://h/ä"] {
            assert!(valid_url(good.to_owned()).is_ok(), "{good}");
        }
        for bad in [
            "",
            " ",
            "h/a",
            "javascript:alert(1)",
            "file:///etc/passwd",
            "https://",
            "https://h/\r\nSet-Cookie: a",
            "https://h/ a",
        ] {
            assert!(valid_url(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
