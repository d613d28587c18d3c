//! Handlers of issues, epics, labels, milestones and boards.

pub mod boards;
pub mod epic_issues;
pub mod epics;
pub mod issuables;
pub mod issue_links;
pub mod issues;
pub mod labels;
pub mod milestones;
pub mod resource_events;
