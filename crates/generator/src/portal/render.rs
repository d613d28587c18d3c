//! Renders blocks as HTML.

use heck::ToKebabCase;

use super::block::{Attribute, Block, Code, Inline, Line, OperationLink, RoleGroup, TryIt};
use super::html::Html;
use super::page::Page;
use super::site::{BASE, operation_target};

/// Adds the content of a page.
pub(super) fn content(html: &mut Html, page: &Page) {
    let columns = if page.side.is_empty() { "one" } else { "two" };
    html.raw("<article")
        .attribute("class", columns)
        .raw(">\n<div class=\"lead\">\n");
    if let Some((name, target)) = &page.above {
        html.raw("<p class=\"above\"><a")
            .attribute("href", target)
            .raw(">")
            .text(name)
            .raw("</a></p>\n");
    }
    html.raw("<h1>").text(&page.title).raw("</h1>\n");
    blocks(html, &page.lead);
    html.raw("</div>\n");
    if !page.side.is_empty() {
        html.raw("<div class=\"side\">\n");
        blocks(html, &page.side);
        html.raw("</div>\n");
    }
    html.raw("<div class=\"body\">\n");
    blocks(html, &page.body);
    neighbors(html, page);
    html.raw("</div>\n</article>\n");
}

fn neighbors(html: &mut Html, page: &Page) {
    if page.previous.is_none() && page.next.is_none() {
        return;
    }
    html.raw("<nav class=\"neighbors\" aria-label=\"Neighboring pages\">");
    for (class, rel, neighbor) in [("previous", "prev", &page.previous), ("next", "next", &page.next)] {
        if let Some((name, target)) = neighbor {
            html.raw("<a")
                .attribute("class", class)
                .attribute("rel", rel)
                .attribute("href", target);
            html.raw(">").text(name).raw("</a>");
        }
    }
    html.raw("</nav>\n");
}

fn blocks(html: &mut Html, blocks: &[Block]) {
    blocks.iter().for_each(|one| block(html, one));
}

fn block(html: &mut Html, block: &Block) {
    match block {
        Block::Heading(level, title) => heading(html, *level, title),
        Block::Paragraph(line) => {
            html.raw("<p>");
            inline(html, line).raw("</p>\n");
        }
        Block::Notice(line) => {
            html.raw("<p class=\"notice\">");
            inline(html, line).raw("</p>\n");
        }
        Block::List(lines) => {
            html.raw("<ul>\n");
            for line in lines {
                html.raw("<li>");
                inline(html, line).raw("</li>\n");
            }
            html.raw("</ul>\n");
        }
        Block::Code(code) => pre(html, code, ""),
        Block::Table { head, rows } => table(html, head, rows),
        Block::Facts(facts) => {
            html.raw("<dl class=\"facts\">\n");
            for (name, line) in facts {
                html.raw("<div><dt>").raw(name).raw("</dt><dd>");
                inline(html, line).raw("</dd></div>\n");
            }
            html.raw("</dl>\n");
        }
        Block::Attributes(list) => attributes(html, list),
        Block::Details(summary, content) => {
            html.raw("<details><summary>");
            inline(html, summary).raw("</summary>\n<div>\n");
            blocks(html, content);
            html.raw("</div>\n</details>\n");
        }
        Block::Endpoint { method, path, id } => {
            html.raw("<p class=\"endpoint\">");
            self::method(html, method);
            html.raw(" <code>");
            path_template(html, path);
            html.raw("</code></p>\n<p class=\"identity\">Operation ID <code>")
                .text(id)
                .raw("</code></p>\n");
        }
        Block::Operations(links) => operations(html, links),
        Block::Callers(list) => callers(html, list),
        Block::Samples(list) => samples(html, list),
        Block::TryIt(form) => try_it(html, form),
        Block::Roles(groups) => roles(html, groups),
    }
}

fn heading(html: &mut Html, level: u8, title: &str) {
    let id = title.to_kebab_case();
    let (open, close) = match level {
        2 => ("<h2", "</h2>\n"),
        _ => ("<h3", "</h3>\n"),
    };
    html.raw(open).attribute("id", &id).raw("><a class=\"anchor\"");
    html.attribute("href", &format!("#{id}"))
        .raw(">")
        .text(title)
        .raw("</a>")
        .raw(close);
}

