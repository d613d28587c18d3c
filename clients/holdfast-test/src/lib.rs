//! Starts a Holdfast server for the tests of API clients.
//!
//! ```no_run
//! # fn main() -> Result<(), holdfast_test::Error> {
//! let server = holdfast_test::TestServer::builder().freeze_time("2026-01-31T12:00:00Z").start()?;
//! server.add_fault("GET /projects 503 x2")?;
//! // Test a client with `server.url()` and `server.token()`.
//! server.reset()?;
//! # Ok(())
//! # }
//! ```
//!
//! The server ends when the value is dropped, and when the test process ends for any other reason.

mod http;
mod process;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::Deserialize;
use serde_json::{json, Value};

pub use http::Response;
use process::Process;

/// Environment variable with the path of the binary.
pub const BINARY_VARIABLE: &str = "HOLDFAST_BINARY";
/// Default of the maximum time until the server accepts requests.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Reason why the server cannot start, or refuses a control request.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The program cannot be started.
    Program {
        /// The program.
        binary: PathBuf,
        /// The cause.
        cause: std::io::Error,
    },
    /// The program ended, or was not ready in time. Contains its messages.
    Start(String),
    /// A request failed.
    Io(std::io::Error),
    /// The server refused a control request.
    Refused(String),
    /// A response has an unexpected form.
    Response(String),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Program { binary, cause } => write!(
                f,
                "the program {} cannot be started ({cause}); install holdfast, or set {BINARY_VARIABLE} to its path",
                binary.display()
            ),
            Self::Start(text) | Self::Refused(text) => f.write_str(text),
            Self::Io(cause) => write!(f, "request to holdfast: {cause}"),
            Self::Response(cause) => write!(f, "response of holdfast: {cause}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::Response(error.to_string())
    }
}

/// A rule for faults.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Fault {
    /// The ID.
    pub id: u64,
    /// The rule.
    pub rule: String,
    /// Number of requests that the rule was applied to.
    pub injected: u64,
    /// Number of requests that the rule still applies to; `None` without a limit.
    pub remaining: Option<u64>,
}

/// The clock of the server.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Clock {
    /// The time in RFC 3339.
    pub time: String,
    /// Whether the clock is frozen.
    pub frozen: bool,
}

/// The line that the server prints.
#[derive(Debug, Clone, Deserialize)]
struct Info {
    url: String,
    api_url: String,
    username: String,
    token: String,
    password: String,
    control_url: String,
    control_token: String,
    directory: PathBuf,
}

/// Options of a server.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    binary: Option<PathBuf>,
    arguments: Vec<String>,
    timeout: Option<Duration>,
}

impl Builder {
    /// Sets the path of the binary. The default is `HOLDFAST_BINARY`, or `holdfast` in `PATH`.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Starts with a snapshot: a directory that a test server has saved.
    #[must_use]
    pub fn snapshot(self, directory: impl AsRef<Path>) -> Self {
        let directory = directory.as_ref().to_string_lossy().into_owned();
        self.arguments(["--snapshot", &directory])
    }

    /// Freezes the clock at a time in RFC 3339.
    #[must_use]
    pub fn freeze_time(self, time: &str) -> Self {
        self.arguments(["--freeze-time", time])
    }

    /// Adds a rule for faults, such as `GET /projects 503 x3`.
    #[must_use]
    pub fn fault(self, rule: &str) -> Self {
        self.arguments(["--fail", rule])
    }

    /// Adds other arguments of `holdfast test-server`.
    #[must_use]
    pub fn arguments<'a>(mut self, arguments: impl IntoIterator<Item = &'a str>) -> Self {
        self.arguments.extend(arguments.into_iter().map(str::to_owned));
        self
    }

    /// Sets the maximum time until the server accepts requests. The default is 30 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Starts the server and waits until it accepts requests.
    ///
    /// # Errors
    /// [`Error::Program`], [`Error::Start`].
    pub fn start(self) -> Result<TestServer, Error> {
        let variable = std::env::var_os(BINARY_VARIABLE).filter(|path| !path.is_empty());
        let binary = self.binary.or_else(|| variable.map(PathBuf::from));
        let binary = binary.unwrap_or_else(|| PathBuf::from("holdfast"));
        let (process, line) = Process::start(&binary, &self.arguments, self.timeout.unwrap_or(START_TIMEOUT))?;
        let info = serde_json::from_str(&line)?;
        Ok(TestServer {
            info,
            process: Mutex::new(process),
        })
    }
}

/// A running test server.
#[derive(Debug)]
pub struct TestServer {
    info: Info,
    process: Mutex<Process>,
}

impl TestServer {
    /// Starts a server with the default options.
    ///
    /// # Errors
    /// [`Error::Program`], [`Error::Start`].
    pub fn start() -> Result<Self, Error> {
        Self::builder().start()
    }

