//! Making groups of archives.

use holdfast::config::Options;
use holdfast::services::group_transfers::sweep;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use storage::entities::{group_imports, settings, todos};

use super::{Draft, attributes, export, files, import, kept, member, records, send, unmapped};
use crate::support::places::{group, join};
use crate::support::{Client, TestServer, on_every_database};

async fn the_group_is_there_at_once_and_is_filled_in_the_background(server: TestServer) {
    let ada = server.person("ada").await;
    let labels = [json!({"title": "bug", "color": "#ff0000", "description": null})];
    let archive = Draft::new().below(8, 7, "sub").holding(7, "labels", labels).packed();
    let part = Part::bytes(archive).file_name("file.tar.gz");
    let form = Form::new().text("name", "New Name").text("path", "new-path").part("file", part);
    let request = ada.client.request(Method::POST, "/groups/import").multipart(form);
    let answer = ada.client.send(request).await.expect(202);
    assert_eq!(answer.json(), json!({"message": "202 Accepted"}));
    let made = ada.client.get("/groups/new-path").await.expect(200).json();
    assert_eq!(
        (&made["name"], &made["visibility"], &made["parent_id"]),
        (&json!("New Name"), &json!("private"), &json!(null))
    );
    let one = format!("/groups/{}", made["id"]);
    let told = ada.client.get(&format!("{one}/import")).await.expect(200).json();
    assert_eq!((&told["import_status"], &told["groups_count"]), (&json!("scheduled"), &json!(0)));
    assert_eq!(ada.client.get(&format!("{one}/labels")).await.expect(200).json(), json!([]));
    server.finish_jobs().await;
    let told = ada.client.get(&format!("{one}/import")).await.expect(200).json();
    let figures = ["import_status", "import_error", "groups_count", "imported_groups_count", "unmapped_count"];
    assert_eq!(figures.map(|name| told[name].clone()), [json!("finished"), json!(null), json!(2), json!(2), json!(0)]);
    assert_eq!(ada.client.get(&format!("{one}/labels")).await.expect(200).pluck("name"), ["bug"]);
    let sub = ada.client.get("/groups/new-path%2Fsub").await.expect(200).json();
    let none = ada.client.get(&format!("/groups/{}/import", sub["id"])).await.expect(200).json();
    assert_eq!((&none["import_status"], &none["created_at"]), (&json!("none"), &json!(null)));
    let members = ada.client.get(&format!("{one}/members")).await.expect(200).json();
    assert_eq!((&members[0]["username"], &members[0]["access_level"]), (&json!("ada"), &json!(50)));
    assert_eq!(kept(&server).await.len(), 0);
}

