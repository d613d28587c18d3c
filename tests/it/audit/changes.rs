//! Audit events of particular changes, of jobs and of the command line.

use chrono::Days;
use domain::lifecycle::deletion::projects::delete_permanently;
use domain::spaces::members::{sweep_expired, synchronize};
use domain::spaces::verified_domains;
use sea_orm::sea_query::Expr;
use sea_orm::{ActiveModelTrait, ActiveValue::Set, EntityTrait};
use serde_json::{Value, json};
use storage::entities::{AccessLevel, group_shares, members, now, project_shares, settings};

use super::{last_id, names_after, newest};
use crate::spaces::scim::{Provider, user_attributes};
use crate::support::repository::Sample;
use crate::support::server::DELETION_DELAY;
use crate::support::spaces::{group, join, membership, project};
use crate::support::{TestServer, on_every_database};

/// Returns the changed attribute of the newest event of a kind, with its former and its new value.
async fn change(server: &TestServer, name: &str) -> [Value; 3] {
    let details = newest(server, name).await["details"].clone();
    ["change", "from", "to"].map(|field| details[field].clone())
}

async fn changes_of_user_are_recorded_separately(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let last = last_id(&server).await;
    let path = format!("/users/{}", ada.id);
    let body = json!({
        "username": "lovelace", "email": "lovelace@example.com", "external": true, "provider": "corp", "extern_uid": "42",
        "password": "a-new-password", "skip_reconfirmation": true, "bio": "not audited",
    });
    root.put(&path, body).await.expect(200);
    let mut names = names_after(&server, last).await;
    names.sort_unstable();
    let expected = [
        "user_email_changed",
        "user_identity_added",
        "user_password_changed",
        "user_setting_changed",
        "username_changed",
    ];
    assert_eq!(names, expected);
    assert_eq!(change(&server, "username_changed").await, ["username", "ada", "lovelace"]);
    assert_eq!(change(&server, "user_setting_changed").await, ["external", "false", "true"]);
    root.put(&path, json!({ "admin": true })).await.expect(200);
    assert_eq!(change(&server, "user_admin_changed").await, ["admin", "false", "true"]);
    root.post(&format!("{path}/block"), json!({})).await.expect(201);
    assert_eq!(change(&server, "user_blocked").await, ["state", "active", "blocked"]);
    let last = last_id(&server).await;
    root.post(&format!("{path}/block"), json!({})).await.expect(201);
    assert_eq!(names_after(&server, last).await, [""; 0]);
}

async fn changes_of_groups_and_projects_name_their_attributes(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    let body = json!({ "visibility": "public", "path": "machines", "membership_lock": true });
    root.put(&format!("/groups/{engines}"), body).await.expect(200);
    assert_eq!(change(&server, "group_visibility_changed").await, ["visibility", "private", "public"]);
    let event = newest(&server, "group_setting_changed").await;
    assert_eq!(event["details"]["entity_path"], "machines");
    let work = project(&root, "work", json!({})).await;
    let body = json!({ "only_allow_merge_if_pipeline_succeeds": true, "description": "not audited" });
    root.put(&format!("/projects/{work}"), body).await.expect(200);
    let expected = json!(["only_allow_merge_if_pipeline_succeeds", "false", "true"]);
    assert_eq!(json!(change(&server, "project_setting_changed").await), expected);
    for (body, expected) in [
        (json!({ "packages_enabled": false }), ["package_registry_access_level", "enabled", "disabled"]),
        (json!({ "releases_access_level": "private" }), ["releases_access_level", "enabled", "private"]),
        (json!({ "environments_access_level": "private" }), ["environments_access_level", "enabled", "private"]),
        (json!({ "feature_flags_access_level": "disabled" }), ["feature_flags_access_level", "enabled", "disabled"]),
        (json!({ "infrastructure_access_level": "disabled" }), ["infrastructure_access_level", "enabled", "disabled"]),
        (json!({ "monitor_access_level": "private" }), ["monitor_access_level", "enabled", "private"]),
        (
            json!({ "security_and_compliance_access_level": "disabled" }),
            ["security_and_compliance_access_level", "private", "disabled"],
        ),
    ] {
        root.put(&format!("/projects/{work}"), body).await.expect(200);
        assert_eq!(change(&server, "project_setting_changed").await, expected);
    }
    root.put(&format!("/projects/{work}/transfer"), json!({ "namespace": "machines" })).await.expect(200);
    assert_eq!(change(&server, "project_transferred").await, ["namespace", "root", "machines"]);
    root.put("/application/settings", json!({ "deletion_adjourned_period": 0 })).await.expect(200);
    root.delete(&format!("/groups/{engines}")).await.expect(202);
    assert_eq!(newest(&server, "group_deleted").await["entity_id"], json!(engines));
}

