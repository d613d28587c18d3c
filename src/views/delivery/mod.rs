//! Views of pipelines, deployments, variables and feature flags.

pub mod cluster;
pub mod deployment;
pub mod environment;
pub mod feature_flag;
pub mod freeze_period;
pub mod metrics_dashboard;
pub mod pipeline;
pub mod pipeline_schedule;
pub mod pipeline_trigger;
pub mod variable;
