//! Signatures of commits.

use chrono::{DateTime, Utc};
use sea_orm::sea_query::Expr;
use sea_orm::{ColumnTrait, EntityTrait, QueryFilter};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility, gpg_key_ids, user_keys};

use crate::support::code::Project;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database, openpgp};

/// The public key that signed [`SIGNATURE`].
const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAbRbNb4zqO76Z/cyQy9jE8ZrbxeghN+Lt2/sPrzZ8mn";

/// The signature of the commit that [`signed_commit`] creates, by `ssh-keygen -Y sign -n git`.
const SIGNATURE: &str = "-----BEGIN SSH SIGNATURE-----\n\
    U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAgBtFs1vjOo7vpn9zJDL2MTxmtvF\n\
    6CE34u3b+w+vNnyacAAAADZ2l0AAAAAAAAAAZzaGE1MTIAAABTAAAAC3NzaC1lZDI1NTE5\n\
    AAAAQHveL6APuuof2qKWZUPkuP3v8L1L6zomZGjEqCIKdrv5HpOnpipAGUvkfC3hepnKGY\n\
    H6MOlD7/r9SRHZy7aMvwQ=\n\
    -----END SSH SIGNATURE-----";

/// Creates the commit `Signed` of `Ada@Example.com` with a signature, and returns its ID.
fn signed_commit(project: &Project<'_>, message: &str, signature: &str) -> String {
    let who = |name: &str, time: i64| format!("Ada Lovelace <{name}> {time} +0000");
    let header = signature.replace('\n', "\n ");
    let tree = project.git_with(&["hash-object", "-t", "tree", "-w", "--stdin"], "");
    let data = format!(
        "tree {tree}\nauthor {}\ncommitter {}\ngpgsig {header}\n\n{message}\n",
        who("ada@example.com", 1_700_000_000),
        who("Ada@Example.com", 1_700_000_100),
    );
    project.git_with(&["hash-object", "-t", "commit", "-w", "--stdin"], &data)
}

fn url(project: &Project<'_>, sha: &str) -> String {
    project.url(&format!("/commits/{sha}/signature"))
}

async fn signature(server: &TestServer, project: &Project<'_>, sha: &str) -> Value {
    server.anonymous().get(&url(project, sha)).await.expect(200).json()
}

/// Returns the response for a signature, with these fields that are not null.
fn expected(kind: &str, status: &str, fields: Value) -> Value {
    let mut whole = json!({
        "signature_type": kind, "verification_status": status, "key": null, "gpg_key_id": null,
        "gpg_key_primary_keyid": null, "gpg_key_subkey_id": null, "gpg_key_user_name": null, "gpg_key_user_email": null,
    });
    for (name, value) in fields.as_object().into_iter().flatten() {
        whole[name] = value.clone();
    }
    whole
}

/// Adds a GPG key to a user.
async fn add_gpg_key(user: &TestUser, key: &str) -> i64 {
    let key = user.client.post("/user/gpg_keys", json!({ "key": key })).await.expect(201).json();
    key["id"].as_i64().expect("an ID")
}

/// Adds the key to a user.
async fn add_key(user: &TestUser) -> Value {
    user.client.post("/user/keys", json!({"title": "Laptop", "key": KEY})).await.expect(201).json()
}

async fn ssh_signature_of_the_committer_is_verified(server: TestServer) {
    let project = Project::with_commits(&server, "signed", Visibility::Public).await;
    let sha = signed_commit(&project, "Signed", SIGNATURE);
    let unknown = expected("SSH", "unknown_key", json!({}));
    assert_eq!(signature(&server, &project, &sha).await, unknown);
    let ada = server.create_user("ada").await;
    assert_eq!(ada.row.email, "ada@example.com");
    let key = add_key(&ada).await;
    let verified = expected("SSH", "verified", json!({ "key": key }));
    assert_eq!(signature(&server, &project, &sha).await, verified);
    assert_eq!(signature(&server, &project, &sha[..10]).await, verified);
    let tag = server.anonymous().get(&url(&project, &sha)).await.expect(200).header("etag").to_owned();
    server.anonymous().header("If-None-Match", &tag).get(&url(&project, &sha)).await.expect(304);
    let before = server.statements();
    signature(&server, &project, &sha).await;
    assert!(server.statements() - before <= 2, "{:?}", server.statement_texts(before));
    // Another commit with the same signature.
    let other = signed_commit(&project, "Changed", SIGNATURE);
    let unverified = expected("SSH", "unverified", json!({}));
    assert_eq!(signature(&server, &project, &other).await, unverified);
    ada.client.delete(&format!("/user/keys/{}", key["id"])).await.expect(204);
    assert_eq!(signature(&server, &project, &sha).await, unknown);
}

