//! Sockets that the server inherits, and messages to the service manager.

use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::git;
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::{Client, DatabaseKind};

/// Maximum time to wait for a message or a response.
const LIMIT: Duration = Duration::from_secs(60);

fn socket() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a socket")
}

/// Returns the next message that is not about the watchdog.
fn next_message(messages: &UnixDatagram) -> String {
    loop {
        let message = receive(messages);
        if message != "WATCHDOG=1" {
            return message;
        }
    }
}

fn receive(messages: &UnixDatagram) -> String {
    let mut buffer = [0; 256];
    let length = messages.recv(&mut buffer).expect("a message");
    String::from_utf8(buffer[..length].to_vec()).expect("UTF-8")
}

async fn inherited_socket_replaces_listen_address(site: Site) {
    let socket = socket();
    let address = socket.local_addr().expect("an address");
    // A connection before the server starts waits for the server.
    let mut early = TcpStream::connect(address).await.expect("a connection");
    early.write_all(b"GET /-/health HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n").await.expect("a request");
    let command = site.command_with_socket(&["serve", "--listen", "127.0.0.1:1"], &socket);
    let server = Site::ready(command).await;
    assert_eq!(server.base, format!("http://{address}"));
    let mut response = String::new();
    tokio::time::timeout(LIMIT, early.read_to_string(&mut response)).await.expect("in time").expect("a response");
    assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
    let root = Client::new(&server.base, Some(TOKEN));
    root.get("/user").await.expect(200);
    server.stop().await;
}

async fn programs_of_the_server_do_not_inherit_the_socket(site: Site) {
    let socket = socket();
    let server = Site::ready(site.command_with_socket(&["serve"], &socket)).await;
    let flags = std::fs::read_to_string(format!("/proc/{}/fdinfo/3", server.id())).expect("the descriptor");
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:")).expect("its flags").trim();
    // O_CLOEXEC.
    assert_ne!(u64::from_str_radix(flags, 8).expect("octal") & 0o2_000_000, 0, "{flags}");
    server.stop().await;
}

async fn idle_connection_gets_its_last_response_after_the_stop_signal(site: Site) {
    let socket = socket();
    let path = site.sibling_path("notify");
    let messages = UnixDatagram::bind(&path).expect("a socket");
    messages.set_read_timeout(Some(LIMIT)).expect("a limit");
    let mut command = site.command_with_socket(&["serve"], &socket);
    command.env("NOTIFY_SOCKET", &path);
    let server = Site::ready(command).await;
    assert_eq!(next_message(&messages), "READY=1");
    let address = socket.local_addr().expect("an address");
    let mut connection = TcpStream::connect(address).await.expect("a connection");
    let request = b"GET /-/health HTTP/1.1\r\nHost: h\r\n\r\n";
    connection.write_all(request).await.expect("a request");
    let mut buffer = vec![0; 4096];
    let length = connection.read(&mut buffer).await.expect("a response");
    let first = String::from_utf8_lossy(&buffer[..length]).to_lowercase();
    assert!(first.starts_with("http/1.1 200 ") && !first.contains("connection: close"), "{first}");
    server.terminate();
    // The request is sent while the server stops, as by a client that does not know it yet.
    assert_eq!(next_message(&messages), "STOPPING=1");
    connection.write_all(request).await.expect("a request");
    let mut last = Vec::new();
    tokio::time::timeout(LIMIT, connection.read_to_end(&mut last)).await.expect("in time").expect("a response");
    let last = String::from_utf8_lossy(&last).to_lowercase();
    assert!(last.starts_with("http/1.1 200 ") && last.contains("connection: close"), "{last}");
    assert_eq!(server.wait().await.code(), Some(0));
}

