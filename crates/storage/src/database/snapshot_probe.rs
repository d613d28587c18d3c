//! Detects commits to a PostgreSQL database with one short query, which serves all requests that wait for it (ADR 50).

use std::io::ErrorKind;
use std::time::Duration;

use sea_orm::sqlx::postgres::{PgConnectOptions, PgConnection};
use sea_orm::sqlx::{self, Connection};
use tokio::sync::{mpsc, oneshot};

/// Reads which transactions are visible, and a random value of the session.
///
/// Transaction numbers that were assigned, but not written to the log, are assigned again after a crash. The random value
/// distinguishes the states before and after a crash, because a session ends with the server. Each query reads it, because
/// a connection pooler may run two queries of one connection in different sessions. A standby server lists no running
/// transactions, so its snapshots do not identify a state.
const PROBE: &str = "SELECT pg_current_snapshot()::text, \
     COALESCE(NULLIF(current_setting('holdfast.session', true), ''), \
     set_config('holdfast.session', gen_random_uuid()::text, false)) \
     WHERE NOT pg_is_in_recovery()";

/// Maximum time of a query, and of the connection to the server. Requests then continue without caches.
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

/// Number of waiting requests that one query serves.
const MAX_BATCH: usize = 4_096;

/// A task with one connection that returns numbers of snapshots. It ends when this handle is dropped.
#[derive(Debug)]
pub(super) struct SnapshotProbe(mpsc::UnboundedSender<ProbeMessage>);

enum ProbeMessage {
    /// Returns the number of the current snapshot; none if it cannot be read.
    Read(oneshot::Sender<Option<u64>>),
    /// Closes the connection, and reads nothing afterwards.
    Close(oneshot::Sender<()>),
}

impl SnapshotProbe {
    /// Starts the task. It connects when the first snapshot is read.
    pub(super) fn start(options: PgConnectOptions) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(run(options, messages));
        Self(sender)
    }

    /// Returns the number of a snapshot that is taken after this call. Equal numbers mean that no transaction with changes
    /// has ended between the snapshots. Returns none if the database does not respond.
    pub(super) async fn read(&self) -> Option<u64> {
        let (reply, number) = oneshot::channel();
        self.0.send(ProbeMessage::Read(reply)).ok()?;
        number.await.ok().flatten()
    }

    /// Closes the connection.
    pub(super) async fn close(&self) {
        let (reply, closed) = oneshot::channel();
        if self.0.send(ProbeMessage::Close(reply)).is_ok() {
            // The task may have ended with the runtime.
            let _ = closed.await;
        }
    }
}

/// Serves messages until all handles are dropped. Each query starts after the messages that it serves were received, so a
/// message that arrives during a query waits for the next one.
async fn run(options: PgConnectOptions, mut messages: mpsc::UnboundedReceiver<ProbeMessage>) {
    let mut session = ProbeSession::new(options);
    let mut batch = Vec::new();
    while messages.recv_many(&mut batch, MAX_BATCH).await > 0 {
        let mut readers = Vec::with_capacity(batch.len());
        let mut closing = Vec::new();
        for message in batch.drain(..) {
            match message {
                ProbeMessage::Read(reply) => readers.push(reply),
                ProbeMessage::Close(reply) => closing.push(reply),
            }
        }
        let must_read = readers.iter().any(|reader| !reader.is_closed());
        let number = match must_read {
            true => session.read().await,
            false => None,
        };
        for reader in readers {
            // The request may have been canceled.
            let _ = reader.send(number);
        }
        if !closing.is_empty() {
            session.close().await;
            messages.close();
            for reply in closing {
                let _ = reply.send(());
            }
        }
    }
    session.close().await;
}

/// Snapshot as text, and the random value of its session.
type Snapshot = (String, String);

/// The connection, and the last snapshot.
struct ProbeSession {
    options: PgConnectOptions,
    connection: Option<PgConnection>,
    number: u64,
    last: Option<Snapshot>,
    is_failing: bool,
}

impl ProbeSession {
    fn new(options: PgConnectOptions) -> Self {
        Self {
            options,
            connection: None,
            number: 0,
            last: None,
            is_failing: false,
        }
    }

    /// Returns the number of the current snapshot. A lost connection is replaced, so a restart of the server costs only a new
    /// number.
    async fn read(&mut self) -> Option<u64> {
        let had_connection = self.connection.is_some();
        let mut read = self.query().await;
        if read.is_err() && had_connection {
            read = self.query().await;
        }
        match read {
            Ok(Some(snapshot)) => {
                self.is_failing = false;
                if self.last.as_ref() != Some(&snapshot) {
                    self.number += 1;
                    self.last = Some(snapshot);
                }
                Some(self.number)
            }
            Ok(None) => None,
            Err(error) => {
                if !self.is_failing {
                    tracing::warn!(%error, "failed to read the snapshot of the database; responses are not cached");
                }
                self.is_failing = true;
                None
            }
        }
    }

    /// Runs the query. The connection is dropped after an error.
    async fn query(&mut self) -> Result<Option<Snapshot>, sqlx::Error> {
        let connection = self.connection.take();
        let (options, last) = (&self.options, &mut self.last);
        let reading = async {
            let mut connection = match connection {
                Some(connection) => connection,
                None => {
                    *last = None;
                    PgConnection::connect_with(options).await?
                }
            };
            let snapshot = sqlx::query_as::<_, Snapshot>(PROBE)
                .fetch_optional(&mut connection)
                .await?;
            Ok::<_, sqlx::Error>((connection, snapshot))
        };
        let read = tokio::time::timeout(PROBE_TIMEOUT, reading).await;
        let (connection, snapshot) =
            read.unwrap_or_else(|_| Err(sqlx::Error::Io(ErrorKind::TimedOut.into())))?;
        self.connection = Some(connection);
        Ok(snapshot)
    }

    async fn close(&mut self) {
        if let Some(connection) = self.connection.take() {
            // PostgreSQL also detects a lost connection.
            let _ = connection.close().await;
        }
    }
}
