//! Uploaded files at `/<namespace>/<project>/uploads/<secret>/<name>`, and avatars at
//! `/uploads/-/system/<kind>/avatar/<id>/<name>`. A file is readable by callers who can see its project or
//! group. Avatars of users are public.

use domain::accounts::{avatars, uploads, users};
use domain::identity::access::{GroupAccess, ProjectAccess};
use domain::identity::authentication;
use domain::kernel::Backend;
use domain::kernel::error::Error;
use percent_encoding::percent_decode_str;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::{credentials, download, error_response, request_rate};

/// Middleware that handles requests for uploaded files and forwards all others.
pub struct UploadMiddleware {
    /// The backend of the services.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for UploadMiddleware {
    type Output = UploadsEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        UploadsEndpoint {
            inner,
            backend: self.backend.clone(),
        }
    }
}

/// See [`UploadMiddleware`].
pub struct UploadsEndpoint<E> {
    inner: E,
    backend: Backend,
}

impl<E: Endpoint> Endpoint for UploadsEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let target = FileRequest::of(request.uri().path()).filter(|_| read);
        let Some(target) = target else {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        };
        let answer = self.answer(&target, &request).await;
        Ok(answer.unwrap_or_else(|error| error_response::render(&error)))
    }
}

impl<E> UploadsEndpoint<E> {
    async fn answer(
        &self,
        target: &FileRequest,
        request: &Request,
    ) -> domain::kernel::error::Result<Response> {
        let identified = authentication::identify(&self.backend, credentials::of(request)?).await;
        request_rate::count(request, identified.as_ref().ok())?;
        let caller = identified?;
        request_rate::use_database_share(request, &caller);
        if !caller.covers(&["api", "read_api"]) {
            return Err(Error::InsufficientScope(vec!["api", "read_api"]));
        }
        let (backend, name) = (&self.backend, &target.file_name);
        let found = match &target.what {
            FileKind::File { project, secret } => {
                let access = ProjectAccess::find(backend, caller, project).await?;
                uploads::open(backend, &access, secret, name).await?
            }
            FileKind::ProjectPicture(id) => {
                let access = ProjectAccess::find(backend, caller, &id.to_string()).await?;
                avatars::open(backend, &access, name).await?
            }
            FileKind::GroupPicture(id) => {
                let access = GroupAccess::find(backend, caller, &id.to_string()).await?;
                avatars::open(backend, &access, name).await?
            }
            FileKind::UserPicture(id) => users::avatar(backend, *id, name).await?,
        };
        Ok(download::render(found, StatusCode::OK, request.headers()))
    }
}

/// Target of a path.
#[derive(Debug, PartialEq, Eq)]
struct FileRequest {
    what: FileKind,
    file_name: String,
}

/// Kind of the file.
#[derive(Debug, PartialEq, Eq)]
enum FileKind {
    /// A file that was uploaded to a project.
    File {
        /// Full path of the project.
        project: String,
        /// The secret of the file.
        secret: String,
    },
    /// The avatar of the project with this ID.
    ProjectPicture(i64),
    /// The avatar of the group with this ID.
    GroupPicture(i64),
    /// The avatar of the user with this ID.
    UserPicture(i64),
}

impl FileRequest {
    /// Parses the raw path of a request; `None` if it is neither an uploaded file nor an avatar.
    fn of(path: &str) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let (rest, file_name) = path.strip_prefix('/')?.rsplit_once('/')?;
        let file_name = decoded(file_name).filter(|name| !name.is_empty())?;
        let (rest, last) = rest.rsplit_once('/')?;
        if let Some(owner_path) = rest.strip_prefix("uploads/-/system/") {
            let id: fn(i64) -> FileKind = match owner_path {
                "project/avatar" => FileKind::ProjectPicture,
                "group/avatar" => FileKind::GroupPicture,
                "user/avatar" => FileKind::UserPicture,
                _ => return None,
            };
            let digits = last.bytes().all(|byte| byte.is_ascii_digit());
            let what = last.parse().ok().filter(|_| digits).map(id)?;
            return Some(Self { what, file_name });
        }
        let project = rest.strip_suffix("/uploads")?;
        let hexadecimal = last.len() == 32 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hexadecimal || matches!(project.split('/').next()?, "api" | "-" | "docs") {
            return None;
        }
        let project = decoded(project).filter(|path| path.contains('/') && !path.contains('\0'))?;
        let secret = last.to_owned();
        Some(Self {
            what: FileKind::File { project, secret },
            file_name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "66dbcd21ec5d24ed6ea225176098d52b";

    #[test]
    fn upload_path_has_project_secret_and_file_name() {
        let found = FileRequest::of(&format!("/a/b%20c/d/uploads/{SECRET}/%C3%BC.png")).expect("a file");
        let (project, secret) = ("a/b c/d".to_owned(), SECRET.to_owned());
        assert_eq!(
            (found.what, found.file_name.as_str()),
            (FileKind::File { project, secret }, "ü.png")
        );
        for (kind, what) in [
            ("project", FileKind::ProjectPicture(13)),
            ("group", FileKind::GroupPicture(13)),
            ("user", FileKind::UserPicture(13)),
        ] {
            let picture = FileRequest::of(&format!("/uploads/-/system/{kind}/avatar/13/a.png"));
            assert_eq!(picture.expect("a picture").what, what);
        }
    }

    #[test]
    fn other_paths_are_not_uploads() {
        for path in [
            "/".to_owned(),
            format!("/uploads/{SECRET}/a"),
            format!("/a/uploads/{SECRET}/a"),
            format!("/a/b/uploads/{SECRET}/"),
            format!("/a/b/uploads/{SECRET}x/a"),
            format!("/a/b/uploads/{SECRET}/a/b"),
            format!("/api/v4/uploads/{SECRET}/a"),
            format!("/a/b%00/uploads/{SECRET}/a"),
            "/uploads/-/system/project/avatar/x/a.png".to_owned(),
            "/uploads/-/system/note/avatar/1/a.png".to_owned(),
            "/uploads/-/system/user/avatar/+1/a.png".to_owned(),
            "/uploads/-/system/user/avatar/99999999999999999999/a.png".to_owned(),
        ] {
            assert_eq!(FileRequest::of(&path), None, "{path}");
        }
    }
}