async fn what_is_sent_wrongly_makes_no_group(server: TestServer) {
    let root = server.root();
    let ada = server.person("ada").await;
    let hers = group(&ada.client, "hers", json!({})).await;
    let archive = || Draft::new().packed();
    let whole = || Part::bytes(archive()).file_name("x.tar.gz");
    for (form, text) in [
        (Form::new().text("path", "a").part("file", whole()), "name is missing"),
        (Form::new().text("name", "a").part("file", whole()), "path is missing"),
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
    let bob = server.person("bob").await;
    send(&bob.client, "a", Some(hers), archive()).await.expect(404);
    join(&ada.client, &format!("/groups/{hers}"), bob.id, 30).await;
    send(&bob.client, "a", Some(hers), archive()).await.expect(403);
    send(&server.anonymous(), "a", None, archive()).await.expect(401);
    server.finish_jobs().await;
    let imports = group_imports::Entity::find().count(server.backend.database.read()).await;
    assert_eq!((imports.expect("a count"), kept(&server).await.len()), (0, 0));
    assert_eq!(root.get("/groups").await.expect(200).pluck("path"), ["hers"]);
}

async fn zeros_may_stand_behind_an_archive(server: TestServer) {
    let root = server.root();
    let padded = [Draft::new().packed(), vec![0; 10_240]].concat();
    let (_, told) = import(&server, &root, "a", None, padded).await;
    assert_eq!((&told["import_status"], &told["import_error"]), (&json!("finished"), &json!(null)));
}

async fn archives_may_be_larger_than_attachments(server: TestServer) {
    let root = server.root();
    settings::put(server.backend.database.write(), "max_attachment_size", "1").await.expect("a setting");
    let noise = || (0..64 << 10).map(|_| char::from(rand::random_range(b'a'..=b'z'))).collect::<String>();
    let milestones =
        (1..41).map(|n| json!({"iid": n, "title": n.to_string(), "state": "active", "description": noise()}));
    let archive = Draft::new().holding(7, "milestones", milestones).packed();
    assert!(archive.len() > 1 << 20, "{}", archive.len());
    let (_, told) = import(&server, &root, "a", None, archive).await;
    assert_eq!((&told["import_status"], &told["import_error"]), (&json!("finished"), &json!(null)));
}

async fn who_imports_too_often_waits(server: TestServer) {
    let ada = server.person("ada").await;
    for number in 0..6 {
        send(&ada.client, &format!("g{number}"), None, Draft::new().packed()).await.expect(202);
        server.finish_jobs().await;
    }
    send(&ada.client, "g6", None, Draft::new().packed()).await.expect(429);
}

async fn a_user_imports_one_group_at_a_time(server: TestServer) {
    let (ada, eve) = (server.person("ada").await, server.person("eve").await);
    let begin = async |client: &Client, path: &str| send(client, path, None, Draft::new().packed()).await;
    begin(&ada.client, "a").await.expect(202);
    let message = begin(&ada.client, "b").await.expect(409).message();
    assert_eq!(message, "You already have an import in progress; wait until it finishes");
    ada.client.get("/groups/b").await.expect(404);
    assert_eq!(kept(&server).await.len(), 1);
    // Not even when they are begun together.
    let (one, other) = tokio::join!(begin(&eve.client, "c"), begin(&eve.client, "d"));
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert_eq!((statuses, kept(&server).await.len()), ([202, 409], 2));
    server.finish_jobs().await;
    begin(&ada.client, "b").await.expect(202);
}

async fn what_groups_above_have_is_not_made_again(server: TestServer) {
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
    // Of two in the archive both stay, as they may where the lower one was there first.
    let archive = Draft::new()
        .below(8, 7, "low")
        .holding(7, "labels", [label(" bug"), label("own")])
        .holding(7, "milestones", [milestone(1, "v1"), milestone(2, "v2")])
        .holding(7, "boards", boards)
        .holding(7, "epics", epics)
        .holding(8, "labels", [label("bug"), label("own")])
        .holding(8, "milestones", [milestone(1, "v1")]);
    let (id, told) = import(&server, &root, "fresh", Some(top), archive.clone().packed()).await;
    assert_eq!(told["import_status"], "finished");
    let noted: Vec<_> = unmapped(&told).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(noted, ["milestone v1", "label bug", "milestone v1", "label bug"]);
    let own = async |at: &str, things: &str, key: &str| {
        root.get(&format!("/groups/{at}/{things}?include_ancestor_groups=false&include_parent_milestones=false"))
            .await
            .expect(200)
            .pluck(key)
    };
    assert_eq!(own(&id.to_string(), "labels", "name").await, ["own"]);
    assert_eq!(own(&id.to_string(), "milestones", "title").await, ["v2"]);
    assert_eq!(own("parent%2Ffresh%2Flow", "labels", "name").await, ["own"]);
    assert_eq!(own("parent%2Ffresh%2Flow", "milestones", "title").await, [] as [&str; 0]);
    // What names them means those above.
    let board = root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0].clone();
    assert_eq!((&board["milestone"]["title"], &board["lists"][0]["label"]["color"]), (&json!("v1"), &json!("#111111")));
    assert_eq!(root.get(&format!("/groups/{id}/epics/1")).await.expect(200).json()["labels"], json!(["bug"]));
    // Elsewhere all of them are made.
    let (_, told) = import(&server, &root, "alone", None, archive.packed()).await;
    assert_eq!((&told["import_status"], &told["unmapped"]), (&json!("finished"), &json!([])));
}

