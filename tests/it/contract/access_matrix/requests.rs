//! Valid requests of operations, with the contract's examples.

use std::sync::atomic::Ordering;

use contract::operation::{Operation, ParameterLocation, ResourceKind};
use reqwest::Method;
use serde_json::{Value, json};

use super::fixtures::Space;
use super::{Caller, FINGERPRINT, Fixture, MISSING};
use crate::packages::python_packages;
use crate::support::client::segment;
use crate::support::contract::{DOCUMENT, deref};

impl Fixture<'_> {
    pub(super) fn request(
        &self,
        operation: &Operation,
        caller: Caller,
        space: &Space<'_>,
        key: i64,
    ) -> reqwest::RequestBuilder {
        let path = operation.path.split('/').map(|part| match part.split_once('{') {
            None => part.to_owned(),
            Some((before, name)) => {
                let name = name.trim_end_matches('}');
                format!("{before}{}", self.path_value(operation, name, space, key))
            }
        });
        let path = path.collect::<Vec<_>>().join("/");
        let path = match path.strip_prefix("/api/v4") {
            Some(below) => below.to_owned(),
            None => format!("/{path}"),
        };
        let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
        let mut request = self.client(caller).request(method, &path);
        let required = operation.parameters.iter().filter(|parameter| parameter.location == ParameterLocation::Query);
        for parameter in required.filter(|parameter| parameter.required) {
            request = match parameter.name {
                "refs" => request.query(&[("refs[]", "v1"), ("refs[]", "main")]),
                "from" => request.query(&[("from", "v1")]),
                "name" => request.query(&[("name", "missing")]),
                "fingerprint" => request.query(&[("fingerprint", FINGERPRINT)]),
                "link_url" | "image_url" => request.query(&[(parameter.name, "https://h.example.com/")]),
                "to" | "ref" => request.query(&[(parameter.name, "main")]),
                other => panic!("{}: missing value of parameter {other}", operation.id),
            };
        }
        if operation.id == "list_users" {
            // Anonymous callers can list users only by name.
            request = request.query(&[("username", "target")]);
        }
        if operation.no_credentials {
            request = request.query(&[("instance_id", &self.instance_id)]);
        }
        if operation.statuses.contains(&412) {
            request = request.header("If-Unmodified-Since", "Thu, 01 Jan 1970 00:00:00 GMT");
        }
        let form_only = operation.body.is_none() || !has_json_body(operation);
        if operation.raw_body || !form_only {
            request = request.json(&self.body(operation, space));
        }
        if let Some(file) = operation.file.as_ref().filter(|_| form_only) {
            let part = reqwest::multipart::Part::text("x").file_name("x.txt");
            let form = reqwest::multipart::Form::new().part(file.name, part);
            request = request.multipart(match operation.id {
                "import_group" => form.text("name", "there").text("path", "there"),
                "upload_python_package" => form.text("name", "there").text("version", "1.0"),
                _ => form,
            });
        }
        request
    }

    fn path_value(&self, operation: &Operation, name: &str, space: &Space<'_>, key: i64) -> String {
        let read = operation.is_read();
        let number = |existing: i64| (if read { existing } else { MISSING }).to_string();
        let text = |existing: &str| segment(if read { existing } else { "missing" });
        match (name, operation.access.on) {
            ("group_path" | "id", ResourceKind::Scim) => text("there"),
            ("id", ResourceKind::Project | ResourceKind::Group | ResourceKind::User)
            | ("user_id", ResourceKind::User) => key.to_string(),
            ("id", ResourceKind::Instance) if operation.id == "get_namespace" => self.spaces[2].group.to_string(),
            ("id", ResourceKind::Instance) if operation.id == "get_audit_event" => number(space.audit_event),
            ("id", ResourceKind::Instance) if operation.id.ends_with("_snippet") => number(self.snippet),
            ("id", ResourceKind::Instance) | ("email_id" | "todo_id", _) => MISSING.to_string(),
            ("project_id", ResourceKind::Instance) => space.project.id.to_string(),
            ("user_id", _) => number(self.members[0].id),
            ("impersonation_token_id", _) => number(self.impersonation_token),
            ("key_id", ResourceKind::Project) => number(space.deploy_key),
            ("key_id", _) if operation.path.contains("/gpg_keys/") => number(self.gpg_key),
            ("key_id", _) => number(self.key),
            ("token_id", ResourceKind::Group) => number(space.group_deploy_token),
            ("token_id", _) if operation.id.contains("deploy_token") => number(space.deploy_token),
            ("token_id", _) => number(space.access_token),
            ("issue_iid", _) => number(space.issue),
            ("issue_link_id", _) => number(space.issue_link),
            ("event_id", _) => MISSING.to_string(),
            ("merge_request_iid", _) => number(space.merge_request),
            ("version_id", _) => number(space.merge_request_version),
            ("epic_iid", _) => number(space.epic.0),
            ("epic_id", _) => number(space.epic.1),
            ("epic_issue_id", _) => number(MISSING),
            ("snippet_id", _) => number(space.snippet),
            ("note_id", ResourceKind::Group) => number(space.epic_note),
            ("note_id", _) if operation.id.contains("snippet") => number(space.snippet_note),
            ("note_id", _) if operation.id.contains("merge_request") => number(space.merge_request_note),
            ("award_id", _) if operation.id.contains("merge_request_note") => number(space.merge_request_note_award),
            ("award_id", _) if operation.id.contains("merge_request") => number(space.merge_request_award),
            ("note_id", _) => number(space.note),
            ("award_id", ResourceKind::Group) if operation.id.contains("note") => number(space.epic_note_award),
            ("award_id", ResourceKind::Group) => number(space.epic_award),
            ("award_id", _) if operation.id.contains("snippet_note") => number(space.snippet_note_award),
            ("award_id", _) if operation.id.contains("snippet") => number(space.snippet_award),
            ("award_id", _) if operation.id.contains("note") => number(space.note_award),
            ("award_id", _) => number(space.issue_award),
            ("label_id", ResourceKind::Group) => number(space.group_label),
            ("label_id", _) => number(space.label),
            ("audit_event_id", ResourceKind::Group) => number(space.group_audit_event),
            ("audit_event_id", _) => number(space.audit_event),
            ("badge_id", ResourceKind::Group) => number(space.group_badge),
            ("badge_id", _) => number(space.badge),
            ("board_id", ResourceKind::Group) => number(space.group_board.0),
            ("board_id", _) => number(space.board.0),
            ("list_id", ResourceKind::Group) => number(space.group_board.1),
            ("list_id", _) => number(space.board.1),
            ("milestone_id", ResourceKind::Group) => number(space.group_milestone),
            ("milestone_id", _) => number(space.milestone),
            ("sha", _) if operation.id.contains("blob") => text(&space.blob),
            ("sha", _) => text(&space.commit),
            ("branch", _) => text("main"),
            ("name", ResourceKind::Project | ResourceKind::Group) => text("main"),
            ("tag_name", _) => text("v1"),
            ("package_id", _) => number(space.package.0),
            ("package_file_id", _) => number(space.package.1),
            ("package_name", _) if operation.id.contains("npm") => text(&self.npm_name(operation, space)),
            ("file_name", _) if operation.id.contains("npm") => {
                text(&format!("{}-1.0.0.tgz", self.npm_name(operation, space)))
            }
            ("tag", _) => text("next"),
            ("sha256", _) => text(&python_packages::sha256(python_packages::wheel("there", "1.0").as_bytes())),
            ("file_name", _) if operation.id.contains("python") => text(&python_packages::wheel("there", "1.0")),
            ("package_name" | "file_name" | "crate_name", _) => text("there"),
            ("crate_version", _) => text("1.0.0"),
            ("index_path", _) => "th/er/there".to_owned(),
            ("maven_path", ResourceKind::Instance) => self.spaces[2].maven_file.clone(),
            ("maven_path", _) if read => space.maven_file.clone(),
            ("maven_path", _) => "com/missing/1.0/missing.jar".to_owned(),
            ("rule_id", _) => number(MISSING),
            ("package_version", _) => text("v1"),
            ("link_id", _) => number(space.release_link),
            ("direct_asset_path", _) => text("there"),
            ("suffix_path", _) => "assets/links".to_owned(),
            ("file_path", _) => text("README.md"),
            ("group_id" | "project_id" | "target_group_id" | "target_project_id", _) => number(MISSING),
            ("hook_id", _) => number(space.hook),
            ("provider", _) => text("missing"),
            ("mirror_id", _) => number(space.remote_mirror),
            ("delivery_id", _) => number(space.delivery),
            ("freeze_period_id", _) => number(space.freeze_period),
            ("pipeline_id", _) => number(space.pipeline),
            ("pipeline_schedule_id", _) => number(space.pipeline_schedule),
            ("trigger_id", _) => number(space.trigger),
            ("environment_id", _) => number(space.environment),
            ("deployment_id", _) => number(space.deployment),
            ("approval_rule_id", _) if operation.id.contains("merge_request") => number(space.own_approval_rule),
            ("approval_rule_id", _) => number(space.approval_rule),
            ("check_id", _) => number(space.status_check),
            ("cluster_id", _) => number(space.cluster),
            // A public repository.
            ("repository_id", ResourceKind::Instance) => number(self.spaces[2].registry_repository),
            ("repository_id", _) => number(space.registry_repository),
            ("ref", _) => text("main"),
            ("trigger", _) => "push_events".to_owned(),
            ("format", _) => "zip".to_owned(),
            ("iid", _) => number(1),
            ("type", _) => "dockerfiles".to_owned(),
            ("key", _) if operation.id == "get_license_template" => text("mit"),
            ("key", _) if operation.id.ends_with("_template") => text("Rust"),
            ("key" | "feature_flag_name", _) | ("name", ResourceKind::Instance) => text("there"),
            // A project cannot be its own fork, so nothing changes.
            ("forked_from_id", _) => space.project.id.to_string(),
            (other, _) => panic!("{}: missing value of path parameter {other}", operation.id),
        }
    }

    /// Returns the name of an npm package. The registry of the instance finds the package by its scope.
    fn npm_name(&self, operation: &Operation, space: &Space<'_>) -> String {
        let space = match operation.access.on {
            ResourceKind::Instance => &self.spaces[2],
            _ => space,
        };
        format!("@{}/there", space.top)
    }

    /// Returns the contract's example, adapted to branches of the test projects.
    fn body(&self, operation: &Operation, space: &Space<'_>) -> Value {
        let item = &DOCUMENT["paths"][operation.path][operation.method.to_lowercase()];
        let content = &deref(&item["requestBody"])["content"];
        let content = content.as_object().into_iter().flatten().find(|(media, _)| media.ends_with("json"));
        let (_, content) = content.expect("a body of JSON");
        let mut body = content["example"].clone();
        assert!(body.is_object() || operation.raw_body, "{} has no example", operation.id);
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        match operation.id {
            "create_group" => {
                body = json!({ "name": format!("Group {number}"), "path": format!("group-{number}") });
            }
            // A new name each time, and no setting that affects other responses.
            "create_own_gpg_key" | "create_user_gpg_key" => body["key"] = json!("none"),
            "create_own_key" | "create_user_key" | "create_deploy_key" | "create_public_deploy_key" => {
                body["key"] = json!("none")
            }
            "create_instance_variable" | "create_project_variable" | "create_group_variable" => {
                body["key"] = json!(format!("K{number}"));
            }
            "create_own_email" | "create_user_email" => body["email"] = json!(format!("m{number}@example.net")),
            "update_application_settings" => body = json!({ "max_attachment_size": 10 }),
            // Developers cannot push to `main`.
            "create_pipeline" => body["ref"] = json!("feature/x"),
            "revert_commit" | "cherry_pick_commit" => body["branch"] = json!("missing"),
            "create_branch_protection" | "create_tag_protection" | "create_group_branch_protection" => {
                body["name"] = json!(format!("p{number}"));
            }
            "create_package_protection_rule" => body["package_name_pattern"] = json!(format!("p{number}")),
            "create_approval_rule" => body["name"] = json!(format!("r{number}")),
            "create_external_status_check" => {
                body["name"] = json!(format!("c{number}"));
                body["external_url"] = json!(format!("https://checks.example.com/{number}"));
            }
            "create_environment" => body["name"] = json!(format!("e{number}")),
            "create_deployment" => body["sha"] = json!(space.commit),
            "create_cluster" => body["environment_scope"] = json!(format!("e{number}")),
            "create_project" => body = json!({ "path": format!("project-{number}") }),
            "create_project_for_user" => body = json!({ "name": format!("project-{number}") }),
            "fork_project" => body = json!({ "path": format!("fork-{number}"), "name": format!("Fork {number}") }),
            "share_project" => body["group_id"] = json!(MISSING),
            // No update of a server that does not exist.
            "set_pull_mirror" => body["enabled"] = json!(false),
            // Other jobs must remain without access.
            "update_job_token_scope" => body["enabled"] = json!(true),
            "add_job_token_scope_project" => body["target_project_id"] = json!(space.project.id),
            "add_job_token_scope_group" => body["target_group_id"] = json!(space.group),
            "update_project" => body = json!({ "description": format!("Description {number}") }),
            "update_group" => body = json!({ "description": format!("Description {number}") }),
            // The same group: sharing and transfer are rejected after the permission check.
            "share_group" | "transfer_group" => body["group_id"] = json!(space.group),
            "add_group_member" | "add_project_member" => body["user_id"] = json!(MISSING),
            _ => {}
        }
        body
    }
}

fn has_json_body(operation: &Operation) -> bool {
    let item = &DOCUMENT["paths"][operation.path][operation.method.to_lowercase()];
    let content = deref(&item["requestBody"])["content"].as_object();
    content.is_some_and(|content| content.keys().any(|media| media.ends_with("json")))
}
