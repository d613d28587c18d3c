//! Recovery of ref updates of a server that was killed before recording them.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::TimeDelta;
use domain::code::ref_updates::{AbandonedUpdates, UpdateAuthority, recover, recover_repeatedly, update_refs};
use domain::kernel::ref_changes::{RefChange, RefUpdate};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter, QueryOrder};
use serde_json::json;
use storage::entities::ref_updates::{self, RefUpdateKind, RefUpdateState};
use storage::entities::{Visibility, events, now};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use super::commit;
use crate::support::code::{NewCommit, Project, file};
use crate::support::{TestServer, on_every_database};

/// Inserts the intent to update `main` and stops, as a killed server does.
async fn insert_intent(server: &TestServer, project: &Project<'_>) {
    insert_intent_of(server, project, &["refs/heads/main"]).await;
}

async fn insert_intent_of(server: &TestServer, project: &Project<'_>, references: &[&str]) {
    let waiting = || async {
        let rows = ref_updates::Entity::find().filter(ref_updates::Column::State.eq(RefUpdateState::Pending));
        rows.count(server.backend.database.read()).await.expect("a count")
    };
    let before = waiting().await;
    let backend = server.backend.clone();
    let update = RefUpdate::new(project.id, Some(1), RefUpdateKind::Push);
    let planned = references.iter().map(|&reference| reference.to_owned()).collect();
    tokio::spawn(async move {
        let never = std::future::pending::<domain::kernel::error::Result<((), Vec<RefChange>)>>();
        update_refs(&backend, update, UpdateAuthority::Server(planned), never).await
    });
    while waiting().await == before {
        tokio::task::yield_now().await;
    }
}

async fn recorded(server: &TestServer) -> Vec<(String, String)> {
    let rows = events::Entity::find()
        .filter(events::Column::Action.eq(events::EventAction::Pushed))
        .order_by_asc(events::Column::Id)
        .all(server.backend.database.read())
        .await
        .expect("events");
    let data = rows.iter().map(|row| serde_json::from_str::<serde_json::Value>(row.data.as_deref().expect("data")));
    data.map(|data| {
        let data = data.expect("JSON");
        let text = |key: &str| data[key].as_str().expect("an id").to_owned();
        (text("commit_from"), text("commit_to"))
    })
    .collect()
}

async fn recover_records_unrecorded_push_once(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let old = project.id("main");
    insert_intent(&server, &project).await;
    insert_intent(&server, &project).await;
    let new = project.import(&NewCommit { time: 1_600_000_400, changes: file("n", "n"), ..NewCommit::default() });
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 2);
    assert_eq!(recorded(&server).await, [(old, new)]);
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 0);
    let listed = server.root().get(&format!("/projects/{}/events", project.id)).await.expect(200);
    assert_eq!(listed.pluck("action_name"), ["pushed to"]);
}

async fn recover_skips_pushes_recorded_by_others(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let old = project.id("main");
    insert_intent(&server, &project).await;
    let middle = commit(&server.root(), project.id, "main", "a").await;
    let new = project.import(&NewCommit { time: 1_900_000_400, changes: file("n", "n"), ..NewCommit::default() });
    insert_intent(&server, &project).await;
    recover(&server.backend, AbandonedUpdates::All).await.expect("recovery");
    assert_eq!(recorded(&server).await, [(old, middle.clone()), (middle, new)]);
}

async fn recover_ignores_update_that_never_happened(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    insert_intent(&server, &project).await;
    recover(&server.backend, AbandonedUpdates::All).await.expect("recovery");
    assert_eq!(recorded(&server).await, []);
    assert_eq!(server.root().get("/events").await.json(), json!([]));
}

async fn updates_from_before_clock_was_set_back_are_recovered_at_start(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    insert_intent(&server, &project).await;
    project.import(&NewCommit { time: 1_600_000_400, changes: file("n", "n"), ..NewCommit::default() });
    let created = Expr::value(now() + TimeDelta::hours(3));
    let dated = ref_updates::Entity::update_many().col_expr(ref_updates::Column::CreatedAt, created);
    dated.exec(server.backend.database.write()).await.expect("an update");
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 1);
    assert_eq!(recorded(&server).await.len(), 1);
}

