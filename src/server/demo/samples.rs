//! The data of the samples in the documentation: the requests of `openapi/samples.yaml`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use contract::document;
use poem::http::Method;
use poem::{Endpoint, Response};
use serde::Deserialize;
use serde_json::Value;

use super::{ADMINISTRATOR, DemoApi, RequestBody};
use crate::server::error::Error;

/// Separates the parts of a form.
const BOUNDARY: &str = "part-of-a-sample";

/// A request of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorldRequest {
    /// Method and path below the API.
    request: String,
    /// The user.
    #[serde(rename = "as")]
    user: Option<String>,
    /// A JSON body.
    body: Option<Value>,
    /// A plain body.
    content: Option<String>,
    /// A plain body that is not text, in Base64.
    base64: Option<String>,
    /// The parts of a form.
    form: Option<BTreeMap<String, FormPart>>,
    /// Attributes of the response, by the name under which later requests insert them.
    #[serde(default)]
    save: BTreeMap<String, String>,
}

/// A part of a form.
#[derive(Deserialize)]
#[serde(untagged)]
enum FormPart {
    /// A text.
    Text(String),
    /// A file.
    File {
        /// The name of the file.
        name: String,
        /// The content.
        content: String,
    },
}

/// Creates the data.
pub(super) async fn create<E>(api: &DemoApi<'_, E>) -> Result<(), Error>
where
    E: Endpoint<Output = Response>,
{
    let failed = |why: String| Error::Demo(format!("samples: {why}"));
    let file = document::find("samples.json").ok_or_else(|| failed("the file is missing".to_owned()))?;
    let text = file.content().map_err(|error| failed(error.to_string()))?;
    let requests: Vec<WorldRequest> =
        serde_json::from_slice(&text).map_err(|error| failed(error.to_string()))?;
    let mut saved = BTreeMap::new();
    for request in requests {
        let (method, path) = request.request.split_once(' ').unwrap_or_default();
        let method = Method::from_bytes(method.as_bytes()).map_err(|error| failed(error.to_string()))?;
        let user = request.user.as_deref().unwrap_or(ADMINISTRATOR);
        let bytes = match (request.content, request.base64) {
            (Some(content), _) => Some(content.into_bytes()),
            (None, Some(text)) => Some(STANDARD.decode(text).map_err(|error| failed(error.to_string()))?),
            (None, None) => None,
        };
        let body = match (request.body, bytes, request.form) {
            (_, Some(bytes), _) => RequestBody::new("application/octet-stream", bytes),
            (_, _, Some(parts)) => form(parts),
            (body, ..) => RequestBody::json(&inserted(body.unwrap_or_default(), &saved)),
        };
        let response = api.send(user, method, path, body).await?;
        for (name, attribute) in request.save {
            saved.insert(name, response[attribute.as_str()].clone());
        }
    }
    Ok(())
}

/// Inserts saved values.
fn inserted(value: Value, saved: &BTreeMap<String, Value>) -> Value {
    match value {
        Value::String(text) => {
            let name = text.strip_prefix("${").and_then(|text| text.strip_suffix('}'));
            match name.and_then(|name| saved.get(name)) {
                Some(value) => value.clone(),
                None => Value::String(text),
            }
        }
        Value::Array(items) => items.into_iter().map(|item| inserted(item, saved)).collect(),
        Value::Object(members) => {
            let members = members.into_iter();
            members
                .map(|(name, value)| (name, inserted(value, saved)))
                .collect()
        }
        other => other,
    }
}

fn form(parts: BTreeMap<String, FormPart>) -> RequestBody {
    let mut text = String::new();
    for (name, part) in parts {
        let (file_name, content) = match part {
            FormPart::Text(content) => (String::new(), content),
            FormPart::File { name, content } => (format!("; filename=\"{name}\""), content),
        };
        text.push_str(&format!(
            "--{BOUNDARY}\r\nContent-Disposition: form-data; name=\"{name}\"{file_name}\r\n\r\n{content}\r\n"
        ));
    }
    text.push_str(&format!("--{BOUNDARY}--\r\n"));
    RequestBody::new(
        &format!("multipart/form-data; boundary={BOUNDARY}"),
        text.into_bytes(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn saved_values_are_inserted_at_any_depth() {
        let saved = BTreeMap::from([("commit".to_owned(), json!("1a2b"))]);
        let body = json!({"sha": "${commit}", "list": ["${commit}", "${other}", 1]});
        let expected = json!({"sha": "1a2b", "list": ["1a2b", "${other}", 1]});
        assert_eq!(inserted(body, &saved), expected);
    }

    #[test]
    fn form_has_texts_and_files() {
        let file = FormPart::File {
            name: "a.txt".to_owned(),
            content: "A".to_owned(),
        };
        let parts = [("content", file), ("name", FormPart::Text("a".to_owned()))];
        let body = form(
            parts
                .into_iter()
                .map(|(name, part)| (name.to_owned(), part))
                .collect(),
        );
        assert_eq!(body.media_type, "multipart/form-data; boundary=part-of-a-sample");
        let expected = "--part-of-a-sample\r\nContent-Disposition: form-data; name=\"content\"; filename=\"a.txt\"\r\n\r\nA\r\n\
                        --part-of-a-sample\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\na\r\n--part-of-a-sample--\r\n";
        assert_eq!(body.content, expected.as_bytes());
    }
}
