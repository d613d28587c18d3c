//! Renders blocks as Markdown.

use super::block::{Attribute, Block, Code, Inline, Line, OperationLink};
use super::page::Page;
use super::site::{BASE, operation_target};

/// Returns the Markdown of a page.
pub(super) fn page(page: &Page) -> String {
    let mut text = format!("# {}\n\n", page.title);
    for block in page.lead.iter().chain(&page.side).chain(&page.body) {
        write(&mut text, block, 2);
    }
    finished(text)
}

/// Returns the Markdown of a page without its samples, as a part of a longer text.
pub(super) fn part(page: &Page) -> String {
    let mut text = format!("# {}\n\n", page.title);
    let blocks = page.lead.iter().chain(&page.body);
    blocks.for_each(|block| write(&mut text, block, 2));
    finished(text)
}

fn finished(mut text: String) -> String {
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn write(out: &mut String, block: &Block, level: usize) {
    match block {
        Block::Heading(depth, title) => add(out, &format!("{} {title}", "#".repeat(usize::from(*depth)))),
        Block::Paragraph(line) => add(out, &inline(line)),
        Block::Notice(line) => add(out, &format!("> {}", inline(line))),
        Block::List(lines) => {
            let lines = lines.iter().map(|line| format!("- {}", inline(line)));
            add(out, &lines.collect::<Vec<_>>().join("\n"));
        }
        Block::Code(code) => add(out, &fenced(code)),
        Block::Table { head, rows } => {
            let rows = rows.iter().map(|row| row.iter().map(inline).collect());
            add(out, &table(head, rows));
        }
        Block::Facts(facts) => {
            let lines = facts
                .iter()
                .map(|(name, line)| format!("- {name}: {}", inline(line)));
            add(out, &lines.collect::<Vec<_>>().join("\n"));
        }
        Block::Attributes(attributes) => {
            let mut lines = Vec::new();
            attributes
                .iter()
                .for_each(|attribute| list(attribute, 0, &mut lines));
            add(out, &lines.join("\n"));
        }
        Block::Details(summary, blocks) => {
            add(out, &format!("{} {}", "#".repeat(level + 1), inline(summary)));
            blocks.iter().for_each(|block| write(out, block, level + 1));
        }
        Block::Endpoint { method, path, id } => {
            add(out, &format!("`{method} {path}`\n\nOperation ID: `{id}`"));
        }
        Block::Operations(links) => {
            let lines = links.iter().map(operation);
            add(out, &lines.collect::<Vec<_>>().join("\n"));
        }
        Block::Callers(callers) => {
            let names = callers
                .iter()
                .map(|(name, _)| (*name).to_owned())
                .collect::<Vec<_>>();
            let values = callers.iter().map(|(_, value)| (*value).to_owned()).collect();
            add(out, &table(&names, [values].into_iter()));
        }
        Block::Samples(samples) => {
            for (name, code) in samples {
                add(out, &format!("{name}:\n\n{}", fenced(code)));
            }
        }
        Block::TryIt(_) => {}
        Block::Roles(groups) => {
            for group in groups {
                add(out, &format!("## {}", group.tag));
                let head = ["Operation", "Lowest role"].map(str::to_owned);
                let rows = group
                    .rows
                    .iter()
                    .map(|(link, _)| vec![operation_cell(link), link.role.clone()]);
                add(out, &table(&head, rows));
            }
        }
    }
}

fn add(out: &mut String, text: &str) {
    out.push_str(text);
    out.push_str("\n\n");
}

fn fenced(code: &Code) -> String {
    // Longer than any fence in the code.
    let fence = if code.text.contains("```") { "`````" } else { "```" };
    format!("{fence}{}\n{}\n{fence}", code.language, code.text.trim_end())
}

fn table(head: &[String], rows: impl Iterator<Item = Vec<String>>) -> String {
    let row = |cells: &[String]| format!("| {} |", cells.join(" | "));
    let mut lines = vec![row(head), format!("|{}", "---|".repeat(head.len()))];
    lines.extend(rows.map(|cells| {
        row(&cells
            .iter()
            .map(|cell| cell.replace('|', "\\|"))
            .collect::<Vec<_>>())
    }));
    lines.join("\n")
}

fn list(attribute: &Attribute, depth: usize, lines: &mut Vec<String>) {
    let mut properties = vec![inline(&attribute.kind)];
    if let Some(input) = attribute.input.as_ref().filter(|input| input.location != "form") {
        properties.push(input.location.to_owned());
    }
    properties.extend(attribute.flags.iter().map(|flag| (*flag).to_owned()));
    let mut description = String::new();
    attribute
        .description
        .iter()
        .for_each(|block| write(&mut description, block, 4));
    let words: Vec<&str> = description.split_whitespace().collect();
    lines.push(format!(
        "{}- `{}` ({}): {}",
        "  ".repeat(depth),
        attribute.name,
        properties.join(", "),
        words.join(" ")
    ));
    attribute
        .nested
        .iter()
        .for_each(|nested| list(nested, depth + 1, lines));
}

fn operation(link: &OperationLink) -> String {
    let deprecated = if link.deprecated { " (deprecated)" } else { "" };
    format!(
        "- {}{deprecated}: `{} {}`",
        operation_cell(link),
        link.method,
        link.path
    )
}

fn operation_cell(link: &OperationLink) -> String {
    format!("[{}]({}.md)", link.summary, operation_target(&link.id))
}

fn inline(line: &Line) -> String {
    let parts = line.iter().map(|part| match part {
        Inline::Text(text) => text.clone(),
        Inline::Code(text) => format!("`{text}`"),
        Inline::Link { text, target, code } => {
            let target = markdown_target(target);
            match code {
                true => format!("[`{text}`]({target})"),
                false => format!("[{text}]({target})"),
            }
        }
    });
    parts.collect()
}

/// Returns the target of a link in Markdown: the Markdown form of a page, or another file.
fn markdown_target(target: &str) -> String {
    let Some(rest) = target.strip_prefix(BASE) else {
        return target.to_owned();
    };
    let (path, anchor) = rest.split_once('#').unwrap_or((rest, ""));
    let name = path.rsplit('/').next().unwrap_or_default();
    // The names of pages contain no dot.
    if name.is_empty() || name.contains('.') {
        return target.to_owned();
    }
    match anchor {
        "" => format!("{BASE}{path}.md"),
        anchor => format!("{BASE}{path}.md#{anchor}"),
    }
}
