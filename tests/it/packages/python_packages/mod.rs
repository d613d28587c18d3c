//! Python packages: uploads, the index and files.

mod access;
mod groups;
mod refusals;

use reqwest::Method;
use reqwest::multipart::{Form, Part};
use sea_orm::{EntityTrait, PaginatorTrait};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use storage::entities::{package_blobs, package_files, packages};

use crate::support::spaces::project;
use crate::support::{ApiResponse, Client, TestServer, on_every_database};

/// Media type of the index in JSON.
const JSON: &str = "application/vnd.pypi.simple.v1+json";

/// Attributes of an upload.
pub struct Upload<'a> {
    pub fields: Vec<(&'a str, String)>,
    pub file: Option<(&'a str, Vec<u8>)>,
}

impl<'a> Upload<'a> {
    /// Returns the form that twine sends for a file.
    pub fn new(name: &str, version: &str, file_name: &'a str, content: &[u8]) -> Self {
        let fields = [
            (":action", "file_upload"),
            ("protocol_version", "1"),
            ("metadata_version", "2.1"),
            ("name", name),
            ("version", version),
            ("filetype", "bdist_wheel"),
            ("pyversion", "py3"),
            ("requires_python", ">=3.7"),
            ("summary", "A summary \u{1F600}"),
            ("description", "# Read me\nwith several lines"),
            ("classifiers", "Topic :: A"),
            ("classifiers", "Topic :: B"),
            ("sha256_digest", &hex::encode(Sha256::digest(content))),
            ("blake2_256_digest", "00"),
        ]
        .map(|(field, value)| (field, value.to_owned()));
        Self { fields: fields.to_vec(), file: Some((file_name, content.to_vec())) }
    }

    /// Replaces or removes a field.
    pub fn with(mut self, field: &'a str, value: Option<&str>) -> Self {
        self.fields.retain(|(name, _)| *name != field);
        self.fields.extend(value.map(|value| (field, value.to_owned())));
        self
    }

    pub async fn send(self, client: &Client, project: i64) -> ApiResponse {
        self.send_to(client, &format!("/projects/{project}/packages/pypi")).await
    }

    pub async fn send_to(self, client: &Client, path: &str) -> ApiResponse {
        let mut form = Form::new();
        for (name, value) in self.fields {
            form = form.text(name.to_owned(), value);
        }
        if let Some((file_name, content)) = self.file {
            form = form.part("content", Part::bytes(content).file_name(file_name.to_owned()));
        }
        client.send(client.request(Method::POST, path).multipart(form)).await
    }
}

/// Uploads a wheel whose content is its name.
pub async fn upload(client: &Client, project: i64, name: &str, version: &str) -> ApiResponse {
    let file_name = wheel(name, version);
    Upload::new(name, version, &file_name, file_name.as_bytes()).send(client, project).await
}

/// Returns the file name of a wheel.
pub fn wheel(name: &str, version: &str) -> String {
    format!("{}-{version}-py3-none-any.whl", name.replace(['-', '.'], "_"))
}

pub fn sha256(content: &[u8]) -> String {
    hex::encode(Sha256::digest(content))
}

/// Returns the targets of the links of an index.
fn links(html: &str) -> Vec<String> {
    let links = html.lines().filter_map(|line| line.strip_prefix("<a href=\"")?.split('"').next());
    links.map(str::to_owned).collect()
}

/// Returns the part of a URL below the API.
fn below_api(url: &str, server: &TestServer) -> String {
    let url = url.split('#').next().unwrap_or_default();
    url.strip_prefix(&format!("{}/api/v4", server.base)).expect("a URL of the server").to_owned()
}

/// Returns the numbers of packages, files and stored contents.
async fn counts(server: &TestServer) -> (u64, u64, u64) {
    let db = server.backend.database.read();
    (
        packages::Entity::find().count(db).await.expect("a count"),
        package_files::Entity::find().count(db).await.expect("a count"),
        package_blobs::Entity::find().count(db).await.expect("a count"),
    )
}

async fn uploaded_file_is_listed_and_downloaded(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let base = format!("/projects/{id}/packages/pypi");
    let content: Vec<u8> = (0..50_000_u32).map(|number| (number % 251) as u8).collect();
    let file_name = "analytical_engine-1.0-py3-none-any.whl";
    let sent = Upload::new("Analytical.Engine", "1.0", file_name, &content).send(&root, id).await.expect(201);
    assert_eq!(sent.json(), json!({ "message": "201 Created" }));
    let source = "Analytical.Engine-1.0.tar.gz";
    let sent = Upload::new("analytical-engine", "1.0", source, b"source").with("requires_python", None);
    // twine sends no trailing slash, but some users configure one.
    sent.send_to(&root, &format!("{base}/")).await.expect(201);

    let index = root.get(&format!("{base}/simple")).await.expect(200);
    assert_eq!(index.header("content-type"), "text/html; charset=utf-8");
    assert!(index.headers.get_all("vary").iter().any(|value| value == "Accept"));
    let url = format!("{}/api/v4{base}", server.base);
    assert_eq!(links(&index.text()), [format!("{url}/simple/analytical-engine/")]);
    let digests = [sha256(&content), sha256(b"source")];
    let expected = [
        format!("{url}/files/{}/{file_name}#sha256={}", digests[0], digests[0]),
        format!("{url}/files/{}/{source}#sha256={}", digests[1], digests[1]),
    ];
    for name in ["analytical-engine", "analytical-engine/", "Analytical_Engine", "ANALYTICAL.-_engine"] {
        let page = root.get(&format!("{base}/simple/{name}")).await.expect(200).text();
        assert_eq!(links(&page), expected, "{name}");
        assert!(page.contains(" data-requires-python=\"&gt;=3.7\">analytical_engine-1.0-py3"), "{page}");
        assert_eq!(page.matches("data-requires-python").count(), 1);
    }
    let whole = root.get(&below_api(&expected[0], &server)).await.expect(200);
    assert!(whole.body == content);
    assert_eq!(whole.header("content-type"), "application/octet-stream");
    assert!(whole.header("content-disposition").starts_with("attachment; "));
    assert_eq!(whole.header("x-checksum-sha256"), digests[0]);
    let path = below_api(&expected[0], &server);
    let part = root.clone().header("Range", "bytes=100-199").get(&path).await.expect(206);
    assert!(part.body == content[100..200]);
    root.clone().header("Range", "bytes=50000-").get(&path).await.expect(416);
    root.clone().header("If-None-Match", whole.header("etag")).get(&path).await.expect(304);
    root.get(&path.replace(&digests[0], &digests[0].to_uppercase())).await.expect(200);
    for wrong in [
        path.replace(&digests[0], &digests[1]),
        path.replace(&digests[0], "0"),
        path.replace(file_name, source),
        format!("{path}x"),
    ] {
        root.get(&wrong).await.expect(404);
    }
    assert_eq!(counts(&server).await, (1, 2, 2));
    let listed = root.get(&format!("/projects/{id}/packages")).await.expect(200).json();
    assert_eq!((&listed[0]["name"], &listed[0]["package_type"]), (&json!("Analytical.Engine"), &json!("pypi")));
}

async fn index_in_json_is_returned_on_request(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for name in ["b", "A.b", "c"] {
        upload(&root, id, name, "1.0").await.expect(201);
    }
    let base = format!("/projects/{id}/packages/pypi/simple");
    // pip and uv prefer JSON.
    let pip = format!("{JSON}, application/vnd.pypi.simple.v1+html; q=0.1, text/html; q=0.01");
    let client = root.clone().header("Accept", &pip);
    let index = client.get(&base).await.expect(200);
    assert_eq!(index.header("content-type"), JSON);
    let meta = json!({ "api-version": "1.0" });
    let names = json!([{ "name": "a-b" }, { "name": "b" }, { "name": "c" }]);
    assert_eq!(index.json(), json!({ "meta": meta, "projects": names }));
    // Other requests to the same URL are not answered with this response.
    let index = root.get(&base).await.expect(200);
    assert_eq!((index.header("content-type"), links(&index.text()).len()), ("text/html; charset=utf-8", 3));
    let found: Value = client.get(&format!("{base}/a_b")).await.expect(200).json();
    let file_name = wheel("A.b", "1.0");
    let digest = sha256(file_name.as_bytes());
    let url = format!("{}/api/v4/projects/{id}/packages/pypi/files/{digest}/{file_name}", server.base);
    let file = json!({
        "filename": file_name,
        "url": url,
        "hashes": { "sha256": digest },
        "size": file_name.len(),
        "requires-python": ">=3.7",
    });
    assert_eq!(found, json!({ "meta": meta, "name": "a-b", "files": [file] }));
    for accept in ["text/html", "*/*", "application/json"] {
        let page = root.clone().header("Accept", accept).get(&format!("{base}/b")).await.expect(200);
        assert_eq!(page.header("content-type"), "text/html; charset=utf-8", "{accept}");
    }
}

async fn empty_index_and_unknown_packages(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let base = format!("/projects/{id}/packages/pypi/simple");
    assert_eq!(links(&root.get(&base).await.expect(200).text()), Vec::<String>::new());
    for name in ["missing", "-a", "%00", "a%2Fb", "%3Cscript%3E", "..%2f"] {
        let refused = root.get(&format!("{base}/{name}")).await;
        assert!(matches!(refused.status, 400 | 404), "{name}: {}", refused.text());
    }
    let digest = sha256(b"x");
    for file_name in ["missing.whl", "%00", "..%2F..%2Fx", "a%00.whl"] {
        let refused = root.get(&format!("/projects/{id}/packages/pypi/files/{digest}/{file_name}")).await;
        assert!(matches!(refused.status, 400 | 404), "{file_name}: {}", refused.text());
    }
}

async fn concurrent_uploads_of_a_file_add_it_once(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    let uploads = (0..6).map(|number| {
        let root = root.clone();
        async move {
            let content = format!("content {number}");
            let sent = Upload::new("a", "1.0", "a-1.0-py3-none-any.whl", content.as_bytes());
            sent.send(&root, id).await.status
        }
    });
    let mut statuses = futures_util::future::join_all(uploads).await;
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 400, 400, 400, 400, 400]);
    assert_eq!(counts(&server).await, (1, 1, 1));
}

