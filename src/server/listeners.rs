//! Listening sockets, which this process binds or inherits from a service manager (ADR 49).

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use listenfd::ListenFd;
use tokio::net::{TcpListener, TcpSocket};

use super::Error;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// The same for an inherited socket, where connections wait while the server restarts. This is the default limit of
/// Linux.
const INHERITED_BACKLOG: u32 = 4096;

/// A listening socket that the service manager opened before it started this process.
#[derive(Debug)]
pub struct InheritedSocket(std::net::TcpListener);

/// Returns the socket that the service manager passed to this process, if it passed one (`LISTEN_FDS`, `LISTEN_PID`).
///
/// Removes the variables from the environment, so it must be called before the process starts threads.
///
/// # Errors
/// [`Error::Socket`] if the process received several sockets, or a socket that is not a listening TCP socket.
pub fn inherited_socket() -> Result<Option<InheritedSocket>, Error> {
    let mut received = ListenFd::from_env();
    match received.len() {
        0 => Ok(None),
        1 => {
            let listener = received.take_tcp_listener(0);
            let listener = listener.map_err(|error| Error::Socket(error.to_string()))?;
            Ok(listener.map(InheritedSocket))
        }
        count => Err(Error::Socket(format!("the process received {count} sockets"))),
    }
}

/// Returns the listener of an inherited socket, or binds an address.
pub(super) fn listen(inherited: Option<InheritedSocket>, address: SocketAddr) -> Result<TcpListener, Error> {
    match inherited {
        Some(socket) => adopt(socket).map_err(|error| Error::Socket(error.to_string())),
        None => bind(address).map_err(|cause| Error::Io {
            what: format!("cannot listen on {address}"),
            cause,
        }),
    }
}

/// Binds a listener with `TCP_NODELAY`, so that responses sent in several writes do not wait for
/// acknowledgments.
fn bind(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit the option.
    socket.set_nodelay(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Sets the options of [`bind`] for a socket that listens already. Listening again only changes the backlog, and fails
/// for a socket that is a connection.
fn adopt(socket: InheritedSocket) -> io::Result<TcpListener> {
    socket.0.set_nonblocking(true)?;
    let socket = TcpSocket::from_std_stream(std::net::TcpStream::from(OwnedFd::from(socket.0)));
    socket.set_nodelay(true)?;
    socket.listen(INHERITED_BACKLOG)
}
