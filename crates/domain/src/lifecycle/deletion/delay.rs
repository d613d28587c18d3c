//! Delay of deletions.

use chrono::Days;

use crate::instance::settings;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::policy::InstancePlan;

/// Returns the delay of deletions, or `None` if they start immediately.
pub(super) async fn deletion_delay(backend: &Backend) -> Result<Option<Days>> {
    if backend.instance.plan < InstancePlan::Premium {
        return Ok(None);
    }
    let days = settings::get(backend).await?.deletion_adjourned_period;
    Ok((days > 0).then(|| Days::new(days)))
}
