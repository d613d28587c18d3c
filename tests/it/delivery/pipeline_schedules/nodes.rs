//! Many schedules that are due in the same minute, on several nodes with one PostgreSQL database.

use std::collections::HashMap;
use std::time::Duration;

use chrono::TimeDelta;
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};
use serde_json::json;
use storage::database::{Database, DatabaseOptions};
use storage::entities::{now, pipeline_schedules as rows, pipelines};

use crate::support::Client;
use crate::support::DatabaseKind;
use crate::support::git::Work;
use crate::support::process::{Site, TOKEN};
use crate::support::spaces::id;

/// Number of due schedules.
const SCHEDULE_COUNT: i64 = 200;

/// Timeout that is longer than the lease of a job of a killed node.
const TIMEOUT: Duration = Duration::from_secs(180);

async fn due_schedules_run_once_on_three_nodes_when_one_is_killed() {
    let site = Site::migrated(&DatabaseKind::postgresql()).await;
    let first = site.serve(&[]).await;
    let client = Client::new(&first.base, Some(TOKEN));
    let owner = id(&client.get("/user").await.expect(200).json());
    let work = Work::new().await;
    site.import("p", &work.path).await;
    let project = id(&client.get("/projects/root%2Fp").await.expect(200).json());
    first.stop().await;
    // The schedules became due while no node was running. The database does not enforce the limit per project.
    let db = Database::connect(&site.database_url(), &DatabaseOptions::default()).await.expect("a database");
    let due = now() - TimeDelta::minutes(1);
    let schedules = (0..SCHEDULE_COUNT).map(|number| rows::ActiveModel {
        project_id: Set(project),
        owner_id: Set(Some(owner)),
        description: Set(number.to_string()),
        ref_name: Set("main".to_owned()),
        cron: Set("0 0 1 1 *".to_owned()),
        cron_timezone: Set("UTC".to_owned()),
        next_run_at: Set(due),
        active: Set(true),
        created_at: Set(due),
        updated_at: Set(due),
        ..Default::default()
    });
    let inserted = rows::Entity::insert_many(schedules).exec_without_returning(db.write()).await;
    inserted.expect("schedules");
    let created_pipelines = async || pipelines::Entity::find().all(db.read()).await.expect("pipelines");
    let (killed_node, second, third) = tokio::join!(site.serve(&[]), site.serve(&[]), site.serve(&[]));
    // The node is killed in any state after some schedules have run.
    let started = async {
        while created_pipelines().await.len() < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, started).await.expect("pipelines");
    killed_node.kill().await;
    let killed_at = created_pipelines().await.len();
    let finished = async {
        let due = async || rows::Entity::find().filter(rows::Column::NextRunAt.lte(now())).one(db.read()).await;
        while due().await.expect("a lookup").is_some() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, finished).await.expect("all that is due");
    let mut runs: HashMap<Option<i64>, usize> = HashMap::new();
    for pipeline in created_pipelines().await {
        assert_eq!((pipeline.scheduled_for, pipeline.user_id), (Some(due), Some(owner)));
        *runs.entry(pipeline.schedule_id).or_default() += 1;
    }
    assert_eq!((runs.len() as i64, runs.values().max()), (SCHEDULE_COUNT, Some(&1)), "killed after {killed_at}");
    // A restart runs no schedule again.
    second.stop().await;
    let again = site.serve(&[]).await;
    let client = Client::new(&again.base, Some(TOKEN));
    let list = client.get("/projects/root%2Fp/pipelines?per_page=1").await.expect(200);
    assert_eq!((list.header("x-total"), list.json()[0]["ref"].clone()), ("200", json!("main")));
    again.stop().await;
    third.stop().await;
    db.close().await.expect("a close");
    site.remove().await;
}

harness::tests![requires harness::postgresql::missing; due_schedules_run_once_on_three_nodes_when_one_is_killed];
