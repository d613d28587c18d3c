//! Deployments and their jobs.

use domain::delivery::deployments::{self, DeploymentDetail};
use storage::entities::environments::EnvironmentSummary;

use crate::views::accounts::users::creator;
use crate::views::code::commit;
use crate::views::delivery::pipeline::{ProjectLocation, reference};
use crate::views::enums::Convert;
use contract::{Deployment, DeploymentEnvironment, DeploymentJob};

/// Returns a deployment.
#[must_use]
pub fn deployment(at: ProjectLocation<'_>, row: DeploymentDetail) -> Deployment {
    let deployed_to = environment(row.environment.clone());
    Deployment {
        environment: Some(deployed_to),
        ..within_environment(at, row)
    }
}

/// Returns a deployment inside of its environment.
#[must_use]
pub fn within_environment(at: ProjectLocation<'_>, row: DeploymentDetail) -> Deployment {
    let DeploymentDetail {
        deployment,
        user,
        job,
        ..
    } = row;
    Deployment {
        id: deployment.id,
        iid: deployment.iid,
        r#ref: deployment.ref_name,
        sha: deployment.sha,
        created_at: deployment.created_at.into(),
        updated_at: deployment.updated_at.into(),
        status: deployment.status.convert(),
        user: creator(at.base, user),
        environment: None,
        deployable: job.map(|job| deployable(at, job)),
    }
}

/// Returns the environment of a deployment.
fn environment(row: EnvironmentSummary) -> DeploymentEnvironment {
    DeploymentEnvironment {
        id: row.id,
        name: row.name,
        slug: row.slug,
        external_url: row.external_url,
    }
}

/// Returns the job of a deployment.
fn deployable(at: ProjectLocation<'_>, row: deployments::DeploymentJob) -> DeploymentJob {
    let deployments::DeploymentJob {
        job,
        pipeline,
        user,
        commit,
    } = row;
    let project_url = format!("{}/{}", at.base, at.path);
    DeploymentJob {
        id: job.id,
        status: job.status.convert(),
        stage: job.stage,
        name: job.name,
        r#ref: pipeline.ref_name.clone(),
        tag: pipeline.tag,
        coverage: job.coverage,
        created_at: job.created_at.into(),
        started_at: job.started_at.map(Into::into),
        finished_at: job.finished_at.map(Into::into),
        user: creator(at.base, user),
        commit: commit.map(|found| commit::commit(found, &project_url)),
        pipeline: reference(at, &pipeline),
        runner: None,
    }
}
