//! Lints of parts without which generated clients have wrong types, or cannot be imported.

use serde_json::Value;

use super::Linter;
use crate::defaults::SUDO;
use crate::example;
use crate::load::{DEFERRED, TYPES, WEBHOOKS, escape};
use crate::lower::json_of;

impl Linter<'_> {
    /// Checks the null, the types and the names of a schema.
    pub(super) fn client_schema(&mut self, pointer: &str, schema: &Value) {
        let typed = schema.get("type").is_some();
        let parts = schema["allOf"].as_array().map_or(0, Vec::len);
        let types = schema[TYPES].as_array();
        let accepts_null = if typed {
            parts == 0
        } else {
            parts == 1 || types.is_some()
        };
        self.require(
            schema["nullable"].is_null() || accepts_null,
            pointer,
            "nullable-type",
            "`nullable` requires a `type`, or an `allOf` with one reference and no `type`, because clients ignore the null of both",
        );
        let untyped = !typed && parts == 0 && schema.get("$ref").is_none();
        self.require(
            untyped == types.is_some_and(|types| !types.is_empty()),
            pointer,
            "types",
            "a schema requires a `type` or, if values have several types, `x-types`",
        );
        for (index, one) in types.into_iter().flatten().enumerate() {
            self.schema(&format!("{pointer}/x-types/{index}"), one);
        }
        let deferred = &schema[DEFERRED];
        self.require(
            deferred.is_null() || (*deferred == true && schema["additionalProperties"].is_object()),
            pointer,
            "deferred",
            "x-deferred must be `true` on a schema with `additionalProperties`, or absent",
        );
        let values = schema["enum"].as_array().filter(|_| schema["type"] == "integer");
        let names = schema["x-enum-varnames"].as_array();
        self.require(
            values.map(Vec::len) == names.map(Vec::len),
            pointer,
            "enum-names",
            "an enum of integers requires `x-enum-varnames` with a name for each value, and other enums have no names",
        );
    }

    /// Checks that a path parameter has an example of its type.
    pub(super) fn path_example(&mut self, pointer: &str, parameter: &Value) {
        let Some(example) = parameter.get("example") else {
            self.fault(pointer, "path-example", "a path parameter requires an example");
            return;
        };
        for fault in example::check(self.document, &parameter["schema"], example) {
            self.fault(pointer, "path-example", format!("example: {fault}"));
        }
    }

    /// Checks that an operation with two forms of its body has an optional parameter. Without one, modules of
    /// openapi-python-client cannot be imported.
    pub(super) fn optional_parameter(&mut self, pointer: &str, operation: &Value) {
        let forms = operation["requestBody"]["content"]
            .as_object()
            .map_or(0, serde_json::Map::len);
        let mut parameters = operation["parameters"].as_array().into_iter().flatten();
        let known = parameters.any(|parameter| self.document.deref(parameter)["name"] == SUDO);
        self.require(
            forms < 2 || known,
            pointer,
            "form-sudo",
            "an operation with a JSON body and a form requires the parameter `Sudo`",
        );
    }
    /// Checks that each webhook has a named body with an example, as receivers are generated from it.
    pub(super) fn webhooks(&mut self) {
        let webhooks = self.document.root[WEBHOOKS].as_object();
        for (name, item) in webhooks.into_iter().flatten() {
            let pointer = format!("/{WEBHOOKS}/{}/post", escape(name));
            let operation = &item["post"];
            self.description(&pointer, operation);
            let content = &operation["requestBody"]["content"];
            let media = json_of(content).map_or(&Value::Null, |(_, media)| media);
            self.require(
                media["schema"].get("$ref").is_some(),
                &pointer,
                "body-named",
                "the body of a webhook must be a named component in JSON",
            );
            self.example(&pointer, media);
        }
    }

    /// Checks the examples of error responses, from which readers and tests of clients learn the form of errors.
    pub(super) fn error_examples(&mut self) {
        let responses = self.document.root["components"]["responses"].as_object();
        for (name, response) in responses.into_iter().flatten() {
            if let Some((_, media)) = json_of(&response["content"]) {
                self.example(&format!("/components/responses/{}", escape(name)), media);
            }
        }
    }

    /// Checks that every tag is in exactly one group. Viewers hide tags that are in none.
    pub(super) fn tag_groups(&mut self) {
        let root = &self.document.root;
        let groups = root["x-tagGroups"].as_array().into_iter().flatten();
        let grouped: Vec<&Value> = groups
            .filter_map(|group| group["tags"].as_array())
            .flatten()
            .collect();
        let tags = root["tags"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tag| &tag["name"]);
        let tags: Vec<&Value> = tags.collect();
        let uses_groups = root.get("x-tagGroups").is_some();
        for tag in tags.iter().chain(&grouped) {
            let count = grouped.iter().filter(|grouped| *grouped == tag).count();
            self.require(
                !uses_groups || (count == 1 && tags.contains(tag)),
                "/x-tagGroups",
                "tag-groups",
                format!("the tag {tag} must be declared and in exactly one group"),
            );
        }
    }
}
