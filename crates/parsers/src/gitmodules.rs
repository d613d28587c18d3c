//! Rules of `git fsck` for files with submodules (`.gitmodules`).
//!
//! Clients that clone a repository with its submodules use the names and URLs of the file in paths, commands and
//! requests. Git refuses pushes with harmful files, so other commits must follow the same rules.

/// Maximum size of a checked file in bytes. Git has a limit of 16 MiB.
pub const MAX_GITMODULES_BYTES: usize = 1 << 20;

/// Violation of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum GitmodulesError {
    /// The file exceeds [`MAX_GITMODULES_BYTES`].
    #[error("the file has more than 1,048,576 bytes")]
    TooLarge,
    /// The name is empty or leads to a parent directory.
    #[error("the name of a submodule must not be empty or have the component '..'")]
    Name,
    /// The URL is an option of a command, invalid, has a newline, or leaves its server.
    #[error("the URL of a submodule is invalid, starts with '-' or has a newline")]
    Url,
    /// The path is an option of a command.
    #[error("the path of a submodule must not start with '-'")]
    Path,
    /// The setting is a command.
    #[error("the update setting of a submodule must not be a command")]
    Update,
}

/// Checks a file. As in Git, the rest of the file after a syntax error has no effect, and is not checked.
///
/// # Errors
/// The first violation.
pub fn check_gitmodules(content: &[u8]) -> Result<(), GitmodulesError> {
    if content.len() > MAX_GITMODULES_BYTES {
        return Err(GitmodulesError::TooLarge);
    }
    let mut reader = ConfigReader {
        rest: content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content),
        section: Vec::new(),
    };
    while let Some(variable) = reader.variable() {
        check_variable(&variable)?;
    }
    Ok(())
}

/// A variable of a configuration file.
struct Variable {
    /// The section, the subsection and the key, separated by dots.
    name: Vec<u8>,
    /// `None` for a key without an equals sign.
    value: Option<Vec<u8>>,
}

/// Reads the format of `git config`.
struct ConfigReader<'a> {
    rest: &'a [u8],
    section: Vec<u8>,
}

impl ConfigReader<'_> {
    /// Returns the next byte, or a newline for the end of a line on Windows.
    fn byte(&mut self) -> Option<u8> {
        if let Some(rest) = self.rest.strip_prefix(b"\r\n") {
            self.rest = rest;
            return Some(b'\n');
        }
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// Returns the next variable. Returns `None` at the end of the file and at a syntax error.
    fn variable(&mut self) -> Option<Variable> {
        let mut is_comment = false;
        loop {
            match self.byte()? {
                b'\n' => is_comment = false,
                _ if is_comment => {}
                byte if is_space(byte) => {}
                b'#' | b';' => is_comment = true,
                b'[' => self.section = self.section()?,
                byte if byte.is_ascii_alphabetic() => return self.assignment(byte),
                _ => return None,
            }
        }
    }

    /// Returns the name of a section after its opening bracket.
    fn section(&mut self) -> Option<Vec<u8>> {
        let mut name = Vec::new();
        loop {
            match self.byte()? {
                b']' => break,
                byte if is_space(byte) => {
                    self.subsection(byte, &mut name)?;
                    break;
                }
                byte if is_key_byte(byte) || byte == b'.' => name.push(byte.to_ascii_lowercase()),
                _ => return None,
            }
        }
        (!name.is_empty()).then_some(name)
    }

    /// Adds the name of a subsection, after a space, to the name of its section.
    fn subsection(&mut self, space: u8, name: &mut Vec<u8>) -> Option<()> {
        let mut byte = space;
        while is_space(byte) {
            if byte == b'\n' {
                return None;
            }
            byte = self.byte()?;
        }
        if byte != b'"' {
            return None;
        }
        name.push(b'.');
        loop {
            match self.byte()? {
                b'\n' => return None,
                b'"' => break,
                b'\\' => match self.byte()? {
                    b'\n' => return None,
                    escaped => name.push(escaped),
                },
                byte => name.push(byte),
            }
        }
        (self.byte()? == b']').then_some(())
    }

    /// Returns a variable after the first byte of its key.
    fn assignment(&mut self, first: u8) -> Option<Variable> {
        let mut name = self.section.clone();
        if !name.is_empty() {
            name.push(b'.');
        }
        let mut byte = first;
        while is_key_byte(byte) {
            name.push(byte.to_ascii_lowercase());
            byte = self.byte().unwrap_or(b'\n');
        }
        while matches!(byte, b' ' | b'\t') {
            byte = self.byte().unwrap_or(b'\n');
        }
        let value = match byte {
            b'\n' => None,
            b'=' => Some(self.value()?),
            _ => return None,
        };
        Some(Variable { name, value })
    }

    /// Returns a value up to the end of its line.
    fn value(&mut self) -> Option<Vec<u8>> {
        let mut value = Vec::new();
        // Length of the value before the spaces at its end.
        let mut trimmed = None;
        let (mut is_quoted, mut is_comment) = (false, false);
        loop {
            let byte = self.byte().unwrap_or(b'\n');
            if byte == b'\n' {
                value.truncate(trimmed.unwrap_or(value.len()));
                return (!is_quoted).then_some(value);
            }
            if is_comment {
                continue;
            }
            if !is_quoted && is_space(byte) {
                if !value.is_empty() {
                    trimmed = trimmed.or(Some(value.len()));
                    value.push(byte);
                }
                continue;
            }
            if !is_quoted && matches!(byte, b'#' | b';') {
                is_comment = true;
                continue;
            }
            trimmed = None;
            match byte {
                b'"' => is_quoted = !is_quoted,
                b'\\' => match self.byte().unwrap_or(b'\n') {
                    b'\n' => {}
                    b't' => value.push(b'\t'),
                    b'b' => value.push(8),
                    b'n' => value.push(b'\n'),
                    escaped @ (b'\\' | b'"') => value.push(escaped),
                    _ => return None,
                },
                byte => value.push(byte),
            }
        }
    }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn is_key_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-'
}