fn inline<'a>(html: &'a mut Html, line: &[Inline]) -> &'a mut Html {
    for part in line {
        match part {
            Inline::Text(text) => {
                html.text(text);
            }
            Inline::Code(text) => {
                html.raw("<code>").text(text).raw("</code>");
            }
            Inline::Link { text, target, code } => {
                html.raw("<a").attribute("href", target);
                if target.starts_with("https://") {
                    html.raw(" rel=\"noopener noreferrer\"");
                }
                let (open, close) = if *code {
                    ("><code>", "</code></a>")
                } else {
                    (">", "</a>")
                };
                html.raw(open).text(text).raw(close);
            }
        }
    }
    html
}

fn table(html: &mut Html, head: &[String], rows: &[Vec<Line>]) {
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table\"><table>\n<thead><tr>");
    for title in head {
        html.raw("<th scope=\"col\">").text(title).raw("</th>");
    }
    html.raw("</tr></thead>\n<tbody>\n");
    for row in rows {
        html.raw("<tr>");
        for cell in row {
            html.raw("<td>");
            inline(html, cell).raw("</td>");
        }
        html.raw("</tr>\n");
    }
    html.raw("</tbody></table></div>\n");
}

/// Adds the badge of a method.
pub(super) fn method(html: &mut Html, method: &str) {
    html.raw("<span")
        .attribute("class", &format!("method {}", method.to_lowercase()))
        .raw(">");
    html.text(method).raw("</span>");
}

/// Adds a path with marked placeholders and with places for line breaks.
fn path_template(html: &mut Html, path: &str) {
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            html.raw("/<wbr>");
        }
        match segment.starts_with('{') {
            true => html.raw("<var>").text(segment).raw("</var>"),
            false => html.text(segment),
        };
    }
}

fn attributes(html: &mut Html, list: &[Attribute]) {
    html.raw("<ul class=\"attributes\">\n");
    for attribute in list {
        html.raw("<li").attribute("id", &attribute.anchor);
        if let Some(input) = &attribute.input {
            html.attribute("data-in", input.location)
                .attribute("data-name", &attribute.name);
            html.attribute("data-control", input.control);
            for (name, value) in [("data-values", &input.values), ("data-example", &input.example)] {
                if !value.is_empty() {
                    html.attribute(name, value);
                }
            }
            if input.required {
                html.raw(" data-required");
            }
        }
        html.raw("><div class=\"signature\"><a class=\"name\"")
            .attribute("href", &format!("#{}", attribute.anchor));
        html.raw(">")
            .text(&attribute.name)
            .raw("</a> <span class=\"type\">");
        inline(html, &attribute.kind).raw("</span>");
        if let Some(input) = attribute.input.as_ref().filter(|input| input.location != "form") {
            html.raw(" <span class=\"in\">")
                .raw(input.location)
                .raw("</span>");
        }
        for flag in &attribute.flags {
            html.raw(" <span")
                .attribute("class", &format!("flag {flag}"))
                .raw(">")
                .raw(flag)
                .raw("</span>");
        }
        html.raw("</div>\n");
        blocks(html, &attribute.description);
        if !attribute.nested.is_empty() {
            html.raw("<details><summary>Attributes of <code>")
                .text(&attribute.name);
            html.raw("</code></summary>\n<div>\n");
            attributes(html, &attribute.nested);
            html.raw("</div>\n</details>\n");
        }
        html.raw("</li>\n");
    }
    html.raw("</ul>\n");
}

fn operations(html: &mut Html, links: &[OperationLink]) {
    html.raw("<ul class=\"operations\">\n");
    for link in links {
        html.raw("<li><a")
            .attribute("href", &operation_target(&link.id))
            .raw(">");
        method(html, &link.method);
        html.raw(" <span class=\"summary\">")
            .text(&link.summary)
            .raw("</span></a> <code>");
        path_template(html, &link.path);
        html.raw("</code> <span class=\"role\">")
            .text(&link.role)
            .raw("</span>");
        if link.deprecated {
            html.raw(" <span class=\"flag deprecated\">deprecated</span>");
        }
        html.raw("</li>\n");
    }
    html.raw("</ul>\n");
}

/// Returns the mark of a caller.
fn mark(value: &str) -> &'static str {
    match value {
        super::access::YES => "<span class=\"mark yes\">yes</span>",
        super::access::PUBLIC => "<span class=\"mark public\">public</span>",
        _ => "<span class=\"mark no\">no</span>",
    }
}

