//! Runs every audited operation, and checks its event. No event contains a secret, and no operation deletes events.

use std::collections::BTreeSet;

use domain::spaces::members::synchronize;
use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::EntityTrait;
use serde_json::{Value, json};
use storage::entities::{AccessLevel, audit_events, settings};

use super::operations::RECORDED;
use super::{last_id, names_after};
use crate::packages::{self, cargo_packages, maven_packages, npm_packages, python_packages, upload};
use crate::registry::container_registry;
use crate::spaces::scim::{Provider, user_attributes};
use crate::support::authenticator::{disable, recovery_codes, start_setup};
use crate::support::client::{ApiResponse, Client};
use crate::support::repository::Sample;
use crate::support::server::DELETION_DELAY;
use crate::support::spaces::{group, id, project};
use crate::support::users::{PASSWORD, TestUser};
use crate::support::{TestServer, on_every_database, openpgp};

pub const KEY: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJdD7y3aLq454yWBdwLWbieU1ebz9/cu7/QEXn9OIeZJ";
const OTHER_KEY: &str = "ssh-rsa AAAAB3NzaC1yc2EAAAABJQAAAIEAiPWx6WM4lhHNedGfBpPJNPpZ7yKu+dnn1SJejgt4596k6YjzGGphH2TUxwKzxcKDKKezwkpfnxPkSMkuEspGRt/aZZ9wa++Oi7Qkr8prgHc4soW6NUlfDzpvZK2H5E7eQaSeP3SAwGmQKUFHCddNaP0L+hM7zhFNzjFvpaMgJw0=";

/// A server, and the operations that were checked.
struct Scenario<'a> {
    server: &'a TestServer,
    root: Client,
    last: i64,
    /// IDs of the newest event after each operation.
    events: BTreeSet<i64>,
    checked: BTreeSet<&'static str>,
    /// Values that no event may contain.
    secrets: Vec<String>,
}

