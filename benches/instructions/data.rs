//! The instance of a run: projects, issues and notes, and a repository.

use std::path::{Path, PathBuf};

use domain::code::jobs::maintain_repository::{self, MaintainRepository};
use domain::operations::first_start::GivenCredentials;
use domain::secrets::Secret;
use domain::spaces::repository_import;
use holdfast::app;
use holdfast::config::{ConfigOptions, ServerSettings};
use holdfast::server::{self, BoundServer};
use poem::{Endpoint, Response};
use sea_orm::ConnectionTrait;
use serde_json::json;
use storage::entities::Visibility;

use crate::api::Api;
use crate::calls::{self, ISSUES_PATH};
use crate::{Result, history};

/// Token of the administrator.
pub const TOKEN: &str = "instructions-0123456789abcdef";
/// Numbers of projects without content, of issues in one project, and of notes on its first issue.
const PROJECTS: usize = 40;
const ISSUES: usize = 60;
const NOTES: usize = 40;
/// Statements that replace the times of the creation, because the length of a stored time depends on its digits.
const FIXED_TIMES: [(&str, &[&str]); 4] = [
    ("users", &["created_at", "updated_at"]),
    ("projects", &["created_at", "updated_at", "last_activity_at"]),
    ("issues", &["created_at", "updated_at"]),
    ("notes", &["created_at", "updated_at"]),
];

/// An opened instance.
pub struct Instance {
    bound: BoundServer,
    settings: ServerSettings,
}

impl Instance {
    /// Opens or creates the instance in a directory.
    pub async fn open(directory: &Path) -> Result<Self> {
        let options = ConfigOptions {
            listen: Some(([127, 0, 0, 1], 0).into()),
            data_dir: Some(directory.to_owned()),
            base_url: Some("http://127.0.0.1:8080".to_owned()),
            no_worker: Some(true),
            // The defaults depend on the machine or cause different numbers of connections.
            git_concurrency: Some(4),
            database_connections: Some(2),
            // Callgrind takes fifty times as long, and other programs may use the machine.
            request_timeout: Some(60 * 60),
            database_seconds: Some(0),
            ..ConfigOptions::default()
        };
        let settings = options.settings()?;
        let secret = |text: &str| Some(Secret::new(text.to_owned()));
        let credentials = GivenCredentials {
            token: secret(TOKEN),
            password: secret("password of the counted instance"),
        };
        let bound = server::bind(settings.clone(), credentials, None).await?;
        Ok(Self { bound, settings })
    }

    /// Returns the API, with or without cached responses.
    pub fn api(&self, is_cached: bool) -> Api<impl Endpoint<Output = Response> + use<>> {
        let mut settings = self.settings.clone();
        if !is_cached {
            settings.caches.responses = 0;
        }
        Api(app::endpoint(&self.bound.backend, &settings))
    }

    /// Closes the database.
    pub async fn close(self) -> Result<()> {
        Ok(self.bound.backend.database.clone().close().await?)
    }

    async fn fill(&self, source: PathBuf) -> Result<()> {
        let backend = &self.bound.backend;
        let imported =
            repository_import::import(backend, "root/history", Visibility::Public, source, None).await?;
        let maintenance = MaintainRepository {
            project_id: imported.id,
        };
        let maintained = maintain_repository::run(backend.clone(), maintenance).await;
        maintained.map_err(|failure| format!("{failure:?}"))?;
        let api = self.api(false);
        let mut projects = vec![json!({ "name": "plans", "visibility": "public" })];
        projects.extend((0..PROJECTS).map(|number| {
            json!({ "name": format!("Project {number}"), "visibility": "public", "tag_list": "many,small" })
        }));
        for project in &projects {
            api.post("/api/v4/projects", project).await?;
        }
        for number in 0..ISSUES {
            api.post(ISSUES_PATH, &calls::issue(number)).await?;
        }
        for number in 0..NOTES {
            api.post(&format!("{ISSUES_PATH}/1/notes"), &calls::note(number))
                .await?;
        }
        for (table, columns) in FIXED_TIMES {
            for column in columns {
                let time =
                    "strftime('%Y-%m-%dT%H:%M:%S', 1700000000 + 60 * id, 'unixepoch') || '.123456+00:00'";
                let statement = format!("UPDATE {table} SET {column} = {time}");
                backend.database.write().execute_unprepared(&statement).await?;
            }
        }
        Ok(())
    }
}

/// Creates an instance, and copies of it in the other directories.
pub fn create(directories: &[PathBuf]) -> Result<()> {
    let [first, others @ ..] = directories else {
        return Ok(());
    };
    std::fs::create_dir_all(first)?;
    let source = first.with_extension("git");
    history::create(&source)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let instance = Instance::open(first).await?;
        instance.fill(source).await?;
        instance.close().await
    })?;
    others.iter().try_for_each(|other| copy(first, other))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => copy(&entry.path(), &target)?,
            false => {
                std::fs::copy(entry.path(), target)?;
            }
        }
    }
    Ok(())
}
