//! Metadata of artifacts, which the server computes, and metadata that clients upload.

use serde_json::{Value, json};

use super::{checksums, counts, deploy, file, put};
use crate::support::spaces::{group, project};
use crate::support::{Client, TestServer, on_every_database};

/// Returns the versions in the metadata of an artifact, and the values of `latest` and `release`.
async fn versions(client: &Client, project: i64, folder: &str) -> (Vec<String>, String, String) {
    let path = file(project, &format!("{folder}/maven-metadata.xml"));
    let metadata = client.get(&path).await.expect(200);
    let text = metadata.text();
    for (extension, digits) in checksums(text.as_bytes()) {
        assert_eq!(client.get(&format!("{path}.{extension}")).await.expect(200).text(), digits);
        if extension == "sha256" {
            assert_eq!(metadata.header("x-checksum-sha256"), digits);
        }
    }
    for (extension, digits) in [("md5", 32), ("sha1", 40)] {
        let checksum = client.get(&format!("{path}.{extension}")).await.expect(200).text();
        assert_eq!((checksum.len(), checksum.as_str()), (digits, metadata.header(&format!("x-checksum-{extension}"))));
    }
    let values = |name: &str| {
        let (start, end) = (format!("<{name}>"), format!("</{name}>"));
        let parts = text.split(&start).skip(1);
        parts.filter_map(|part| part.split(&end).next()).map(str::to_owned).collect::<Vec<_>>()
    };
    let (group, artifact) = folder.rsplit_once('/').expect("a group");
    assert_eq!(values("groupId"), [group.replace('/', ".")]);
    assert_eq!(values("artifactId"), [artifact]);
    assert!(values("lastUpdated")[0].len() == 14, "{text}");
    (values("version"), values("latest").join(","), values("release").join(","))
}

/// Returns the IDs of the packages, also of those without a version, by version.
async fn package_ids(client: &Client, project: i64) -> Vec<(Value, i64)> {
    let path = format!("/projects/{project}/packages?include_versionless=true&order_by=version");
    let listed = client.get(&path).await.expect(200).json();
    let listed = listed.as_array().expect("a list").iter();
    listed.map(|package| (package["version"].clone(), package["id"].as_i64().expect("an ID"))).collect()
}

async fn metadata_lists_the_stored_versions(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let expected = |versions: &[&str], latest: &str, release: &str| {
        (versions.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>(), latest.to_owned(), release.to_owned())
    };
    root.get(&file(id, "com/example/app/maven-metadata.xml")).await.expect(404);
    deploy(&root, id, "com/example/app", "1.0").await;
    assert_eq!(versions(&root, id, "com/example/app").await, expected(&["1.0"], "1.0", "1.0"));
    deploy(&root, id, "com/example/app", "1.1").await;
    assert_eq!(versions(&root, id, "com/example/app").await, expected(&["1.0", "1.1"], "1.1", "1.1"));
    deploy(&root, id, "com/example/app", "2.0-SNAPSHOT").await;
    let all = &["1.0", "1.1", "2.0-SNAPSHOT"];
    assert_eq!(versions(&root, id, "com/example/app").await, expected(all, "2.0-SNAPSHOT", "1.1"));
    // Other artifacts and wrong metadata of a client change nothing.
    deploy(&root, id, "com/example/app2", "9.0").await;
    put(&root, id, "com/example/app/maven-metadata.xml", "<!DOCTYPE a [<!ENTITY b \"c\">]><metadata>")
        .await
        .expect(200);
    assert_eq!(versions(&root, id, "com/example/app").await, expected(all, "2.0-SNAPSHOT", "1.1"));
    let path = file(id, "com/example/app/maven-metadata.xml");
    let tag = root.get(&path).await.expect(200).header("etag").to_owned();
    root.clone().header("If-None-Match", &tag).get(&path).await.expect(304);
    let part = root.clone().header("Range", "bytes=0-4").get(&path).await.expect(206);
    assert_eq!(part.text(), "<?xml");
    root.clone().header("Range", "bytes=100000-").get(&path).await.expect(416);
}

async fn deleted_versions_are_not_in_the_metadata(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0", "1.1"] {
        deploy(&root, id, "com/example/app", version).await;
    }
    deploy(&root, id, "com/example/other", "1.0").await;
    let path = file(id, "com/example/app/maven-metadata.xml");
    let packages = root.get(&format!("/projects/{id}/packages?package_name=app")).await.expect(200).json();
    assert_eq!(packages.as_array().map(Vec::len), Some(2));
    root.delete(&format!("/projects/{id}/packages/{}", packages[1]["id"])).await.expect(204);
    assert_eq!(versions(&root, id, "com/example/app").await.0, ["1.0"]);
    // The version is deleted with its last file, and the metadata of the artifact with the last version.
    let one = format!("/projects/{id}/packages/{}", packages[0]["id"]);
    for listed in root.get(&format!("{one}/package_files")).await.expect(200).pluck("id") {
        root.get(&path).await.expect(200);
        root.delete(&format!("{one}/package_files/{listed}")).await.expect(204);
    }
    for extension in ["", ".sha1"] {
        root.get(&format!("{path}{extension}")).await.expect(404);
    }
    let rest = root.get(&format!("/projects/{id}/packages?include_versionless=true")).await.expect(200);
    assert_eq!(rest.pluck("name"), ["com/example/other", "com/example/other"]);
    let events = root.get(&format!("/projects/{id}/audit_events")).await.expect(200).json();
    let deleted = events.as_array().expect("a list").iter().map(|event| &event["details"]);
    let deleted = deleted.filter(|details| details["event_name"] == "package_deleted");
    let mut deleted: Vec<&str> = deleted.filter_map(|details| details["target_details"].as_str()).collect();
    deleted.sort_unstable();
    assert_eq!(deleted, ["com/example/app", "com/example/app 1.0", "com/example/app 1.1"]);
    server.finish_jobs().await;
    assert_eq!(counts(&server).await, (2, 3, 3));
    // A later deployment lists only its version.
    deploy(&root, id, "com/example/app", "1.2").await;
    assert_eq!(versions(&root, id, "com/example/app").await.0, ["1.2"]);
}

