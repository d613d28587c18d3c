//! Pushes of refs that a mirror has fetched, on behalf of the user of the mirror. The pack is received, checked and recorded
//! as the pack of a client, but a branch that has diverged does not stop the update of the other refs.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

use git::{NewObjects, OpenPush, PushDecider, PushRules, ReceivePolicy, RefCommand};
use parsers::receive_pack::{MAX_REPORT_BYTES, RemoteResponseError, read_report};
use storage::entities::ref_updates::RefUpdateKind;

use crate::code::push_decision::{self, ProposedUpdate, Verdict};
use crate::code::push_rules::CommitOrigin;
use crate::code::ref_updates::{self, UpdateAuthority};
use crate::code::repository_access;
use crate::identity::access::ProjectAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::ref_changes::{RefChange, RefUpdate};

/// Reason of Git for a ref that a hook refused.
const HOOK_DECLINED: &str = "hook declined";

/// The result of a push.
#[derive(Debug, Default)]
pub struct MirroredPush {
    /// The applied commands.
    pub applied: Vec<RefCommand>,
    /// Full names of the branches that have diverged and did not move.
    pub diverged: Vec<String>,
    /// Refs that Git refused, with the reasons.
    pub refused: Vec<(String, String)>,
    /// The reason why no ref moved.
    pub failure: Option<String>,
}

/// Receives a push. The branches in `forward` move only to descendants of their targets.
///
/// # Errors
/// Returns an error if the push cannot be received, for example because the pack is incomplete; nothing has changed then.
pub async fn receive(
    backend: &Backend,
    access: &ProjectAccess,
    push: OpenPush,
    forward: HashSet<String>,
) -> Result<MirroredPush> {
    let updates: Vec<ProposedUpdate> = push.commands().iter().map(ProposedUpdate::from).collect();
    let planned: Vec<String> = updates.iter().map(|update| update.reference.clone()).collect();
    let fast_forwards = forward.iter().map(|name| (name.clone(), name.clone()));
    let policy = ReceivePolicy {
        rules: PushRules {
            fast_forward_only: fast_forwards.collect(),
            ..PushRules::default()
        },
        max_bytes: Some(backend.instance.max_push_bytes),
        // Without such a branch, the push needs no script for each ref.
        skips_diverged: !forward.is_empty(),
        ..ReceivePolicy::default()
    };
    let refusal = Refusal::default();
    let decider = MirrorDecider {
        backend: backend.clone(),
        access: access.clone(),
        updates,
        forward,
        refusal: refusal.clone(),
    };
    let decider = Arc::new(decider);
    let decider: PushDecider = Box::new(move |objects| {
        let decider = Arc::clone(&decider);
        Box::pin(async move { decider.decide(objects).await })
    });
    let user_id = access.caller.as_user().map(|user| user.id);
    let update = RefUpdate::new(access.project.id, user_id, RefUpdateKind::Push);
    let repository = repository_access::open(backend, access);
    let work = async move {
        let received = push.receive(policy, None, decider).await?;
        // The push continues if the report cannot be read.
        let report = received.response.collect(MAX_REPORT_BYTES).await;
        let applied = received.outcome.applied().await?;
        let names = applied.iter().map(|command| command.reference.clone());
        // Returned after the updates were recorded, because the references have moved.
        let synced = repository.sync_references(names.collect()).await;
        let changes = applied.iter().cloned().map(RefChange::from).collect();
        Ok(((applied, report, synced), changes))
    };
    let authority = UpdateAuthority::Push(planned);
    let (applied, report, synced) = ref_updates::update_refs(backend, update, authority, work).await?;
    synced?;
    let mut result = MirroredPush {
        applied,
        failure: refusal.get(),
        ..MirroredPush::default()
    };
    if result.failure.is_some() {
        return Ok(result);
    }
    match read_report(&report?, false) {
        Ok(report) => {
            let is_diverged = |(_, reason): &(String, String)| reason == HOOK_DECLINED;
            let (diverged, refused) = report.rejected.into_iter().partition(is_diverged);
            let diverged: Vec<(String, String)> = diverged;
            result.diverged = diverged.into_iter().map(|(name, _)| name).collect();
            result.refused = refused;
        }
        Err(RemoteResponseError::Remote(text)) => {
            result.failure = Some(format!("the objects are not valid: {text}"))
        }
        Err(error) => result.failure = Some(error.to_string()),
    }
    Ok(result)
}

/// The reason why the decision refuses a push, as soon as it is known.
#[derive(Clone, Default)]
struct Refusal(Arc<Mutex<Option<String>>>);

impl Refusal {
    fn get(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, text: &str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(text.to_owned());
    }
}

/// Decides on the push when its pack is complete.
struct MirrorDecider {
    backend: Backend,
    access: ProjectAccess,
    updates: Vec<ProposedUpdate>,
    forward: HashSet<String>,
    refusal: Refusal,
}

impl MirrorDecider {
    async fn decide(&self, objects: NewObjects) -> std::result::Result<PushRules, String> {
        let objects = Some((objects, CommitOrigin::Push));
        match push_decision::decide(&self.backend, &self.access, &self.updates, objects).await {
            Ok(verdicts) => Ok(self.rules(verdicts)),
            Err(error) => {
                let text = push_decision::rejection_text(&error);
                self.refusal.set(&text);
                Err(text)
            }
        }
    }

    fn rules(&self, verdicts: Vec<Verdict>) -> PushRules {
        let mut rules = PushRules::default();
        for (update, verdict) in self.updates.iter().zip(verdicts) {
            let name = update.reference.clone();
            match verdict {
                Verdict::Rejected(text) | Verdict::Violation(text) => {
                    self.refusal.set(&text);
                    rules.rejected.push((name, text));
                }
                Verdict::FastForwardOnly(_) => rules.fast_forward_only.push((name.clone(), name)),
                Verdict::Accepted | Verdict::Reserved if self.forward.contains(&name) => {
                    rules.fast_forward_only.push((name.clone(), name));
                }
                Verdict::Accepted | Verdict::Reserved => {}
            }
        }
        rules
    }
}