fn check_variable(variable: &Variable) -> Result<(), GitmodulesError> {
    let Some(rest) = variable.name.strip_prefix(b"submodule.") else {
        return Ok(());
    };
    let mut parts = rest.rsplitn(2, |byte| *byte == b'.');
    let (Some(key), Some(name)) = (parts.next(), parts.next()) else {
        return Ok(());
    };
    let mut components = name.split(|byte| matches!(byte, b'/' | b'\\'));
    if name.is_empty() || components.any(|component| component == b"..") {
        return Err(GitmodulesError::Name);
    }
    match (key, variable.value.as_deref()) {
        (b"url", Some(url)) if !is_url_allowed(url) => Err(GitmodulesError::Url),
        (b"path", Some([b'-', ..])) => Err(GitmodulesError::Path),
        (b"update", Some([b'!', ..])) => Err(GitmodulesError::Update),
        _ => Ok(()),
    }
}

fn is_url_allowed(url: &[u8]) -> bool {
    if url.starts_with(b"-") {
        return false;
    }
    let is_relative = after_dots(url, b".").is_some() || after_dots(url, b"..").is_some();
    if is_relative || url.starts_with(b"git://") {
        return !has_newline(url) && !leaves_server(url);
    }
    http_url(url).is_none_or(|url| !has_newline(url) && is_valid_http_url(url))
}

/// Returns the rest of a URL after dots and a slash.
fn after_dots<'a>(url: &'a [u8], dots: &[u8]) -> Option<&'a [u8]> {
    match url.strip_prefix(dots)? {
        [b'/' | b'\\', rest @ ..] => Some(rest),
        _ => None,
    }
}

/// Returns whether a URL has a newline, also an encoded one.
fn has_newline(url: &[u8]) -> bool {
    url.contains(&b'\n') || url.windows(3).any(|part| part.eq_ignore_ascii_case(b"%0a"))
}

/// Returns whether a relative URL can replace the server in the URL that it is relative to.
fn leaves_server(url: &[u8]) -> bool {
    let (mut rest, mut has_parent) = (url, false);
    loop {
        if let Some(after) = after_dots(rest, b"..") {
            (rest, has_parent) = (after, true);
        } else if let Some(after) = after_dots(rest, b".") {
            rest = after;
        } else {
            return has_parent && matches!(rest.first(), Some(b':' | b'/'));
        }
    }
}

/// Returns the URL that Git requests over HTTP or FTP.
fn http_url(url: &[u8]) -> Option<&[u8]> {
    const HELPERS: [&[u8]; 4] = [b"http::", b"https::", b"ftp::", b"ftps::"];
    const SCHEMES: [&[u8]; 4] = [b"http://", b"https://", b"ftp://", b"ftps://"];
    let requested = HELPERS.iter().find_map(|helper| url.strip_prefix(*helper));
    requested.or_else(|| {
        SCHEMES
            .iter()
            .any(|scheme| url.starts_with(scheme))
            .then_some(url)
    })
}

/// Returns whether Git can normalize a URL.
fn is_valid_http_url(url: &[u8]) -> bool {
    let is_scheme = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-');
    let scheme = url.iter().take_while(|byte| is_scheme(byte)).count();
    let rest = url.get(scheme..).and_then(|rest| rest.strip_prefix(b"://"));
    let (Some(rest), Some(true)) = (rest, url.first().map(u8::is_ascii_alphabetic)) else {
        return false;
    };
    let end = rest.iter().position(|byte| matches!(byte, b'/' | b'?' | b'#'));
    let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
    let user = authority.iter().position(|byte| *byte == b'@');
    let host = authority.get(user.map_or(0, |at| at + 1)..).unwrap_or_default();
    has_valid_escapes(rest) && is_valid_host(host) && is_valid_path(path)
}

/// Returns whether two hexadecimal digits follow each percent sign.
fn has_valid_escapes(url: &[u8]) -> bool {
    let mut signs = url.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    signs.all(|(at, _)| {
        let digits = url.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    })
}