async fn unusable_sockets_are_refused(site: Site) {
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let mut command = site.command_with_socket(&["serve"], &socket());
    command.stdin(std::os::fd::OwnedFd::from(udp));
    let output = command.output().await.expect("the binary");
    let text = git::output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("socket activation: ") && text.contains("single ListenStream=PORT"), "{text}");
    // A connection, as with `Accept=yes`.
    let listener = socket();
    let client = std::net::TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let mut command = site.command_with_socket(&["serve"], &listener);
    command.stdin(std::os::fd::OwnedFd::from(client));
    let output = command.output().await.expect("the binary");
    let text = git::output_text(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("socket activation: "), "{text}");
}

/// Variables that the service manager meant for another process, such as a parent, have no effect.
async fn socket_of_another_process_is_ignored(site: Site) {
    let mut command = site.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.env("LISTEN_FDS", "1").env("LISTEN_PID", "1");
    let server = Site::ready(command).await;
    Client::new(&server.base, Some(TOKEN)).get("/user").await.expect(200);
    server.stop().await;
}

async fn service_manager_receives_readiness_watchdog_and_stop(site: Site) {
    let path = site.sibling_path("notify");
    let messages = UnixDatagram::bind(&path).expect("a socket");
    messages.set_read_timeout(Some(LIMIT)).expect("a limit");
    for process in ["serve", "worker"] {
        let mut command = site.command(&[process]);
        command.env("HOLDFAST_LISTEN", "127.0.0.1:0").env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "100000");
        let mut child = command.stdout(std::process::Stdio::null()).spawn().expect("the binary");
        assert_eq!(next_message(&messages), "READY=1", "{process}");
        for _ in 0..3 {
            assert_eq!(receive(&messages), "WATCHDOG=1", "{process}");
        }
        let id = i32::try_from(child.id().expect("a process")).expect("an ID");
        let id = rustix::process::Pid::from_raw(id).expect("an ID");
        rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal");
        assert_eq!(next_message(&messages), "STOPPING=1", "{process}");
        assert_eq!(child.wait().await.expect("an exit").code(), Some(0));
        messages.set_nonblocking(true).expect("a mode");
        while messages.recv(&mut [0; 64]).is_ok() {}
        messages.set_nonblocking(false).expect("a mode");
    }
}

async fn worker_uses_inherited_socket_for_its_health_endpoints(site: Site) {
    site.serve(&[]).await.stop().await;
    let socket = socket();
    let address = socket.local_addr().expect("an address");
    let mut worker =
        site.command_with_socket(&["worker"], &socket).stdout(std::process::Stdio::null()).spawn().unwrap();
    let health = reqwest_get(&format!("http://{address}/-/health")).await;
    assert_eq!(health, 200);
    let id = i32::try_from(worker.id().expect("a process")).expect("an ID");
    let id = rustix::process::Pid::from_raw(id).expect("an ID");
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("a signal");
    assert_eq!(worker.wait().await.expect("an exit").code(), Some(0));
}

async fn reqwest_get(url: &str) -> u16 {
    let http = crate::support::client::http().timeout(LIMIT).build().expect("a client");
    http.get(url).send().await.expect("a response").status().as_u16()
}

/// Two servers on one PostgreSQL accept connections of one socket.
async fn servers_on_postgresql_share_a_socket() {
    let site = Site::new(&DatabaseKind::postgresql()).await;
    let socket = socket();
    let first = Site::ready(site.command_with_socket(&["serve"], &socket)).await;
    let second = Site::ready(site.command_with_socket(&["serve"], &socket)).await;
    assert_eq!(first.base, second.base);
    first.stop().await;
    for _ in 0..10 {
        assert_eq!(reqwest_get(&format!("{}/-/health", second.base)).await, 200);
    }
    second.stop().await;
    site.remove().await;
}

on_every_site![
    inherited_socket_replaces_listen_address,
    programs_of_the_server_do_not_inherit_the_socket,
    idle_connection_gets_its_last_response_after_the_stop_signal,
    unusable_sockets_are_refused,
    socket_of_another_process_is_ignored,
    service_manager_receives_readiness_watchdog_and_stop,
    worker_uses_inherited_socket_for_its_health_endpoints,
];

harness::tests![requires harness::postgresql::missing; servers_on_postgresql_share_a_socket];
