//! The life of a note: written, read, edited, removed.

use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{bodies, issue, write};
use crate::issues::open;
use crate::support::{TestServer, on_every_database};

async fn a_note_shows_every_field_of_the_specification(server: TestServer) {
    let (id, path) = issue(&server, "shown").await;
    let ann = server.person("ann").await;
    let before = ann.client.get(&path).await.expect(200).json();
    let made = ann.client.post(&format!("{path}/notes"), json!({"body": "It **works** \u{1f600} "})).await;
    let made = made.expect(201).json();
    let keys: Vec<&String> = made.as_object().expect("an object").keys().collect();
    assert_eq!(
        keys,
        [
            "id",
            "type",
            "body",
            "attachment",
            "author",
            "created_at",
            "updated_at",
            "system",
            "noteable_id",
            "noteable_type",
            "resolvable",
            "confidential",
            "noteable_iid",
            "commands_changes",
        ]
    );
    assert_eq!(made["body"], "It **works** \u{1f600} ");
    for field in ["type", "attachment"] {
        assert_eq!(made[field], json!(null), "{field}");
    }
    for field in ["system", "resolvable", "confidential"] {
        assert_eq!(made[field], false, "{field}");
    }
    assert_eq!((&made["noteable_id"], &made["noteable_type"]), (&before["id"], &json!("Issue")));
    assert_eq!((&made["noteable_iid"], &made["commands_changes"]), (&before["iid"], &json!({})));
    assert_eq!(made["created_at"], made["updated_at"]);
    let author = &made["author"];
    assert_eq!((&author["id"], &author["username"]), (&json!(ann.id), &json!("ann")));
    assert_eq!((&author["email"], &author["state"]), (&json!("ann@example.com"), &json!("active")));
    assert!(author["created_at"].is_string());
    assert_eq!(ann.client.get(&format!("{path}/notes/{}", made["id"])).await.expect(200).json(), made);
    let by_path = format!("/projects/of-shown%2Fshown/issues/{}/notes", before["iid"]);
    assert_eq!(ann.client.get(&by_path).await.expect(200).json(), json!([made]));
    let after = ann.client.get(&path).await.expect(200).json();
    assert_eq!(after["user_notes_count"], 1);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str(), "the issue changed by it");
    let known = ann.client.get(&format!("{path}/participants")).await.expect(200).pluck("username");
    assert_eq!(known, [json!("root"), json!("ann")]);
    let form = [("body", "of a form"), ("confidential", "true")];
    let made = server.root().post_form(&format!("/projects/{id}/issues/1/notes"), &form).await.expect(201).json();
    assert_eq!((&made["body"], &made["confidential"]), (&json!("of a form"), &json!(true)));
}

async fn what_does_not_do_is_refused(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "refused").await;
    let notes = format!("{path}/notes");
    let note = write(&root, &path, json!({"body": "first"})).await;
    let longest = "\u{1f600}".repeat(1_000_000);
    for (method, url) in [("POST", &notes), ("PUT", &note)] {
        let send = async |body: Value| match method {
            "POST" => root.post(url, body).await,
            _ => root.put(url, body).await,
        };
        assert_eq!(send(json!({})).await.expect(400).message(), "body is missing");
        for blank in ["", " \n\t"] {
            let answer = send(json!({"body": blank})).await.expect(400);
            assert!(answer.text().contains("can't be blank"), "{}", answer.text());
        }
        let long = send(json!({"body": "x".repeat(1_000_001)})).await.expect(400);
        assert!(long.message().contains("too long (maximum is 1000000 characters)"), "{}", long.message());
        send(json!({"body": "x".repeat(13 << 20)})).await.expect(413);
        assert_eq!(send(json!({"body": longest})).await.json()["body"].as_str().map(str::len), Some(4_000_000));
    }
    root.get(&format!("{notes}/one")).await.expect(400);
    let other = open(&root, id, json!({"title": "other"})).await;
    let own = note.rsplit('/').next().expect("a number");
    let elsewhere = format!("/projects/{id}/issues/{other}/notes/{own}");
    for gone in [&format!("{notes}/999999"), &elsewhere] {
        assert_eq!(root.get(gone).await.expect(404).message(), "404 Not found");
        root.put(gone, json!({"body": "x"})).await.expect(404);
        root.delete(gone).await.expect(404);
    }
    let missing = format!("/projects/{id}/issues/99/notes");
    for answer in [root.get(&missing).await, root.post(&missing, json!({"body": "x"})).await] {
        assert_eq!(answer.expect(404).message(), "404 Issue Not Found");
    }
    assert_eq!(root.get(&notes).await.expect(200).header("X-Total"), "2", "nothing else was kept");
}

