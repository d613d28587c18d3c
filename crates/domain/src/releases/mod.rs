//! Releases of projects. [`changes`] creates, updates and deletes them, [`listing`] finds them, [`links`] manages the
//! links to their assets, and [`evidence`] collects their state.
//!
//! A release belongs to the name of a tag. It remains if the tag is moved or deleted.

pub mod addresses;
pub mod changes;
pub mod details;
pub mod events;
pub mod evidence;
pub mod jobs;
pub mod links;
pub mod listing;
pub mod milestones;
pub mod rules;
