//! Importing groups from archives.

use domain::transfers::sweep;
use holdfast::config::ConfigOptions;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{group_imports, settings, todos};

use super::{Draft, attributes, export, files, import, member, records, send, stored_archives, unmapped};
use crate::support::spaces::{group, join};
use crate::support::{Client, TestServer, on_every_database};

async fn import_creates_group_at_once_and_fills_it_by_job(server: TestServer) {
    let ada = server.create_user("ada").await;
    let labels = [json!({"title": "bug", "color": "#ff0000", "description": null})];
    let archive = Draft::new().with_subgroup(8, 7, "sub").with_records(7, "labels", labels).packed();
    let part = Part::bytes(archive).file_name("file.tar.gz");
    let form = Form::new().text("name", "New Name").text("path", "new-path").part("file", part);
    let request = ada.client.request(Method::POST, "/groups/import").multipart(form);
    let response = ada.client.send(request).await.expect(202);
    assert_eq!(response.json(), json!({"message": "202 Accepted"}));
    let created = ada.client.get("/groups/new-path").await.expect(200).json();
    assert_eq!(
        (&created["name"], &created["visibility"], &created["parent_id"]),
        (&json!("New Name"), &json!("private"), &json!(null))
    );
    let one = format!("/groups/{}", created["id"]);
    let status = ada.client.get(&format!("{one}/import")).await.expect(200).json();
    assert_eq!((&status["import_status"], &status["groups_count"]), (&json!("scheduled"), &json!(0)));
    assert_eq!(ada.client.get(&format!("{one}/labels")).await.expect(200).json(), json!([]));
    server.finish_jobs().await;
    let status = ada.client.get(&format!("{one}/import")).await.expect(200).json();
    let figures = ["import_status", "import_error", "groups_count", "imported_groups_count", "unmapped_count"];
    assert_eq!(
        figures.map(|name| status[name].clone()),
        [json!("finished"), json!(null), json!(2), json!(2), json!(0)]
    );
    assert_eq!(ada.client.get(&format!("{one}/labels")).await.expect(200).pluck("name"), ["bug"]);
    let sub = ada.client.get("/groups/new-path%2Fsub").await.expect(200).json();
    let none = ada.client.get(&format!("/groups/{}/import", sub["id"])).await.expect(200).json();
    assert_eq!((&none["import_status"], &none["created_at"]), (&json!("none"), &json!(null)));
    let members = ada.client.get(&format!("{one}/members")).await.expect(200).json();
    assert_eq!((&members[0]["username"], &members[0]["access_level"]), (&json!("ada"), &json!(50)));
    assert_eq!(stored_archives(&server).await.len(), 0);
}

async fn import_rejects_invalid_parameters_without_creating_group(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let ada_group = group(&ada.client, "hers", json!({})).await;
    let archive = || Draft::new().packed();
    let file = || Part::bytes(archive()).file_name("x.tar.gz");
    for (form, text) in [
        (Form::new().text("path", "a").part("file", file()), "name is missing"),
        (Form::new().text("name", "a").part("file", file()), "path is missing"),
        (Form::new().text("name", "a").text("path", "a"), "file is missing"),
        (Form::new().text("name", "a").text("path", "a").text("file", "x"), "file is invalid"),
    ] {
        let request = root.request(Method::POST, "/groups/import").multipart(form);
        let message = root.send(request).await.expect(400).message();
        assert!(message.contains(text), "{message}");
    }
    let message = send(&ada.client, "hers", None, archive()).await.expect(400).message();
    assert_eq!(message, "Failed to save group {:path=>[\"has already been taken\"]}");
    let message = send(&ada.client, "-x", None, archive()).await.expect(400).message();
    assert!(message.starts_with("Failed to save group {:name=>"), "{message}");
    let message = send(&ada.client, "a", None, b"PK no archive".to_vec()).await.expect(400).message();
    assert!(message.contains("compressed with gzip"), "{message}");
    send(&ada.client, "a", None, Vec::new()).await.expect(400);
    let bob = server.create_user("bob").await;
    send(&bob.client, "a", Some(ada_group), archive()).await.expect(404);
    join(&ada.client, &format!("/groups/{ada_group}"), bob.id, 30).await;
    send(&bob.client, "a", Some(ada_group), archive()).await.expect(403);
    send(&server.anonymous(), "a", None, archive()).await.expect(401);
    server.finish_jobs().await;
    let imports = group_imports::Entity::find().count(server.backend.database.read()).await;
    assert_eq!((imports.expect("a count"), stored_archives(&server).await.len()), (0, 0));
    assert_eq!(root.get("/groups").await.expect(200).pluck("path"), ["hers"]);
}

