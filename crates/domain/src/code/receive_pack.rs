//! Pushes over the Git protocol. They follow the same rules as commits through the API, and are recorded
//! before the client gets the result.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use git::{ByteStream, OpenPush, ReceivePolicy, RefCommand};
use storage::entities::ref_updates::RefUpdateKind;
use tokio::sync::oneshot;

use crate::code::branch_protection::{self, BranchRules};
use crate::code::{ref_updates, repository_access};
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::policy::Role;
use crate::kernel::ref_changes::{RefChange, RefUpdate};

/// Stream of the response to a push.
pub type ReceivePackResponse = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// Returns the repository of a project that the caller has access to.
#[must_use]
pub fn repository(backend: &Backend, access: &ProjectAccess) -> git::Repository {
    repository_access::open(backend, access)
}

/// Receives a push. Returns when the pack was read completely. The response ends after all effects of the push are
/// recorded, so that the API reflects them when `git push` returns. It is aborted if recording fails.
///
/// `max_bytes` limits the pack; `protocol` is the client's `Git-Protocol` header.
///
/// # Errors
/// Returns an error if the push cannot be received, for example because the pack is incomplete; nothing has changed then.
pub async fn receive(
    backend: &Backend,
    access: &ProjectAccess,
    push: OpenPush,
    max_bytes: Option<u64>,
    protocol: Option<&str>,
) -> Result<ReceivePackResponse> {
    let rules = branch_protection::branch_rules(backend, access).await?;
    let policy = ReceivePolicy {
        max_bytes,
        ..receive_policy(&rules, access, push.commands())
    };
    let planned = push.commands().iter().map(|c| c.reference.clone()).collect();
    let update = RefUpdate {
        project_id: access.project.id,
        user_id: access.caller.as_user().map(|user| user.id),
        kind: RefUpdateKind::Push,
    };
    let protocol = protocol.map(str::to_owned);
    let (sender, started) = oneshot::channel::<ByteStream>();
    let work = async move {
        let received = push.receive(policy, protocol.as_deref()).await?;
        // The push continues if the client has disconnected.
        let _ = sender.send(received.response);
        let applied = received.outcome.applied().await?;
        Ok(((), applied.into_iter().map(RefChange::from).collect()))
    };
    let update_task = {
        let backend = backend.clone();
        tokio::spawn(async move { ref_updates::update_refs(&backend, update, planned, work).await })
    };
    let recorded = async { update_task.await.map_err(Error::internal)? };
    let Ok(mut response) = started.await else {
        // The push failed before it started; this returns the reason.
        recorded.await?;
        return Err(Error::internal("the push ended before it started"));
    };
    response.begun().await?;
    let end = futures_util::stream::once(recorded).filter_map(|recorded| async {
        recorded.err().map(|error| {
            tracing::warn!(%error, "failed to record a push");
            Err(std::io::Error::other("the push was not recorded"))
        })
    });
    Ok(Box::pin(response.chain(end)))
}

impl From<RefCommand> for RefChange {
    fn from(command: RefCommand) -> Self {
        Self {
            reference: command.reference,
            old: command.old.map(|id| id.to_string()),
            new: command.new.map(|id| id.to_string()),
        }
    }
}

/// Returns the decision on each command; the texts are for the pusher.
fn receive_policy(rules: &BranchRules, access: &ProjectAccess, commands: &[RefCommand]) -> ReceivePolicy {
    let mut policy = ReceivePolicy::default();
    let default_branch = access.project.default_branch.as_deref();
    for command in commands {
        let reference = command.reference.clone();
        if let Some(branch) = command.reference.strip_prefix("refs/heads/") {
            let is_default = default_branch == Some(branch);
            let can_force =
                rules.can_force_push(branch) && (!is_default || access.has_role(Role::Maintainer));
            match rejection_reason(rules, is_default, branch, command) {
                Some(text) => policy.rejected.push((reference, text)),
                None if !can_force => {
                    let text = format!("You are not allowed to force push to the branch {branch}.");
                    policy.fast_forward_only.push((reference, text));
                }
                None => {}
            }
        } else if let Some(tag) = command.reference.strip_prefix("refs/tags/")
            && is_new(command)
            && git::check_tag_name(tag).is_err()
        {
            let text = format!("The tag name {tag} is not allowed.");
            policy.rejected.push((reference, text));
        }
    }
    policy
}

fn is_new(command: &RefCommand) -> bool {
    command.old.is_none() && command.new.is_some()
}

/// Returns the reason to reject a command on a branch, if any.
fn rejection_reason(
    rules: &BranchRules,
    is_default: bool,
    branch: &str,
    command: &RefCommand,
) -> Option<String> {
    if command.new.is_none() {
        return (!rules.can_delete(branch)).then(|| {
            if is_default {
                format!("The default branch {branch} cannot be deleted.")
            } else {
                format!("You are not allowed to delete the protected branch {branch} by pushing.")
            }
        });
    }
    if is_new(command) && git::check_branch_name(branch).is_err() {
        return Some(format!("The branch name {branch} is not allowed."));
    }
    (!rules.can_push(branch))
        .then(|| format!("You are not allowed to push code to the protected branch {branch}."))
}
