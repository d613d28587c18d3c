//! Pipelines, deployments, environments, schedules, triggers, variables and feature flags.

pub mod access;
pub mod clusters;
pub mod commit_statuses;
pub mod deployments;
mod environment_rows;
pub mod environments;
pub mod feature_flag_user_lists;
pub mod feature_flags;
pub mod feature_flags_clients;
pub mod freeze_periods;
pub mod jobs;
pub mod metrics_dashboards;
pub mod pipeline_schedules;
pub mod pipeline_triggers;
pub mod pipelines;
pub mod variables;
