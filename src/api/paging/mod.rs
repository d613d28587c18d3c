//! Pagination headers.
//!
//! Links are absolute and start with the configured base URL. They repeat every parameter of the request except
//! credentials, so that a followed link never writes a secret to a log. Filters in the body of a GET become parameters
//! of the query.

mod body_filters;

pub use body_filters::BodyFilters;
use domain::kernel::page::{PagePosition, PageRequest};
use parsers::form;
use percent_encoding::percent_decode_str;

/// Query parameters that are never repeated in a link.
const SECRET: [&str; 4] = ["private_token", "access_token", "job_token", "token"];

/// Maximum length in bytes of a `Link` header with all relations; proxies and clients reject much longer
/// ones.
const MAX_LINKS_BYTES: usize = 8 << 10;
/// Maximum length in bytes of the parameters that a link repeats, if the body contains some. The server accepts a query
/// of 8 KiB, which also contains the parameters of the page.
const MAX_REPEATED_BYTES: usize = 8_128;

/// Returns the pagination headers of a response. Without `Link` if a link cannot repeat the filters of the body.
#[must_use]
pub fn headers(request: &PageRequest, rest: PagePosition, links: &Links<'_>) -> Vec<(&'static str, String)> {
    match rest {
        PagePosition::Keyset(None) => Vec::new(),
        PagePosition::Keyset(Some((filter, id))) => {
            let Some(next) = links.keyset(filter, id) else {
                return Vec::new();
            };
            // Current clients read only `Link`, older ones `Links`; both have the same value.
            vec![
                ("Links", format!("<{next}>; rel=\"next\"")),
                ("Link", format!("<{next}>; rel=\"next\"")),
            ]
        }
        PagePosition::Counted(total) => {
            let pages = total.div_ceil(request.limit()).max(1);
            let number = u64::try_from(request.number).unwrap_or(1);
            let next = (number < pages).then_some(number + 1);
            let prev = (number > 1 && number <= pages).then(|| number - 1);
            let mut headers = positions(request, next, prev);
            headers.push(("X-Total", total.to_string()));
            headers.push(("X-Total-Pages", pages.to_string()));
            headers.extend(links.offset(request, prev, next, Some(pages)));
            headers
        }
        PagePosition::Uncounted { more, beyond } => {
            let number = u64::try_from(request.number).unwrap_or(1);
            let next = more.then(|| number.saturating_add(1));
            let prev = (number > 1 && !beyond).then(|| number - 1);
            let mut headers = positions(request, next, prev);
            headers.extend(links.offset(request, prev, next, None));
            headers
        }
    }
}

fn positions(request: &PageRequest, next: Option<u64>, prev: Option<u64>) -> Vec<(&'static str, String)> {
    let shown = |page: Option<u64>| page.map(|page| page.to_string()).unwrap_or_default();
    vec![
        ("X-Per-Page", request.size.to_string()),
        ("X-Page", request.number.to_string()),
        ("X-Next-Page", shown(next)),
        ("X-Prev-Page", shown(prev)),
    ]
}

/// The request that links repeat.
pub struct Links<'a> {
    /// The base URL with the raw path.
    pub url: &'a str,
    /// The raw query string.
    pub query: &'a str,
    /// The filters in the body.
    pub body: &'a BodyFilters,
}

