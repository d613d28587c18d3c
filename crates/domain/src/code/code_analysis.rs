//! Languages and license of a project's default branch. Each commit is analyzed once: by the job that follows
//! a push, or by the first request.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use git::{EntryKind, Oid, PageWindow, Repository, RepositoryId, TreeEntry};
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, QueryFilter,
};
use storage::database::Violation;
use storage::entities::{code_analyses, fold, now, project_languages, projects};

use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::integrations::languages::{self, LanguageGuess};
use crate::integrations::licenses::{self, LicenseDetail};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// Maximum files of a branch whose languages are detected.
const MAX_FILES: usize = 100_000;
/// Files opened per batch.
const BATCH_SIZE: usize = 500;
/// Time limit for reading contents. Afterwards, languages are detected by file name only.
const TIME_LIMIT: Duration = Duration::from_secs(20);
/// Maximum size of a text that is compared with licenses, in bytes.
const MAX_LICENSE_BYTES: u64 = 256 << 10;
/// Mode of a symbolic link, whose content is a path.
const SYMLINK_MODE: u32 = 0o120_000;

/// A language and its share of the code.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageShare {
    /// Name of the language.
    pub language: String,
    /// Share of the code, in percent with two decimals.
    pub percent: f64,
}

/// A recognized license and its file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DetectedLicense {
    /// The license.
    pub license: LicenseDetail,
    /// Path of the file in the default branch.
    pub path: String,
}

/// Returns the languages of a project's default branch, largest share first.
///
/// # Errors
/// Returns `Error::NotFound` if the repository is not available to the caller.
pub async fn languages(backend: &Backend, access: &ProjectAccess) -> Result<Vec<LanguageShare>> {
    // Called for its check only: the repository feature may be disabled.
    repository_access::repository(backend, access)?;
    if get_or_create(backend, &access.project).await?.is_none() {
        return Ok(Vec::new());
    }
    let rows = project_languages::of_project(backend.database.write(), access.project.id).await?;
    let total: i64 = rows.iter().map(|row| row.size).sum();
    let shares = rows.into_iter().map(|row| LanguageShare {
        percent: percent(row.size, total),
        language: row.name,
    });
    Ok(shares.collect())
}

/// Returns a share in percent, rounded to two decimals.
#[allow(clippy::cast_precision_loss)] // Sizes of source code are far below 2^52 bytes.
fn percent(part: i64, total: i64) -> f64 {
    (part as f64 * 10_000.0 / total.max(1) as f64).round() / 100.0
}

/// Returns the license of a project's default branch. Returns `None` if no license is recognized or the
/// caller may not read the code.
///
/// # Errors
/// Returns an error if Git or the database fails.
pub async fn license(backend: &Backend, access: &ProjectAccess) -> Result<Option<DetectedLicense>> {
    if !access.can_read_code() {
        return Ok(None);
    }
    let analysis = get_or_create(backend, &access.project).await?;
    Ok(analysis.and_then(|row| {
        Some(DetectedLicense {
            license: licenses::describe(row.license_key.as_deref()?)?,
            path: row.license_path?,
        })
    }))
}

/// Returns the analysis of the head of the default branch, and creates it if needed. Returns `None` for an
/// empty repository.
///
/// # Errors
/// Returns an error if Git or the database fails.
pub async fn get_or_create(
    backend: &Backend,
    project: &projects::Model,
) -> Result<Option<code_analyses::Model>> {
    let id = RepositoryId::of_project(project.id);
    let repository = backend.repositories.repository(&id);
    let Some(branch) = project.default_branch.as_deref() else {
        return Ok(None);
    };
    let commit = match repository.branch(branch).await {
        Err(git::Error::BranchNotFound | git::Error::RepositoryMissing) => return Ok(None),
        branch => branch?.commit,
    };
    let commit_id = commit.to_string();
    let existing = code_analyses::of_project(backend.database.read(), project.id).await?;
    let is_current =
        |row: &code_analyses::Model| row.commit_id == commit_id && row.revision == languages::REVISION;
    if let Some(existing) = existing.filter(is_current) {
        return Ok(Some(existing));
    }
    let sizes = language_sizes(&repository, commit).await?;
    let license = find_license(&repository, commit).await?;
    let (license_key, license_path) = license.unzip();
    let row = code_analyses::ActiveModel {
        project_id: Set(project.id),
        commit_id: Set(commit_id),
        revision: Set(languages::REVISION),
        license_key: Set(license_key.map(str::to_owned)),
        license_path: Set(license_path),
        created_at: Set(now()),
        ..Default::default()
    };
    let replaced = backend
        .database
        .transaction(async |transaction| replace(transaction, project.id, row, sizes).await)
        .await;
    match replaced {
        Ok(row) => Ok(Some(row)),
        // A concurrent analysis finished first, or the project was deleted.
        Err(Error::Conflict(_)) => Ok(code_analyses::of_project(backend.database.write(), project.id).await?),
        Err(error) => Err(error),
    }
}

