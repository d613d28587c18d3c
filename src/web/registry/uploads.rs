//! Blob uploads: in one request, in two, or in any number of chunks.

use domain::registry::uploads::{self, Upload, UploadPart};
use domain::registry::{Digest, ImageName, RegistryError, RegistryErrorCode, blobs};
use futures_util::StreamExt;
use poem::http::header::{CONTENT_LENGTH, CONTENT_RANGE};
use poem::http::{Method, StatusCode};
use poem::{Request, Response};

use super::{RegistryCall, parameter, responses};

impl RegistryCall<'_> {
    /// Starts an upload; completes it at once if the request contains the blob or mounts an existing one.
    pub(super) async fn begin(&self, request: Request) -> Result<Response, RegistryError> {
        if let Some(digest) = parameter(&request, "mount") {
            let digest = Digest::parse(&digest)?;
            if self.mount(&digest, parameter(&request, "from")).await? {
                return Ok(responses::created(self.name(), "blobs", &digest));
            }
        } else if let Some(digest) = parameter(&request, "digest") {
            let digest = Digest::parse(&digest)?;
            let upload = uploads::begin(self.backend, &self.repository_path).await?;
            return self.finish(upload, &digest, request).await;
        }
        let upload = uploads::begin(self.backend, &self.repository_path).await?;
        Ok(self.progress(StatusCode::ACCEPTED, &upload))
    }

    async fn mount(&self, digest: &Digest, from: Option<String>) -> Result<bool, RegistryError> {
        // If the source is missing or invalid, the client uploads the blob.
        let Some(Ok(from)) = from.map(|from| ImageName::parse(&from)) else {
            return Ok(false);
        };
        match self.bearer.find_source(self.backend, &from).await? {
            Some(source) => blobs::mount(self.backend, &self.repository_path, &source, digest).await,
            None => Ok(false),
        }
    }

    /// Continues, completes or cancels an upload, or returns its progress.
    pub(super) async fn upload(&self, uuid: &str, request: Request) -> Result<Response, RegistryError> {
        let upload = uploads::find(self.backend, &self.repository_path, uuid).await?;
        match *request.method() {
            Method::PATCH => match self.receive(upload, request).await {
                Ok(upload) => Ok(self.progress(StatusCode::ACCEPTED, &upload)),
                Err(fault) => self.resync(fault, uuid),
            },
            Method::PUT => {
                let digest_text = parameter(&request, "digest").unwrap_or_default();
                let digest = Digest::parse(&digest_text)?;
                match self.finish(upload, &digest, request).await {
                    Ok(response) => Ok(response),
                    Err(fault) => self.resync(fault, uuid),
                }
            }
            Method::DELETE => {
                uploads::cancel(self.backend, &upload).await?;
                Ok(responses::empty(StatusCode::NO_CONTENT))
            }
            _ => Ok(self.progress(StatusCode::NO_CONTENT, &upload)),
        }
    }

    async fn finish(
        &self,
        upload: Upload,
        digest: &Digest,
        request: Request,
    ) -> Result<Response, RegistryError> {
        let upload = self.receive(upload, request).await?;
        uploads::finish(self.backend, &self.repository_path, &upload, digest).await?;
        Ok(responses::created(self.name(), "blobs", digest))
    }

    async fn receive(&self, upload: Upload, mut request: Request) -> Result<Upload, RegistryError> {
        let number = |text: &str| text.trim().parse::<u64>().ok();
        let header = |name| request.headers().get(name)?.to_str().ok();
        let length = header(CONTENT_LENGTH).and_then(number);
        let start = match header(CONTENT_RANGE) {
            None => None,
            Some(range) => {
                let (start, end) = read_range(range).ok_or_else(invalid_range)?;
                if length.is_some_and(|length| length != end - start + 1) {
                    return Err(invalid_range());
                }
                Some(start)
            }
        };
        let body = request.take_body().into_bytes_stream().boxed();
        uploads::receive(
            self.backend,
            &self.repository_path,
            upload,
            UploadPart { body, start, length },
        )
        .await
    }

    fn progress(&self, status: StatusCode, upload: &Upload) -> Response {
        let received = u64::try_from(upload.received).unwrap_or(0);
        responses::progress(responses::empty(status), self.name(), &upload.uuid, received)
    }

    /// Adds the current position to the error for a chunk that is out of order.
    fn resync(&self, fault: RegistryError, uuid: &str) -> Result<Response, RegistryError> {
        match fault {
            RegistryError::OutOfOrder(received) => {
                let error_response = responses::from_error(&fault);
                Ok(responses::progress(error_response, self.name(), uuid, received))
            }
            fault => Err(fault),
        }
    }
}

fn invalid_range() -> RegistryError {
    let text = "Content-Range must be the positions of the first and last byte of the body, such as 0-1023";
    RegistryError::new(RegistryErrorCode::BlobUploadInvalid, text)
}

/// Parses the first and the last byte of a chunk.
fn read_range(text: &str) -> Option<(u64, u64)> {
    let text = text.trim();
    let text = text
        .strip_prefix("bytes")
        .map_or(text, |rest| rest.trim_start_matches(['=', ' ']));
    let range = text.split('/').next()?;
    let (start, end) = range.split_once('-')?;
    let (start, end): (u64, u64) = (start.trim().parse().ok()?, end.trim().parse().ok()?);
    (start <= end && end < u64::MAX).then_some((start, end))
}

#[cfg(test)]
mod tests {
    use super::read_range;

    #[test]
    fn content_range_is_first_and_last_byte() {
        for text in ["0-9", "bytes 0-9/*", "bytes=0-9", "0-9/10", " 0 - 9 "] {
            assert_eq!(read_range(text), Some((0, 9)), "{text}");
        }
        for text in [
            "",
            "-",
            "9",
            "9-0",
            "a-b",
            "-9",
            "0-",
            "0-18446744073709551615",
            "0-99999999999999999999",
        ] {
            assert_eq!(read_range(text), None, "{text}");
        }
    }
}
