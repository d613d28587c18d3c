//! A page, and its files.

use super::block::Block;
use super::site::BASE;

/// A file of the portal.
#[derive(Debug, PartialEq, Eq)]
pub struct PortalFile {
    /// Path without a leading slash.
    pub path: String,
    /// The media type.
    pub media_type: &'static str,
    /// The content.
    pub content: Vec<u8>,
}

/// Media type of HTML pages.
pub const HTML: &str = "text/html; charset=utf-8";
/// Media type of Markdown pages.
pub const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// A page before it is rendered.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Path below the portal; empty for the first page.
    pub(super) path: String,
    /// The title.
    pub(super) title: String,
    /// The description for search engines and lists of pages.
    pub(super) description: String,
    /// Text and address of the page above this page.
    pub(super) above: Option<(String, String)>,
    /// The tag in the navigation.
    pub(super) tag: Option<String>,
    /// The content that is always first.
    pub(super) lead: Vec<Block>,
    /// The samples, next to the content on wide screens.
    pub(super) side: Vec<Block>,
    /// All other content.
    pub(super) body: Vec<Block>,
    /// Text and address of the previous page.
    pub(super) previous: Option<(String, String)>,
    /// Text and address of the next page.
    pub(super) next: Option<(String, String)>,
}

impl Page {
    /// Returns the address.
    pub(super) fn target(&self) -> String {
        format!("{BASE}/{}", self.path)
    }
}

/// Returns a digest that changes with the content (FNV-1a).
pub(crate) fn digest(content: &[u8]) -> String {
    let start = 0xcbf2_9ce4_8422_2325_u64;
    let hash = content.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}
