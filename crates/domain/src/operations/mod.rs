//! First start, startup checks, protection of the data directory, rotation of the key, diagnosis and backups.

pub mod backups;
pub mod data_directory;
pub mod disk_space;
pub mod doctor;
pub mod first_start;
pub mod git_sandbox;
pub mod instance_identity;
pub mod key_rotation;
pub mod startup;