async fn import_accepts_trailing_zeros(server: TestServer) {
    let root = server.root();
    let padded = [Draft::new().packed(), vec![0; 10_240]].concat();
    let (_, status) = import(&server, &root, "a", None, padded).await;
    assert_eq!((&status["import_status"], &status["import_error"]), (&json!("finished"), &json!(null)));
}

async fn import_accepts_archives_above_attachment_limit(server: TestServer) {
    let root = server.root();
    settings::put(server.backend.database.write(), "max_attachment_size", "1").await.expect("a setting");
    let noise = || (0..64 << 10).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect::<String>();
    let milestones =
        (1..41).map(|n| json!({"iid": n, "title": n.to_string(), "state": "active", "description": noise()}));
    let archive = Draft::new().with_records(7, "milestones", milestones).packed();
    assert!(archive.len() > 1 << 20, "{}", archive.len());
    let (_, status) = import(&server, &root, "a", None, archive).await;
    assert_eq!((&status["import_status"], &status["import_error"]), (&json!("finished"), &json!(null)));
}

async fn import_rate_limit_returns_429(server: TestServer) {
    let ada = server.create_user("ada").await;
    for number in 0..6 {
        send(&ada.client, &format!("g{number}"), None, Draft::new().packed()).await.expect(202);
        server.finish_jobs().await;
    }
    send(&ada.client, "g6", None, Draft::new().packed()).await.expect(429);
}

async fn concurrent_import_of_same_user_returns_409(server: TestServer) {
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    let begin = async |client: &Client, path: &str| send(client, path, None, Draft::new().packed()).await;
    begin(&ada.client, "a").await.expect(202);
    let message = begin(&ada.client, "b").await.expect(409).message();
    assert_eq!(message, "You already have an import in progress; wait until it finishes");
    ada.client.get("/groups/b").await.expect(404);
    assert_eq!(stored_archives(&server).await.len(), 1);
    // The limit also applies to concurrent requests.
    let (one, other) = tokio::join!(begin(&eve.client, "c"), begin(&eve.client, "d"));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!((statuses, stored_archives(&server).await.len()), ([202, 409], 2));
    server.finish_jobs().await;
    begin(&ada.client, "b").await.expect(202);
}

async fn import_reuses_labels_and_milestones_of_ancestors(server: TestServer) {
    let root = server.root();
    let top = group(&root, "parent", json!({})).await;
    root.post(&format!("/groups/{top}/labels"), json!({"name": "bug", "color": "#111111"})).await.expect(201);
    root.post(&format!("/groups/{top}/milestones"), json!({"title": "v1"})).await.expect(201);
    let label = |title: &str| json!({"title": title, "color": "#222222"});
    let milestone = |iid: i64, title: &str| json!({"iid": iid, "title": title, "state": "active"});
    let boards = [
        json!({"name": "Plan", "milestone": {"title": "v1"}, "lists": [{"list_type": "label", "label": {"title": "bug"}}]}),
    ];
    let epics = [
        json!({"id": 3, "iid": 1, "title": "One", "state_id": "opened", "labels": [{"title": "bug", "color": "#222222"}]}),
    ];
    // Titles that occur in two groups of the archive are both created, as the API allows in this order.
    let archive = Draft::new()
        .with_subgroup(8, 7, "low")
        .with_records(7, "labels", [label(" bug"), label("own")])
        .with_records(7, "milestones", [milestone(1, "v1"), milestone(2, "v2")])
        .with_records(7, "boards", boards)
        .with_records(7, "epics", epics)
        .with_records(8, "labels", [label("bug"), label("own")])
        .with_records(8, "milestones", [milestone(1, "v1")]);
    let (id, status) = import(&server, &root, "fresh", Some(top), archive.clone().packed()).await;
    assert_eq!(status["import_status"], "finished");
    let noted: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(noted, ["milestone v1", "label bug", "milestone v1", "label bug"]);
    let own = async |at: &str, noteables: &str, key: &str| {
        root.get(&format!("/groups/{at}/{noteables}?include_ancestor_groups=false&include_parent_milestones=false"))
            .await
            .expect(200)
            .pluck(key)
    };
    assert_eq!(own(&id.to_string(), "labels", "name").await, ["own"]);
    assert_eq!(own(&id.to_string(), "milestones", "title").await, ["v2"]);
    assert_eq!(own("parent%2Ffresh%2Flow", "labels", "name").await, ["own"]);
    assert_eq!(own("parent%2Ffresh%2Flow", "milestones", "title").await, [] as [&str; 0]);
    // References resolve to the ancestors' rows.
    let board = root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0].clone();
    assert_eq!((&board["milestone"]["title"], &board["lists"][0]["label"]["color"]), (&json!("v1"), &json!("#111111")));
    assert_eq!(root.get(&format!("/groups/{id}/epics/1")).await.expect(200).json()["labels"], json!(["bug"]));
    // Outside of the parent group all are created.
    let (_, status) = import(&server, &root, "alone", None, archive.packed()).await;
    assert_eq!((&status["import_status"], &status["unmapped"]), (&json!("finished"), &json!([])));
}

