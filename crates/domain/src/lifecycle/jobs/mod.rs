//! Background jobs of this area.

pub mod delete_group;
