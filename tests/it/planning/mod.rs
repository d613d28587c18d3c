//! Tests of issues, epics, labels, milestones and boards.

pub mod boards;
pub mod epics;
pub mod issues;
pub mod labels;
pub mod milestones;
mod resource_events;
