//! A push of any size takes a few chunks of memory, in the server and in the git programs that it runs.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::RngExt;

use crate::support::Kind;
use crate::support::git::Work;
use crate::support::process::{Process, Site};

/// How much is pushed where `HOLDFAST_LARGE_PUSH_MEGABYTES` says nothing else, as .ci/run does.
const MEGABYTES: usize = 96;
/// How much more memory the server may take for it than before, in kilobytes.
const MEMORY: u64 = 24 * 1024;
/// How much memory the git programs together may take at a time, in kilobytes. A pack that is mapped to be checked counts
/// as far as it was read, though the system takes that back at will; only what is their own is counted here.
const GIT_MEMORY: u64 = 128 * 1024;

/// A figure of a process in kilobytes; none when it has ended.
fn figure(id: u32, name: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

type Peaks = Mutex<(u64, HashMap<String, u64>)>;

fn note(peaks: &Peaks, total: u64) {
    let mut peaks = peaks.lock().unwrap();
    peaks.0 = peaks.0.max(total);
}

/// The most memory that the git programs of a server had of their own at a time, and each of them, until dropped.
struct Watch {
    task: tokio::task::JoinHandle<()>,
    peaks: Arc<Peaks>,
}

impl Watch {
    fn new(server: &Process) -> Self {
        let peaks = Arc::<Peaks>::default();
        let (seen, id) = (Arc::clone(&peaks), server.id());
        let task = tokio::spawn(async move {
            loop {
                let mut total = 0;
                for (id, command) in crate::support::process::descendants(id) {
                    let own = figure(id, "RssAnon").unwrap_or_default();
                    total += own;
                    let name = command.split(' ').find(|word| word.contains("pack")).unwrap_or("git").to_owned();
                    let mut seen = seen.lock().unwrap();
                    let peak = seen.1.entry(name).or_default();
                    *peak = own.max(*peak);
                }
                note(&seen, total);
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        Self { task, peaks }
    }

    fn stop(self) -> (u64, HashMap<String, u64>) {
        self.task.abort();
        self.peaks.lock().unwrap().clone()
    }
}

#[tokio::test]
async fn large_push_and_clone_are_streamed() {
    let asked = std::env::var("HOLDFAST_LARGE_PUSH_MEGABYTES").ok();
    let megabytes = asked.map_or(MEGABYTES, |text| text.parse().expect("a number"));
    let site = Site::new(&Kind::Sqlite).await;
    let server = site.serve(&[]).await;
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work.git(&["config", "core.compression", "0"]).await;
    work.git(&["config", "core.bigFileThreshold", "1m"]).await;
    {
        let mut file = std::fs::File::create(work.path.join("noise")).unwrap();
        let mut chunk = vec![0_u8; 1 << 20];
        rand::rng().fill(&mut chunk[..]);
        for number in 0..megabytes {
            // No two alike, though none needs to be random.
            chunk[..8].copy_from_slice(&number.to_le_bytes());
            file.write_all(&chunk).unwrap();
        }
    }
    // What a first, small exchange takes is not the question.
    work.git(&["push", "--quiet", &server.address("p"), "main:small"]).await;
    let before = figure(server.id(), "VmHWM").unwrap();
    let watch = Watch::new(&server);
    let tip = work.commit("note", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    let (together, each) = watch.stop();
    let clone = clones.below("c");
    assert_eq!(clone.git(&["rev-parse", "main"]).await, tip);
    let size: usize = clone.git(&["cat-file", "-s", "main:noise"]).await.parse().unwrap();
    assert_eq!(size, megabytes << 20);
    let after = figure(server.id(), "VmHWM").unwrap();
    assert!(after - before < MEMORY, "the server took {before} kB before and {after} kB after");
    assert!(together > 0 && together < GIT_MEMORY, "the git programs took {together} kB: {each:?}");
    server.stop().await;
}
