//! The binary's commands.

mod admin;
mod admin_jobs;
mod admin_moves;
mod admin_page;
mod admin_tokens;
mod admin_users;
mod backups;
mod completions;
mod data_directory;
mod database_move;
mod demo;
mod doctor;
mod git_program;
mod instance;
mod key_rotation;
mod lifecycle;
mod logs;
mod manual;
mod restarts;
mod socket_activation;
mod start_errors;
mod test_server;