/// The description of a label or a milestone can be long, and an archive can refer to many of them.
async fn import_does_not_read_descriptions_of_labels_and_milestones(server: TestServer) {
    let root = server.root();
    let top = group(&root, "parent", json!({})).await;
    let label = json!({"name": "bug", "color": "#111111", "description": "x".repeat(60_000)});
    root.post(&format!("/groups/{top}/labels"), label).await.expect(201);
    let milestone = json!({"title": "v1", "description": "x".repeat(60_000)});
    root.post(&format!("/groups/{top}/milestones"), milestone).await.expect(201);
    let boards = [
        json!({"name": "Plan", "milestone": {"title": "v1"}, "lists": [{"list_type": "label", "label": {"title": "bug"}}]}),
    ];
    let epics = [
        json!({"id": 3, "iid": 1, "title": "One", "state_id": "opened", "labels": [{"title": "bug", "color": "#222222"}]}),
    ];
    let archive = Draft::new().with_records(7, "boards", boards).with_records(7, "epics", epics);
    let before = server.statements();
    let (_, status) = import(&server, &root, "fresh", Some(top), archive.packed()).await;
    assert_eq!((&status["import_status"], &status["unmapped"]), (&json!("finished"), &json!([])));
    let texts = server.statement_texts(before);
    for table in ["labels", "milestones"] {
        let (source, column) = (format!("FROM \"{table}\""), format!("\"{table}\".\"description\""));
        assert!(texts.iter().any(|text| text.contains(&source)), "{texts:?}");
        let read: Vec<&String> = texts.iter().filter(|text| text.contains(&column)).collect();
        assert!(read.is_empty(), "{read:?}");
    }
}

async fn import_caps_visibility_at_parent_and_instance(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let open = group(&ada.client, "open", json!({"visibility": "public"})).await;
    let mut archive =
        Draft::new().with_subgroup(8, 7, "public").with_subgroup(9, 8, "internal").with_subgroup(10, 7, "private");
    for (id, parent, path, level) in [(8, 7, "public", 20), (9, 8, "internal", 10), (10, 7, "private", 0)] {
        let mut described = attributes(id, Some(parent), path);
        described["visibility_level"] = json!(level);
        archive = archive.with(&format!("tree/groups/{id}.json"), described.to_string());
    }
    let shown = async |path: &str| {
        let group = root.get(&format!("/groups/{}", path.replace('/', "%2F"))).await.expect(200);
        group.json()["visibility"].as_str().expect("a word").to_owned()
    };
    import(&server, &ada.client, "a", Some(open), archive.clone().packed()).await;
    for (path, visibility) in [
        ("open/a", "public"),
        ("open/a/public", "public"),
        ("open/a/public/internal", "internal"),
        ("open/a/private", "private"),
    ] {
        assert_eq!(shown(path).await, visibility, "{path}");
    }
    let (_, status) = import(&server, &ada.client, "b", None, archive.clone().packed()).await;
    assert_eq!([shown("b").await, shown("b/public/internal").await], ["private", "private"]);
    let lowered: Vec<_> =
        unmapped(&status).into_iter().map(|(kind, name, reason)| format!("{kind} {name} {reason}")).collect();
    assert_eq!(
        lowered,
        [
            "visibility top/public lowered from public to private",
            "visibility top/public/internal lowered from internal to private",
        ]
    );
    let restricted = json!({"restricted_visibility_levels": ["public"]});
    root.put("/application/settings", restricted).await.expect(200);
    import(&server, &ada.client, "c", Some(open), archive.packed()).await;
    assert_eq!([shown("open/c").await, shown("open/c/public").await], ["internal", "internal"]);
}

