//! Forks of projects.

mod copies;

use git::RepositoryId;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::git::{Work, address};
use crate::support::spaces::{group, join, project};
use crate::support::{TestServer, on_every_database};

async fn fork_is_created_at_once_and_imported_by_a_job(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    source.git(&["tag", "v1", "main~1"]);
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    let id = fork["id"].as_i64().expect("an id");
    assert_eq!((&fork["path_with_namespace"], &fork["import_status"]), (&json!("ada/source"), &json!("scheduled")));
    assert_eq!((&fork["forked_from_project"]["id"], &fork["import_error"]), (&json!(source.id), &Value::Null));
    assert_eq!((&fork["visibility"], &fork["creator_id"]), (&json!("public"), &json!(ada.id)));
    ada.client.get(&format!("/projects/{id}/repository/branches")).await.expect(404);
    server.finish_jobs().await;
    let one = format!("/projects/{id}");
    let read = ada.client.get(&format!("{one}?statistics=true")).await.expect(200).json();
    assert_eq!((&read["import_status"], &read["default_branch"]), (&json!("finished"), &json!("main")));
    assert_eq!(read["statistics"]["commit_count"], 2);
    assert!(read["statistics"]["repository_size"].as_i64() > Some(0));
    let names = ada.client.get(&format!("{one}/repository/branches")).await.expect(200).pluck("name");
    assert_eq!(names, ["feature/x", "main", "merged"]);
    assert_eq!(ada.client.get(&format!("{one}/repository/tags")).await.expect(200).pluck("name"), ["v1"]);
    let protected = ada.client.get(&format!("{one}/repository/branches/main")).await.expect(200).json();
    assert_eq!(protected["protected"], true);
    assert_eq!(root.get(&format!("/projects/{}", source.id)).await.expect(200).json()["forks_count"], 1);
    // The user who forked can push, and the source is unchanged.
    let work = Work::empty();
    let url = address(&server.base, "ada", &ada.token, "ada/source");
    work.git(&["clone", "--quiet", &url, "c"]).await;
    let copy = work.below("c");
    copy.commit("new", "1").await;
    copy.git(&["push", "--quiet", "origin", "main"]).await;
    assert_eq!(
        root.get(&format!("/projects/{}/repository/commits", source.id))
            .await
            .expect(200)
            .json()
            .as_array()
            .map(Vec::len),
        Some(2)
    );
}

async fn fork_remains_after_deletion_of_its_source(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Public).await;
    let ada = server.create_user("ada").await;
    let fork = ada.client.post(&format!("/projects/{}/fork", source.id), json!({})).await.expect(201).json();
    server.finish_jobs().await;
    root.delete(&format!("/projects/{}", source.id)).await.expect(202);
    server.finish_jobs().await;
    let id = fork["id"].as_i64().expect("an id");
    let read = ada.client.get(&format!("/projects/{id}")).await.expect(200).json();
    assert!(read.get("forked_from_project").is_none());
    assert_eq!(server.repository(id).fsck().await.expect("a check"), [""; 0]);
    let file = ada.client.get(&format!("/projects/{id}/repository/files/README.md?ref=main")).await.expect(200);
    assert_eq!(file.json()["size"], 13);
}

async fn interrupted_fork_job_is_completed_by_the_next_run(server: TestServer) {
    use domain::spaces::jobs::fork_repository::ForkRepository;
    use domain::spaces::projects::forks;
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let fork = root.post(&format!("/projects/{}/fork", source.id), json!({"path": "copy", "name": "copy"})).await;
    let id = fork.expect(201).json()["id"].as_i64().expect("an id");
    // The repository was copied, but the database was not updated.
    let (from, to) = (RepositoryId::of_project(source.id), RepositoryId::of_project(id));
    server.backend.repositories.fork(&from, &to).await.expect("a copy");
    let job = ForkRepository { project_id: id, source_id: source.id, user_id: None };
    for _ in 0..2 {
        forks::copy_repository(&server.backend, &job).await.expect("a run");
    }
    let read = root.get(&format!("/projects/{id}")).await.expect(200).json();
    assert_eq!((&read["import_status"], &read["default_branch"]), (&json!("finished"), &json!("main")));
}

