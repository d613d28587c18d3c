//! Reads the credentials of a request. If there are several, the precedence is that of the reference service.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::identity::authentication::{BasicToken, Credentials, SessionCookie};
use domain::kernel::error::Result;
use poem::Request;
use poem::http::header::{AUTHORIZATION, COOKIE};
use serde_json::{Map, Value};

use crate::api::parameters;

/// Name of the session cookie.
pub const SESSION_COOKIE: &str = "_service_session";
/// Header with a deploy token, for package clients.
const DEPLOY_TOKEN_HEADER: &str = "Deploy-Token";
/// Header with the token against cross-site request forgery.
pub const CSRF_HEADER: &str = "X-CSRF-Token";

/// Reads the credentials of a request that is not an operation of the contract.
///
/// # Errors
/// [`domain::kernel::error::Error::InvalidParameters`] for a query that is not UTF-8.
pub fn of(request: &Request) -> Result<Credentials> {
    let query = parameters::query(request.uri().query().unwrap_or_default())?;
    Ok(read(request, Some(&query), AcceptedCredentials::default()))
}

/// Kinds of credentials that only some operations accept. They are ignored elsewhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct AcceptedCredentials {
    /// Whether job tokens are accepted.
    pub job_token: bool,
    /// Whether deploy tokens, and tokens with HTTP Basic authentication, are accepted.
    pub package_client: bool,
    /// Whether a token is accepted as the whole value of `Authorization`, without a scheme.
    pub bare_token: bool,
}

/// Reads the credentials of a request.
#[must_use]
pub fn read(
    request: &Request,
    query: Option<&Map<String, Value>>,
    accepted: AcceptedCredentials,
) -> Credentials {
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
    let bearer = || bearer(request).or_else(|| bare_token(request).filter(|_| accepted.bare_token));
    let private = filled(parameter("private_token")).or_else(|| filled(header("Private-Token")));
    // Tokens of OAuth applications are accepted only in these two places.
    let open = private.is_none();
    let token = private
        .or_else(|| filled(bearer()))
        .or_else(|| filled(parameter("access_token")));
    let job = || filled(parameter("job_token")).or_else(|| filled(header("Job-Token")));
    let job = if accepted.job_token { job() } else { None };
    let deploy = match accepted.package_client && token.is_none() && job.is_none() {
        true => filled(header(DEPLOY_TOKEN_HEADER)),
        false => None,
    };
    let basic = match accepted.package_client && token.is_none() && job.is_none() && deploy.is_none() {
        true => basic(request),
        false => None,
    };
    let session = || {
        let secret = sent_cookie(request, SESSION_COOKIE)?.to_owned();
        let read_only = matches!(request.method().as_str(), "GET" | "HEAD");
        Some(SessionCookie {
            secret,
            csrf: header(CSRF_HEADER),
            read_only,
        })
    };
    let is_other = job.is_some() || deploy.is_some() || basic.is_some();
    let session = if token.is_none() && !is_other {
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
        (session.is_none() && !is_other).then(String::new)
    };
    let token = token.or_else(foreign);
    Credentials {
        token,
        bearer: open,
        job,
        deploy,
        basic,
        takes_jobs: accepted.job_token,
        takes_deploy_tokens: accepted.package_client,
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

/// Returns the value of `Authorization` if it has no scheme, as Cargo sends it.
fn bare_token(request: &Request) -> Option<String> {
    let value = request.headers().get(AUTHORIZATION)?;
    let value = String::from_utf8_lossy(value.as_bytes());
    let token = value.trim();
    (!token.contains(' ')).then(|| token.to_owned())
}

/// Returns the username and the token of HTTP Basic authentication. A value that cannot be decoded matches no token.
fn basic(request: &Request) -> Option<BasicToken> {
    let value = request.headers().get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, encoded) = value.split_once(' ')?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = STANDARD.decode(encoded.trim()).ok();
    let text = decoded.and_then(|bytes| String::from_utf8(bytes).ok());
    let (username, token) = text
        .as_deref()
        .and_then(|text| text.split_once(':'))
        .unwrap_or_default();
    Some(BasicToken {
        username: username.to_owned(),
        token: token.to_owned(),
    })
}

/// Returns the value of a cookie that a request contains; empty if it is not UTF-8. Clients of HTTP/2 may send each
/// cookie in a field of its own (RFC 9113 8.2.3).
#[must_use]
pub fn sent_cookie<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
    let fields = request.headers().get_all(COOKIE).iter();
    let mut pairs = fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
    pairs.find_map(|pair| {
        let value = pair.trim_ascii().strip_prefix(name.as_bytes())?;
        Some(std::str::from_utf8(value.strip_prefix(b"=")?).unwrap_or_default())
    })
}
