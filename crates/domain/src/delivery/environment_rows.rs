//! Rows of environments: lookup by name, insertion and changes of the state.

use std::collections::BTreeMap;

use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    IntoActiveModel, PaginatorTrait, QueryFilter,
};
use sha2::{Digest, Sha256};
use storage::database::Violation;
use storage::entities::environments::{self, ActiveModel, Column, EnvironmentState, Model};
use storage::entities::now;

use crate::kernel::error::{Error, Result};

/// Maximum environments of a project.
const MAX_ENVIRONMENTS: u64 = 1000;

/// Maximum length of a slug, and of the part before a disambiguating suffix. ASCII.
const MAX_SLUG_LENGTH: usize = 24;
const SLUG_STEM_LENGTH: usize = 17;

/// Alphabet and length of the suffix of changed slugs.
const SUFFIX_ALPHABET: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const SUFFIX_LENGTH: usize = 6;

/// Returns the environment that a deployment names. Creates it if needed, and restarts it if it is stopped.
/// The caller has validated the name and locked the project.
///
/// # Errors
/// Returns `Error::Rejected` if the project has `MAX_ENVIRONMENTS` environments already.
pub(crate) async fn ensure(
    transaction: &DatabaseTransaction,
    project_id: i64,
    name: String,
) -> Result<Model> {
    match find_by_name(transaction, project_id, &name).await? {
        Some(found) => set_state(transaction, found, EnvironmentState::Available).await,
        None => insert(transaction, project_id, name, None).await,
    }
}

/// Returns the environment with a name, if there is one.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn find_by_name(
    db: &impl ConnectionTrait,
    project_id: i64,
    name: &str,
) -> Result<Option<Model>> {
    let found = environments::of_project(project_id).filter(Column::Name.eq(name));
    Ok(found.one(db).await?)
}

/// Error for a name that is taken.
pub(super) const TAKEN: &str = "has already been taken";

/// Updates the state of an environment, unless it has the state already.
///
/// # Errors
/// Returns an error if the database fails.
pub(super) async fn set_state(
    transaction: &DatabaseTransaction,
    found: Model,
    state: EnvironmentState,
) -> Result<Model> {
    if found.state == state {
        return Ok(found);
    }
    let mut row = found.into_active_model();
    row.state = Set(state);
    row.updated_at = Set(now());
    Ok(row.update(transaction).await?)
}

/// Inserts an environment. The caller has locked the project.
///
/// # Errors
/// Returns `Error::Rejected` if the project has `MAX_ENVIRONMENTS` environments already, and a validation error
/// if the name is taken.
pub(super) async fn insert(
    transaction: &DatabaseTransaction,
    project_id: i64,
    name: String,
    external_url: Option<String>,
) -> Result<Model> {
    let own = environments::of_project(project_id);
    if own.count(transaction).await? >= MAX_ENVIRONMENTS {
        let text = format!("The maximum number of environments ({MAX_ENVIRONMENTS}) is reached");
        return Err(Error::Rejected(text.into()));
    }
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        slug: Set(free_slug(transaction, project_id, &name).await?),
        name: Set(name),
        external_url: Set(external_url),
        state: Set(EnvironmentState::Available),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let result = row.insert(transaction).await;
    result.map_err(|error| match is_name_taken(&error) {
        true => {
            let taken_error = |attribute: &'static str| (attribute.into(), vec![TAKEN.into()]);
            Error::InvalidAttributes(BTreeMap::from(["name", "slug"].map(taken_error)))
        }
        false if Violation::is_unique(&error, "uq_environments_project_id_slug") => {
            Error::attribute("slug", TAKEN)
        }
        false => error.into(),
    })
}

/// Returns whether an insert or update failed because the name is taken.
pub(super) fn is_name_taken(error: &DbErr) -> bool {
    Violation::is_unique(error, "uq_environments_project_id_name")
}

/// Returns the slug of a name. A suffix is added if an environment that was renamed since still has the slug.
async fn free_slug(transaction: &DatabaseTransaction, project_id: i64, name: &str) -> Result<String> {
    let slug = slug_of(name);
    let own = environments::of_project(project_id).filter(Column::Slug.eq(slug.as_str()));
    match own.count(transaction).await? {
        0 => Ok(slug),
        _ => Ok(with_suffix(&slug, name)),
    }
}

/// Returns a name as a slug of lowercase letters, digits and single dashes that starts with a letter. A
/// changed name gets a suffix for uniqueness.
fn slug_of(name: &str) -> String {
    let mut slug = String::new();
    for char in name.to_ascii_lowercase().chars() {
        match char {
            'a'..='z' => slug.push(char),
            '0'..='9' => {
                if slug.is_empty() {
                    slug.push_str("env-");
                }
                slug.push(char);
            }
            _ if slug.is_empty() => slug.push_str("env-"),
            _ if slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    match slug == name && slug.len() <= MAX_SLUG_LENGTH {
        true => slug.to_owned(),
        false => with_suffix(slug, name),
    }
}

/// Returns the start of a slug with a suffix derived from the name.
fn with_suffix(slug: &str, name: &str) -> String {
    let stem = slug.get(..SLUG_STEM_LENGTH).unwrap_or(slug).trim_end_matches('-');
    let digest = Sha256::digest(name.as_bytes());
    let digits = digest.iter().take(SUFFIX_LENGTH);
    let suffix = digits.filter_map(|byte| SUFFIX_ALPHABET.get(usize::from(*byte) % SUFFIX_ALPHABET.len()));
    let suffix: String = suffix.map(|digit| char::from(*digit)).collect();
    format!("{stem}-{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_slug_is_derived_from_name() {
        for same in ["production", "a", "a-1", "x123456789012345678901-3"] {
            assert_eq!(slug_of(same), same);
        }
        for (name, begins) in [
            ("Production", "production-"),
            ("review/topic", "review-topic-"),
            ("a--b", "a-b-"),
            ("a-", "a-"),
            ("1st", "env-1st-"),
            ("-a", "env-a-"),
            ("$", "env-"),
            ("review/a-rather-long-name-of-a-branch", "review-a-rather-l-"),
            ("abcdefghijklmnopqrstuvwxy", "abcdefghijklmnopq-"),
            ("abcdefghijklmnop/uvw", "abcdefghijklmnop-"),
        ] {
            let slug = slug_of(name);
            let suffix = slug
                .strip_prefix(begins)
                .unwrap_or_else(|| panic!("{name}: {slug}"));
            assert_eq!(suffix.len(), SUFFIX_LENGTH, "{name}: {slug}");
            assert!(
                suffix.bytes().all(|byte| SUFFIX_ALPHABET.contains(&byte)),
                "{slug}"
            );
            assert!(slug.len() <= MAX_SLUG_LENGTH, "{slug}");
        }
        assert_ne!(slug_of("a/b"), slug_of("a b"));
        assert_eq!(slug_of("a/b"), slug_of("a/b"));
    }
}