async fn authors_and_maintainers_edit_and_remove(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "edited").await;
    let (ann, ben) = (server.person("ann").await, server.person("ben").await);
    let (developer, maintainer) = (server.person("developer").await, server.person("maintainer").await);
    server.enrol(id, developer.id, AccessLevel::Developer).await;
    server.enrol(id, maintainer.id, AccessLevel::Maintainer).await;
    let note = write(&ann.client, &path, json!({"body": "first"})).await;
    let made = ann.client.get(&note).await.expect(200).json();
    for other in [&ben, &developer] {
        other.client.put(&note, json!({"body": "x"})).await.expect(403);
        other.client.delete(&note).await.expect(403);
    }
    let changed = ann.client.put(&note, json!({"body": "second"})).await.expect(200).json();
    assert_eq!((&changed["body"], &changed["created_at"]), (&json!("second"), &made["created_at"]));
    assert!(changed["updated_at"].as_str() > made["updated_at"].as_str());
    assert_eq!(ann.client.get(&path).await.expect(200).json()["user_notes_count"], 1);
    let changed = maintainer.client.put(&note, json!({"body": ":tada:"})).await.expect(200).json();
    assert_eq!((&changed["body"], &changed["author"]["id"]), (&json!(":tada:"), &json!(ann.id)));
    let old = ann.client.request(Method::DELETE, &note);
    let old = old.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
    ann.client.send(old).await.expect(412);
    ann.client.delete(&note).await.expect(204);
    ann.client.delete(&note).await.expect(404);
    let second = write(&ann.client, &path, json!({"body": "again"})).await;
    maintainer.client.delete(&second).await.expect(204);
    assert_eq!(ann.client.get(&path).await.expect(200).json()["user_notes_count"], 0);
    // What tells of a change is nobody's.
    root.put(&path, json!({"title": "New"})).await.expect(200);
    let told = root.get(&format!("{path}/notes")).await.expect(200).json();
    assert_eq!((&told[0]["system"], &told[0]["author"]["username"]), (&json!(true), &json!("root")));
    let told = format!("{path}/notes/{}", told[0]["id"]);
    root.put(&told, json!({"body": "x"})).await.expect(403);
    root.delete(&told).await.expect(403);
    assert_eq!(ann.client.get(&path).await.expect(200).json()["user_notes_count"], 0);
}

async fn an_emoji_alone_is_awarded(server: TestServer) {
    let (_, path) = issue(&server, "awarded").await;
    let notes = format!("{path}/notes");
    let (root, ann) = (server.root(), server.person("ann").await);
    let number = root.get(&path).await.expect(200).json()["id"].clone();
    for (client, name) in [(&root, "root"), (&ann.client, "ann")] {
        let award = client.post(&notes, json!({"body": ":+1: \n"})).await.expect(201).json();
        let keys: Vec<&String> = award.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["id", "name", "user", "created_at", "updated_at", "awardable_id", "awardable_type"]);
        assert_eq!((&award["name"], &award["user"]["username"]), (&json!("thumbsup"), &json!(name)));
        assert_eq!((&award["awardable_id"], &award["awardable_type"]), (&number, &json!("Issue")));
        let again = client.post(&notes, json!({"body": ":thumbsup:"})).await.expect(404);
        assert!(again.message().starts_with("404 Award Emoji"), "{}", again.message());
    }
    ann.client.post(&notes, json!({"body": ":thumbsdown:"})).await.expect(201);
    ann.client.post(&notes, json!({"body": ":tada:"})).await.expect(201);
    let shown = root.get(&path).await.expect(200).json();
    assert_eq!((&shown["upvotes"], &shown["downvotes"]), (&json!(2), &json!(1)));
    assert_eq!(shown["user_notes_count"], 0);
    let liked = ann.client.get("/issues?scope=all&my_reaction_emoji=tada").await.expect(200);
    assert_eq!(liked.pluck("id"), [number]);
    for text in [" :tada:", ":tada: well done", ":unheard of:", "tada"] {
        let note = ann.client.post(&notes, json!({"body": text})).await.expect(201).json();
        assert_eq!(note["body"], text);
    }
    assert_eq!(bodies(&root, &notes).await.len(), 4);
}

async fn a_note_stays_when_its_author_goes(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "kept").await;
    let ann = server.person("ann").await;
    let note = write(&ann.client, &path, json!({"body": "kept"})).await;
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let kept = root.get(&note).await.expect(200).json();
    assert_eq!((&kept["body"], &kept["author"]["username"]), (&json!("kept"), &json!("ghost")));
}

async fn notes_go_with_an_author_whose_contributions_go(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "removed").await;
    let (ann, ben) = (server.person("ann").await, server.person("ben").await);
    server.enrol(id, ann.id, AccessLevel::Reporter).await;
    ann.client.put(&path, json!({"title": "New"})).await.expect(200);
    for (client, body) in [(&ann.client, "gone"), (&ben.client, "kept")] {
        write(client, &path, json!({"body": body})).await;
    }
    root.delete(&format!("/users/{}?hard_delete=true", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let left = root.get(&format!("{path}/notes")).await.expect(200);
    assert_eq!((left.pluck("body")[0].clone(), left.pluck("system")), (json!("kept"), vec![json!(false), json!(true)]));
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 1);
}

async fn a_million_characters_pass_however_they_are_written(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "long").await;
    let url = format!("{path}/notes");
    let escaped = format!("{{\"body\": \"{}\"}}", "\\ud83d\\ude00".repeat(1_000_000));
    let encoded = format!("body={}", "%F0%9F%98%80".repeat(1_000_000));
    let forms = [("application/json", escaped), ("application/x-www-form-urlencoded", encoded)];
    for (kind, body) in forms {
        let request = root.request(Method::POST, &url).header("content-type", kind).body(body.clone());
        let made = root.send(request).await.expect(201).json();
        assert_eq!(made["body"].as_str().map(|text| text.chars().count()), Some(1_000_000), "{kind}");
        let request =
            root.request(Method::PUT, &format!("{url}/{}", made["id"])).header("content-type", kind).body(body);
        root.send(request).await.expect(200);
    }
}

on_every_database![
    a_note_shows_every_field_of_the_specification,
    what_does_not_do_is_refused,
    authors_and_maintainers_edit_and_remove,
    an_emoji_alone_is_awarded,
    a_note_stays_when_its_author_goes,
    notes_go_with_an_author_whose_contributions_go,
    a_million_characters_pass_however_they_are_written,
];
