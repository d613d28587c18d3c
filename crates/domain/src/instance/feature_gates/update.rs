//! Updates of feature gates.

use sea_orm::sea_query::OnConflict;
use sea_orm::{
    ActiveModelTrait, ActiveValue::Set, ColumnTrait, DatabaseTransaction, EntityTrait, IntoActiveModel,
    QueryFilter,
};
use serde_json::Value;
use storage::database::Violation;
use storage::entities::feature_gate_targets::{ActiveModel as TargetRow, Column as Of, Entity as Target};
use storage::entities::feature_gates::{ActiveModel, Column, Entity, Model};
use storage::entities::{namespaces, now, projects, row_changes, users};

use crate::audit::{self, Actor, AuditEntity, AuditEvent, AuditKind, AuditTarget};
use crate::instance::feature_gates::{GateDetail, targets_of};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};

/// A change of a gate.
#[derive(Debug, Clone)]
pub struct GateUpdate {
    /// The new setting.
    pub setting: GateSetting,
    /// The base of a percentage; requests by default.
    pub key: Option<PercentageBase>,
    /// The targets to open or close it for; all if empty.
    pub targets: GateTargets,
}

/// Setting of a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateSetting {
    /// Open or closed for all.
    Open(bool),
    /// Open for a percentage.
    Percentage(i32),
}

/// Base of a percentage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PercentageBase {
    /// Requests, at random.
    Time,
    /// Actors, always the same ones.
    Actors,
}

/// Targets for which a gate is opened or closed. Unknown names are ignored.
#[derive(Debug, Clone, Default)]
pub struct GateTargets {
    /// Name of a feature group.
    pub feature_group: Option<String>,
    /// Username of a user.
    pub user: Option<String>,
    /// Full path of a group.
    pub group: Option<String>,
    /// Full path of a project.
    pub project: Option<String>,
}

impl GateSetting {
    /// Parses a setting: a boolean, a whole percentage, or one of them as text.
    ///
    /// # Errors
    /// Returns `Error::InvalidParameters` if the value is invalid.
    pub fn parse(value: &Value) -> Result<Self> {
        let percentage = |number: i64| {
            let percent = i32::try_from(number)
                .ok()
                .filter(|percent| (0..=100).contains(percent));
            percent
                .map(Self::Percentage)
                .ok_or_else(|| Error::value_not_allowed("value", ["true", "false", "0 to 100"]))
        };
        let number = match value {
            Value::Bool(open) => return Ok(Self::Open(*open)),
            Value::Number(number) => number.as_i64(),
            Value::String(text) => match text.trim() {
                "true" => return Ok(Self::Open(true)),
                "false" => return Ok(Self::Open(false)),
                text => text.parse().ok(),
            },
            _ => None,
        };
        number.map_or_else(|| Err(Error::parameter("value is invalid")), percentage)
    }
}

impl GateTargets {
    /// Returns the names of the attributes that were sent.
    fn sent(&self) -> Vec<&'static str> {
        let all = [
            ("feature_group", &self.feature_group),
            ("user", &self.user),
            ("group", &self.group),
            ("project", &self.project),
        ];
        let sent = all.into_iter().filter(|(_, value)| value.is_some());
        sent.map(|(name, _)| name).collect()
    }
}

/// Sets a gate, and creates it if needed.
///
/// # Errors
/// Returns `Error::InvalidParameters` if both a key and a target are given.
pub async fn set(backend: &Backend, actor: &Actor, name: String, update: GateUpdate) -> Result<GateDetail> {
    let sent = update.targets.sent();
    if update.key.is_some() && !sent.is_empty() {
        let fault = |target: &&str| format!("key, {target} are mutually exclusive");
        let faults: Vec<String> = sent.iter().map(fault).collect();
        return Err(Error::InvalidParameters(faults.into()));
    }
    backend
        .database
        .transaction(async |transaction| {
            let (former, is_created) = lock_or_create(transaction, name).await?;
            let (gate, id) = (former.clone(), former.id);
            let former_targets = targets_of(transaction, [id]).await?;
            let mut row = gate.into_active_model();
            match update.setting {
                GateSetting::Open(open) if sent.is_empty() => {
                    row.enabled = Set(open);
                    (row.percentage_of_time, row.percentage_of_actors) = (Set(None), Set(None));
                    let all = Target::delete_many().filter(Of::FeatureGateId.eq(id));
                    all.exec(transaction).await?;
                }
                GateSetting::Open(open) => {
                    for target in find_targets(transaction, id, &update.targets).await? {
                        set_target(transaction, target, open).await?;
                    }
                }
                GateSetting::Percentage(percent) => {
                    row.enabled = Set(false);
                    match update.key.unwrap_or(PercentageBase::Time) {
                        PercentageBase::Time => row.percentage_of_time = Set(Some(percent)),
                        PercentageBase::Actors => row.percentage_of_actors = Set(Some(percent)),
                    }
                }
            }
            let targets = targets_of(transaction, [id]).await?;
            if former_targets != targets {
                row.updated_at = Set(now());
            }
            let gate = row_changes::update_if_changed(transaction, &former, row).await?;
            if is_created || gate != former {
                audit::record(transaction, actor, event(&gate, &update)).await?;
            }
            Ok(GateDetail { gate, targets })
        })
        .await
}

