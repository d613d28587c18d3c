//! Secrets do not appear in the log, in webhook deliveries or in error messages, and are stored encrypted.

use reqwest::Method;
use sea_orm::{ConnectionTrait, DatabaseBackend, QueryResult, Statement};
use serde_json::{Value, json};
use storage::entities::Visibility;

use crate::delivery::commit_statuses::report;
use crate::support::code::Project;
use crate::support::git::{self, Work};
use crate::support::process::{Site, TOKEN, on_every_site};
use crate::support::spaces::group;
use crate::support::webhook_receiver::Receiver;
use crate::support::{Client, TestServer, on_every_database};

const PASSWORD: &str = "planted-pass-word-1";
const WRONG: &str = "planted-wrong-token-2";
const QUERIED: &str = "planted-query-token-3";
const TYPED: &str = "planted-typed-password-4";
const BASIC: &str = "planted-basic-password-5";
const COOKIE: &str = "planted-cookie-6";
/// Prefix of the values of all variables.
const VARIABLE: &str = "planted-variable-7";
const TRIGGER: &str = "planted-trigger-token-8";
const PRIVATE_KEY: &str = "planted-private-key-9";

/// Sends secrets to a project and a group in accepted and rejected requests, and checks that no error message repeats
/// them. Returns the trigger token of the project.
async fn plant(root: &Client, anonymous: &Client, project: &str, group: &str) -> String {
    let rejected = async |client: &Client, path: String, body: Value| {
        let response = client.post(&path, body).await;
        assert!((400..500).contains(&response.status), "{path}: {}", response.status);
        assert!(!response.text().contains("planted"), "{path}: {}", response.text());
    };
    for (number, all) in ["/admin/ci", project, group].into_iter().enumerate() {
        let all = format!("{all}/variables");
        let body = json!({ "key": "K", "value": format!("{VARIABLE}-{number}"), "masked": true });
        root.post(&all, body.clone()).await.expect(201);
        rejected(root, all.clone(), body).await;
        let unmaskable = json!({ "key": "X", "value": format!("{VARIABLE} with blanks"), "masked": true });
        rejected(root, all.clone(), unmaskable).await;
        let body = json!({ "value": format!("{VARIABLE}-changed-{number}") });
        root.put(&format!("{all}/K"), body).await.expect(200);
        root.get(&all).await.expect(200);
    }
    let variable = json!({ "key": "K", "value": format!("{VARIABLE}-of-pipeline") });
    let pipeline = json!({ "ref": "main", "variables": [variable] });
    let created = root.post(&format!("{project}/pipeline"), pipeline).await.expect(201).json();
    let variables = format!("{project}/pipelines/{}/variables", created["id"]);
    assert_eq!(root.get(&variables).await.expect(200).json()[0]["value"], variable["value"]);
    let twice = json!({ "ref": "main", "variables": [variable, variable] });
    rejected(root, format!("{project}/pipeline"), twice).await;
    let unused_address = json!({ "ref": "nowhere", "variables": [variable] });
    rejected(root, format!("{project}/pipeline"), unused_address).await;

    let schedule = crate::delivery::pipeline_schedules::schedule(root, project).await;
    let schedule = format!("{project}/pipeline_schedules/{schedule}");
    let variable = json!({ "key": "K", "value": format!("{VARIABLE}-of-schedule") });
    root.post(&format!("{schedule}/variables"), variable.clone()).await.expect(201);
    rejected(root, format!("{schedule}/variables"), variable).await;
    let body = json!({ "value": format!("{VARIABLE}-of-schedule-changed") });
    root.put(&format!("{schedule}/variables/K"), body).await.expect(200);
    root.post(&format!("{schedule}/play"), json!({})).await.expect(201);

    let (_, token) = crate::delivery::pipeline_triggers::trigger(root, project).await;
    let run = format!("{project}/trigger/pipeline");
    let variables = json!({ "K": format!("{VARIABLE}-of-trigger") });
    let body = json!({ "token": token, "ref": "main", "variables": variables });
    anonymous.post(&run, body).await.expect(201);
    let form = [("token", token.as_str()), ("ref", "main"), ("variables[K]", "planted-variable-7-in-form")];
    anonymous.post_form(&run, &form).await.expect(201);
    anonymous.post(&format!("{run}?token={token}&ref=main"), json!({})).await.expect(201);
    let of_ref = format!("{project}/ref/main/trigger/pipeline");
    anonymous.post(&format!("{of_ref}?token={token}&variables[K]={VARIABLE}-in-query"), json!({})).await.expect(201);
    for body in [
        json!({ "token": TRIGGER, "ref": "main", "variables": variables }),
        json!({ "token": token, "ref": "nowhere", "variables": variables }),
        json!({ "token": token, "ref": "main", "variables": { "a-b": format!("{VARIABLE}-refused") } }),
    ] {
        rejected(anonymous, run.clone(), body).await;
    }
    rejected(anonymous, format!("{of_ref}?token={TRIGGER}"), json!({})).await;

    // A private key sent in place of the public key.
    let key = format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{PRIVATE_KEY}\n-----END OPENSSH PRIVATE KEY-----\n");
    let body = json!({ "title": "deployer", "key": key });
    rejected(root, format!("{project}/deploy_keys"), body.clone()).await;
    rejected(root, "/user/keys".to_owned(), body).await;
    token
}

