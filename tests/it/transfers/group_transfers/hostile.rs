//! Malicious and malformed archives.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::EntryType;

use super::{Draft, attributes as group_of, header, member, packed, send, stored_archives};
use crate::support::{TestServer, on_every_database};

/// Imports an archive that must fail and returns the error. Asserts that the group stays empty.
async fn import_failure(server: &TestServer, number: usize, archive: Vec<u8>) -> String {
    // Each import has its own user because of the rate limit.
    let user = server.create_user(&format!("p{number}")).await;
    let path = format!("g{number}");
    send(&user.client, &path, None, archive).await.expect(202);
    server.finish_jobs().await;
    let status = user.client.get(&format!("/groups/{path}/import")).await.expect(200).json();
    assert_eq!((&status["import_status"], &status["imported_groups_count"]), (&json!("failed"), &json!(0)), "{number}");
    for noteables in ["labels", "milestones", "boards", "badges", "epics", "subgroups"] {
        let response = user.client.get(&format!("/groups/{path}/{noteables}")).await.expect(200);
        assert_eq!(response.json(), json!([]), "{number} {noteables}");
    }
    let members = user.client.get(&format!("/groups/{path}/members")).await.expect(200).pluck("username");
    assert_eq!(members, [json!(format!("p{number}"))]);
    assert_eq!(stored_archives(server).await.len(), 0);
    status["import_error"].as_str().expect("a text").to_owned()
}

/// Asserts that each archive is rejected with an error that contains the text.
async fn assert_imports_fail(server: &TestServer, archives: Vec<(Vec<u8>, &str)>) {
    for (number, (archive, text)) in archives.into_iter().enumerate() {
        let error = import_failure(server, number, archive).await;
        assert!(error.contains(text), "{number}: {error:?} does not contain {text:?}");
        assert!(error.chars().count() <= 400, "{number}: {error}");
    }
}

/// Returns a valid archive with another entry.
fn with_entry(name: &str, kind: EntryType, link: Option<&str>, content: &[u8]) -> Vec<u8> {
    let mut entry = header(name, content.len() as u64);
    entry.set_entry_type(kind);
    if let Some(link) = link {
        entry.set_link_name_literal(link).expect("a link");
    }
    let valid = Draft::new().0.into_iter();
    let valid = valid.map(|(name, content)| (header(&name, content.len() as u64), content));
    packed(std::iter::once((entry, content.to_vec())).chain(valid))
}

fn compressed(pieces: impl IntoIterator<Item = Vec<u8>>) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    for piece in pieces {
        encoder.write_all(&piece).expect("writing");
    }
    encoder.finish().expect("an archive")
}

/// Returns a valid archive with these records, one per line.
fn archive_with(relation: &str, records: impl IntoIterator<Item = Value>) -> Vec<u8> {
    Draft::new().with_records(7, relation, records).packed()
}

fn label(title: &str) -> Value {
    json!({"title": title, "color": "#123456"})
}

fn epic(id: i64, iid: i64, parent: Option<i64>) -> Value {
    json!({"id": id, "iid": iid, "title": "E", "state": "opened", "parent_id": parent})
}

async fn import_rejects_unsafe_archive_entries(server: TestServer) {
    let strange = "unexpected file or directory";
    let attributes = group_of(7, None, "other").to_string();
    assert_imports_fail(
        &server,
        vec![
            (with_entry("../../../etc/passwd", EntryType::Regular, None, b"x"), strange),
            (with_entry("/etc/passwd", EntryType::Regular, None, b"x"), strange),
            (with_entry("tree/groups/../../x", EntryType::Regular, None, b"x"), strange),
            (with_entry("uploads/", EntryType::Directory, None, b""), strange),
            (
                with_entry("tree/groups/7/labels.ndjson", EntryType::Symlink, Some("/etc/passwd"), b""),
                "neither a file nor a directory",
            ),
            (
                with_entry("tree/groups/7/labels.ndjson", EntryType::Link, Some("VERSION"), b""),
                "neither a file nor a directory",
            ),
            (with_entry("tree/groups/7/labels.ndjson", EntryType::Char, None, b""), "neither a file nor a directory"),
            (with_entry("tree/groups/7/labels.ndjson", EntryType::Fifo, None, b""), "neither a file nor a directory"),
            (
                with_entry("tree/groups/7/labels.ndjson", EntryType::GNUSparse, None, b""),
                "neither a file nor a directory",
            ),
            (
                with_entry("././@LongLink", EntryType::GNULongName, None, b"/etc/passwd"),
                "neither a file nor a directory",
            ),
            (with_entry("VERSION", EntryType::Regular, None, b"0.2.4"), "more than once"),
            (with_entry("./VERSION", EntryType::Regular, None, b"0.2.4"), "more than once"),
            (with_entry("./tree/groups/7.json", EntryType::Regular, None, attributes.as_bytes()), "more than once"),
        ],
    )
    .await;
}

