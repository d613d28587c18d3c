//! Configuration of Stainless, an SDK generator that reads the names of methods from a separate file.
//!
//! Checked by hand with the parser that Stainless publishes with its documentation tool (`@stainless-api/docs`): it reports
//! no errors or warnings for the reduced 3.1 document.

use serde_json::{Map, Value, json};

use super::each_operation;

/// Version of the rules of the configuration. The names of targets need one too.
const EDITION: &str = "2026-02-23";
/// Operation that examples call.
const EXAMPLE: &str = "get /api/v4/projects";

/// Returns the configuration for the reduced 3.1 document, whose operations have hints. Stainless does not support HEAD.
pub(super) fn configuration(root: &mut Value) -> Value {
    let mut resources = Map::new();
    let mut unspecified = Vec::new();
    each_operation(root, |path, method, operation| {
        let endpoint = format!("{method} {path}");
        let hint = |name: &str| operation.get(name).and_then(Value::as_str).map(str::to_owned);
        let names = (hint("x-speakeasy-group"), hint("x-speakeasy-name-override"));
        let (Some(group), Some(name)) = names else { return };
        if method == "head" {
            return;
        }
        if operation.contains_key("x-speakeasy-ignore") {
            unspecified.push(endpoint);
            return;
        }
        let paginated = operation.contains_key("x-page");
        let resource = resources.entry(group).or_insert_with(|| json!({ "methods": {} }));
        resource["methods"][name] = json!({ "endpoint": endpoint, "paginated": paginated });
    });
    json!({
        "edition": EDITION,
        "organization": { "name": "holdfast", "docs": "https://git.example.com/docs/", "contact": "admin@example.com" },
        "environments": { "production": "https://git.example.com" },
        "targets": targets(),
        "client_settings": { "opts": { "token": {
            "type": "string",
            "nullable": true,
            "auth": { "security_scheme": "private_token_header" },
            "read_env": "TOKEN",
        } } },
        "security_schemes": {
            "private_token_header": { "type": "apiKey", "in": "header", "name": "Private-Token" },
        },
        "security": [{ "private_token_header": [] }, {}],
        "query_settings": { "array_format": "brackets", "nested_format": "brackets" },
        "pagination": [pagination()],
        "readme": { "example_requests": {
            "default": request(),
            "headline": request(),
            "pagination": request(),
        } },
        "resources": resources,
        "unspecified_endpoints": unspecified,
    })
}

/// Returns the languages. Names of packages are those of the other recipes.
fn targets() -> Value {
    json!({
        "typescript": { "edition": "typescript.2025-10-10", "package_name": "holdfast-client", "publish": { "npm": false } },
        "python": {
            "edition": "python.2025-10-08",
            "package_name": "holdfast_client",
            "project_name": "holdfast-client",
            "publish": { "pypi": false },
        },
    })
}

/// Returns how a list is read page by page: the response is the list.
fn pagination() -> Value {
    let property = "x-stainless-pagination-property";
    json!({
        "name": "page_number",
        "type": "page_number",
        "request": {
            "page": { "type": "integer", property: { "purpose": "page_number_param" } },
            "per_page": { "type": "integer" },
        },
        "response": {
            "items": { "type": "array", "items": {}, property: { "purpose": "items", "is_top_level_array": true } },
        },
    })
}

fn request() -> Value {
    json!({ "type": "request", "endpoint": EXAMPLE, "params": {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_a_method_or_omitted() {
        let operation =
            |name: &str| json!({ "x-speakeasy-group": "keys", "x-speakeasy-name-override": name });
        let mut list = operation("list");
        list["x-page"] = json!("offset");
        let mut old = operation("old");
        old["x-speakeasy-ignore"] = json!(true);
        let mut root = json!({ "paths": { "/keys": {
            "get": list, "post": operation("create"), "head": operation("check"), "delete": old,
        } } });
        let configuration = configuration(&mut root);
        assert_eq!(
            configuration["resources"],
            json!({ "keys": { "methods": {
                "list": { "endpoint": "get /keys", "paginated": true },
                "create": { "endpoint": "post /keys", "paginated": false },
            } } })
        );
        assert_eq!(configuration["unspecified_endpoints"], json!(["delete /keys"]));
    }
}
