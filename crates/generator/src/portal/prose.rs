//! Reads the Markdown of descriptions and guides: paragraphs, headings, lists, tables, code and links.

use super::block::{Block, Code, Inline, Line, code, code_link, link, text};
use super::site::{Site, operation_target, schema_target};

/// Returns the blocks of a text. IDs of operations and names of schemas in code become links.
pub(super) fn blocks(site: &Site<'_>, source: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = source.lines().peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_end();
        if trimmed.trim_start().is_empty() {
            continue;
        }
        if let Some(language) = trimmed.strip_prefix("```") {
            let mut content = String::new();
            for line in lines.by_ref().take_while(|line| line.trim_end() != "```") {
                content.push_str(line);
                content.push('\n');
            }
            let language = language_of(language);
            blocks.push(Block::Code(Code {
                language,
                text: content,
            }));
        } else if let Some((level, title)) = heading(trimmed) {
            blocks.push(Block::Heading(level, title.to_owned()));
        } else if trimmed.starts_with('|') {
            let mut rows = vec![cells(site, trimmed)];
            while let Some(row) = lines.next_if(|line| line.starts_with('|')) {
                rows.push(cells(site, row));
            }
            blocks.push(table(rows));
        } else {
            let is_list = trimmed.starts_with("- ");
            let mut parts = vec![trimmed.strip_prefix("- ").unwrap_or(trimmed).to_owned()];
            while let Some(next) = lines.next_if(|next| continues(next)) {
                match next.strip_prefix("- ") {
                    Some(item) if is_list => parts.push(item.trim_end().to_owned()),
                    Some(_) => {
                        blocks.push(Block::Paragraph(line_of(site, &parts.join(" "))));
                        return with_rest(site, blocks, next, lines);
                    }
                    None => append(&mut parts, next),
                }
            }
            let mut parsed: Vec<Line> = parts.iter().map(|part| line_of(site, part)).collect();
            blocks.push(match is_list {
                true => Block::List(parsed),
                false => Block::Paragraph(parsed.pop().unwrap_or_default()),
            });
        }
    }
    blocks
}

/// Returns the blocks before a list that follows a paragraph directly, the list, and the blocks after it.
fn with_rest<'a>(
    site: &Site<'_>,
    mut before: Vec<Block>,
    first: &'a str,
    rest: impl Iterator<Item = &'a str>,
) -> Vec<Block> {
    let rest: Vec<&str> = std::iter::once(first).chain(rest).collect();
    before.extend(blocks(site, &rest.join("\n")));
    before
}

fn append(parts: &mut [String], line: &str) {
    if let Some(last) = parts.last_mut() {
        last.push(' ');
        last.push_str(line.trim());
    }
}

/// Returns whether a line continues a paragraph or a list.
fn continues(line: &str) -> bool {
    !line.trim().is_empty() && heading(line).is_none() && !line.starts_with("```") && !line.starts_with('|')
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let levels = [(2, "## "), (3, "### ")];
    levels
        .into_iter()
        .find_map(|(level, prefix)| line.strip_prefix(prefix).map(|title| (level, title.trim())))
}

fn language_of(name: &str) -> &'static str {
    let known = ["sh", "json", "python", "javascript", "typescript", "http", "toml"];
    known
        .into_iter()
        .find(|known| *known == name.trim())
        .unwrap_or("text")
}

fn cells(site: &Site<'_>, row: &str) -> Vec<Line> {
    let inner = row.trim().trim_matches('|');
    inner.split('|').map(|cell| line_of(site, cell.trim())).collect()
}

/// Returns a table. The second row separates the titles of the columns.
fn table(rows: Vec<Vec<Line>>) -> Block {
    let mut rows = rows.into_iter();
    let head = rows.next().unwrap_or_default();
    Block::Table {
        head: head.iter().map(|cell| plain(cell)).collect(),
        rows: rows.skip(1).collect(),
    }
}

/// Returns the parts of a line: text, code and links.
pub(super) fn line_of(site: &Site<'_>, source: &str) -> Line {
    let mut line = Line::new();
    for (at, part) in source.split('`').enumerate() {
        match at % 2 {
            1 => line.push(code_of(site, part)),
            _ => links_of(part, &mut line),
        }
    }
    line
}

