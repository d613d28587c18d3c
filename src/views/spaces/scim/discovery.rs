//! SCIM service discovery (RFC 7643 5 to 7).

use domain::spaces::scim::{MAX_PER_PAGE, USER_SCHEMA};

use super::{EMAIL_TYPE, LIST_SCHEMA, ScimLocation, count};
use contract::{
    ScimAttribute, ScimAuthenticationScheme, ScimBulkSupport, ScimDiscoveryMeta, ScimFilterSupport,
    ScimResourceType, ScimResourceTypeList, ScimSchema, ScimSchemaList, ScimServiceProviderConfig,
    ScimSubAttribute, ScimSupport,
};

/// Returns the supported features of the protocol.
#[must_use]
pub fn supported(location: &ScimLocation) -> ScimServiceProviderConfig {
    let no = || ScimSupport { supported: false };
    ScimServiceProviderConfig {
        schemas: schema_of("ServiceProviderConfig"),
        patch: ScimSupport { supported: true },
        bulk: ScimBulkSupport {
            supported: false,
            max_operations: 0,
            max_payload_size: 0,
        },
        filter: ScimFilterSupport {
            supported: true,
            max_results: MAX_PER_PAGE,
        },
        change_password: no(),
        sort: no(),
        etag: no(),
        authentication_schemes: vec![ScimAuthenticationScheme {
            r#type: "oauthbearertoken".to_owned(),
            name: "SCIM token".to_owned(),
            description: "The SCIM token of the group.".to_owned(),
            primary: true,
        }],
        meta: ScimDiscoveryMeta {
            resource_type: "ServiceProviderConfig".to_owned(),
            location: format!("{}/ServiceProviderConfig", location.address),
        },
    }
}

/// Returns all resource types.
#[must_use]
pub fn resource_types(location: &ScimLocation) -> ScimResourceTypeList {
    let users = ScimResourceType {
        schemas: schema_of("ResourceType"),
        id: "User".to_owned(),
        name: "User".to_owned(),
        endpoint: "/Users".to_owned(),
        description: "User".to_owned(),
        schema: USER_SCHEMA.to_owned(),
        meta: ScimDiscoveryMeta {
            resource_type: "ResourceType".to_owned(),
            location: location.address_of("ResourceTypes", "User"),
        },
    };
    let all = vec![users];
    ScimResourceTypeList {
        schemas: vec![LIST_SCHEMA.to_owned()],
        total_results: count(&all),
        items_per_page: count(&all),
        start_index: 1,
        resources: all,
    }
}

/// Returns the schemas of all resource types.
#[must_use]
pub fn schemas(location: &ScimLocation) -> ScimSchemaList {
    let users = ScimSchema {
        schemas: schema_of("Schema"),
        id: USER_SCHEMA.to_owned(),
        name: "User".to_owned(),
        description: "User".to_owned(),
        attributes: attributes(),
        meta: ScimDiscoveryMeta {
            resource_type: "Schema".to_owned(),
            location: location.address_of("Schemas", USER_SCHEMA),
        },
    };
    let all = vec![users];
    ScimSchemaList {
        schemas: vec![LIST_SCHEMA.to_owned()],
        total_results: count(&all),
        items_per_page: count(&all),
        start_index: 1,
        resources: all,
    }
}

fn schema_of(kind: &str) -> Vec<String> {
    vec![format!("urn:ietf:params:scim:schemas:core:2.0:{kind}")]
}

/// Returns the stored attributes of users. The ID at the provider is a common attribute, and required by this
/// server. It is immutable for clients that follow the schema, because `id` follows it.
fn attributes() -> Vec<ScimAttribute> {
    let text = |name, description| simple(name, "string", description);
    let name = ScimSubAttribute {
        required: true,
        ..text("formatted", "Display name")
    };
    let address = ScimSubAttribute {
        required: true,
        uniqueness: "server".to_owned(),
        ..text("value", "Email address")
    };
    let kind = ScimSubAttribute {
        canonical_values: Some(vec![EMAIL_TYPE.to_owned()]),
        ..text("type", "Type of the email address")
    };
    let primary = "Whether the email address is the primary one";
    vec![
        ScimAttribute {
            required: true,
            mutability: "immutable".to_owned(),
            uniqueness: "server".to_owned(),
            ..complex(text("externalId", "ID at the identity provider"), Vec::new())
        },
        ScimAttribute {
            required: true,
            uniqueness: "server".to_owned(),
            ..complex(text("userName", "User name"), Vec::new())
        },
        ScimAttribute {
            required: true,
            ..complex(simple("name", "complex", "Name"), vec![name])
        },
        complex(text("displayName", "Display name"), Vec::new()),
        ScimAttribute {
            required: true,
            multi_valued: true,
            ..complex(
                simple("emails", "complex", "Email addresses, one of which is stored"),
                vec![address, kind, simple("primary", "boolean", primary)],
            )
        },
        complex(
            simple("active", "boolean", "Whether the user is provisioned"),
            Vec::new(),
        ),
    ]
}

/// Returns an optional, returned, mutable and case-insensitive attribute.
fn simple(name: &str, kind: &str, description: &str) -> ScimSubAttribute {
    ScimSubAttribute {
        name: name.to_owned(),
        r#type: kind.to_owned(),
        multi_valued: false,
        description: description.to_owned(),
        required: false,
        case_exact: false,
        mutability: "readWrite".to_owned(),
        returned: "default".to_owned(),
        uniqueness: "none".to_owned(),
        canonical_values: None,
    }
}

/// Returns an attribute with subattributes.
fn complex(attribute: ScimSubAttribute, parts: Vec<ScimSubAttribute>) -> ScimAttribute {
    ScimAttribute {
        name: attribute.name,
        r#type: attribute.r#type,
        multi_valued: attribute.multi_valued,
        description: attribute.description,
        required: attribute.required,
        case_exact: attribute.case_exact,
        mutability: attribute.mutability,
        returned: attribute.returned,
        uniqueness: attribute.uniqueness,
        sub_attributes: (!parts.is_empty()).then_some(parts),
    }
}
