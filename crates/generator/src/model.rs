//! Model of the contract for the emitter: only the resolved parts that the server needs.

use serde_json::Value;

/// The whole contract.
pub struct Contract {
    /// Tags in the order of their files.
    pub tags: Vec<Tag>,
    /// Component schemas used in requests or responses.
    pub schemas: Vec<Schema>,
    /// Parameter groups.
    pub groups: Vec<Group>,
}

/// A group of parameters or attributes.
pub struct Group {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Parameters of operations.
    pub parameters: Vec<Parameter>,
    /// Attributes of bodies.
    pub properties: Vec<Property>,
}

/// A tag: one trait, one handler file.
pub struct Tag {
    /// The display name (`Repository Files`).
    pub name: String,
    /// The description.
    pub description: String,
    /// The operations, in source order.
    pub operations: Vec<Operation>,
}

/// An operation.
pub struct Operation {
    /// The operationId in snake_case, unique; also the name of the method.
    pub id: String,
    /// Lowercase HTTP method.
    pub method: String,
    /// Path template with `{name}` placeholders.
    pub path: String,
    /// Whether the last placeholder matches the rest of the path, with slashes.
    pub rest: bool,
    /// The summary.
    pub summary: String,
    /// The description.
    pub description: String,
    /// Path, query and header parameters, without pagination.
    pub parameters: Vec<Parameter>,
    /// Names of the groups that contain some of the parameters.
    pub groups: Vec<String>,
    /// The schema of the JSON body, and its limit in bytes.
    pub body: Option<Body>,
    /// The file part of a form.
    pub file: Option<FilePart>,
    /// Maximum size in bytes of a body that is stored without parsing.
    pub raw_body: Option<u64>,
    /// The documented successful response.
    pub success: Success,
    /// Every documented status.
    pub statuses: Vec<u16>,
    /// Required access.
    pub access: Access,
    /// Accepted token scopes.
    pub scopes: Vec<String>,
    /// Whether job tokens are accepted.
    pub job_token: bool,
    /// Whether the credentials of package clients are accepted.
    pub package_client: bool,
    /// Whether the package client is Cargo.
    pub cargo_client: bool,
    /// Whether no credentials are accepted.
    pub no_credentials: bool,
    /// Whether the response changes at a time of day, without a write.
    pub time_dependent: bool,
    /// The minimum plan.
    pub tier: String,
    /// The feature gate.
    pub flag: Option<Flag>,
    /// Kind of pagination.
    pub page: Paging,
    /// Lists of attributes of which exactly one each must be sent.
    pub one_of: Vec<Vec<String>>,
    /// Media type of the JSON.
    pub media_type: String,
    /// Format of errors: plain, scim or `scim_with_message`.
    pub error_format: String,
}

impl Operation {
    /// Returns whether the response depends only on the URL, the database and the day. Such responses are JSON or
    /// bytes.
    pub fn is_cacheable(&self) -> bool {
        self.method == "get"
            && !self.time_dependent
            && matches!(self.success.content, Content::Json(_) | Content::Download)
    }
}

/// `x-flag`.
pub struct Flag {
    /// The name of the gate.
    pub name: String,
    /// Whether the gate is open by default.
    pub default: bool,
    /// Whether the service evaluates the gate, for the project that it finds.
    pub deferred: bool,
}

/// Kind of pagination of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Paging {
    /// None.
    None,
    /// By page number.
    Offset,
    /// By page number, or by keyset on request.
    Keyset,
}

impl Paging {
    /// Returns the name in the operation table.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Offset => "offset",
            Self::Keyset => "keyset",
        }
    }
}

/// `x-access`.
pub struct Access {
    /// The kind of resource: instance, user, group, project or scim.
    pub on: String,
    /// The minimum role.
    pub min: String,
    /// Whether anyone may read public resources with the operation.
    pub anonymous: bool,
    /// Whether the operation may write to an archived project.
    pub archived: bool,
    /// Whether permission is checked before parameters.
    pub first: bool,
}

/// A parameter outside the body.
pub struct Parameter {
    /// The name without a trailing `[]`.
    pub name: String,
    /// Location: path, query or header.
    pub location: String,
    /// The description.
    pub description: String,
    /// Whether the parameter is required.
    pub required: bool,
    /// Whether the handler receives the parameter, although authorization consumes it.
    pub passed: bool,
    /// The type.
    pub ty: Type,
    /// The default.
    pub default: Option<Value>,
}

/// A request body.
pub struct Body {
    /// The name of the component schema.
    pub schema: String,
    /// Maximum size in bytes.
    pub limit: u64,
}

/// The file part of a form.
pub struct FilePart {
    /// The name.
    pub name: String,
    /// Whether the part is required.
    pub required: bool,
    /// Whether the attachment size setting also limits its size.
    pub attachment: bool,
    /// Whether a body that is not a form is the file itself.
    pub whole_body: bool,
    /// Maximum size of the whole body in bytes.
    pub limit: u64,
}

/// A successful response.
pub struct Success {
    /// The status.
    pub status: u16,
    /// The content.
    pub content: Content,
    /// Whether headers other than those of pagination are documented.
    pub headers: bool,
    /// Whether the content can be absent, with status 204.
    pub optional: bool,
    /// Whether the content can be the JSON null.
    pub nullable: bool,
}

/// Content of a successful response.
pub enum Content {
    /// No content.
    Empty,
    /// JSON of this type.
    Json(Type),
    /// Bytes.
    Download,
    /// No content, and the header `Location`.
    Redirect,
}

/// A component schema.
pub struct Schema {
    /// The name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Whether it is the body of a request.
    pub body: bool,
    /// Whether a parameter or another input schema refers to it.
    pub nested: bool,
    /// Whether a response refers to it.
    pub output: bool,
    /// Names of the groups that contain some of the properties.
    pub groups: Vec<String>,
    /// The form.
    pub form: Form,
}

impl Schema {
    /// Returns whether a request refers to the schema.
    pub fn is_input(&self) -> bool {
        self.body || self.nested
    }
}

/// Form of a component schema.
pub enum Form {
    /// An object with these properties.
    Object(Vec<Property>),
    /// One of these texts.
    Enum(Vec<String>),
    /// An alias of this type.
    Alias(Type),
}

/// A property of an object.
pub struct Property {
    /// The name in JSON.
    pub name: String,
    /// The description.
    pub description: String,
    /// Whether it is always present.
    pub required: bool,
    /// Whether it may be null.
    pub nullable: bool,
    /// The default.
    pub default: Option<Value>,
    /// The type.
    pub ty: Type,
}

/// A type with constraints on input.
#[derive(Clone)]
pub enum Type {
    /// Text.
    Text {
        /// Minimum number of characters.
        min: Option<u64>,
        /// Maximum number of characters.
        max: Option<u64>,
        /// Regular expression.
        pattern: Option<String>,
    },
    /// A 64-bit integer.
    Integer {
        /// Minimum.
        min: Option<i64>,
        /// Maximum.
        max: Option<i64>,
        /// Allowed values, if not empty.
        values: Vec<i64>,
    },
    /// A double.
    Number,
    /// A boolean.
    Boolean,
    /// A time in RFC 3339.
    Timestamp,
    /// A date, `YYYY-MM-DD`.
    Date,
    /// Any JSON value.
    Any,
    /// An uploaded file or raw bytes.
    Binary,
    /// A component schema.
    Named(String),
    /// A list of these, with the minimum and maximum number of items.
    List(Box<Type>, u64, Option<u64>),
    /// An object with arbitrary keys.
    Map(Box<Type>),
    /// A value of a response that is created while it is written.
    Deferred(Box<Type>),
}
