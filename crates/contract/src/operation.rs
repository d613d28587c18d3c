//! Types of the operation table.

use serde::Deserialize;

/// The parts of an operation's contract that the edge needs at run time.
#[derive(Debug)]
pub struct Operation {
    /// operationId.
    pub id: &'static str,
    /// The tag's name.
    pub tag: &'static str,
    /// Uppercase HTTP method.
    pub method: &'static str,
    /// Path template with `{name}` placeholders.
    pub path: &'static str,
    /// Whether the last placeholder matches the rest of the path, with slashes.
    pub rest: bool,
    /// Required access.
    pub access: AccessRule,
    /// Accepted token scopes.
    pub scopes: &'static [&'static str],
    /// Whether job tokens are accepted.
    pub job_token: bool,
    /// Whether the credentials of package clients are accepted: deploy tokens, and tokens with HTTP Basic
    /// authentication.
    pub package_client: bool,
    /// Whether the package client is Cargo: a token without a scheme is accepted, and errors have a list for Cargo.
    pub cargo_client: bool,
    /// Whether credentials are ignored, so that every caller is anonymous.
    pub no_credentials: bool,
    /// The minimum plan.
    pub tier: Tier,
    /// The feature gate of the operation.
    pub flag: Option<Flag>,
    /// Kind of pagination.
    pub paging: Paging,
    /// Parameters outside the body, in declared order.
    pub parameters: &'static [&'static Parameter],
    /// Type of the body.
    pub body: Option<&'static InputType>,
    /// Lists of body attributes of which exactly one each must be sent.
    pub one_of: &'static [&'static [&'static str]],
    /// The file part of a form.
    pub file: Option<FilePart>,
    /// Whether the body is stored as a file without parsing.
    pub raw_body: bool,
    /// Maximum size of the body in bytes.
    pub body_limit: u64,
    /// Status of a successful response.
    pub success: u16,
    /// The URL of the created resource, if another operation reads it.
    pub location: Option<ResourceLocation>,
    /// Whether the response depends only on the URL, the header parameters, the database and the day. Such responses
    /// are JSON or bytes.
    pub cacheable: bool,
    /// Every documented status.
    pub statuses: &'static [u16],
    /// Media type of the JSON.
    pub media_type: &'static str,
    /// Format of errors.
    pub error_format: ErrorFormat,
}

/// The URL of a created resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceLocation {
    /// Path template of the operation that reads the resource.
    pub path: &'static str,
    /// Parameters of that operation, and the attributes of the response with their values. A parameter that the path
    /// does not have is one of the query. The values of all other placeholders are those of the request.
    pub parameters: &'static [(&'static str, &'static str)],
}

/// Kind of resource that an operation requires access to (`x-access.on`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResourceKind {
    /// The instance.
    Instance,
    /// The user in the path.
    User,
    /// The group in the path.
    Group,
    /// The project in the path.
    Project,
    /// SCIM provisioning of the group in the path by its identity provider.
    Scim,
}

/// Minimum access of the caller (`x-access.min`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MinimumAccess {
    /// Any signed-in user who can see the resource.
    None,
    /// Guest.
    Guest,
    /// Reporter.
    Reporter,
    /// Developer.
    Developer,
    /// Maintainer.
    Maintainer,
    /// Owner; for a user, the user itself.
    Owner,
    /// Administrator.
    Admin,
}

/// Access rule of an operation (`x-access`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccessRule {
    /// The kind of resource.
    pub on: ResourceKind,
    /// The minimum access.
    pub min: MinimumAccess,
    /// Whether anyone may read public resources with the operation, and every signed-in user internal ones.
    pub anonymous: bool,
    /// Whether the operation may write to an archived project.
    pub archived: bool,
    /// Whether permission is checked before parameters.
    pub first: bool,
}

/// Minimum plan of the instance (`x-tier`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Free.
    Free,
    /// Starter.
    Starter,
    /// Premium.
    Premium,
    /// Ultimate.
    Ultimate,
}

/// Format of error responses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorFormat {
    /// An object with `message`, as for nearly all operations.
    Plain,
    /// The format of RFC 7644 3.12.
    Scim,
    /// The format of RFC 7644 3.12, with `message` in addition, unless the client accepts only SCIM.
    ScimWithMessage,
}

impl Operation {
    /// Returns whether the operation only reads.
    #[must_use]
    pub fn is_read(&self) -> bool {
        matches!(self.method, "GET" | "HEAD")
    }
}

/// A feature gate.
#[derive(Debug)]
pub struct Flag {
    /// The name.
    pub name: &'static str,
    /// Whether the gate is open by default.
    pub default: bool,
    /// Whether the service evaluates the gate, for the project that it finds.
    pub deferred: bool,
}

/// Kind of pagination of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Paging {
    /// None.
    None,
    /// By page number.
    Offset,
    /// By page number, or by keyset on request.
    Keyset,
}

/// The file part of a form.
#[derive(Debug)]
pub struct FilePart {
    /// The name.
    pub name: &'static str,
    /// Whether the part is required.
    pub required: bool,
    /// Whether the attachment size setting also limits its size.
    pub attachment: bool,
    /// Whether a body that is not a form is the file itself.
    pub whole_body: bool,
}

/// Location of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ParameterLocation {
    /// Path.
    Path,
    /// Query; the body may contain it too.
    Query,
    /// Header.
    Header,
}

/// A parameter outside the body.
#[derive(Debug)]
pub struct Parameter {
    /// The name without a trailing `[]`.
    pub name: &'static str,
    /// The location.
    pub location: ParameterLocation,
    /// Whether the parameter is required.
    pub required: bool,
    /// The default as JSON text.
    pub default: Option<&'static str>,
    /// The type.
    pub input: &'static InputType,
}

/// A field of an object.
#[derive(Debug)]
pub struct Field {
    /// The name.
    pub name: &'static str,
    /// Whether the field is required.
    pub required: bool,
    /// Whether null is distinct from absent.
    pub nullable: bool,
    /// The default as JSON text.
    pub default: Option<&'static str>,
    /// The type.
    pub input: &'static InputType,
}

/// Type of an input.
#[derive(Debug)]
pub enum InputType {
    /// Text of `min` to `max` characters. Only text without a `max` may contain NUL, because it is file
    /// content.
    Text {
        /// Minimum number of characters; from 1 on, blank text is rejected.
        min: u64,
        /// Maximum number of characters.
        max: Option<u64>,
        /// Regular expression that the text must match.
        pattern: Option<&'static str>,
    },
    /// A 64-bit integer.
    Integer {
        /// Minimum.
        min: Option<i64>,
        /// Maximum.
        max: Option<i64>,
        /// Allowed values, if not empty.
        values: &'static [i64],
    },
    /// A double.
    Number,
    /// A boolean.
    Boolean,
    /// A point in time.
    Timestamp,
    /// A day.
    Date,
    /// One of these texts.
    Choice(&'static [&'static str]),
    /// A list.
    List {
        /// Type of the items.
        items: &'static InputType,
        /// Minimum number of items.
        min: u64,
        /// Maximum number of items.
        max: Option<u64>,
    },
    /// An object.
    Object(&'static [Field]),
    /// An object with arbitrary keys.
    Map(&'static InputType),
    /// Any value.
    Any,
}