async fn import_keeps_share_lock_of_parent(server: TestServer) {
    let root = server.root();
    let top = group(&root, "parent", json!({"share_with_group_lock": true})).await;
    let (ada, eve) = (server.create_user("ada").await, server.create_user("eve").await);
    join(&root, &format!("/groups/{top}"), ada.id, 40).await;
    join(&root, &format!("/groups/{top}"), eve.id, 50).await;
    let unlocked = |id: i64, parent: Option<i64>, path: &str| {
        let mut group = attributes(id, parent, path);
        group["share_with_group_lock"] = json!(false);
        group.to_string()
    };
    let archive = Draft::new()
        .with_subgroup(8, 7, "low")
        .with("tree/groups/7.json", unlocked(7, None, "top"))
        .with("tree/groups/8.json", unlocked(8, Some(7), "low"));
    for (client, path, locked) in [(&ada.client, "hers", true), (&eve.client, "theirs", false)] {
        let (_, status) = import(&server, client, path, Some(top), archive.clone().packed()).await;
        assert_eq!(status["import_status"], "finished");
        let noted: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
        assert_eq!(noted, vec!["setting share_with_group_lock"; if locked { 2 } else { 0 }]);
        for below in ["", "%2Flow"] {
            let group = root.get(&format!("/groups/parent%2F{path}{below}")).await.expect(200).json();
            assert_eq!(group["share_with_group_lock"], locked, "{path}{below}");
        }
    }
}

async fn import_creates_no_todos_notes_or_mentions(server: TestServer) {
    let root = server.root();
    let ada = server.create_user("ada").await;
    let epics = [json!({
        "id": 3, "iid": 4, "title": "For @ada", "description": "See @all, &4 and #1", "state": "opened",
    })];
    let milestones = [json!({"iid": 2, "title": "For @ada", "state": "active"})];
    let members = [member(5, "ada@example.com", 30)];
    let archive = Draft::new()
        .with_records(7, "epics", epics)
        .with_records(7, "milestones", milestones)
        .with_records(7, "members", members);
    let (id, status) = import(&server, &root, "fresh", None, archive.packed()).await;
    assert_eq!((&status["import_status"], &status["unmapped"]), (&json!("finished"), &json!([])));
    let epic = ada.client.get(&format!("/groups/{id}/epics/4")).await.expect(200).json();
    assert_eq!((&epic["title"], &epic["author"]["username"]), (&json!("For @ada"), &json!("root")));
    assert_eq!(ada.client.get("/todos").await.expect(200).json(), json!([]));
    let all = todos::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(all.expect("a count"), 0);
    assert_eq!(root.get(&format!("/groups/{id}/epics/{}/notes", epic["id"])).await.expect(200).json(), json!([]));
    // Later rows continue the IIDs.
    let next = root.post(&format!("/groups/{id}/epics"), json!({"title": "Next"})).await.expect(201).json();
    let milestone = root.post(&format!("/groups/{id}/milestones"), json!({"title": "Next"})).await.expect(201).json();
    assert_eq!((&next["iid"], &milestone["iid"]), (&json!(5), &json!(3)));
    // The columns for case-insensitive search are filled.
    assert_eq!(root.get(&format!("/groups/{id}/epics?search=SEE")).await.expect(200).pluck("iid"), [4]);
    assert_eq!(root.get(&format!("/groups/{id}/milestones?search=FOR")).await.expect(200).pluck("iid"), [2]);
}

