//! Content of a page, independent of its format.

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Inline {
    /// Text.
    Text(String),
    /// Code.
    Code(String),
    /// A link. The text can be code.
    Link {
        /// The text.
        text: String,
        /// The address.
        target: String,
        /// Whether the text is code.
        code: bool,
    },
}

/// Returns text.
pub(super) fn text(text: impl Into<String>) -> Inline {
    Inline::Text(text.into())
}

/// Returns code.
pub(super) fn code(text: impl Into<String>) -> Inline {
    Inline::Code(text.into())
}

/// Returns a link.
pub(super) fn link(text: impl Into<String>, target: impl Into<String>) -> Inline {
    Inline::Link {
        text: text.into(),
        target: target.into(),
        code: false,
    }
}

/// Returns a link whose text is code.
pub(super) fn code_link(text: impl Into<String>, target: impl Into<String>) -> Inline {
    Inline::Link {
        text: text.into(),
        target: target.into(),
        code: true,
    }
}

/// A line.
pub(super) type Line = Vec<Inline>;

/// A block.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Block {
    /// A heading below the title of the page, with its level.
    Heading(u8, String),
    /// A paragraph.
    Paragraph(Line),
    /// A list.
    List(Vec<Line>),
    /// Code in a language.
    Code(Code),
    /// A table.
    Table {
        /// The titles of the columns.
        head: Vec<String>,
        /// The cells of each row.
        rows: Vec<Vec<Line>>,
    },
    /// A paragraph that must not be missed.
    Notice(Line),
    /// Names and values.
    Facts(Vec<(&'static str, Line)>),
    /// Parameters of an operation, or attributes of an object.
    Attributes(Vec<Attribute>),
    /// Blocks that are shown on request.
    Details(Line, Vec<Block>),
    /// Method, path and ID of an operation.
    Endpoint {
        /// The method, in upper case.
        method: String,
        /// The path template.
        path: String,
        /// The operation ID.
        id: String,
    },
    /// Links to operations.
    Operations(Vec<OperationLink>),
    /// Which callers can call an operation.
    Callers(Vec<(&'static str, &'static str)>),
    /// The same request in several languages.
    Samples(Vec<(&'static str, Code)>),
    /// Form that sends a request; a Markdown page has none.
    TryIt(TryIt),
    /// Table of roles.
    Roles(Vec<RoleGroup>),
}

/// Code in a language.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Code {
    /// Name of the language in Markdown.
    pub(super) language: &'static str,
    /// The code.
    pub(super) text: String,
}

/// A parameter or an attribute.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Attribute {
    /// Identifier in the page.
    pub(super) anchor: String,
    /// The name.
    pub(super) name: String,
    /// The type.
    pub(super) kind: Line,
    /// Properties such as `required`.
    pub(super) flags: Vec<&'static str>,
    /// The description, and the constraints.
    pub(super) description: Vec<Block>,
    /// How the form sends the value.
    pub(super) input: Option<Input>,
    /// Attributes of an object.
    pub(super) nested: Vec<Attribute>,
}

/// How the form of a page sends a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Input {
    /// Where the value is sent: path, query, header or form.
    pub(super) location: &'static str,
    /// The control: text, integer, boolean, choice, list, map or file.
    pub(super) control: &'static str,
    /// The values of a choice, separated by vertical lines.
    pub(super) values: String,
    /// An example, which is never sent.
    pub(super) example: String,
    /// Whether a value is required.
    pub(super) required: bool,
}

/// A link to an operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OperationLink {
    /// The method, in upper case.
    pub(super) method: String,
    /// The path template.
    pub(super) path: String,
    /// The operation ID.
    pub(super) id: String,
    /// The summary.
    pub(super) summary: String,
    /// The lowest role.
    pub(super) role: String,
    /// Whether the operation is deprecated.
    pub(super) deprecated: bool,
}

/// The form of an operation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TryIt {
    /// The method, in upper case.
    pub(super) method: String,
    /// The path template.
    pub(super) path: String,
    /// Media type of the body; empty without a body.
    pub(super) media_type: String,
    /// Example of the body.
    pub(super) example: String,
    /// Scheme of the token: `Private-Token` or `Bearer`.
    pub(super) scheme: &'static str,
    /// Why the request needs a confirmation; empty if it needs none.
    pub(super) confirmation: &'static str,
}

/// The operations of a tag in the table of roles.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RoleGroup {
    /// The name of the tag.
    pub(super) tag: String,
    /// The address of the tag.
    pub(super) target: String,
    /// The operations with the callers who can call them.
    pub(super) rows: Vec<(OperationLink, Vec<(&'static str, &'static str)>)>,
}
