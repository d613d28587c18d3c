//! Creating, reading, updating and deleting notes.

use reqwest::Method;
use serde_json::{Value, json};
use storage::entities::AccessLevel;

use super::{bodies, issue, write};
use crate::planning::issues::open;
use crate::support::{TestServer, on_every_database};

async fn create_note_returns_all_fields(server: TestServer) {
    let (id, path) = issue(&server, "shown").await;
    let ann = server.create_user("ann").await;
    let before = ann.client.get(&path).await.expect(200).json();
    let created = ann.client.post(&format!("{path}/notes"), json!({"body": "It **works** \u{1f600} "})).await;
    let created = created.expect(201).json();
    let keys: Vec<&String> = created.as_object().expect("an object").keys().collect();
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
            "internal",
            "noteable_iid",
            "commands_changes",
        ]
    );
    assert_eq!(created["body"], "It **works** \u{1f600} ");
    for field in ["type", "attachment"] {
        assert_eq!(created[field], json!(null), "{field}");
    }
    for field in ["system", "resolvable", "confidential", "internal"] {
        assert_eq!(created[field], false, "{field}");
    }
    assert_eq!((&created["noteable_id"], &created["noteable_type"]), (&before["id"], &json!("Issue")));
    assert_eq!((&created["noteable_iid"], &created["commands_changes"]), (&before["iid"], &json!({})));
    assert_eq!(created["created_at"], created["updated_at"]);
    let author = &created["author"];
    assert_eq!((&author["id"], &author["username"]), (&json!(ann.id), &json!("ann")));
    assert_eq!((&author["email"], &author["state"]), (&json!("ann@example.com"), &json!("active")));
    assert!(author["created_at"].is_string());
    assert_eq!(ann.client.get(&format!("{path}/notes/{}", created["id"])).await.expect(200).json(), created);
    let by_path = format!("/projects/of-shown%2Fshown/issues/{}/notes", before["iid"]);
    assert_eq!(ann.client.get(&by_path).await.expect(200).json(), json!([created]));
    let after = ann.client.get(&path).await.expect(200).json();
    assert_eq!(after["user_notes_count"], 1);
    assert!(after["updated_at"].as_str() > before["updated_at"].as_str(), "the note updates the issue");
    let participants = ann.client.get(&format!("{path}/participants")).await.expect(200).pluck("username");
    assert_eq!(participants, [json!("root"), json!("ann")]);
    let form = [("body", "of a form"), ("confidential", "true")];
    let created = server.root().post_form(&format!("/projects/{id}/issues/1/notes"), &form).await.expect(201).json();
    assert_eq!((&created["body"], &created["confidential"]), (&json!("of a form"), &json!(true)));
}

async fn create_and_update_note_reject_invalid_bodies(server: TestServer) {
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
            let response = send(json!({"body": blank})).await.expect(400);
            assert!(response.text().contains("can't be blank"), "{}", response.text());
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
    for missing_note in [&format!("{notes}/999999"), &elsewhere] {
        assert_eq!(root.get(missing_note).await.expect(404).message(), "404 Not found");
        root.put(missing_note, json!({"body": "x"})).await.expect(404);
        root.delete(missing_note).await.expect(404);
    }
    let missing = format!("/projects/{id}/issues/99/notes");
    for response in [root.get(&missing).await, root.post(&missing, json!({"body": "x"})).await] {
        assert_eq!(response.expect(404).message(), "404 Issue Not Found");
    }
    assert_eq!(root.get(&notes).await.expect(200).header("X-Total"), "2", "rejected notes are not stored");
}

async fn update_and_delete_note_require_author_or_maintainer(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "edited").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    let (developer, maintainer) = (server.create_user("developer").await, server.create_user("maintainer").await);
    server.insert_member(id, developer.id, AccessLevel::Developer).await;
    server.insert_member(id, maintainer.id, AccessLevel::Maintainer).await;
    let note = write(&ann.client, &path, json!({"body": "first"})).await;
    let created = ann.client.get(&note).await.expect(200).json();
    for other in [&ben, &developer] {
        other.client.put(&note, json!({"body": "x"})).await.expect(403);
        other.client.delete(&note).await.expect(403);
    }
    let changed = ann.client.put(&note, json!({"body": "second"})).await.expect(200).json();
    assert_eq!((&changed["body"], &changed["created_at"]), (&json!("second"), &created["created_at"]));
    assert!(changed["updated_at"].as_str() > created["updated_at"].as_str());
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
    // System notes cannot be updated or deleted.
    root.put(&path, json!({"title": "New"})).await.expect(200);
    let listed = root.get(&format!("{path}/notes")).await.expect(200).json();
    assert_eq!((&listed[0]["system"], &listed[0]["author"]["username"]), (&json!(true), &json!("root")));
    let system_note = format!("{path}/notes/{}", listed[0]["id"]);
    root.put(&system_note, json!({"body": "x"})).await.expect(403);
    root.delete(&system_note).await.expect(403);
    assert_eq!(ann.client.get(&path).await.expect(200).json()["user_notes_count"], 0);
}

