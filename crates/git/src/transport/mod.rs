//! Git's smart HTTP protocol for `git clone`, `fetch` and `push`.
//!
//! The request of a fetch is received completely before a slot is taken and a program is started ([`request`]). Packs are
//! streamed: a push of any size needs a few chunks of memory. A push is opened first ([`Repository::open_push`]), so that
//! its commands can be checked before the pack is read. Then it is received ([`OpenPush::receive`]). When the pack is
//! complete, the push waits for a [`decision`], which [`hooks`] enforce. Its program has no slot while the client sends
//! nothing.

mod commands;
mod decision;
mod hooks;
mod request;
#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::pin::Pin;
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::oneshot;
use tokio_util::task::AbortOnDropHandle;

pub use commands::RefCommand;
pub use decision::{PushDecider, PushDecision, PushRules};

use self::decision::{DecisionPipes, HookRules};
use super::early_output::Overflow;
use super::memory_budget::MemoryNeed;
use super::process::Program;
use super::slots::RequestSpace;
use super::stream::{self, ByteStream, TransferExchange};
use super::{Error, Repository, Result};

/// Time limit of a clone or push.
const TIME_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// Time limit of listing the references.
const ADVERTISE_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum length of a fetch request in bytes, after decompression.
const FETCH_BODY: u64 = 64 * 1024 * 1024;
/// Size of a pushed file beyond the size of the pack, in bytes: Git adds the bases of its deltas.
const ADDED_BYTES: u64 = 1 << 30;
/// Maximum length of a `Git-Protocol` header that is forwarded, in bytes.
const MAX_PROTOCOL_BYTES: usize = 64;

/// The body of a request, decompressed if necessary.
type Body = Pin<Box<dyn AsyncRead + Send>>;

/// One of the two services of smart HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransportService {
    /// Clone and fetch.
    UploadPack,
    /// Push.
    ReceivePack,
}

impl TransportService {
    /// Returns the service of a name in a request, such as `git-upload-pack`.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "git-upload-pack" => Some(Self::UploadPack),
            "git-receive-pack" => Some(Self::ReceivePack),
            _ => None,
        }
    }

    /// Returns the name in the protocol.
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
                .writes()
                .config("receive.autogc", "false")
                // Packs are stored as received: unpacking would compress large files again, in memory.
                .config("receive.unpackLimit", "1")
                .config("receive.fsckObjects", "true")
                // Old histories have these harmless faults.
                .config("receive.fsck.badTimezone", "ignore")
                .config("receive.fsck.missingSpaceBeforeDate", "ignore")
                .config("receive.fsck.zeroPaddedFilemode", "ignore")
                .config("core.fsync", "committed,reference"),
        };
        match protocol.filter(|version| is_protocol_version(version)) {
            Some(version) => program.environment("GIT_PROTOCOL", version),
            None => program,
        }
    }
}

/// Returns whether the value of a `Git-Protocol` header can be forwarded, such as `version=2`.
fn is_protocol_version(version: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"=:.-".contains(&byte);
    version.len() <= MAX_PROTOCOL_BYTES && version.bytes().all(plain)
}

/// A push whose commands were read and whose pack was not.
pub struct OpenPush {
    repository: Repository,
    commands: Vec<RefCommand>,
    /// Whether the response consists of packets with sidebands.
    sideband: bool,
    body: Body,
    /// Space for the commands.
    space: RequestSpace,
}

/// Policy for a push.
#[derive(Debug, Clone, Default)]
pub struct ReceivePolicy {
    /// The rules when the push starts. A push that violates them is rejected without a decision.
    pub rules: PushRules,
    /// Maximum size of the pack in bytes.
    pub max_bytes: Option<u64>,
}

/// A push that is being received.
pub struct ReceivedPush {
    /// The response to the client. The push continues even if this is dropped after the body was read.
    pub response: ByteStream,
    /// The pending result of the push.
    pub outcome: PushOutcome,
}

/// Pending result of a push.
pub struct PushOutcome(oneshot::Receiver<Result<Vec<RefCommand>>>);

impl PushOutcome {
    /// Waits for the end of the push and returns the applied commands.
    ///
    /// # Errors
    /// [`Error::Timeout`], [`Error::LimitExceeded`], [`Error::Io`] if the client disconnected before it had
    /// sent everything; then no command was applied.
    pub async fn applied(self) -> Result<Vec<RefCommand>> {
        self.0.await.map_err(|_| Error::Worker)?
    }
}

impl Repository {
    /// Returns the response to `GET info/refs`, the list of references. `protocol` is the client's
    /// `Git-Protocol` header.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] if too many transfers are running.
    pub async fn advertise(&self, service: TransportService, protocol: Option<&str>) -> Result<ByteStream> {
        let program = service
            .program(protocol)
            .flags(&["--stateless-rpc", "--http-backend-info-refs", "."]);
        let running = self
            .start_transfer(program.time_limit(ADVERTISE_TIME_LIMIT))
            .await?;
        let has_version_2 =
            protocol.is_some_and(|version| version.split(':').any(|part| part == "version=2"));
        // Version 2 starts without the name of the service, and exists only for fetches.
        let first = if service == TransportService::UploadPack && has_version_2 {
            Bytes::new()
        } else {
            let line = format!("# service={}\n", service.name());
            Bytes::from(format!("{:04x}{line}0000", line.len() + 4))
        };
        Ok(stream::output(running, first))
    }