/// Returns the event of a change.
fn event(gate: &Model, update: &GateUpdate) -> AuditEvent {
    let setting = match (update.setting, update.key) {
        (GateSetting::Open(open), _) => open.to_string(),
        (GateSetting::Percentage(percent), Some(PercentageBase::Actors)) => format!("{percent}% of actors"),
        (GateSetting::Percentage(percent), _) => format!("{percent}% of time"),
    };
    let targets = &update.targets;
    let named = [
        ("feature group", &targets.feature_group),
        ("user", &targets.user),
        ("group", &targets.group),
        ("project", &targets.project),
    ];
    let named = named
        .into_iter()
        .filter_map(|(kind, name)| Some(format!(" for {kind} {}", name.as_ref()?)));
    let target = AuditTarget::new("FeatureGate", gate.id, gate.name.clone());
    AuditEvent::new(AuditKind::FeatureGateChanged, AuditEntity::instance(), target)
        .to(format!("{setting}{}", named.collect::<String>()))
}

/// Inserts the gate if it does not exist, and locks it until the transaction ends. Returns whether it was inserted.
async fn lock_or_create(transaction: &DatabaseTransaction, name: String) -> Result<(Model, bool)> {
    let at = now();
    let row = ActiveModel {
        name: Set(name),
        enabled: Set(false),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    // An update to the same name locks the row and returns it.
    let again = OnConflict::column(Column::Name)
        .update_column(Column::Name)
        .to_owned();
    let created = Entity::insert(row).on_conflict(again);
    let gate = created.exec_with_returning(transaction).await?;
    let is_created = gate.created_at == at;
    Ok((gate, is_created))
}

/// Returns rows for the existing targets.
async fn find_targets(
    transaction: &DatabaseTransaction,
    gate: i64,
    targets: &GateTargets,
) -> Result<Vec<TargetRow>> {
    let empty = || TargetRow {
        feature_gate_id: Set(gate),
        ..Default::default()
    };
    let mut found = Vec::new();
    let group = targets.feature_group.as_deref().map(str::trim);
    if let Some(group) = group.filter(|group| !group.is_empty()) {
        found.push(TargetRow {
            feature_group: Set(Some(group.to_owned())),
            ..empty()
        });
    }
    if let Some(name) = &targets.user
        && let Some(user) = users::by_username(transaction, name).await?
    {
        found.push(TargetRow {
            user_id: Set(Some(user.id)),
            ..empty()
        });
    }
    if let Some(path) = &targets.group
        && let Some(group) = namespaces::by_full_path(transaction, path).await?
        && group.kind == namespaces::NamespaceKind::Group
    {
        found.push(TargetRow {
            namespace_id: Set(Some(group.id)),
            ..empty()
        });
    }
    if let Some(path) = &targets.project
        && let Some((project, _)) = projects::by_full_path(transaction, path).await?
    {
        found.push(TargetRow {
            project_id: Set(Some(project.id)),
            ..empty()
        });
    }
    Ok(found)
}

/// Inserts or deletes the row of a target. The gate is locked, so no other transaction does the same.
async fn set_target(transaction: &DatabaseTransaction, target: TargetRow, open: bool) -> Result<()> {
    let mut same = Target::find().filter(Of::FeatureGateId.eq(target.feature_gate_id.clone().take()));
    if let Some(Some(id)) = target.user_id.clone().take() {
        same = same.filter(Of::UserId.eq(id));
    }
    if let Some(Some(id)) = target.namespace_id.clone().take() {
        same = same.filter(Of::NamespaceId.eq(id));
    }
    if let Some(Some(id)) = target.project_id.clone().take() {
        same = same.filter(Of::ProjectId.eq(id));
    }
    if let Some(Some(name)) = target.feature_group.clone().take() {
        same = same.filter(Of::FeatureGroup.eq(name));
    }
    match (same.one(transaction).await?, open) {
        (None, true) => {
            let added = target.insert(transaction).await;
            added.map_err(|error| match Violation::of(&error) {
                // The target was deleted meanwhile.
                Some(Violation::ForeignKey(_)) => Error::not_found(""),
                _ => error.into(),
            })?;
        }
        (Some(row), false) => {
            Target::delete_by_id(row.id).exec(transaction).await?;
        }
        _ => {}
    }
    Ok(())
}
