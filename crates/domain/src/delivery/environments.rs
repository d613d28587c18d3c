//! Environments of projects, the targets of deployments. Changes and deployments lock the project.

use std::borrow::Cow;
use std::collections::BTreeMap;

use sea_orm::sea_query::{Expr, Func};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, ConnectionTrait, DatabaseTransaction, DbErr,
    EntityTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use sha2::{Digest, Sha256};
use storage::database::Violation;
use storage::entities::environments::{self, ActiveModel, Column, Entity, Model, State};
use storage::entities::{fold, now};

use crate::delivery::access::{check_can_create, check_can_read};
use crate::delivery::{deployments, variables};
use crate::identity::access::ProjectAccess;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::query::{contains_in, page_of};
use crate::kernel::{Backend, preconditions, urls};
use crate::spaces::projects;

/// Maximum environments of a project.
const MOST: u64 = 1000;

/// Maximum length of a URL, in characters.
const LONGEST_URL: usize = 255;

/// Maximum length of a slug, and of the part before a disambiguating suffix. ASCII.
const LONGEST_SLUG: usize = 24;
const KEPT_OF_SLUG: usize = 17;

/// Alphabet and length of the suffix of changed slugs.
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";
const SUFFIX: usize = 6;

/// Filter of environments.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Exact name.
    pub name: Option<String>,
    /// Text that names contain.
    pub search: Option<String>,
    /// State of the environments.
    pub state: Option<State>,
}

/// Attributes to change; absent ones stay.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Name of the environment.
    pub name: Option<String>,
    /// External URL; `Some(None)` removes it.
    pub external_url: Option<Option<String>>,
    /// The slug, which is rejected because it cannot be changed.
    pub slug: Option<String>,
}

/// Returns a page of a project's environments, oldest first. Includes the project if the page is not empty.
///
/// # Errors
/// Returns `Error::InvalidParameters` if filters exclude each other. Fails like [`check_can_read`].
pub async fn list(
    backend: &Backend,
    access: &ProjectAccess,
    filter: Filter,
    page: &PageRequest,
) -> Result<(Page<Model>, Option<projects::Row>)> {
    if filter.name.is_some() && filter.search.is_some() {
        return Err(Error::parameter("name, search cannot be used together"));
    }
    check_can_read(access)?;
    let mut wanted = environments::of_project(access.project.id);
    if let Some(name) = filter.name {
        wanted = wanted.filter(Column::Name.eq(name));
    }
    if let Some(text) = filter.search {
        // Names are ASCII, for which both databases fold case alike.
        let key = Expr::expr(Func::lower(Expr::col(Column::Name)));
        wanted = wanted.filter(contains_in(key, &fold(&text)));
    }
    if let Some(state) = filter.state {
        wanted = wanted.filter(Column::State.eq(state));
    }
    let page = page_of(backend.database.read(), wanted, page).await?;
    let project = match page.items.is_empty() {
        true => None,
        false => Some(projects::read(backend, access.clone(), false).await?),
    };
    Ok((page, project))
}

/// Returns one environment of a project, with its last successful deployment.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project. Fails like
/// [`check_can_read`].
pub async fn get(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
) -> Result<(Model, Option<deployments::Row>)> {
    check_can_read(access)?;
    let found = find(backend.database.read(), access.project.id, id).await?;
    let last = deployments::last_to(backend, access, found.id).await?;
    Ok((found, last))
}

/// Creates an environment.
///
/// # Errors
/// Returns `Error::InvalidAttributes` or `Error::InvalidParameters` if an attribute is invalid or the name is
/// taken. Returns `Error::Refused` if the project has `MOST` environments already. Fails like
/// [`check_can_create`].
pub async fn create(backend: &Backend, access: &ProjectAccess, change: Change) -> Result<Model> {
    let external_url = check(&change)?;
    check_can_create(access)?;
    let project_id = access.project.id;
    let name = change.name.unwrap_or_default();
    backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, project_id).await?;
            insert(transaction, project_id, name, external_url.flatten()).await
        })
        .await
}

/// Updates an environment. The slug stays.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Otherwise fails like [`create`].
pub async fn update(backend: &Backend, access: &ProjectAccess, id: i64, change: Change) -> Result<Model> {
    let external_url = check(&change)?;
    check_can_create(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            let mut row = found.into_active_model();
            if let Some(name) = change.name {
                row.name = Set(name);
            }
            if let Some(external_url) = external_url {
                row.external_url = Set(external_url);
            }
            row.updated_at = Set(now());
            let changed = row.update(transaction).await;
            changed.map_err(|error| match name_is_taken(&error) {
                true => Error::attribute("name", TAKEN),
                false => error.into(),
            })
        })
        .await
}

/// Stops an environment. A stopped one stays unchanged.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Fails like [`check_can_create`].
pub async fn stop(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    check_can_create(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            become_now(transaction, found, State::Stopped).await
        })
        .await
}

/// Deletes a stopped environment with its deployments.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist. Returns `Error::PreconditionFailed` if it changed after
/// `unmodified_since`. Returns `Error::Forbidden` if it is not stopped. Fails like [`check_can_create`].
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    check_can_create(access)?;
    backend
        .database
        .transaction(async |transaction| {
            projects::hold(transaction, access.project.id).await?;
            let found = find(transaction, access.project.id, id).await?;
            preconditions::unmodified_since(unmodified_since, found.updated_at)?;
            if found.state != State::Stopped {
                let text = "The environment must be stopped before it is deleted";
                return Err(Error::forbidden_because(text));
            }
            Entity::delete_by_id(id).exec(transaction).await?;
            Ok(())
        })
        .await
}

