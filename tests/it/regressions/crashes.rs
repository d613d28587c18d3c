//! A server that is killed loses nothing it acknowledged.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, Notify};

use crate::support::git::Work;
use crate::support::process::site_scenario;

/// How often the server is killed.
const ROUNDS: u64 = 3;

site_scenario! {
    async fn acknowledged_pushes_survive_a_killed_server(site, _kind) {
        site.serve(&[]).await.stop().await;
        let work = Arc::new(Work::new().await);
        let first = work.git(&["rev-parse", "HEAD"]).await;
        site.import("p", &work.path).await;
        let acknowledged = Arc::new(Mutex::new(first.clone()));
        let mut pushed = 0;
        for round in 0..ROUNDS {
            let server = site.serve(&[]).await;
            let address = server.address("p");
            let under_way = Arc::new(Notify::new());
            let pushing = {
                let (work, acknowledged) = (Arc::clone(&work), Arc::clone(&acknowledged));
                let under_way = Arc::clone(&under_way);
                tokio::spawn(async move {
                    for count in 1.. {
                        let tip = work.commit("file", &format!("{round} {count}")).await;
                        let output = work.run(&["push", "--quiet", &address, "main"]).await;
                        if !output.status.success() {
                            return count - 1;
                        }
                        *acknowledged.lock().await = tip;
                        under_way.notify_one();
                    }
                    0
                })
            };
            // At some moment after the first push, whatever the server is doing then.
            let first = tokio::time::timeout(Duration::from_secs(30), under_way.notified());
            first.await.expect("a push that is acknowledged");
            tokio::time::sleep(Duration::from_millis(60 + 137 * round)).await;
            server.kill().await;
            pushed += pushing.await.unwrap();

            let server = site.serve(&[]).await;
            let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
            let tip = listed.split_whitespace().next().unwrap().to_owned();
            let known = acknowledged.lock().await.clone();
            work.git(&["merge-base", "--is-ancestor", &known, &tip]).await;
            // A transfer from end to end shows that every object is there.
            let clones = Work::empty();
            clones.git(&["clone", "--quiet", "--bare", &server.address("p"), "c"]).await;
            clones.below("c").git(&["fsck", "--full"]).await;
            server.stop().await;
            let said = site.succeeds(&["doctor"]).await;
            assert_eq!(said, "Projects: 1. Problems: 0.\n");
        }
        assert!(pushed > 0, "no push was ever acknowledged");
    }
}
