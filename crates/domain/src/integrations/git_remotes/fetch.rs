//! Fetches from remote repositories: the list of their branches and tags, and packs, which are streamed.

use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use git::Oid;
use parsers::pkt_line::{FLUSH, packet};
use parsers::receive_pack::MAX_ADVERTISEMENT_BYTES;
use parsers::upload_pack::{Discovery, FetchReader, FetchVersion, RemoteRefs, read_discovery, read_refs};
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Response, StatusCode};
use tokio::time::{Instant, timeout};

use super::{
    GitRemoteClient, NO_RESPONSE, RemoteFailure, RemoteRepository, authenticated, check_response, failure,
    read_body, without_credentials,
};

const SERVICE: &str = "git-upload-pack";
const ADVERTISEMENT_TYPE: &str = "application/x-git-upload-pack-advertisement";
const REQUEST_TYPE: &str = "application/x-git-upload-pack-request";
const RESULT_TYPE: &str = "application/x-git-upload-pack-result";
/// Header that requests version 2. Servers without it ignore the header.
const PROTOCOL: (&str, &str) = ("Git-Protocol", "version=2");
const SIDEBAND: &str = "side-band-64k";

/// Objects to fetch.
#[derive(Debug, Clone, Default)]
pub struct FetchRequest {
    /// Targets of references of the remote repository.
    pub wanted: Vec<Oid>,
    /// Objects that this server has, with all objects that they lead to.
    pub present: Vec<Oid>,
    /// Maximum size of the pack in bytes.
    pub max_bytes: u64,
    /// When the fetch must be complete.
    pub deadline: Option<Instant>,
}

/// A pack of a remote repository, while it arrives.
pub struct RemotePack {
    /// The bytes. Ends in an error if the pack cannot be received completely.
    pub bytes: BoxStream<'static, io::Result<Bytes>>,
    /// The reason why the pack could not be received.
    pub failure: PackFailure,
}

/// The reason why a pack could not be received, as soon as it is known.
#[derive(Debug, Clone, Default)]
pub struct PackFailure(Arc<Mutex<Option<RemoteFailure>>>);

impl PackFailure {
    /// Returns the reason.
    #[must_use]
    pub fn get(&self) -> Option<RemoteFailure> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, failure: RemoteFailure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
    }
}

impl GitRemoteClient {
    /// Returns the branches and tags of a remote repository.
    ///
    /// # Errors
    /// Returns the reason of a failure.
    pub async fn remote_refs(&self, remote: &RemoteRepository) -> Result<RemoteRefs, RemoteFailure> {
        let limits = self.shared.limits;
        let exchange = async {
            let mut url = self.url(remote, "info/refs")?;
            url.set_query(Some("service=git-upload-pack"));
            let request = self.client(remote.local)?.get(url).header(ACCEPT, "*/*");
            let sending = authenticated(request.header(PROTOCOL.0, PROTOCOL.1), remote).send();
            let response = received(limits.list_start, sending).await?;
            check(&response, ADVERTISEMENT_TYPE)?;
            let body = read_body(response, MAX_ADVERTISEMENT_BYTES, limits.pause).await?;
            match read_discovery(&body).map_err(|error| RemoteFailure::permanent(error.to_string()))? {
                Discovery::Refs(found) => return Ok(found),
                Discovery::Commands => {}
            }
            let response = self.request(remote, FetchVersion::V2, list_body()).await?;
            let body = read_body(response, MAX_ADVERTISEMENT_BYTES, limits.pause).await?;
            read_refs(&body).map_err(|error| RemoteFailure::permanent(error.to_string()))
        };
        let listed = match timeout(limits.list, exchange).await {
            Ok(listed) => listed,
            Err(_) => Err(RemoteFailure::temporary(NO_RESPONSE)),
        };
        listed.map_err(|failure| without_credentials(failure, remote))
    }

