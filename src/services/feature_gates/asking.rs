//! For whom a gate is open. What follows from the database alone is remembered as long as that does not change; chance is
//! asked anew each time.

use sea_orm::{ColumnTrait, Condition, ConnectionTrait, EntityTrait, PaginatorTrait, QueryFilter};
use sha2::{Digest, Sha256};
use storage::entities::feature_gate_targets::{Column, Entity};
use storage::entities::feature_gates::{self, Model};
use storage::entities::namespace_ancestors;

use crate::error::Result;
use crate::services::Backend;
use crate::services::authentication::Caller;

/// For whom a gate is asked: who calls, and the project or group that the call is about.
#[derive(Debug, Clone, Copy)]
pub struct Actors<'a> {
    /// Who calls.
    pub caller: &'a Caller,
    /// The project, if it is about one.
    pub project_id: Option<i64>,
    /// The group, or the namespace of the project.
    pub namespace_id: Option<i64>,
}

/// What a gate is asked: its name, the user, the project and the namespace.
pub(in crate::services) type Question = (String, Option<i64>, Option<i64>, Option<i64>);

/// How far a gate is open for somebody.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::services) enum Opening {
    /// Nobody set it.
    Unset,
    /// It is open.
    Open,
    /// It is open for so many percent of the time.
    Sometimes(i32),
}

/// Whether a gate is open for somebody; `default` says so of one that nobody set.
///
/// # Errors
/// Whatever the database reports.
pub async fn is_open(backend: &Backend, name: &str, default: bool, actors: Actors<'_>) -> Result<bool> {
    let user = actors.caller.as_user().map(|user| user.id);
    let question = (name.to_owned(), user, actors.project_id, actors.namespace_id);
    let db = backend.database.read();
    let opening = backend
        .memory
        .gates
        .recall(&backend.database, question, opening(db, name, actors));
    Ok(match opening.await? {
        Opening::Unset => default,
        Opening::Open => true,
        Opening::Sometimes(percent) => percent > 0 && rand::random_range(0..100) < percent,
    })
}

async fn opening(db: &impl ConnectionTrait, name: &str, actors: Actors<'_>) -> Result<Opening> {
    let Some(gate) = feature_gates::named(name).one(db).await? else {
        return Ok(Opening::Unset);
    };
    let of_actors = gate.percentage_of_actors.unwrap_or(0);
    let open = gate.enabled
        || actor(actors).is_some_and(|actor| place_of(name, &actor) < of_actors)
        || is_target(db, &gate, actors).await?;
    Ok(match open {
        true => Opening::Open,
        false => Opening::Sometimes(gate.percentage_of_time.unwrap_or(0)),
    })
}

/// Who counts where a gate is open for a share of the actors: whoever calls or, where that is nobody, the project or group.
fn actor(actors: Actors<'_>) -> Option<String> {
    if let Some(user) = actors.caller.as_user() {
        return Some(format!("User:{}", user.id));
    }
    let project = actors.project_id.map(|id| format!("Project:{id}"));
    project.or_else(|| actors.namespace_id.map(|id| format!("Group:{id}")))
}

/// Where an actor stands among all, from 0 to 99: always at the same place for a gate, and at another for another.
fn place_of(gate: &str, actor: &str) -> i32 {
    let digest = Sha256::digest(format!("{gate}\n{actor}"));
    let number = digest
        .iter()
        .take(8)
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    i32::try_from(number % 100).unwrap_or(0)
}

/// Whether a gate is open for one of those for whom it is asked: the user, a feature group that they belong to, the project,
/// the group, or one above.
async fn is_target(db: &impl ConnectionTrait, gate: &Model, actors: Actors<'_>) -> Result<bool> {
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

/// The feature groups that a caller belongs to.
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
    fn places_stay_and_are_spread_and_differ_from_gate_to_gate() {
        let places: Vec<i32> = (0..1_000)
            .map(|id| place_of("one", &format!("User:{id}")))
            .collect();
        let again: Vec<i32> = (0..1_000)
            .map(|id| place_of("one", &format!("User:{id}")))
            .collect();
        assert_eq!(places, again);
        assert!(places.iter().all(|place| (0..100).contains(place)));
        let below = places.iter().filter(|place| **place < 30).count();
        assert!((250..350).contains(&below), "{below} of 1000");
        let other = |id: usize| place_of("two", &format!("User:{id}"));
        let same = places
            .iter()
            .enumerate()
            .filter(|(id, place)| other(*id) == **place)
            .count();
        assert!(same < 50, "{same} of 1000");
        // Written down, so that no release moves anybody.
        assert_eq!(place_of("one", "User:1"), 64);
    }
}
