//! What the integration tests share.

pub mod browser;
pub mod client;
pub mod code;
pub mod contract;
mod databases;
pub mod git;
pub mod people;
pub mod places;
pub mod planning;
pub mod plans;
pub mod process;
mod received;
pub mod receiver;
pub mod repository;
pub mod s3;
pub mod server;
pub mod wire;

pub use client::{Answer, Client};
pub use databases::PostgresqlDatabase;
pub use server::{Kind, TestServer};

/// Tests that get a fresh server each, on every database there is.
///
/// `async fn name(server) { ... }` becomes a module `name` with one test a database; `name(server with options)`
/// starts the server with other than the default options.
macro_rules! scenario {
    ($(
        $(#[$attribute:meta])*
        async fn $name:ident($server:ident $(with $options:expr)?) $body:block
    )*) => {$(
        $(#[$attribute])*
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            async fn run($server: $crate::support::TestServer) {
                $body
                $server.stop().await;
            }

            async fn start(kind: $crate::support::Kind) -> $crate::support::TestServer {
                $(
                    let options = $options;
                    return $crate::support::TestServer::start_with(kind, options).await;
                )?
                #[allow(unreachable_code)]
                $crate::support::TestServer::start(kind).await
            }

            #[tokio::test]
            async fn on_sqlite() {
                run(start($crate::support::Kind::Sqlite).await).await;
            }

            #[tokio::test]
            async fn on_postgresql() {
                // Without a server to talk to there is nothing to test; .ci/run always has one.
                if let Some(kind) = $crate::support::Kind::postgresql() {
                    run(start(kind).await).await;
                }
            }
        }
    )*};
}
pub(crate) use scenario;
