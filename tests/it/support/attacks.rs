//! Memory and liveness of a server while a test attacks it.

use std::io::Write;
use std::time::{Duration, Instant};

use super::Client;
use super::git_memory::MemoryWatch;
use super::process::{Process, other_binary};

/// Maximum memory of the server in kilobytes, of the 400 MiB that it may use with the mapped pages of a release binary.
const MAX_SERVER: u64 = 360 * 1024;
/// Maximum memory of its git processes together in kilobytes.
const MAX_GIT: u64 = 1024 * 1024;
/// Maximum time of a liveness probe of a binary that is measured alone.
const MAX_PROBE: Duration = Duration::from_millis(500);
/// Maximum time of a liveness probe while other tests and builds use the processors too.
const MAX_BUSY_PROBE: Duration = Duration::from_secs(10);

/// Measures a server from now on.
pub struct Attack<'a> {
    name: &'static str,
    server: &'a Process,
    watch: MemoryWatch,
    slowest: Duration,
}

impl<'a> Attack<'a> {
    /// Starts to measure a server. The name is that of the printed line.
    pub fn start(name: &'static str, server: &'a Process) -> Self {
        Self { name, server, watch: MemoryWatch::new(server), slowest: Duration::ZERO }
    }

    /// Requests the liveness probe until `work` is done.
    pub async fn probed<T>(&mut self, work: impl Future<Output = T>) -> T {
        let client = Client::new(&self.server.base, None);
        let mut work = std::pin::pin!(work);
        loop {
            let began = Instant::now();
            let probe = async {
                client.get("//-/liveness").await.expect(200);
                self.slowest = self.slowest.max(began.elapsed());
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            tokio::select! {
                biased;
                done = &mut work => return done,
                () = probe => {}
            }
        }
    }

    /// Checks the memory of the server and its git processes, and the slowest probe.
    pub fn check(self) {
        let (git, each) = self.watch.stop();
        let server = self.server.peak_private_memory();
        let (name, slowest) = (self.name, self.slowest);
        let limit = match other_binary() {
            Some(_) => {
                let line = format!("{name}: server {server} kB, git {git} kB, slowest probe {slowest:?}\n");
                std::io::stderr().write_all(line.as_bytes()).expect("standard error");
                MAX_PROBE
            }
            None => MAX_BUSY_PROBE,
        };
        assert!(git < MAX_GIT, "{name}: the git processes used {git} kB: {each:?}");
        assert!(server < MAX_SERVER, "{name}: the server used {server} kB");
        assert!(slowest < limit, "{name}: a probe took {slowest:?}");
    }
}
