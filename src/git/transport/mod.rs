//! Git's smart HTTP: what `git clone`, `fetch` and `push` talk with.
//!
//! Bodies pass through without being held: a push of any size takes a few chunks of memory. A push is opened
//! first ([`Repository::open_push`]), so that its commands can be judged before the pack is read, and received
//! then ([`Push::receive`]); the hooks that enforce the judgement are in [`hooks`].

mod commands;
mod hooks;
#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::pin::Pin;
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::oneshot;

pub use commands::RefCommand;

use super::early::Overflow;
use super::process::Program;
use super::stream::{self, ByteStream, Exchange};
use super::{Error, Repository, Result};

/// How long a clone or push may take.
const TIME_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// How long listing the references may take.
const ADVERTISE_TIME_LIMIT: Duration = Duration::from_secs(120);
/// A fetch tells what it wants and has in at most this many bytes, unpacked.
const FETCH_BODY: u64 = 64 * 1024 * 1024;
/// The longest protocol wish of a client that is passed on, in bytes.
const PROTOCOL_WISH: usize = 64;

/// The body of a request, unpacked or not.
type Body = Pin<Box<dyn AsyncRead + Send>>;

/// One of the two services of smart HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// Clone and fetch.
    UploadPack,
    /// Push.
    ReceivePack,
}

impl Service {
    /// The service of a name as clients send it, such as `git-upload-pack`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    /// The name clients know.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::UploadPack => "git-upload-pack",
            Self::ReceivePack => "git-receive-pack",
        }
    }

    fn program(self, protocol: Option<&str>) -> Program {
        let program = match self {
            Self::UploadPack => Program::new("upload-pack")
                .config("uploadpack.allowFilter", "true")
                .config("uploadpack.allowReachableSHA1InWant", "true"),
            Self::ReceivePack => Program::new("receive-pack")
                .config("receive.autogc", "false")
                // Packs are kept as they come: unpacking would compress large files anew, held in memory.
                .config("receive.unpackLimit", "1")
                .config("core.bigFileThreshold", "16m")
                .config("receive.fsckObjects", "true")
                // Old histories carry these blemishes; they harm nobody.
                .config("receive.fsck.badTimezone", "ignore")
                .config("receive.fsck.missingSpaceBeforeDate", "ignore")
                .config("receive.fsck.zeroPaddedFilemode", "ignore")
                .config("core.fsync", "committed,reference"),
        };
        match protocol.filter(|wish| is_protocol_wish(wish)) {
            Some(wish) => program.environment("GIT_PROTOCOL", wish),
            None => program,
        }
    }
}

/// Whether the value of a `Git-Protocol` header is fit to be passed on, as `version=2` is.
fn is_protocol_wish(wish: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=:.-".contains(&byte);
    wish.len() <= PROTOCOL_WISH && wish.bytes().all(plain)
}

/// A push whose commands are known and whose pack is not yet read.
pub struct Push {
    repository: Repository,
    commands: Vec<RefCommand>,
    /// Whether the response consists of packets with sidebands.
    sideband: bool,
    body: Body,
}

/// The judgement on a push. References outside `refs/heads/` and `refs/tags/` are refused without being named.
#[derive(Debug, Clone, Default)]
pub struct ReceivePolicy {
    /// Full names of references that must not be touched, each with the reason the pusher shall read. One of
    /// them refuses the whole push.
    pub refused: Vec<(String, String)>,
    /// Full names of references that must only move forward, each with the reason to be read otherwise.
    pub fast_forward_only: Vec<(String, String)>,
    /// The largest pack that is taken, in bytes.
    pub max_bytes: Option<u64>,
}

/// A push that is being received.
pub struct Received {
    /// What the client is answered. The push goes on even when this is dropped after the body was read.
    pub response: ByteStream,
    /// What the push has come to.
    pub outcome: Outcome,
}

/// What a push has come to, once it is over.
pub struct Outcome(oneshot::Receiver<Result<Vec<RefCommand>>>);

impl Outcome {
    /// Waits for the end of the push and answers the commands that took effect.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::LimitExceeded`], [`Error::Io`] when the client left before it had sent
    /// everything; no command has taken effect then.
    pub async fn applied(self) -> Result<Vec<RefCommand>> {
        self.0.await.map_err(|_| Error::Worker)?
    }
}