/// Returns every row of every table as text.
pub async fn dump_database(server: &TestServer) -> String {
    let db = server.backend.database.read();
    let backend = db.get_database_backend();
    let texts = async |sql: String| -> Vec<String> {
        let rows = db.query_all_raw(Statement::from_string(backend, sql)).await.expect("rows");
        let text = |row: &QueryResult| row.try_get::<Option<String>>("", "line").expect("a text");
        rows.iter().filter_map(text).collect()
    };
    let mut remaining = String::new();
    if backend == DatabaseBackend::Postgres {
        for table in texts("SELECT tablename::text AS line FROM pg_tables WHERE schemaname = 'public'".to_owned()).await
        {
            remaining.push_str(&texts(format!("SELECT t::text AS line FROM \"{table}\" t")).await.join("\n"));
        }
    } else {
        for table in texts("SELECT name AS line FROM sqlite_master WHERE type = 'table'".to_owned()).await {
            let columns =
                texts(format!("SELECT 'quote(\"' || name || '\")' AS line FROM pragma_table_info('{table}')")).await;
            remaining
                .push_str(&texts(format!("SELECT {} AS line FROM \"{table}\"", columns.join(" || "))).await.join("\n"));
        }
    }
    remaining
}

async fn pipeline_secrets_are_stored_encrypted_and_never_sent(server: TestServer) {
    let root = server.root();
    let project = Project::with_commits(&server, "planted", Visibility::Private).await;
    let (base_path, team) =
        (format!("/projects/{}", project.id), format!("/groups/{}", group(&root, "team", json!({})).await));
    let mut receiver = Receiver::start().await;
    let hook = json!({
        "url": receiver.url, "push_events": true, "tag_push_events": true, "issues_events": true, "note_events": true,
        "merge_requests_events": true, "job_events": true, "pipeline_events": true,
    });
    root.post(&format!("{base_path}/hooks"), hook).await.expect(201);
    let token = plant(&root, &server.anonymous(), &base_path, &team).await;
    report(
        &root,
        project.id,
        &project.id("main"),
        json!({ "state": "failed", "ref": "main", "name": "planned-build" }),
    )
    .await;
    server.finish_jobs().await;
    let response = receiver.rest();
    assert!(response.len() >= 7, "{}", response.len());
    let response = format!("{response:?}");
    assert!(response.contains("planned-build"));
    let mut listed = String::new();
    for path in [
        "/events",
        "/users/1/events",
        &format!("{base_path}/events"),
        &format!("{base_path}/pipelines"),
        "/deploy_keys",
    ] {
        listed.push_str(&root.get(path).await.expect(200).text());
    }
    let remaining = dump_database(&server).await;
    assert!(remaining.contains("planned-build") && remaining.contains("nightly"));
    for secret in [VARIABLE, TRIGGER, PRIVATE_KEY, &token] {
        for (base_path, text) in [("the hooks", &response), ("lists", &listed), ("the database", &remaining)] {
            assert!(!text.contains(secret), "{secret} is in {base_path}");
        }
        // The secret is not stored in hexadecimal form either.
        assert!(!remaining.to_lowercase().contains(&hex::encode(secret)), "{secret} is in the database");
    }
}

on_every_database![pipeline_secrets_are_stored_encrypted_and_never_sent,];

async fn secrets_do_not_appear_in_log(site: Site) {
    let log = site.sibling_path("log");
    let server = site.serve_logging(&log).await;
    let root = Client::new(&server.base, Some(TOKEN));
    let new = json!({ "email": "ann@example.com", "username": "ann", "name": "Ann", "password": PASSWORD });
    root.post("/users", new).await.expect(201);
    let created =
        root.post("/users/2/impersonation_tokens", json!({ "name": "t", "scopes": ["api"] })).await.expect(201);
    let given = created.json()["token"].as_str().expect("a token").to_owned();
    Client::new(&server.base, Some(&given)).get("/user").await.expect(200);
    let anonymous = Client::new(&server.base, None);
    Client::new(&server.base, Some(WRONG)).get("/user").await.expect(401);
    for name in ["private_token", "access_token"] {
        anonymous.get(&format!("/user?{name}={QUERIED}")).await.expect(401);
    }
    let listed = anonymous.get(&format!("/projects?private_token={given}")).await.expect(200);
    assert!(!listed.header("link").contains(&given));
    let form = anonymous.clone().header("cookie", &format!("_service_session={COOKIE}; _service_sign_in={COOKIE}"));
    form.send(form.request(Method::POST, "//users/sign_in").form(&[("login", "ann"), ("password", TYPED)]))
        .await
        .expect(403);
    let work = Work::new().await;
    site.import("p", &work.path).await;
    work.git(&["push", "--quiet", &server.address("p"), "main:other"]).await;
    let address = git::address(&server.base, "root", BASIC, "root/p");
    work.fails(&["push", "--quiet", &address, "main:more"]).await;
    let team = group(&root, "team", json!({})).await;
    let trigger = plant(&root, &anonymous, "/projects/root%2Fp", &format!("/groups/{team}")).await;
    server.stop().await;
    let output = std::fs::read_to_string(&log).expect("a log");
    assert!(output.contains("/api/v4/users"), "the log contains the requests");
    for secret in
        [TOKEN, PASSWORD, WRONG, QUERIED, TYPED, BASIC, COOKIE, VARIABLE, TRIGGER, PRIVATE_KEY, &trigger, &given]
    {
        let leak = output.lines().find(|line| line.contains(secret));
        assert_eq!(leak, None, "{secret} is in the log");
    }
}

on_every_site![secrets_do_not_appear_in_log,];
