//! The simple index of Python packages: HTML (PEP 503) and JSON (PEP 691).

use std::fmt::Write;

use domain::kernel::download::{Download, DownloadContent};
use domain::kernel::urls::encode_segment;
use domain::packages::pypi::PythonPackageDetail;
use serde_json::{Value, json};

use crate::views::html::escape;

/// Media type of the HTML.
const HTML: &str = "text/html; charset=utf-8";
/// Media type of the JSON.
const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// Returns the index of all packages. `index` is the URL of the packages, without a trailing slash.
#[must_use]
pub fn package_list(index: &str, names: &[String]) -> Download {
    let links = names.iter().map(|name| {
        let url = format!("{index}/simple/{}/", encode_segment(name));
        link(&url, None, name)
    });
    let projects: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
    let document = json!({ "meta": { "api-version": "1.0" }, "projects": projects });
    alternatives("Simple index", links, &document)
}

/// Returns the links to the files of a package. `index` as in [`package_list`].
#[must_use]
pub fn package_files(index: &str, package: &PythonPackageDetail) -> Download {
    let url = |sha256: &str, file_name: &str| format!("{index}/files/{sha256}/{}", encode_segment(file_name));
    let links = package.files.iter().map(|file| {
        let url = format!("{}#sha256={}", url(&file.sha256, &file.file_name), file.sha256);
        link(&url, file.requires_python.as_deref(), &file.file_name)
    });
    let files = package.files.iter().map(|file| {
        let mut entry = json!({
            "filename": file.file_name,
            "url": url(&file.sha256, &file.file_name),
            "hashes": { "sha256": file.sha256 },
            "size": file.size,
        });
        if let Some(requires_python) = &file.requires_python {
            entry["requires-python"] = json!(requires_python);
        }
        entry
    });
    let document = json!({
        "meta": { "api-version": "1.0" },
        "name": package.name,
        "files": files.collect::<Vec<_>>(),
    });
    alternatives(&format!("Links for {}", package.name), links, &document)
}

fn alternatives(title: &str, links: impl Iterator<Item = String>, document: &Value) -> Download {
    let title = escape(title);
    let mut html = format!(
        "<!DOCTYPE html>\n<html>\n<head>\n<meta name=\"pypi:repository-version\" content=\"1.0\">\n\
         <title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n"
    );
    html.extend(links);
    html.push_str("</body>\n</html>\n");
    Download {
        content_type: HTML.to_owned(),
        file_name: "index".to_owned(),
        attachment: false,
        etag: None,
        headers: Vec::new(),
        content: DownloadContent::Alternatives(vec![
            (HTML, html.into()),
            (JSON, document.to_string().into()),
        ]),
    }
}

fn link(url: &str, requires_python: Option<&str>, text: &str) -> String {
    let mut link = format!("<a href=\"{}\"", escape(url));
    if let Some(requires_python) = requires_python {
        // Writing to a `String` does not fail.
        let _ = write!(link, " data-requires-python=\"{}\"", escape(requires_python));
    }
    let _ = writeln!(link, ">{}</a><br>", escape(text));
    link
}

#[cfg(test)]
mod tests {
    use storage::entities::now;
    use storage::entities::package_files::Model;

    use super::*;

    fn rendered(download: Download) -> (String, Value) {
        let DownloadContent::Alternatives(alternatives) = download.content else {
            panic!("one content");
        };
        let [(HTML, html), (JSON, json)] = &alternatives[..] else {
            panic!("{} contents", alternatives.len());
        };
        let html = String::from_utf8(html.to_vec()).expect("a text");
        (html, serde_json::from_slice(json).expect("JSON"))
    }

    fn file(file_name: &str, requires_python: Option<&str>) -> Model {
        Model {
            id: 1,
            package_id: 1,
            file_name: file_name.to_owned(),
            distinct_name: None,
            size: 7,
            md5: "m".to_owned(),
            sha1: "s".to_owned(),
            sha256: "abc".to_owned(),
            sha512: None,
            requires_python: requires_python.map(str::to_owned),
            created_at: now(),
        }
    }

    #[test]
    fn index_lists_names_with_absolute_urls() {
        let (html, json) = rendered(package_list(
            "https://h/pypi",
            &["a".to_owned(), "b-c".to_owned()],
        ));
        assert!(
            html.contains("<a href=\"https://h/pypi/simple/a/\">a</a><br>\n"),
            "{html}"
        );
        assert!(
            html.contains("<a href=\"https://h/pypi/simple/b-c/\">b-c</a><br>\n"),
            "{html}"
        );
        assert_eq!(
            json,
            json!({"meta": {"api-version": "1.0"}, "projects": [{"name": "a"}, {"name": "b-c"}]})
        );
    }

    #[test]
    fn links_contain_digest_and_escaped_python_version() {
        let package = PythonPackageDetail {
            name: "a".to_owned(),
            files: vec![
                file("a-1.0+x.tar.gz", Some(">=3.7,<\"4\"")),
                file("a-2.0.whl", None),
            ],
        };
        let (html, json) = rendered(package_files("https://h/pypi", &package));
        let first = "<a href=\"https://h/pypi/files/abc/a-1.0%2Bx.tar.gz#sha256=abc\" \
                     data-requires-python=\"&gt;=3.7,&lt;&quot;4&quot;\">a-1.0+x.tar.gz</a><br>\n";
        assert!(html.contains(first), "{html}");
        assert!(
            html.contains("<a href=\"https://h/pypi/files/abc/a-2.0.whl#sha256=abc\">a-2.0.whl</a><br>\n")
        );
        assert_eq!(
            json["files"],
            json!([
                {
                    "filename": "a-1.0+x.tar.gz",
                    "url": "https://h/pypi/files/abc/a-1.0%2Bx.tar.gz",
                    "hashes": {"sha256": "abc"},
                    "size": 7,
                    "requires-python": ">=3.7,<\"4\"",
                },
                {
                    "filename": "a-2.0.whl",
                    "url": "https://h/pypi/files/abc/a-2.0.whl",
                    "hashes": {"sha256": "abc"},
                    "size": 7,
                },
            ])
        );
        assert_eq!(json["name"], "a");
    }

    #[test]
    fn markup_in_names_is_escaped() {
        let (html, _) = rendered(package_list("https://h/\"><x", &["<script>".to_owned()]));
        assert!(!html.contains("<script>") && !html.contains("\"><x"), "{html}");
    }
}
