//! The expiration policy of the container registry, which is a setting of a project. `registry::expiration_policies` runs it.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sea_orm::{ActiveEnum, ActiveModelTrait, ActiveValue::Set, DatabaseTransaction, IntoActiveModel};
use storage::entities::container_expiration_policies::{
    ActiveModel, Cadence, ExpirationPolicy, MinimumAge, of_project,
};
use storage::entities::{namespaces, now, projects};

use crate::audit::{self, AuditEntity, AuditEvent, AuditKind};
use crate::kernel::caller::Caller;
use crate::kernel::error::{Error, Result};
use crate::kernel::patch::Patch;
use crate::kernel::text::anchored_regex::AnchoredRegex;

/// Numbers of tags that a policy can preserve.
const KEPT_TAGS: [i64; 6] = [1, 5, 10, 25, 50, 100];

/// Changes of a policy; absent settings are unchanged or get the default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpirationPolicyChange {
    /// The interval of the runs.
    pub cadence: Option<Cadence>,
    /// Whether the policy runs.
    pub enabled: Option<bool>,
    /// Number of matching tags to preserve in each repository.
    pub keep_n: Patch<i64>,
    /// The minimum age of the tags to delete.
    pub older_than: Patch<MinimumAge>,
    /// The regular expression for the names of the tags to delete.
    pub name_regex_delete: Patch<String>,
    /// The regular expression for the names of the tags to preserve.
    pub name_regex_keep: Patch<String>,
}

impl ExpirationPolicyChange {
    /// Checks the values that do not depend on the current policy. Compiling the expressions takes noticeable time.
    ///
    /// # Errors
    /// Returns a validation error for invalid values.
    pub(super) async fn check(&self) -> Result<()> {
        if let Some(kept) = self.keep_n.value()
            && !KEPT_TAGS.contains(kept)
        {
            return Err(invalid("keep_n", "is not included in the list"));
        }
        for (name, expression) in [
            ("name_regex_delete", &self.name_regex_delete),
            ("name_regex_keep", &self.name_regex_keep),
        ] {
            let Some(expression) = expression.value().cloned() else {
                continue;
            };
            let compiled = tokio::task::spawn_blocking(move || AnchoredRegex::compile(&expression)).await;
            if let Err(why) = compiled.map_err(Error::internal)? {
                return Err(invalid(name, format!("is an invalid regexp: {why}")));
            }
        }
        Ok(())
    }

    /// Returns the changed policy. The next run of an enabled policy follows the change by an interval, so that a mistake can
    /// be corrected.
    fn applied_to(&self, before: &ExpirationPolicy, at: DateTime<Utc>) -> Result<ExpirationPolicy> {
        let expression = |change: &Patch<String>, current: &Option<String>| {
            let changed = change.as_update().map(Option::<&String>::cloned);
            // An empty expression matches no name.
            changed
                .unwrap_or_else(|| current.clone())
                .filter(|text| !text.is_empty())
        };
        let mut after = ExpirationPolicy {
            cadence: self.cadence.unwrap_or(before.cadence),
            keep_n: self.keep_n.into_update().unwrap_or(before.keep_n),
            older_than: self.older_than.into_update().unwrap_or(before.older_than),
            name_regex_delete: expression(&self.name_regex_delete, &before.name_regex_delete),
            name_regex_keep: expression(&self.name_regex_keep, &before.name_regex_keep),
            next_run_at: before.next_run_at,
        };
        if !self.enabled.unwrap_or(before.next_run_at.is_some()) {
            after.next_run_at = None;
            return Ok(after);
        }
        if after.name_regex_delete.is_none() {
            return Err(invalid("name_regex_delete", "can't be blank"));
        }
        if after != *before || before.next_run_at.is_none() {
            after.next_run_at = Some(after.cadence.after(at));
        }
        Ok(after)
    }
}

/// Returns an error of an attribute of a policy.
fn invalid(name: &str, text: impl Into<Cow<'static, str>>) -> Error {
    Error::attribute(format!("container_expiration_policy.{name}"), text)
}

/// Changes the policy of a project whose namespace is locked, and returns whether it differs.
///
/// # Errors
/// Returns a validation error if an enabled policy would delete no tags.
pub(super) async fn change(
    transaction: &DatabaseTransaction,
    caller: &Caller,
    (namespace, project): (&namespaces::Model, &projects::Model),
    change: &ExpirationPolicyChange,
) -> Result<bool> {
    let at = now();
    let found = of_project(project.id).one(transaction).await?;
    let before = found.clone().map(ExpirationPolicy::from).unwrap_or_default();
    let after = change.applied_to(&before, at)?;
    if after == before {
        return Ok(false);
    }
    let event = AuditEvent::of(
        AuditKind::ContainerExpirationPolicyChanged,
        AuditEntity::project(namespace, project),
    );
    let event = event.from(described(&before)).to(described(&after));
    let is_new = found.is_none();
    let mut row = match found {
        Some(row) => row.into_active_model(),
        None => ActiveModel {
            project_id: Set(project.id),
            created_at: Set(at),
            ..Default::default()
        },
    };
    row.cadence = Set(after.cadence);
    row.keep_n = Set(after.keep_n);
    row.older_than = Set(after.older_than);
    row.name_regex_delete = Set(after.name_regex_delete);
    row.name_regex_keep = Set(after.name_regex_keep);
    row.next_run_at = Set(after.next_run_at);
    row.updated_at = Set(at);
    match is_new {
        true => row.insert(transaction).await?,
        false => row.update(transaction).await?,
    };
    audit::record(transaction, caller, event).await?;
    Ok(true)
}

/// Returns a policy for an audit event.
fn described(policy: &ExpirationPolicy) -> String {
    let state = match policy.next_run_at {
        Some(_) => "enabled",
        None => "disabled",
    };
    let kept = policy.keep_n.map(|kept| kept.to_string());
    let age = policy.older_than.map(|age| age.to_value());
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "none".to_owned());
    format!(
        "{state}, cadence: {}, keep_n: {}, older_than: {}, name_regex_delete: {}, name_regex_keep: {}",
        policy.cadence.to_value(),
        or_none(kept),
        or_none(age),
        or_none(policy.name_regex_delete.clone()),
        or_none(policy.name_regex_keep.clone()),
    )
}
