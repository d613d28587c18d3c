//! Feature gates: switches for operations with `x-flag` in the contract. [`set`] sets them, and
//! [`is_open`] evaluates them.

mod evaluate;
mod update;

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
pub use crate::instance::feature_gates::evaluate::{GateActors, is_open};
pub use crate::instance::feature_gates::update::{GateSetting, GateTargets, GateUpdate, PercentageBase, set};

use sea_orm::{ConnectionTrait, EntityTrait, QuerySelect};
use storage::entities::feature_gate_targets::{self, Model as Target};
use storage::entities::feature_gates::{self, Model};

use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::preconditions;
use crate::kernel::query::page_of;

/// A gate and its targets.
#[derive(Debug, Clone)]
pub struct GateDetail {
    /// The gate.
    pub gate: Model,
    /// The users, groups, projects and feature groups for which it is open, in the order they were added.
    pub targets: Vec<Target>,
}

/// Returns a page of the gates that were ever set, oldest first.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, page: &PageRequest) -> Result<Page<GateDetail>> {
    let db = backend.database.read();
    let page = page_of(db, feature_gates::all(), page).await?;
    let mut targets = match page.items.is_empty() {
        true => Vec::new(),
        false => targets_of(db, page.items.iter().map(|gate| gate.id)).await?,
    };
    Ok(page.map(|gate| {
        let of_this = |target: &mut Target| target.feature_gate_id == gate.id;
        let targets = targets.extract_if(.., of_this).collect();
        GateDetail { gate, targets }
    }))
}

/// Deletes a gate, if it exists.
///
/// # Errors
/// Returns `Error::PreconditionFailed` if it changed after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    actor: &Actor,
    name: &str,
    unmodified_since: Option<&str>,
) -> Result<()> {
    backend
        .database
        .transaction(async |transaction| {
            let found = feature_gates::named(name).lock_exclusive();
            if let Some(gate) = found.one(transaction).await? {
                preconditions::check_unmodified_since(unmodified_since, gate.updated_at)?;
                feature_gates::Entity::delete_by_id(gate.id)
                    .exec(transaction)
                    .await?;
                let target = AuditTarget::new("FeatureGate", gate.id, gate.name);
                let event = AuditEvent::new(AuditKind::FeatureGateDeleted, AuditEntity::instance(), target);
                audit::record(transaction, actor, event).await?;
            }
            Ok(())
        })
        .await
}

async fn targets_of(db: &impl ConnectionTrait, gates: impl IntoIterator<Item = i64>) -> Result<Vec<Target>> {
    Ok(feature_gate_targets::of_gates(gates).all(db).await?)
}
