//! Signatures of commits.

use serde_json::{Value, json};
use storage::entities::{AccessLevel, Visibility};

use crate::support::code::Project;
use crate::support::users::TestUser;
use crate::support::{TestServer, on_every_database};

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

/// Adds the key to a user.
async fn add_key(user: &TestUser) -> Value {
    user.client.post("/user/keys", json!({"title": "Laptop", "key": KEY})).await.expect(201).json()
}

async fn ssh_signature_of_the_committer_is_verified(server: TestServer) {
    let project = Project::with_commits(&server, "signed", Visibility::Public).await;
    let sha = signed_commit(&project, "Signed", SIGNATURE);
    let unknown = json!({"signature_type": "SSH", "verification_status": "unknown_key", "key": null});
    assert_eq!(signature(&server, &project, &sha).await, unknown);
    let ada = server.create_user("ada").await;
    assert_eq!(ada.row.email, "ada@example.com");
    let key = add_key(&ada).await;
    let verified = json!({"signature_type": "SSH", "verification_status": "verified", "key": key});
    assert_eq!(signature(&server, &project, &sha).await, verified);
    assert_eq!(signature(&server, &project, &sha[..10]).await, verified);
    let tag = server.anonymous().get(&url(&project, &sha)).await.expect(200).header("etag").to_owned();
    server.anonymous().header("If-None-Match", &tag).get(&url(&project, &sha)).await.expect(304);
    let before = server.statements();
    signature(&server, &project, &sha).await;
    assert!(server.statements() - before <= 2, "{:?}", server.statement_texts(before));
    // Another commit with the same signature.
    let other = signed_commit(&project, "Changed", SIGNATURE);
    let unverified = json!({"signature_type": "SSH", "verification_status": "unverified", "key": null});
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

async fn signatures_in_other_formats_are_not_verified(server: TestServer) {
    let project = Project::with_commits(&server, "formats", Visibility::Public).await;
    for (text, kind, status) in [
        ("-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----", "PGP", "unknown_key"),
        ("-----BEGIN PGP MESSAGE-----\n\nx\n-----END PGP MESSAGE-----", "PGP", "unknown_key"),
        ("-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----", "X509", "unverified"),
        ("-----BEGIN SSH SIGNATURE-----\nU1NI\n-----END SSH SIGNATURE-----", "SSH", "unverified"),
        ("-----BEGIN SSH SIGNATURE-----", "SSH", "unverified"),
    ] {
        let sha = signed_commit(&project, "m", text);
        let expected = json!({"signature_type": kind, "verification_status": status, "key": null});
        assert_eq!(signature(&server, &project, &sha).await, expected);
    }
    let large = signed_commit(&project, "m", &"x".repeat(70_000));
    let refused = server.root().get(&url(&project, &large)).await.expect(400);
    assert!(refused.message().contains("too large"), "{}", refused.message());
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
    signatures_in_other_formats_are_not_verified,
    unsigned_and_unknown_commits_have_no_signature,
    signature_requires_access_to_the_code,
];