async fn protection_has_its_levels(server: TestServer) {
    let sample = Sample::new(&server).await;
    let path = format!("/projects/{}/repository/branches/main/protect", sample.id);
    server.root().put(&path, json!({})).await.expect(200);
    assert_eq!(newest(&server, "branch_protected").await["details"]["to"], "push 40, merge 40");
    server.root().put(&path, json!({ "developers_can_push": true })).await.expect(200);
    let details = newest(&server, "branch_protection_changed").await["details"].clone();
    assert_eq!((&details["from"], &details["to"]), (&json!("push 40, merge 40"), &json!("push 30, merge 40")));
    assert_eq!((&details["target_type"], &details["target_details"]), (&json!("ProtectedBranch"), &json!("main")));
    let one = format!("/projects/{}/protected_branches/main", sample.id);
    server.root().patch(&one, json!({ "code_owner_approval_required": true })).await.expect(200);
    let details = newest(&server, "branch_protection_changed").await["details"].clone();
    assert_eq!(details["to"], "push 30, merge 40, code owners");
    // The older operation keeps the attribute.
    server.root().put(&path, json!({ "developers_can_push": false })).await.expect(200);
    assert_eq!(server.root().get(&one).await.expect(200).json()["code_owner_approval_required"], true);
}

async fn removal_from_group_records_all_memberships_in_one_statement(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let engines = group(&root, "engines", json!({})).await;
    join(&root, &format!("/groups/{engines}"), ada.id, 20).await;
    for number in 0..3 {
        let below = group(&root, &format!("below-{number}"), json!({ "parent_id": engines })).await;
        join(&root, &format!("/groups/{below}"), ada.id, 30).await;
        let work = project(&root, &format!("work-{number}"), json!({ "namespace_id": below })).await;
        join(&root, &format!("/projects/{work}"), ada.id, 40).await;
    }
    let last = last_id(&server).await;
    let before = server.statements();
    root.delete(&format!("/groups/{engines}/members/{}", ada.id)).await.expect(204);
    let texts = server.statement_texts(before);
    let inserts = texts.iter().filter(|text| text.starts_with("INSERT INTO \"audit_events\"")).count();
    assert_eq!(inserts, 1, "{texts:?}");
    assert_eq!(names_after(&server, last).await, ["member_removed"; 7]);
}

async fn jobs_act_as_the_system_and_commands_as_the_command_line(server: TestServer) {
    let (ada, root) = (server.create_user("ada").await, server.root());
    let newest_by = async |author: &str, name: &str| {
        let event = newest(&server, name).await;
        assert_eq!((&event["author_id"], &event["details"]["author_name"]), (&json!(-1), &json!(author)), "{name}");
        event
    };
    let system = async |name: &str| newest_by("System", name).await;
    let engines = group(&root, "engines", json!({})).await;
    let other = group(&root, "other", json!({})).await;
    let work = project(&root, "work", json!({})).await;
    // Expired access.
    let db = server.backend.database.write();
    let ended = now().date_naive() - Days::new(1);
    let expired = members::ActiveModel {
        project_id: Set(Some(work)),
        expires_at: Set(Some(ended)),
        ..membership(ada.id, AccessLevel::Developer)
    };
    expired.insert(db).await.expect("a member");
    for (path, share) in [(format!("/groups/{engines}"), "group"), (format!("/projects/{work}"), "project")] {
        let body = json!({ "group_id": other, "group_access": 30, "expires_at": "2099-01-31" });
        root.post(&format!("{path}/share"), body).await.expect(201);
        match share {
            "group" => {
                let update = group_shares::Entity::update_many();
                update.col_expr(group_shares::Column::ExpiresAt, Expr::value(ended)).exec(db).await.expect("an update");
            }
            _ => {
                let update = project_shares::Entity::update_many();
                update
                    .col_expr(project_shares::Column::ExpiresAt, Expr::value(ended))
                    .exec(db)
                    .await
                    .expect("an update");
            }
        }
    }
    assert_eq!(sweep_expired(&server.backend).await.expect("a sweep"), 3);
    assert_eq!(system("member_removed").await["details"]["target_id"], json!(ada.id));
    assert_eq!(system("group_unshared").await["entity_id"], json!(engines));
    assert_eq!(system("project_unshared").await["entity_id"], json!(work));
    // A delayed deletion.
    settings::put(db, DELETION_DELAY, "7").await.expect("a setting");
    root.delete(&format!("/projects/{work}")).await.expect(202);
    assert_eq!(newest(&server, "project_deletion_scheduled").await["author_id"], json!(1));
    delete_permanently(&server.backend, work, Some(now().date_naive()), None).await.expect("a deletion");
    assert_eq!(system("project_deleted").await["entity_id"], json!(work));
    // The command line.
    let listed = [("ada".to_owned(), AccessLevel::Reporter)];
    synchronize(&server.backend, "engines", &listed).await.expect("a synchronization");
    let command_line = async |name: &str| newest_by("Command line", name).await;
    assert_eq!(command_line("member_added").await["details"]["to"], "Reporter");
    verified_domains::add(&server.backend, "engines", "bank.example").await.expect("a domain");
    assert_eq!(command_line("verified_domain_added").await["details"]["target_details"], "bank.example");
    verified_domains::remove(&server.backend, "engines", "bank.example").await.expect("a removal");
    command_line("verified_domain_removed").await;
}