/// Returns the environment that a deployment names. Creates it if needed, and restarts it if it is stopped.
/// The caller has validated the name and locked the project.
///
/// # Errors
/// Returns `Error::Refused` if the project has `MOST` environments already.
pub(crate) async fn ensure(
    transaction: &DatabaseTransaction,
    project_id: i64,
    name: String,
) -> Result<Model> {
    match named(transaction, project_id, &name).await? {
        Some(found) => become_now(transaction, found, State::Available).await,
        None => insert(transaction, project_id, name, None).await,
    }
}

/// Returns the environment with a name, if there is one.
///
/// # Errors
/// Returns an error if the database fails.
pub(crate) async fn named(db: &impl ConnectionTrait, project_id: i64, name: &str) -> Result<Option<Model>> {
    let found = environments::of_project(project_id).filter(Column::Name.eq(name));
    Ok(found.one(db).await?)
}

/// Error for a name that is taken.
const TAKEN: &str = "has already been taken";

async fn become_now(transaction: &DatabaseTransaction, found: Model, state: State) -> Result<Model> {
    if found.state == state {
        return Ok(found);
    }
    let mut row = found.into_active_model();
    row.state = Set(state);
    row.updated_at = Set(now());
    Ok(row.update(transaction).await?)
}

/// Inserts an environment. The caller has locked the project.
async fn insert(
    transaction: &DatabaseTransaction,
    project_id: i64,
    name: String,
    external_url: Option<String>,
) -> Result<Model> {
    let own = environments::of_project(project_id);
    if own.count(transaction).await? >= MOST {
        let text = format!("The maximum number of environments ({MOST}) is reached");
        return Err(Error::Refused(text.into()));
    }
    let at = now();
    let row = ActiveModel {
        project_id: Set(project_id),
        slug: Set(free_slug(transaction, project_id, &name).await?),
        name: Set(name),
        external_url: Set(external_url),
        state: Set(State::Available),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    let made = row.insert(transaction).await;
    made.map_err(|error| match name_is_taken(&error) {
        true => {
            let taken = |attribute: &'static str| (attribute.into(), vec![TAKEN.into()]);
            Error::InvalidAttributes(BTreeMap::from(["name", "slug"].map(taken)))
        }
        false if Violation::is_unique(&error, "uq_environments_project_id_slug") => {
            Error::attribute("slug", TAKEN)
        }
        false => error.into(),
    })
}

fn name_is_taken(error: &DbErr) -> bool {
    Violation::is_unique(error, "uq_environments_project_id_name")
}

/// Returns the slug of a name. A suffix is added if an environment that was renamed since still has the slug.
async fn free_slug(transaction: &DatabaseTransaction, project_id: i64, name: &str) -> Result<String> {
    let slug = slug_of(name);
    let own = environments::of_project(project_id).filter(Column::Slug.eq(slug.as_str()));
    match own.count(transaction).await? {
        0 => Ok(slug),
        _ => Ok(told_apart(&slug, name)),
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
    match slug == name && slug.len() <= LONGEST_SLUG {
        true => slug.to_owned(),
        false => told_apart(slug, name),
    }
}

/// Returns the start of a slug with a suffix derived from the name.
fn told_apart(slug: &str, name: &str) -> String {
    let kept = slug.get(..KEPT_OF_SLUG).unwrap_or(slug).trim_end_matches('-');
    let digest = Sha256::digest(name.as_bytes());
    let digits = digest.iter().take(SUFFIX);
    let suffix = digits.filter_map(|byte| DIGITS.get(usize::from(*byte) % DIGITS.len()));
    let suffix: String = suffix.map(|digit| char::from(*digit)).collect();
    format!("{kept}-{suffix}")
}

/// Rejects invalid attributes and returns the normalized URL.
fn check(change: &Change) -> Result<Option<Option<String>>> {
    if change.slug.is_some() {
        let text = "slug is automatically generated and cannot be changed";
        return Err(Error::parameter(text));
    }
    let mut faults: BTreeMap<Cow<'static, str>, Vec<Cow<'static, str>>> = BTreeMap::new();
    if let Some(name) = &change.name {
        let texts = variables::faults_of_environment(name);
        if !texts.is_empty() {
            faults.insert("name".into(), texts);
        }
    }
    let given = change.external_url.clone();
    let url = given.map(|url| url.filter(|url| !url.trim().is_empty()));
    if let Some(Some(url)) = &url {
        if url.chars().count() > LONGEST_URL {
            let text = format!("is too long (maximum is {LONGEST_URL} characters)");
            faults.insert("external_url".into(), vec![text.into()]);
        } else if let Err(Error::InvalidAttributes(blocked)) = urls::check_web("external_url", url) {
            faults.extend(blocked);
        }
    }
    match faults.is_empty() {
        true => Ok(url),
        false => Err(Error::InvalidAttributes(faults)),
    }
}

async fn find(db: &impl ConnectionTrait, project_id: i64, id: i64) -> Result<Model> {
    let found = environments::of_project(project_id).filter(Column::Id.eq(id));
    found.one(db).await?.ok_or_else(|| Error::not_found(""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_made_of_names() {
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
            assert_eq!(suffix.len(), SUFFIX, "{name}: {slug}");
            assert!(suffix.bytes().all(|byte| DIGITS.contains(&byte)), "{slug}");
            assert!(slug.len() <= LONGEST_SLUG, "{slug}");
        }
        assert_ne!(slug_of("a/b"), slug_of("a b"));
        assert_eq!(slug_of("a/b"), slug_of("a/b"));
    }
}
