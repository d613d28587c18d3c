//! Refused uploads of crates.

use reqwest::Method;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::json;
use storage::entities::{now, packages};

use super::{archive, body, counts, crate_archive, metadata, publish, registry, send};
use crate::packages::small_files;
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn existing_version_and_similar_name_are_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "gear-ratio", "1.0.0").await.expect(200);
    for (name, version, expected) in [
        ("gear-ratio", "1.0.0", "version 1.0.0 of the crate gear-ratio already exists"),
        ("gear-ratio", "1.0.0+a", "version 1.0.0+a of the crate gear-ratio already exists"),
        ("gear_ratio", "2.0.0", "the project has the crate gear-ratio, whose name differs only in case, `-` or `_`"),
        ("Gear-Ratio", "1.0.0", "version 1.0.0 of the crate Gear-Ratio already exists"),
    ] {
        let refused = publish(&root, id, name, version).await.expect(409);
        assert_eq!(refused.message(), expected);
        assert_eq!(refused.json()["errors"], json!([{ "detail": expected }]));
    }
    assert_eq!(counts(&server).await, (1, 1, 1));
    publish(&root, id, "gear-ratio", "1.0.0-rc.1").await.expect(200);
    publish(&root, id, "gearratio", "1.0.0").await.expect(200);
    let other = project(&root, "other", json!({})).await;
    publish(&root, other, "Gear_Ratio", "1.0.0").await.expect(200);
}

async fn invalid_bodies_are_refused_and_nothing_is_stored(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let valid = metadata("gear", "1.0.0");
    let content = crate_archive("gear", "1.0.0", 10);
    for (attribute, value, expected) in [
        ("name", json!("../gear"), "name must start with a letter"),
        ("vers", json!("1"), "vers must be a semantic version"),
        ("deps", json!([{ "name": "a", "version_req": "one" }]), "version_req of the dependency a is invalid"),
        ("features", json!({ "a\u{0}": [] }), "features has an invalid name"),
        ("links", json!(["a"]), "the metadata is invalid"),
        ("vers", json!("1.0.1"), "the archive contains a path outside of gear-1.0.1"),
        ("name", json!("gears"), "the archive contains a path outside of gears-1.0.0"),
    ] {
        let mut sent = valid.clone();
        sent[attribute] = value;
        let refused = send(&root, id, body(&sent.to_string(), &content)).await.expect(400);
        assert!(refused.message().starts_with(expected), "{attribute}: {}", refused.message());
        assert_eq!(refused.json()["errors"][0]["detail"], refused.message());
    }
    let manifest = ("gear-1.0.0/Cargo.toml", &b"[package]"[..]);
    for (files, expected) in [
        (&[][..], "the archive does not contain gear-1.0.0/Cargo.toml"),
        (&[manifest, ("gear-1.0.0/../x", b"x")], "the archive contains a path outside of gear-1.0.0"),
        (&[manifest, ("/etc/x", b"x")], "the archive contains a path outside of gear-1.0.0"),
    ] {
        let refused = send(&root, id, body(&valid.to_string(), &archive(files))).await.expect(400);
        assert!(refused.message().starts_with(expected), "{}", refused.message());
    }
    let complete = body(&valid.to_string(), &content);
    let mut damaged = complete.clone();
    // The checksum: another change of the compressed data can expand to the same bytes.
    let checksum = damaged.len() - 6;
    damaged[checksum] ^= 0xFF;
    for sent in [
        Vec::new(),
        b"{}".to_vec(),
        vec![0xFF; 1_000],
        complete[..complete.len() - 1].to_vec(),
        [&complete[..], b"x"].concat(),
        body("{", &content),
        body(&format!("{{\"a\":{}}}", "[".repeat(100_000)), &content),
        body(&valid.to_string(), b""),
        body(&valid.to_string(), b"no archive"),
        damaged,
    ] {
        send(&root, id, sent).await.expect(400);
    }
    assert_eq!(counts(&server).await, (0, 0, 0));
    assert_eq!(server.backend.objects.keys(Some("packages")).await.expect("keys"), [""; 0]);
    send(&root, id, complete).await.expect(200);
}

async fn form_with_the_body_is_accepted(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let path = format!("{}/api/v1/crates/new", registry(id));
    let sent = body(&metadata("gear", "1.0.0").to_string(), &crate_archive("gear", "1.0.0", 10));
    let part = reqwest::multipart::Part::bytes(sent).file_name("body");
    let form = reqwest::multipart::Form::new().part("file", part);
    root.send(root.request(Method::PUT, &path).multipart(form)).await.expect(200);
    let empty = reqwest::multipart::Form::new().text("other", "x");
    root.send(root.request(Method::PUT, &path).multipart(empty)).await.expect(400);
}

async fn archive_over_the_limit_is_refused(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let metadata = metadata("gear", "1.0.0").to_string();
    // The limit of files is 100,000 bytes, and bodies can be 64 KiB larger.
    for size in [100_000, 200_000] {
        let archive = crate_archive("gear", "1.0.0", size);
        let refused = send(&root, id, body(&metadata, &archive)).await.expect(413);
        let text = format!("{} (setting: max_package_file_bytes)", refused.message());
        assert_eq!(refused.json()["errors"][0]["detail"], text);
    }
    assert_eq!(counts(&server).await, (0, 0, 0));
    send(&root, id, body(&metadata, &crate_archive("gear", "1.0.0", 90_000))).await.expect(200);
}

async fn number_of_versions_is_limited(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    publish(&root, id, "gear", "0.0.0").await.expect(200);
    let db = server.backend.database.write();
    let row = |kind, name: &str, number: usize| packages::ActiveModel {
        project_id: Set(id),
        package_type: Set(kind),
        name: Set(name.to_owned()),
        name_key: Set(name.to_owned()),
        lookup_name: Set(name.to_owned()),
        version: Set(format!("0.0.{number}")),
        status: Set(packages::PackageStatus::Default),
        created_at: Set(now()),
        updated_at: Set(now()),
        ..Default::default()
    };
    for (kind, name, first) in [(packages::PackageType::Cargo, "gear", 1), (packages::PackageType::Npm, "tiny", 0)] {
        let rows: Vec<packages::ActiveModel> = (first..1_999).map(|number| row(kind, name, number)).collect();
        for rows in rows.chunks(500) {
            packages::Entity::insert_many(rows.to_vec()).exec_without_returning(db).await.expect("rows");
        }
    }
    // The last version of each package is published once, although two uploads are in progress.
    let npm = async |version: &str| crate::packages::npm_packages::publish(&root, id, "tiny", version).await;
    let (first, second) = tokio::join!(publish(&root, id, "gear", "1.0.0"), publish(&root, id, "gear", "1.1.0"));
    let (third, fourth) = tokio::join!(npm("1.0.0"), npm("1.1.0"));
    for pair in [[first, second], [third, fourth]] {
        let mut statuses = pair.each_ref().map(|response| response.status);
        statuses.sort_unstable();
        assert_eq!(statuses, [200, 400]);
        let refused = pair.iter().find(|response| response.status == 400).expect("a refusal");
        let text = "the package has too many versions (maximum is 2000); delete old versions";
        assert_eq!(refused.message(), text);
    }
    let row = row(packages::PackageType::Generic, "other", 1);
    row.insert(db).await.expect("a row");
    publish(&root, id, "oil", "1.0.0").await.expect(200);
}

on_every_database![
    existing_version_and_similar_name_are_refused,
    invalid_bodies_are_refused_and_nothing_is_stored,
    form_with_the_body_is_accepted,
    archive_over_the_limit_is_refused with small_files(),
    number_of_versions_is_limited,
];
