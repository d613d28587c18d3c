//! Shared support code of the integration tests.

pub mod attacks;
pub mod authenticator;
pub mod body_memory;
pub mod browser;
pub mod client;
pub mod clock;
pub mod code;
pub mod contract;
mod databases;
pub mod disks;
pub mod git;
pub mod git_memory;
pub mod http_request;
pub mod mounts;
pub mod openpgp;
pub mod planning;
pub mod process;
pub mod query_plans;
pub mod raw_http;
pub mod repository;
pub mod s3;
pub mod schemas;
pub mod server;
pub mod slow_request;
pub mod spaces;
mod template;
pub mod test_server;
pub mod users;
pub mod webhook_receiver;

pub use client::{ApiResponse, Client};
pub use databases::{PostgresqlDatabase, temporary_directory};
pub use server::{DatabaseKind, TestServer};

/// Runs test functions on each database, each with its own server.
///
/// `async fn name(server: TestServer)` becomes the tests `name::on_sqlite` and `name::on_postgresql`. `name with
/// options()` starts the server with these options instead of the default ones.
macro_rules! on_every_database {
    (@options) => {
        holdfast::config::ConfigOptions::default
    };
    (@options $options:expr) => {
        || $options
    };
    ($($name:ident $(with $options:expr)?),* $(,)?) => {
        harness::register![$(
            $name: harness::EVERY_DATABASE, $crate::support::server::ServerTest {
                options: $crate::support::on_every_database!(@options $($options)?),
                test: |server| ::std::boxed::Box::pin($name(server)),
            };
        )*];
    };
}
pub(crate) use on_every_database;