fn code_of(site: &Site<'_>, name: &str) -> Inline {
    if site.operation(name).is_some() {
        return code_link(name, operation_target(name));
    }
    let is_schema = name.starts_with(|first: char| first.is_ascii_uppercase()) && site.schema(name).is_some();
    match is_schema {
        true => code_link(name, schema_target(name)),
        false => code(name),
    }
}

/// Adds the text and the links `[text](target)` of a part without code.
fn links_of(part: &str, line: &mut Line) {
    let mut rest = part;
    while let Some((before, label, target, after)) = next_link(rest) {
        if !before.is_empty() {
            line.push(text(before));
        }
        line.push(link(label, target));
        rest = after;
    }
    if !rest.is_empty() {
        line.push(text(rest));
    }
}

fn next_link(part: &str) -> Option<(&str, &str, &str, &str)> {
    let (head, rest) = part.split_once("](")?;
    let (before, label) = head.rsplit_once('[')?;
    let (target, after) = rest.split_once(')')?;
    let is_target = target.starts_with('/') || target.starts_with('#') || target.starts_with("https://");
    is_target.then_some((before, label, target, after))
}

/// Returns the text of a line.
pub(super) fn plain(line: &[Inline]) -> String {
    let parts = line.iter().map(|part| match part {
        Inline::Text(text) | Inline::Code(text) | Inline::Link { text, .. } => text.as_str(),
    });
    parts.collect()
}

/// Returns the first sentence of a description on one line, without marks of code.
pub(super) fn first_sentence(source: &str) -> String {
    let words: Vec<&str> = sentence(source).split_whitespace().collect();
    words.join(" ").replace('`', "")
}

/// Returns the first sentence of a description.
pub(super) fn sentence(source: &str) -> &str {
    let paragraph = source.trim().split("\n\n").next().unwrap_or_default();
    let mut ends = paragraph
        .match_indices(". ")
        .chain(paragraph.match_indices(".\n"));
    match ends.next() {
        Some((end, _)) => &paragraph[..=end],
        None => paragraph,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn parsed(source: &str) -> Vec<Block> {
        let root: Value = json!({
            "paths": { "/keys": { "get": { "operationId": "list_keys", "tags": ["Keys"] } } },
            "components": { "schemas": { "Key": {} } },
        });
        blocks(&Site::new(&root), source)
    }

    #[test]
    fn blocks_are_separated_by_their_first_characters() {
        let source = "One\ntwo.\n\n## Title\nText:\n- `a`\n  b\n- c\n\n| A | B |\n|---|---|\n| 1 | `2` |\n\n```sh\nx\n```\n";
        let expected = vec![
            Block::Paragraph(vec![text("One two.")]),
            Block::Heading(2, "Title".to_owned()),
            Block::Paragraph(vec![text("Text:")]),
            Block::List(vec![vec![code("a"), text(" b")], vec![text("c")]]),
            Block::Table {
                head: vec!["A".to_owned(), "B".to_owned()],
                rows: vec![vec![vec![text("1")], vec![code("2")]]],
            },
            Block::Code(Code {
                language: "sh",
                text: "x\n".to_owned(),
            }),
        ];
        assert_eq!(parsed(source), expected);
    }

    #[test]
    fn code_with_a_known_name_is_a_link() {
        let line = vec![
            code_link("list_keys", "/docs/operation/list_keys"),
            text(" returns "),
            code_link("Key", "/docs/schema/Key"),
            text(", not "),
            code("Value"),
            text("."),
        ];
        assert_eq!(
            parsed("`list_keys` returns `Key`, not `Value`."),
            [Block::Paragraph(line)]
        );
    }

    #[test]
    fn links_have_local_or_secure_targets() {
        let line = vec![
            text("See "),
            link("roles", "/docs/roles"),
            text(" and [x](javascript:y)."),
        ];
        assert_eq!(
            parsed("See [roles](/docs/roles) and [x](javascript:y)."),
            [Block::Paragraph(line)]
        );
    }

    #[test]
    fn first_sentence_has_no_marks() {
        assert_eq!(first_sentence("Returns `a`,\nor b. Then c."), "Returns a, or b.");
        assert_eq!(first_sentence("Returns a"), "Returns a");
    }
}
