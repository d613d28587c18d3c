//! Requests in curl, Python and JavaScript, with the values of the examples.
//!
//! The variable `HOLDFAST` contains the URL of the server, and `TOKEN` contains the token. A text `${NAME}` of a body or a
//! header is the value of a variable.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt::Write;

use serde_json::{Map, Value};

use super::block::Code;
use super::site::{Operation, Site, entries, items};
use crate::samples::Samples;

/// Value of a required attribute in the form of a page that the reader has to replace, such as a code of an
/// authenticator app.
const UNKNOWN: &str = "...";

/// A request with values.
pub(super) struct Request<'a> {
    /// Commands that precede the request in a shell.
    commands: Option<&'a str>,
    method: String,
    /// The path with encoded values and the query.
    path: String,
    /// Headers that are parameters.
    headers: Vec<(&'a str, String)>,
    body: Body<'a>,
    credentials: Credentials,
    returns_file: bool,
}

/// The credentials of a request.
#[derive(Clone, Copy)]
enum Credentials {
    /// None: the operation ignores them.
    None,
    /// A token of a user.
    Token,
    /// A token of SCIM.
    Scim,
}

/// The body of a request.
enum Body<'a> {
    /// None.
    None,
    /// JSON with its media type.
    Json(&'a str, Cow<'a, Value>),
    /// A form: attributes with names of files, and other attributes.
    Form(Vec<(&'a str, String)>, Vec<(&'a str, String)>),
    /// The content of the file with this name.
    File(&'a str),
}

/// Returns the samples of an operation by the names of their tools.
pub(super) fn samples(site: &Site<'_>, operation: &Operation<'_>) -> [(&'static str, Code); 3] {
    let request = request(site, operation);
    let code = |language, text| Code { language, text };
    [
        ("curl", code("sh", request.curl())),
        ("Python", code("python", request.python())),
        ("JavaScript", code("javascript", request.javascript())),
    ]
}

/// Returns the request of an operation, with the example of each required value, and the other values of its sample.
pub(super) fn request<'a>(site: &Site<'a>, operation: &Operation<'a>) -> Request<'a> {
    let mut path = operation.path.to_owned();
    let (mut query, mut headers) = (Vec::new(), Vec::new());
    for parameter in &operation.parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        let value = || value(site, operation, parameter);
        let has_own = |samples: &Samples| samples.has_own_value(operation.id, name);
        let is_sent = parameter["required"] == true || site.samples.is_some_and(has_own);
        match parameter["in"].as_str() {
            Some("path") => {
                path = path.replace(&format!("{{{name}}}"), &encoded(&value()));
            }
            Some("header") if is_sent => headers.push((name, value())),
            Some("query") if is_sent => {
                // A merge base needs two refs. The contract does not require them, because the error has its own text.
                let count = if name == "refs[]" { 2 } else { 1 };
                for at in 0..count {
                    let value = if at == 0 { value() } else { "feature".to_owned() };
                    query.push(format!("{}={}", encoded(name), encoded(&value)));
                }
            }
            _ => {}
        }
    }
    if !query.is_empty() {
        path = format!("{path}?{}", query.join("&"));
    }
    Request {
        commands: site.samples.and_then(|samples| samples.commands(operation.id)),
        method: operation.method.to_uppercase(),
        path,
        headers,
        body: body(site, operation),
        credentials: match operation.access("on") {
            _ if operation.ignores_credentials() => Credentials::None,
            "scim" => Credentials::Scim,
            _ => Credentials::Token,
        },
        returns_file: returns_file(operation),
    }
}

/// Returns the value of a parameter in the sample of an operation, or else the example of the parameter.
pub(super) fn value(site: &Site<'_>, operation: &Operation<'_>, parameter: &Value) -> String {
    let name = parameter["name"].as_str().unwrap_or_default();
    let sample = site.samples.and_then(|samples| samples.value(operation.id, name));
    sample.unwrap_or_else(|| example(site, parameter))
}

