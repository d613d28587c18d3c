//! Messages to the service manager that started this process: readiness, shutdown and the watchdog, in the protocol of
//! `sd_notify(3)`.

use std::ffi::OsString;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Variable with the address of the socket of the service manager.
const SOCKET: &str = "NOTIFY_SOCKET";
/// Variable with the time in microseconds after which the service manager kills a process that sends no message.
const WATCHDOG_TIME: &str = "WATCHDOG_USEC";
/// Variable with the ID of the process that must send these messages.
const WATCHDOG_PROCESS: &str = "WATCHDOG_PID";

/// The service manager. Without one, messages have no effect.
#[derive(Debug, Clone)]
pub(super) struct Supervisor {
    address: Option<OsString>,
    /// Interval of the messages of the watchdog.
    interval: Option<Duration>,
}

impl Supervisor {
    /// Returns the service manager that the environment names.
    pub(super) fn from_environment() -> Self {
        let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_other = number(WATCHDOG_PROCESS).is_some_and(|id| id != u64::from(std::process::id()));
        let limit = number(WATCHDOG_TIME).filter(|limit| *limit > 0 && !is_other);
        Self {
            address: std::env::var_os(SOCKET).filter(|address| !address.is_empty()),
            // Half of the limit, as sd_watchdog_enabled(3) recommends.
            interval: limit.map(|limit| Duration::from_micros(limit.div_ceil(2))),
        }
    }

    /// Reports that the process accepts connections.
    pub(super) fn notify_ready(&self) {
        self.notify("READY=1");
    }

    /// Reports that the process finishes its work and stops.
    pub(super) fn notify_stopping(&self) {
        self.notify("STOPPING=1");
    }

    /// Reports at regular intervals that the tasks of the process still run. Does not return if the service manager has
    /// no watchdog.
    pub(super) async fn feed_watchdog(&self) {
        let Some(interval) = self.interval else {
            return std::future::pending().await;
        };
        loop {
            self.notify("WATCHDOG=1");
            tokio::time::sleep(interval).await;
        }
    }

    /// Sends a message. It never blocks: the socket discards messages that the service manager does not read.
    fn notify(&self, message: &str) {
        let Some(address) = &self.address else { return };
        let send = || -> io::Result<()> {
            let address = match address.as_bytes() {
                [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
                _ => SocketAddr::from_pathname(address)?,
            };
            let socket = UnixDatagram::unbound()?;
            socket.set_nonblocking(true)?;
            socket.send_to_addr(message.as_bytes(), &address)?;
            Ok(())
        };
        if let Err(error) = send() {
            tracing::warn!(%error, message, "failed to notify the service manager");
        }
    }
}