async fn deleted_package_is_not_in_the_index(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in ["1.0", "2.0"] {
        upload(&root, id, "a", version).await.expect(201);
    }
    let base = format!("/projects/{id}/packages/pypi/simple");
    for left in [1, 0] {
        let listed = root.get(&format!("/projects/{id}/packages")).await.expect(200).json();
        root.delete(&format!("/projects/{id}/packages/{}", listed[0]["id"])).await.expect(204);
        let page = root.get(&format!("{base}/a")).await;
        assert_eq!(page.status, if left == 0 { 404 } else { 200 });
        assert_eq!(links(&root.get(&base).await.expect(200).text()).len(), left);
    }
    upload(&root, id, "a", "1.0").await.expect(201);
}

async fn index_is_read_in_few_statements(server: TestServer) {
    let root = server.root();
    let id = project(&root, "work", json!({})).await;
    for version in 0..5 {
        upload(&root, id, "a", &format!("{version}.0")).await.expect(201);
    }
    let base = format!("/projects/{id}/packages/pypi/simple");
    for url in [base.clone(), format!("{base}/a")] {
        root.get(&url).await.expect(200);
        let before = server.statements();
        root.get(&url).await.expect(200);
        assert!(server.statements() - before <= 4, "{url}: {}", server.statements() - before);
    }
    // The limit on the number of rows omits the last names.
    let before = server.statements();
    root.get(&base).await.expect(200);
    let texts = server.statement_texts(before);
    assert!(texts.iter().any(|text| text.contains("GROUP BY") && text.contains("ORDER BY")), "{texts:?}");
}

on_every_database![
    uploaded_file_is_listed_and_downloaded,
    index_in_json_is_returned_on_request,
    empty_index_and_unknown_packages,
    concurrent_uploads_of_a_file_add_it_once,
    deleted_package_is_not_in_the_index,
    index_is_read_in_few_statements,
];