/// Returns the body that the form of a page inserts: the JSON of the sample. A form has no variables, so it omits an
/// attribute whose value is a variable. If the attribute is required, its value is [`UNKNOWN`].
pub(super) fn form_example(site: &Site<'_>, operation: &Operation<'_>) -> Option<Value> {
    let Body::Json(_, json) = body(site, operation) else {
        return None;
    };
    let mut json = json.into_owned();
    let schema = json_body(operation).map_or(&Value::Null, |(_, json)| site.deref(&json["schema"]));
    let is_variable = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("${"));
    if let Some(attributes) = json.as_object_mut() {
        attributes.retain(|name, value| {
            !is_variable(value) || items(&schema["required"]).any(|required| *required == *name)
        });
        for value in attributes.values_mut().filter(|value| is_variable(value)) {
            *value = UNKNOWN.into();
        }
    }
    Some(json)
}

/// Returns the JSON of an operation with its media type, if the operation accepts JSON.
pub(super) fn json_body<'a>(operation: &Operation<'a>) -> Option<(&'a str, &'a Value)> {
    let content = &operation.value["requestBody"]["content"];
    entries(content).find(|(media, _)| media.ends_with("json"))
}

fn body<'a>(site: &Site<'a>, operation: &Operation<'a>) -> Body<'a> {
    if let Some((media, json)) = json_body(operation) {
        return match json.get("example") {
            Some(example) => Body::Json(
                media,
                match site.samples {
                    Some(samples) => samples.json(operation.id, example),
                    None => Cow::Borrowed(example),
                },
            ),
            None => Body::None,
        };
    }
    if let Some(name) = site.samples.and_then(|samples| samples.file(operation.id)) {
        return Body::File(name);
    }
    let form = &operation.value["requestBody"]["content"]["multipart/form-data"]["schema"];
    let schema = site.deref(form);
    let (mut files, mut fields) = (Vec::new(), Vec::new());
    let required = |name: &str| items(&schema["required"]).any(|one| one == name);
    for (name, property) in entries(&schema["properties"]) {
        let own = site
            .samples
            .and_then(|samples| samples.part(operation.id, name))
            .map(str::to_owned);
        match property["format"] == "binary" {
            true => files.push((name, own.unwrap_or_else(|| file_name(name)))),
            false if own.is_some() || required(name) => {
                fields.push((name, own.unwrap_or_else(|| example(site, property))));
            }
            false => {}
        }
    }
    match files.is_empty() {
        true => Body::None,
        false => Body::Form(files, fields),
    }
}

fn returns_file(operation: &Operation<'_>) -> bool {
    let content = &operation.value["responses"]["200"]["content"];
    operation.method == "get" && entries(content).any(|(media, _)| !media.ends_with("json"))
}

/// Returns the example of a parameter: its own, its default, or a value of its type.
pub(super) fn example(site: &Site<'_>, parameter: &Value) -> String {
    let schema = site.deref(parameter.get("schema").unwrap_or(parameter));
    let item = if schema["type"] == "array" {
        site.deref(&schema["items"])
    } else {
        schema
    };
    let own = [
        &parameter["example"],
        &schema["example"],
        &schema["default"],
        &item["enum"][0],
    ];
    if let Some(value) = own.into_iter().find(|value| !value.is_null()) {
        return value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    }
    let name = parameter["name"].as_str().unwrap_or("text");
    let value = match (item["type"].as_str(), item["format"].as_str(), name) {
        (Some("integer" | "number"), ..) => "1",
        (Some("boolean"), ..) => "true",
        (_, Some("date"), _) => "2026-01-31",
        (_, Some("date-time"), _) => "2026-01-31T12:00:00Z",
        (_, _, "ref" | "from" | "refs[]") => "main",
        (_, _, "to") => "feature",
        (_, _, "link_url") => "https://example.com/%{project_path}",
        (_, _, "image_url") => "https://example.com/badge.svg",
        _ => "example",
    };
    value.to_owned()
}

/// Encodes a value for a segment of a path, or for a query.
pub(super) fn encoded(value: &str) -> String {
    let mut encoded = String::new();
    for byte in value.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                encoded.push(char::from(byte))
            }
            _ => {
                // Writing to a string cannot fail.
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
}