async fn import_reports_unmapped_references(server: TestServer) {
    let root = server.root();
    let boards = [json!({
        "name": "Plan", "milestone": {"title": "gone"}, "assignee_id": 99, "weight": 3, "labels": [{"title": "carried", "color": "#00ff00"}],
        "lists": [
            {"list_type": "backlog", "position": null},
            {"list_type": "milestone", "position": 2, "milestone": {"title": "gone"}},
            {"list_type": "label", "position": 1, "label": {"title": "above", "color": "#0000ff"}},
            {"list_type": "label", "position": 3, "label": {"title": "above"}},
        ],
    })];
    let epics = [json!({
        "id": 3, "iid": 1, "title": "One", "state": "closed", "author_id": 98, "parent_id": 97, "labels": [{"title": "above"}],
    })];
    let archive = Draft::new().with_records(7, "boards", boards).with_records(7, "epics", epics).with_records(
        7,
        "iterations",
        [json!({"x": 1})],
    );
    let (id, status) = import(&server, &root, "fresh", None, archive.packed()).await;
    assert_eq!(status["import_status"], "finished");
    let kinds: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(
        kinds,
        ["relation iterations", "milestone gone", "board Plan", "list Plan", "list Plan", "epic One", "epic One",]
    );
    // Labels of ancestors of the exported group are imported with the records that use them.
    let labels = root.get(&format!("/groups/{id}/labels")).await.expect(200).json();
    let known: Vec<_> = labels
        .as_array()
        .expect("a list")
        .iter()
        .map(|label| (label["name"].clone(), label["color"].clone()))
        .collect();
    assert_eq!(known, [(json!("above"), json!("#0000ff")), (json!("carried"), json!("#00ff00"))]);
    let board = root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0].clone();
    assert_eq!((&board["weight"], &board["milestone"]), (&json!(3), &json!(null)));
    assert_eq!(
        (board["lists"].as_array().map(Vec::len), &board["lists"][0]["label"]["name"]),
        (Some(1), &json!("above"))
    );
    let epic = root.get(&format!("/groups/{id}/epics/1")).await.expect(200).json();
    assert_eq!(
        (&epic["state"], &epic["labels"], &epic["parent_id"]),
        (&json!("closed"), &json!(["above"]), &json!(null))
    );
}

async fn import_reads_epics_of_reference_service_format(server: TestServer) {
    let root = server.root();
    // The format of the reference service, including unsupported fields.
    let epic = |id: i64, iid: i64, parent: Value| {
        json!({
            "id": id, "milestone_id": null, "group_id": 7, "author_id": 1, "assignee_id": null, "iid": iid, "updated_by_id": null,
            "last_edited_by_id": null, "lock_version": 0, "start_date": "2026-01-31", "end_date": "2026-02-28", "last_edited_at": null,
            "created_at": "2019-11-20T17:02:09.754Z", "updated_at": "2019-11-20T18:38:40.054Z", "title": "Provident neque",
            "description": "Fugit", "start_date_sourcing_milestone_id": null, "due_date_sourcing_milestone_id": null,
            "start_date_fixed": null, "due_date_fixed": null, "start_date_is_fixed": null, "due_date_is_fixed": null, "closed_by_id": null,
            "closed_at": null, "parent_id": parent, "relative_position": null, "state_id": "opened", "start_date_sourcing_epic_id": null,
            "due_date_sourcing_epic_id": null, "notes": [{"id": 44170, "note": "added", "author": {"name": "Administrator"}}],
            "parent": {"id": 13622, "state_id": "opened", "title": "Provident neque"}, "award_emoji": [{"id": 12, "name": "thumbsup"}],
        })
    };
    let mut closed = epic(13623, 2, json!(13622));
    closed["state_id"] = json!("closed");
    let archive = Draft::new().with_records(7, "epics", [epic(13622, 1, json!(null)), closed]).packed();
    let (id, status) = import(&server, &root, "fresh", None, archive).await;
    assert_eq!((&status["import_status"], &status["import_error"]), (&json!("finished"), &json!(null)));
    let part = root.get(&format!("/groups/{id}/epics/2")).await.expect(200).json();
    assert_eq!(
        (&part["state"], &part["start_date"], &part["due_date"]),
        (&json!("closed"), &json!("2026-01-31"), &json!("2026-02-28"))
    );
    let above = root.get(&format!("/groups/{id}/epics/1")).await.expect(200).json();
    assert_eq!((&above["state"], &part["parent_id"]), (&json!("opened"), &above["id"]));
    let again = files(&export(&server, &root, id).await);
    let epics = records(&again, &format!("tree/groups/{id}/epics.ndjson"));
    assert_eq!((&epics[1]["state_id"], &epics[1]["end_date"]), (&json!("closed"), &json!("2026-02-28")));
    assert_eq!((epics[1].get("state"), epics[1].get("due_date")), (None, None));
}

