//! The binary's commands.

mod admin;
mod backups;
mod data_directory;
mod demo;
mod doctor;
mod instance;
mod key_rotation;
mod lifecycle;
mod logs;
mod start_errors;