impl Scenario<'_> {
    /// Checks that an operation recorded its event.
    async fn check(&mut self, operation: &'static str, response: ApiResponse) -> Value {
        assert!(response.status < 300, "{operation}: {} {}", response.status, String::from_utf8_lossy(&response.body));
        self.check_event(operation).await;
        let body = if response.body.is_empty() { Value::Null } else { response.json() };
        for name in ["token", "secret"] {
            self.secrets.extend(body[name].as_str().map(str::to_owned));
        }
        body
    }

    async fn check_event(&mut self, operation: &'static str) {
        let (_, event) = RECORDED.iter().find(|(id, _)| *id == operation).expect("an audited operation");
        let names = names_after(self.server, self.last).await;
        assert!(names.iter().any(|name| name == event), "{operation}: {names:?}");
        self.last = last_id(self.server).await;
        self.events.insert(self.last);
        self.checked.insert(operation);
    }

    async fn post(&mut self, operation: &'static str, path: &str, body: Value) -> Value {
        let response = self.root.post(path, body).await;
        self.check(operation, response).await
    }

    async fn patch(&mut self, operation: &'static str, path: &str, body: Value) -> Value {
        let response = self.root.patch(path, body).await;
        self.check(operation, response).await
    }

    async fn put(&mut self, operation: &'static str, path: &str, body: Value) -> Value {
        let response = self.root.put(path, body).await;
        self.check(operation, response).await
    }

    async fn delete(&mut self, operation: &'static str, path: &str) {
        let response = self.root.delete(path).await;
        self.check(operation, response).await;
    }

    async fn instance(&mut self) {
        let db = self.server.backend.database.write();
        settings::put(db, DELETION_DELAY, "7").await.expect("a setting");
        self.put("update_application_settings", "/application/settings", json!({ "max_attachment_size": 20 })).await;
        let body = json!({ "name": "App", "redirect_uri": "https://app.example/cb", "scopes": "api" });
        let application = self.post("create_application", "/applications", body).await;
        let path = format!("/applications/{}", application["id"]);
        self.post("renew_application_secret", &format!("{path}/renew-secret"), json!({})).await;
        self.delete("delete_application", &path).await;
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBHs9FvIx7cK4GyXbLSCrnwm7vL1ZL5W5dM0cZ1i6b8b";
        self.post("create_public_deploy_key", "/deploy_keys", json!({ "title": "robots", "key": key })).await;
        self.post("set_feature_gate", "/features/gate", json!({ "value": 30, "key": "percentage_of_actors" })).await;
        self.delete("delete_feature_gate", "/features/gate").await;
        let names = ["create_instance_variable", "update_instance_variable", "delete_instance_variable"];
        self.variables("/admin/ci", names).await;
    }

    async fn variables(&mut self, parent: &str, [create, update, delete]: [&'static str; 3]) {
        self.secrets.extend(["variable-value-1".to_owned(), "variable-value-2".to_owned()]);
        let path = format!("{parent}/variables");
        self.post(create, &path, json!({ "key": "K", "value": "variable-value-1" })).await;
        self.put(update, &format!("{path}/K"), json!({ "value": "variable-value-2" })).await;
        self.delete(delete, &format!("{path}/K")).await;
    }

    async fn deploy_tokens(&mut self, parent: &str, [create, delete]: [&'static str; 2]) {
        let path = format!("{parent}/deploy_tokens");
        let token = self.post(create, &path, json!({ "name": "t", "scopes": ["read_registry"] })).await;
        self.delete(delete, &format!("{path}/{}", token["id"])).await;
    }

    async fn users(&mut self) {
        let password = "a-password-of-eve";
        self.secrets.extend([password.to_owned(), "another-password".to_owned()]);
        let body = json!({ "username": "eve", "name": "Eve", "email": "eve@example.com", "password": password });
        let eve = self.post("create_user", "/users", body).await;
        let path = format!("/users/{}", eve["id"]);
        self.post("deactivate_user", &format!("{path}/deactivate"), json!({})).await;
        self.post("activate_user", &format!("{path}/activate"), json!({})).await;
        self.post("block_user", &format!("{path}/block"), json!({})).await;
        self.post("unblock_user", &format!("{path}/unblock"), json!({})).await;
        self.post("unlock_user", &format!("{path}/unlock"), json!({})).await;
        self.put("update_user", &path, json!({ "admin": true, "password": "another-password" })).await;
        let token = json!({ "name": "t", "scopes": ["api"] });
        let tokens = format!("{path}/impersonation_tokens");
        let created = self.post("create_impersonation_token", &tokens, token.clone()).await;
        self.delete("revoke_impersonation_token", &format!("{tokens}/{}", created["id"])).await;
        let tokens = format!("{path}/personal_access_tokens");
        let created = self.post("create_personal_access_token", &tokens, token).await;
        self.delete("revoke_personal_access_token", &format!("/personal_access_tokens/{}", created["id"])).await;
        for (parent, operations) in [
            ("/user", ["create_own_key", "delete_own_key", "create_own_email", "delete_own_email"]),
            (path.as_str(), ["create_user_key", "delete_user_key", "create_user_email", "delete_user_email"]),
        ] {
            let [create_key, delete_key, create_email, delete_email] = operations;
            let keys = format!("{parent}/keys");
            let key = self.post(create_key, &keys, json!({ "title": "laptop", "key": KEY })).await;
            self.delete(delete_key, &format!("{keys}/{}", key["id"])).await;
            let emails = format!("{parent}/emails");
            let email = self.post(create_email, &emails, json!({ "email": "second@example.com" })).await;
            self.delete(delete_email, &format!("{emails}/{}", email["id"])).await;
        }
        for (parent, operations) in [
            ("/user", ["create_own_gpg_key", "delete_own_gpg_key", "revoke_own_gpg_key"]),
            (path.as_str(), ["create_user_gpg_key", "delete_user_gpg_key", "revoke_user_gpg_key"]),
        ] {
            let [create, delete, revoke] = operations;
            let keys = format!("{parent}/gpg_keys");
            let body = json!({ "key": openpgp::ADA });
            let key = self.post(create, &keys, body.clone()).await;
            self.delete(delete, &format!("{keys}/{}", key["id"])).await;
            let key = self.post(create, &keys, body).await;
            self.post(revoke, &format!("{keys}/{}/revoke", key["id"]), json!({})).await;
        }
        self.root.put(&path, json!({ "provider": "saml", "extern_uid": "1" })).await.expect(200);
        self.delete("delete_user_identity", &format!("{path}/identities/saml")).await;
        self.delete("delete_user", &path).await;
    }

    async fn second_factor(&mut self, ada: &TestUser) {
        let wrong = ada.client.post("/user/two_factor", json!({ "current_password": "wrong-password" })).await;
        wrong.expect(400);
        self.secrets.extend(["wrong-password".to_owned(), PASSWORD.to_owned()]);
        self.check_event("start_two_factor").await;
        let app = start_setup(&ada.client).await;
        let path = "/user/two_factor/confirm";
        let confirmed = ada.client.post(path, json!({ "code": app.code() })).await.expect(201);
        self.secrets.extend(recovery_codes(&confirmed));
        self.check("confirm_two_factor", confirmed).await;
        self.server.forget_used_codes(ada.id).await;
        let path = "/user/two_factor/recovery_codes";
        let replaced = ada.client.post(path, json!({ "code": app.code() })).await;
        self.secrets.extend(recovery_codes(&replaced));
        self.check("create_recovery_codes", replaced).await;
        self.server.forget_used_codes(ada.id).await;
        let disabled = disable(&ada.client, json!({ "code": app.code() })).await;
        self.check("disable_two_factor", disabled).await;
        self.server.enable_second_factor(ada).await;
        let path = format!("/users/{}/disable_two_factor", ada.id);
        let reset = self.root.send(self.root.request(Method::PATCH, &path)).await;
        self.check("disable_user_two_factor", reset).await;
    }

    async fn groups(&mut self, ada: &TestUser) {
        let created = self.post("create_group", "/groups", json!({ "name": "engines", "path": "engines" })).await;
        let path = format!("/groups/{}", created["id"]);
        self.put("update_group", &path, json!({ "name": "Engines", "visibility": "public" })).await;
        self.members(&path, ada, ["add_group_member", "update_group_member", "remove_group_member"]).await;
        let listed = [("ada".to_owned(), AccessLevel::Reporter)];
        synchronize(&self.server.backend, "engines", &listed).await.expect("a synchronization");
        let over = format!("{path}/members/{}/override", ada.id);
        self.post("override_group_member", &over, json!({})).await;
        self.delete("stop_overriding_group_member", &over).await;
        let names = ["create_group_variable", "update_group_variable", "delete_group_variable"];
        self.variables(&path, names).await;
        self.deploy_tokens(&path, ["create_group_deploy_token", "delete_group_deploy_token"]).await;
        let other = group(&self.root, "other", json!({})).await;
        let share = json!({ "group_id": other, "group_access": 30, "expires_at": "2099-01-31" });
        self.post("share_group", &format!("{path}/share"), share).await;
        self.delete("unshare_group", &format!("{path}/share/{other}")).await;
        let export = format!("{path}/export");
        self.post("export_group", &export, json!({})).await;
        self.server.finish_jobs().await;
        let archive = self.root.get(&format!("{export}/download")).await.expect(200).body;
        let part = Part::bytes(archive).file_name("a.tar.gz").mime_str("application/octet-stream").expect("a type");
        let form = Form::new().text("name", "imported").text("path", "imported").part("file", part);
        let imported = self.root.send(self.root.request(Method::POST, "/groups/import").multipart(form)).await;
        self.check("import_group", imported).await;
        self.server.finish_jobs().await;
        let work = project(&self.root, "moved", json!({})).await;
        self.post("transfer_project_to_group", &format!("{path}/projects/{work}"), json!({})).await;
        let below = group(&self.root, "below", json!({ "parent_id": created["id"] })).await;
        self.post("transfer_group", &format!("/groups/{below}/transfer"), json!({})).await;
        self.delete("delete_group", &path).await;
        self.post("restore_group", &format!("{path}/restore"), json!({})).await;
    }

    async fn members(&mut self, parent: &str, ada: &TestUser, [add, update, remove]: [&'static str; 3]) {
        let members = format!("{parent}/members");
        self.post(add, &members, json!({ "user_id": ada.id, "access_level": 20 })).await;
        let member = format!("{members}/{}", ada.id);
        self.put(update, &member, json!({ "access_level": 30, "expires_at": "2099-01-31" })).await;
        self.delete(remove, &member).await;
    }

    async fn single_sign_on(&mut self) {
        let provided = group(&self.root, "provided", json!({})).await;
        let path = format!("/groups/{provided}");
        self.put("update_group_saml", &format!("{path}/saml"), json!({ "enabled": true })).await;
        let token = self.post("create_scim_token", &format!("{path}/scim_token"), json!({})).await;
        let token = token["token"].as_str().expect("a token").to_owned();
        let provider = Provider::with_token(self.server, provided, "provided", token);
        let created = provider.create(&user_attributes("sam")).await;
        self.check("create_scim_user", created).await;
        let change = json!([{ "op": "Replace", "path": "emails[type eq \"work\"].value", "value": "new@example.org" }]);
        let changed = provider.patch("uid-sam", change).await;
        self.check("update_scim_user", changed).await;
        let mut attributes = user_attributes("sam");
        attributes["userName"] = json!("samuel");
        let replaced = provider.send(Method::PUT, "/Users/uid-sam", &attributes).await;
        self.check("replace_scim_user", replaced).await;
        let deleted = provider.delete("uid-sam").await;
        self.check("delete_scim_user", deleted).await;
        self.delete("delete_scim_token", &format!("{path}/scim_token")).await;
    }

    async fn projects(&mut self, ada: &TestUser) {
        let created = self.post("create_project", "/projects", json!({ "path": "work" })).await;
        let work = id(&created);
        let of_user = format!("/projects/user/{}", ada.id);
        self.post("create_project_for_user", &of_user, json!({ "name": "Of Ada" })).await;
        let path = format!("/projects/{work}");
        self.put("update_project", &path, json!({ "merge_method": "ff" })).await;
        self.members(&path, ada, ["add_project_member", "update_project_member", "remove_project_member"]).await;
        let names = ["create_project_variable", "update_project_variable", "delete_project_variable"];
        self.variables(&path, names).await;
        let space = group(&self.root, "space", json!({})).await;
        let share = json!({ "group_id": space, "group_access": 30 });
        self.post("share_project", &format!("{path}/share"), share).await;
        self.delete("unshare_project", &format!("{path}/share/{space}")).await;
        self.post("fork_project", &format!("{path}/fork"), json!({ "path": "copy", "name": "Copy" })).await;
        self.put("transfer_project", &format!("{path}/transfer"), json!({ "namespace": space })).await;
        self.post("archive_project", &format!("{path}/archive"), json!({})).await;
        self.post("unarchive_project", &format!("{path}/unarchive"), json!({})).await;
        self.credentials_of_project(&path).await;
        let image = container_registry::image(self.server, work, "image", "latest", None).await;
        let repository = format!("{path}/registry/repositories/{image}");
        self.delete("delete_registry_tag", &format!("{repository}/tags/latest")).await;
        self.delete("delete_registry_tags", &format!("{repository}/tags?name_regex_delete=v1.*")).await;
        self.delete("delete_registry_repository", &repository).await;
        self.packages(&path).await;
        self.delete("delete_project", &path).await;
        self.post("restore_project", &format!("{path}/restore"), json!({})).await;
    }

    async fn packages(&mut self, path: &str) {
        let uploaded = upload(&self.root, path, ["a", "1", "f"], b"x").await;
        self.check("upload_generic_package_file", uploaded).await;
        let (package, file) = packages::package(&self.root, path, "b", "1").await;
        packages::package(&self.root, path, "b", "1").await;
        self.delete("delete_package_file", &format!("{path}/packages/{package}/package_files/{file}")).await;
        self.delete("delete_package", &format!("{path}/packages/{package}")).await;
        let project = id(&self.root.get(path).await.expect(200).json());
        let published = npm_packages::publish(&self.root, project, "tiny", "1.0.0").await;
        self.check("upload_npm_package", published).await;
        let set = npm_packages::tags::set(&self.root, project, "tiny", "next", &json!("1.0.0")).await;
        self.check("set_npm_package_tag", set).await;
        let tag = format!("{path}/packages/npm/-/package/tiny/dist-tags/next");
        self.delete("delete_npm_package_tag", &tag).await;
        python_packages::upload(&self.root, project, "a", "1.0").await.expect(201);
        let source = python_packages::Upload::new("a", "1.0", "a-1.0.tar.gz", b"x");
        let added = source.send(&self.root, project).await;
        self.check("upload_python_package", added).await;
        let published = cargo_packages::publish(&self.root, project, "gear", "1.0.0").await;
        self.check("upload_crate", published).await;
        for (operation, yanked) in [("yank_crate", true), ("unyank_crate", false)] {
            let changed = cargo_packages::set_yanked(&self.root, project, "gear", "1.0.0", yanked).await;
            self.check(operation, changed).await;
        }
        let stored = maven_packages::put(&self.root, project, "com/gear/1.0/gear-1.0.jar", "x").await;
        self.check("upload_maven_file", stored).await;
        let policy = json!({ "keep_n_duplicated_package_files": "10" });
        self.put("set_package_cleanup_policy", &format!("{path}/packages/cleanup_policy"), policy).await;
        let rules = format!("{path}/packages/protection/rules");
        let rule = json!({
            "package_name_pattern": "a", "package_type": "npm", "minimum_access_level_for_push": "owner",
        });
        let rule = self.post("create_package_protection_rule", &rules, rule).await;
        let one = format!("{rules}/{}", rule["id"]);
        let level = json!({ "minimum_access_level_for_push": "admin" });
        self.patch("update_package_protection_rule", &one, level).await;
        self.delete("delete_package_protection_rule", &one).await;
    }

    async fn credentials_of_project(&mut self, path: &str) {
        let tokens = format!("{path}/access_tokens");
        let token = self.post("create_project_access_token", &tokens, json!({ "name": "t", "scopes": ["api"] })).await;
        self.delete("revoke_project_access_token", &format!("{tokens}/{}", token["id"])).await;
        self.deploy_tokens(path, ["create_project_deploy_token", "delete_project_deploy_token"]).await;
        let scope = format!("{path}/job_token_scope");
        self.patch("update_job_token_scope", &scope, json!({ "enabled": false })).await;
        let allowed = project(&self.root, "jobs", json!({})).await;
        let (list, body) = (format!("{scope}/allowlist"), json!({ "target_project_id": allowed }));
        self.post("add_job_token_scope_project", &list, body).await;
        self.delete("remove_job_token_scope_project", &format!("{list}/{allowed}")).await;
        let allowed = group(&self.root, "jobs", json!({})).await;
        let (list, body) = (format!("{scope}/groups_allowlist"), json!({ "target_group_id": allowed }));
        self.post("add_job_token_scope_group", &list, body).await;
        self.delete("remove_job_token_scope_group", &format!("{list}/{allowed}")).await;
        let reset = format!("{path}/feature_flags_client/reset_token");
        self.post("reset_feature_flags_client_token", &reset, json!({})).await;
        let triggers = format!("{path}/triggers");
        let trigger = self.post("create_pipeline_trigger", &triggers, json!({ "description": "nightly" })).await;
        let one = format!("{triggers}/{}", trigger["id"]);
        self.put("update_pipeline_trigger", &one, json!({ "description": "weekly" })).await;
        self.delete("delete_pipeline_trigger", &one).await;
        self.secrets.extend(["hook-password", "hook-query", "hook-token", "cluster-token"].map(str::to_owned));
        let url = "https://user:hook-password@hooks.example.com/path?key=hook-query";
        let hooks = format!("{path}/hooks");
        let hook = self.post("create_project_hook", &hooks, json!({ "url": url, "token": "hook-token" })).await;
        let one = format!("{hooks}/{}", hook["id"]);
        self.put("update_project_hook", &one, json!({ "url": url.replace("path", "other") })).await;
        let header = format!("{one}/custom_headers/X-Key");
        self.secrets.push("hook-header".to_owned());
        self.put("set_project_hook_custom_header", &header, json!({ "value": "hook-header" })).await;
        self.delete("delete_project_hook_custom_header", &header).await;
        let variable = format!("{one}/url_variables/key");
        self.secrets.push("hook-variable".to_owned());
        self.put("set_project_hook_url_variable", &variable, json!({ "value": "hook-variable" })).await;
        self.delete("delete_project_hook_url_variable", &variable).await;
        self.delete("delete_project_hook", &one).await;
        self.secrets.extend(["mirror-user", "mirror-password"].map(str::to_owned));
        let url = "https://mirror-user:mirror-password@git.example.com/path";
        let mirrors = format!("{path}/remote_mirrors");
        let mirror = self.post("create_remote_mirror", &mirrors, json!({ "url": url })).await;
        let one = format!("{mirrors}/{}", mirror["id"]);
        self.put("update_remote_mirror", &one, json!({ "enabled": true })).await;
        self.delete("delete_remote_mirror", &one).await;
        let pull = format!("{path}/mirror/pull");
        self.put("set_pull_mirror", &pull, json!({ "url": url })).await;
        self.put("set_pull_mirror", &pull, json!({ "only_mirror_protected_branches": true })).await;
        let platform = json!({ "api_url": "https://kubernetes.example.com", "token": "cluster-token" });
        let body = json!({ "name": "engine-room", "platform_kubernetes_attributes": platform });
        let cluster = self.post("create_cluster", &format!("{path}/clusters/user"), body).await;
        self.delete("delete_cluster", &format!("{path}/clusters/{}", cluster["id"])).await;
        let keys = format!("{path}/deploy_keys");
        self.secrets.extend([KEY, OTHER_KEY].map(|key| key.split(' ').nth(1).expect("a key").to_owned()));
        let key = self.post("create_deploy_key", &keys, json!({ "title": "robot", "key": KEY })).await;
        let one = format!("{keys}/{}", key["id"]);
        self.put("update_deploy_key", &one, json!({ "can_push": true })).await;
        let other = project(&self.root, "elsewhere", json!({})).await;
        self.post("enable_deploy_key", &format!("/projects/{other}/deploy_keys/{}/enable", key["id"]), json!({})).await;
        self.delete("delete_deploy_key", &one).await;
    }
}

impl Scenario<'_> {
    async fn protections(&mut self, project: i64) {
        let team = group(&self.root, "protected-team", json!({})).await;
        self.last = last_id(self.server).await;
        let force = json!({ "allow_force_push": true });
        let all = format!("/projects/{project}/protected_branches");
        self.post("create_branch_protection", &all, json!({ "name": "x" })).await;
        self.patch("update_branch_protection", &format!("{all}/x"), force.clone()).await;
        self.delete("delete_branch_protection", &format!("{all}/x")).await;
        let all = format!("/groups/{team}/protected_branches");
        self.post("create_group_branch_protection", &all, json!({ "name": "x" })).await;
        self.patch("update_group_branch_protection", &format!("{all}/x"), force).await;
        self.delete("delete_group_branch_protection", &format!("{all}/x")).await;
        let all = format!("/projects/{project}/protected_tags");
        self.post("create_tag_protection", &all, json!({ "name": "x" })).await;
        self.delete("delete_tag_protection", &format!("{all}/x")).await;
        for (path, [create, update, delete]) in [
            (format!("/projects/{project}/push_rule"), ["create_push_rule", "update_push_rule", "delete_push_rule"]),
            (
                format!("/groups/{team}/push_rule"),
                ["create_group_push_rule", "update_group_push_rule", "delete_group_push_rule"],
            ),
        ] {
            self.post(create, &path, json!({ "max_file_size": 1 })).await;
            self.put(update, &path, json!({ "file_name_regex": "x" })).await;
            self.delete(delete, &path).await;
        }
        let settings = format!("/projects/{project}/approvals");
        self.post("update_approval_settings", &settings, json!({ "reset_approvals_on_push": false })).await;
        let all = format!("/projects/{project}/approval_rules");
        let rule = json!({ "name": "x", "approvals_required": 1, "rule_type": "regular" });
        let rule = self.post("create_approval_rule", &all, rule).await;
        let one = format!("{all}/{}", rule["id"]);
        self.put("update_approval_rule", &one, json!({ "approvals_required": 2 })).await;
        self.delete("delete_approval_rule", &one).await;
        let all = format!("/projects/{project}/external_status_checks");
        self.secrets.extend(["status-check-secret", "status-check-path"].map(str::to_owned));
        let check = json!({
            "name": "x", "external_url": "https://checks.example.com/status-check-path",
            "shared_secret": "status-check-secret",
        });
        let check = self.post("create_external_status_check", &all, check).await;
        let one = format!("{all}/{}", check["id"]);
        self.put("update_external_status_check", &one, json!({ "name": "y" })).await;
        self.delete("delete_external_status_check", &one).await;
        let change = json!({ "retain_approvals_on_push": false });
        for (operation, path) in [
            ("update_merge_request_approval_setting", format!("/projects/{project}")),
            ("update_group_merge_request_approval_setting", format!("/groups/{team}")),
        ] {
            self.put(operation, &format!("{path}/merge_request_approval_setting"), change.clone()).await;
        }
        self.server.insert_merge_request(project, 1, &[], None).await;
        self.last = last_id(self.server).await;
        let merge_request = format!("/projects/{project}/merge_requests/1");
        let number = json!({ "approvals_required": 1 });
        self.post("set_merge_request_approvals_required", &format!("{merge_request}/approvals"), number).await;
        let all = format!("{merge_request}/approval_rules");
        let rule = json!({ "name": "x", "approvals_required": 1, "usernames": ["ada"] });
        let rule = self.post("create_merge_request_approval_rule", &all, rule).await;
        let one = format!("{all}/{}", rule["id"]);
        self.put("update_merge_request_approval_rule", &one, json!({ "approvals_required": 2 })).await;
        self.delete("delete_merge_request_approval_rule", &one).await;
    }
}

async fn every_audited_operation_records_its_event_without_secrets(server: TestServer) {
    let ada = server.create_user("ada").await;
    server.set_password(&ada).await;
    let mut scenario = Scenario {
        root: server.root(),
        last: last_id(&server).await,
        server: &server,
        events: BTreeSet::new(),
        checked: BTreeSet::new(),
        secrets: Vec::new(),
    };
    scenario.instance().await;
    scenario.users().await;
    scenario.second_factor(&ada).await;
    scenario.groups(&ada).await;
    scenario.single_sign_on().await;
    scenario.projects(&ada).await;
    let sample = Sample::new(&server).await;
    scenario.last = last_id(&server).await;
    let branch = format!("/projects/{}/repository/branches/main", sample.id);
    scenario.put("protect_branch", &format!("{branch}/protect"), json!({})).await;
    scenario.put("unprotect_branch", &format!("{branch}/unprotect"), json!({})).await;
    scenario.protections(sample.id).await;
    let expected: BTreeSet<&str> = RECORDED.iter().map(|(id, _)| *id).collect();
    assert_eq!(scenario.checked, expected);

    let rows = audit_events::Entity::find().all(server.backend.database.read()).await.expect("rows");
    // No operation deletes events.
    let remaining: BTreeSet<i64> = rows.iter().map(|row| row.id).collect();
    assert!(scenario.events.len() >= expected.len() && scenario.events.is_subset(&remaining));
    assert!(scenario.secrets.len() > 40, "{}", scenario.secrets.len());
    for secret in &scenario.secrets {
        let digest = domain::secrets::digest(secret);
        for row in &rows {
            assert!(!row.details.contains(secret.as_str()), "{}", row.details);
            assert!(!row.details.contains(&digest), "{}", row.details);
        }
    }
}

on_every_database![every_audited_operation_records_its_event_without_secrets];
