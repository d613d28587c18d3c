//! HTML as a type that only literals and escaped text can extend.

/// Markup of a page. All text from the contract is escaped, because only literals are appended without escaping.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Html(String);

impl Html {
    /// Appends markup of this package.
    pub(super) fn raw(&mut self, markup: &'static str) -> &mut Self {
        self.0.push_str(markup);
        self
    }

    /// Appends text between tags, escaped.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        let mut rest = text;
        while let Some(at) = rest.find(['&', '<', '>']) {
            let (plain, special) = rest.split_at(at);
            self.0.push_str(plain);
            self.0.push_str(match special.as_bytes().first() {
                Some(b'&') => "&amp;",
                Some(b'<') => "&lt;",
                _ => "&gt;",
            });
            rest = &special[1..];
        }
        self.0.push_str(rest);
        self
    }

    /// Appends an attribute with an escaped value.
    pub(super) fn attribute(&mut self, name: &'static str, value: &str) -> &mut Self {
        self.raw(" ").raw(name).raw("=\"");
        for (at, part) in value.split('"').enumerate() {
            let quote = if at > 0 { "&quot;" } else { "" };
            self.raw(quote).text(part);
        }
        self.raw("\"")
    }

    /// Appends other markup.
    pub(super) fn append(&mut self, other: Self) -> &mut Self {
        self.0.push_str(&other.0);
        self
    }

    /// Returns the markup.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0.into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut html = Html::default();
        html.raw("<img")
            .attribute("alt", "\" onerror=\"x\"")
            .raw(">")
            .text("<script>&");
        let expected = "<img alt=\"&quot; onerror=&quot;x&quot;\">&lt;script&gt;&amp;";
        assert_eq!(html.into_bytes(), expected.as_bytes());
    }
}