async fn fork_of_missing_repository_fails_with_import_error(server: TestServer) {
    use domain::spaces::jobs::fork_repository::ForkRepository;
    use domain::spaces::projects::forks;
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let fork = root.post(&format!("/projects/{}/fork", source.id), json!({"path": "copy", "name": "copy"})).await;
    let id = fork.expect(201).json()["id"].as_i64().expect("an id");
    server.backend.repositories.remove(&RepositoryId::of_project(source.id)).await.expect("a removal");
    let job = ForkRepository { project_id: id, source_id: source.id, user_id: None };
    assert!(forks::copy_repository(&server.backend, &job).await.is_err());
    forks::mark_failed(&server.backend, &job).await.expect("giving up");
    let read = root.get(&format!("/projects/{id}")).await.expect(200).json();
    assert_eq!(read["import_status"], "failed");
    assert!(read["import_error"].is_string());
    assert_eq!(root.get(&format!("/projects/{id}/repository/branches")).await.expect(200).json(), json!([]));
}

async fn fork_requires_permission_in_source_and_target(server: TestServer) {
    let root = server.root();
    let source = Project::with_commits(&server, "source", Visibility::Private).await;
    let fork = format!("/projects/{}/fork", source.id);
    let (guest, reporter) = (server.create_user("guest").await, server.create_user("reporter").await);
    server.insert_member(source.id, guest.id, AccessLevel::Guest).await;
    server.insert_member(source.id, reporter.id, AccessLevel::Reporter).await;
    server.anonymous().post(&fork, json!({})).await.expect(401);
    guest.client.post(&fork, json!({})).await.expect(404);
    server.create_user("stranger").await.client.post(&fork, json!({})).await.expect(404);
    let hidden = group(&root, "hidden", json!({})).await;
    let visible = group(&root, "seen", json!({"visibility": "public"})).await;
    for namespace in [json!(hidden), json!(visible), json!(999_999)] {
        let rejected = reporter.client.post(&fork, json!({"namespace_id": namespace})).await.expect(404);
        assert_eq!(rejected.message(), "404 Target Namespace Not Found");
    }
    reporter.client.post(&fork, json!({"namespace_path": "none"})).await.expect(404);
    reporter.client.post(&fork, json!({"visibility": "public"})).await.expect(400);
    reporter.client.post(&fork, json!({"path": "-x"})).await.expect(400);
    reporter.client.post(&fork, json!({"x": "y".repeat(1 << 20)})).await.expect(413);
    let narrow = server.create_token(reporter.id, &["read_api"]).await;
    server.with_token(&narrow).post(&fork, json!({})).await.expect(403);
    let created = reporter.client.post(&fork, json!({})).await.expect(201).json();
    assert_eq!(created["visibility"], "private");
    let taken = reporter.client.post(&fork, json!({})).await.expect(409);
    assert_eq!(taken.message(), "name has already been taken, path has already been taken");
    root.put(&format!("/projects/{}", source.id), json!({"forking_access_level": "disabled"})).await.expect(200);
    reporter.client.post(&fork, json!({"path": "other", "name": "other"})).await.expect(404);
}

async fn fork_uses_given_namespace_path_and_attributes(server: TestServer) {
    let root = server.root();
    let source = project(&root, "source", json!({"visibility": "public", "tag_list": "a,b", "description": "D"})).await;
    let team = group(&root, "team", json!({"visibility": "internal"})).await;
    let fork = format!("/projects/{source}/fork");
    for (number, body) in [
        json!({"namespace_id": team, "namespace_path": "root"}),
        json!({"namespace_path": "TEAM", "namespace": "root"}),
        json!({"namespace": team.to_string()}),
        json!({"namespace": "team", "description": "Other", "visibility": "private"}),
    ]
    .into_iter()
    .enumerate()
    {
        let mut body = body;
        body["path"] = json!(format!("p{number}"));
        body["name"] = json!(format!("Fork {number}"));
        let created = root.post(&fork, body).await.expect(201).json();
        assert_eq!(created["path_with_namespace"], format!("team/p{number}"));
        assert_eq!(created["tag_list"], json!(["a", "b"]));
        let (description, visibility) = if number == 3 { ("Other", "private") } else { ("D", "internal") };
        assert_eq!((&created["description"], &created["visibility"]), (&json!(description), &json!(visibility)));
    }
    server.finish_jobs().await;
    // The fork of an empty repository is empty.
    let forks = root.get(&format!("/projects/{source}/forks?order_by=id&sort=asc")).await.expect(200);
    assert_eq!(forks.pluck("path"), ["p0", "p1", "p2", "p3"]);
    assert_eq!(forks.pluck("import_status"), ["finished"; 4]);
    assert_eq!(forks.pluck("default_branch"), [Value::Null, Value::Null, Value::Null, Value::Null]);
}

