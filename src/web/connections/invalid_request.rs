//! Responses to malformed requests: detects the bare ones of the HTTP library and replaces them with ones that
//! include a reason.

use chrono::Utc;
use poem::http::StatusCode;

use crate::api::error_response;
use crate::web::{headers, trace};

/// Maximum length of the head of a bare response, in bytes.
const MAX_HEAD_BYTES: usize = 256;

/// Returns whether these bytes look like a response created by the HTTP library. The server's own responses
/// always have a request ID.
pub fn is_library_response(bytes: &[u8]) -> bool {
    let says = |text: &str| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    bytes.len() <= MAX_HEAD_BYTES
        && bytes.starts_with(b"HTTP/1.")
        && bytes.ends_with(b"\r\n\r\n")
        && status(bytes).is_some()
        && says("content-length: 0")
        && !says(trace::REQUEST_ID)
}

/// Returns the status of a bare response.
pub fn status(bytes: &[u8]) -> Option<StatusCode> {
    let status = StatusCode::from_bytes(bytes.get(9..12)?).ok()?;
    matches!(
        status,
        StatusCode::BAD_REQUEST | StatusCode::URI_TOO_LONG | StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE
    )
    .then_some(status)
}

/// Returns the same error in the format of the API: JSON with a request ID.
pub fn response(status: StatusCode) -> Vec<u8> {
    let why = match status {
        StatusCode::BAD_REQUEST => "the request is not valid HTTP",
        StatusCode::REQUEST_TIMEOUT => "the header of the request was not received in time",
        _ => "the header of the request is too large",
    };
    let body = error_response::error_body(status, why).to_string();
    let mut text = format!("HTTP/1.1 {status}\r\n");
    let mut header = |name: &str, value: &str| {
        text.push_str(name);
        text.push_str(": ");
        text.push_str(value);
        text.push_str("\r\n");
    };
    header("content-type", "application/json");
    header("content-length", &body.len().to_string());
    header("connection", "close");
    header(
        "date",
        &Utc::now().format("%a, %d %b %Y %H:%M:%S GMT").to_string(),
    );
    header(trace::REQUEST_ID, &trace::new_id());
    for (name, value) in headers::SECURITY_HEADERS {
        header(name, value);
    }
    text.push_str("\r\n");
    text.push_str(&body);
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_error_responses_of_the_library_are_bare() {
        let bare =
            b"HTTP/1.1 431 Request Header Fields Too Large\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        assert!(is_library_response(bare));
        assert_eq!(status(bare), Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
        for other in [
            &b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"[..],
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nx-request-id: 1\r\n\r\n",
            b"HTTP/1.1 400 Bad Request\r\ncontent-length: 2\r\n\r\n{}",
            b"HTTP/1.1 40",
            b"",
        ] {
            assert!(!is_library_response(other), "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn own_error_response_is_json_and_not_bare() {
        let answer = response(StatusCode::BAD_REQUEST);
        let text = String::from_utf8(answer.clone()).expect("text");
        let (head, body) = text.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{head}");
        assert!(head.contains("x-request-id: ") && head.contains("x-frame-options: SAMEORIGIN"));
        assert!(head.contains(&format!("content-length: {}", body.len())));
        let body: serde_json::Value = serde_json::from_str(body).expect("JSON");
        assert_eq!(body["message"], "400 Bad Request - the request is not valid HTTP");
        assert!(!is_library_response(&answer));
    }
}
