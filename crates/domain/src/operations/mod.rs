//! First start, startup checks, diagnosis and backups.

pub mod backups;
pub mod doctor;
pub mod first_start;
pub mod instance_identity;
pub mod startup;
