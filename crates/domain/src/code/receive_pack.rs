//! Pushes over the Git protocol. They follow the same rules as commits through the API, which are checked when the pack is
//! complete, and are recorded before the client gets the result.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use git::{ByteStream, NewObjects, OpenPush, PushDecider, PushRules, ReceivePolicy, RefCommand};
use storage::entities::ref_updates::RefUpdateKind;
use tokio::sync::oneshot;

use crate::code::push_decision::{self, ProposedUpdate, Verdict};
use crate::code::push_options;
use crate::code::push_rules::CommitOrigin;
use crate::code::ref_updates::{self, UpdateAuthority};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
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
    let updates: Vec<ProposedUpdate> = push.commands().iter().map(ProposedUpdate::from).collect();
    // The first verdicts save a second check of the fast-forwards; the decision counts.
    let verdicts = push_decision::verdicts(backend, access, &updates).await?;
    let merge_request = push_options::merge_request_options(push.options());
    let policy = ReceivePolicy {
        rules: push_rules(&updates, verdicts),
        max_bytes,
        message: push_options::message(access, &updates, merge_request.is_some()),
        ..ReceivePolicy::default()
    };
    let decider = decider(backend, access, updates);
    let names = push.commands().iter().map(|command| command.reference.clone());
    // Other requests can change reserved refs at the same time.
    let planned = names.filter(|name| !git::is_reserved_reference(name)).collect();
    let user_id = access.caller.as_user().map(|user| user.id);
    let update = RefUpdate {
        merge_request,
        ..RefUpdate::new(access.project.id, user_id, RefUpdateKind::Push)
    };
    let protocol = protocol.map(str::to_owned);
    let repository = repository(backend, access);
    let (sender, started) = oneshot::channel::<ByteStream>();
    let work = async move {
        let received = push.receive(policy, protocol.as_deref(), decider).await?;
        // The push continues if the client has disconnected.
        let _ = sender.send(received.response);
        let applied = received.outcome.applied().await?;
        let names = applied.iter().map(|command| command.reference.clone());
        // A failure ends the response with an error after the updates were recorded, because the references have moved.
        let synced = repository.sync_references(names.collect()).await;
        Ok((synced, applied.into_iter().map(RefChange::from).collect()))
    };
    let update_task = {
        let backend = backend.clone();
        let authority = UpdateAuthority::Push(planned);
        tokio::spawn(async move { ref_updates::update_refs(&backend, update, authority, work).await })
    };
    let recorded = async {
        let synced = update_task.await.map_err(Error::internal)??;
        synced.map_err(Error::from)
    };
    let Ok(response) = started.await else {
        // The push failed before it started; this returns the reason.
        recorded.await?;
        return Err(Error::internal("the push ended before it started"));
    };
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

/// Returns the function that decides on the push when its pack is complete.
fn decider(backend: &Backend, access: &ProjectAccess, updates: Vec<ProposedUpdate>) -> PushDecider {
    let pending = Arc::new((backend.clone(), access.clone(), updates));
    Box::new(move |objects: NewObjects| {
        let pending = Arc::clone(&pending);
        Box::pin(async move {
            let (backend, access, updates) = &*pending;
            let objects = Some((objects, CommitOrigin::Push));
            match push_decision::decide(backend, access, updates, objects).await {
                Ok(verdicts) => Ok(push_rules(updates, verdicts)),
                Err(error) => {
                    if let Error::Internal(cause) = &error {
                        tracing::error!(%cause, "failed to decide on a push");
                    }
                    Err(push_decision::rejection_text(&error))
                }
            }
        })
    })
}

fn push_rules(updates: &[ProposedUpdate], verdicts: Vec<Verdict>) -> PushRules {
    let mut rules = PushRules::default();
    for (update, verdict) in updates.iter().zip(verdicts) {
        let reference = update.reference.clone();
        match verdict {
            Verdict::Accepted | Verdict::Reserved => {}
            Verdict::FastForwardOnly(text) => rules.fast_forward_only.push((reference, text)),
            Verdict::Rejected(text) | Verdict::Violation(text) => rules.rejected.push((reference, text)),
        }
    }
    rules
}
