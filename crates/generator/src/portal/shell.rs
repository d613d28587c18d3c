//! Frame of every HTML page: header, navigation and footer.

use super::html::Html;
use super::page::{HTML, MARKDOWN, Page, PortalFile};
use super::site::{BASE, Site, operation_target, tag_target};
use super::{markdown, render};

/// Pages in the header.
const HEADER: [(&str, &str); 5] = [
    ("Guides", "/guide/authentication"),
    ("Roles", "/roles"),
    ("Errors", "/errors"),
    ("Schemas", "/schemas"),
    ("Changes", "/changelog"),
];

/// The frame.
pub(super) struct Shell<'a> {
    /// The index of the document.
    pub(super) site: &'a Site<'a>,
    /// Addresses of the style sheet and the script.
    pub(super) assets: [String; 2],
    /// Names and titles of the guides.
    pub(super) guides: Vec<(String, String)>,
}

impl Shell<'_> {
    /// Returns a page as HTML and as Markdown.
    pub(super) fn files(&self, page: &Page) -> [PortalFile; 2] {
        let name = match page.path.as_str() {
            "" => "index",
            path => path,
        };
        let mut content = Html::default();
        render::content(&mut content, page);
        [
            PortalFile {
                path: format!("docs/{name}"),
                media_type: HTML,
                content: self.document(page, content).into_bytes(),
            },
            PortalFile {
                path: format!("docs/{name}.md"),
                media_type: MARKDOWN,
                content: markdown::page(page).into_bytes(),
            },
        ]
    }

    /// Returns a complete page.
    fn document(&self, page: &Page, content: Html) -> Html {
        let mut html = Html::default();
        let title = match page.path.as_str() {
            "" => "Holdfast API".to_owned(),
            _ => format!("{} - Holdfast API", page.title),
        };
        let [style, script] = &self.assets;
        html.raw("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
        html.raw("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
        html.text(&title)
            .raw("</title>\n<meta name=\"description\"")
            .attribute("content", &page.description);
        html.raw(">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"stylesheet\"");
        html.attribute("href", style)
            .raw(">\n<link rel=\"icon\" type=\"image/svg+xml\"");
        html.attribute("href", &format!("{BASE}/icon.svg"));
        html.raw(">\n<link rel=\"alternate\" type=\"text/markdown\"");
        html.attribute("href", &markdown_target(page))
            .raw(">\n<script defer")
            .attribute("src", script);
        html.raw("></script>\n</head>\n<body>\n<a class=\"skip\" href=\"#content\">Skip to content</a>\n");
        self.header(&mut html, page);
        html.raw("<div class=\"frame\">\n");
        self.navigation(&mut html, page);
        html.raw("<main id=\"content\" tabindex=\"-1\">\n")
            .append(content);
        self.footer(&mut html, page);
        html.raw("</main>\n</div>\n</body>\n</html>\n");
        html
    }

    fn header(&self, html: &mut Html, page: &Page) {
        html.raw(
            "<header class=\"top\">\n<a class=\"menu\" href=\"#navigation\">Menu</a>\n<a class=\"brand\"",
        );
        html.attribute("href", &format!("{BASE}/"))
            .raw("><span class=\"logo\" aria-hidden=\"true\"></span>Holdfast <span>API</span></a>\n");
        html.raw("<nav class=\"sections\" aria-label=\"Sections\">");
        for (name, target) in HEADER {
            let here = page.target() == format!("{BASE}{target}")
                || (name == "Guides" && page.path.starts_with("guide/"))
                || (name == "Schemas" && page.path.starts_with("schema/"));
            html.raw("<a").attribute("href", &format!("{BASE}{target}"));
            html.raw(if here { " class=\"here\">" } else { ">" })
                .raw(name)
                .raw("</a>");
        }
        html.raw("</nav>\n<div class=\"tools\"></div>\n</header>\n");
    }

    fn navigation(&self, html: &mut Html, page: &Page) {
        html.raw("<nav id=\"navigation\" aria-label=\"Pages\">\n<a class=\"close\" href=\"#content\">Close menu</a>\n");
        let is_guide = page.path.starts_with("guide/");
        html.raw("<details").raw(if is_guide || page.path.is_empty() {
            " open"
        } else {
            ""
        });
        html.raw("><summary>Guides</summary><ul>\n");
        for (name, title) in &self.guides {
            item(html, page, &format!("{BASE}/guide/{name}"), title);
        }
        html.raw("</ul></details>\n");
        let current = page.tag.as_deref().and_then(|tag| self.site.group_of(tag));
        for (group, tags) in &self.site.groups {
            let open = current == Some(*group);
            html.raw("<details")
                .raw(if open { " open" } else { "" })
                .raw("><summary>")
                .text(group);
            html.raw("</summary><ul>\n");
            for tag in tags {
                item(html, page, &tag_target(tag), tag);
                if page.tag.as_deref() == Some(*tag) {
                    self.operations(html, page, tag);
                }
            }
            html.raw("</ul></details>\n");
        }
        html.raw("<details").raw(
            if matches!(page.path.as_str(), "roles" | "errors" | "schemas" | "changelog") {
                " open"
            } else {
                ""
            },
        );
        html.raw("><summary>Reference</summary><ul>\n");
        for (name, target) in &HEADER[1..] {
            item(html, page, &format!("{BASE}{target}"), name);
        }
        html.raw("</ul></details>\n</nav>\n");
    }

    fn footer(&self, html: &mut Html, page: &Page) {
        html.raw("<footer>\n<a")
            .attribute("href", &markdown_target(page))
            .raw(">This page as Markdown</a>\n<a");
        html.attribute("href", &format!("{BASE}/llms.txt"))
            .raw(">llms.txt</a>\n");
        html.raw("<a href=\"/api/v4/openapi.json\">OpenAPI 3.0</a>\n<a href=\"/api/v4/openapi-3.1.json\">OpenAPI 3.1</a>\n");
        html.raw("<span>Version ").text(self.site.version);
        html.raw(" of the API, Holdfast ")
            .raw(env!("CARGO_PKG_VERSION"))
            .raw("</span>\n</footer>\n");
    }

    /// Adds the operations of the current tag below the tag.
    fn operations(&self, html: &mut Html, page: &Page, tag: &str) {
        html.raw("<li class=\"inner\"><ul>\n");
        for operation in self.site.operations_of(tag) {
            let target = operation_target(operation.id);
            html.raw("<li><a")
                .attribute("href", &target)
                .raw(current(page, &target));
            html.raw("><span class=\"label\">")
                .text(operation.summary)
                .raw("</span> ");
            render::method(html, &operation.method.to_uppercase());
            html.raw("</a></li>\n");
        }
        html.raw("</ul></li>\n");
    }
}

fn current(page: &Page, target: &str) -> &'static str {
    match page.target() == target {
        true => " aria-current=\"page\"",
        false => "",
    }
}

fn item(html: &mut Html, page: &Page, target: &str, name: &str) {
    html.raw("<li><a")
        .attribute("href", target)
        .raw(current(page, target));
    html.raw(">").text(name).raw("</a></li>\n");
}

fn markdown_target(page: &Page) -> String {
    match page.path.as_str() {
        "" => format!("{BASE}/index.md"),
        path => format!("{BASE}/{path}.md"),
    }
}
