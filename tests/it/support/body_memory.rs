//! Memory for the bodies of requests and responses.

use std::time::Duration;

use domain::kernel::budgets::{BudgetSettings, Budgets, Holder, RequestMemory};

use super::TestServer;

/// Returns budgets of which a client can use this number of bytes, and the memory of a request of this client.
pub fn request_memory(bytes: u64) -> (Budgets, RequestMemory) {
    // An address has 7/8 of the memory.
    let settings = BudgetSettings { memory_bytes: bytes.div_ceil(7) * 8, ..BudgetSettings::default() };
    let budgets = Budgets::new(&settings);
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
