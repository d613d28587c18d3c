//! Requests in curl, Python and JavaScript, with the values of the examples.
//!
//! The variable `HOLDFAST` contains the URL of the server, and `TOKEN` contains the token.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::block::{Block, Code};
use super::site::{Operation, Site, entries, items};

/// A request with values.
pub(super) struct Request<'a> {
    method: String,
    /// The path with encoded values and the query.
    path: String,
    body: Body<'a>,
    is_scim: bool,
    returns_file: bool,
}

/// The body of a request.
enum Body<'a> {
    /// None.
    None,
    /// JSON with its media type.
    Json(&'a str, &'a Value),
    /// A form: names of files, and other attributes.
    Form(Vec<&'a str>, Vec<(&'a str, String)>),
}

/// Returns the samples of an operation.
pub(super) fn samples(site: &Site<'_>, operation: &Operation<'_>) -> Block {
    let request = request(site, operation);
    let code = |language, text| Code { language, text };
    Block::Samples(vec![
        ("curl", code("sh", request.curl())),
        ("Python", code("python", request.python())),
        ("JavaScript", code("javascript", request.javascript())),
    ])
}

/// Returns the request of an operation, with the example of each required value.
pub(super) fn request<'a>(site: &Site<'a>, operation: &Operation<'a>) -> Request<'a> {
    let mut path = operation.path.to_owned();
    let mut query = Vec::new();
    for parameter in &operation.parameters {
        let name = parameter["name"].as_str().unwrap_or_default();
        let sample = site.samples.and_then(|samples| samples.value(operation.id, name));
        let value = || sample.clone().unwrap_or_else(|| example(site, parameter));
        match parameter["in"].as_str() {
            Some("path") => {
                path = path.replace(&format!("{{{name}}}"), &encoded(&value()));
            }
            Some("query") if parameter["required"] == true => {
                let count = parameter["schema"]["minItems"].as_u64().unwrap_or(1);
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
        method: operation.method.to_uppercase(),
        path,
        body: body(site, operation),
        is_scim: operation.access("on") == "scim",
        returns_file: returns_file(operation),
    }
}

/// Returns the JSON of an operation with its media type, if the operation accepts JSON.
pub(super) fn json_body<'a>(operation: &Operation<'a>) -> Option<(&'a str, &'a Value)> {
    let content = &operation.value["requestBody"]["content"];
    entries(content).find(|(media, _)| media.ends_with("json"))
}

fn body<'a>(site: &Site<'a>, operation: &Operation<'a>) -> Body<'a> {
    if let Some((media, json)) = json_body(operation) {
        return match json.get("example") {
            Some(example) => Body::Json(media, example),
            None => Body::None,
        };
    }
    let form = &operation.value["requestBody"]["content"]["multipart/form-data"]["schema"];
    let schema = site.deref(form);
    let (mut files, mut fields) = (Vec::new(), Vec::new());
    let required = |name: &str| items(&schema["required"]).any(|one| one == name);
    for (name, property) in entries(&schema["properties"]) {
        match property["format"] == "binary" {
            true => files.push(name),
            false if required(name) => fields.push((name, example(site, property))),
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
    /// Returns the request for curl.
    pub(super) fn curl(&self) -> String {
        let mut parts = vec!["curl".to_owned()];
        match self.method.as_str() {
            "GET" => {}
            "HEAD" => parts.push("--head".to_owned()),
            method => parts.push(format!("--request {method}")),
        }
        let header = match self.is_scim {
            true => "--header \"Authorization: Bearer $TOKEN\"",
            false => "--header \"Private-Token: $TOKEN\"",
        };
        parts.push(header.to_owned());
        match &self.body {
            Body::None => {}
            Body::Json(media, value) => {
                parts.push(format!("--header 'Content-Type: {media}'"));
                parts.push(format!("--data '{}'", pretty(value).replace('\'', "'\\''")));
            }
            Body::Form(files, fields) => {
                parts.extend(
                    fields
                        .iter()
                        .map(|(name, value)| format!("--form '{name}={value}'")),
                );
                parts.extend(
                    files
                        .iter()
                        .map(|name| format!("--form '{name}=@{}'", file_name(name))),
                );
            }
        }
        if self.returns_file {
            parts.push("--output download".to_owned());
        }
        parts.push(format!("\"$HOLDFAST{}\"", self.path));
        parts.join(" \\\n  ")
    }

    /// Returns the request for Python with the package `requests`.
    pub(super) fn python(&self) -> String {
        let mut text = format!(
            "import os\nimport requests\n\nresponse = requests.{}(\n    os.environ[\"HOLDFAST\"] + \"{}\",\n",
            self.method.to_lowercase(),
            self.path
        );
        let mut headers = match self.is_scim {
            true => "\"Authorization\": \"Bearer \" + os.environ[\"TOKEN\"]".to_owned(),
            false => "\"Private-Token\": os.environ[\"TOKEN\"]".to_owned(),
        };
        if let Body::Json(media, _) = self.body
            && media != "application/json"
        {
            headers.push_str(&format!(", \"Content-Type\": \"{media}\""));
        }
        text.push_str(&format!("    headers={{{headers}}},\n"));
        match &self.body {
            Body::None => {}
            Body::Json(_, value) => text.push_str(&format!("    json={},\n", python(value, 1))),
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
                    .map(|name| format!("\"{name}\": open(\"{}\", \"rb\")", file_name(name)));
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
        if let Body::Form(files, fields) = &self.body {
            text.push_str("import { openAsBlob } from \"node:fs\";\n\nconst form = new FormData();\n");
            for (name, value) in fields {
                text.push_str(&format!(
                    "form.append(\"{name}\", {});\n",
                    Value::from(value.as_str())
                ));
            }
            for name in files {
                let file = file_name(name);
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
        let mut headers = match self.is_scim {
            true => "\"Authorization\": `Bearer ${process.env.TOKEN}`".to_owned(),
            false => "\"Private-Token\": process.env.TOKEN".to_owned(),
        };
        if let Body::Json(media, _) = self.body {
            headers.push_str(&format!(", \"Content-Type\": \"{media}\""));
        }
        text.push_str(&format!("  headers: {{ {headers} }},\n"));
        match &self.body {
            Body::None => {}
            Body::Json(_, value) => {
                let json = pretty(value).replace('\n', "\n  ");
                text.push_str(&format!("  body: JSON.stringify({json}),\n"));
            }
            Body::Form(..) => text.push_str("  body: form,\n"),
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
mod tests {
    use serde_json::json;

    use super::*;

    fn sample(operation: Value) -> [String; 3] {
        let root = json!({ "paths": { "/projects/{id}/keys": operation } });
        let site = Site::new(&root);
        let request = request(&site, &site.operations[0]);
        [request.curl(), request.python(), request.javascript()]
    }

    fn parameters() -> Value {
        json!([
            { "name": "id", "in": "path", "required": true, "schema": { "type": "string" }, "example": "engines/difference" },
            { "name": "ref", "in": "query", "required": true, "schema": { "type": "string" } },
            { "name": "page", "in": "query", "schema": { "type": "integer" } },
        ])
    }

    #[test]
    fn samples_encode_paths_and_contain_required_parameters() {
        let [curl, python, javascript] =
            sample(json!({ "get": { "operationId": "get_key", "parameters": parameters() } }));
        let path = "/projects/engines%2Fdifference/keys?ref=main\"";
        assert!(
            curl.starts_with("curl \\\n  --header \"Private-Token: $TOKEN\""),
            "{curl}"
        );
        for text in [curl, python, javascript] {
            assert!(text.contains(path), "{text}");
        }
    }

    #[test]
    fn bodies_are_quoted_for_each_language() {
        let body = json!({ "application/json": { "example": { "title": "It's", "deep": [true, null] } } });
        let [curl, python, javascript] = sample(json!({ "post": {
            "operationId": "create_key", "parameters": parameters(), "requestBody": { "content": body },
        } }));
        assert!(
            curl.contains("--request POST") && curl.contains("It'\\''s"),
            "{curl}"
        );
        assert!(
            python.contains("\"title\": \"It's\",") && python.contains("True,\n            None,"),
            "{python}"
        );
        assert!(
            javascript.contains("body: JSON.stringify({\n    \"title\": \"It's\","),
            "{javascript}"
        );
    }

    #[test]
    fn files_are_sent_as_forms() {
        let schema = json!({ "required": ["file", "name"], "properties": {
            "file": { "type": "string", "format": "binary" }, "name": { "type": "string" }, "note": { "type": "string" },
        } });
        let body = json!({ "multipart/form-data": { "schema": schema } });
        let [curl, python, javascript] = sample(json!({ "post": {
            "operationId": "import_key", "parameters": parameters(), "requestBody": { "content": body },
        } }));
        assert!(
            curl.contains("--form 'name=example' \\\n  --form 'file=@export.tar.gz'"),
            "{curl}"
        );
        assert!(
            python.contains("files={\"file\": open(\"export.tar.gz\", \"rb\")}"),
            "{python}"
        );
        assert!(
            javascript.contains("form.append(\"name\", \"example\");"),
            "{javascript}"
        );
        assert!(!curl.contains("note"), "{curl}");
    }
}