async fn groups_are_seen_as_far_as_the_parent_or_what_the_instance_lets(server: TestServer) {
    let root = server.root();
    let ada = server.person("ada").await;
    let open = group(&ada.client, "open", json!({"visibility": "public"})).await;
    let mut archive = Draft::new().below(8, 7, "public").below(9, 8, "internal").below(10, 7, "private");
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
    let (_, told) = import(&server, &ada.client, "b", None, archive.clone().packed()).await;
    assert_eq!([shown("b").await, shown("b/public/internal").await], ["private", "private"]);
    let lowered: Vec<_> =
        unmapped(&told).into_iter().map(|(kind, name, reason)| format!("{kind} {name} {reason}")).collect();
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

async fn the_lock_on_sharing_of_the_group_above_stays(server: TestServer) {
    let root = server.root();
    let top = group(&root, "parent", json!({"share_with_group_lock": true})).await;
    let (ada, eve) = (server.person("ada").await, server.person("eve").await);
    join(&root, &format!("/groups/{top}"), ada.id, 40).await;
    join(&root, &format!("/groups/{top}"), eve.id, 50).await;
    let unlocked = |id: i64, parent: Option<i64>, path: &str| {
        let mut group = attributes(id, parent, path);
        group["share_with_group_lock"] = json!(false);
        group.to_string()
    };
    let archive = Draft::new()
        .below(8, 7, "low")
        .with("tree/groups/7.json", unlocked(7, None, "top"))
        .with("tree/groups/8.json", unlocked(8, Some(7), "low"));
    for (client, path, locked) in [(&ada.client, "hers", true), (&eve.client, "theirs", false)] {
        let (_, told) = import(&server, client, path, Some(top), archive.clone().packed()).await;
        assert_eq!(told["import_status"], "finished");
        let noted: Vec<_> = unmapped(&told).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
        assert_eq!(noted, vec!["setting share_with_group_lock"; if locked { 2 } else { 0 }]);
        for below in ["", "%2Flow"] {
            let group = root.get(&format!("/groups/parent%2F{path}{below}")).await.expect(200).json();
            assert_eq!(group["share_with_group_lock"], locked, "{path}{below}");
        }
    }
}

async fn nothing_follows_from_what_is_imported(server: TestServer) {
    let root = server.root();
    let ada = server.person("ada").await;
    let epics = [json!({
        "id": 3, "iid": 4, "title": "For @ada", "description": "See @all, &4 and #1", "state": "opened",
    })];
    let milestones = [json!({"iid": 2, "title": "For @ada", "state": "active"})];
    let members = [member(5, "ada@example.com", 30)];
    let archive =
        Draft::new().holding(7, "epics", epics).holding(7, "milestones", milestones).holding(7, "members", members);
    let (id, told) = import(&server, &root, "fresh", None, archive.packed()).await;
    assert_eq!((&told["import_status"], &told["unmapped"]), (&json!("finished"), &json!([])));
    let epic = ada.client.get(&format!("/groups/{id}/epics/4")).await.expect(200).json();
    assert_eq!((&epic["title"], &epic["author"]["username"]), (&json!("For @ada"), &json!("root")));
    assert_eq!(ada.client.get("/todos").await.expect(200).json(), json!([]));
    let all = todos::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(all.expect("a count"), 0);
    assert_eq!(root.get(&format!("/groups/{id}/epics/{}/notes", epic["id"])).await.expect(200).json(), json!([]));
    // What is made later gets the numbers behind.
    let next = root.post(&format!("/groups/{id}/epics"), json!({"title": "Next"})).await.expect(201).json();
    let milestone = root.post(&format!("/groups/{id}/milestones"), json!({"title": "Next"})).await.expect(201).json();
    assert_eq!((&next["iid"], &milestone["iid"]), (&json!(5), &json!(3)));
    // What is folded for searching is folded.
    assert_eq!(root.get(&format!("/groups/{id}/epics?search=SEE")).await.expect(200).pluck("iid"), [4]);
    assert_eq!(root.get(&format!("/groups/{id}/milestones?search=FOR")).await.expect(200).pluck("iid"), [2]);
}

async fn what_the_archive_names_and_lacks_is_told(server: TestServer) {
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
    let archive = Draft::new().holding(7, "boards", boards).holding(7, "epics", epics).holding(
        7,
        "iterations",
        [json!({"x": 1})],
    );
    let (id, told) = import(&server, &root, "fresh", None, archive.packed()).await;
    assert_eq!(told["import_status"], "finished");
    let kinds: Vec<_> = unmapped(&told).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(
        kinds,
        ["relation iterations", "milestone gone", "board Plan", "list Plan", "list Plan", "epic One", "epic One",]
    );
    // Labels of groups above the exported one come along with those that name them.
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

async fn epics_are_read_in_the_layout_of_the_reference_service(server: TestServer) {
    let root = server.root();
    // As it writes them, with much that there is nothing for here.
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
    let archive = Draft::new().holding(7, "epics", [epic(13622, 1, json!(null)), closed]).packed();
    let (id, told) = import(&server, &root, "fresh", None, archive).await;
    assert_eq!((&told["import_status"], &told["import_error"]), (&json!("finished"), &json!(null)));
    let part = root.get(&format!("/groups/{id}/epics/2")).await.expect(200).json();
    assert_eq!(
        (&part["state"], &part["start_date"], &part["due_date"]),
        (&json!("closed"), &json!("2026-01-31"), &json!("2026-02-28"))
    );
    let above = root.get(&format!("/groups/{id}/epics/1")).await.expect(200).json();
    assert_eq!((&above["state"], &part["parent_id"]), (&json!("opened"), &above["id"]));
    let again = files(&export(&server, &root, id).await);
    let told = records(&again, &format!("tree/groups/{id}/epics.ndjson"));
    assert_eq!((&told[1]["state_id"], &told[1]["end_date"]), (&json!("closed"), &json!("2026-02-28")));
    assert_eq!((told[1].get("state"), told[1].get("due_date")), (None, None));
}

async fn a_member_without_a_user_and_a_weight_below_zero_are_left_out_and_told(server: TestServer) {
    let root = server.root();
    let members = [json!({"access_level": 30, "user": null}), json!({"access_level": 30})];
    let boards = [json!({"name": "Plan", "weight": -1})];
    let archive = Draft::new().holding(7, "members", members).holding(7, "boards", boards).packed();
    let (id, told) = import(&server, &root, "fresh", None, archive).await;
    assert_eq!(told["import_status"], "finished");
    let kinds: Vec<_> = unmapped(&told).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["member unknown", "member unknown", "board Plan"]);
    assert_eq!(root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0]["weight"], json!(null));
}

