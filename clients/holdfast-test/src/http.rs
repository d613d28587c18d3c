//! Requests to the server, each on its own connection. HTTP/1.0, because the body then ends with the connection.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::Error;

/// A response of the server.
#[derive(Debug, Clone)]
pub struct Response {
    /// The status.
    pub status: u16,
    headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Response {
    /// Returns the value of a header.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(own, _)| own.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the parsed body.
    ///
    /// # Errors
    /// [`Error::Response`] if the body has another form.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        Ok(serde_json::from_slice(&self.body)?)
    }
}

/// Sends a request with one header for the credentials.
pub(crate) fn send(
    method: &str,
    url: &str,
    credentials: (&str, &str),
    body: Option<&Value>,
) -> Result<Response, Error> {
    let invalid = |cause: &str| Error::Io(std::io::Error::new(std::io::ErrorKind::InvalidInput, cause.to_owned()));
    let rest = url.strip_prefix("http://").ok_or_else(|| invalid("the URL must start with http://"))?;
    let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_token(method) || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(invalid("the method and the path can contain only ASCII characters without spaces"));
    }
    let path = if path.is_empty() { "/" } else { path };
    let (name, value) = credentials;
    let body = body.map(Value::to_string);
    let mut request = format!("{method} {path} HTTP/1.0\r\nHost: {host}\r\n{name}: {value}\r\n");
    if let Some(body) = &body {
        request.push_str(&format!(
            "Content-Type: application/json\r\nContent-Length: {}\r\n",
            body.len()
        ));
    }
    request.push_str("\r\n");
    request.push_str(body.as_deref().unwrap_or_default());
    let mut stream = TcpStream::connect(host)?;
    stream.write_all(request.as_bytes())?;
    let mut received = Vec::new();
    stream.read_to_end(&mut received)?;
    parse(method, &received).ok_or_else(|| {
        let cause = "the connection was closed without a complete response";
        Error::Io(std::io::Error::new(std::io::ErrorKind::UnexpectedEof, cause))
    })
}

/// Parses the response to a request; `None` if it is incomplete.
fn parse(method: &str, received: &[u8]) -> Option<Response> {
    let end = received.windows(4).position(|part| part == b"\r\n\r\n")?;
    let (head, body) = (received.get(..end)?, received.get(end + 4..)?);
    let head = String::from_utf8_lossy(head);
    let mut lines = head.split("\r\n");
    let status: u16 = lines.next()?.split(' ').nth(1)?.parse().ok()?;
    let headers: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect();
    let response = Response {
        status,
        headers,
        body: body.to_vec(),
    };
    // Without a body, `Content-Length` is that of the response to GET (RFC 9110, section 8.6).
    if method == "HEAD" || status == 304 {
        return Some(response);
    }
    let length: Option<usize> = response.header("content-length").and_then(|length| length.parse().ok());
    length.is_none_or(|length| length == response.body.len()).then_some(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complete_responses_are_parsed() {
        let response = parse("POST", b"HTTP/1.0 201 Created\r\nContent-Length: 2\r\nA: b \r\n\r\n{}");
        let response = response.expect("a response");
        assert_eq!((response.status, response.header("a"), response.body.as_slice()), (201, Some("b"), &b"{}"[..]));
        for partial in [&b""[..], b"HTTP/1.0 200 OK\r\n", b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}"] {
            assert!(parse("GET", partial).is_none());
        }
        let head = b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert!(parse("HEAD", head).is_some_and(|response| response.body.is_empty()));
        assert!(parse("GET", b"HTTP/1.0 304 Not Modified\r\nContent-Length: 3\r\n\r\n").is_some());
    }
}