async fn list_forks_returns_visible_forks_only(server: TestServer) {
    let root = server.root();
    let source = project(&root, "source", json!({"visibility": "public"})).await;
    for (path, visibility) in [("one", "public"), ("two", "private"), ("three", "internal")] {
        root.post(&format!("/projects/{source}/fork"), json!({"path": path, "name": path, "visibility": visibility}))
            .await
            .expect(201);
    }
    project(&root, "other", json!({"visibility": "public"})).await;
    let list = format!("/projects/{source}/forks?order_by=id&sort=asc");
    let ada = server.create_user("ada").await;
    let anonymous = server.anonymous().get(&list).await.expect(200);
    assert_eq!((anonymous.pluck("path"), anonymous.json()[0].get("visibility")), (vec![json!("one")], None));
    assert_eq!(ada.client.get(&list).await.expect(200).pluck("path"), ["one", "three"]);
    assert_eq!(root.get(&format!("{list}&search=w")).await.expect(200).pluck("path"), ["two"]);
    assert_eq!(root.get(&format!("{list}&per_page=1&page=2")).await.expect(200).header("x-total"), "3");
    let keyset = root.get(&format!("{list}&pagination=keyset&per_page=2")).await.expect(200);
    assert!(keyset.header("links").contains("id_after="));
    root.get(&format!("/projects/{source}/forks?pagination=keyset")).await.expect(405);
    root.get(&format!("{list}&visibility=open")).await.expect(400);
    server.with_token("wrong").get(&list).await.expect(401);
    let narrow = server.create_token(ada.id, &["read_user"]).await;
    server.with_token(&narrow).get(&list).await.expect(403);
    server.anonymous().get("/projects/999999/forks").await.expect(404);
}

async fn fork_relation_can_be_created_and_deleted(server: TestServer) {
    let root = server.root();
    let a = project(&root, "a", json!({})).await;
    let b = project(&root, "b", json!({})).await;
    let relation = format!("/projects/{b}/fork");
    root.delete(&relation).await.expect(304);
    let created = root.post(&format!("{relation}/{a}"), json!({})).await.expect(201).json();
    assert_eq!(created["forked_from_project"]["id"], a);
    assert_eq!(root.get(&format!("/projects/{a}")).await.expect(200).json()["forks_count"], 1);
    assert_eq!(
        root.post(&format!("{relation}/root%2Fa"), json!({})).await.expect(409).message(),
        "Project already forked"
    );
    root.post(&format!("/projects/{a}/fork/{b}"), json!({})).await.expect(400);
    root.post(&format!("/projects/{a}/fork/{a}"), json!({})).await.expect(400);
    root.post(&format!("/projects/{a}/fork/999999"), json!({})).await.expect(404);
    let ada = server.create_user("ada").await;
    join(&root, &format!("/projects/{b}"), ada.id, 40).await;
    ada.client.delete(&relation).await.expect(403);
    ada.client.post(&format!("{relation}/{a}"), json!({})).await.expect(404);
    let dev = server.create_user("dev").await;
    join(&root, &format!("/projects/{b}"), dev.id, 30).await;
    dev.client.post(&format!("{relation}/{a}"), json!({})).await.expect(403);
    server.anonymous().post(&format!("{relation}/{a}"), json!({})).await.expect(401);
    server.anonymous().delete(&relation).await.expect(401);
    server.create_user("eve").await.client.delete(&relation).await.expect(404);
    root.delete("/projects/a%00b%2Fc/fork").await.expect(400);
    root.delete(&relation).await.expect(204);
    assert_eq!(root.get(&format!("/projects/{a}")).await.expect(200).json()["forks_count"], 0);
    assert!(root.get(&format!("/projects/{b}")).await.expect(200).json().get("forked_from_project").is_none());
}

on_every_database![
    fork_is_created_at_once_and_imported_by_a_job,
    fork_remains_after_deletion_of_its_source,
    interrupted_fork_job_is_completed_by_the_next_run,
    fork_of_missing_repository_fails_with_import_error,
    fork_requires_permission_in_source_and_target,
    fork_uses_given_namespace_path_and_attributes,
    list_forks_returns_visible_forks_only,
    fork_relation_can_be_created_and_deleted,
];
