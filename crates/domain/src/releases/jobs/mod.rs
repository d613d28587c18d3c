//! Background jobs of this area.

pub mod collect_release_evidence;
