//! Remote mirrors.

use storage::entities::remote_mirrors;

use contract::{RemoteMirror, RemoteMirrorAuthMethod};

use crate::views::enums::Convert;

/// Returns a remote mirror without its credentials.
#[must_use]
pub fn mirror(mirror: remote_mirrors::Model) -> RemoteMirror {
    RemoteMirror {
        id: mirror.id,
        enabled: mirror.enabled,
        url: mirror.url,
        auth_method: RemoteMirrorAuthMethod::Password,
        update_status: mirror.update_status.convert(),
        last_update_at: mirror.last_update_at.map(Into::into),
        last_update_started_at: mirror.last_update_started_at.map(Into::into),
        last_successful_update_at: mirror.last_successful_update_at.map(Into::into),
        last_error: mirror.last_error,
        only_protected_branches: mirror.only_protected_branches,
        keep_divergent_refs: mirror.keep_divergent_refs,
    }
}
