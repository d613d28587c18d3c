//! Feature gates.

use domain::instance::feature_gates::GateDetail;
use serde_json::{Value, json};
use storage::entities::feature_gate_targets::Model as Target;

use contract::{FeatureGate, FeatureGateKey, FeatureGatePart, FeatureGateState};

/// Returns a feature gate in the format of the contract.
#[must_use]
pub fn feature_gate(row: GateDetail) -> FeatureGate {
    let GateDetail { gate, targets } = row;
    let groups: Vec<&str> = targets
        .iter()
        .filter_map(|one| one.feature_group.as_deref())
        .collect();
    let actors: Vec<String> = targets.iter().filter_map(actor).collect();
    let parts = [
        (
            FeatureGateKey::PercentageOfTime,
            gate.percentage_of_time.map(Value::from),
        ),
        (
            FeatureGateKey::PercentageOfActors,
            gate.percentage_of_actors.map(Value::from),
        ),
        (
            FeatureGateKey::Actors,
            (!actors.is_empty()).then(|| json!(actors)),
        ),
        (
            FeatureGateKey::Groups,
            (!groups.is_empty()).then(|| json!(groups)),
        ),
    ];
    let mut gates = vec![FeatureGatePart {
        key: FeatureGateKey::Boolean,
        value: Value::Bool(gate.enabled),
    }];
    let set = parts
        .into_iter()
        .filter_map(|(key, value)| Some(FeatureGatePart { key, value: value? }));
    gates.extend(set);
    let state = match (gate.enabled, gates.len()) {
        (true, _) => FeatureGateState::On,
        (false, 1) => FeatureGateState::Off,
        (false, _) => FeatureGateState::Conditional,
    };
    FeatureGate {
        name: gate.name,
        state,
        gates,
    }
}

/// Returns the name of a user, group or project.
fn actor(target: &Target) -> Option<String> {
    let user = target.user_id.map(|id| format!("User:{id}"));
    let group = || target.namespace_id.map(|id| format!("Group:{id}"));
    let project = || target.project_id.map(|id| format!("Project:{id}"));
    user.or_else(group).or_else(project)
}