    /// Receives the body of `POST git-upload-pack` and returns the response. `gzip` marks a compressed body.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`], [`Error::Timeout`] and [`Error::Protocol`] for a body that is too large or incomplete, and
    /// the errors of [`Self::advertise`].
    pub async fn upload_pack<R>(&self, body: R, gzip: bool, protocol: Option<&str>) -> Result<ByteStream>
    where
        R: AsyncRead + Send + 'static,
    {
        let body = request::receive(self, body, FETCH_BODY).await?;
        let program = TransportService::UploadPack
            .program(protocol)
            .memory(MemoryNeed::Repository)
            .flags(&["--stateless-rpc", "."]);
        let running = self.start_transfer(program.time_limit(TIME_LIMIT)).await?;
        let exchange = TransferExchange {
            body: unpacked(body, gzip),
            body_limit: FETCH_BODY,
            durable: false,
            overflow: Overflow::Begins,
        };
        Ok(stream::exchange(running, exchange, |result| {
            if let Err(error) = result {
                tracing::debug!(%error, "fetch failed");
            }
        }))
    }

    /// Reads the commands of a `POST git-receive-pack`. `gzip` marks a compressed body.
    ///
    /// # Errors
    /// [`Error::Protocol`] if they violate the protocol, [`Error::LimitExceeded`] if there are too many,
    /// [`Error::Timeout`], and [`Error::Busy`] if requests take too much space already.
    pub async fn open_push<R>(&self, body: R, gzip: bool) -> Result<OpenPush>
    where
        R: AsyncRead + Send + 'static,
    {
        let mut body = unpacked(body, gzip);
        let mut space = self.request_space();
        let opening = tokio::time::timeout(Duration::from_secs(120), commands::read(&mut body, &mut space));
        let (commands, consumed) = opening.await.map_err(|_| Error::Timeout)??;
        let sideband = commands::wants_sideband(&consumed);
        let body = Box::pin(Cursor::new(consumed).chain(body));
        Ok(OpenPush {
            repository: self.clone(),
            commands,
            sideband,
            body,
            space,
        })
    }
}

impl OpenPush {
    /// Returns the requested commands in the client's order.
    #[must_use]
    pub fn commands(&self) -> &[RefCommand] {
        &self.commands
    }

    /// Receives the pack and executes the commands, if `policy`, Git and the decision allow it. `decider` is called when
    /// Git has the whole pack and has checked it, and before the first reference moves. A server that ends before it has
    /// decided rejects the push.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] if too many pushes or transfers are running, and failures to
    /// install the hooks, without which nothing is received.
    pub async fn receive(
        self,
        policy: ReceivePolicy,
        protocol: Option<&str>,
        decider: PushDecider,
    ) -> Result<ReceivedPush> {
        let slot = self.repository.push_slot().await?;
        let rules = HookRules::new(&self.commands, &policy.rules);
        let in_place = hooks::install(&self.repository, &rules).await?;
        // Opened before the program starts: the hook finds the pipes open as long as this server runs.
        let pipes = DecisionPipes::open(in_place.push_directory())?;
        let program = TransportService::ReceivePack
            .program(protocol)
            .config("core.hooksPath", in_place.directory())
            .environment(hooks::PUSH_DIRECTORY, in_place.push_directory())
            .hooks(in_place.directory(), in_place.push_directory())
            .memory(MemoryNeed::Push)
            .flags(&["--stateless-rpc", "."])
            .time_limit(TIME_LIMIT);
        let program = match policy.max_bytes {
            Some(limit) => program
                .config("receive.maxInputSize", limit.to_string())
                .file_limit(limit.saturating_add(ADDED_BYTES)),
            None => program,
        };
        let running = self.repository.start_transfer(program).await?;
        let answers = decision::answer(pipes, self.commands, rules, decider);
        let answers = AbortOnDropHandle::new(tokio::spawn(answers));
        let (sender, outcome) = oneshot::channel();
        let exchange = TransferExchange {
            body: self.body,
            body_limit: u64::MAX,
            durable: true,
            overflow: match self.sideband {
                true => Overflow::DropsProgress,
                false => Overflow::Buffered,
            },
        };
        let space = self.space;
        let response = stream::exchange(running, exchange, move |result| {
            drop((slot, space, answers));
            // The hook's record decides which commands were applied, independent of the program's exit code.
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
        Ok(ReceivedPush {
            response,
            outcome: PushOutcome(outcome),
        })
    }
}

/// Returns a readable body, decompressed on the fly if it is compressed.
fn unpacked<R: AsyncRead + Send + 'static>(body: R, gzip: bool) -> Body {
    if gzip {
        Box::pin(GzipDecoder::new(BufReader::new(Box::pin(body))))
    } else {
        Box::pin(body)
    }
}
