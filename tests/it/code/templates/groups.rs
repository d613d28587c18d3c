//! File templates of groups, stored in a project of the group.

use holdfast::config::ConfigOptions;
use sea_orm::ActiveValue::Set;
use sea_orm::{ActiveModelTrait, ColumnTrait, EntityTrait, PaginatorTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{Visibility, namespaces, projects};

use super::{content, keys};
use crate::support::spaces::{group, join, project};
use crate::support::{Client, TestServer, on_every_database};

/// Creates a project in a group with these files.
async fn create_template_project(
    server: &TestServer,
    path: &str,
    group: i64,
    visibility: &str,
    files: &[(&str, &str)],
) -> i64 {
    let root = server.root();
    let created = project(
        &root,
        path,
        json!({ "namespace_id": group, "visibility": visibility, "initialize_with_readme": true, "default_branch": "main" }),
    )
    .await;
    let actions: Vec<Value> = files
        .iter()
        .map(|(path, content)| json!({ "action": "create", "file_path": path, "content": content }))
        .collect();
    let commit = json!({ "branch": "main", "commit_message": "Keep templates", "actions": actions });
    root.post(&format!("/projects/{created}/repository/commits"), commit).await.expect(201);
    created
}

/// Sets the template project of a group and returns the stored ID.
async fn set_template_project(client: &Client, group: i64, project: impl Into<Value>) -> Value {
    let change = json!({ "file_template_project_id": project.into() });
    let changed = client.put(&format!("/groups/{group}"), change).await;
    changed.expect(200).json()["file_template_project_id"].clone()
}

/// A group, a subgroup, a project in the subgroup and the template projects of both groups.
struct Tree {
    top: i64,
    low: i64,
    work: i64,
    of_top: i64,
    of_low: i64,
}

async fn tree(server: &TestServer) -> Tree {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let low = group(&root, "low", json!({ "visibility": "public", "parent_id": top })).await;
    let work = project(&root, "work", json!({ "namespace_id": low, "visibility": "public" })).await;
    let of_top = [
        ("Dockerfile/Own.dockerfile", "FROM top\n"),
        ("Dockerfile/Rust.dockerfile", "FROM rusty\n"),
        ("Dockerfile/README.md", "No template.\n"),
        ("Dockerfile/deep/Inner.dockerfile", "FROM deep\n"),
        ("gitignore/C++.gitignore", "*.top\n"),
        ("service-ci/Ours.yml", "a: {script: [first]}\n"),
        ("gitlab-ci/Ours.yml", "a: {script: [second]}\n"),
        ("gitlab-ci/Other.yml", "a: {script: [third]}\n"),
        ("LICENSE/Company.txt", "(c) [year] {fullname}, of [project]\n"),
        ("LICENSE/mit.txt", "Ours.\n"),
        (".service/issue_templates/Bug.md", "Not of others.\n"),
    ];
    let of_low = [("Dockerfile/Own.dockerfile", "FROM low\n"), ("Dockerfile/Low.dockerfile", "FROM low\n")];
    let of_top = create_template_project(server, "templates", top, "public", &of_top).await;
    let of_low = create_template_project(server, "templates", low, "public", &of_low).await;
    assert_eq!(set_template_project(&root, top, of_top).await, of_top);
    assert_eq!(set_template_project(&root, low, of_low).await, of_low);
    Tree { top, low, work, of_top, of_low }
}

async fn group_templates_of_nearest_group_take_precedence(server: TestServer) {
    let tree = tree(&server).await;
    let (root, anonymous) = (server.root(), server.anonymous());
    let of = |project: i64, kind: &str| format!("/projects/{project}/templates/{kind}");
    let dockerfiles = of(tree.work, "dockerfiles");
    let all = keys(&anonymous, &dockerfiles).await;
    assert_eq!(all[..5], ["Low", "Own", "Rust", "Binary", "Golang"]);
    assert_eq!(all.iter().filter(|key| *key == "Rust").count(), 1);
    assert_eq!(root.get(&dockerfiles).await.expect(200).header("x-total"), all.len().to_string());
    for (key, text) in [("Own", "FROM low\n"), ("Low", "FROM low\n"), ("Rust", "FROM rusty\n")] {
        let one = anonymous.get(&format!("{dockerfiles}/{key}")).await.expect(200).json();
        assert_eq!(one, json!({ "name": key, "content": text }));
    }
    assert!(content(&anonymous, &format!("{dockerfiles}/Binary")).await.contains("scratch"));
    for key in ["README", "README.md", "Inner", "deep%2FInner", "Company"] {
        anonymous.get(&format!("{dockerfiles}/{key}")).await.expect(404);
    }
    assert_eq!(content(&anonymous, &format!("{}/C++", of(tree.work, "gitignores"))).await, "*.top\n");
    let files = of(tree.work, "service_ci_ymls");
    assert_eq!(keys(&anonymous, &files).await[..2], ["Ours", "Other"]);
    assert_eq!(content(&anonymous, &format!("{files}/Ours")).await, "a: {script: [first]}\n");
    // Template projects use group templates too. The older paths do not return them.
    assert_eq!(keys(&anonymous, &of(tree.of_low, "dockerfiles")).await, all);
    assert_eq!(keys(&anonymous, &of(tree.of_top, "dockerfiles")).await[..3], ["Own", "Rust", "Binary"]);
    assert_eq!(keys(&anonymous, "/templates/dockerfiles").await[0], "Binary");
    // Description templates belong to a single project.
    assert_eq!(keys(&anonymous, &of(tree.work, "issues")).await, [""; 0]);
    assert_eq!(keys(&anonymous, &of(tree.of_top, "issues")).await, ["Bug"]);
}

async fn group_licenses_have_name_and_content(server: TestServer) {
    let tree = tree(&server).await;
    let licenses = format!("/projects/{}/templates/licenses", tree.work);
    let anonymous = server.anonymous();
    assert_eq!(keys(&anonymous, &licenses).await[..3], ["Company", "mit", "agpl-3.0"]);
    assert_eq!(anonymous.get(&licenses).await.expect(200).json()[1], json!({ "key": "mit", "name": "mit" }));
    let year = chrono::Datelike::year(&chrono::Utc::now());
    let one = anonymous.get(&format!("{licenses}/Company?project=Engine&fullname=Ada")).await.expect(200).json();
    assert_eq!(
        one,
        json!({
            "key": "Company", "name": "Company", "nickname": null, "popular": false, "html_url": null, "source_url": null,
            "description": null, "conditions": [], "permissions": [], "limitations": [],
            "content": format!("(c) {year} Ada, of Engine\n"),
        })
    );
    assert_eq!(content(&anonymous, &format!("{licenses}/mit")).await, "Ours.\n");
    // Keys of group templates are case-sensitive; keys of built-in licenses are not.
    anonymous.get(&format!("{licenses}/company")).await.expect(404);
    assert!(content(&anonymous, &format!("{licenses}/MIT")).await.starts_with("MIT License"));
}

async fn set_template_project_requires_owner_and_project_of_group(server: TestServer) {
    let root = server.root();
    let Tree { top, low, of_top, of_low, .. } = tree(&server).await;
    let (owner, maintainer) = (server.create_user("owner").await, server.create_user("maintainer").await);
    join(&root, &format!("/groups/{top}"), owner.id, 50).await;
    join(&root, &format!("/groups/{top}"), maintainer.id, 40).await;
    let elsewhere = project(&root, "elsewhere", json!({ "visibility": "public" })).await;
    let change = |id: Value| json!({ "file_template_project_id": id });
    maintainer.client.put(&format!("/groups/{top}"), change(json!(of_top))).await.expect(403);
    // Projects of a parent group, of another namespace and missing projects are rejected.
    for (group, id) in [(low, of_top), (top, elsewhere), (top, 4_711), (top, 0), (top, -1)] {
        let rejected = owner.client.put(&format!("/groups/{group}"), change(json!(id))).await.expect(400);
        assert_eq!(
            rejected.json()["message"],
            json!({ "file_template_project_id": ["must be a project of the group"] }),
            "{id}"
        );
    }
    for wrong in [json!("x"), json!(1.5), json!([1])] {
        owner.client.put(&format!("/groups/{top}"), change(wrong)).await.expect(400);
    }
    assert_eq!(set_template_project(&owner.client, top, of_low).await, of_low);
    let shown = async |path: &str| server.anonymous().get(path).await.expect(200).json();
    assert_eq!(shown(&format!("/groups/{top}")).await["file_template_project_id"], of_low);
    let listed = shown("/groups?search=top").await;
    assert_eq!(listed[0]["file_template_project_id"], of_low);
    // The attribute is unchanged if it is not sent, and null removes it.
    owner.client.put(&format!("/groups/{top}"), json!({ "description": "x" })).await.expect(200);
    assert_eq!(shown(&format!("/groups/{top}")).await["file_template_project_id"], of_low);
    assert_eq!(set_template_project(&owner.client, top, Value::Null).await, Value::Null);
    assert_eq!(shown(&format!("/groups/{top}")).await["file_template_project_id"], Value::Null);
}

async fn group_templates_require_read_access_to_template_project(server: TestServer) {
    let Tree { top, low, work, of_top, of_low } = tree(&server).await;
    let root = server.root();
    let dockerfiles = format!("/projects/{work}/templates/dockerfiles");
    let anonymous = server.anonymous();
    let users =
        [server.create_user("stranger").await, server.create_user("guest").await, server.create_user("reporter").await];
    for (user, level) in users[1..].iter().zip([10, 20]) {
        join(&root, &format!("/groups/{top}"), user.id, level).await;
    }
    let change = async |id: i64, change: fn(&mut projects::ActiveModel)| {
        let mut row = projects::ActiveModel { id: Set(id), ..Default::default() };
        change(&mut row);
        row.update(server.backend.database.write()).await.expect("a change");
    };
    let mut clients = vec![&anonymous];
    clients.extend(users.iter().map(|user| &user.client));
    let visible_to = async |key: &str| {
        let mut found = Vec::new();
        for client in &clients {
            let listed = keys(client, &dockerfiles).await.contains(&key.to_owned());
            client.get(&format!("{dockerfiles}/{key}")).await.expect(if listed { 200 } else { 404 });
            found.push(listed);
        }
        found
    };
    assert_eq!(visible_to("Own").await, [true; 4]);
    change(of_top, |row| row.visibility = Set(Visibility::Private)).await;
    change(of_low, |row| row.visibility = Set(Visibility::Internal)).await;
    // Callers without access get the built-in template instead.
    assert_eq!(visible_to("Own").await, [false, true, true, true]);
    assert_eq!(visible_to("Rust").await, [true; 4]);
    for (client, text) in clients.iter().zip(["FROM rust:", "FROM rust:", "FROM rust:", "FROM rusty"]) {
        assert!(content(client, &format!("{dockerfiles}/Rust")).await.starts_with(text));
    }
    change(of_low, |row| row.repository_access_level = Set(projects::FeatureAccess::Private)).await;
    assert_eq!(visible_to("Low").await, [false, false, true, true]);
    change(of_low, |row| row.repository_access_level = Set(projects::FeatureAccess::Disabled)).await;
    assert_eq!(visible_to("Low").await, [false; 4]);
    change(of_low, |row| row.repository_access_level = Set(projects::FeatureAccess::Enabled)).await;
    assert_eq!(visible_to("Low").await, [false, true, true, true]);
    // A project transferred out of the group no longer provides templates.
    let other = group(&root, "other", json!({ "visibility": "public" })).await;
    root.post(&format!("/groups/{other}/projects/{of_low}"), json!({})).await.expect(201);
    assert_eq!(visible_to("Low").await, [false; 4]);
    assert_eq!(root.get(&format!("/groups/{low}")).await.expect(200).json()["file_template_project_id"], of_low);
}

async fn delete_project_clears_template_project_of_groups(server: TestServer) {
    let Tree { top, low, work, of_top, of_low } = tree(&server).await;
    let root = server.root();
    set_template_project(&root, top, of_low).await;
    // A project that left the groups remains in their settings until it is deleted.
    let other = group(&root, "other", json!({ "visibility": "public" })).await;
    root.post(&format!("/groups/{other}/projects/{of_low}"), json!({})).await.expect(201);
    root.delete(&format!("/projects/{of_low}")).await.expect(202);
    let dockerfiles = format!("/projects/{work}/templates/dockerfiles");
    assert_eq!(keys(&root, &dockerfiles).await[0], "Binary");
    server.finish_jobs().await;
    for group in [top, low] {
        assert_eq!(
            root.get(&format!("/groups/{group}")).await.expect(200).json()["file_template_project_id"],
            Value::Null
        );
    }
    let named = namespaces::Entity::find().filter(namespaces::Column::FileTemplateProjectId.is_not_null());
    assert_eq!(named.count(server.backend.database.read()).await.expect("a count"), 0);
    set_template_project(&root, top, of_top).await;
    assert_eq!(keys(&root, &dockerfiles).await[0], "Own");
}

async fn list_templates_uses_constant_number_of_statements(server: TestServer) {
    let root = server.root();
    let mut above = Value::Null;
    let mut work = 0;
    for number in 0..6 {
        let created = group(&root, &format!("g{number}"), json!({ "visibility": "public", "parent_id": above })).await;
        let path = format!("Dockerfile/T{number}.dockerfile");
        let remaining = create_template_project(&server, "kept", created, "public", &[(&path, "FROM x\n")]).await;
        set_template_project(&root, created, remaining).await;
        work = project(&root, "work", json!({ "namespace_id": created, "visibility": "public" })).await;
        above = json!(created);
    }
    let ada = server.create_user("ada").await;
    let path = format!("/projects/{work}/templates/dockerfiles");
    assert_eq!(keys(&ada.client, &path).await[..6], ["T5", "T4", "T3", "T2", "T1", "T0"]);
    let before = server.statements();
    ada.client.get(&path).await.expect(200);
    assert!(server.statements() - before <= 8);
}

async fn plans_below_premium_ignore_group_templates(server: TestServer) {
    let root = server.root();
    let top = group(&root, "top", json!({ "visibility": "public" })).await;
    let remaining =
        create_template_project(&server, "kept", top, "public", &[("Dockerfile/Own.dockerfile", "FROM top\n")]).await;
    let change = json!({ "file_template_project_id": remaining });
    let changed = root.put(&format!("/groups/{top}"), change).await.expect(200).json();
    assert_eq!(changed.get("file_template_project_id"), None);
    // A project that was set under another plan is ignored.
    let row =
        namespaces::ActiveModel { id: Set(top), file_template_project_id: Set(Some(remaining)), ..Default::default() };
    row.update(server.backend.database.write()).await.expect("a change");
    let path = format!("/projects/{remaining}/templates/dockerfiles");
    assert_eq!(keys(&root, &path).await[0], "Binary");
    root.get(&format!("{path}/Own")).await.expect(404);
    assert_eq!(root.get(&format!("/groups/{top}")).await.expect(200).json().get("file_template_project_id"), None);
}

fn plans_below_premium_ignore_group_templates_options() -> ConfigOptions {
    ConfigOptions { plan: Some("starter".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    group_templates_of_nearest_group_take_precedence,
    group_licenses_have_name_and_content,
    set_template_project_requires_owner_and_project_of_group,
    group_templates_require_read_access_to_template_project,
    delete_project_clears_template_project_of_groups,
    list_templates_uses_constant_number_of_statements,
    plans_below_premium_ignore_group_templates with plans_below_premium_ignore_group_templates_options(),
];
