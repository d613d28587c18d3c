//! Tests of pipelines, deployments, variables and feature flags.

pub mod clusters;
pub mod commit_statuses;
pub mod deployments;
pub mod environments;
pub mod feature_flag_user_lists;
pub mod feature_flags;
pub mod feature_flags_clients;
pub mod freeze_periods;
mod levels;
pub mod metrics_dashboards;
pub mod pipeline_schedules;
pub mod pipeline_triggers;
pub mod pipelines;
pub mod variables;
