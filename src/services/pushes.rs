//! Pushes by Git's own protocol: judged by the same rules as commits through the interface, and recorded by the
//! same way before the client is told the end.

use std::pin::Pin;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use tokio::sync::oneshot;

use crate::entities::ref_updates::Kind;
use crate::error::{Error, Result};
use crate::git::{self, ByteStream, Push, ReceivePolicy, RefCommand, RepositoryId};
use crate::policy::Role;
use crate::services::Backend;
use crate::services::access::ProjectAccess;
use crate::services::push_rules::{self, PushRules};
use crate::services::references::{self, Moved, Mover};

/// What the client is answered, piece by piece.
pub type Answer = Pin<Box<dyn Stream<Item = std::io::Result<Bytes>> + Send>>;

/// The repository of a project to which the caller was admitted.
#[must_use]
pub fn repository(backend: &Backend, access: &ProjectAccess) -> git::Repository {
    let id = RepositoryId::of_project(access.project.id);
    backend.repositories.repository(&id)
}

/// Receives a push; returns when its pack was read whole. The answer ends when all that follows from the push is recorded, so that whoever reads the
/// interface after `git push` has returned sees it; it breaks off when that failed.
///
/// `max_bytes` bounds the pack; `protocol` is the client's `Git-Protocol` header.
///
/// # Errors
/// Whatever keeps the push from being received at all, also a pack that breaks off; nothing has changed then.
pub async fn receive(
    backend: &Backend,
    access: &ProjectAccess,
    push: Push,
    max_bytes: Option<u64>,
    protocol: Option<&str>,
) -> Result<Answer> {
    let rules = push_rules::rules(backend, access).await?;
    let policy = ReceivePolicy {
        max_bytes,
        ..judge(&rules, access, push.commands())
    };
    let planned = push.commands().iter().map(|c| c.reference.clone()).collect();
    let mover = Mover {
        project_id: access.project.id,
        user_id: access.caller.as_user().map(|user| user.id),
        kind: Kind::Push,
    };
    let protocol = protocol.map(str::to_owned);
    let (sender, begun) = oneshot::channel::<ByteStream>();
    let work = async move {
        let received = push.receive(policy, protocol.as_deref()).await?;
        // Whether anybody still listens changes nothing about the push.
        let _ = sender.send(received.response);
        let applied = received.outcome.applied().await?;
        Ok(((), applied.into_iter().map(Moved::from).collect()))
    };
    let moving = {
        let backend = backend.clone();
        tokio::spawn(async move { references::moving(&backend, mover, planned, work).await })
    };
    let settled = async { moving.await.map_err(Error::internal)? };
    let Ok(mut response) = begun.await else {
        // It failed before it began, and says why.
        settled.await?;
        return Err(Error::internal("a push ended before it began"));
    };
    response.begun().await?;
    let end = futures_util::stream::once(settled).filter_map(|settled| async {
        settled.err().map(|error| {
            tracing::warn!(%error, "a push was not recorded");
            Err(std::io::Error::other("the push was not recorded"))
        })
    });
    Ok(Box::pin(response.chain(end)))
}

impl From<RefCommand> for Moved {
    fn from(command: RefCommand) -> Self {
        Self {
            reference: command.reference,
            old: command.old.map(|id| id.to_string()),
            new: command.new.map(|id| id.to_string()),
        }
    }
}

/// What the rules say of each command; the texts are for the pusher.
fn judge(rules: &PushRules, access: &ProjectAccess, commands: &[RefCommand]) -> ReceivePolicy {
    let mut policy = ReceivePolicy::default();
    let default_branch = access.project.default_branch.as_deref();
    for command in commands {
        let reference = command.reference.clone();
        if let Some(branch) = command.reference.strip_prefix("refs/heads/") {
            let by_default = default_branch == Some(branch);
            let may_force = rules.may_force(branch) && (!by_default || access.holds(Role::Maintainer));
            match refusal(rules, by_default, branch, command) {
                Some(text) => policy.refused.push((reference, text)),
                None if !may_force => {
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
            policy.refused.push((reference, text));
        }
    }
    policy
}

fn is_new(command: &RefCommand) -> bool {
    command.old.is_none() && command.new.is_some()
}

/// Why a command on a branch is refused, if it is.
fn refusal(rules: &PushRules, by_default: bool, branch: &str, command: &RefCommand) -> Option<String> {
    if command.new.is_none() {
        return (!rules.may_delete(branch)).then(|| {
            if by_default {
                format!("The default branch {branch} cannot be deleted.")
            } else {
                format!("You are not allowed to delete the protected branch {branch} by a push.")
            }
        });
    }
    if is_new(command) && git::check_branch_name(branch).is_err() {
        return Some(format!("The branch name {branch} is not allowed."));
    }
    (!rules.may_push(branch))
        .then(|| format!("You are not allowed to push code to the protected branch {branch}."))
}
