//! Finds the comments and string literals of Rust sources.

/// A comment or string literal.
pub struct Text<'a> {
    /// Number of its first line, from 1.
    pub line: usize,
    /// The comment with its slashes, or the content of the literal as the source writes it.
    pub text: &'a str,
}

/// Returns the comments of a source, one for each line.
pub fn comments(source: &str) -> Vec<Text<'_>> {
    read(source).0
}

/// Returns the string literals of a source.
pub fn literals(source: &str) -> Vec<Text<'_>> {
    read(source).1
}

fn read(source: &str) -> (Vec<Text<'_>>, Vec<Text<'_>>) {
    let (mut comments, mut literals) = (Vec::new(), Vec::new());
    let (mut rest, mut line) = (source, 1);
    while let Some(at) = rest.find(['"', '/', '\'']) {
        let (before, found) = rest.split_at(at);
        line += before.matches('\n').count();
        let consumed = if found.starts_with("//") {
            let end = found.find('\n').unwrap_or(found.len());
            comments.push(Text { line, text: &found[..end] });
            end
        } else if let Some(content) = found.strip_prefix('"') {
            let marks = before.len() - before.trim_end_matches('#').len();
            let end = match before[..before.len() - marks].ends_with('r') {
                true => content.find(&format!("\"{}", "#".repeat(marks))),
                false => find_end(content),
            };
            let end = end.expect("the end of a literal");
            literals.push(Text { line, text: &content[..end] });
            end + 2
        } else if found.starts_with(r#"'"'"#) {
            3
        } else if found.starts_with(r#"'\"'"#) {
            4
        } else {
            1
        };
        line += found[..consumed].matches('\n').count();
        rest = &found[consumed..];
    }
    (comments, literals)
}

/// Returns where the closing quote of a literal is.
fn find_end(content: &str) -> Option<usize> {
    let mut escaped = false;
    content.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        escaped = byte == b'\\' && !escaped;
        ends
    })
}
