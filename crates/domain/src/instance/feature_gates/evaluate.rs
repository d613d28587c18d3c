//! Evaluation of feature gates. Results that depend only on the database are cached until it changes. Random
//! shares are evaluated for each request.

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};
use sha2::{Digest, Sha256};
use storage::entities::feature_gate_targets::{Column, Entity};
use storage::entities::feature_gates::{self, Model};
use storage::entities::namespace_ancestors;

use crate::kernel::Backend;
use crate::kernel::cache::GateState;
use crate::kernel::caller::Caller;
use crate::kernel::error::Result;

/// The actors of a gate query: the caller, and the project or group of the request.
#[derive(Debug, Clone, Copy)]
pub struct GateActors<'a> {
    /// The caller.
    pub caller: &'a Caller,
    /// ID of the project, if any.
    pub project_id: Option<i64>,
    /// ID of the group, or of the project's namespace.
    pub namespace_id: Option<i64>,
}

/// Returns whether a gate is open for the actors, or `default` if the gate was never set.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn is_open(backend: &Backend, name: &str, default: bool, actors: GateActors<'_>) -> Result<bool> {
    let user = actors.caller.as_user().map(|user| user.id);
    let query = (name.to_owned(), user, actors.project_id, actors.namespace_id);
    let db = backend.database.read();
    let state = backend
        .caches
        .gates
        .get_or_load(&backend.database, query, state(db, name, actors));
    Ok(match state.await? {
        GateState::Unset => default,
        GateState::Open => true,
        GateState::Sometimes(percent) => percent > 0 && rand::random_range(0..100) < percent,
    })
}

async fn state(db: &impl ConnectionTrait, name: &str, actors: GateActors<'_>) -> Result<GateState> {
    let Some(gate) = feature_gates::named(name).one(db).await? else {
        return Ok(GateState::Unset);
    };
    let of_actors = gate.percentage_of_actors.unwrap_or(0);
    let open = gate.enabled
        || actor(actors).is_some_and(|actor| percentile_of(name, &actor) < of_actors)
        || is_target(db, &gate, actors).await?;
    Ok(match open {
        true => GateState::Open,
        false => GateState::Sometimes(gate.percentage_of_time.unwrap_or(0)),
    })
}

/// Returns the actor that counts for a percentage of actors: the user, or else the project or group.
fn actor(actors: GateActors<'_>) -> Option<String> {
    if let Some(user) = actors.caller.as_user() {
        return Some(format!("User:{}", user.id));
    }
    let project = actors.project_id.map(|id| format!("Project:{id}"));
    project.or_else(|| actors.namespace_id.map(|id| format!("Group:{id}")))
}

/// Returns the position of an actor among all, from 0 to 99. It is constant for a gate and differs between
/// gates.
fn percentile_of(gate: &str, actor: &str) -> i32 {
    let digest = Sha256::digest(format!("{gate}\n{actor}"));
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    i32::try_from(number % 100).unwrap_or(0)
}

/// Returns whether a gate is open for one of the actors. These are the user, the user's feature groups, the
/// project, the group and its ancestors.
async fn is_target(db: &impl ConnectionTrait, gate: &Model, actors: GateActors<'_>) -> Result<bool> {
    let user = actors.caller.as_user();
    let any = Condition::any()
        .add_option(user.map(|user| Column::UserId.eq(user.id)))
        .add_option(actors.project_id.map(|id| Column::ProjectId.eq(id)))
        .add_option(
            actors
                .namespace_id
                .map(|id| Column::NamespaceId.in_subquery(namespace_ancestors::at_or_above(id))),
        )
        .add(Column::FeatureGroup.is_in(feature_groups(actors.caller)));
    let found = Entity::find()
        .filter(Column::FeatureGateId.eq(gate.id))
        .filter(any);
    Ok(found.count(db).await? > 0)
}

/// Returns the feature groups of a caller.
fn feature_groups(caller: &Caller) -> Vec<&'static str> {
    let Some(user) = caller.as_user() else {
        return Vec::new();
    };
    let groups = [
        ("administrators", user.admin),
        ("bots", user.bot),
        ("external_users", user.external),
    ];
    let own = groups.into_iter().filter(|(_, belongs)| *belongs);
    own.map(|(name, _)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_rollout_is_stable_uniform_and_independent_per_gate() {
        let buckets: Vec<i32> = (0..1_000)
            .map(|id| percentile_of("one", &format!("User:{id}")))
            .collect();
        let again: Vec<i32> = (0..1_000)
            .map(|id| percentile_of("one", &format!("User:{id}")))
            .collect();
        assert_eq!(buckets, again);
        assert!(buckets.iter().all(|bucket| (0..100).contains(bucket)));
        let below = buckets.iter().filter(|bucket| **bucket < 30).count();
        assert!((250..350).contains(&below), "{below} of 1000");
        let other = |id: usize| percentile_of("two", &format!("User:{id}"));
        let same = buckets
            .iter()
            .enumerate()
            .filter(|(id, bucket)| other(*id) == **bucket)
            .count();
        assert!(same < 50, "{same} of 1000");
        // Hard-coded, so that positions stay the same in all releases.
        assert_eq!(percentile_of("one", "User:1"), 64);
    }
}