impl Links<'_> {
    /// Returns the encoded pairs of the request that a link repeats; `None` if the body contains some and all are too
    /// long together.
    fn repeated_pairs(&self, without: &[&str]) -> Option<Vec<String>> {
        let pieces = self.query.split('&').filter(|piece| !piece.is_empty());
        let of_query = pieces.filter(|piece| {
            let name = piece.split('=').next().unwrap_or_default();
            let name = percent_decode_str(name).decode_utf8_lossy();
            let is_overridden = self.body.contains(form::base_name(&name));
            !SECRET.contains(&name.as_ref()) && !without.contains(&name.as_ref()) && !is_overridden
        });
        let mut pairs: Vec<String> = of_query.map(str::to_owned).collect();
        pairs.extend(self.body.pairs(without)?);
        let bytes: usize = pairs.iter().map(|pair| pair.len() + 1).sum();
        (self.body.is_empty() || bytes <= MAX_REPEATED_BYTES).then_some(pairs)
    }

    fn offset(
        &self,
        request: &PageRequest,
        prev: Option<u64>,
        next: Option<u64>,
        last: Option<u64>,
    ) -> Option<(&'static str, String)> {
        let repeated_pairs = self.repeated_pairs(&["page", "per_page"])?;
        let link = |page: u64, rel: &str| {
            let mut pieces = vec![format!("page={page}"), format!("per_page={}", request.size)];
            pieces.extend(repeated_pairs.iter().cloned());
            format!("<{}?{}>; rel=\"{rel}\"", self.url, pieces.join("&"))
        };
        let links = [
            prev.map(|page| link(page, "prev")),
            next.map(|page| link(page, "next")),
            Some(link(1, "first")),
            last.map(|page| link(page, "last")),
        ];
        let all = links.into_iter().flatten().collect::<Vec<_>>().join(", ");
        match next {
            // Each relation repeats the query. If they are too long together, only the next page is included,
            // which clients need.
            _ if all.len() <= MAX_LINKS_BYTES => Some(("Link", all)),
            Some(page) => Some(("Link", link(page, "next"))),
            None => None,
        }
    }

    fn keyset(&self, filter: &str, id: i64) -> Option<String> {
        let mut pieces = self.repeated_pairs(&["page", filter])?;
        pieces.push(format!("{filter}={id}"));
        Some(format!("{}?{}", self.url, pieces.join("&")))
    }
}

#[cfg(test)]
mod tests {
    use contract::table::operations;
    use serde_json::{Value, json};

    use super::*;

    fn headers(
        request: &PageRequest,
        rest: PagePosition,
        url: &str,
        query: &str,
    ) -> Vec<(&'static str, String)> {
        let body = &BodyFilters::default();
        super::headers(request, rest, &Links { url, query, body })
    }

    /// Returns the first link to a page, or the next one of a keyset list, of a request with a body.
    fn link_with_body(rest: PagePosition, query: &str, body: &Value) -> Option<String> {
        let mut operations = operations().iter();
        let operation = operations
            .find(|known| known.id == "list_projects")
            .expect("an operation");
        let links = Links {
            url: "http://h/x",
            query,
            body: &BodyFilters::new(operation, body.as_object().expect("an object")),
        };
        let link = value(&super::headers(&page(1, 20), rest, &links), "Link")?;
        let end = link.find('>').expect("a link");
        Some(link[1..end].to_owned())
    }

    fn page(number: i64, size: i64) -> PageRequest {
        PageRequest {
            number,
            size,
            keyset: false,
        }
    }

