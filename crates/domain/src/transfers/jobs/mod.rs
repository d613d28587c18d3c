//! Background jobs of group exports and imports.

pub mod export_group;
pub mod import_group;