async fn only_old_updates_of_running_servers_are_abandoned(server: TestServer) {
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    let db = server.backend.database.write();
    insert_intent(&server, &project).await;
    project.import(&NewCommit { time: 1_600_000_400, changes: file("n", "n"), ..NewCommit::default() });
    // A push may take three hours to arrive, and three hours in Git.
    for (minutes, recovered) in [(6 * 60 + 50, 0), (7 * 60 + 10, 1)] {
        let created = Expr::value(now() - TimeDelta::minutes(minutes));
        let aged = ref_updates::Entity::update_many().col_expr(ref_updates::Column::CreatedAt, created);
        aged.exec(db).await.expect("an update");
        assert_eq!(
            recover(&server.backend, AbandonedUpdates::OldAt(now())).await.expect("recovery"),
            recovered,
            "{minutes}"
        );
        assert_eq!(recorded(&server).await.len(), recovered, "{minutes}");
    }
}

/// The server can be killed between the intent of a fork and the creation of its repository.
async fn updates_without_repository_are_recovered(server: TestServer) {
    let project = Project::empty(&server, "p", Visibility::Private).await;
    insert_intent_of(&server, &project, &["refs/heads/*", "refs/tags/*"]).await;
    insert_intent(&server, &project).await;
    server.backend.repositories.remove(&git::RepositoryId::of_project(project.id)).await.expect("a removal");
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 2);
    assert_eq!(recorded(&server).await, []);
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 0);
}

async fn damaged_repository_does_not_prevent_the_recovery_of_others(server: TestServer) {
    let damaged = Project::empty(&server, "damaged", Visibility::Private).await;
    let project = Project::with_commits(&server, "p", Visibility::Private).await;
    insert_intent_of(&server, &damaged, &["refs/heads/*"]).await;
    insert_intent(&server, &project).await;
    project.import(&NewCommit { time: 1_600_000_400, changes: file("n", "n"), ..NewCommit::default() });
    std::fs::write(damaged.directory.join("packed-refs"), "no reference\n").expect("a file");
    assert_eq!(recover(&server.backend, AbandonedUpdates::All).await.expect("recovery"), 1);
    assert_eq!(recorded(&server).await.len(), 1);
}

/// Counts the logged errors.
struct ErrorCounter(Arc<AtomicUsize>);

impl Subscriber for ErrorCounter {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::ERROR
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

async fn repeated_failure_of_recovery_is_logged_as_error_once(server: TestServer) {
    let damaged = Project::empty(&server, "damaged", Visibility::Private).await;
    insert_intent_of(&server, &damaged, &["refs/heads/*"]).await;
    std::fs::write(damaged.directory.join("packed-refs"), "no reference\n").expect("a file");
    let errors = Arc::new(AtomicUsize::new(0));
    let _guard = tracing::subscriber::set_default(ErrorCounter(Arc::clone(&errors)));
    let mut reported = HashSet::new();
    for _ in 0..3 {
        let recovered = recover_repeatedly(&server.backend, AbandonedUpdates::All, &mut reported).await;
        assert_eq!(recovered.expect("recovery"), 0);
    }
    assert_eq!((errors.load(Ordering::SeqCst), reported.len()), (1, 1));
    // The intent is forgotten when it is no longer pending.
    let deleted = ref_updates::Entity::delete_many().exec(server.backend.database.write()).await;
    deleted.expect("a deletion");
    let recovered = recover_repeatedly(&server.backend, AbandonedUpdates::All, &mut reported).await;
    assert_eq!(recovered.expect("recovery"), 0);
    assert!(reported.is_empty(), "{reported:?}");
}

on_every_database![
    repeated_failure_of_recovery_is_logged_as_error_once,
    updates_without_repository_are_recovered,
    damaged_repository_does_not_prevent_the_recovery_of_others,
    updates_from_before_clock_was_set_back_are_recovered_at_start,
    only_old_updates_of_running_servers_are_abandoned,
    recover_records_unrecorded_push_once,
    recover_skips_pushes_recorded_by_others,
    recover_ignores_update_that_never_happened,
];
