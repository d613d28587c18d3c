//! Addresses of project and user pages that programs read.
//!
//! - `/<namespace>/<project>/-/archive/<ref>/<name>.tar.gz` and `/<namespace>/<project>/-/raw/<ref>/<path>` return an
//!   archive and a file. A ref can contain slashes.
//! - `/<namespace>/<project>/-/releases/...` leads to assets and evidence of releases ([`releases`]).
//! - Any path with `?go-get=1` returns the address of the repository for the `go` command.
//! - `/<username>.keys` returns the public SSH keys of a user, `/<username>.gpg` the OpenPGP keys.

mod releases;

use domain::accounts::users::{gpg_keys, keys};
use domain::code::{files, repositories};
use domain::identity::access::ProjectAccess;
use domain::identity::{authentication, git_access};
use domain::kernel::Backend;
use domain::kernel::caller::Caller;
use domain::kernel::error::{Error, Result};
use domain::kernel::urls;
use percent_encoding::percent_decode_str;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response};

use crate::api::{credentials, download, error_response, request_rate};
use crate::views::code::{archive, file};
use crate::views::html::escape;
use crate::web::git_http;
use releases::ReleasePart;

/// Maximum number of segments of a ref in the address of a file.
const MAX_REF_SEGMENTS: usize = 10;
/// Maximum number of segments of a project path.
const MAX_PROJECT_SEGMENTS: usize = 21;
/// Scopes of tokens that can read files.
const SCOPES: [&str; 3] = ["api", "read_api", "read_repository"];

/// Middleware that handles these addresses and forwards all other requests.
pub struct PageMiddleware {
    /// The backend of the services.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for PageMiddleware {
    type Output = PagesEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        PagesEndpoint {
            inner,
            backend: self.backend.clone(),
        }
    }
}

/// See [`PageMiddleware`].
pub struct PagesEndpoint<E> {
    inner: E,
    backend: Backend,
}

impl<E: Endpoint> Endpoint for PagesEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> poem::Result<Response> {
        let is_read = matches!(*request.method(), Method::GET | Method::HEAD);
        let uri = request.uri();
        let page = PageRequest::of(uri.path(), uri.query().unwrap_or_default()).filter(|_| is_read);
        let Some(page) = page else {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        };
        // Boxed, because the futures of all requests contain this one.
        let answer = Box::pin(answer(&self.backend, page, &request)).await;
        Ok(answer.unwrap_or_else(|error| error_response::render(&error)))
    }
}

/// A request of one of the addresses.
#[derive(Debug, PartialEq, Eq)]
enum PageRequest {
    /// An archive of a project.
    Archive {
        /// The full path of the project.
        project: String,
        /// The ref.
        reference: String,
        /// The format.
        format: repositories::ArchiveFormat,
    },
    /// A file of a project.
    Raw {
        /// The full path of the project.
        project: String,
        /// The segments of the ref and of the path of the file.
        segments: Vec<String>,
    },
    /// A part of a release of a project.
    Release {
        /// The full path of the project.
        project: String,
        /// The part.
        part: ReleasePart,
    },
    /// The address of the repository for the `go` command.
    GoModule {
        /// The segments of the import path, which can continue in the repository.
        segments: Vec<String>,
    },
    /// The SSH keys of the user with this name.
    Keys(String),
    /// The OpenPGP keys of the user with this name.
    GpgKeys(String),
}

impl PageRequest {
    /// Parses the raw path and query of a request; `None` for other addresses.
    fn of(path: &str, query: &str) -> Option<Self> {
        let path = path.strip_prefix('/')?;
        let first = path.split('/').next()?;
        if matches!(first, "api" | "-" | "docs" | "oauth" | "users" | "v2") {
            return None;
        }
        let decoded = |text: &str| {
            let text = percent_decode_str(text).decode_utf8().ok()?;
            (!text.is_empty() && !text.contains('\0')).then(|| text.into_owned())
        };
        let segments = |path: &str| path.split('/').map(decoded).collect::<Option<Vec<String>>>();
        if query.split('&').any(|pair| pair == "go-get=1") {
            let segments = segments(path.trim_end_matches('/'))?;
            return (segments.len() > 1).then_some(Self::GoModule { segments });
        }
        let of_user = |suffix| path.strip_suffix(suffix).filter(|name| !name.contains('/'));
        if let Some(name) = of_user(".keys") {
            return decoded(name).map(Self::Keys);
        }
        if let Some(name) = of_user(".gpg") {
            return decoded(name).map(Self::GpgKeys);
        }
        let (project, page) = path.split_once("/-/")?;
        let project = decoded(project).filter(|project| project.contains('/'))?;
        let (kind, rest) = page.split_once('/')?;
        match kind {
            "archive" => {
                let (reference, name) = rest.rsplit_once('/')?;
                let reference = decoded(reference)?;
                let format = archive_format(name)?;
                Some(Self::Archive {
                    project,
                    reference,
                    format,
                })
            }
            "raw" => {
                let segments = segments(rest).filter(|segments| segments.len() > 1)?;
                Some(Self::Raw { project, segments })
            }
            "releases" => {
                let part = ReleasePart::of(rest)?;
                Some(Self::Release { project, part })
            }
            _ => None,
        }
    }
}