    /// Requests objects of a remote repository, whose references are `refs`. Returns when the pack has begun.
    ///
    /// # Errors
    /// Returns the reason of a failure.
    pub async fn fetch(
        &self,
        remote: &RemoteRepository,
        refs: &RemoteRefs,
        request: &FetchRequest,
    ) -> Result<RemotePack, RemoteFailure> {
        if refs.version == FetchVersion::V0 && !refs.has(SIDEBAND) {
            let text = "the server of the remote repository does not support side-band-64k";
            return Err(RemoteFailure::permanent(text));
        }
        let limits = self.shared.limits;
        let opening = async {
            let body = fetch_body(refs, request);
            let response = self.request(remote, refs.version, body).await?;
            let mut download = PackDownload {
                response,
                reader: FetchReader::new(refs.version),
                left: request.max_bytes,
                deadline: request.deadline,
            };
            // The remote server may count objects for a long time before it sends the first bytes.
            let first = download.next(limits.response).await?;
            Ok((first, download))
        };
        let (first, download) = opening
            .await
            .map_err(|failure| without_credentials(failure, remote))?;
        let failure = PackFailure::default();
        let state = (first, Some(download), failure.clone(), remote.clone());
        let bytes = stream::unfold(state, move |(first, download, failure, remote)| async move {
            let mut download = download?;
            let next = match first {
                Some(first) => Ok(Some(first)),
                None => download.next(limits.pause).await,
            };
            match next {
                Ok(next) => Some((Ok(next?), (None, Some(download), failure, remote))),
                Err(reason) => {
                    failure.set(without_credentials(reason, &remote));
                    let error = io::Error::other("the pack is incomplete");
                    Some((Err(error), (None, None, failure, remote)))
                }
            }
        });
        Ok(RemotePack {
            bytes: bytes.boxed(),
            failure,
        })
    }

    /// Sends a request of the service and checks the start of the response.
    async fn request(
        &self,
        remote: &RemoteRepository,
        version: FetchVersion,
        body: String,
    ) -> Result<Response, RemoteFailure> {
        let mut request = self
            .client(remote.local)?
            .post(self.url(remote, SERVICE)?)
            .header(CONTENT_TYPE, REQUEST_TYPE)
            .header(ACCEPT, RESULT_TYPE)
            .body(body);
        if version == FetchVersion::V2 {
            request = request.header(PROTOCOL.0, PROTOCOL.1);
        }
        let sending = authenticated(request, remote).send();
        let response = received(self.shared.limits.response, sending).await?;
        check(&response, RESULT_TYPE)?;
        Ok(response)
    }
}

async fn received(
    limit: Duration,
    sending: impl Future<Output = reqwest::Result<Response>>,
) -> Result<Response, RemoteFailure> {
    match timeout(limit, sending).await {
        Ok(response) => response.map_err(|error| failure(&error)),
        Err(_) => Err(RemoteFailure::temporary(NO_RESPONSE)),
    }
}

fn check(response: &Response, media_type: &str) -> Result<(), RemoteFailure> {
    match response.status() {
        StatusCode::FORBIDDEN => Err(RemoteFailure::permanent(
            "the remote repository does not allow the fetch",
        )),
        _ => check_response(response, media_type),
    }
}

/// The response to a fetch.
struct PackDownload {
    response: Response,
    reader: FetchReader,
    /// Number of bytes that the pack may still have.
    left: u64,
    deadline: Option<Instant>,
}

impl PackDownload {
    /// Returns the next bytes of the pack, which arrive within `pause`, or `None` at its end.
    async fn next(&mut self, pause: Duration) -> Result<Option<Bytes>, RemoteFailure> {
        loop {
            let rest = self
                .deadline
                .map(|deadline| deadline.duration_since(Instant::now()));
            let limit = rest.map_or(pause, |rest| rest.min(pause));
            let chunk = match timeout(limit, self.response.chunk()).await {
                Ok(chunk) => chunk.map_err(|error| failure(&error))?,
                Err(_) if rest.is_some_and(|rest| rest <= pause) => {
                    return Err(RemoteFailure::temporary("the update took too long"));
                }
                Err(_) => return Err(RemoteFailure::temporary(NO_RESPONSE)),
            };
            let Some(chunk) = chunk else {
                let end = self.reader.finish();
                return end
                    .map(|()| None)
                    .map_err(|error| RemoteFailure::temporary(error.to_string()));
            };
            let pack = self.reader.feed(&chunk);
            let pack = pack.map_err(|error| RemoteFailure::permanent(error.to_string()))?;
            let length = pack.len() as u64;
            if length > self.left {
                return Err(RemoteFailure::permanent(
                    "the pack of the remote repository is too large (setting: max_push_bytes)",
                ));
            }
            self.left -= length;
            if !pack.is_empty() {
                return Ok(Some(pack.into()));
            }
            // A response that is always available would otherwise ignore the deadline.
            if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Err(RemoteFailure::temporary("the update took too long"));
            }
        }
    }
}