impl Repository {
    /// The answer to `GET info/refs`: what the repository has. `protocol` is the client's `Git-Protocol` header.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] when too many transfers are under way.
    pub async fn advertise(&self, service: Service, protocol: Option<&str>) -> Result<ByteStream> {
        let program = service
            .program(protocol)
            .flags(&["--stateless-rpc", "--http-backend-info-refs", "."]);
        let running = self
            .start_transfer(program.time_limit(ADVERTISE_TIME_LIMIT))
            .await?;
        let has_version_2 = protocol.is_some_and(|wish| wish.split(':').any(|part| part == "version=2"));
        // Version 2 begins without naming the service, and exists for fetching only.
        let first = if service == Service::UploadPack && has_version_2 {
            Bytes::new()
        } else {
            let line = format!("# service={}\n", service.name());
            Bytes::from(format!("{:04x}{line}0000", line.len() + 4))
        };
        Ok(stream::output(running, first))
    }

    /// The answer to `POST git-upload-pack`. `gzip` tells that the body is compressed.
    ///
    /// # Errors
    /// As [`Self::advertise`].
    pub async fn upload_pack<R>(&self, body: R, gzip: bool, protocol: Option<&str>) -> Result<ByteStream>
    where
        R: AsyncRead + Send + 'static,
    {
        let program = Service::UploadPack
            .program(protocol)
            .flags(&["--stateless-rpc", "."]);
        let running = self.start_transfer(program.time_limit(TIME_LIMIT)).await?;
        let exchange = Exchange {
            body: unpacked(body, gzip),
            body_limit: FETCH_BODY,
            durable: false,
            overflow: Overflow::Begins,
        };
        Ok(stream::exchange(running, exchange, |result| {
            if let Err(error) = result {
                tracing::debug!(%error, "a fetch came to no good end");
            }
        }))
    }

    /// Reads the commands of a `POST git-receive-pack`. `gzip` tells that the body is compressed.
    ///
    /// # Errors
    /// [`Error::Protocol`] when they break the rules of the protocol, [`Error::LimitExceeded`] when there are
    /// too many, [`Error::Timeout`].
    pub async fn open_push<R>(&self, body: R, gzip: bool) -> Result<Push>
    where
        R: AsyncRead + Send + 'static,
    {
        let mut body = unpacked(body, gzip);
        let opening = tokio::time::timeout(Duration::from_secs(120), commands::read(&mut body));
        let (commands, taken) = opening.await.map_err(|_| Error::Timeout)??;
        let sideband = commands::asks_for_sideband(&taken);
        let body = Box::pin(Cursor::new(taken).chain(body));
        Ok(Push {
            repository: self.clone(),
            commands,
            sideband,
            body,
        })
    }
}

impl Push {
    /// What the client asks for, in its order.
    #[must_use]
    pub fn commands(&self) -> &[RefCommand] {
        &self.commands
    }

    /// Receives the pack and carries out the commands as far as `policy` and Git let them.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] when too many transfers are under way, and when the
    /// hooks cannot be put in place: nothing is received without them.
    pub async fn receive(self, policy: ReceivePolicy, protocol: Option<&str>) -> Result<Received> {
        let rules = hooks::Rules::new(&self.commands, &policy);
        let in_place = hooks::put_in_place(&self.repository, rules).await?;
        let program = Service::ReceivePack
            .program(protocol)
            .config("core.hooksPath", in_place.directory())
            .environment(hooks::PUSH_DIRECTORY, in_place.push_directory())
            .flags(&["--stateless-rpc", "."])
            .time_limit(TIME_LIMIT);
        let program = match policy.max_bytes {
            Some(limit) => program.config("receive.maxInputSize", limit.to_string()),
            None => program,
        };
        let running = self.repository.start_transfer(program).await?;
        let (sender, outcome) = oneshot::channel();
        let exchange = Exchange {
            body: self.body,
            body_limit: u64::MAX,
            durable: true,
            overflow: match self.sideband {
                true => Overflow::DropsProgress,
                false => Overflow::Kept,
            },
        };
        let response = stream::exchange(running, exchange, move |result| {
            // The hook has the last word on what took effect, however the program ended.
            let applied = in_place.applied();
            let outcome = match (applied, result) {
                (Ok(applied), Err(error))
                    if applied.is_empty() && !matches!(error, Error::Program { .. }) =>
                {
                    Err(error)
                }
                (applied, _) => applied,
            };
            let _ = sender.send(outcome);
        });
        Ok(Received {
            response,
            outcome: Outcome(outcome),
        })
    }
}

/// A body ready to be read, decompressed in passing when it is compressed.
fn unpacked<R: AsyncRead + Send + 'static>(body: R, gzip: bool) -> Body {
    if gzip {
        Box::pin(GzipDecoder::new(BufReader::new(Box::pin(body))))
    } else {
        Box::pin(body)
    }
}
