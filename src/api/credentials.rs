//! Reads the credentials of a request. If there are several, the precedence is that of the reference service.

use domain::identity::authentication::{Credentials, SessionCookie};
use domain::kernel::error::Result;
use poem::Request;
use poem::http::header::{AUTHORIZATION, COOKIE};
use serde_json::{Map, Value};

use crate::api::parameters;

/// Name of the session cookie.
pub const SESSION_COOKIE: &str = "_service_session";
/// Header with the token against cross-site request forgery.
pub const CSRF_HEADER: &str = "X-CSRF-Token";

/// Reads the credentials of a request that is not an operation of the contract.
///
/// # Errors
/// [`domain::kernel::error::Error::InvalidParameters`] for a query that is not UTF-8.
pub fn of(request: &Request) -> Result<Credentials> {
    let query = parameters::query(request.uri().query().unwrap_or_default())?;
    Ok(read(request, Some(&query), false))
}

/// Reads the credentials of a request. Job tokens are ignored unless `accepts_job_token`.
#[must_use]
pub fn read(request: &Request, query: Option<&Map<String, Value>>, accepts_job_token: bool) -> Credentials {
    // Invalid text is replaced and then matches nothing. Ignoring it could authenticate the caller by other
    // credentials.
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
    // Tokens of OAuth applications are accepted only in these two places.
    let open = private.is_none();
    let token = private
        .or_else(|| filled(bearer()))
        .or_else(|| filled(parameter("access_token")));
    let job = || filled(parameter("job_token")).or_else(|| filled(header("Job-Token")));
    let job = if accepts_job_token { job() } else { None };
    let session = || {
        let secret = cookie(&header(COOKIE.as_str())?, SESSION_COOKIE)?.to_owned();
        let read_only = matches!(request.method().as_str(), "GET" | "HEAD");
        Some(SessionCookie {
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
    // Schemes such as Basic, and a scheme without a token, are not accepted here. Next to other credentials
    // they belong to a proxy in between. Alone they are the caller's; ignoring them would treat the caller as
    // anonymous.
    let foreign = || {
        filled(header(AUTHORIZATION.as_str()))?;
        // An empty text matches no token.
        (session.is_none() && job.is_none()).then(String::new)
    };
    let token = token.or_else(foreign);
    Credentials {
        token,
        bearer: open,
        job,
        takes_jobs: accepts_job_token,
        session,
        sudo: filled(parameter("sudo")).or_else(|| filled(header("Sudo"))),
    }
}

/// Returns the bearer token of a request, for operations that accept no other credentials.
#[must_use]
pub fn bearer(request: &Request) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

/// Returns the value of a cookie in a `Cookie` header.
#[must_use]
pub fn cookie<'a>(header: &'a str, name: &str) -> Option<&'a str> {
    header
        .split(';')
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(known, _)| *known == name)
        .map(|(_, v)| v)
}
