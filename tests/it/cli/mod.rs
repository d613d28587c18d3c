//! The binary's commands.

mod admin;
mod backups;
mod doctor;
mod lifecycle;
