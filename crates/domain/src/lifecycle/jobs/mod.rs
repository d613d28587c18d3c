//! Background jobs of this area.

pub mod delete_group;
pub mod delete_project;
