//! The simple index of Python packages: HTML (PEP 503) and JSON (PEP 691).

use std::io::{self, Write};
use std::sync::Arc;

use domain::kernel::download::{Download, DownloadContent, WriteContent};
use domain::kernel::urls::encode_segment;
use domain::packages::client_lists::ListedFile;
use domain::packages::pypi::PythonPackageDetail;
use serde::{Serialize, Serializer};

use crate::views::html::escape;

/// Media type of the HTML.
const HTML: &str = "text/html; charset=utf-8";
/// Media type of the JSON.
const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// Returns the index of all packages. `index` is the URL of the packages, without a trailing slash.
#[must_use]
pub fn package_list(index: &str, names: Vec<String>) -> Download {
    alternatives(PackageList {
        index: index.to_owned(),
        names,
    })
}

/// Returns the links to the files of a package. `index` as in [`package_list`].
#[must_use]
pub fn package_files(index: &str, package: PythonPackageDetail) -> Download {
    alternatives(FileList {
        index: index.to_owned(),
        package,
    })
}

/// A page of the index, which is written in the media type that the client prefers.
trait IndexPage: Send + Sync + 'static {
    /// Returns the title.
    fn title(&self) -> String;

    /// Writes the links as HTML.
    fn write_links(&self, writer: &mut dyn Write) -> io::Result<()>;

    /// Writes the page as JSON.
    fn write_json(&self, writer: &mut dyn Write) -> io::Result<()>;
}

fn alternatives(page: impl IndexPage) -> Download {
    let page = Arc::new(page);
    let document = Arc::clone(&page);
    let html: WriteContent = Box::new(move |writer| write_html(&*page, writer));
    let json: WriteContent = Box::new(move |writer| document.write_json(writer));
    Download {
        content_type: HTML.to_owned(),
        file_name: "index".to_owned(),
        attachment: false,
        etag: None,
        headers: Vec::new(),
        content: DownloadContent::Alternatives(vec![(HTML, html), (JSON, json)]),
    }
}

fn write_html(page: &impl IndexPage, writer: &mut dyn Write) -> io::Result<()> {
    let title = escape(&page.title());
    write!(
        writer,
        "<!DOCTYPE html>\n<html>\n<head>\n<meta name=\"pypi:repository-version\" content=\"1.0\">\n\
         <title>{title}</title>\n</head>\n<body>\n<h1>{title}</h1>\n"
    )?;
    page.write_links(writer)?;
    writer.write_all(b"</body>\n</html>\n")
}

fn write_link(
    writer: &mut dyn Write,
    url: &str,
    requires_python: Option<&str>,
    text: &str,
) -> io::Result<()> {
    write!(writer, "<a href=\"{}\"", escape(url))?;
    if let Some(requires_python) = requires_python {
        write!(writer, " data-requires-python=\"{}\"", escape(requires_python))?;
    }
    writeln!(writer, ">{}</a><br>", escape(text))
}

/// Attributes of the API of the index.
#[derive(Serialize)]
struct Meta {
    #[serde(rename = "api-version")]
    api_version: &'static str,
}

/// Attributes of this server.
const META: Meta = Meta { api_version: "1.0" };

/// A list that is created while it is serialized.
struct Items<F>(F);

impl<F, I> Serialize for Items<F>
where
    F: Fn() -> I,
    I: Iterator<Item: Serialize>,
{
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq((self.0)())
    }
}

struct PackageList {
    index: String,
    names: Vec<String>,
}

#[derive(Serialize)]
struct PackageListDocument<P> {
    meta: Meta,
    projects: P,
}

#[derive(Serialize)]
struct ProjectEntry<'a> {
    name: &'a str,
}

impl IndexPage for PackageList {
    fn title(&self) -> String {
        "Simple index".to_owned()
    }

    fn write_links(&self, writer: &mut dyn Write) -> io::Result<()> {
        for name in &self.names {
            let url = format!("{}/simple/{}/", self.index, encode_segment(name));
            write_link(writer, &url, None, name)?;
        }
        Ok(())
    }

    fn write_json(&self, writer: &mut dyn Write) -> io::Result<()> {
        let document = PackageListDocument {
            meta: META,
            projects: Items(move || self.names.iter().map(|name| ProjectEntry { name })),
        };
        Ok(serde_json::to_writer(writer, &document)?)
    }
}

struct FileList {
    index: String,
    package: PythonPackageDetail,
}

#[derive(Serialize)]
struct FileListDocument<'a, F> {
    meta: Meta,
    name: &'a str,
    files: F,
}

#[derive(Serialize)]
struct FileEntry<'a> {
    filename: &'a str,
    url: String,
    hashes: Hashes<'a>,
    size: i64,
    #[serde(rename = "requires-python", skip_serializing_if = "Option::is_none")]
    requires_python: Option<&'a str>,
}

#[derive(Serialize)]
struct Hashes<'a> {
    sha256: &'a str,
}

impl FileList {
    fn url(&self, file: &ListedFile) -> String {
        let file_name = encode_segment(&file.file_name);
        format!("{}/files/{}/{file_name}", self.index, file.sha256)
    }

    fn entry<'a>(&self, file: &'a ListedFile) -> FileEntry<'a> {
        FileEntry {
            filename: &file.file_name,
            url: self.url(file),
            hashes: Hashes { sha256: &file.sha256 },
            size: file.size,
            requires_python: file.requires_python.as_deref(),
        }
    }
}

impl IndexPage for FileList {
    fn title(&self) -> String {
        format!("Links for {}", self.package.name)
    }

    fn write_links(&self, writer: &mut dyn Write) -> io::Result<()> {
        for file in &self.package.files {
            let url = format!("{}#sha256={}", self.url(file), file.sha256);
            write_link(writer, &url, file.requires_python.as_deref(), &file.file_name)?;
        }
        Ok(())
    }

    fn write_json(&self, writer: &mut dyn Write) -> io::Result<()> {
        let document = FileListDocument {
            meta: META,
            name: &self.package.name,
            files: Items(move || self.package.files.iter().map(move |file| self.entry(file))),
        };
        Ok(serde_json::to_writer(writer, &document)?)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rendered(download: Download) -> (String, Value) {
        let DownloadContent::Alternatives(alternatives) = download.content else {
            panic!("one content");
        };
        let mut written = alternatives.into_iter().map(|(media_type, write)| {
            let mut bytes = Vec::<u8>::new();
            write(&mut bytes).expect("content");
            (media_type, bytes)
        });
        let (Some((HTML, html)), Some((JSON, json)), None) = (written.next(), written.next(), written.next())
        else {
            panic!("other contents");
        };
        let html = String::from_utf8(html).expect("a text");
        (html, serde_json::from_slice(&json).expect("JSON"))
    }

    fn file(file_name: &str, requires_python: Option<&str>) -> ListedFile {
        ListedFile {
            file_name: file_name.to_owned(),
            size: 7,
            sha256: "abc".to_owned(),
            requires_python: requires_python.map(str::to_owned),
        }
    }

    #[test]
    fn index_lists_names_with_absolute_urls() {
        let (html, json) = rendered(package_list(
            "https://h/pypi",
            vec!["a".to_owned(), "b-c".to_owned()],
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
        let (html, json) = rendered(package_files("https://h/pypi", package));
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
        let (html, _) = rendered(package_list("https://h/\"><x", vec!["<script>".to_owned()]));
        assert!(!html.contains("<script>") && !html.contains("\"><x"), "{html}");
    }
}