async fn import_reports_members_without_user_and_negative_weights(server: TestServer) {
    let root = server.root();
    let members = [json!({"access_level": 30, "user": null}), json!({"access_level": 30})];
    let boards = [json!({"name": "Plan", "weight": -1})];
    let archive = Draft::new().with_records(7, "members", members).with_records(7, "boards", boards).packed();
    let (id, status) = import(&server, &root, "fresh", None, archive).await;
    assert_eq!(status["import_status"], "finished");
    let kinds: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["member unknown", "member unknown", "board Plan"]);
    assert_eq!(root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0]["weight"], json!(null));
}

async fn import_on_free_plan_skips_and_reports_epics(server: TestServer) {
    let root = server.root();
    let epics = [json!({"id": 3, "iid": 1, "title": "One", "state": "opened"})];
    let boards = [json!({
        "name": "Plan", "weight": 3, "lists": [{"list_type": "assignee", "user_id": 1}, {"list_type": "label", "label": {"title": "x"}}],
    })];
    let archive = Draft::new().with_records(7, "epics", epics).with_records(7, "boards", boards).packed();
    let (id, status) = import(&server, &root, "fresh", None, archive).await;
    let kinds: Vec<_> = unmapped(&status).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["board Plan", "list Plan", "relation epics"]);
    let board = root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0].clone();
    assert_eq!(board["lists"].as_array().map(Vec::len), Some(1));
}

async fn import_sets_epic_parents_in_batches(server: TestServer) {
    let root = server.root();
    let epic = |n: i64| {
        json!({
            "id": 100 + n, "iid": n, "title": n.to_string(), "state": "opened", "parent_id": if n > 5 { json!(100 + n % 5 + 1) } else { json!(null) },
        })
    };
    let archive = Draft::new().with_records(7, "epics", (1..=200).map(epic)).packed();
    send(&root, "fresh", None, archive).await.expect(202);
    let before = server.statements();
    server.finish_jobs().await;
    let texts = server.statement_texts(before);
    let changes = texts.iter().filter(|text| text.starts_with("UPDATE \"epics\"")).count();
    assert!((1..=4).contains(&changes), "{changes} statements");
    let mut ids = Vec::new();
    for n in 1..=5 {
        ids.push(root.get(&format!("/groups/fresh/epics/{n}")).await.expect(200).json());
    }
    assert!(ids.iter().all(|epic| epic["parent_id"].is_null()));
    for n in [6_usize, 99, 100, 101, 200] {
        let part = root.get(&format!("/groups/fresh/epics/{n}")).await.expect(200).json();
        assert_eq!(part["parent_id"], ids[n % 5]["id"], "{n}");
    }
}

async fn deleting_group_deletes_pending_import(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, Draft::new().packed()).await.expect(202);
    assert_eq!(stored_archives(&server).await.len(), 1);
    root.delete("/groups/fresh").await.expect(202);
    server.finish_jobs().await;
    assert_eq!(stored_archives(&server).await.len(), 0);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    let left = group_imports::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(left.expect("a count"), 0);
}

fn free_plan_options() -> ConfigOptions {
    ConfigOptions { plan: Some("free".to_owned()), ..ConfigOptions::default() }
}

on_every_database![
    import_creates_group_at_once_and_fills_it_by_job,
    import_rejects_invalid_parameters_without_creating_group,
    import_accepts_trailing_zeros,
    import_accepts_archives_above_attachment_limit,
    import_rate_limit_returns_429,
    concurrent_import_of_same_user_returns_409,
    import_reuses_labels_and_milestones_of_ancestors,
    import_does_not_read_descriptions_of_labels_and_milestones,
    import_caps_visibility_at_parent_and_instance,
    import_keeps_share_lock_of_parent,
    import_creates_no_todos_notes_or_mentions,
    import_reports_unmapped_references,
    import_reads_epics_of_reference_service_format,
    import_reports_members_without_user_and_negative_weights,
    import_on_free_plan_skips_and_reports_epics with free_plan_options(),
    import_sets_epic_parents_in_batches,
    deleting_group_deletes_pending_import,
];
