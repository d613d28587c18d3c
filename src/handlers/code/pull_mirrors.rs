//! Pull mirrors of projects.

use domain::identity::access::ProjectAccess;
use domain::kernel::error::Result;
use domain::mirrors::pull_mirrors::{self, PullMirrorChange};
use domain::secrets::Secret;

use crate::api::routes::PullMirrorsApi;
use crate::app::App;
use crate::views::code::pull_mirror as view;
use contract::{PullMirror, SetPullMirrorRequest};

impl PullMirrorsApi for App {
    async fn get_pull_mirror(&self, access: ProjectAccess) -> Result<PullMirror> {
        Ok(view::mirror(pull_mirrors::get(&self.backend, &access).await?))
    }

    async fn set_pull_mirror(
        &self,
        access: ProjectAccess,
        request: SetPullMirrorRequest,
    ) -> Result<PullMirror> {
        let body = request.body;
        let change = PullMirrorChange {
            url: body.url,
            auth_user: body.auth_user,
            auth_password: body.auth_password.map(Secret::new),
            enabled: body.enabled,
            trigger_builds: body.mirror_trigger_builds,
            only_protected_branches: body.only_mirror_protected_branches,
            overwrites_diverged_branches: body.mirror_overwrites_diverged_branches,
        };
        let mirror = pull_mirrors::set(&self.backend, &access, change).await?;
        Ok(view::mirror(mirror))
    }

    async fn start_pull_mirror(&self, access: ProjectAccess) -> Result<PullMirror> {
        Ok(view::mirror(pull_mirrors::start(&self.backend, &access).await?))
    }
}