/// Returns whether a host with an optional port is valid.
fn is_valid_host(host: &[u8]) -> bool {
    let colon = host.iter().rposition(|byte| matches!(byte, b':' | b']'));
    let colon = colon.filter(|at| host.get(*at) == Some(&b':'));
    let (host, port) = host.split_at(colon.unwrap_or(host.len()));
    let is_host = |byte: &u8| byte.is_ascii_alphanumeric() || b".-_[:]".contains(byte);
    let port = port.strip_prefix(b":").unwrap_or_default();
    let number = std::str::from_utf8(port).map(|port| port.trim_start_matches('0').parse::<u16>());
    let is_port = port.is_empty() || (port.iter().all(u8::is_ascii_digit) && matches!(number, Ok(Ok(_))));
    !host.is_empty() && !host.starts_with(b":") && host.iter().all(is_host) && is_port
}

/// Returns whether no component of a path leads above the root.
fn is_valid_path(path: &[u8]) -> bool {
    let end = path.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let path = path.get(..end.unwrap_or(path.len())).unwrap_or_default();
    let path = path.strip_prefix(b"/").unwrap_or(path);
    let mut depth: usize = 0;
    for segment in path.split(|byte| *byte == b'/') {
        match dots(segment) {
            Some(1) => {}
            Some(2) if depth == 0 => return false,
            Some(2) => depth -= 1,
            _ => depth += 1,
        }
    }
    true
}

/// Returns the number of dots of a segment that consists of dots, which can be encoded.
fn dots(segment: &[u8]) -> Option<usize> {
    let (mut rest, mut count) = (segment, 0);
    while !rest.is_empty() {
        rest = match rest {
            [b'.', rest @ ..] | [b'%', b'2', b'e' | b'E', rest @ ..] => rest,
            _ => return None,
        };
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmful_files_are_refused() {
        use GitmodulesError::{Name, Path, Update, Url};
        for (content, error) in [
            ("[submodule \"\"]\n\tpath=x\n", Name),
            ("[submodule \"a/../b\"]\nurl=x\n[bad", Name),
            ("[submodule \"a\\\\..\\\\b\"]\nurl=x\n", Name),
            ("[submodule.foo]\n\turl=-x\n", Url),
            ("[submodule \"a\"]\nURL = -x # c\n", Url),
            ("\u{feff}[submodule \"a\"] url=\"-x\"\r\n", Url),
            ("[submodule \"a\"]\npath=\\\n-x\n", Path),
            ("[submodule \"a\"]\nupdate=!x\n", Update),
        ] {
            assert_eq!(check_gitmodules(content.as_bytes()), Err(error), "{content}");
        }
        let large = vec![b'\n'; MAX_GITMODULES_BYTES + 1];
        assert_eq!(check_gitmodules(&large), Err(GitmodulesError::TooLarge));
    }

    #[test]
    fn urls_follow_rules_of_git() {
        for url in [
            "-x",
            "../../:x",
            ".././/x",
            "./%0ay",
            "git://h/a\\nb",
            "https://x/%0ay",
            "https:///x",
            "https://@/x",
            "https://x/../y",
            "https://x/%2e%2e/y",
            "https://x/%zz",
            "https://u%zz@x/",
            "https://x?q=%z",
            "https://h:70000/a",
            "https://h:0/a",
            "https://h:+80/a",
            "https://h\u{e4}/y",
            "http::x",
        ] {
            let content = format!("[submodule \"a\"]\nurl = \"{url}\"\n");
            assert_eq!(
                check_gitmodules(content.as_bytes()),
                Err(GitmodulesError::Url),
                "{url}"
            );
        }
        for url in [
            "x",
            "../x",
            "../../x.git",
            "./x",
            "git@example.com:a/b.git",
            "ssh://h/a\\nb",
            "https://example.com/a/b.git",
            "https://u:p@example.com:08080/a%20b/./c/../d?q=1#f",
            "https://[::1]:80/x",
            "https://h:/y",
            "https://h",
            "https://h//../y",
            "http::https://h/",
        ] {
            let content = format!("[submodule \"a\"]\nurl = \"{url}\"\n");
            assert_eq!(check_gitmodules(content.as_bytes()), Ok(()), "{url}");
        }
    }

    #[test]
    fn text_after_syntax_error_is_not_checked() {
        for content in [
            "",
            "url = -x\n",
            "[other \"..\"]\nurl=-x\n",
            "[submodule]\nurl=-x\n",
            "[submodule \"a\"]\nurl\npath=x\n",
            "[submodule \"a\"]\nurl=\"-x",
            "[submodule \"a\"]\nurl=-x\\q\n",
            "[submodule \"..\"\nurl=-x\n",
            "[bad\n[submodule \"a\"]\nurl=-x\n",
            "# [submodule \"..\"]\n; url=-x\n",
        ] {
            assert_eq!(check_gitmodules(content.as_bytes()), Ok(()), "{content}");
        }
    }
}
