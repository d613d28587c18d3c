//! Pipeline triggers.

use domain::delivery::pipeline_triggers::TriggerDetail;

use crate::views::accounts::users::reference;
use contract::PipelineTrigger;

/// Returns a trigger with the part of its token that the caller may see.
#[must_use]
pub fn pipeline_trigger(base: &str, row: TriggerDetail) -> PipelineTrigger {
    let TriggerDetail {
        trigger,
        owner,
        token,
    } = row;
    PipelineTrigger {
        id: trigger.id,
        token: token.into_exposed(),
        description: trigger.description,
        created_at: trigger.created_at.into(),
        updated_at: trigger.updated_at.into(),
        last_used: trigger.last_used_at.map(Into::into),
        owner: reference(base, owner),
    }
}
