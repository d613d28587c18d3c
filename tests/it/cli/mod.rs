//! The binary's commands.

mod admin;
mod backups;
mod demo;
mod doctor;
mod instance;
mod lifecycle;