async fn key_of_another_user_is_not_verified(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "others", Visibility::Public).await;
    let sha = signed_commit(&project, "Signed", SIGNATURE);
    let ben = server.create_user("ben").await;
    let key = add_key(&ben).await;
    let shown = signature(&server, &project, &sha).await;
    assert_eq!((&shown["verification_status"], &shown["key"]), (&json!("other_user"), &key));
    // A secondary address counts as soon as it is confirmed.
    let email = json!({"email": "ADA@example.com"});
    let pending = ben.client.post("/user/emails", email.clone()).await.expect(201).json();
    assert_eq!(signature(&server, &project, &sha).await["verification_status"], "other_user");
    ben.client.delete(&format!("/user/emails/{}", pending["id"])).await.expect(204);
    let confirmed = json!({"email": "ADA@example.com", "skip_confirmation": true});
    root.post(&format!("/users/{}/emails", ben.id), confirmed).await.expect(201);
    assert_eq!(signature(&server, &project, &sha).await["verification_status"], "verified");
    root.delete(&format!("/users/{}", ben.id)).await.expect(204);
    assert_eq!(signature(&server, &project, &sha).await["verification_status"], "unknown_key");
    server.finish_jobs().await;
    assert_eq!(signature(&server, &project, &sha).await["verification_status"], "unknown_key");
}

async fn key_verifies_only_signatures_within_its_limits(server: TestServer) {
    let project = Project::with_commits(&server, "limits", Visibility::Public).await;
    // The commit is from 2023-11-14T22:15:00Z.
    let sha = signed_commit(&project, "Signed", SIGNATURE);
    let ada = server.create_user("ada").await;
    let status = async || signature(&server, &project, &sha).await;
    let add = async |usage: &str| {
        let body = json!({ "title": "Laptop", "key": KEY, "usage_type": usage });
        ada.client.post("/user/keys", body).await.expect(201).json()
    };
    let remove = async |key: &Value| {
        ada.client.delete(&format!("/user/keys/{}", key["id"])).await.expect(204);
    };
    let key = add("auth").await;
    assert_eq!(status().await, expected("SSH", "unknown_key", json!({})));
    remove(&key).await;
    let mut key = add("signing").await;
    assert_eq!(status().await, expected("SSH", "verified", json!({ "key": key })));
    for (end, verified) in [("2023-11-14T22:15:00Z", false), ("2023-11-14T22:15:01Z", true)] {
        let end: DateTime<Utc> = end.parse().expect("a time");
        user_keys::Entity::update_many()
            .col_expr(user_keys::Column::ExpiresAt, Expr::value(end))
            .exec(server.backend.database.write())
            .await
            .expect("a change");
        server.backend.database.invalidate();
        key["expires_at"] = json!(end.format("%Y-%m-%dT%H:%M:%S.000Z").to_string());
        let of_key = match verified {
            true => expected("SSH", "verified", json!({ "key": key })),
            false => expected("SSH", "unverified", json!({})),
        };
        assert_eq!(status().await, of_key, "{end}");
    }
}

async fn signatures_in_other_formats_are_not_verified(server: TestServer) {
    let project = Project::with_commits(&server, "formats", Visibility::Public).await;
    for (text, kind, status) in [
        ("-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----", "PGP", "unverified"),
        ("-----BEGIN PGP MESSAGE-----\n\nx\n-----END PGP MESSAGE-----", "PGP", "unverified"),
        ("-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----", "X509", "unverified"),
        ("-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----", "SSH", "unverified"),
        ("-----BEGIN SSH SIGNATURE-----", "SSH", "unverified"),
    ] {
        let sha = signed_commit(&project, "m", text);
        assert_eq!(signature(&server, &project, &sha).await, expected(kind, status, json!({})));
    }
    let large = signed_commit(&project, "m", &"x".repeat(70_000));
    let refused = server.root().get(&url(&project, &large)).await.expect(400);
    assert!(refused.message().contains("too large"), "{}", refused.message());
}

