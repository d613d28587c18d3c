//! Marks strings, numbers and other values in code.

use super::block::Code;
use super::html::Html;

/// Adds code with marks.
pub(super) fn highlight(html: &mut Html, code: &Code) {
    match code.language {
        "json" | "python" | "javascript" | "typescript" | "sh" => marked(html, code),
        _ => {
            html.text(&code.text);
        }
    }
}

fn marked(html: &mut Html, code: &Code) {
    let mut rest = code.text.as_str();
    while !rest.is_empty() {
        let first = rest.chars().next().unwrap_or_default();
        let (class, length) = match first {
            '"' | '\'' | '`' if first == '"' || code.language != "json" => string(rest, first, code.language),
            '0'..='9' | '-' if code.language == "json" => ("n", number(rest)),
            'a'..='z' if code.language == "json" => (
                "n",
                rest.find(|c: char| !c.is_ascii_alphabetic())
                    .unwrap_or(rest.len()),
            ),
            _ => ("", plain(rest, code.language)),
        };
        let (token, after) = rest.split_at(length.clamp(first.len_utf8(), rest.len()));
        match class {
            "" => html.text(token),
            class => html
                .raw("<span")
                .attribute("class", class)
                .raw(">")
                .text(token)
                .raw("</span>"),
        };
        rest = after;
    }
}

/// Returns the class and the length of a string in quotes. A string of JSON before a colon is a name. Names have no class,
/// because the color of the block is theirs: large pages have hundreds of them.
fn string(source: &str, quote: char, language: &str) -> (&'static str, usize) {
    let mut escaped = false;
    let mut end = source.len();
    for (at, char) in source.char_indices().skip(1) {
        match char {
            _ if escaped => escaped = false,
            '\\' if !(language == "sh" && quote == '\'') => escaped = true,
            _ if char == quote => {
                end = at + 1;
                break;
            }
            _ => {}
        }
    }
    let is_name = language == "json" && source[end..].starts_with(':');
    (if is_name { "" } else { "s" }, end)
}

fn number(source: &str) -> usize {
    source
        .find(|c: char| !matches!(c, '0'..='9' | '-' | '+' | '.' | 'e' | 'E'))
        .unwrap_or(source.len())
}

/// Returns the length of the text before the next mark.
fn plain(source: &str, language: &str) -> usize {
    let is_start = |c: char| match language {
        "json" => c == '"' || c == '-' || c.is_ascii_alphanumeric(),
        _ => matches!(c, '"' | '\'' | '`'),
    };
    source.find(is_start).unwrap_or(source.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn html(language: &'static str, text: &str) -> String {
        let mut html = Html::default();
        highlight(
            &mut html,
            &Code {
                language,
                text: text.to_owned(),
            },
        );
        String::from_utf8(html.into_bytes()).unwrap_or_default()
    }

    #[test]
    fn strings_and_other_values_of_json_are_marked() {
        assert_eq!(
            html("json", "{\"a\": [\"<\\\"\", -1.5, null]}"),
            "{\"a\": [<span class=\"s\">\"&lt;\\\"\"</span>, \
             <span class=\"n\">-1.5</span>, <span class=\"n\">null</span>]}"
        );
    }

    #[test]
    fn unterminated_strings_end_with_the_code() {
        assert_eq!(html("sh", "a 'b\\"), "a <span class=\"s\">'b\\</span>");
        assert_eq!(html("text", "\"a\""), "\"a\"");
    }
}