    fn value(headers: &[(&'static str, String)], name: &str) -> Option<String> {
        headers
            .iter()
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value.clone())
    }

    #[test]
    fn middle_page_has_all_links_without_private_token() {
        let query = "search=a%2Fb&private_token=secret&per_page=2&page=2";
        let headers = headers(
            &page(2, 2),
            PagePosition::Counted(5),
            "http://h/api/v4/projects",
            query,
        );
        let expected = "<http://h/api/v4/projects?page=1&per_page=2&search=a%2Fb>; rel=\"prev\", \
                      <http://h/api/v4/projects?page=3&per_page=2&search=a%2Fb>; rel=\"next\", \
                      <http://h/api/v4/projects?page=1&per_page=2&search=a%2Fb>; rel=\"first\", \
                      <http://h/api/v4/projects?page=3&per_page=2&search=a%2Fb>; rel=\"last\"";
        assert_eq!(value(&headers, "Link").as_deref(), Some(expected));
        assert_eq!(value(&headers, "X-Total").as_deref(), Some("5"));
        assert_eq!(value(&headers, "X-Total-Pages").as_deref(), Some("3"));
        assert_eq!(value(&headers, "X-Next-Page").as_deref(), Some("3"));
        assert_eq!(value(&headers, "X-Prev-Page").as_deref(), Some("1"));
    }

    #[test]
    fn empty_list_has_one_page_and_no_adjacent_pages() {
        let headers = headers(&page(1, 20), PagePosition::Counted(0), "http://h/x", "");
        assert_eq!(value(&headers, "X-Total-Pages").as_deref(), Some("1"));
        assert_eq!(value(&headers, "X-Next-Page").as_deref(), Some(""));
        assert_eq!(value(&headers, "X-Prev-Page").as_deref(), Some(""));
    }

    #[test]
    fn page_past_the_end_has_no_adjacent_pages() {
        let headers = headers(&page(9, 20), PagePosition::Counted(3), "http://h/x", "");
        assert_eq!(value(&headers, "X-Page").as_deref(), Some("9"));
        assert_eq!(value(&headers, "X-Next-Page").as_deref(), Some(""));
        assert_eq!(value(&headers, "X-Prev-Page").as_deref(), Some(""));
    }

    #[test]
    fn page_past_the_end_of_uncounted_list_has_only_first_link() {
        let rest = PagePosition::Uncounted {
            more: false,
            beyond: true,
        };
        let headers = headers(&page(999, 100), rest, "http://h/x", "");
        assert_eq!(value(&headers, "X-Prev-Page").as_deref(), Some(""));
        assert_eq!(
            value(&headers, "Link").as_deref(),
            Some("<http://h/x?page=1&per_page=100>; rel=\"first\"")
        );
    }

    #[test]
    fn uncounted_list_has_no_totals_and_no_last_link() {
        let headers = headers(
            &page(3, 100),
            PagePosition::Uncounted {
                more: true,
                beyond: false,
            },
            "http://h/x",
            "",
        );
        assert_eq!(value(&headers, "X-Total"), None);
        assert_eq!(value(&headers, "X-Total-Pages"), None);
        let link = value(&headers, "Link").expect("links");
        assert!(
            link.contains("rel=\"next\"") && !link.contains("rel=\"last\""),
            "{link}"
        );
    }

    #[test]
    fn long_query_is_repeated_in_one_link() {
        let query = format!("search={}", "x".repeat(6_000));
        let link = |number, total| {
            let headers = headers(
                &page(number, 1),
                PagePosition::Counted(total),
                "http://h/x",
                &query,
            );
            value(&headers, "Link")
        };
        let next = format!("<http://h/x?page=3&per_page=1&{query}>; rel=\"next\"");
        assert_eq!(link(2, 3), Some(next));
        assert_eq!(link(3, 3), None);
    }

    #[test]
    fn keyset_page_has_only_next_link() {
        let query = "pagination=keyset&id_before=90&order_by=id";
        let headers = headers(
            &page(1, 20),
            PagePosition::Keyset(Some(("id_before", 70))),
            "http://h/x",
            query,
        );
        let expected = "<http://h/x?pagination=keyset&order_by=id&id_before=70>; rel=\"next\"";
        assert_eq!(
            headers,
            [("Links", expected.to_owned()), ("Link", expected.to_owned())]
        );
        assert_eq!(
            self::headers(&page(1, 20), PagePosition::Keyset(None), "http://h/x", query),
            []
        );
    }

    #[test]
    fn filters_of_the_body_are_added_and_override_the_query() {
        let query = "search=old&order_by=id&topic%5B%5D=x&private_token=secret";
        let body = json!({"search": "new", "topic": ["a", "b"], "page": 3, "per_page": 5, "sudo": "root"});
        let link = link_with_body(PagePosition::Counted(3), query, &body).expect("a link");
        let mut pairs: Vec<&str> = link.split(['?', '&']).skip(3).collect();
        pairs.sort_unstable();
        assert!(link.starts_with("http://h/x?page=1&per_page=20&"), "{link}");
        assert_eq!(
            pairs,
            ["order_by=id", "search=new", "topic%5B%5D=a", "topic%5B%5D=b"]
        );
    }

    #[test]
    fn keyset_link_contains_filters_of_the_body() {
        let body = json!({"pagination": "keyset", "id_before": 90, "per_page": 5});
        let rest = PagePosition::Keyset(Some(("id_before", 70)));
        let expected = "http://h/x?order_by=id&per_page=5&pagination=keyset&id_before=70";
        assert_eq!(
            link_with_body(rest, "order_by=id", &body).as_deref(),
            Some(expected)
        );
    }

    #[test]
    fn links_that_cannot_contain_the_filters_of_the_body_are_omitted() {
        let rest = || PagePosition::Keyset(Some(("id_before", 70)));
        for (query, search) in [
            (String::new(), "x".repeat(9_000)),
            (format!("order_by=id&x={}", "y".repeat(4_000)), "x".repeat(5_000)),
        ] {
            let body = json!({ "search": search });
            assert_eq!(link_with_body(PagePosition::Counted(50), &query, &body), None);
            assert_eq!(link_with_body(rest(), &query, &body), None);
        }
    }
}
