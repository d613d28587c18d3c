//! The access log: one line for each request, written when its response was sent (`docs/LOGS.md`).

use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::BoxBody;
use parsers::registry;
use poem::Response;
use poem::http::Method;

use crate::api::access_record::AccessRecord;
use crate::web::git_http;

/// Log target of the lines, for filters such as `info,holdfast::access=off`.
const TARGET: &str = "holdfast::access";

/// The fields of a line that are known before the response.
pub(super) struct AccessLine {
    /// When the request was received.
    pub(super) started: Instant,
    /// Method of the request.
    pub(super) method: Method,
    /// Path of the request. The query may contain tokens, so it is never logged.
    pub(super) path: String,
    /// Address of the client.
    pub(super) address: Option<IpAddr>,
    /// ID of the request.
    pub(super) request_id: String,
    /// The user and the operation.
    pub(super) record: AccessRecord,
    /// Whether the line was written.
    pub(super) is_written: bool,
}

/// Returns whether the log contains access lines.
pub(super) fn is_enabled() -> bool {
    tracing::enabled!(target: TARGET, tracing::Level::INFO)
}

impl AccessLine {
    /// Returns the response with a body that writes the line when the body was sent, or when the client
    /// disconnected.
    pub(super) fn write_after(self, mut response: Response) -> Response {
        let body = LoggedBody {
            inner: response.take_body().into(),
            status: response.status().as_u16(),
            bytes: 0,
            line: self,
        };
        response.set_body(BoxBody::new(body));
        response
    }

    /// Returns the path template of the operation, or the kind of another endpoint.
    fn route(&self) -> &'static str {
        match self.record.operation() {
            Some(operation) => operation.path,
            None if git_http::is_git_path(&self.path) => "git",
            None if registry::is_registry_path(&self.path) => "registry",
            None => "other",
        }
    }

    fn write(&mut self, status: u16, bytes: u64) {
        self.is_written = true;
        let duration = self.started.elapsed().as_secs_f64() * 1000.0;
        tracing::info!(
            target: TARGET,
            parent: None,
            method = %self.method,
            path = self.path,
            route = self.route(),
            status,
            // The field has a precision of one microsecond.
            duration_ms = (duration * 1000.0).round() / 1000.0,
            bytes,
            user_id = self.record.user_id(),
            address = self.address.map(tracing::field::display),
            request_id = self.request_id,
            "request"
        );
    }
}

/// Status of a request whose client left before the response began, as in the logs of nginx.
const CLIENT_LEFT: u16 = 499;

impl Drop for AccessLine {
    fn drop(&mut self) {
        if !self.is_written {
            self.write(CLIENT_LEFT, 0);
        }
    }
}

/// The body of a response, which counts its bytes.
struct LoggedBody {
    inner: BoxBody<Bytes, io::Error>,
    status: u16,
    bytes: u64,
    line: AccessLine,
}

impl Body for LoggedBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(context);
        if let Poll::Ready(Some(Ok(frame))) = &polled
            && let Some(data) = frame.data_ref()
        {
            self.bytes += data.len() as u64;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}

impl Drop for LoggedBody {
    fn drop(&mut self) {
        self.line.write(self.status, self.bytes);
    }
}
