//! Lookup of releases, and the rules for their readers and attributes.

use chrono::{DateTime, TimeDelta, Utc};
use sea_orm::{ConnectionTrait, QuerySelect};
use storage::entities::releases::{self, Model};

use crate::code::push_decision::TAG_NOT_ALLOWED;
use crate::code::tag_protection;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum number of characters of a name.
const MAX_NAME_LENGTH: usize = 255;
/// How long before its creation a historical release was published.
const HISTORICAL: TimeDelta = TimeDelta::days(1);

/// Refuses callers without access to the releases of the project.
///
/// # Errors
/// Returns `Error::Forbidden` in that case.
pub(super) fn check_releases(access: &ProjectAccess) -> Result<()> {
    match access.can_use_releases() {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Returns the release of a tag.
///
/// # Errors
/// Returns `Error::Forbidden` if the releases of the project are not available to the caller, and `Error::NotFound` if the
/// tag has no release.
pub(super) async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, tag: &str) -> Result<Model> {
    check_releases(access)?;
    let found = releases::by_tag(access.project.id, tag).one(db).await?;
    found.ok_or_else(not_found)
}

/// Returns the release of a tag like [`find`], and locks it until the transaction ends.
pub(super) async fn lock(db: &impl ConnectionTrait, access: &ProjectAccess, tag: &str) -> Result<Model> {
    check_releases(access)?;
    let found = releases::by_tag(access.project.id, tag).lock_exclusive();
    found.one(db).await?.ok_or_else(not_found)
}

pub(super) fn not_found() -> Error {
    Error::not_found("")
}

/// Refuses callers without access to the releases of the project, or to its code.
///
/// # Errors
/// Returns `Error::Forbidden` in that case.
pub(super) fn check_code(access: &ProjectAccess) -> Result<()> {
    check_releases(access)?;
    match access.can_read_code() {
        true => Ok(()),
        false => Err(Error::forbidden()),
    }
}

/// Refuses changes by callers without access to the releases of the project, and changes of the release of a protected tag by
/// callers who cannot create the tag.
///
/// # Errors
/// Returns `Error::Forbidden` in that case.
pub(super) async fn check_tag(backend: &Backend, access: &ProjectAccess, tag: &str) -> Result<()> {
    check_releases(access)?;
    let rules = tag_protection::tag_rules(backend, access).await?;
    match rules.is_protected(tag) && !rules.can_create(tag) {
        true => Err(Error::forbidden_because(TAG_NOT_ALLOWED)),
        false => Ok(()),
    }
}

/// Returns whether the date of a release is in the future.
#[must_use]
pub fn is_upcoming(release: &Model, now: DateTime<Utc>) -> bool {
    release.released_at > now
}

/// Returns whether a release was published at least a day before it was created here.
#[must_use]
pub fn is_historical(release: &Model) -> bool {
    release.released_at <= release.created_at - HISTORICAL
}

/// Returns the name of a release; a blank name is replaced by the tag.
///
/// # Errors
/// Returns `Error::InvalidAttributes` if the name is too long.
pub(super) fn valid_name(name: Option<String>, tag: &str) -> Result<String> {
    let name = name.map(|name| name.trim().to_owned());
    let name = name.filter(|name| !name.is_empty());
    match name {
        Some(name) if name.chars().count() > MAX_NAME_LENGTH => Err(Error::attribute(
            "name",
            "is too long (maximum is 255 characters)",
        )),
        Some(name) => Ok(name),
        None => Ok(tag.to_owned()),
    }
}