async fn packages_without_a_version_are_listed_on_request(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    deploy(&root, id, "com/example/app", "1.0").await;
    put(&root, id, "com/example/maven-metadata.xml", "<metadata/>").await.expect(200);
    let all = package_ids(&root, id).await;
    let shown: Vec<Value> = all.iter().map(|(version, _)| version.clone()).collect();
    assert_eq!(shown, [json!(null), json!(null), json!("1.0")]);
    let listed = root.get(&format!("/projects/{id}/packages")).await.expect(200);
    assert_eq!(listed.pluck("version"), ["1.0"]);
    assert_eq!(listed.header("x-total"), "1");
    let space = group(&root, "space", json!({})).await;
    root.put(&format!("/projects/{id}/transfer"), json!({ "namespace": space })).await.expect(200);
    for (query, count) in [("", 1), ("?include_versionless=true", 3), ("?include_versionless=false", 1)] {
        let listed = root.get(&format!("/groups/{space}/packages{query}")).await.expect(200).json();
        assert_eq!(listed.as_array().map(Vec::len), Some(count), "{query}");
    }
    let metadata = root.get(&format!("/projects/{id}/packages/{}", all[0].1)).await.expect(200).json();
    assert_eq!((&metadata["version"], metadata["versions"].as_array().map(Vec::len)), (&json!(null), Some(1)));
    let version = root.get(&format!("/projects/{id}/packages/{}", all[2].1)).await.expect(200).json();
    assert_eq!(version["versions"], json!([]));
    // Metadata of a group of artifacts is not computed, and can be deleted.
    let path = file(id, "com/example/maven-metadata.xml");
    assert_eq!(root.get(&path).await.expect(200).text(), "<metadata/>");
    let [(_, digits), _] = checksums(b"<metadata/>");
    assert_eq!(root.get(&format!("{path}.sha256")).await.expect(200).text(), digits);
    root.delete(&format!("/projects/{id}/packages/{}", all[1].1)).await.expect(204);
    root.get(&path).await.expect(404);
    // Computed metadata does not need the uploaded metadata.
    root.delete(&format!("/projects/{id}/packages/{}", all[0].1)).await.expect(204);
    assert_eq!(versions(&root, id, "com/example/app").await.0, ["1.0"]);
}

async fn metadata_of_snapshots_is_the_newest_upload(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let folder = "com/example/app/1.0-SNAPSHOT";
    for number in 1..=3 {
        let name = format!("{folder}/app-1.0-20260101.00000{number}-{number}.jar");
        put(&root, id, &name, format!("build {number}")).await.expect(200);
        let text = format!("<metadata><buildNumber>{number}</buildNumber></metadata>");
        let path = format!("{folder}/maven-metadata.xml");
        put(&root, id, &path, text.clone()).await.expect(200);
        let [(_, digits), _] = checksums(text.as_bytes());
        put(&root, id, &format!("{path}.sha256"), digits.clone()).await.expect(200);
        assert_eq!(root.get(&file(id, &path)).await.expect(200).text(), text);
        assert_eq!(root.get(&file(id, &format!("{path}.sha256"))).await.expect(200).text(), digits);
    }
    put(&root, id, &format!("{folder}/maven-metadata.xml.sha1"), "0".repeat(40)).await.expect(409);
    server.finish_jobs().await;
    // Three files, and only the newest metadata.
    assert_eq!(counts(&server).await, (1, 4, 4));
    root.get(&file(id, &format!("{folder}/app-1.0-20260101.000001-1.jar"))).await.expect(200);
}

async fn concurrent_deployments_are_all_listed(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let deployments = (0..5).map(|number| {
        let root = root.clone();
        async move { deploy(&root, id, "com/example/app", &format!("1.{number}")).await }
    });
    futures_util::future::join_all(deployments).await;
    let (mut found, _, _) = versions(&root, id, "com/example/app").await;
    found.sort_unstable();
    assert_eq!(found, ["1.0", "1.1", "1.2", "1.3", "1.4"]);
}

async fn metadata_is_read_in_few_statements(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in 0..5 {
        put(&root, id, &format!("com/app/{version}/app.jar"), "x").await.expect(200);
    }
    let path = file(id, "com/app/maven-metadata.xml");
    root.get(&format!("{path}?a=1")).await.expect(200);
    let before = server.statements();
    root.get(&format!("{path}?a=2")).await.expect(200);
    assert!(server.statements() - before <= 3, "{}", server.statements() - before);
}

on_every_database![
    metadata_lists_the_stored_versions,
    deleted_versions_are_not_in_the_metadata,
    packages_without_a_version_are_listed_on_request,
    metadata_of_snapshots_is_the_newest_upload,
    concurrent_deployments_are_all_listed,
    metadata_is_read_in_few_statements,
];