async fn import_rejects_malformed_archives(server: TestServer) {
    let valid = Draft::new().with_records(7, "labels", (0..2_000).map(|n| label(&n.to_string()))).packed();
    let plain = {
        let mut text = Vec::new();
        std::io::copy(&mut flate2::read::GzDecoder::new(valid.as_slice()), &mut text).expect("a tar file");
        text
    };
    let cut = |length: usize| compressed([plain[..length].to_vec()]);
    let mut damaged = valid.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 0x55;
    assert_imports_fail(
        &server,
        vec![
            (valid[..valid.len() / 2].to_vec(), "cannot be read"),
            (valid[..valid.len() - 4].to_vec(), "cannot be read"),
            (damaged, "cannot be read"),
            (vec![0x1F, 0x8B, 0x08], "cannot be read"),
            (compressed([b"no tar file".to_vec()]), "cannot be read"),
            (compressed([vec![b'x'; 2_000]]), "cannot be read"),
            ([&valid[..], &[0; 512][..], b"x"].concat(), "cannot be read"),
            (compressed([]), "truncated"),
            (compressed([vec![0; 1_024]]), "no VERSION file"),
            (cut(plain.len() / 1_024 * 512), "labels.ndjson, line"),
            // Cut between two entries, where only the end marker is missing.
            (cut(plain.len() - 1_024), "truncated"),
        ],
    )
    .await;
}

async fn import_rejects_oversized_archives(server: TestServer) {
    let zeros = |pieces: usize| std::iter::repeat_n(vec![0_u8; 1 << 20], pieces);
    let bomb = |size: u64| {
        let mut entry = header("tree/groups/7/labels.ndjson", size);
        entry.set_cksum();
        entry.as_bytes().to_vec()
    };
    let spaces = std::iter::repeat_n([vec![b' '; (1 << 20) - 1], vec![b'\n']].concat(), 600);
    let mut folder = header("tree/", 0);
    folder.set_entry_type(EntryType::Directory);
    folder.set_cksum();
    let tiny = std::iter::repeat_n(folder.as_bytes().to_vec(), 30_000);
    let files = (1..=1_001).map(|id| (header(&format!("tree/groups/{id}/labels.ndjson"), 0), Vec::new()));
    let groups: String = (1..=1_001).map(|id| format!("{id}\n")).collect();
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let many = format!("{{\"name\": \"b\", \"lists\": [{}]}}", vec!["{\"list_type\": \"label\"}"; 100_000].join(","));
    let labels = || (0..20_000).map(|n| label(&n.to_string()));
    let together = Draft::new()
        .with_records(7, "labels", labels())
        .with_records(7, "epics", (1..=5_001).map(|id| epic(id, id, None)))
        .packed();
    let spread = (8..18).fold(Draft::new(), |draft, id| {
        draft.with_subgroup(id, 7, &format!("g{id}")).with_records(id, "labels", labels())
    });
    let spread = spread.with_records(7, "labels", [label("one")]);
    assert_imports_fail(
        &server,
        vec![
            (compressed(std::iter::once(bomb(64 << 20)).chain(zeros(64))), "line 1: the line is too long"),
            (compressed(std::iter::once(bomb(600 << 20)).chain(spaces)), "uncompressed bytes"),
            (compressed(std::iter::once(bomb(u64::MAX >> 12))), "cannot be read"),
            (compressed(tiny), "too many files and directories (maximum is 20000)"),
            (packed(files), "too many groups (maximum is 1000)"),
            (Draft::new().with("tree/groups/_all.ndjson", groups).packed(), "too many groups (maximum is 1000)"),
            (Draft::new().with("tree/groups/7/labels.ndjson", deep).packed(), "labels.ndjson, line 1"),
            (Draft::new().with("tree/groups/7/boards.ndjson", many).packed(), "too many entries (maximum is 102)"),
            (Draft::new().with("tree/groups/7.json", vec![b' '; 2 << 20]).packed(), "too long"),
            (
                archive_with("badges", (0..101).map(|_| json!({"link_url": "https://h/", "image_url": "https://h/"}))),
                "line 101: too many records (maximum is 100)",
            ),
            (archive_with("boards", (0..101).map(|_| json!({"name": "b"}))), "too many records (maximum is 100)"),
            (
                archive_with("labels", (0..25_001).map(|n| label(&n.to_string()))),
                "line 25001: the group has too many records (maximum is 25000)",
            ),
            (together, "line 5001: the group has too many records (maximum is 25000)"),
            (spread.packed(), "too many records (maximum is 200000)"),
        ],
    )
    .await;
}

