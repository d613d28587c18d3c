//! Memory for the bodies of requests and responses.

use std::time::Duration;

use super::TestServer;

/// Waits until no request uses memory for bodies.
pub async fn wait_until_released(server: &TestServer) {
    let released = async {
        while server.backend.budgets.memory.used() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), released).await.expect("released memory");
}
