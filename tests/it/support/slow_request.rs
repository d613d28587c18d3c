//! Requests whose body arrives in two parts.

use tokio::io::AsyncReadExt;

use super::ApiResponse;
use super::raw_http::RawConnection;

/// A request of which the second half of the body was not sent yet.
pub struct SlowRequest {
    connection: RawConnection,
    rest: Vec<u8>,
}

impl SlowRequest {
    /// Sends the head and the first half of the body. Returns when the server reads the body, so the caller was identified.
    pub async fn begin(base: &str, line: &str, headers: &[(&str, &str)], mut body: Vec<u8>) -> Self {
        let mut connection = RawConnection::connect(base).await;
        let mut head = format!("{line} HTTP/1.1\r\nHost: h\r\nConnection: close\r\nExpect: 100-continue\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        connection.send(head).await;
        let mut answer = [0; 25];
        connection.stream.read_exact(&mut answer).await.expect("an answer");
        assert_eq!(answer, *b"HTTP/1.1 100 Continue\r\n\r\n", "{}", String::from_utf8_lossy(&answer));
        let rest = body.split_off(body.len() / 2);
        connection.send(body).await;
        Self { connection, rest }
    }

    /// Sends the rest of the body and returns the response.
    pub async fn finish(mut self) -> ApiResponse {
        self.connection.send(&self.rest).await;
        self.connection.response().await.into()
    }
}
