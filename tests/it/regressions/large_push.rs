//! Memory use of large pushes and clones, in the server and in its git processes.

use std::io::Write;

use rand::RngExt;

use crate::support::DatabaseKind;
use crate::support::git::Work;
use crate::support::git_memory::MemoryWatch;
use crate::support::process::Site;

/// Size of the push unless `HOLDFAST_LARGE_PUSH_MEGABYTES` is set, as in .ci/run.
const MEGABYTES: usize = 96;
/// Maximum additional memory of the server in kilobytes.
const MEMORY: u64 = 24 * 1024;
/// Maximum memory of all git processes together in kilobytes. Only private memory counts: mapped pack files are
/// reclaimable by the system.
const GIT_MEMORY: u64 = 128 * 1024;

async fn large_push_and_clone_use_bounded_memory() {
    let requested = std::env::var("HOLDFAST_LARGE_PUSH_MEGABYTES").ok();
    let megabytes = requested.map_or(MEGABYTES, |text| text.parse().expect("a number"));
    let site = Site::on_disk(&DatabaseKind::Sqlite).await;
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
            // Each chunk differs; it need not be random.
            chunk[..8].copy_from_slice(&number.to_le_bytes());
            file.write_all(&chunk).unwrap();
        }
    }
    // The first, small push warms the server up and is not measured.
    work.git(&["push", "--quiet", &server.address("p"), "main:small"]).await;
    let before = server.peak_memory();
    let watch = MemoryWatch::new(&server);
    let tip = work.commit("note", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let clones = Work::empty();
    clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
    let (together, each) = watch.stop();
    let clone = clones.below("c");
    assert_eq!(clone.git(&["rev-parse", "main"]).await, tip);
    let size: usize = clone.git(&["cat-file", "-s", "main:noise"]).await.parse().unwrap();
    assert_eq!(size, megabytes << 20);
    let after = server.peak_memory();
    assert!(after - before < MEMORY, "peak memory of the server grew from {before} kB to {after} kB");
    assert!(together > 0 && together < GIT_MEMORY, "the git processes used {together} kB: {each:?}");
    server.stop().await;
}

harness::tests![large_push_and_clone_use_bounded_memory];
