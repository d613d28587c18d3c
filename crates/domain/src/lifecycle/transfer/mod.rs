//! Replaces inherited labels, milestones and epics after a project or group is transferred.
//!
//! A label or milestone of a former ancestor is replaced by an available one with the same title. If none
//! exists, the project gets a copy. Epics are removed, and boards lose lists and filters that are no longer
//! valid.
//!
//! All statements cover all projects at once. Their number does not depend on the amount of data, except for
//! one statement for each missing milestone of a project.

mod by_title;
pub mod groups;
mod inherited;
mod labels;
mod milestones;
pub mod projects;