/// Replaces the analysis of a project.
async fn replace(
    transaction: &DatabaseTransaction,
    project_id: i64,
    row: code_analyses::ActiveModel,
    sizes: HashMap<&'static str, u64>,
) -> Result<code_analyses::Model> {
    code_analyses::Entity::delete_many()
        .filter(code_analyses::Column::ProjectId.eq(project_id))
        .exec(transaction)
        .await?;
    project_languages::Entity::delete_many()
        .filter(project_languages::Column::ProjectId.eq(project_id))
        .exec(transaction)
        .await?;
    let row = row
        .insert(transaction)
        .await
        .map_err(|error| match Violation::of(&error) {
            Some(Violation::Unique(_) | Violation::ForeignKey(_)) => Error::Conflict("".into()),
            _ => error.into(),
        })?;
    let rows: Vec<_> = sizes
        .into_iter()
        .map(|(name, size)| project_languages::ActiveModel {
            project_id: Set(project_id),
            name: Set(name.to_owned()),
            name_key: Set(fold(name)),
            size: Set(i64::try_from(size).unwrap_or(i64::MAX)),
            ..Default::default()
        })
        .collect();
    if !rows.is_empty() {
        project_languages::Entity::insert_many(rows)
            .exec_without_returning(transaction)
            .await?;
    }
    Ok(row)
}

/// Returns the bytes of each language in a commit.
async fn language_sizes(repository: &Repository, commit: Oid) -> Result<HashMap<&'static str, u64>> {
    let window = PageWindow {
        offset: 0,
        limit: MAX_FILES,
    };
    let mut sizes = HashMap::new();
    let page = match repository.tree(commit, "", true, window).await {
        Err(git::Error::LimitExceeded(_)) => return Ok(sizes),
        page => page?,
    };
    if page.total > MAX_FILES {
        return Ok(sizes);
    }
    let files = tokio::task::spawn_blocking(move || guess_by_path(page.entries)).await;
    let mut detected = Vec::new();
    let mut undetected = Vec::new();
    for (file, guess) in files.map_err(Error::internal)? {
        match guess {
            LanguageGuess::Language(language) => detected.push((file.id, language)),
            LanguageGuess::Content => undetected.push(file),
            LanguageGuess::Nothing => {}
        }
    }
    let deadline = Instant::now() + TIME_LIMIT;
    while !undetected.is_empty() {
        let batch: Vec<TreeEntry> = undetected.drain(..undetected.len().min(BATCH_SIZE)).collect();
        let ids = batch.iter().map(|file| file.id).collect();
        let starts = if Instant::now() < deadline {
            repository.blob_starts(ids, languages::INSPECTED_BYTES).await?
        } else {
            Vec::new()
        };
        let by_content = tokio::task::spawn_blocking(move || {
            let mut starts = starts.into_iter();
            let mut detected = Vec::new();
            for file in batch {
                let language = match starts.next() {
                    Some(start) if Instant::now() < deadline => languages::by_content(&file.path, &start),
                    _ => languages::most_likely(&file.path),
                };
                detected.extend(language.map(|language| (file.id, language)));
            }
            detected
        });
        detected.extend(by_content.await.map_err(Error::internal)?);
    }
    let ids = detected.iter().map(|(id, _)| *id).collect();
    for (size, (_, language)) in repository.blob_sizes(ids).await?.into_iter().zip(detected) {
        *sizes.entry(language).or_default() += size;
    }
    // Languages of empty files have no share.
    sizes.retain(|_, size| *size > 0);
    Ok(sizes)
}

/// Returns the relevant files of the project itself, with the guesses from their paths.
fn guess_by_path(entries: Vec<TreeEntry>) -> Vec<(TreeEntry, LanguageGuess)> {
    entries
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::Blob && entry.mode != SYMLINK_MODE)
        .map(|entry| {
            let guess = languages::by_path(&entry.path);
            (entry, guess)
        })
        .filter(|(entry, guess)| *guess != LanguageGuess::Nothing && !languages::is_vendored(&entry.path))
        .collect()
}

/// Returns the license of a commit and the path of its file.
async fn find_license(repository: &Repository, commit: Oid) -> Result<Option<(&'static str, String)>> {
    let window = PageWindow {
        offset: 0,
        limit: MAX_FILES,
    };
    let root = repository.tree(commit, "", false, window).await?.entries;
    let mut files: Vec<_> = root
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::Blob && entry.mode != SYMLINK_MODE)
        .filter_map(|entry| Some((licenses::rank(entry.name())?, entry)))
        .collect();
    files.sort_by(|(a, x), (b, y)| (a, &x.path).cmp(&(b, &y.path)));
    // A project with several license files has the relevant one under one of the first names.
    for (_, file) in files.into_iter().take(3) {
        let blob = match repository.blob(file.id, MAX_LICENSE_BYTES).await {
            Err(git::Error::LimitExceeded(_)) => continue,
            blob => blob?,
        };
        let text = String::from_utf8_lossy(&blob.data).into_owned();
        let license = tokio::task::spawn_blocking(move || licenses::recognize(&text)).await;
        if let Some(id) = license.map_err(Error::internal)? {
            return Ok(Some((id, file.path)));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn percentage_has_two_decimals() {
        assert!((percent(1, 3) - 33.33).abs() < 1e-9);
        assert!((percent(7, 7) - 100.0).abs() < 1e-9);
        assert!(percent(0, 0).abs() < 1e-9);
    }
}