async fn a_plan_without_epics_leaves_them_out_and_says_so(server: TestServer) {
    let root = server.root();
    let epics = [json!({"id": 3, "iid": 1, "title": "One", "state": "opened"})];
    let boards = [json!({
        "name": "Plan", "weight": 3, "lists": [{"list_type": "assignee", "user_id": 1}, {"list_type": "label", "label": {"title": "x"}}],
    })];
    let archive = Draft::new().holding(7, "epics", epics).holding(7, "boards", boards).packed();
    let (id, told) = import(&server, &root, "fresh", None, archive).await;
    let kinds: Vec<_> = unmapped(&told).into_iter().map(|(kind, name, _)| format!("{kind} {name}")).collect();
    assert_eq!(kinds, ["board Plan", "list Plan", "relation epics"]);
    let board = root.get(&format!("/groups/{id}/boards")).await.expect(200).json()[0].clone();
    assert_eq!(board["lists"].as_array().map(Vec::len), Some(1));
}

async fn epics_become_parts_of_others_many_at_a_time(server: TestServer) {
    let root = server.root();
    let epic = |n: i64| {
        json!({
            "id": 100 + n, "iid": n, "title": n.to_string(), "state": "opened", "parent_id": if n > 5 { json!(100 + n % 5 + 1) } else { json!(null) },
        })
    };
    let archive = Draft::new().holding(7, "epics", (1..=200).map(epic)).packed();
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

async fn an_archive_that_waits_goes_with_its_group(server: TestServer) {
    let root = server.root();
    send(&root, "fresh", None, Draft::new().packed()).await.expect(202);
    assert_eq!(kept(&server).await.len(), 1);
    root.delete("/groups/fresh").await.expect(202);
    server.finish_jobs().await;
    assert_eq!(kept(&server).await.len(), 0);
    assert_eq!(sweep(&server.backend).await.expect("a sweep"), 0);
    let left = group_imports::Entity::find().count(server.backend.database.read()).await;
    assert_eq!(left.expect("a count"), 0);
}

fn a_plan_without_epics_leaves_them_out_and_says_so_options() -> Options {
    Options { plan: Some("free".to_owned()), ..Options::default() }
}

on_every_database![
    the_group_is_there_at_once_and_is_filled_in_the_background,
    what_is_sent_wrongly_makes_no_group,
    zeros_may_stand_behind_an_archive,
    archives_may_be_larger_than_attachments,
    who_imports_too_often_waits,
    a_user_imports_one_group_at_a_time,
    what_groups_above_have_is_not_made_again,
    groups_are_seen_as_far_as_the_parent_or_what_the_instance_lets,
    the_lock_on_sharing_of_the_group_above_stays,
    nothing_follows_from_what_is_imported,
    what_the_archive_names_and_lacks_is_told,
    epics_are_read_in_the_layout_of_the_reference_service,
    a_member_without_a_user_and_a_weight_below_zero_are_left_out_and_told,
    a_plan_without_epics_leaves_them_out_and_says_so with a_plan_without_epics_leaves_them_out_and_says_so_options(),
    epics_become_parts_of_others_many_at_a_time,
    an_archive_that_waits_goes_with_its_group,
];
