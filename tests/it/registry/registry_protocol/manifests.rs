//! Manifests: push, pull, deletion and referrers.

use reqwest::Method;
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::registry_manifests;

use super::{CONFIG, IMAGE, INDEX, Tool, assert_refused, digest, objects};
use crate::support::spaces::project;
use crate::support::{TestServer, on_every_database};

async fn rows(server: &TestServer) -> Vec<registry_manifests::Model> {
    let all = registry_manifests::Entity::find().all(server.backend.database.read()).await;
    all.expect("rows")
}

async fn get_manifest_returns_pushed_bytes_by_tag_and_digest(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work/app").await;
    let image = tool.push_image("latest", 1).await;
    let bytes = image.manifest.to_string().into_bytes();
    assert_eq!(image.digest, digest(&bytes));
    for reference in ["latest", &image.digest] {
        let path = tool.path(&format!("manifests/{reference}"));
        let pulled = tool.client.get(&path).await.expect(200);
        assert_eq!(pulled.body, bytes);
        assert_eq!(
            (pulled.header("content-type"), pulled.header("docker-content-digest")),
            (IMAGE, image.digest.as_str())
        );
        assert_eq!(pulled.header("etag"), format!("\"{}\"", image.digest));
        let head = tool.client.head(&path).await.expect(200);
        assert_eq!((head.header("content-length"), head.body.len()), (bytes.len().to_string().as_str(), 0));
        assert_eq!(head.header("content-type"), IMAGE);
        let known = tool.client.clone().header("If-None-Match", pulled.header("etag"));
        known.get(&path).await.expect(304);
    }
    let row = &rows(&server).await[0];
    assert_eq!(row.config_digest.as_deref(), Some(image.config.as_str()));
    assert_eq!(row.image_created_at.map(|at| at.to_rfc3339()).as_deref(), Some("2020-01-02T03:04:05+00:00"));
    let config = image.manifest["config"]["size"].as_i64().expect("a size");
    assert_eq!(row.total_size, config + 1_000);
    for missing in ["manifests/none", &format!("manifests/{}", digest(b"none"))] {
        assert_refused(&tool.client.get(&tool.path(missing)).await, 404, "MANIFEST_UNKNOWN");
        tool.client.head(&tool.path(missing)).await.expect(404);
    }
    assert_refused(&tool.client.get(&tool.path("manifests/sha256:x")).await, 400, "DIGEST_INVALID");
}

async fn invalid_tag_names_return_404_on_read_and_400_on_push(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    let long = "x".repeat(129);
    for tag in [".INVALID_MANIFEST_NAME", "-x", "a%20b", "%00", &long] {
        let path = tool.path(&format!("manifests/{tag}"));
        for method in [Method::GET, Method::DELETE] {
            assert_refused(&tool.send(method, &path, &[], Vec::new()).await, 404, "MANIFEST_UNKNOWN");
        }
        tool.client.head(&path).await.expect(404);
        assert_refused(&tool.push_manifest(tag, IMAGE, &image.manifest).await, 400, "MANIFEST_INVALID");
    }
}

async fn push_manifest_rejects_blobs_missing_from_repository(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    let other = Tool::of_root(&server, "root/work/other").await;
    let refused = other.push_manifest("latest", IMAGE, &image.manifest).await;
    assert_refused(&refused, 400, "MANIFEST_BLOB_UNKNOWN");
    assert_eq!(refused.json()["errors"][0]["detail"], image.config);
    other.push_blob(b"x").await;
    assert_refused(&other.push_manifest("latest", IMAGE, &image.manifest).await, 400, "MANIFEST_BLOB_UNKNOWN");
    let list = json!({"schemaVersion": 2, "manifests": [{"mediaType": IMAGE, "digest": digest(b"none"), "size": 1}]});
    assert_refused(&tool.push_manifest("list", INDEX, &list).await, 400, "MANIFEST_BLOB_UNKNOWN");
    assert_refused(&other.client.get(&other.path("manifests/latest")).await, 404, "MANIFEST_UNKNOWN");
    assert_eq!(rows(&server).await.len(), 1);
}

