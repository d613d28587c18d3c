//! The snapshot of an empty instance. It is created once for each version and user, and stored in the user's cache directory.
//!
//! Migrations and the hash of a password take most of the time of a first start.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use domain::operations::first_start::{self, GivenCredentials};
use domain::secrets::{Secret, Token};
use sha2::{Digest, Sha256};
use storage::{clock, database};

use super::Error;
use super::instance::{Instance, InstanceOptions};
use super::snapshot::{Checked, Snapshot};

/// Increased when the content of a template changes without a migration.
const FORMAT: u32 = 1;
/// Time at which an empty instance was created, in seconds since 1970: 2020-01-01. It is the same everywhere, so that responses
/// do not depend on the template.
const CREATED_AT: i64 = 1_577_836_800;
/// Age after which the templates of other versions are removed.
const MAX_AGE: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Name of the template in the temporary directory, if the cache directory cannot be used.
const LOCAL: &str = "template";
/// Name of the data directory in which a template is created.
const NEW: &str = "template-data";

/// Returns the snapshot of an empty instance. Creates it if there is none, or if it is damaged.
///
/// # Errors
/// [`Error`] if it cannot be created. A cache directory that cannot be used is not an error.
pub(super) async fn find_or_create(work: &Path, options: &InstanceOptions) -> Result<Snapshot, Error> {
    let cached = cache_directory().map(|cache| cache.join(name()));
    let local = work.join(LOCAL);
    let (known, other) = (cached.clone(), local.clone());
    let read = move || {
        let known = known.and_then(|path| readable(&path));
        known.or_else(|| readable(&other))
    };
    if let Some(snapshot) = tokio::task::spawn_blocking(read).await? {
        return Ok(snapshot);
    }
    let data = work.join(NEW);
    let frozen = clock::frozen();
    clock::freeze(DateTime::<Utc>::from_timestamp(CREATED_AT, 0));
    let created = create(&data, options).await;
    clock::freeze(frozen);
    let password = created?;
    tokio::task::spawn_blocking(move || {
        let saved = match cached {
            Some(path) => publish(&data, &path, &password).or_else(|error| {
                tracing::info!(%error, "failed to store the template of test servers");
                Snapshot::save(&data, &local, &password, None, Checked::Yes)
            }),
            None => Snapshot::save(&data, &local, &password, None, Checked::Yes),
        };
        std::fs::remove_dir_all(&data).map_err(Error::io(data))?;
        saved
    })
    .await?
}

/// Returns a template, unless it is missing or damaged.
fn readable(path: &Path) -> Option<Snapshot> {
    match Snapshot::read(path, Checked::Yes) {
        Ok(snapshot) => Some(snapshot),
        Err(error) => {
            if path.exists() {
                tracing::info!(%error, "the template of test servers is damaged");
            }
            None
        }
    }
}

/// Creates an empty instance. Returns the password of its administrator.
async fn create(data: &Path, options: &InstanceOptions) -> Result<String, Error> {
    // From an interrupted creation.
    match tokio::fs::remove_dir_all(data).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(Error::io(data)(error)),
        _ => {}
    }
    let instance = Instance::open_new(data, options).await?;
    let password = Token::generate("").expose().to_owned();
    let chosen = GivenCredentials {
        // Replaced in each copy.
        token: None,
        password: Some(Secret::new(password.clone())),
    };
    let started = first_start::first_start(&instance.backend, chosen).await;
    instance.close().await;
    started?;
    Ok(password)
}

/// Saves a template in the cache directory, in place of a damaged one.
fn publish(data: &Path, path: &Path, password: &str) -> Result<Snapshot, Error> {
    match Snapshot::save(data, path, password, None, Checked::Yes) {
        Err(Error::Exists(_)) => {}
        saved => {
            remove_old(path);
            return saved;
        }
    }
    // Another server was faster, unless the template is damaged.
    if let Some(snapshot) = readable(path) {
        return Ok(snapshot);
    }
    let parent = path.parent().unwrap_or(path);
    let damaged = tempfile::Builder::new()
        .prefix(".holdfast-damaged-")
        .tempdir_in(parent);
    let damaged = damaged.map_err(Error::io(parent))?;
    std::fs::rename(path, damaged.path().join(LOCAL)).map_err(Error::io(path))?;
    Snapshot::save(data, path, password, None, Checked::Yes)
}

/// Removes the templates of other versions that are old, and what killed servers left. Failures do not matter.
fn remove_old(path: &Path) {
    let entries = path.parent().and_then(|parent| std::fs::read_dir(parent).ok());
    for entry in entries.into_iter().flatten().filter_map(Result::ok) {
        let modified = entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let age = modified.and_then(|time| SystemTime::now().duration_since(time).ok());
        if entry.path() != path && age.is_some_and(|age| age > MAX_AGE) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the directory of the templates in the cache directory of the user (XDG Base Directory Specification).
fn cache_directory() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from);
    let cache = variable("XDG_CACHE_HOME").filter(|path| path.is_absolute());
    let home = variable("HOME").filter(|path| path.is_absolute());
    let cache = cache.or_else(|| home.map(|home| home.join(".cache")))?;
    Some(cache.join("holdfast").join("test-server"))
}

/// Returns the name of the template of this version.
fn name() -> String {
    let mut digest = Sha256::new();
    let version = format!(
        "{FORMAT}\n{}\n{}\n",
        env!("CARGO_PKG_VERSION"),
        env!("HOLDFAST_REVISION")
    );
    digest.update(version);
    for migration in database::known_migrations() {
        digest.update(migration);
        digest.update("\n");
    }
    hex::encode(&digest.finalize()[..16])
}
