//! Several servers on one PostgreSQL and one data directory.

use crate::support::Kind;
use crate::support::git::Work;
use crate::support::process::Site;

/// How many commits each node brings.
const COMMITS: usize = 6;

#[tokio::test]
async fn no_update_is_lost_between_two_nodes() {
    let Some(kind) = Kind::postgresql() else { return };
    let site = Site::new(&kind).await;
    let nodes = [site.serve(&[]).await, site.serve(&[]).await];
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let mut writers = tokio::task::JoinSet::new();
    for (number, node) in nodes.iter().enumerate() {
        let address = node.address("p");
        writers.spawn(async move {
            let clones = Work::empty();
            clones.git(&["clone", "--quiet", &address, "c"]).await;
            let clone = clones.below("c");
            let mut refused = 0;
            for count in 0..COMMITS {
                clone.commit(&format!("{number}-{count}"), "x").await;
                while !clone
                    .run(&["push", "--quiet", "origin", "main"])
                    .await
                    .status
                    .success()
                {
                    refused += 1;
                    assert!(refused < 200, "no push gets through");
                    clone
                        .git(&["pull", "--quiet", "--rebase", "origin", "main"])
                        .await;
                }
            }
        });
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    for node in &nodes {
        let clones = Work::empty();
        clones.git(&["clone", "--quiet", &node.address("p"), "c"]).await;
        let clone = clones.below("c");
        let files = clone.git(&["ls-tree", "--name-only", "HEAD"]).await;
        assert_eq!(files.lines().count(), 1 + nodes.len() * COMMITS, "{files}");
        let commits = clone.git(&["rev-list", "--count", "HEAD"]).await;
        assert_eq!(commits, (1 + nodes.len() * COMMITS).to_string());
    }
    for node in nodes {
        node.stop().await;
    }
    site.succeeds(&["doctor"]).await;
    site.remove().await;
}
