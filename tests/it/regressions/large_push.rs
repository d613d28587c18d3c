//! A push of any size takes a few chunks of memory.

use std::io::Write;

use rand::RngExt;

use crate::support::Kind;
use crate::support::git::Work;
use crate::support::process::Site;

/// How much is pushed.
const MEGABYTES: usize = 96;
/// How much more memory the server may take for it than before, in kilobytes.
const MEMORY: u64 = 24 * 1024;

/// The most memory that a process ever took, in kilobytes.
fn peak(id: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn large_push_and_clone_are_streamed() {
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
        for number in 0..MEGABYTES {
            // No two alike, though none needs to be random.
            chunk[0] = number as u8;
            file.write_all(&chunk).unwrap();
        }
    }
    // What a first, small exchange takes is not the question.
    work.git(&["push", "--quiet", &server.address("p"), "main:small"])
        .await;
    let before = peak(server.id());
    let tip = work.commit("note", "x").await;
    work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
    let clones = Work::empty();
    clones
        .git(&["clone", "--quiet", "--bare", &server.address("p"), "c"])
        .await;
    let clone = clones.below("c");
    assert_eq!(clone.git(&["rev-parse", "main"]).await, tip);
    let size: usize = clone
        .git(&["cat-file", "-s", "main:noise"])
        .await
        .parse()
        .unwrap();
    assert_eq!(size, MEGABYTES << 20);
    let after = peak(server.id());
    assert!(
        after - before < MEMORY,
        "the server took {before} kB before and {after} kB after"
    );
    server.stop().await;
}
