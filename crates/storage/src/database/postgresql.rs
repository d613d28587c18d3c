//! Checks the connection to PostgreSQL, and returns the reason of a failure.

use std::io::ErrorKind;
use std::str::FromStr;
use std::time::Duration;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::{self, Connection};

use super::Error;

/// Maximum time to wait for the connection. A host that is down does not refuse connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// SQLSTATE of a database that does not exist.
const UNKNOWN_DATABASE: &str = "3D000";
/// SQLSTATE class of a rejected user or password.
const REJECTED_USER: &str = "28";

/// Opens one connection and closes it. A pool would try again until its timeout, and then not return the reason.
///
/// # Errors
/// [`Error::UnsupportedUrl`], [`Error::Unreachable`].
pub(super) async fn check_connection(url: &str) -> Result<(), Error> {
    let options = PgConnectOptions::from_str(url).map_err(|_| Error::UnsupportedUrl)?;
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, PgConnection::connect_with(&options)).await;
    let reason = match opened {
        Ok(Ok(connection)) => {
            // An error has no effect: PostgreSQL also detects a lost connection.
            let _ = connection.close().await;
            return Ok(());
        }
        Ok(Err(error)) => reason(&error, &options),
        Err(_) => format!(
            "no response within {} seconds; check the address and the firewall",
            CONNECT_TIMEOUT.as_secs()
        ),
    };
    Err(Error::Unreachable {
        address: address(&options),
        reason,
    })
}

/// Returns the reason why a connection failed, and the solution if it is known.
fn reason(error: &sqlx::Error, options: &PgConnectOptions) -> String {
    let user = options.get_username();
    match error {
        sqlx::Error::Database(error) => {
            let code = error.code().unwrap_or_default();
            let name = options.get_database().unwrap_or(user);
            if code == UNKNOWN_DATABASE {
                format!(
                    "the database \"{name}\" does not exist; create it with: createdb --owner {user} {name}"
                )
            } else if code.starts_with(REJECTED_USER) {
                format!(
                    "{}; check the user and the password of the database URL",
                    error.message()
                )
            } else {
                error.message().to_owned()
            }
        }
        sqlx::Error::Io(error) if error.kind() == ErrorKind::ConnectionRefused => {
            "the connection was refused; check that PostgreSQL runs, and the address of the database URL"
                .to_owned()
        }
        sqlx::Error::Io(error) => format!("{error}; check the address of the database URL"),
        other => other.to_string(),
    }
}

/// Returns the address in the options, without the user and the password.
fn address(options: &PgConnectOptions) -> String {
    match options.get_socket() {
        Some(socket) => socket.display().to_string(),
        None => format!("{}:{}", options.get_host(), options.get_port()),
    }
}
