//! Options of connections to PostgreSQL, and the reason of a failed connection.

use std::io::ErrorKind;
use std::pin::pin;
use std::str::FromStr;
use std::time::Duration;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::{self, AssertSqlSafe, ConnectOptions as _, Connection, Row};
use sea_orm::{ConnectOptions, DatabaseConnection, DbErr, RuntimeErr};

use super::{DatabaseOptions, Error};

/// Time to wait for the pool before another connection looks for the reason.
const PATIENCE: Duration = Duration::from_millis(500);
/// Maximum time to wait for the connection. A host that is down does not refuse connections.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time of the check that connections have sessions of their own. It is skipped if a second connection does not
/// become free in time.
const SESSION_CHECK_TIMEOUT: Duration = Duration::from_secs(2);
/// SQLSTATE of a database that does not exist.
const UNKNOWN_DATABASE: &str = "3D000";
/// SQLSTATE class of a rejected user or password.
const REJECTED_USER: &str = "28";

/// Number of prepared statements of a connection, from which the least recently used one is closed. Lists have one statement
/// for each combination of filters.
const PREPARED_STATEMENTS: usize = 512;
/// Idle time from which a connection is tested before it is used. A test takes as long as a short statement. A connection
/// in use detects the end of its server, and an idle one does not.
pub(super) const IDLE_TEST: Duration = Duration::from_secs(2);

/// Returns the options of the pool. PgBouncer rejects connections that set options of the session when they start, so
/// statements set them.
pub(super) fn pool(mut connect: ConnectOptions, options: &DatabaseOptions) -> ConnectOptions {
    // JIT compilation takes longer than any statement here runs. PostgreSQL estimates some lists as expensive because of
    // rarely used branches, and compiles them for over a second to run them for milliseconds.
    let mut settings = format!(
        "SET jit = off; SET statement_timeout = {}",
        options.statement_timeout.as_millis()
    );
    if options.read_only {
        settings.push_str("; SET default_transaction_read_only = on");
    }
    connect
        .max_connections(options.max_connections)
        .test_before_acquire_if_idle_for(IDLE_TEST)
        .map_sqlx_postgres_opts(configure)
        .map_sqlx_postgres_pool_opts(move |pool| {
            let settings = settings.clone();
            pool.after_connect(move |connection, _| {
                let settings = settings.clone();
                Box::pin(async move {
                    let set = sqlx::raw_sql(AssertSqlSafe(settings));
                    set.execute(connection).await.map(drop)
                })
            })
        });
    connect
}

/// Returns the options of a single connection, without settings of its session.
///
/// # Errors
/// [`Error::UnsupportedUrl`].
pub(super) fn single(url: &str) -> Result<PgConnectOptions, Error> {
    let parsed = PgConnectOptions::from_str(url).map_err(|_| Error::UnsupportedUrl)?;
    Ok(configure(parsed).disable_statement_logging())
}

fn configure(postgres: PgConnectOptions) -> PgConnectOptions {
    postgres
        .application_name("holdfast")
        .statement_cache_capacity(PREPARED_STATEMENTS)
        // PgBouncer rejects this option of the driver. PostgreSQL 12 and newer print numbers exactly without it.
        .extra_float_digits(None)
}

/// Checks that two open connections have different sessions. The transactions of a pooler can use any session.
///
/// # Errors
/// [`Error::SharedSessions`].
pub(super) async fn check_sessions(pool: &DatabaseConnection) -> Result<(), Error> {
    let pool = pool.get_postgres_connection_pool();
    let compare = async {
        let mut connections = [pool.acquire().await?, pool.acquire().await?];
        let mut processes = [0_i32; 2];
        for (connection, process) in connections.iter_mut().zip(&mut processes) {
            let row = sqlx::raw_sql("SELECT pg_backend_pid()")
                .fetch_one(&mut **connection)
                .await?;
            *process = row.try_get(0)?;
        }
        Ok::<_, sqlx::Error>(processes)
    };
    match tokio::time::timeout(SESSION_CHECK_TIMEOUT, compare).await {
        Ok(Ok([first, second])) if first == second => Err(Error::SharedSessions),
        // The next statement returns an error of the connection.
        _ => Ok(()),
    }
}

/// Opens a session that does not belong to the pool, whose connections all remain available.
///
/// # Errors
/// A database error.
pub(super) async fn open_session(pool: &DatabaseConnection) -> Result<PgConnection, DbErr> {
    let pool = pool.get_postgres_connection_pool();
    let connection = pool.acquire().await.map_err(connection_error)?;
    Ok(connection.detach())
}

/// Acquires an advisory lock until the end of the session. Returns false if another session has the lock.
///
/// # Errors
/// A database error.
pub(super) async fn try_lock(session: &mut PgConnection, lock: i64) -> Result<bool, DbErr> {
    let statement = AssertSqlSafe(format!("SELECT pg_try_advisory_lock({lock})"));
    let row = sqlx::raw_sql(statement)
        .fetch_one(session)
        .await
        .map_err(connection_error)?;
    row.try_get(0).map_err(connection_error)
}

fn connection_error(error: sqlx::Error) -> DbErr {
    DbErr::Conn(RuntimeErr::SqlxError(error.into()))
}

/// Waits for the pool that `opening` opens. A pool tries again until its timeout, and then does not return the reason. So if it
/// is not open soon, another connection finds the reason.
///
/// # Errors
/// [`Error::UnsupportedUrl`], [`Error::Unreachable`], or the error of the pool.
pub(super) async fn connect(
    url: &str,
    opening: impl Future<Output = Result<DatabaseConnection, DbErr>>,
) -> Result<DatabaseConnection, Error> {
    let mut opening = pin!(opening);
    match tokio::time::timeout(PATIENCE, &mut opening).await {
        Ok(Ok(pool)) => Ok(pool),
        Ok(Err(error)) => {
            check_connection(url).await?;
            Err(error.into())
        }
        Err(_) => {
            check_connection(url).await?;
            Ok(opening.await?)
        }
    }
}

/// Opens one connection and closes it.
///
/// # Errors
/// [`Error::UnsupportedUrl`], [`Error::Unreachable`].
async fn check_connection(url: &str) -> Result<(), Error> {
    let options = single(url)?;
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