    /// Returns the options of a server.
    #[must_use]
    pub fn builder() -> Builder {
        Builder::default()
    }

    /// Returns the base URL, also of Git over HTTP.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.info.url
    }

    /// Returns the base URL of the API.
    #[must_use]
    pub fn api_url(&self) -> &str {
        &self.info.api_url
    }

    /// Returns the username of the administrator.
    #[must_use]
    pub fn username(&self) -> &str {
        &self.info.username
    }

    /// Returns the token of the administrator.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.info.token
    }

    /// Returns the password of the administrator.
    #[must_use]
    pub fn password(&self) -> &str {
        &self.info.password
    }

    /// Returns the directory of the temporary data.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.info.directory
    }

    /// Sends a request of the administrator below `/api/v4`. The body is sent as JSON.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Response`]. Statuses of errors are not errors.
    pub fn request(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response, Error> {
        let url = format!("{}{path}", self.info.api_url);
        http::send(method, &url, ("Private-Token", &self.info.token), body)
    }

    /// Restores the data, clock and faults of the start or of the last snapshot.
    ///
    /// # Errors
    /// [`Error::Refused`], [`Error::Io`], [`Error::Response`].
    pub fn reset(&self) -> Result<(), Error> {
        self.control("POST", "/reset", None).map(drop)
    }

    /// Restores a snapshot, now and in later resets.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn reset_to(&self, snapshot: impl AsRef<Path>) -> Result<(), Error> {
        let body = json!({ "snapshot": std::path::absolute(snapshot)? });
        self.control("POST", "/reset", Some(&body)).map(drop)
    }

    /// Saves the state in the temporary directory. Later resets restore it.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn snapshot(&self) -> Result<PathBuf, Error> {
        self.save(&json!({}))
    }

    /// Saves the state in a directory that does not exist. Later resets restore it.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn snapshot_to(&self, directory: impl AsRef<Path>) -> Result<PathBuf, Error> {
        self.save(&json!({ "directory": std::path::absolute(directory)? }))
    }

    fn save(&self, body: &Value) -> Result<PathBuf, Error> {
        #[derive(Deserialize)]
        struct Saved {
            directory: PathBuf,
        }
        let saved: Saved = self.control_as("POST", "/snapshot", Some(body))?;
        Ok(saved.directory)
    }

    /// Returns the clock of the server.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn clock(&self) -> Result<Clock, Error> {
        self.control_as("GET", "/clock", None)
    }

    /// Freezes the clock at a time in RFC 3339.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn freeze(&self, time: &str) -> Result<Clock, Error> {
        self.control_as("PUT", "/clock", Some(&json!({ "time": time })))
    }

    /// Lets the clock run.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn unfreeze(&self) -> Result<Clock, Error> {
        self.control_as("PUT", "/clock", Some(&json!({ "time": null })))
    }

    /// Advances the frozen clock. Parts of a second do not count.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn advance(&self, duration: Duration) -> Result<Clock, Error> {
        let body = json!({ "seconds": duration.as_secs() });
        self.control_as("POST", "/clock/advance", Some(&body))
    }

    /// Adds a rule for faults, such as `GET /projects 503 x3`.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn add_fault(&self, rule: &str) -> Result<Fault, Error> {
        self.control_as("POST", "/faults", Some(&json!({ "rule": rule })))
    }

    /// Returns the rules for faults.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn faults(&self) -> Result<Vec<Fault>, Error> {
        self.control_as("GET", "/faults", None)
    }

    /// Removes a rule for faults.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn remove_fault(&self, id: u64) -> Result<(), Error> {
        self.control("DELETE", &format!("/faults/{id}"), None).map(drop)
    }

    /// Removes all rules for faults.
    ///
    /// # Errors
    /// As [`Self::reset`].
    pub fn clear_faults(&self) -> Result<(), Error> {
        self.control("DELETE", "/faults", None).map(drop)
    }

    /// Stops the server, which removes its data.
    pub fn stop(self) {
        drop(self);
    }

    fn control(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Response, Error> {
        let url = format!("{}{path}", self.info.control_url);
        let credentials = format!("Bearer {}", self.info.control_token);
        let response = http::send(method, &url, ("Authorization", &credentials), body)?;
        if response.status < 400 {
            return Ok(response);
        }
        let body: Value = response.json()?;
        let message = body["message"].as_str().unwrap_or("no message");
        Err(Error::Refused(format!("{method} {path}: {message}")))
    }

    fn control_as<T: DeserializeOwned>(&self, method: &str, path: &str, body: Option<&Value>) -> Result<T, Error> {
        self.control(method, path, body)?.json()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.process.get_mut().unwrap_or_else(|poisoned| poisoned.into_inner()).end();
    }
}
