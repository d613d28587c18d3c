//! Executes the workflows of `openapi/arazzo.yaml`. The file is read as it is published.

use std::collections::HashMap;

use contract::document::find;
use contract::table::operations;
use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::support::client::segment;
use crate::support::git::address;
use crate::support::server::ROOT_TOKEN;
use crate::support::spaces::{id, project};
use crate::support::webhook_receiver::Receiver;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// The published workflows.
fn workflows() -> Vec<Value> {
    let file = find("docs/arazzo.yaml").expect("the workflows");
    let text = file.content().expect("a text");
    let document: Value = yaml_serde::from_slice(&text).expect("YAML");
    document["workflows"].as_array().expect("workflows").clone()
}

/// The execution of a workflow.
struct Execution<'a> {
    server: &'a TestServer,
    client: &'a Client,
    inputs: Value,
    /// The outputs of the steps that were executed, by the ID of the step.
    outputs: HashMap<String, Map<String, Value>>,
}

impl Execution<'_> {
    async fn step(&mut self, step: &Value) {
        let (name, operation) = (text(step, "stepId"), text(step, "operationId"));
        let operation = operations().iter().find(|one| one.id == operation).expect("an operation");
        let mut path = operation.path.strip_prefix("/api/v4").expect("a path of the API").to_owned();
        let mut query = Vec::new();
        for parameter in step["parameters"].as_array().into_iter().flatten() {
            let key = text(parameter, "name");
            let value = plain(&self.value(&parameter["value"], None));
            match text(parameter, "in") {
                "path" => path = path.replace(&format!("{{{key}}}"), &segment(&value)),
                "query" => query.push((key.to_owned(), value)),
                other => panic!("{name}: a parameter in {other}"),
            }
        }
        let method = Method::from_bytes(operation.method.as_bytes()).expect("a method");
        let mut request = self.client.request(method, &path).query(&query);
        if let Some(payload) = step["requestBody"].get("payload") {
            request = request.json(&self.value(payload, None));
        }
        let retried = request.try_clone().expect("a request without a stream");
        let mut response = self.client.send(request).await;
        if self.unmet(&step["successCriteria"], &response).is_some() && self.is_retried(step, &response) {
            // The jobs run in place of the wait between retries.
            self.server.finish_jobs().await;
            response = self.client.send(retried).await;
        }
        if let Some(condition) = self.unmet(&step["successCriteria"], &response) {
            panic!("{name}: {condition}: {}", String::from_utf8_lossy(&response.body));
        }
        let outputs = step["outputs"].as_object().cloned().unwrap_or_default();
        let outputs = outputs.into_iter().map(|(key, value)| (key, self.value(&value, Some(&response))));
        let outputs = outputs.collect();
        self.outputs.insert(name.to_owned(), outputs);
    }

    /// Returns the first condition that a response does not meet.
    fn unmet<'b>(&self, criteria: &'b Value, response: &ApiResponse) -> Option<&'b str> {
        let mut conditions = criteria.as_array().into_iter().flatten().map(|criterion| text(criterion, "condition"));
        conditions.find(|condition| !self.is_met(condition, response))
    }

    fn is_met(&self, condition: &str, response: &ApiResponse) -> bool {
        let (separator, is_equal) = match condition.contains(" != ") {
            true => (" != ", false),
            false => (" == ", true),
        };
        let (left, right) = condition.split_once(separator).expect("a comparison");
        (self.expression(left, Some(response)) == literal(right)) == is_equal
    }

    /// Returns whether a step that failed is retried.
    fn is_retried(&self, step: &Value, response: &ApiResponse) -> bool {
        let actions = step["onFailure"].as_array().into_iter().flatten();
        let mut retries = actions.filter(|action| action["type"] == "retry");
        retries.any(|action| self.unmet(&action["criteria"], response).is_none())
    }

    /// Returns a value in which expressions are replaced, alone or in braces.
    fn value(&self, value: &Value, response: Option<&ApiResponse>) -> Value {
        match value {
            Value::String(text) if text.starts_with('$') => self.expression(text, response),
            Value::String(text) => {
                let mut parts = text.split("{$");
                let mut replaced = parts.next().unwrap_or_default().to_owned();
                for part in parts {
                    let (expression, rest) = part.split_once('}').expect("a closing brace");
                    replaced.push_str(&plain(&self.expression(&format!("${expression}"), response)));
                    replaced.push_str(rest);
                }
                Value::String(replaced)
            }
            Value::Array(items) => items.iter().map(|item| self.value(item, response)).collect(),
            Value::Object(members) => {
                members.iter().map(|(key, value)| (key.clone(), self.value(value, response))).collect()
            }
            other => other.clone(),
        }
    }

    fn expression(&self, expression: &str, response: Option<&ApiResponse>) -> Value {
        let missing = || panic!("{expression} has no value");
        if expression == "$statusCode" {
            return json!(response.expect("a response").status);
        }
        if let Some(pointer) = expression.strip_prefix("$response.body#") {
            let body = response.expect("a response").json();
            return body.pointer(pointer).cloned().unwrap_or_else(missing);
        }
        let parts: Vec<&str> = expression.split('.').collect();
        match parts[..] {
            ["$inputs", name] => self.inputs.get(name).cloned().unwrap_or_else(missing),
            ["$steps", step, "outputs", name] => {
                self.outputs.get(step).and_then(|outputs| outputs.get(name)).cloned().unwrap_or_else(missing)
            }
            _ => panic!("unknown expression {expression}"),
        }
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or_else(|| panic!("no {name} in {value}"))
}