async fn push_manifest_rejects_invalid_documents(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    for (kind, body) in [
        (IMAGE, json!(null)),
        (IMAGE, json!({"schemaVersion": 1})),
        ("application/json", image.manifest.clone()),
        (INDEX, image.manifest.clone()),
    ] {
        assert_refused(&tool.push_manifest("x", kind, &body).await, 400, "MANIFEST_INVALID");
    }
    let path = tool.path("manifests/x");
    assert_refused(&tool.send(Method::PUT, &path, &[], b"{}".to_vec()).await, 400, "MANIFEST_INVALID");
    assert_refused(
        &tool.send(Method::PUT, &path, &[("content-type", IMAGE)], vec![0xff; 10]).await,
        400,
        "MANIFEST_INVALID",
    );
    let huge = tool.send(Method::PUT, &path, &[("content-type", IMAGE)], vec![b' '; (4 << 20) + 1]).await;
    assert_refused(&huge, 413, "SIZE_INVALID");
    let wrong = tool.push_manifest(&digest(b"other"), IMAGE, &image.manifest).await;
    assert_refused(&wrong, 400, "DIGEST_INVALID");
    assert_refused(&tool.push_manifest("a%20b", IMAGE, &image.manifest).await, 400, "MANIFEST_INVALID");
    let method = tool.send(Method::POST, &path, &[], Vec::new()).await;
    assert_refused(&method, 405, "UNSUPPORTED");
}

async fn push_manifest_rejects_invalid_types_and_annotations(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    let subject = json!({"mediaType": IMAGE, "digest": image.digest, "size": 1});
    for (field, value) in [
        ("artifactType", json!("a\0b")),
        ("artifactType", json!("\u{7f}")),
        ("config", json!({"mediaType": "a\0b", "digest": image.config, "size": 1})),
        ("annotations", json!({"a": 1})),
        ("annotations", json!({"a": {"b": "c"}})),
        ("annotations", json!(["a"])),
    ] {
        let mut manifest = image.manifest.clone();
        manifest["subject"] = subject.clone();
        manifest[field] = value;
        assert_refused(&tool.push_manifest("x", IMAGE, &manifest).await, 400, "MANIFEST_INVALID");
    }
    let mut manifest = image.manifest.clone();
    manifest["subject"] = subject;
    manifest["annotations"] = json!({"a": "b\0"});
    tool.push_manifest("x", IMAGE, &manifest).await.expect(201);
    let path = tool.path(&format!("referrers/{}", image.digest));
    let listed = async || tool.client.get(&path).await.expect(200).json()["manifests"][0]["annotations"].clone();
    assert_eq!(listed().await, json!({"a": "b\0"}));
    // Invalid annotations stored by earlier versions are not returned.
    registry_manifests::Entity::update_many()
        .col_expr(registry_manifests::Column::Annotations, Expr::value(r#"{"a":1}"#))
        .filter(registry_manifests::Column::SubjectDigest.eq(image.digest.as_str()))
        .exec(server.backend.database.write())
        .await
        .expect("a change");
    assert_eq!(listed().await, json!(null));
}

async fn index_may_reference_blobs_for_build_caches(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let image = tool.push_image("latest", 1).await;
    let (layer, config) = (tool.push_blob(b"a layer").await, tool.push_blob(b"{}").await);
    let cache = |layer: &str| {
        json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
            {"mediaType": IMAGE, "digest": image.digest, "size": 1},
            {"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": layer, "size": 7},
            {"mediaType": "application/vnd.buildkit.cacheconfig.v0", "digest": config, "size": 2},
        ]})
    };
    let pushed = tool.push_manifest("cache", INDEX, &cache(&layer)).await.expect(201);
    let id = pushed.header("docker-content-digest").to_owned();
    let rows = rows(&server).await;
    let [one, list] = [&image.digest, &id].map(|digest| rows.iter().find(|row| row.digest == *digest).expect("a row"));
    assert_eq!(list.total_size, one.total_size + 7 + 2);
    // Such blobs are referenced by the index as the blobs of an image are.
    let blob = tool.path(&format!("blobs/{layer}"));
    assert_refused(&tool.client.delete(&blob).await, 409, "DENIED");
    tool.client.delete(&tool.path(&format!("manifests/{id}"))).await.expect(202);
    tool.client.delete(&blob).await.expect(202);
    assert_refused(&tool.push_manifest("cache", INDEX, &cache(&layer)).await, 400, "MANIFEST_BLOB_UNKNOWN");
    // An entry with the media type of a manifest must not be a blob.
    let manifest = image.manifest.to_string().into_bytes();
    let other = Tool::of_root(&server, "root/work/other").await;
    let list = json!({"schemaVersion": 2, "manifests": [{"mediaType": IMAGE, "digest": other.push_blob(&manifest).await, "size": 1}]});
    assert_refused(&other.push_manifest("list", INDEX, &list).await, 400, "MANIFEST_BLOB_UNKNOWN");
}

