//! Instances from a template: a server starts on a copy of a prepared data directory and database.
//!
//! The template has the schema, the first administrator and the identity that data directory and database share.

use std::io;
use std::path::Path;

use domain::operations::first_start::GivenCredentials;
use domain::secrets::Secret;
use holdfast::config::ConfigOptions;
use holdfast::server;

/// The first administrator and the settings of all copies.
pub struct Preset {
    /// Token of the administrator.
    pub token: &'static str,
    /// Password of the administrator.
    pub password: &'static str,
    /// Keys and values of settings.
    pub settings: &'static [(&'static str, &'static str)],
}

/// Creates a template in a directory, and in an empty database unless it is to be a file in the directory.
pub async fn create(directory: &Path, database_url: Option<String>, preset: &Preset) {
    let options = ConfigOptions {
        listen: Some("127.0.0.1:0".parse().expect("an address")),
        data_dir: Some(directory.to_owned()),
        database_url,
        no_worker: Some(true),
        ..ConfigOptions::default()
    };
    let chosen = GivenCredentials {
        token: Some(Secret::new(preset.token.to_owned())),
        password: Some(Secret::new(preset.password.to_owned())),
    };
    let bound = server::bind(options.settings().expect("settings"), chosen, None).await.expect("an instance");
    let database = &bound.backend.database;
    for (key, value) in preset.settings {
        storage::entities::settings::put(database.write(), key, value).await.expect("a setting");
    }
    // The last connection moves the log of an SQLite database into the file.
    database.clone().close().await.expect("closing");
}

/// Copies the directory of a template.
///
/// # Errors
/// If a file cannot be read or written.
pub fn copy(template: &Path, directory: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(template)? {
        let (entry, target) = entry.map(|entry| (entry.path(), directory.join(entry.file_name())))?;
        if entry.is_dir() {
            std::fs::create_dir(&target)?;
            copy(&entry, &target)?;
        } else {
            std::fs::copy(&entry, &target)?;
        }
    }
    Ok(())
}