impl Request<'_> {
    /// Returns the names of the headers that are parameters, and their values as literals of a language.
    fn header_values(&self, variable: impl Fn(&str) -> String) -> impl Iterator<Item = (&str, String)> {
        self.headers.iter().map(move |(name, value)| {
            let literal = Value::from(value.as_str()).to_string();
            (*name, with_variables(&literal, &variable))
        })
    }

    /// Returns the names of the variables of headers and of the body.
    pub(super) fn variables(&self) -> BTreeSet<String> {
        let values = self.headers.iter();
        let mut json: String = values
            .map(|(_, value)| Value::from(value.as_str()).to_string())
            .collect();
        if let Body::Json(_, body) = &self.body {
            json.push_str(&body.to_string());
        }
        crate::samples::variables(&json)
    }

    /// Returns the request for curl.
    pub(super) fn curl(&self) -> String {
        let mut parts = vec!["curl".to_owned()];
        match (self.method.as_str(), &self.body) {
            ("GET", _) => {}
            // The request of `--upload-file`.
            ("PUT", Body::File(_)) => {}
            ("HEAD", _) => parts.push("--head".to_owned()),
            (method, _) => parts.push(format!("--request {method}")),
        }
        match self.credentials {
            Credentials::None => {}
            Credentials::Token => parts.push("--header \"Private-Token: $TOKEN\"".to_owned()),
            Credentials::Scim => parts.push("--header \"Authorization: Bearer $TOKEN\"".to_owned()),
        }
        for (name, value) in self.header_values(|name| format!("\"${name}\"")) {
            parts.push(format!("--header \"{name}: {}", &value[1..]));
        }
        match &self.body {
            Body::None => {}
            Body::Json(media, value) => {
                parts.push(format!("--header 'Content-Type: {media}'"));
                let json = pretty(value).replace('\'', "'\\''");
                let json = with_variables(&json, |name| format!("\"'\"${name}\"'\""));
                parts.push(format!("--data '{json}'"));
            }
            Body::File(name) => parts.push(format!("--upload-file {name}")),
            Body::Form(files, fields) => {
                parts.extend(
                    fields
                        .iter()
                        .map(|(name, value)| format!("--form '{name}={value}'")),
                );
                parts.extend(
                    files
                        .iter()
                        .map(|(name, file)| format!("--form '{name}=@{file}'")),
                );
            }
        }
        if self.returns_file {
            parts.push("--output download".to_owned());
        }
        parts.push(format!("\"$HOLDFAST{}\"", self.path));
        let curl = parts.join(" \\\n  ");
        match self.commands {
            Some(commands) => format!("{}\n{curl}", commands.trim_end()),
            None => curl,
        }
    }

    /// Returns the request for Python with the package `requests`.
    pub(super) fn python(&self) -> String {
        let mut text = format!(
            "import os\nimport requests\n\nresponse = requests.{}(\n    os.environ[\"HOLDFAST\"] + \"{}\",\n",
            self.method.to_lowercase(),
            self.path
        );
        let mut headers = match self.credentials {
            Credentials::None => Vec::new(),
            Credentials::Token => vec!["\"Private-Token\": os.environ[\"TOKEN\"]".to_owned()],
            Credentials::Scim => vec!["\"Authorization\": \"Bearer \" + os.environ[\"TOKEN\"]".to_owned()],
        };
        if let Body::Json(media, _) = self.body
            && media != "application/json"
        {
            headers.push(format!("\"Content-Type\": \"{media}\""));
        }
        for (name, value) in self.header_values(python_variable) {
            headers.push(format!("\"{name}\": {value}"));
        }
        text.push_str(&format!("    headers={{{}}},\n", headers.join(", ")));
        match &self.body {
            Body::None => {}
            Body::Json(_, value) => {
                let json = python(value, 1);
                let json = with_variables(&json, python_variable);
                text.push_str(&format!("    json={json},\n"));
            }
            Body::File(name) => text.push_str(&format!("    data=open(\"{name}\", \"rb\"),\n")),
            Body::Form(files, fields) => {
                if !fields.is_empty() {
                    let fields: Map<String, Value> = fields
                        .iter()
                        .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
                        .collect();
                    text.push_str(&format!("    data={},\n", python(&Value::Object(fields), 1)));
                }
                let files = files
                    .iter()
                    .map(|(name, file)| format!("\"{name}\": open(\"{file}\", \"rb\")"));
                text.push_str(&format!(
                    "    files={{{}}},\n",
                    files.collect::<Vec<_>>().join(", ")
                ));
            }
        }
        text.push_str(")\nresponse.raise_for_status()\n");
        text.push_str(match (self.method.as_str(), self.returns_file) {
            ("HEAD", _) => "print(response.headers)",
            (_, true) => "print(len(response.content))",
            ("DELETE", _) => "print(response.status_code)",
            _ => "print(response.text)",
        });
        text
    }

    /// Returns the request for JavaScript with `fetch`.
    pub(super) fn javascript(&self) -> String {
        let mut text = String::new();
        if let Body::Form(..) | Body::File(_) = self.body {
            text.push_str("import { openAsBlob } from \"node:fs\";\n\n");
        }
        if let Body::Form(files, fields) = &self.body {
            text.push_str("const form = new FormData();\n");
            for (name, value) in fields {
                text.push_str(&format!(
                    "form.append(\"{name}\", {});\n",
                    Value::from(value.as_str())
                ));
            }
            for (name, file) in files {
                text.push_str(&format!(
                    "form.append(\"{name}\", await openAsBlob(\"{file}\"), \"{file}\");\n"
                ));
            }
            text.push('\n');
        }
        text.push_str(&format!(
            "const response = await fetch(process.env.HOLDFAST + \"{}\", {{\n",
            self.path
        ));
        if self.method != "GET" {
            text.push_str(&format!("  method: \"{}\",\n", self.method));
        }
        let mut headers = match self.credentials {
            Credentials::None => Vec::new(),
            Credentials::Token => vec!["\"Private-Token\": process.env.TOKEN".to_owned()],
            Credentials::Scim => vec!["\"Authorization\": `Bearer ${process.env.TOKEN}`".to_owned()],
        };
        if let Body::Json(media, _) = self.body {
            headers.push(format!("\"Content-Type\": \"{media}\""));
        }
        for (name, value) in self.header_values(javascript_variable) {
            headers.push(format!("\"{name}\": {value}"));
        }
        text.push_str(&format!("  headers: {{ {} }},\n", headers.join(", ")));
        match &self.body {
            Body::None => {}
            Body::Json(_, value) => {
                let json = pretty(value).replace('\n', "\n  ");
                let json = with_variables(&json, javascript_variable);
                text.push_str(&format!("  body: JSON.stringify({json}),\n"));
            }
            Body::Form(..) => text.push_str("  body: form,\n"),
            Body::File(name) => text.push_str(&format!("  body: await openAsBlob(\"{name}\"),\n")),
        }
        text.push_str("});\nif (!response.ok) throw new Error(await response.text());\n");
        text.push_str(match (self.method.as_str(), self.returns_file) {
            ("HEAD", _) => "console.log(Object.fromEntries(response.headers));",
            (_, true) => "console.log((await response.arrayBuffer()).byteLength);",
            ("DELETE", _) => "console.log(response.status);",
            _ => "console.log(await response.text());",
        });
        text
    }
}

