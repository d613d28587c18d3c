//! Jobs that end while the database is not available.

use std::sync::atomic::{AtomicUsize, Ordering};

use harness::postgresql::PrivateServer;

use super::*;
use crate::database::DatabaseOptions;

async fn result_of_job_is_stored_after_outage_of_database() {
    let mut server = PrivateServer::start("jobs").unwrap();
    let options = DatabaseOptions {
        acquire_timeout: Duration::from_millis(500),
        ..DatabaseOptions::default()
    };
    let db = Database::connect(&server.url(), &options).await.unwrap();
    db.migrate().await.unwrap();
    let (started, release) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let runs = Arc::new(AtomicUsize::new(0));
    let registry = {
        let (started, release, runs) = (Arc::clone(&started), Arc::clone(&release), Arc::clone(&runs));
        JobRegistry::default().handle(move |_: Greet, _| {
            let (started, release) = (Arc::clone(&started), Arc::clone(&release));
            runs.fetch_add(1, Ordering::SeqCst);
            async move {
                started.notify_one();
                release.notified().await;
                Ok(())
            }
        })
    };
    let quick = RunnerOptions {
        poll: Duration::from_millis(10),
        ..super::options()
    };
    let (stop, task) = start(&db, registry, quick);
    enqueue(db.write(), &greet("ada")).await.unwrap();
    started.notified().await;
    server.crash().unwrap();
    release.notify_one();
    // The job ends before this statement fails.
    assert!(backlog(db.read()).await.is_err());
    server.start_again().unwrap();
    let empty = async {
        while !backlog(db.read())
            .await
            .is_ok_and(|jobs| jobs.running + jobs.waiting + jobs.dead == 0)
        {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    // Much less than the lease, after which the job would run again.
    tokio::time::timeout(Duration::from_secs(40), empty)
        .await
        .unwrap();
    assert_eq!(runs.load(Ordering::SeqCst), 1);
    stop.send(()).unwrap();
    task.await.unwrap();
    db.close().await.unwrap();
}

harness::tests![requires harness::postgresql::missing; result_of_job_is_stored_after_outage_of_database];