async fn identity_provider_is_the_author_of_provisioning(server: TestServer) {
    let provider = Provider::of(&server, "provided").await;
    let sam = provider.provision(&server, "sam").await;
    for name in ["user_created", "scim_user_provisioned", "member_added"] {
        let event = newest(&server, name).await;
        assert_eq!((&event["author_id"], &event["details"]["author_name"]), (&json!(-1), &json!("Identity provider")));
        assert_eq!(
            (&event["details"]["target_id"], &event["details"]["ip_address"]),
            (&json!(sam), &json!("127.0.0.1"))
        );
    }
    let change = json!([{ "op": "Replace", "path": "externalId", "value": "uid-2" }]);
    assert!(provider.patch("uid-sam", change).await.status < 300);
    assert_eq!(newest(&server, "scim_user_changed").await["entity_id"], json!(provider.group));
    let last = last_id(&server).await;
    let mut attributes = user_attributes("sam");
    attributes["externalId"] = json!("uid-2");
    provider.create(&attributes).await.expect(201);
    assert_eq!(names_after(&server, last).await, [""; 0]);
}

async fn events_of_webhooks_contain_only_origins(server: TestServer) {
    let root = server.root();
    let hooks = format!("/projects/{}/hooks", project(&root, "work", json!({})).await);
    let url =
        |host: &str| format!("https://secret-user:secret-word@{host}:8443/secret-path?key=secret-query#secret-part");
    let id = root.post(&hooks, json!({ "url": url("one.example.com") })).await.expect(201).json()["id"].clone();
    let hook = format!("{hooks}/{id}");
    let added = newest(&server, "webhook_added").await["details"].clone();
    root.put(&hook, json!({ "url": url("two.example.com") })).await.expect(200);
    let changed = newest(&server, "webhook_changed").await["details"].clone();
    root.delete(&hook).await.expect(204);
    let removed = newest(&server, "webhook_removed").await["details"].clone();
    let [one, two] = ["one", "two"].map(|name| format!("https://{name}.example.com:8443"));
    assert_eq!((&added["target_details"], &changed["from"]), (&json!(one), &json!(one)));
    assert_eq!((&changed["to"], &changed["target_details"]), (&json!(two), &json!(two)));
    assert_eq!(removed["target_details"], json!(two));
    for details in [added, changed, removed] {
        assert!(!details.to_string().contains("secret"), "{details}");
    }
}

on_every_database![
    events_of_webhooks_contain_only_origins,
    changes_of_user_are_recorded_separately,
    changes_of_groups_and_projects_name_their_attributes,
    protection_has_its_levels,
    removal_from_group_records_all_memberships_in_one_statement,
    jobs_act_as_the_system_and_commands_as_the_command_line,
    identity_provider_is_the_author_of_provisioning,
];
