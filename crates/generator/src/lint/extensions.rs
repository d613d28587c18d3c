//! The house rules of the fields that are not of OpenAPI (`openapi/EXTENSIONS.md`).

use serde_json::Value;

use super::Linter;

impl Linter<'_> {
    /// What is wrong with the fields of ours that an operation has.
    pub(super) fn extensions(&mut self, pointer: &str, operation: &Value) {
        self.job_token(pointer, operation);
        self.one_of(pointer, operation);
        self.raw_body(pointer, operation);
        self.attachment(pointer, operation);
        self.flag(pointer, operation);
        self.errors(pointer, operation);
        let tier = operation["x-tier"].as_str().unwrap_or("free");
        let known = matches!(tier, "free" | "starter" | "premium" | "ultimate");
        self.require(
            known,
            pointer,
            "tier",
            "x-tier: free, starter, premium or ultimate",
        );
        let page = operation["x-page"].as_str().unwrap_or("offset");
        self.require(
            matches!(page, "offset" | "keyset"),
            pointer,
            "page",
            "x-page: offset or keyset",
        );
    }

    /// A job has one project and no more, and whoever may call with its token can read so.
    fn job_token(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-job-token"];
        let taken = *said == Value::Bool(true);
        self.require(
            taken || said.is_null(),
            pointer,
            "job-token",
            "x-job-token is `true`, or not there",
        );
        self.require(
            !taken || operation["x-access"]["on"] == "project",
            pointer,
            "job-token-project",
            "the token of a job is good for its project only: x-access must be on a project",
        );
        let mut listed = operation["security"].as_array().into_iter().flatten();
        let listed = listed.any(|one| !one["job_token_header"].is_null());
        self.require(
            taken == listed,
            pointer,
            "job-token-security",
            "x-job-token and the security requirement `job_token_header` go together",
        );
    }

    /// Each list has attributes of the body of which any may be missing.
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
        let message = "x-one-of: lists of at least two attributes of the JSON body that are not required";
        self.require(holds, pointer, "one-of", message);
    }

    /// What is handed over as it comes is JSON alone, and nothing is said of what stands in it that somebody would check.
    fn raw_body(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-raw-body"];
        let content = operation.pointer("/requestBody/content");
        let alone = content
            .and_then(Value::as_object)
            .is_some_and(|content| content.len() == 1 && content.contains_key("application/json"));
        let good = *said == Value::Bool(true) && alone && operation["x-one-of"].is_null();
        let message =
            "x-raw-body is `true`, for a body of application/json alone and without x-one-of, or not there";
        self.require(said.is_null() || good, pointer, "raw-body", message);
    }

    /// Files are attachments where nothing else is said.
    fn attachment(&mut self, pointer: &str, operation: &Value) {
        let said = &operation["x-attachment"];
        let form = operation.pointer("/requestBody/content/multipart~1form-data");
        let good = *said == Value::Bool(false) && form.is_some();
        let message = "x-attachment is `false`, for an operation that takes a file, or not there";
        self.require(said.is_null() || good, pointer, "attachment", message);
    }

    /// What is in SCIM is so throughout: who may call, by which token, and in which form it is refused. The answers to what
    /// is refused before anybody knows what is meant are like everywhere.
    fn errors(&mut self, pointer: &str, operation: &Value) {
        const SCIM: &str = "application/scim+json";
        let said = &operation["x-errors"];
        let scim = *said == "scim";
        self.require(
            scim || said.is_null(),
            pointer,
            "errors",
            "x-errors is `scim`, or not there",
        );
        let access = &operation["x-access"];
        let mut required = operation["security"].as_array().into_iter().flatten();
        let token = required.any(|one| !one["scim_token"].is_null());
        self.require(
            [access["on"] == "scim", token].iter().all(|one| *one == scim),
            pointer,
            "errors-scim",
            "`x-errors: scim`, `x-access.on: scim` and the security requirement `scim_token` go together",
        );
        let whole = access["min"] == "none" && access["first"] == true && access["anonymous"].is_null();
        self.require(
            !scim || whole,
            pointer,
            "errors-access",
            "x-access on scim has `min: none` and `first: true`: the token decides, and before all else",
        );
        for (status, response) in operation["responses"].as_object().into_iter().flatten() {
            let early = matches!(status.as_str(), "414" | "431");
            let content = &self.document.deref(response)["content"];
            let fits = early || content.is_null() || content.get(SCIM).is_some() == scim;
            self.require(
                fits,
                &format!("{pointer}/responses/{status}"),
                "errors-media",
                "answers are of application/scim+json where `x-errors` is `scim`, and only there",
            );
        }
    }

    /// A gate is asked by the guard, or by the service of an operation that names no project.
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
        let message = "x-flag has `name`, `default` and, on the instance alone, `of: project`";
        self.require(said.is_null() || good, pointer, "flag", message);
    }
}
