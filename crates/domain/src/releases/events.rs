//! Webhook events of releases, with their state at that time. An event is recorded only if a webhook subscribes to it,
//! and event lists omit it.

use chrono::{DateTime, Utc};
use sea_orm::DatabaseTransaction;
use serde::{Deserialize, Serialize};
use storage::entities::events::{EventAction, EventTargetType};
use storage::entities::project_hooks::{self, HookEvent};
use storage::entities::release_links::{self, ReleaseLinkType};
use storage::entities::releases;

use crate::activity::events::{self, EventTarget, NewEvent};
use crate::activity::outbox::WebhookTarget;
use crate::kernel::error::Result;

/// Change of a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReleaseAction {
    /// The release was created.
    Create,
    /// The release was updated.
    Update,
    /// The release was deleted.
    Delete,
}

/// A snapshot of a release.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ReleaseEventData {
    /// The change.
    pub action: ReleaseAction,
    /// The ID.
    pub id: i64,
    /// The tag.
    pub tag: String,
    /// The name.
    pub name: String,
    /// The release notes.
    pub description: Option<String>,
    /// When it was created.
    pub created_at: DateTime<Utc>,
    /// Its date.
    pub released_at: DateTime<Utc>,
    /// The ID of the commit of the tag.
    pub commit: Option<String>,
    /// The links, newest first.
    pub links: Vec<LinkEventData>,
}

/// A link of a snapshot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LinkEventData {
    /// The ID.
    pub id: i64,
    /// The name.
    pub name: String,
    /// The URL.
    pub url: String,
    /// The kind of the asset.
    pub link_type: ReleaseLinkType,
}

impl ReleaseEventData {
    /// Creates a snapshot of a release with its links.
    #[must_use]
    pub fn of(
        action: ReleaseAction,
        release: &releases::Model,
        links: Vec<release_links::Model>,
        commit: Option<git::Oid>,
    ) -> Self {
        let links = links.into_iter().map(|link| LinkEventData {
            id: link.id,
            name: link.name,
            url: link.url,
            link_type: link.link_type,
        });
        Self {
            action,
            id: release.id,
            tag: release.tag.clone(),
            name: release.name.clone(),
            description: release.description.clone(),
            created_at: release.created_at,
            released_at: release.released_at,
            commit: commit.map(|id| id.to_string()),
            links: links.collect(),
        }
    }
}

/// Records a change of a release for the webhooks that subscribe to it.
///
/// # Errors
/// Returns an error if a database query fails.
pub(super) async fn publish(
    transaction: &DatabaseTransaction,
    action: ReleaseAction,
    release: &releases::Model,
    commit: Option<git::Oid>,
    author_id: i64,
) -> Result<()> {
    let hooks = project_hooks::subscribed_to(transaction, release.project_id, HookEvent::Release).await?;
    if hooks.is_empty() {
        return Ok(());
    }
    let links = release_links::of_release(release.id).all(transaction).await?;
    let data = ReleaseEventData::of(action, release, links, commit);
    let event = NewEvent {
        target: Some(EventTarget {
            kind: EventTargetType::Release,
            id: release.id,
            iid: None,
            title: Some(release.name.clone()),
        }),
        webhook_target: Some(WebhookTarget {
            kind: HookEvent::Release,
            branch: None,
        }),
        // Lists of events omit updates of this type.
        ..NewEvent::new(release.project_id, author_id, EventAction::Updated)
    };
    events::insert(transaction, event.with_data(&data)?)
        .await
        .map(drop)
}
