//! Proxy in front of PostgreSQL that counts messages of its clients, and can stop responses.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sea_orm::sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::watch;

/// A proxy on a free port. Its connections end with the runtime.
pub(crate) struct WireProxy {
    /// URL of the database through the proxy.
    pub(crate) url: String,
    counts: Arc<MessageCounts>,
    is_open: watch::Sender<bool>,
}

/// Numbers of messages of all connections.
struct MessageCounts {
    /// By the byte of the type.
    sent: [AtomicUsize; 128],
    /// Chunks that the server has sent, also those that wait in the proxy.
    received: AtomicUsize,
}

impl WireProxy {
    /// Starts a proxy for a database.
    pub(crate) async fn start(url: &str) -> Self {
        let target = PgConnectOptions::from_str(url).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (credentials, rest) = url.split_once('@').unwrap();
        let (_, name) = rest.split_once('/').unwrap();
        let (is_open, open) = watch::channel(true);
        let counts = Arc::new(MessageCounts {
            sent: [const { AtomicUsize::new(0) }; 128],
            received: AtomicUsize::new(0),
        });
        let seen = Arc::clone(&counts);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                client.set_nodelay(true).unwrap();
                tokio::spawn(serve(client, target.clone(), Arc::clone(&seen), open.clone()));
            }
        });
        Self {
            url: format!("{credentials}@127.0.0.1:{port}/{name}"),
            counts,
            is_open,
        }
    }

    /// Returns how many messages of this type all clients have sent: `P` for Parse, `E` for Execute, `S` for Sync.
    pub(crate) fn sent(&self, kind: u8) -> usize {
        self.counts.sent[usize::from(kind)].load(Ordering::SeqCst)
    }

    /// Returns how many chunks the server has sent.
    pub(crate) fn received(&self) -> usize {
        self.counts.received.load(Ordering::SeqCst)
    }

    /// Stops responses until [`Self::open`].
    pub(crate) fn stop_responses(&self) {
        self.is_open.send_replace(false);
    }

    /// Sends the stopped responses, and all further ones.
    pub(crate) fn open(&self) {
        self.is_open.send_replace(true);
    }
}

async fn serve(
    client: TcpStream,
    target: PgConnectOptions,
    counts: Arc<MessageCounts>,
    open: watch::Receiver<bool>,
) {
    match target.get_socket() {
        Some(folder) => {
            let socket = folder.join(format!(".s.PGSQL.{}", target.get_port()));
            forward(client, UnixStream::connect(socket).await.unwrap(), counts, open).await;
        }
        None => {
            let server = TcpStream::connect((target.get_host(), target.get_port())).await;
            forward(client, server.unwrap(), counts, open).await;
        }
    }
}

async fn forward<S>(client: TcpStream, server: S, counts: Arc<MessageCounts>, open: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (client_reader, client_writer) = client.into_split();
    let (server_reader, server_writer) = tokio::io::split(server);
    let requests = forward_requests(client_reader, server_writer, Arc::clone(&counts));
    let responses = forward_responses(server_reader, client_writer, counts, open);
    // A side that closes its connection ends both.
    tokio::select! {
        _ = requests => {}
        _ = responses => {}
    }
}

async fn forward_requests(
    mut client: impl AsyncRead + Unpin,
    mut server: impl AsyncWrite + Unpin,
    counts: Arc<MessageCounts>,
) -> std::io::Result<()> {
    // Messages before the session starts have no type. A request for TLS precedes the startup message.
    const TLS_REQUEST: u32 = 80_877_103;
    loop {
        let length = client.read_u32().await?;
        let mut body = vec![0; length as usize - 4];
        client.read_exact(&mut body).await?;
        server.write_all(&length.to_be_bytes()).await?;
        server.write_all(&body).await?;
        if body[..4] != TLS_REQUEST.to_be_bytes() {
            break;
        }
    }
    loop {
        let kind = client.read_u8().await?;
        let length = client.read_u32().await?;
        let mut message = vec![kind];
        message.extend(length.to_be_bytes());
        message.resize(length as usize + 1, 0);
        client.read_exact(&mut message[5..]).await?;
        counts.sent[usize::from(kind)].fetch_add(1, Ordering::SeqCst);
        server.write_all(&message).await?;
    }
}

async fn forward_responses(
    mut server: impl AsyncRead + Unpin,
    mut client: impl AsyncWrite + Unpin,
    counts: Arc<MessageCounts>,
    mut open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    loop {
        let length = server.read(&mut buffer).await?;
        if length == 0 {
            return Ok(());
        }
        counts.received.fetch_add(1, Ordering::SeqCst);
        if open.wait_for(|is_open| *is_open).await.is_err() {
            return Ok(());
        }
        client.write_all(&buffer[..length]).await?;
    }
}