/// Returns the format of an archive by its file name.
fn archive_format(name: &str) -> Option<repositories::ArchiveFormat> {
    use repositories::ArchiveFormat;
    let formats = [
        (".tar.gz", ArchiveFormat::TarGz),
        (".tgz", ArchiveFormat::TarGz),
        (".tar.bz2", ArchiveFormat::TarBz2),
        (".tbz", ArchiveFormat::TarBz2),
        (".tbz2", ArchiveFormat::TarBz2),
        (".tb2", ArchiveFormat::TarBz2),
        (".bz2", ArchiveFormat::TarBz2),
        (".zip", ArchiveFormat::Zip),
        (".tar", ArchiveFormat::Tar),
    ];
    let found = formats
        .into_iter()
        .find(|(suffix, _)| name.len() > suffix.len() && name.ends_with(suffix));
    found.map(|(_, format)| format)
}

async fn answer(backend: &Backend, page: PageRequest, request: &Request) -> Result<Response> {
    match page {
        PageRequest::Archive {
            project,
            reference,
            format,
        } => {
            let access = project_access(backend, request, &project).await?;
            let selection = repositories::ArchiveSelection {
                revision: Some(reference),
                path: None,
                excluded_paths: Vec::new(),
                format,
            };
            let created = repositories::create_archive(backend, &access, selection).await?;
            let found = archive::download(created);
            Ok(download::render(found, StatusCode::OK, request.headers()))
        }
        PageRequest::Raw { project, segments } => {
            let access = project_access(backend, request, &project).await?;
            raw_file(backend, &access, &segments, request).await
        }
        PageRequest::Release { project, part } => {
            let access = project_access(backend, request, &project).await?;
            releases::answer(backend, &access, part).await
        }
        PageRequest::GoModule { segments } => go_module(backend, &segments, request).await,
        PageRequest::Keys(username) => {
            count_anonymous(request)?;
            Ok(plain_text(keys::authorized_keys(backend, &username).await?))
        }
        PageRequest::GpgKeys(username) => {
            count_anonymous(request)?;
            Ok(plain_text(gpg_keys::armored_keys(backend, &username).await?))
        }
    }
}

/// Counts a request of a page without a caller for its address, and limits the request to the address's share of the
/// database connections.
fn count_anonymous(request: &Request) -> Result<()> {
    request_rate::count(request, None)?;
    request_rate::use_database_share(request, &Caller::anonymous());
    Ok(())
}

fn plain_text(text: String) -> Response {
    Response::builder()
        .content_type("text/plain; charset=utf-8")
        .body(text)
}

/// Returns the project whose code the caller can read.
async fn project_access(backend: &Backend, request: &Request, project: &str) -> Result<ProjectAccess> {
    let identified = authentication::identify(backend, credentials::of(request)?).await;
    request_rate::count(request, identified.as_ref().ok())?;
    let caller = identified?;
    request_rate::use_database_share(request, &caller);
    if !caller.covers(&SCOPES) {
        return Err(Error::InsufficientScope(SCOPES.to_vec()));
    }
    let access = ProjectAccess::find(backend, caller, project).await?;
    match access.can_read_code() {
        true => Ok(access),
        false => Err(Error::not_found("Project")),
    }
}

/// Returns a file. The shortest ref that exists and contains the file counts.
async fn raw_file(
    backend: &Backend,
    access: &ProjectAccess,
    segments: &[String],
    request: &Request,
) -> Result<Response> {
    for length in 1..segments.len().min(MAX_REF_SEGMENTS + 1) {
        let (reference, path) = segments.split_at(length);
        let found = match files::get(backend, access, path.join("/"), reference.join("/")).await {
            Err(Error::NotFound(_)) => continue,
            found => found?,
        };
        let (content, is_text) = files::open(backend, access, &found).await?;
        let found = file::raw(&found, content, is_text);
        return Ok(download::render(found, StatusCode::OK, request.headers()));
    }
    Err(Error::not_found("File"))
}

