//! Imports of new projects: a job fetches the branches and tags of the remote repository once, pushes them to the
//! project on behalf of its creator, and records the result.
//!
//! A job runs at least once, and can be interrupted at any point: a later attempt fetches only what the project lacks.

use std::time::Duration;

use sea_orm::{ColumnTrait, QueryFilter};
use storage::entities::projects;
use storage::jobs::{JobAttempt, JobFailure};
use tokio::time::Instant;

use crate::code::repository_access::ensure_repository;
use crate::instance::settings::allows_local_requests;
use crate::integrations::git_remotes::{RemoteRepository, RemoteUrl, UpdateDirection};
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::mirrors::pull_mirrors::update::{PushUserTexts, UpdateResult, pull, push_access};
use crate::mirrors::updates::{MAX_ERROR_CHARS, TIME_LIMIT, take_share};
use crate::spaces::jobs::import_repository::ImportRepository;
use crate::spaces::projects::imports;

/// Time after which an import starts again if too many Git transfers are in progress.
const BUSY_DELAY: Duration = Duration::from_secs(30);

const INTERRUPTED: &str = "the import was interrupted too often; delete the project and import it again";
const URL_LOST: &str = "the server cannot read the URL of the import; delete the project and import it again";

const CREATOR: PushUserTexts = PushUserTexts {
    missing: "the user who created the project does not exist",
    forbidden: "the user who created the project cannot push to the project",
};

/// Runs the job. A failure of the import is recorded in the project, and the job succeeds. The last attempt only
/// records that all others were interrupted: if this attempt were killed too, the project would remain without a
/// result.
///
/// # Errors
/// Returns an error if the database or the file system fails, or if the import runs later because other updates of its
/// user run.
pub async fn run_job(backend: Backend, job: ImportRepository, attempt: JobAttempt) -> Result<(), JobFailure> {
    let project = projects::not_deleted()
        .filter(projects::Column::Id.eq(job.project_id))
        .filter(projects::Column::ImportStatus.is_in(imports::WAITING))
        .one(backend.database.write())
        .await?;
    let Some(project) = project else {
        return Ok(());
    };
    let url = imports::url(&backend, &project);
    // Whether the URL is allowed is checked when it is used.
    let url = url.and_then(|url| RemoteUrl::parse(url.expose(), true).ok());
    let shown = url.as_ref().map(|url| url.shown.clone());
    if attempt.is_last() {
        return Ok(imports::end(&backend, project.id, shown.as_deref(), Some(INTERRUPTED)).await?);
    }
    let _share = take_share(&backend, UpdateDirection::Import, project.id, project.creator_id)?;
    ensure_repository(&backend, project.id, &job.default_branch).await?;
    if !imports::start(backend.database.write(), project.id).await? {
        return Ok(());
    }
    let deadline = Instant::now() + TIME_LIMIT;
    let result = match tokio::time::timeout_at(deadline, import(&backend, &project, url, deadline)).await {
        Ok(result) => result.unwrap_or_else(|result| result),
        Err(_) => UpdateResult::Failed("the import took too long".to_owned()),
    };
    let error: Option<String> = match result {
        UpdateResult::Finished => None,
        UpdateResult::Incomplete(text) | UpdateResult::Failed(text) => {
            Some(text.chars().take(MAX_ERROR_CHARS).collect())
        }
        UpdateResult::Busy => {
            return Err(JobFailure::postponed(
                BUSY_DELAY,
                "too many Git transfers are in progress",
            ));
        }
    };
    Ok(imports::end(&backend, project.id, shown.as_deref(), error.as_deref()).await?)
}

async fn import(
    backend: &Backend,
    project: &projects::Model,
    url: Option<RemoteUrl>,
    deadline: Instant,
) -> Result<UpdateResult, UpdateResult> {
    let Some(url) = url else {
        return Err(UpdateResult::Failed(URL_LOST.to_owned()));
    };
    let access = push_access(backend, project.id, project.creator_id, &CREATOR).await?;
    let remote = RemoteRepository {
        url: url.shown,
        credentials: url.credentials,
        local: allows_local_requests(backend).await?,
    };
    pull(backend, &access, &remote, None, deadline).await
}