async fn note_that_is_an_emoji_name_awards_the_emoji(server: TestServer) {
    let (_, path) = issue(&server, "awarded").await;
    let notes = format!("{path}/notes");
    let (root, ann) = (server.root(), server.create_user("ann").await);
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
    let awarded = ann.client.get("/issues?scope=all&my_reaction_emoji=tada").await.expect(200);
    assert_eq!(awarded.pluck("id"), [number]);
    for text in [" :tada:", ":tada: well done", ":unheard of:", "tada"] {
        let note = ann.client.post(&notes, json!({"body": text})).await.expect(201).json();
        assert_eq!(note["body"], text);
    }
    assert_eq!(bodies(&root, &notes).await.len(), 4);
}

async fn note_remains_after_its_author_is_deleted(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "kept").await;
    let ann = server.create_user("ann").await;
    let note = write(&ann.client, &path, json!({"body": "kept"})).await;
    root.delete(&format!("/users/{}", ann.id)).await.expect(204);
    let before = server.statements();
    server.finish_jobs().await;
    let texts = server.statement_texts(before);
    let is_batch = |sql: &String| sql.starts_with("UPDATE \"notes\" SET \"author_id\"");
    assert!(texts.iter().any(is_batch), "the deletion of the user changes all notes: {texts:?}");
    // Notes of earlier batches remain in the table.
    let requires_index = |sql: &String| sql.contains("'enable_seqscan', 'off'");
    assert_eq!(texts.iter().any(requires_index), server.locks_rows(), "{texts:?}");
    let found = root.get(&note).await.expect(200).json();
    assert_eq!((&found["body"], &found["author"]["username"]), (&json!("kept"), &json!("ghost")));
}

async fn hard_delete_of_user_deletes_their_notes(server: TestServer) {
    let root = server.root();
    let (id, path) = issue(&server, "removed").await;
    let (ann, ben) = (server.create_user("ann").await, server.create_user("ben").await);
    server.insert_member(id, ann.id, AccessLevel::Reporter).await;
    ann.client.put(&path, json!({"title": "New"})).await.expect(200);
    for (client, body) in [(&ann.client, "gone"), (&ben.client, "kept")] {
        write(client, &path, json!({"body": body})).await;
    }
    root.delete(&format!("/users/{}?hard_delete=true", ann.id)).await.expect(204);
    server.finish_jobs().await;
    let remaining = root.get(&format!("{path}/notes")).await.expect(200);
    assert_eq!(
        (remaining.pluck("body")[0].clone(), remaining.pluck("system")),
        (json!("kept"), vec![json!(false), json!(true)])
    );
    assert_eq!(root.get(&path).await.expect(200).json()["user_notes_count"], 1);
}

async fn note_of_one_million_escaped_characters_is_accepted(server: TestServer) {
    let root = server.root();
    let (_, path) = issue(&server, "long").await;
    let url = format!("{path}/notes");
    let escaped = format!("{{\"body\": \"{}\"}}", "\\ud83d\\ude00".repeat(1_000_000));
    let encoded = format!("body={}", "%F0%9F%98%80".repeat(1_000_000));
    let forms = [("application/json", escaped), ("application/x-www-form-urlencoded", encoded)];
    for (kind, body) in forms {
        let request = root.request(Method::POST, &url).header("content-type", kind).body(body.clone());
        let created = root.send(request).await.expect(201).json();
        assert_eq!(created["body"].as_str().map(|text| text.chars().count()), Some(1_000_000), "{kind}");
        let request =
            root.request(Method::PUT, &format!("{url}/{}", created["id"])).header("content-type", kind).body(body);
        root.send(request).await.expect(200);
    }
}

on_every_database![
    create_note_returns_all_fields,
    create_and_update_note_reject_invalid_bodies,
    update_and_delete_note_require_author_or_maintainer,
    note_that_is_an_emoji_name_awards_the_emoji,
    note_remains_after_its_author_is_deleted,
    hard_delete_of_user_deletes_their_notes,
    note_of_one_million_escaped_characters_is_accepted,
];
