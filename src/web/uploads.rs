//! Uploaded files at `/<namespace>/<project>/uploads/<secret>/<name>`, and pictures of projects at
//! `/uploads/-/system/project/avatar/<id>/<name>`, under the project's own rules: whoever may see the project may read
//! them.

use percent_encoding::percent_decode_str;
use poem::http::{Method, StatusCode};
use poem::{Endpoint, IntoResponse, Middleware, Request, Response, Result};

use crate::api::{credentials, download, failure};
use crate::error::Error;
use crate::services::access::ProjectAccess;
use crate::services::{Backend, authentication, projects, uploads};

/// Answers requests for uploaded files, and passes on all others.
pub struct Uploads {
    /// What the services work with.
    pub backend: Backend,
}

impl<E: Endpoint> Middleware<E> for Uploads {
    type Output = UploadsEndpoint<E>;

    fn transform(&self, inner: E) -> Self::Output {
        UploadsEndpoint {
            inner,
            backend: self.backend.clone(),
        }
    }
}

/// See [`Uploads`].
pub struct UploadsEndpoint<E> {
    inner: E,
    backend: Backend,
}

impl<E: Endpoint> Endpoint for UploadsEndpoint<E> {
    type Output = Response;

    async fn call(&self, request: Request) -> Result<Response> {
        let read = matches!(*request.method(), Method::GET | Method::HEAD);
        let target = Target::of(request.uri().path()).filter(|_| read);
        let Some(target) = target else {
            return self.inner.call(request).await.map(IntoResponse::into_response);
        };
        let answer = self.answer(&target, &request).await;
        Ok(answer.unwrap_or_else(|error| failure::answer(&error)))
    }
}

impl<E> UploadsEndpoint<E> {
    async fn answer(&self, target: &Target, request: &Request) -> crate::error::Result<Response> {
        let caller = authentication::identify(&self.backend, credentials::of(request)?).await?;
        if !caller.covers(&["api", "read_api"]) {
            return Err(Error::InsufficientScope(vec!["api", "read_api"]));
        }
        let (backend, project) = (&self.backend, &target.project);
        let access = ProjectAccess::find(backend, caller, project).await?;
        let found = match &target.secret {
            Some(secret) => uploads::open(backend, &access, secret, &target.file_name).await?,
            None => projects::avatar(backend, &access, &target.file_name).await?,
        };
        Ok(download::render(found, StatusCode::OK, request.headers()))
    }
}

/// What a path names.
#[derive(Debug, PartialEq, Eq)]
struct Target {
    /// Number or full path of the project.
    project: String,
    /// The secret of an uploaded file; absent for the picture of the project.
    secret: Option<String>,
    file_name: String,
}

impl Target {
    /// Reads the raw path of a request; `None` when it is neither an uploaded file's nor a picture's.
    fn of(path: &str) -> Option<Self> {
        let decoded = |text: &str| percent_decode_str(text).decode_utf8().ok().map(String::from);
        let (rest, file_name) = path.strip_prefix('/')?.rsplit_once('/')?;
        let file_name = decoded(file_name).filter(|name| !name.is_empty())?;
        let (rest, last) = rest.rsplit_once('/')?;
        if rest == "uploads/-/system/project/avatar" {
            let number = !last.is_empty() && last.bytes().all(|byte| byte.is_ascii_digit());
            return number.then(|| Self {
                project: last.to_owned(),
                secret: None,
                file_name,
            });
        }
        let project = rest.strip_suffix("/uploads")?;
        let hexadecimal = last.len() == 32 && last.bytes().all(|byte| byte.is_ascii_hexdigit());
        if !hexadecimal || matches!(project.split('/').next()?, "api" | "-" | "docs") {
            return None;
        }
        let project = decoded(project).filter(|path| path.contains('/') && !path.contains('\0'))?;
        Some(Self {
            project,
            secret: Some(last.to_owned()),
            file_name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "66dbcd21ec5d24ed6ea225176098d52b";

    #[test]
    fn a_path_names_project_secret_and_file() {
        let found = Target::of(&format!("/a/b%20c/d/uploads/{SECRET}/%C3%BC.png")).expect("a file");
        assert_eq!(
            (found.project.as_str(), found.file_name.as_str()),
            ("a/b c/d", "ü.png")
        );
        assert_eq!(found.secret.as_deref(), Some(SECRET));
        let picture = Target::of("/uploads/-/system/project/avatar/13/a.png").expect("a picture");
        assert_eq!((picture.project.as_str(), picture.secret), ("13", None));
    }

    #[test]
    fn other_paths_are_passed_on() {
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
            "/uploads/-/system/user/avatar/1/a.png".to_owned(),
        ] {
            assert_eq!(Target::of(&path), None, "{path}");
        }
    }
}