fn callers(html: &mut Html, list: &[(&'static str, &'static str)]) {
    html.raw("<ul class=\"callers\" aria-label=\"Callers\">\n");
    for (name, value) in list {
        html.raw("<li><span class=\"caller\">")
            .raw(name)
            .raw("</span> ")
            .raw(mark(value))
            .raw("</li>\n");
    }
    html.raw("</ul>\n");
}

fn samples(html: &mut Html, list: &[(&'static str, Code)]) {
    html.raw("<section class=\"samples\" aria-label=\"Samples\">\n<fieldset><legend>Language</legend>");
    for (at, (name, _)) in list.iter().enumerate() {
        let id = format!("sample-{}", name.to_kebab_case());
        html.raw("<input type=\"radio\" name=\"sample\"")
            .attribute("id", &id);
        html.raw(if at == 0 { " checked" } else { "" })
            .raw("><label")
            .attribute("for", &id);
        html.raw(">").raw(name).raw("</label>");
    }
    html.raw("</fieldset>\n");
    for (name, code) in list {
        pre(html, code, name);
    }
    html.raw("</section>\n");
}

/// Adds code. Strings, numbers and names are marked.
fn pre(html: &mut Html, code: &Code, label: &'static str) {
    let name = if label.is_empty() { "Code" } else { label };
    html.raw("<pre tabindex=\"0\" role=\"group\"")
        .attribute("aria-label", name);
    html.attribute("class", &format!("code {}", code.language));
    html.raw("><code>");
    super::highlight::highlight(html, code);
    html.raw("</code></pre>\n");
}

fn try_it(html: &mut Html, form: &TryIt) {
    html.raw("<section class=\"try\" id=\"try\" hidden")
        .attribute("data-method", &form.method);
    html.attribute("data-path", &form.path)
        .attribute("data-scheme", form.scheme);
    for (name, value) in [
        ("data-media-type", form.media_type.as_str()),
        ("data-confirmation", form.confirmation),
    ] {
        if !value.is_empty() {
            html.attribute(name, value);
        }
    }
    html.raw("><h2>Try it</h2>");
    if !form.example.is_empty() {
        html.raw("<template>").text(&form.example).raw("</template>");
    }
    html.raw("</section>\n");
}

fn roles(html: &mut Html, groups: &[RoleGroup]) {
    const COLUMNS: [&str; 7] = [
        "Anonymous",
        "Signed in",
        "Guest",
        "Reporter",
        "Developer",
        "Maintainer",
        "Owner",
    ];
    html.raw("<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Table of roles\">");
    html.raw("<table class=\"roles\">\n<thead><tr><th scope=\"col\">Operation</th>");
    for name in COLUMNS.iter().chain(&["Administrator"]) {
        html.raw("<th scope=\"col\">").raw(name).raw("</th>");
    }
    html.raw("</tr></thead>\n");
    for group in groups {
        html.raw("<tbody>\n<tr class=\"tag\"><th scope=\"rowgroup\" colspan=\"9\"><a");
        html.attribute("href", &group.target)
            .raw(">")
            .text(&group.tag)
            .raw("</a></th></tr>\n");
        for (link, callers) in &group.rows {
            html.raw("<tr><th scope=\"row\"><a")
                .attribute("href", &operation_target(&link.id))
                .raw(">");
            html.text(&link.summary).raw("</a></th>");
            if let [_, (name, _)] = callers.as_slice() {
                html.raw("<td colspan=\"8\">").raw(name).raw("</td></tr>\n");
                continue;
            }
            for column in COLUMNS.iter().chain(&["Administrator"]) {
                let named = |name: &str| name == *column || (name == "The user" && *column == "Owner");
                let value = callers
                    .iter()
                    .find(|(name, _)| named(name))
                    .map_or("", |(_, value)| value);
                html.raw("<td>");
                match value {
                    "" => html.raw("<span class=\"mark\">-</span>"),
                    value => html.raw(mark(value)),
                };
                html.raw("</td>");
            }
            html.raw("</tr>\n");
        }
        html.raw("</tbody>\n");
    }
    html.raw("</table></div>\n<p>")
        .raw("A column of a role that does not exist for the resource has a dash. ");
    html.raw("The <a")
        .attribute("href", &format!("{BASE}/guide/roles"))
        .raw(">guide to roles</a> describes the values.</p>\n");
}