fn file_name(name: &str) -> String {
    match name {
        "avatar" => "avatar.png".to_owned(),
        "file" => "export.tar.gz".to_owned(),
        _ => format!("{name}.bin"),
    }
}

/// Replaces the texts `"${NAME}"`, with their quotes, by the value of a variable in a language.
fn with_variables(json: &str, variable: impl Fn(&str) -> String) -> String {
    let mut parts = json.split("\"${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once("}\"") {
            Some((name, rest)) => text.extend([variable(name).as_str(), rest]),
            None => text.extend(["\"${", part]),
        }
    }
    text
}

fn python_variable(name: &str) -> String {
    format!("os.environ[\"{name}\"]")
}

fn javascript_variable(name: &str) -> String {
    format!("process.env.{name}")
}

/// Returns JSON with line breaks.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Returns JSON as an expression of Python.
fn python(value: &Value, depth: usize) -> String {
    let indent = "    ".repeat(depth + 1);
    let end = "    ".repeat(depth);
    match value {
        Value::Null => "None".to_owned(),
        Value::Bool(true) => "True".to_owned(),
        Value::Bool(false) => "False".to_owned(),
        Value::Array(items) if !items.is_empty() => {
            let items = items
                .iter()
                .map(|item| format!("{indent}{},\n", python(item, depth + 1)));
            format!("[\n{}{end}]", items.collect::<String>())
        }
        Value::Object(entries) if !entries.is_empty() => {
            let entries = entries.iter().map(|(name, entry)| {
                format!(
                    "{indent}{}: {},\n",
                    Value::from(name.as_str()),
                    python(entry, depth + 1)
                )
            });
            format!("{{\n{}{end}}}", entries.collect::<String>())
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests;
