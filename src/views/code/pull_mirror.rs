//! Pull mirrors.

use domain::mirrors::pull_mirrors;
use storage::entities::remote_mirrors::MirrorStatus;

use contract::{PullMirror, PullMirrorStatus};

/// Returns a pull mirror without its credentials.
#[must_use]
pub fn mirror(found: pull_mirrors::PullMirror) -> PullMirror {
    let (mirror, project) = (found.mirror, found.project);
    PullMirror {
        id: mirror.id,
        enabled: project.mirror,
        url: mirror.url,
        update_status: match mirror.update_status {
            MirrorStatus::None => PullMirrorStatus::None,
            MirrorStatus::Scheduled => PullMirrorStatus::Scheduled,
            MirrorStatus::Started => PullMirrorStatus::Started,
            MirrorStatus::Finished => PullMirrorStatus::Finished,
            MirrorStatus::Failed | MirrorStatus::ToRetry => PullMirrorStatus::Failed,
        },
        last_update_at: mirror.last_update_at.map(Into::into),
        last_update_started_at: mirror.last_update_started_at.map(Into::into),
        last_successful_update_at: mirror.last_successful_update_at.map(Into::into),
        last_error: mirror.last_error,
        mirror_trigger_builds: project.mirror_trigger_builds,
        only_mirror_protected_branches: project.only_mirror_protected_branches,
        mirror_overwrites_diverged_branches: project.mirror_overwrites_diverged_branches,
    }
}
