//! The forms of the pages of operations show the values of the samples.

use std::collections::BTreeMap;

use generator::{portal, samples};
use serde_json::Value;

use super::{ROOT, operations, page, tags};
use crate::contract_folder;

/// Returns text without the escapes of HTML.
fn unescaped(html: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&amp;", "&")]
        .iter()
        .fold(html.to_owned(), |text, (escape, character)| {
            text.replace(escape, character)
        })
}

/// Returns the samples for curl by operation ID.
fn curl_samples() -> BTreeMap<String, String> {
    let samples = samples::load(&contract_folder()).expect("YAML");
    let samples = portal::code_samples(&ROOT, samples.as_ref()).into_iter();
    samples
        .map(|(id, all)| (id, all[0]["source"].as_str().expect("a sample").to_owned()))
        .collect()
}

/// Returns the JSON body of a sample for curl. A value that is a variable is `${NAME}`.
fn json(curl: &str) -> Option<Value> {
    let (_, rest) = curl.split_once("--data '")?;
    let (body, _) = rest.rsplit_once("' \\\n").expect("the end of the body");
    let quote = "\u{1}";
    let body = body
        .replace("'\\''", quote)
        .replace("'\"$", "${")
        .replace("\"'", "}");
    Some(serde_json::from_str(&body.replace(quote, "'")).expect("JSON"))
}

/// Returns the names of the required attributes of a body.
fn required(operation: &Value) -> Vec<&str> {
    let content = operation["requestBody"]["content"].as_object().expect("a body");
    let mut media = content.iter().filter(|(media, _)| media.ends_with("json"));
    let schema = &media.next().expect("JSON").1["schema"];
    let target = schema["$ref"]
        .as_str()
        .map(|target| target.trim_start_matches('#'));
    let schema = target.and_then(|target| ROOT.pointer(target)).unwrap_or(schema);
    let names = schema["required"].as_array().into_iter().flatten();
    names.filter_map(Value::as_str).collect()
}

/// A form has no variables: an attribute with a variable is omitted, or the reader has to replace its value.
#[test]
fn example_of_a_form_is_the_body_of_the_sample() {
    let (samples, mut bodies, mut variables) = (curl_samples(), 0, 0);
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an ID");
        let html = page(&format!("docs/operation/{id}"));
        let template = html.split_once("<template>").map(|(_, rest)| {
            let (text, _) = rest.split_once("</template>").expect("the end of the example");
            serde_json::from_str::<Value>(&unescaped(text)).expect("JSON")
        });
        let Some(mut expected) = json(&samples[id]) else {
            assert_eq!(template, None, "{id}");
            continue;
        };
        bodies += 1;
        if let Some(attributes) = expected.as_object_mut() {
            let required = required(operation);
            let is_variable = |value: &Value| value.as_str().is_some_and(|text| text.starts_with("${"));
            variables += attributes.values().filter(|value| is_variable(value)).count();
            attributes.retain(|name, value| !is_variable(value) || required.contains(&name.as_str()));
            for value in attributes.values_mut().filter(|value| is_variable(value)) {
                *value = "...".into();
            }
        }
        assert_eq!(template, Some(expected), "{id}");
    }
    assert!(
        bodies > 150 && variables > 10,
        "{bodies} bodies, {variables} variables"
    );
}

#[test]
fn examples_of_path_parameters_are_the_values_of_the_sample() {
    let (samples, mut parameters) = (curl_samples(), 0);
    for operation in operations() {
        let id = operation["operationId"].as_str().expect("an ID");
        let tags = tags(page(&format!("docs/operation/{id}")));
        let form = tags
            .iter()
            .find_map(|(_, attributes)| attributes.get("data-path"));
        let mut path = (*form.expect("a form")).to_owned();
        for (_, attributes) in &tags {
            if attributes.get("data-in") == Some(&"path") {
                let value = unescaped(attributes["data-example"]);
                path = path.replace(&format!("{{{}}}", attributes["data-name"]), &encoded(&value));
                parameters += 1;
            }
        }
        let (_, url) = samples[id].rsplit_once("\"$HOLDFAST").expect("a URL");
        let url = url.trim_end_matches('"').split('?').next().unwrap_or_default();
        assert_eq!(path, url, "{id}");
    }
    assert!(parameters > 500, "{parameters} parameters");
}

fn encoded(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}
