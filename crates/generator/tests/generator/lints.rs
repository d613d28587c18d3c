//! One failing input for each lint: a single change of the small contract, and the expected fault.

use std::path::Path;

use super::{lint, loaded, small};

/// Replaces an existing text in a file of the small contract and returns the faults.
fn broken(file: &str, from: &str, to: &str) -> Vec<(String, &'static str)> {
    let mut files = small();
    let (_, text) = files
        .iter_mut()
        .find(|(name, _)| *name == file)
        .expect("the file");
    assert!(text.contains(from), "`{from}` is not in {file}");
    *text = text.replacen(from, to, 1);
    let document = loaded(&files).unwrap_or_else(|faults| panic!("{faults:?}"));
    lint::lint(&document)
        .into_iter()
        .map(|fault| (fault.file, fault.rule))
        .collect()
}

macro_rules! lints {
    ($($name:ident: $file:literal, $from:literal => $to:literal, $rule:literal;)*) => {$(
        #[test]
        fn $name() {
            let faults = broken($file, $from, $to);
            assert!(faults.contains(&($file.to_owned(), $rule)), "{faults:?}");
        }
    )*};
}

lints! {
    references_resolve: "paths/keys.yaml", "parameters/Page'" => "parameters/Pge'", "ref";
    references_have_no_siblings: "schemas/keys.yaml",
        "kind: {$ref: '#/components/schemas/KeyKind'}" => "kind: {$ref: '#/components/schemas/KeyKind', nullable: true}",
        "ref-sibling";
    operation_ids_are_snake_case: "paths/keys.yaml", "list_keys" => "listKeys", "operation-id";
    operation_ids_are_unique: "paths/keys.yaml", "create_key" => "list_keys", "operation-id-unique";
    operations_have_one_tag: "paths/keys.yaml", "tags: [Keys]" => "tags: [Keys, Other]", "one-tag";
    tags_are_declared: "paths/keys.yaml", "tags: [Keys]" => "tags: [Locks]", "tag-declared";
    operations_are_in_the_file_of_their_tag: "paths/keys.yaml", "tags: [Keys]" => "tags: [Locks]", "tag-file";
    summaries_have_no_final_period: "paths/keys.yaml", "List keys" => "List keys.", "summary";
    summaries_are_plain_english: "paths/keys.yaml", "List keys" => "Tell keys", "wording";
    code_in_descriptions_is_closed: "schemas/keys.yaml", "  description: A key.\n" => "  description: A `key.\n", "markdown";
    descriptions_contain_no_html: "schemas/keys.yaml", "  description: A key.\n" => "  description: A <b>key</b>.\n", "markdown";
    descriptions_contain_known_markdown: "schemas/keys.yaml", "  description: A key.\n" => "  description: '> A key.'\n", "markdown";
    descriptions_are_plain_english: "schemas/keys.yaml", "  description: A key.\n" => "  description: A key, whatever it is.\n", "wording";
    operations_are_described: "paths/keys.yaml", "    description: Lists the keys.\n" => "", "description";
    parameters_are_described: "paths/keys.yaml", "description: Only these., " => "", "description";
    schemas_are_described: "schemas/keys.yaml", "  description: A key.\n" => "", "description";
    access_target_is_known: "paths/keys.yaml", "x-access: {'on': project, min: maintainer}" => "x-access: {'on': planet, min: maintainer}", "access";
    access_has_known_fields: "paths/keys.yaml", "first: true" => "frist: true", "access";
    access_target_is_in_the_path: "paths/keys.yaml",
        "/api/v4/projects/{id}/keys:" => "/api/v4/projects/keys:", "access-key";
    status_401_is_documented: "paths/keys.yaml",
        "      '401': {$ref: '#/components/responses/Fault'}\n" => "", "status-401";
    status_404_is_documented: "paths/keys.yaml",
        "      '404': {$ref: '#/components/responses/Fault'}\n" => "", "status-404";
    anonymous_access_matches_security: "paths/keys.yaml", ", anonymous: true" => "", "access-security";
    job_token_is_true_or_absent: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-job-token: no\n", "job-token";
    time_dependence_is_true_or_absent: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-time-dependent: no\n", "time-dependent";
    job_token_matches_security: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-job-token: true\n", "job-token-security";
    job_token_requires_access_to_project: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': instance, min: maintainer}\n    x-job-token: true\n", "job-token-project";
    package_client_is_true_cargo_or_absent: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-package-client: no\n", "package-client";
    package_client_matches_security: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-package-client: true\n", "package-client-security";
    cargo_client_matches_security: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-package-client: cargo\n", "package-client-security";
    package_client_checks_permission_first: "paths/keys.yaml", "    x-access: {'on': project, min: maintainer}\n" =>
        "    x-access: {'on': project, min: maintainer}\n    x-package-client: true\n", "package-client-first";
    bytes_require_a_form: "paths/keys.yaml", "        application/json:\n          schema: {$ref: '#/components/schemas/KeyCreate'}" =>
        "        application/octet-stream:\n          schema: {type: string, format: binary}", "body-bytes";
    alternatives_are_attributes_of_the_body: "paths/keys.yaml", "[[kind, parts]]" => "[[kind, other]]", "one-of";
    alternatives_have_at_least_two_attributes: "paths/keys.yaml", "[[kind, parts]]" => "[[kind]]", "one-of";
    alternatives_are_not_required: "paths/keys.yaml", "[[kind, parts]]" => "[[kind, title]]", "one-of";
    alternatives_are_lists: "paths/keys.yaml", "[[kind, parts]]" => "[kind, parts]", "one-of";
    arrays_do_not_set_explode_to_false: "paths/keys.yaml",
        "{name: 'ids[]', in: query," => "{name: 'ids[]', in: query, explode: false,", "explode";
    array_names_end_with_brackets: "paths/keys.yaml", "'ids[]'" => "ids", "array-name";
    path_parameters_are_declared: "paths/keys.yaml", "keys/{key_id}:" => "keys/{key}:", "path-parameters";
    bodies_are_json: "paths/keys.yaml", "        application/json:\n          schema: {$ref: '#/components/schemas/KeyCreate'}" =>
        "        text/plain:\n          schema: {$ref: '#/components/schemas/KeyCreate'}", "body-media";
    forms_have_one_file: "paths/keys.yaml", "schema: {$ref: '#/components/schemas/KeyFile'}" =>
        "schema: {$ref: '#/components/schemas/KeyCreate'}", "form-file";
    forms_with_json_alternative_have_only_the_file: "paths/keys.yaml",
        "        multipart/form-data:\n          schema: {$ref: '#/components/schemas/KeyFile'}" =>
        "        application/json:\n          schema: {$ref: '#/components/schemas/KeyCreate'}\n          example: {title: a}\n        multipart/form-data:\n          schema: {$ref: '#/components/schemas/KeyFile'}",
        "form-attributes";
    body_schemas_are_named: "paths/keys.yaml", "schema: {$ref: '#/components/schemas/KeyCreate'}" => "schema: {type: object}", "body-named";
    status_413_is_documented: "paths/keys.yaml",
        "      '413': {$ref: '#/components/responses/Fault'}\n" => "", "status-413";
    successful_responses_have_an_example: "paths/keys.yaml", "          example: {title: a}\n" => "", "example";
    examples_have_the_required_properties: "paths/keys.yaml", "example: {title: a}" => "example: {}", "example-valid";
    examples_have_no_other_properties: "paths/keys.yaml", "example: {title: a}" => "example: {title: a, x: 1}", "example-valid";
    examples_have_the_right_types: "paths/keys.yaml", "example: {title: a}" => "example: {title: 1}", "example-valid";
    examples_use_enumerated_values: "paths/keys.yaml", "kind: ssh" => "kind: pgp", "example-valid";
    examples_are_null_only_where_allowed: "paths/keys.yaml", "title: a, kind" => "title: null, kind", "example-valid";
    status_500_is_documented: "paths/keys.yaml",
        "      '500': {$ref: '#/components/responses/Fault'}\n" => "", "status-always";
    error_responses_are_components: "paths/keys.yaml",
        "      '400': {$ref: '#/components/responses/Fault'}\n" => "      '400': {description: A fault.}\n", "error-component";
    media_types_have_no_parameters: "paths/keys.yaml", "application/octet-stream:" => "'application/octet-stream; x=y':", "media-bare";
    operations_have_one_success_status: "paths/keys.yaml", "      '204': {description: It is gone.}" =>
        "      '204': {description: It is gone.}\n      '202': {description: It will be.}", "one-success";
    redirects_document_their_target: "paths/keys.yaml", "      '204': {description: It is gone.}" =>
        "      '302': {description: It is elsewhere.}", "redirect";
    redirects_are_the_only_success: "paths/keys.yaml", "      '204': {description: It is gone.}" =>
        "      '204': {description: It is gone.}\n      '302': {description: It moved., headers: {Location: {$ref: '#/components/headers/Text'}}}",
        "one-success";
    only_the_last_parameter_is_the_rest: "paths/keys.yaml", "{name: 'ids[]', in: query," =>
        "{name: 'ids[]', x-rest: true, in: query,", "rest";
    only_the_id_is_passed: "paths/keys.yaml", "{name: 'ids[]', in: query," =>
        "{name: 'ids[]', x-passed: true, in: query,", "passed";
    paginated_responses_are_lists: "paths/keys.yaml", "    x-tier: premium" => "    x-page: offset", "page-list";
    paginated_responses_document_their_headers: "paths/keys.yaml",
        "          X-Next-Page: {$ref: '#/components/headers/Text'}\n" => "", "page-headers";
    pagination_kinds_are_known: "paths/keys.yaml", "x-page: offset" => "x-page: cursor", "page";
    extensions_are_known: "paths/keys.yaml", "x-tier: premium" => "x-teir: premium", "extension";
    tiers_are_known: "paths/keys.yaml", "x-tier: premium" => "x-tier: gold", "tier";
    created_resources_are_read_by_a_known_operation: "paths/keys.yaml", "    x-tier: premium\n" =>
        "    x-tier: premium\n    x-created: get_nothing\n", "created";
    deprecated_operations_have_a_replacement: "paths/keys.yaml", "    x-tier: premium\n" =>
        "    x-tier: premium\n    deprecated: true\n    x-deprecation: {since: 4.0.0, removal: 5.0.0, use: create_key}\n",
        "deprecation";
    only_deprecated_operations_have_a_replacement: "paths/keys.yaml", "    x-tier: premium\n" =>
        "    x-tier: premium\n    x-deprecation: {since: 4.0.0, removal: 5.0.0, use: list_keys}\n", "deprecation";
    raw_body_is_true_or_absent: "paths/keys.yaml", "x-raw-body: true" => "x-raw-body: json", "raw-body";
    attachment_is_false_or_absent: "paths/keys.yaml", "    x-body-limit: 4096\n" => "    x-body-limit: 4096\n    x-attachment: true\n", "attachment";
    raw_bodies_have_only_json: "paths/keys.yaml", "    x-body-limit: 4096\n" => "    x-body-limit: 4096\n    x-raw-body: true\n", "raw-body";
    raw_bodies_have_no_alternatives: "paths/keys.yaml", "    x-one-of: [[kind, parts]]\n" =>
        "    x-one-of: [[kind, parts]]\n    x-raw-body: true\n", "raw-body";
    error_formats_are_known: "paths/keys.yaml", "x-errors: scim" => "x-errors: rest", "errors";
    scim_access_requires_scim_errors: "paths/keys.yaml", "    x-errors: scim\n" => "", "errors-scim";
    scim_access_requires_scim_token: "paths/keys.yaml", "- scim_token: []" => "- bearer: []", "errors-scim";
    scim_path_names_the_group: "paths/keys.yaml", "/groups/{group_path}/Keys" => "/groups/{group}/Keys", "access-key";
    scim_access_is_checked_first: "paths/keys.yaml", "{'on': scim, min: none, first: true}" => "{'on': scim, min: none}", "errors-access";
    request_examples_of_other_json_types_are_checked: "paths/keys.yaml", "example: {title: c}" => "example: {title: 1}", "example-valid";
    response_examples_of_other_json_types_are_checked: "paths/keys.yaml", "            example: {id: 2, title: d" => "            example: {id: x, title: d", "example-valid";
    scim_errors_have_scim_media_type: "paths/keys.yaml",
        "'400': {$ref: '#/components/responses/ScimFault'}" => "'400': {$ref: '#/components/responses/Fault'}", "errors-media";
    other_operations_have_no_scim_errors: "paths/keys.yaml",
        "'400': {$ref: '#/components/responses/Fault'}" => "'400': {$ref: '#/components/responses/ScimFault'}", "errors-media";
    feature_gates_have_a_default: "paths/keys.yaml", "{name: keys, default: true}" => "{name: keys}", "flag";
    feature_gates_have_known_fields: "paths/keys.yaml", "{name: keys, default: true}" => "{name: keys, default: true, fro: project}", "flag";
    feature_gate_of_project_requires_instance_access: "paths/keys.yaml",
        "{name: keys, default: true}" => "{name: keys, default: true, of: project}", "flag";
    required_properties_exist: "schemas/keys.yaml", "required: [self]" => "required: [self, other]", "required-known";
    schemas_are_not_composed: "schemas/keys.yaml", "KeyLinks:\n" => "KeyLinks:\n  oneOf: []\n", "composition";
    objects_are_named: "schemas/keys.yaml",
        "_links: {$ref: '#/components/schemas/KeyLinks'}" => "_links: {type: object, description: X, properties: {}}", "named";
    enums_are_named: "schemas/keys.yaml",
        "title: {type: string, description: Its title.}" => "title: {type: string, description: Its title., enum: [a]}", "named";
    nullable_requires_a_type: "schemas/keys.yaml",
        "kind: {$ref: '#/components/schemas/KeyKind'}" =>
        "kind: {description: X, nullable: true}", "nullable-type";
    nullable_references_have_no_type: "schemas/keys.yaml",
        "      nullable: true\n      allOf:" => "      nullable: true\n      type: object\n      allOf:", "nullable-type";
    values_have_a_type_or_several: "schemas/keys.yaml",
        "title: {type: string, description: Its title.}" => "title: {description: Its title.}", "types";
    values_with_a_type_have_no_other_types: "schemas/keys.yaml",
        "title: {type: string, description: Its title.}" => "title: {type: string, description: Its title., x-types: [{type: string}]}", "types";
    deferred_values_belong_to_an_object: "schemas/keys.yaml",
        "title: {type: string, description: Its title.}" => "title: {type: string, description: Its title., x-deferred: true}", "deferred";
    types_of_values_are_checked: "shared/schemas.yaml",
        "- {type: string}" => "- {type: integer}", "int64";
    examples_have_one_of_the_types: "shared/responses.yaml",
        "example: {message: 404 Not Found}" => "example: {message: 404}", "example-valid";
    integer_enums_have_names: "schemas/keys.yaml", "  x-enum-varnames: [SHORT, LONG]\n" => "", "enum-names";
    integer_enums_have_one_name_per_value: "schemas/keys.yaml", "[SHORT, LONG]" => "[SHORT]", "enum-names";
    path_parameters_have_an_example: "paths/keys.yaml", "format: int64}, example: 1}" => "format: int64}}", "path-example";
    examples_of_path_parameters_have_their_type: "paths/keys.yaml", "format: int64}, example: 1}" => "format: int64}, example: a}", "path-example";
    operations_with_two_forms_of_a_body_have_an_optional_parameter: "paths/keys.yaml",
        "        multipart/form-data:\n" => "        application/json:\n          schema: {$ref: '#/components/schemas/KeyCreate'}\n          example: {title: a}\n        multipart/form-data:\n", "form-sudo";
    integers_are_int64: "schemas/keys.yaml", "id: {type: integer, format: int64," => "id: {type: integer,", "int64";
    keys_of_operations_are_known: "paths/keys.yaml", "    description: Lists the keys." => "    desription: x\n    description: Lists the keys.", "key";
    keys_of_parameters_are_known: "paths/keys.yaml", "description: Only these., " => "description: Only these, those: ~, ", "key";
    keys_of_schemas_are_known: "schemas/keys.yaml", "maxLength: 9}" => "maxLenght: 9}", "key";
    keys_of_properties_are_known: "schemas/keys.yaml",
        "title: {type: string, description: Its title.}" => "title: {type: string, description: Its title, such as it is: ~}", "key";
    tags_are_in_a_group: "openapi.yaml", "tags: [Keys]" => "tags: []", "tag-groups";
    tags_are_in_one_group: "openapi.yaml", "tags: [Keys]" => "tags: [Keys, Keys]", "tag-groups";
    grouped_tags_are_declared: "openapi.yaml", "tags: [Keys]" => "tags: [Keys, Locks]", "tag-groups";
    webhooks_have_an_example: "webhooks/keys.yaml", "          example: {title: b}\n" => "", "example";
    webhooks_have_a_named_body: "webhooks/keys.yaml", "{$ref: '#/components/schemas/KeyCreate'}" => "{type: object}", "body-named";
    keys_of_webhooks_are_known: "webhooks/keys.yaml", "operationId:" => "operationID:", "key";
    components_are_used: "schemas/keys.yaml", "    _links: {$ref: '#/components/schemas/KeyLinks'}\n" => "", "unused";
}

#[test]
fn excluded_words_match_style_guide() {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/STYLE.md");
    let guide = std::fs::read_to_string(guide).expect("the style guide");
    let (_, section) = guide
        .split_once("## Excluded words\n\n")
        .expect("the section of excluded words");
    let list = section
        .split("\n\n")
        .next()
        .unwrap_or_default()
        .replace('\n', " ");
    let words: Vec<&str> = list.trim_end_matches('.').split(", ").collect();
    assert_eq!(words, lint::wording::EXCLUDED_WORDS);
}
