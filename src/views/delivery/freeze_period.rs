//! Freeze periods.

use storage::entities::freeze_periods::Model;

use contract::FreezePeriod;

/// Returns a freeze period.
#[must_use]
pub fn freeze_period(row: Model) -> FreezePeriod {
    FreezePeriod {
        id: row.id,
        freeze_start: row.freeze_start,
        freeze_end: row.freeze_end,
        cron_timezone: row.cron_timezone,
        created_at: row.created_at.into(),
        updated_at: row.updated_at.into(),
    }
}
