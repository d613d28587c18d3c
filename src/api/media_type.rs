//! Media types of request bodies, and the selection of the media type of a response.

use poem::http::HeaderMap;
use poem::http::header::{ACCEPT, CONTENT_TYPE};

/// Returns the media type of a body without parameters, in lowercase.
pub(super) fn essence(headers: &HeaderMap) -> String {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let essence = content_type.unwrap_or_default().split(';').next();
    essence.unwrap_or_default().trim().to_ascii_lowercase()
}

/// Returns the index of the offered media type that a request prefers by its header `Accept` (RFC 9110 12.5.1). If it prefers
/// several or accepts none, returns the first of them.
pub(super) fn preferred_type(headers: &HeaderMap, offered: &[&str]) -> usize {
    let accepted = headers
        .get_all(ACCEPT)
        .iter()
        .filter_map(|value| value.to_str().ok());
    let ranges: Vec<(String, f32)> = accepted.flat_map(|value| value.split(',')).map(range).collect();
    let mut best = (0, 0.0);
    for (index, media_type) in offered.iter().enumerate() {
        let weight = weight(&ranges, media_type);
        if weight > best.1 {
            best = (index, weight);
        }
    }
    best.0
}

/// Parses a media range and its weight.
fn range(text: &str) -> (String, f32) {
    let mut parts = text.split(';').map(|part| part.trim().to_ascii_lowercase());
    let media_type = parts.next().unwrap_or_default();
    let weight = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse().ok());
    (media_type, weight.unwrap_or(1.0))
}

/// Returns the weight of a media type: that of the most specific range that contains it.
fn weight(ranges: &[(String, f32)], offered: &str) -> f32 {
    let essence = offered.split(';').next().unwrap_or_default().trim();
    let group = essence.split('/').next().map(|group| format!("{group}/*"));
    let of = |name: &str| {
        ranges
            .iter()
            .find(|(range, _)| range == name)
            .map(|(_, weight)| *weight)
    };
    of(essence)
        .or_else(|| of(group.as_deref().unwrap_or_default()))
        .or_else(|| of("*/*"))
        .unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use poem::http::HeaderValue;

    use super::*;

    #[test]
    fn preferred_type_follows_weights_and_specificity() {
        let offered = ["text/html; charset=utf-8", "application/vnd.pypi.simple.v1+json"];
        for (accept, expected) in [
            ("", 0),
            ("*/*", 0),
            ("image/png", 0),
            ("text/html", 0),
            ("application/vnd.pypi.simple.v1+json", 1),
            ("application/vnd.pypi.simple.v1+json, text/html;q=0.1", 1),
            ("application/vnd.pypi.simple.v1+json;q=0.1, text/html", 0),
            (
                "APPLICATION/vnd.pypi.simple.v1+JSON ; q=0.9,text/*;q=0.8, */*;q=0.1",
                1,
            ),
            ("application/*;q=0.5, text/html;q=0.4", 1),
            ("text/html;q=0, */*", 1),
            ("application/vnd.pypi.simple.v1+json;q=NaN, text/html;q=0.1", 0),
            (";;;,,q=", 0),
        ] {
            let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(accept))]);
            assert_eq!(preferred_type(&headers, &offered), expected, "{accept}");
        }
        assert_eq!(preferred_type(&HeaderMap::new(), &offered), 0);
    }
}
