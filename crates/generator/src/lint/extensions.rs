//! Lints of the extension fields (`openapi/EXTENSIONS.md`).

use serde_json::Value;

use super::Linter;
use crate::lower::METHODS;
use crate::publish::links::{CREATED, has_known_target};

impl Linter<'_> {
    /// Checks the extension fields of an operation.
    pub(super) fn extensions(&mut self, pointer: &str, operation: &Value) {
        self.job_token(pointer, operation);
        self.package_client(pointer, operation);
        self.one_of(pointer, operation);
        self.raw_body(pointer, operation);
        self.attachment(pointer, operation);
        self.flag(pointer, operation);
        self.errors(pointer, operation);
        self.deprecation(pointer, operation);
        let dependent = &operation["x-time-dependent"];
        self.require(
            dependent.is_null() || (*dependent == true && pointer.ends_with("/get")),
            pointer,
            "time-dependent",
            "x-time-dependent must be `true` on a read operation, or absent",
        );
        let tier = operation["x-tier"].as_str().unwrap_or("free");
        let known = matches!(tier, "free" | "starter" | "premium" | "ultimate");
        self.require(
            known,
            pointer,
            "tier",
            "x-tier must be free, starter, premium or ultimate",
        );
        let page = operation["x-page"].as_str().unwrap_or("offset");
        self.require(
            matches!(page, "offset" | "keyset"),
            pointer,
            "page",
            "x-page must be offset or keyset",
        );
    }

    /// Checks that the operation which reads the created resource exists, and that its path can be filled.
    pub(super) fn created(&mut self, pointer: &str, path: &str, operation: &Value) {
        let is_known = operation[CREATED].is_null() || has_known_target(&self.document.root, path, operation);
        self.require(
            is_known,
            pointer,
            "created",
            "x-created must name an operation on the resource in the response with status 201, and attributes of the response \
             for parameters of the operation",
        );
    }

    /// Checks that a deprecated operation has the version that deprecates it, the version that removes it, and a
    /// replacement.
    fn deprecation(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-deprecation"];
        let version = |name: &str| {
            said[name]
                .as_str()
                .is_some_and(|version| version.split('.').count() == 3)
        };
        let good = match operation["deprecated"] == Value::Bool(true) {
            true => {
                let replacement = said["use"].as_str().unwrap_or_default();
                let paths = self.document.root["paths"].as_object().into_iter().flatten();
                let mut operations = paths.flat_map(|(_, item)| METHODS.map(|method| &item[method]));
                let exists =
                    operations.any(|one| one["operationId"] == replacement && one["deprecated"].is_null());
                version("since") && version("removal") && exists
            }
            false => said.is_null(),
        };
        let message = "a deprecated operation requires x-deprecation with `since`, `removal` and `use`, and no other has it";
        self.require(good, pointer, "deprecation", message);
    }

    /// Checks that only operations on a project accept job tokens, because a job token gives access to one
    /// project, and that the security requirements document it.
    fn job_token(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-job-token"];
        let taken = *said == Value::Bool(true);
        self.require(
            taken || said.is_null(),
            pointer,
            "job-token",
            "x-job-token must be `true` or absent",
        );
        self.require(
            !taken || operation["x-access"]["on"] == "project",
            pointer,
            "job-token-project",
            "a job token gives access only to its project: x-access.on must be project",
        );
        let mut listed = operation["security"].as_array().into_iter().flatten();
        let listed = listed.any(|one| !one["job_token_header"].is_null());
        self.require(
            taken == listed,
            pointer,
            "job-token-security",
            "x-job-token and the security requirement `job_token_header` must be used together",
        );
    }

    /// Checks that the security requirements document the credentials of package clients, and that the permission is
    /// checked first, so that a client without credentials is asked for them.
    fn package_client(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-package-client"];
        let taken = *said == Value::Bool(true) || *said == "cargo";
        self.require(
            taken || said.is_null(),
            pointer,
            "package-client",
            "x-package-client must be `true`, `cargo` or absent",
        );
        let lists = |scheme: &str| {
            let mut listed = operation["security"].as_array().into_iter().flatten();
            listed.any(|one| !one[scheme].is_null())
        };
        self.require(
            ["basic", "deploy_token_header"]
                .into_iter()
                .all(|scheme| lists(scheme) == taken),
            pointer,
            "package-client-security",
            "x-package-client and the security requirements `basic` and `deploy_token_header` must be used together",
        );
        self.require(
            !taken || operation["x-access"]["first"] == true,
            pointer,
            "package-client-first",
            "x-package-client requires `first: true` in x-access",
        );
    }

    /// Checks that each list contains optional attributes of the body.
    fn one_of(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-one-of"];
        let schema = operation.pointer("/requestBody/content/application~1json/schema");
        let schema = schema.map_or(&Value::Null, |schema| self.document.deref(schema));
        let optional = |name: &Value| {
            let known = name
                .as_str()
                .is_some_and(|name| schema["properties"].get(name).is_some());
            let mut required = schema["required"].as_array().into_iter().flatten();
            known && !required.any(|one| one == name)
        };
        let good = |list: &Value| {
            list.as_array()
                .is_some_and(|list| list.len() > 1 && list.iter().all(optional))
        };
        let holds = said.is_null() || said.as_array().is_some_and(|lists| lists.iter().all(good));
        let message = "x-one-of must contain lists of at least two optional attributes of the JSON body";
        self.require(holds, pointer, "one-of", message);
    }

    /// Checks that a raw body is only JSON and has no constraints that would need validation.
    fn raw_body(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-raw-body"];
        let content = operation.pointer("/requestBody/content");
        let alone = content
            .and_then(Value::as_object)
            .is_some_and(|content| content.len() == 1 && content.contains_key("application/json"));
        let good = *said == Value::Bool(true) && alone && operation["x-one-of"].is_null();
        let message = "x-raw-body must be `true` or absent; it requires a body of only application/json, without x-one-of";
        self.require(said.is_null() || good, pointer, "raw-body", message);
    }

    /// Files are attachments by default.
    fn attachment(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-attachment"];
        let form = operation.pointer("/requestBody/content/multipart~1form-data");
        let good = *said == Value::Bool(false) && form.is_some();
        let message = "x-attachment must be `false` or absent; it requires a file";
        self.require(said.is_null() || good, pointer, "attachment", message);
    }

    /// Checks that SCIM operations use SCIM throughout: for access, tokens and errors. Errors before routing
    /// have the common format.
    fn errors(&mut self, pointer: &str, operation: &Value) {
        const SCIM: &str = "application/scim+json";
        let said = &operation["x-errors"];
        let scim = *said == "scim" || *said == "scim_with_message";
        self.require(
            scim || said.is_null(),
            pointer,
            "errors",
            "x-errors must be `scim`, `scim_with_message` or absent",
        );
        let access = &operation["x-access"];
        let mut required = operation["security"].as_array().into_iter().flatten();
        let token = required.any(|one| !one["scim_token"].is_null());
        self.require(
            [access["on"] == "scim", token].iter().all(|one| *one == scim),
            pointer,
            "errors-scim",
            "`x-errors`, `x-access.on: scim` and the security requirement `scim_token` must be used together",
        );
        let whole = access["min"] == "none" && access["first"] == true && access["anonymous"].is_null();
        self.require(
            !scim || whole,
            pointer,
            "errors-access",
            "x-access.on: scim requires `min: none` and `first: true`, because the token alone decides, before other checks",
        );
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let early = matches!(status.as_str(), "414" | "431");
            let content = &self.document.deref(response)["content"];
            let fits = early || content.is_null() || content.get(SCIM).is_some() == scim;
            self.require(
                fits,
                &format!("{pointer}/responses/{status}"),
                "errors-media",
                "responses must be application/scim+json if, and only if, the operation has `x-errors`",
            );
        }
    }

    /// Checks a gate: the guard evaluates it, or the service if the operation names no project.
    fn flag(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-flag"];
        let mut keys = said
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, _)| key.as_str());
        let known = keys.all(|key| matches!(key, "name" | "default" | "of"));
        let whole = said["name"].is_string() && said["default"].is_boolean();
        let of_project = said["of"] == "project" && operation["x-access"]["on"] == "instance";
        let good = known && whole && (said["of"].is_null() || of_project);
        let message =
            "x-flag requires `name` and `default`; `of: project` is allowed only with x-access.on: instance";
        self.require(said.is_null() || good, pointer, "flag", message);
    }
}
