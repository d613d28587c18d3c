//! Origins of web pages that browsers allow to call the API.

/// Origins of web pages; none by default.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins {
    is_any: bool,
    allowed: Vec<String>,
}

/// The text that allows every origin.
const ANY: &str = "*";

impl Origins {
    /// Parses origins such as `https://app.example` and `http://localhost:3000`, and `*`; empty texts are skipped.
    ///
    /// # Errors
    /// The first invalid text.
    pub fn parse(texts: &[String]) -> Result<Self, String> {
        let mut origins = Self::default();
        for text in texts
            .iter()
            .map(|text| text.trim())
            .filter(|text| !text.is_empty())
        {
            if text == ANY {
                origins.is_any = true;
                continue;
            }
            // Browsers send the scheme and the host in lower case.
            let origin = text.to_ascii_lowercase();
            if !is_origin(&origin) {
                return Err(format!(
                    "{text} is neither * nor an origin such as https://app.example"
                ));
            }
            origins.allowed.push(origin);
        }
        Ok(origins)
    }

    /// Returns whether a page of this origin can call the API.
    #[must_use]
    pub fn contain(&self, origin: &str) -> bool {
        self.is_any || self.allowed.iter().any(|allowed| allowed == origin)
    }
}

/// Returns whether a text is a scheme and a host with an optional port, and nothing else.
fn is_origin(text: &str) -> bool {
    let host = text
        .strip_prefix("https://")
        .or_else(|| text.strip_prefix("http://"));
    host.is_some_and(|host| {
        !host.is_empty()
            && host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origins(texts: &[&str]) -> Result<Origins, String> {
        Origins::parse(&texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn origins_match_exactly() {
        let some = origins(&[
            "https://App.example",
            " http://localhost:3000 ",
            "",
            "http://[::1]:8080",
        ]);
        let some = some.expect("origins");
        for (origin, is_allowed) in [
            ("https://app.example", true),
            ("http://app.example", false),
            ("https://app.example.evil.example", false),
            ("https://app.example:8443", false),
            ("http://localhost:3000", true),
            ("http://[::1]:8080", true),
            ("null", false),
        ] {
            assert_eq!(some.contain(origin), is_allowed, "{origin}");
        }
        assert!(origins(&["", " "]).is_ok_and(|none| !none.contain("https://app.example")));
        assert!(origins(&["*"]).is_ok_and(|any| any.contain("https://any.example")));
    }

    #[test]
    fn invalid_origin_is_named_in_error() {
        for text in [
            "app.example",
            "https://",
            "https://app.example/",
            "https://a b",
            "ftp://a.example",
            "null",
        ] {
            assert!(
                origins(&[text]).is_err_and(|error| error.contains(text)),
                "{text}"
            );
        }
    }
}