async fn openpgp_signature_of_the_committer_is_verified(server: TestServer) {
    let project = Project::with_commits(&server, "openpgp", Visibility::Public).await;
    let sha = signed_commit(&project, "Signed", openpgp::ADA_SIGNATURE.trim());
    let unknown = expected("PGP", "unknown_key", json!({ "gpg_key_primary_keyid": openpgp::ADA_SUBKEY_ID }));
    assert_eq!(signature(&server, &project, &sha).await, unknown);
    let ada = server.create_user("ada").await;
    let key = add_gpg_key(&ada, openpgp::ADA).await;
    let db = server.backend.database.read();
    let subkey = gpg_key_ids::Entity::find().filter(gpg_key_ids::Column::KeyId.eq(openpgp::ADA_SUBKEY_ID)).one(db);
    let subkey = subkey.await.expect("a query").expect("a subkey").id;
    let verified = expected(
        "PGP",
        "verified",
        json!({
            "gpg_key_id": key, "gpg_key_primary_keyid": openpgp::ADA_KEY_ID, "gpg_key_subkey_id": subkey,
            "gpg_key_user_name": "Ada Lovelace", "gpg_key_user_email": "ada@example.com",
        }),
    );
    assert_eq!(signature(&server, &project, &sha).await, verified);
    let before = server.statements();
    signature(&server, &project, &sha).await;
    assert!(server.statements() - before <= 2, "{:?}", server.statement_texts(before));
    // Another commit with the same signature.
    let other = signed_commit(&project, "Changed", openpgp::ADA_SIGNATURE.trim());
    let unverified = expected("PGP", "unverified", json!({ "gpg_key_primary_keyid": openpgp::ADA_SUBKEY_ID }));
    assert_eq!(signature(&server, &project, &other).await, unverified);
    // A signature by a primary key.
    let sha_of_rsa = signed_commit(&project, "Signed", openpgp::RSA_SIGNATURE.trim());
    let rsa = add_gpg_key(&ada, openpgp::RSA).await;
    let shown = signature(&server, &project, &sha_of_rsa).await;
    assert_eq!((&shown["verification_status"], &shown["gpg_key_id"]), (&json!("verified"), &json!(rsa)));
    assert_eq!(shown["gpg_key_subkey_id"], json!(null));
    ada.client.post(&format!("/user/gpg_keys/{key}/revoke"), json!({})).await.expect(202);
    assert_eq!(signature(&server, &project, &sha).await, unknown);
}

async fn openpgp_key_must_state_the_address_of_the_committer(server: TestServer) {
    let project = Project::with_commits(&server, "addresses", Visibility::Public).await;
    // The commit is by ada@example.com, and the key states ben@example.com.
    let sha = signed_commit(&project, "Signed", openpgp::BEN_SIGNATURE.trim());
    let (root, ben) = (server.root(), server.create_user("ben").await);
    add_gpg_key(&ben, openpgp::BEN).await;
    let status = async || signature(&server, &project, &sha).await["verification_status"].clone();
    assert_eq!(status().await, "other_user");
    let ada = json!({"email": "ADA@example.com", "skip_confirmation": true});
    root.post(&format!("/users/{}/emails", ben.id), ada).await.expect(201);
    assert_eq!(status().await, "same_user_different_email");
    let changed = json!({"email": "benjamin@example.com", "skip_reconfirmation": true});
    root.put(&format!("/users/{}", ben.id), changed).await.expect(200);
    assert_eq!(status().await, "unverified_key");
    root.delete(&format!("/users/{}", ben.id)).await.expect(204);
    assert_eq!(status().await, "unknown_key");
}

async fn unsigned_and_unknown_commits_have_no_signature(server: TestServer) {
    let project = Project::with_commits(&server, "unsigned", Visibility::Public).await;
    let unknown_format = signed_commit(&project, "m", "unknown");
    for sha in ["main", &unknown_format] {
        let missing = server.root().get(&url(&project, sha)).await.expect(404);
        assert_eq!(missing.message(), "404 Signature Not Found", "{sha}");
    }
    for sha in ["missing", "0000000000000000000000000000000000000000"] {
        let missing = server.root().get(&url(&project, sha)).await.expect(404);
        assert_eq!(missing.message(), "404 Commit Not Found", "{sha}");
    }
    server.root().get(&project.url("/commits/%00/signature")).await.expect(400);
}

async fn signature_requires_access_to_the_code(server: TestServer) {
    let project = Project::with_commits(&server, "rights", Visibility::Private).await;
    let sha = signed_commit(&project, "Signed", SIGNATURE);
    let path = url(&project, &sha);
    let guest = project.member("guest", AccessLevel::Guest).await;
    let reporter = project.member("reporter", AccessLevel::Reporter).await;
    let outsider = server.create_user("outsider").await;
    let narrow = server.with_token(&server.create_token(reporter_id(&reporter).await, &["read_user"]).await);
    server.anonymous().get(&path).await.expect(404);
    outsider.client.get(&path).await.expect(404);
    guest.get(&path).await.expect(403);
    reporter.get(&path).await.expect(200);
    narrow.get(&path).await.expect(403);
    server.with_token("nonsense").get(&path).await.expect(401);
}

async fn reporter_id(client: &crate::support::Client) -> i64 {
    client.get("/user").await.expect(200).json()["id"].as_i64().expect("an ID")
}

on_every_database![
    ssh_signature_of_the_committer_is_verified,
    key_of_another_user_is_not_verified,
    key_verifies_only_signatures_within_its_limits,
    signatures_in_other_formats_are_not_verified,
    openpgp_signature_of_the_committer_is_verified,
    openpgp_key_must_state_the_address_of_the_committer,
    unsigned_and_unknown_commits_have_no_signature,
    signature_requires_access_to_the_code,
];
