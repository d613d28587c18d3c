//! Git's smart HTTP protocol for `git clone`, `fetch` and `push`.
//!
//! A request is received completely before its response begins (`spool`), so programs do not wait for slow clients. A push
//! is opened first ([`Repository::open_push`]), so that its commands can be checked before the pack is read. Then it is
//! received ([`push`]). When the pack is complete, the push waits for a [`decision`], which [`hooks`] enforce.

mod commands;
mod decision;
mod hooks;
mod push;
mod push_directory;
#[cfg(test)]
mod tests;

use std::io::Cursor;
use std::time::Duration;

use async_compression::tokio::bufread::GzipDecoder;
use bytes::Bytes;
use parsers::pkt_line::{FLUSH, packet};
use tokio::io::{AsyncRead, AsyncReadExt, BufReader};
use tokio_util::task::AbortOnDropHandle;

pub use commands::RefCommand;
pub(super) use decision::PushInspector;
pub use decision::{PushDecider, PushDecision, PushRules};
pub use push::{OpenPush, PushOutcome, ReceivePolicy, ReceivedPush};
pub use push_directory::remove_abandoned_push_directories;

use super::memory_budget::MemoryNeed;
use super::process::{Program, ProgramKind};
use super::ref_name;
use super::spool::{Body, Excess, IDLE, Spool, SpoolLimit};
use super::stream::{self, ByteStream};
use super::{Error, Repository, Result};

/// Time limit of a clone or push.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(3 * 60 * 60);
/// Time limit of listing the references.
const ADVERTISE_TIME_LIMIT: Duration = Duration::from_secs(120);
/// Maximum length of a fetch request in bytes, after decompression.
const FETCH_BODY: u64 = 64 * 1024 * 1024;
/// Maximum time until the request of a fetch has arrived.
const FETCH_BODY_TIMEOUT: Duration = Duration::from_secs(5 * 60);
/// Maximum length of a `Git-Protocol` header that is forwarded, in bytes.
const MAX_PROTOCOL_BYTES: usize = 64;

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
            Self::UploadPack => ref_name::hidden_from_fetches()
                .fold(Program::new("upload-pack"), |program, namespace| {
                    program.config("uploadpack.hideRefs", namespace)
                })
                .config("uploadpack.allowFilter", "true")
                .config("uploadpack.allowReachableSHA1InWant", "true"),
            // Git rejects the commands of hidden references one by one.
            Self::ReceivePack => ref_name::hidden_from_pushes()
                .fold(Program::new("receive-pack"), |program, namespace| {
                    program.config("receive.hideRefs", namespace)
                })
                .writes()
                .config("receive.advertisePushOptions", "true")
                .config("receive.autogc", "false")
                // Packs are stored as received: unpacking would compress large files again, in memory.
                .config("receive.unpackLimit", "1")
                .config("receive.fsckObjects", "true")
                // Many old repositories have objects with these harmless faults.
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

impl Repository {
    /// Returns the response to `GET info/refs`, the list of references. `protocol` is the client's
    /// `Git-Protocol` header.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`], [`Error::Busy`] if too many transfers are running.
    pub async fn advertise(&self, service: TransportService, protocol: Option<&str>) -> Result<ByteStream> {
        let program = service
            .program(protocol)
            .kind(ProgramKind::Advertisement)
            .flags(&["--stateless-rpc", "--http-backend-info-refs", "."]);
        let running = self
            .start_transfer(program.time_limit(ADVERTISE_TIME_LIMIT))
            .await?;
        let has_version_2 =
            protocol.is_some_and(|version| version.split(':').any(|part| part == "version=2"));
        // A response in version 2 starts without the name of the service. Version 2 exists only for fetches.
        let first = if service == TransportService::UploadPack && has_version_2 {
            Bytes::new()
        } else {
            let line = packet(&format!("# service={}\n", service.name()));
            Bytes::from(line + FLUSH)
        };
        Ok(stream::output(self, running, first))
    }

    /// Receives the body of `POST git-upload-pack` and returns the response. If `gzip` is true, the body is compressed.
    ///
    /// # Errors
    /// [`Error::LimitExceeded`], [`Error::Timeout`] and [`Error::Protocol`] for a body that is too large or incomplete, and
    /// the errors of [`Self::advertise`].
    pub async fn upload_pack<R>(&self, body: R, gzip: bool, protocol: Option<&str>) -> Result<ByteStream>
    where
        R: AsyncRead + Send + 'static,
    {
        self.check_processor_time()?;
        let limit = SpoolLimit {
            bytes: FETCH_BODY,
            excess: Excess::Fails,
            pause: IDLE,
        };
        let mut request = Spool::receive(self, unpacked(body, gzip), limit, self.request_space());
        let received = tokio::time::timeout(FETCH_BODY_TIMEOUT, request.complete());
        let space = received.await.map_err(|_| Error::Timeout)??;
        let program = TransportService::UploadPack
            .program(protocol)
            .memory(MemoryNeed::Fetch)
            .flags(&["--stateless-rpc", "."]);
        let mut running = self.start_transfer(program.time_limit(TIME_LIMIT)).await?;
        let (reader, stdin) = (request.reader(), running.take_stdin());
        let input = AbortOnDropHandle::new(tokio::spawn(async move {
            reader.feed(stdin).await;
        }));
        Ok(stream::fetch(self, running, |result| {
            drop((input, space));
            if let Err(error) = result {
                tracing::debug!(%error, "fetch failed");
            }
        }))
    }

    /// Reads the commands of a `POST git-receive-pack`. If `gzip` is true, the body is compressed.
    ///
    /// # Errors
    /// [`Error::Protocol`] if the commands violate the protocol, [`Error::LimitExceeded`] if there are too many
    /// commands or options, [`Error::Timeout`], and [`Error::Busy`] if other requests already use too much space.
    pub async fn open_push<R>(&self, body: R, gzip: bool) -> Result<OpenPush>
    where
        R: AsyncRead + Send + 'static,
    {
        let mut body = unpacked(body, gzip);
        let mut space = self.request_space();
        let opening = tokio::time::timeout(Duration::from_secs(120), commands::read(&mut body, &mut space));
        let head = opening.await.map_err(|_| Error::Timeout)??;
        let consumed = head.consumed;
        Ok(OpenPush {
            repository: self.clone(),
            commands: head.commands,
            options: head.options,
            sideband: commands::wants_sideband(&consumed),
            command_bytes: consumed.len() as u64,
            body: Box::pin(Cursor::new(consumed).chain(body)),
            space,
        })
    }
}

/// Returns a reader of the body. If `gzip` is true, the reader decompresses the body.
fn unpacked<R: AsyncRead + Send + 'static>(body: R, gzip: bool) -> Body {
    if gzip {
        Box::pin(GzipDecoder::new(BufReader::new(Box::pin(body))))
    } else {
        Box::pin(body)
    }
}