/// Returns the page by which the `go` command finds the repository of a module. For a path without a visible project,
/// the page names the first two segments, so it does not reveal which projects exist.
async fn go_module(backend: &Backend, segments: &[String], request: &Request) -> Result<Response> {
    let identified = git_access::identify(backend, git_http::credentials(request)?).await;
    request_rate::count(request, identified.as_ref().ok())?;
    let caller = identified?;
    request_rate::use_database_share(request, &caller);
    let found = visible_project(backend, &caller, segments).await?;
    let path = match &found {
        Some(access) => urls::project_path(&access.namespace, &access.project),
        None => segments.iter().take(2).cloned().collect::<Vec<_>>().join("/"),
    };
    let base = &backend.instance.base_url;
    let host = base.split_once("://").map_or(base.as_str(), |(_, host)| host);
    let (module, repository) = (
        escape(&format!("{host}/{path}")),
        escape(&format!("{base}/{path}.git")),
    );
    let page = format!(
        "<!DOCTYPE html>\n<html><head><meta name=\"go-import\" content=\"{module} git {repository}\"></head>\
         <body>go get {module}</body></html>\n"
    );
    Ok(Response::builder()
        .content_type("text/html; charset=utf-8")
        .header("Content-Security-Policy", "default-src 'none'")
        .body(page))
}

/// Returns the project whose path is the start of a path, if the caller can see it.
async fn visible_project(
    backend: &Backend,
    caller: &Caller,
    segments: &[String],
) -> Result<Option<ProjectAccess>> {
    for length in 2..=segments.len().min(MAX_PROJECT_SEGMENTS) {
        let Some((path, _)) = segments.split_at_checked(length) else {
            break;
        };
        match ProjectAccess::find(backend, caller.clone(), &path.join("/")).await {
            Err(Error::NotFound(_)) => {}
            found => return found.map(Some),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_parsed() {
        use repositories::ArchiveFormat;
        let archive = |reference: &str, format| {
            Some(PageRequest::Archive {
                project: "g/p".to_owned(),
                reference: reference.to_owned(),
                format,
            })
        };
        for (path, expected) in [
            (
                "/g/p/-/archive/main/p-main.tar.gz",
                archive("main", ArchiveFormat::TarGz),
            ),
            ("/g/p/-/archive/a/b/x.zip", archive("a/b", ArchiveFormat::Zip)),
            ("/g/p/-/archive/v1%2B2/x.tar", archive("v1+2", ArchiveFormat::Tar)),
        ] {
            assert_eq!(PageRequest::of(path, ""), expected, "{path}");
        }
        let segments = ["main", "a b", "c.txt"].map(str::to_owned).to_vec();
        let project = "g/s/p".to_owned();
        assert_eq!(
            PageRequest::of("/g/s/p/-/raw/main/a%20b/c.txt", "inline=false"),
            Some(PageRequest::Raw { project, segments })
        );
        let segments = ["g", "p", "sub"].map(str::to_owned).to_vec();
        assert_eq!(
            PageRequest::of("/g/p/sub", "a=b&go-get=1"),
            Some(PageRequest::GoModule { segments })
        );
        assert_eq!(
            PageRequest::of("/ada.keys", ""),
            Some(PageRequest::Keys("ada".to_owned()))
        );
        assert_eq!(
            PageRequest::of("/ada.gpg", ""),
            Some(PageRequest::GpgKeys("ada".to_owned()))
        );
    }

    #[test]
    fn other_addresses_are_forwarded() {
        for (path, query) in [
            ("/", ""),
            ("/g/p", ""),
            ("/g", "go-get=1"),
            ("/api/v4/projects", "go-get=1"),
            ("/g/p/-/raw/main", ""),
            ("/g/p/-/raw/main//x", ""),
            ("/g/p/-/raw/main/%00", ""),
            ("/g/p/-/archive/main/p.rar", ""),
            ("/g/p/-/archive/p.zip", ""),
            ("/g/-/archive/main/p.zip", ""),
            ("/g/p/-/blob/main/x", ""),
            ("/g/p.keys", ""),
            ("/g/p.gpg", ""),
            ("/.keys", ""),
            ("/-/x.keys", ""),
        ] {
            assert_eq!(PageRequest::of(path, query), None, "{path}?{query}");
        }
    }
}
