//! Memory for the bodies of requests and responses.

use std::time::Duration;

use domain::kernel::budgets::{BudgetSettings, Budgets, Holder, RequestMemory};

use super::TestServer;

/// Returns budgets with a number of bytes for bodies, and the memory of a request without an address and a user.
pub fn request_memory(memory_bytes: u64) -> (Budgets, RequestMemory) {
    let budgets = Budgets::new(&BudgetSettings { memory_bytes, ..BudgetSettings::default() });
    let memory = RequestMemory::new(budgets.memory.reservation(Holder::default()));
    (budgets, memory)
}

/// Waits until no request uses memory for bodies.
pub async fn wait_until_released(server: &TestServer) {
    let released = async {
        while server.backend.budgets.memory.used() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), released).await.expect("released memory");
}