async fn repeated_manifest_push_does_not_read_configuration_again(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    // A large configuration with the creation date at its end.
    let config = format!(r#"{{"history": [{}0], "created": "2020-01-02T03:04:05Z"}}"#, "0,".repeat(200_000));
    let config_digest = tool.push_blob(config.as_bytes()).await;
    let manifest = json!({
        "schemaVersion": 2,
        "config": {"mediaType": CONFIG, "digest": config_digest, "size": config.len()},
        "layers": [],
    });
    tool.push_manifest("one", IMAGE, &manifest).await.expect(201);
    for key in objects(&server).await {
        server.backend.objects.discard(&key).await.expect("the storage");
    }
    tool.push_manifest("two", IMAGE, &manifest).await.expect(201);
    let rows = rows(&server).await;
    let created: Vec<_> = rows.iter().map(|row| row.image_created_at.map(|at| at.to_rfc3339())).collect();
    assert_eq!(created, [Some("2020-01-02T03:04:05+00:00".to_owned())]);
}

async fn push_manifest_accepts_any_configuration(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    for (number, (kind, config)) in [
        (CONFIG, "not JSON"),
        (CONFIG, "[]"),
        (CONFIG, r#"["2020-01-02T03:04:05Z"]"#),
        (CONFIG, r#"{"created": 12}"#),
        (CONFIG, r#"{"created": "soon"}"#),
        ("application/vnd.example+json", r#"{"created": "2020-01-02T03:04:05Z"}"#),
    ]
    .into_iter()
    .enumerate()
    {
        let config_digest = tool.push_blob(config.as_bytes()).await;
        let manifest = json!({
            "schemaVersion": 2,
            "config": {"mediaType": kind, "digest": config_digest, "size": config.len()},
            "layers": [],
        });
        tool.push_manifest(&format!("n{number}"), IMAGE, &manifest).await.expect(201);
    }
    let rows = rows(&server).await;
    assert!(rows.len() == 6 && rows.iter().all(|row| row.image_created_at.is_none()));
}

async fn manifest_in_index_cannot_be_deleted(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let (one, two) = (tool.push_image("one", 1).await, tool.push_image("two", 2).await);
    let list = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [
        {"mediaType": IMAGE, "digest": one.digest, "size": 1, "platform": {"os": "linux", "architecture": "amd64"}},
        {"mediaType": IMAGE, "digest": two.digest, "size": 1},
    ]});
    let pushed = tool.push_manifest("list", INDEX, &list).await.expect(201);
    let id = pushed.header("docker-content-digest").to_owned();
    assert_eq!(pushed.header("location"), format!("/v2/root/work/manifests/{id}"));
    assert_eq!(tool.client.get(&tool.path("manifests/list")).await.expect(200).header("content-type"), INDEX);
    let row = rows(&server).await.into_iter().find(|row| row.digest == id).expect("a row");
    assert_eq!(row.config_digest, None);
    assert!(row.total_size > 2_000);
    let needed = tool.client.delete(&tool.path(&format!("manifests/{}", one.digest))).await;
    assert_refused(&needed, 409, "DENIED");
    tool.client.delete(&tool.path(&format!("manifests/{id}"))).await.expect(202);
    tool.client.delete(&tool.path(&format!("manifests/{}", one.digest))).await.expect(202);
    assert_refused(&tool.client.get(&tool.path("manifests/one")).await, 404, "MANIFEST_UNKNOWN");
    tool.client.get(&tool.path("manifests/two")).await.expect(200);
    let again = tool.client.delete(&tool.path(&format!("manifests/{}", one.digest))).await;
    assert_refused(&again, 404, "MANIFEST_UNKNOWN");
}

async fn list_referrers_works_without_the_subject_manifest(server: TestServer) {
    project(&server.root(), "work", json!({})).await;
    let tool = Tool::of_root(&server, "root/work").await;
    let subject = digest(b"comes later");
    let path = tool.path(&format!("referrers/{subject}"));
    let none = tool.client.get(&path).await.expect(200);
    assert_eq!((none.header("content-type"), &none.json()["manifests"]), (INDEX, &json!([])));
    let empty = tool.push_blob(b"{}").await;
    let about = |kind: &str, number: usize| {
        json!({
            "schemaVersion": 2,
            "artifactType": kind,
            "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": empty, "size": 2},
            "layers": [],
            "subject": {"mediaType": IMAGE, "digest": subject, "size": 3},
            "annotations": {"number": number.to_string()},
        })
    };
    let mut all = Vec::new();
    for number in 0..53 {
        let kind = if number % 2 == 0 { "application/x-signature" } else { "application/x-list" };
        let manifest = about(kind, number);
        let id = digest(manifest.to_string().as_bytes());
        let pushed = tool.push_manifest(&id, IMAGE, &manifest).await.expect(201);
        assert_eq!(pushed.header("oci-subject"), subject);
        all.push(id);
    }
    let first = tool.client.get(&path).await.expect(200);
    let listed = first.json()["manifests"].clone();
    assert_eq!(listed.as_array().expect("a list").len(), 50);
    assert_eq!(listed[1]["annotations"], json!({"number": "1"}));
    assert_eq!((&listed[1]["artifactType"], &listed[1]["digest"]), (&json!("application/x-list"), &json!(all[1])));
    assert_eq!((&listed[1]["mediaType"], listed[1]["size"].is_u64()), (&json!(IMAGE), true));
    let next = first.header("link").split(['<', '>']).nth(1).expect("a link").to_owned();
    let rest = tool.client.get(&format!("/{next}")).await.expect(200);
    assert_eq!((rest.json()["manifests"].as_array().map(Vec::len), rest.header("link")), (Some(3), ""));
    let some = tool.client.get(&format!("{path}?artifactType=application/x-list")).await.expect(200);
    assert_eq!(
        (some.json()["manifests"].as_array().map(Vec::len), some.header("oci-filters-applied")),
        (Some(26), "artifactType")
    );
    assert_refused(&tool.client.get(&tool.path("referrers/x")).await, 400, "DIGEST_INVALID");
    // Without an artifact type, the media type of the configuration is returned.
    let mut plain: Value = about("", 99);
    plain.as_object_mut().expect("an object").remove("artifactType");
    tool.push_manifest("plain", IMAGE, &plain).await.expect(201);
    let kinds = tool.client.get(&format!("{path}?artifactType=application/vnd.oci.empty.v1%2Bjson")).await.expect(200);
    assert_eq!(kinds.json()["manifests"].as_array().map(Vec::len), Some(1));
}

on_every_database![
    get_manifest_returns_pushed_bytes_by_tag_and_digest,
    invalid_tag_names_return_404_on_read_and_400_on_push,
    push_manifest_rejects_blobs_missing_from_repository,
    push_manifest_rejects_invalid_documents,
    push_manifest_rejects_invalid_types_and_annotations,
    index_may_reference_blobs_for_build_caches,
    repeated_manifest_push_does_not_read_configuration_again,
    push_manifest_accepts_any_configuration,
    manifest_in_index_cannot_be_deleted,
    list_referrers_works_without_the_subject_manifest,
];