/// Returns the command that lists the branches and tags in version 2.
fn list_body() -> String {
    let mut body = packet("command=ls-refs\n") + "0001";
    for line in [
        "symrefs\n",
        "ref-prefix HEAD\n",
        "ref-prefix refs/heads/\n",
        "ref-prefix refs/tags/\n",
    ] {
        body.push_str(&packet(line));
    }
    body + FLUSH
}

/// Returns the request of a pack without negotiation: all wanted and all present objects at once.
fn fetch_body(refs: &RemoteRefs, request: &FetchRequest) -> String {
    let mut body = String::new();
    let mut capabilities = String::new();
    match refs.version {
        FetchVersion::V0 => {
            for capability in [
                SIDEBAND,
                "thin-pack",
                "ofs-delta",
                "no-progress",
                "object-format=sha1",
            ] {
                if refs.has(capability) {
                    capabilities.push(' ');
                    capabilities.push_str(capability);
                }
            }
        }
        FetchVersion::V2 => {
            body = packet("command=fetch\n") + "0001";
            for line in ["thin-pack\n", "ofs-delta\n", "no-progress\n"] {
                body.push_str(&packet(line));
            }
        }
    }
    for id in &request.wanted {
        body.push_str(&packet(&format!(
            "want {id}{}\n",
            std::mem::take(&mut capabilities)
        )));
    }
    if refs.version == FetchVersion::V0 {
        body.push_str(FLUSH);
    }
    for id in &request.present {
        body.push_str(&packet(&format!("have {id}\n")));
    }
    body.push_str(&packet("done\n"));
    if refs.version == FetchVersion::V2 {
        body.push_str(FLUSH);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "1234567890123456789012345678901234567890";

    fn request() -> FetchRequest {
        let id: Oid = ID.parse().expect("an ID");
        FetchRequest {
            wanted: vec![id, id],
            present: vec![id],
            ..FetchRequest::default()
        }
    }

    fn refs(body: &str) -> RemoteRefs {
        match read_discovery(body.as_bytes()).expect("a list") {
            Discovery::Refs(refs) => refs,
            Discovery::Commands => panic!("another version"),
        }
    }

    #[test]
    fn request_of_version_0_has_the_capabilities_of_the_server() {
        let line = format!("{ID} refs/heads/a\0side-band-64k ofs-delta multi_ack\n");
        let refs = refs(&(packet(&line) + "0000"));
        let expected =
            format!("004ewant {ID} side-band-64k ofs-delta\n0032want {ID}\n00000032have {ID}\n0009done\n");
        let body = fetch_body(&refs, &request());
        assert_eq!(body, expected.replace("004e", &body[..4]));
        assert_eq!(
            usize::from_str_radix(&body[..4], 16),
            Ok(body.find('\n').unwrap_or(0) + 1)
        );
    }

    #[test]
    fn request_of_version_2_is_a_command() {
        let refs = read_refs(b"0000").expect("an empty list");
        let body = fetch_body(&refs, &request());
        assert!(
            body.starts_with("0012command=fetch\n0001000ethin-pack\n"),
            "{body}"
        );
        assert!(
            body.ends_with(&format!("0032have {ID}\n0009done\n0000")),
            "{body}"
        );
        let list = list_body();
        assert!(
            list.starts_with("0014command=ls-refs\n0001") && list.ends_with("ref-prefix refs/tags/\n0000"),
            "{list}"
        );
    }
}
