//! Finds the credentials in a request (specification 5), in the order the reference service tries them.

use poem::Request;
use poem::http::header::{AUTHORIZATION, COOKIE};
use serde_json::{Map, Value};

use crate::api::parameters;
use crate::error::Result;
use crate::services::authentication::{Credentials, Session};

/// The session cookie's name (specification 5).
pub const SESSION_COOKIE: &str = "_service_session";
/// The header that carries the token against cross-site requests.
pub const CSRF_HEADER: &str = "X-CSRF-Token";

/// What a request beside the contract's operations says of its sender.
///
/// # Errors
/// 400 for a query that is no UTF-8.
pub fn of(request: &Request) -> Result<Credentials> {
    let query = parameters::query(request.uri().query().unwrap_or_default())?;
    Ok(read(request, Some(&query), false))
}

/// What a request says of its sender; tokens of jobs are overlooked unless `takes_jobs`.
#[must_use]
pub fn read(request: &Request, query: Option<&Map<String, Value>>, takes_jobs: bool) -> Credentials {
    // What is no text stays in its place and fits nothing: to skip it would let the caller in as somebody else.
    let header = |name: &str| {
        let value = request.headers().get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let parameter = |name: &str| match query?.get(name)? {
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
    let bearer = || bearer(request);
    let private = filled(parameter("private_token")).or_else(|| filled(header("Private-Token")));
    // Tokens of OAuth applications stand in these two places only (specification 5).
    let open = private.is_none();
    let token = private
        .or_else(|| filled(bearer()))
        .or_else(|| filled(parameter("access_token")));
    let job = || filled(parameter("job_token")).or_else(|| filled(header("Job-Token")));
    let job = if takes_jobs { job() } else { None };
    let session = || {
        let secret = cookie(&header(COOKIE.as_str())?, SESSION_COOKIE)?.to_owned();
        let read_only = matches!(request.method().as_str(), "GET" | "HEAD");
        Some(Session {
            secret,
            csrf: header(CSRF_HEADER),
            read_only,
        })
    };
    let session = if token.is_none() && job.is_none() {
        session()
    } else {
        None
    };
    // Basic and the like are no way to sign in here, and neither is a scheme without a token. Beside other credentials
    // they are those of a proxy in between; alone they are the caller's, and to overlook them would answer as if nobody
    // had tried.
    let foreign = || {
        filled(header(AUTHORIZATION.as_str()))?;
        // Whatever it says fits no token: a token without a scheme is not one either.
        (session.is_none() && job.is_none()).then(String::new)
    };
    let token = token.or_else(foreign);
    Credentials {
        token,
        bearer: open,
        job,
        takes_jobs,
        session,
        sudo: filled(parameter("sudo")).or_else(|| filled(header("Sudo"))),
    }
}

/// The token of a request as a bearer's, where the contract takes no other.
#[must_use]
pub fn bearer(request: &Request) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

/// The value of a cookie in a `Cookie` header.
#[must_use]
pub fn cookie<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, v)| v)
}