/// Returns a value as it is part of a path or text.
fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn literal(text: &str) -> Value {
    match text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')) {
        Some(text) => json!(text),
        None => serde_json::from_str(text).expect("a literal"),
    }
}

/// Returns the inputs of a workflow, and creates the resources that it requires.
async fn inputs(server: &TestServer, workflow: &str, receiver: &Receiver) -> Value {
    let root = &server.root();
    let with_readme = json!({ "initialize_with_readme": true, "default_branch": "main" });
    let work = async || project(root, &format!("for-{workflow}"), with_readme.clone()).await;
    match workflow {
        "first-project" => json!({ "name": "first" }),
        "edit-file" => json!({ "project_id": work().await, "file_path": "README.md", "content": "New" }),
        "branch-to-merge" => json!({ "project_id": work().await, "branch": "guide" }),
        "import-project" => {
            work().await;
            let import_url = address(&server.base, "root", ROOT_TOKEN, &format!("root/for-{workflow}"));
            json!({ "path": "imported", "import_url": import_url })
        }
        "release" => json!({ "project_id": work().await, "tag_name": "v1.0" }),
        "webhook-delivery" => json!({ "project_id": work().await, "url": receiver.url }),
        "replace-access-token" => {
            let project = work().await;
            let new = json!({ "name": "previous", "scopes": ["read_api"] });
            let token = root.post(&format!("/projects/{project}/access_tokens"), new).await.expect(201).json();
            json!({ "project_id": project, "previous_token_id": id(&token), "expires_at": "2099-01-31" })
        }
        "issue-board" => json!({ "project_id": work().await }),
        "provisioning" => json!({
            "username": "grace", "email": "grace@example.com", "password": "walks a long way 42", "group": "codes",
        }),
        other => panic!("no inputs for the workflow {other}"),
    }
}

async fn every_workflow_succeeds(server: TestServer) {
    let root = server.root();
    let receiver = Receiver::start().await;
    let workflows = workflows();
    assert_eq!(workflows.len(), 9);
    for workflow in workflows {
        let name = text(&workflow, "workflowId");
        let inputs = inputs(&server, name, &receiver).await;
        let declared = workflow["inputs"]["properties"].as_object().expect("inputs").keys().collect::<Vec<_>>();
        assert_eq!(inputs.as_object().expect("inputs").keys().collect::<Vec<_>>(), declared, "{name}");
        let mut execution = Execution { server: &server, client: &root, inputs, outputs: HashMap::new() };
        for step in workflow["steps"].as_array().expect("steps") {
            execution.step(step).await;
        }
        let outputs = execution.value(&workflow["outputs"], None);
        assert!(outputs.is_null() || outputs.as_object().is_some_and(|outputs| !outputs.is_empty()), "{name}");
    }
}

async fn workflows_are_published(server: TestServer) {
    let response = server.anonymous().get("//docs/arazzo.yaml").await.expect(200);
    assert_eq!(response.header("content-type"), "application/yaml");
    let text = String::from_utf8(response.body).expect("a text");
    assert!(text.starts_with("arazzo: 1.0.1\n"));
    let guide = server.anonymous().get("//docs/guide/workflows.md").await.expect(200);
    let guide = String::from_utf8(guide.body).expect("a text");
    assert!(guide.contains("## Propose and merge a change") && guide.contains("accept_merge_request"), "{guide}");
}

on_every_database![every_workflow_succeeds, workflows_are_published];