async fn import_validates_records_as_the_api_does(server: TestServer) {
    let badge = |link: &str| json!({"link_url": link, "image_url": "https://h/"});
    let milestone = |title: &str, iid: i64| json!({"title": title, "iid": iid, "state": "active"});
    let epics = |all: Vec<Value>| archive_with("epics", all);
    assert_imports_fail(&server, vec![
        (archive_with("labels", [label("a"), json!({"title": 5, "color": "#123456"})]), "labels.ndjson, line 2: invalid type"),
        (archive_with("labels", [json!(["a"])]), "line 1"),
        (Draft::new().with("tree/groups/7/labels.ndjson", "{\"title\": ").packed(), "line 1"),
        (Draft::new().with("tree/groups/7/labels.ndjson", b"{\"title\": \"\xFF\", \"color\": \"#123456\"}".to_vec()).packed(), "line 1"),
        (archive_with("labels", [label("a,b")]), "title is invalid"),
        (archive_with("labels", [label(" ")]), "can't be blank"),
        (archive_with("labels", [label(&"x".repeat(256))]), "title is too long"),
        (archive_with("labels", [label("a\0b")]), "name is invalid"),
        (archive_with("labels", [label("a"), label(" a ")]), "title is used more than once"),
        (archive_with("labels", [json!({"title": "a", "color": "javascript:"})]), "must be a valid color code"),
        (archive_with("badges", [badge("javascript:alert(1)")]), "link_url is blocked"),
        (archive_with("milestones", [milestone("a", 0)]), "iid is not a number in range"),
        (archive_with("milestones", [milestone("a", i64::MAX)]), "iid is not a number in range"),
        (archive_with("milestones", [milestone("a", 1), milestone("b", 1)]), "iid is used more than once"),
        (archive_with("milestones", [json!({"title": "a", "iid": 1, "state": "lost"})]), "unknown variant"),
        (archive_with("milestones", [json!({"title": "a", "iid": 1, "state": "active", "start_date": "2026-02-01", "due_date": "2026-01-01"})]), "due_date must be greater"),
        (archive_with("milestones", [json!({"title": "a", "iid": 1, "state": "active", "due_date": "+12026-01-01"})]), "due_date is invalid"),
        (archive_with("milestones", [json!({"title": "a", "iid": 1, "state": "active", "due_date": "2026-01-01T00:00:00Z"})]), "due_date is invalid"),
        (epics(vec![json!({"id": 1, "iid": 1, "title": "E", "state": "opened", "start_date": "2026-01-01 00:00"})]), "start_date is invalid"),
        (archive_with("members", [json!({"access_level": 30, "expires_at": "2026-01-01T00:00:00Z", "user": null})]), "expires_at is invalid"),
        (archive_with("members", [member(1, "a@example.com", 60)]), "access_level is not included in the list"),
        (epics(vec![epic(1, 1, Some(2)), epic(2, 2, Some(1))]), "nested too deeply"),
        (epics((1..=9).map(|id| epic(id, id, Some(id - 1))).collect()), "nested too deeply"),
        (epics(vec![epic(1, 1, Some(1))]), "nested too deeply"),
        (epics(vec![epic(1, 1, None), epic(1, 2, None)]), "id is used more than once"),
        (Draft::new().with_subgroup(8, 7, "low").with_records(7, "epics", [epic(1, 1, Some(2))]).with_records(8, "epics", [epic(2, 1, None)]).packed(), "does not belong to the group of the epic or an ancestor"),
    ]).await;
}

async fn import_rejects_groups_that_are_not_a_tree(server: TestServer) {
    let attributes = |id: i64, parent: i64, path: &str| group_of(id, Some(parent), path).to_string();
    let mut deep = Draft::new();
    for id in 8..28 {
        deep = deep.with_subgroup(id, id - 1, "x");
    }
    let mut wide = group_of(7, None, "top");
    wide["visibility_level"] = json!(99);
    assert_imports_fail(
        &server,
        vec![
            (Draft::new().with_subgroup(8, 9, "low").packed(), "The parent of the group 8 is not in the archive"),
            (Draft::new().with_subgroup(8, 9, "a").with_subgroup(9, 8, "b").packed(), "is its own ancestor"),
            (Draft::new().with("tree/groups/_all.ndjson", "7\n7\n").packed(), "contains duplicates"),
            (Draft::new().with("tree/groups/_all.ndjson", "").packed(), "contains no group"),
            (Draft::new().with("tree/groups/_all.ndjson", "7\n8\n").packed(), "has no attributes of the group 8"),
            (Draft::new().with("tree/groups/8.json", attributes(8, 7, "low")).packed(), "not in the list"),
            (Draft::new().with("tree/groups/7.json", attributes(9, 7, "low")).packed(), "belongs to the group 9"),
            (Draft::new().with_records(9, "labels", [label("a")]).packed(), "not in the list"),
            (
                Draft::new().with_subgroup(8, 7, "Low").with_subgroup(9, 7, "low").packed(),
                "same name or path as another group",
            ),
            (Draft::new().with_subgroup(8, 7, "../x").packed(), "path can contain only"),
            (Draft::new().with_subgroup(8, 7, "tree").packed(), "is a reserved name"),
            (deep.packed(), "nested too deeply"),
            (Draft::new().with("VERSION", "1.0.0").packed(), "expected 0.2"),
            (Draft::new().with("VERSION", vec![b'1'; 2 << 20]).packed(), "too long"),
            (Draft::new().with("tree/groups/7.json", wide.to_string()).packed(), "visibility_level is not included"),
            (packed([(header("VERSION", 5), b"0.2.4".to_vec())]), "no list of groups"),
        ],
    )
    .await;
}

on_every_database![
    import_rejects_unsafe_archive_entries,
    import_rejects_malformed_archives,
    import_rejects_oversized_archives,
    import_validates_records_as_the_api_does,
    import_rejects_groups_that_are_not_a_tree,
];
