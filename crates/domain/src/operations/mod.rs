//! First start, startup checks, protection of the data directory, rotation of the key, move of the database, diagnosis and
//! backups.

pub mod backups;
pub mod check;
pub mod data_directory;
pub mod database_move;
pub mod disk_space;
pub mod doctor;
pub mod failed_jobs;
pub mod first_start;
pub mod git_program;
pub mod git_sandbox;
pub mod instance_identity;
pub mod key_rotation;
mod lock_file;
pub mod project_storage;
pub mod repository_sizes;
pub mod startup;
