//! Settings of the server. In order of precedence: command line, environment, `holdfast.toml`, defaults.

mod caches;
mod error;
mod networks;
mod origins;
mod settings_file;
mod traces;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use serde::Deserialize;
use tokio::sync::Semaphore;

pub use caches::CacheSettings;
pub use error::ConfigError;
pub use networks::Networks;
pub use origins::Origins;
use traces::TraceOptions;
pub use traces::TraceSettings;

use domain::kernel::budgets;
use domain::kernel::policy::InstancePlan;

/// The given settings; all are optional. The command line (`--data-dir`), the environment
/// (`HOLDFAST_DATA_DIR`) and the file (`data_dir`) use the same names.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[command(next_help_heading = "Server options")]
pub struct ConfigOptions {
    /// Address and port to listen on [default: 127.0.0.1:8080]
    #[arg(long, env = "HOLDFAST_LISTEN")]
    pub listen: Option<SocketAddr>,
    /// Directory for repositories, keys and the embedded database [default: ./data]
    #[arg(long, env = "HOLDFAST_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
    /// sqlite://PATH or postgres://... [default: SQLite in the data directory]
    #[arg(long, env = "HOLDFAST_DATABASE_URL", hide_env_values = true)]
    pub database_url: Option<String>,
    /// Public URL of the server; browsers then use only HTTPS if it starts with https:// [default: http:// and the listen address]
    #[arg(long, env = "HOLDFAST_BASE_URL")]
    pub base_url: Option<String>,
    /// Run no background jobs in this process
    #[arg(long, env = "HOLDFAST_NO_WORKER", num_args = 0..=1, default_missing_value = "true")]
    pub no_worker: Option<bool>,
    /// Address and port of the health endpoints of `holdfast worker` [default: none]
    #[arg(long, env = "HOLDFAST_WORKER_LISTEN")]
    pub worker_listen: Option<SocketAddr>,
    /// Plan: free, starter, premium or ultimate [default: ultimate]
    #[arg(long, env = "HOLDFAST_PLAN")]
    pub plan: Option<String>,
    /// Repeat X-Service-* headers under the names that clients of the reference service expect, and report its version
    #[arg(long, env = "HOLDFAST_COMPAT", num_args = 0..=1, default_missing_value = "true")]
    pub compat: Option<bool>,
    /// Version of the reference service that the API reports with --compat [default: 17.11.0-ee]
    #[arg(long, env = "HOLDFAST_COMPAT_VERSION")]
    pub compat_version: Option<String>,
    /// Allow webhooks, remote mirrors and pull mirrors to loopback and private addresses
    #[arg(long, env = "HOLDFAST_ALLOW_LOCAL_WEBHOOKS", num_args = 0..=1, default_missing_value = "true")]
    pub allow_local_webhooks: Option<bool>,
    /// Comma-separated networks of trusted proxies, such as 10.0.0.0/8; their X-Forwarded-For header
    /// determines the client address [default: none]
    #[arg(long, env = "HOLDFAST_TRUSTED_PROXIES", value_delimiter = ',')]
    #[serde(deserialize_with = "settings_file::networks")]
    pub trusted_proxies: Option<Vec<String>>,
    /// Comma-separated origins of web pages that can call the API, such as https://app.example; * allows every origin
    /// [default: none]
    #[arg(long, env = "HOLDFAST_CORS_ORIGINS", value_delimiter = ',')]
    #[serde(deserialize_with = "settings_file::origins")]
    pub cors_origins: Option<Vec<String>>,
    /// Maximum time of a REST request, in seconds [default: 60]
    #[arg(long, env = "HOLDFAST_REQUEST_TIMEOUT")]
    pub request_timeout: Option<u64>,
    /// Maximum time to receive the head of a connection's next request, in seconds [default: 60]
    #[arg(long, env = "HOLDFAST_IDLE_TIMEOUT")]
    pub idle_timeout: Option<u64>,
    /// Maximum number of connections; further ones wait [default: half of the open file limit, at most 8192]
    #[arg(long, env = "HOLDFAST_MAX_CONNECTIONS")]
    pub max_connections: Option<usize>,
    /// Maximum time to finish open requests after SIGTERM, in seconds [default: 30]
    #[arg(long, env = "HOLDFAST_DRAIN_TIMEOUT")]
    pub drain_timeout: Option<u64>,
    /// Maximum number of database connections [default: 10]
    #[arg(long, env = "HOLDFAST_DATABASE_CONNECTIONS")]
    pub database_connections: Option<u32>,
    /// Maximum time of the statements of a request, in seconds; 0 is unlimited [default: 30]
    #[arg(long, env = "HOLDFAST_DATABASE_SECONDS")]
    pub database_seconds: Option<u64>,
    /// Maximum number of concurrent Git operations [default: four per core]
    #[arg(long, env = "HOLDFAST_GIT_CONCURRENCY")]
    pub git_concurrency: Option<usize>,
    /// Memory for all Git programs together, in bytes; a push gets a quarter of it, and other
    /// programs at most a half [default: 1 GiB]
    #[arg(long, env = "HOLDFAST_GIT_MEMORY_BYTES")]
    pub git_memory_bytes: Option<u64>,
    /// Maximum size of a pushed pack, in bytes [default: 10 GiB]
    #[arg(long, env = "HOLDFAST_MAX_PUSH_BYTES")]
    pub max_push_bytes: Option<u64>,
    /// Memory for the bodies of all requests and responses, in bytes; lower values also lower the maximum size of a
    /// JSON body [default: 256 MiB]
    #[arg(long, env = "HOLDFAST_BODY_MEMORY_BYTES")]
    pub body_memory_bytes: Option<u64>,
    /// Memory for all caches together, in bytes: responses, results of Git and database rows [default: 96 MiB]
    #[arg(long, env = "HOLDFAST_CACHE_BYTES")]
    pub cache_bytes: Option<u64>,
    /// The part of the cache memory for responses, in bytes; 0 caches no responses [default: a sixth]
    #[arg(long, env = "HOLDFAST_RESPONSE_CACHE_BYTES")]
    pub response_cache_bytes: Option<u64>,
    /// Maximum number of requests of a user within a minute; 0 is unlimited [default: 3000000]
    #[arg(long, env = "HOLDFAST_REQUESTS_PER_MINUTE_PER_USER")]
    pub requests_per_minute_per_user: Option<u32>,
    /// Maximum number of requests of an address without valid credentials within a minute; 0 is unlimited
    /// [default: 3000000]
    #[arg(long, env = "HOLDFAST_REQUESTS_PER_MINUTE_PER_ADDRESS")]
    pub requests_per_minute_per_address: Option<u32>,
    /// Maximum processor time of the Git programs of a user, or of an address without valid credentials, within ten
    /// minutes, in seconds; 0 is unlimited [default: 300 per core]
    #[arg(long, env = "HOLDFAST_GIT_PROCESSOR_SECONDS_PER_CLIENT")]
    pub git_processor_seconds_per_client: Option<u64>,
    /// Maximum size of all request bodies of a user, or of an address without valid credentials, within ten minutes, in
    /// bytes; 0 is unlimited [default: 100 GiB]
    #[arg(long, env = "HOLDFAST_RECEIVED_BYTES_PER_CLIENT")]
    pub received_bytes_per_client: Option<u64>,
    /// Maximum size of a file in a JSON response, in bytes [default: 20 MiB]
    #[arg(long, env = "HOLDFAST_MAX_JSON_FILE_BYTES")]
    pub max_json_file_bytes: Option<u64>,
    /// Maximum size of a container image layer, in bytes [default: 10 GiB]
    #[arg(long, env = "HOLDFAST_MAX_LAYER_BYTES")]
    pub max_layer_bytes: Option<u64>,
    /// Maximum size of a file of a package, in bytes [default: 5 GiB]
    #[arg(long, env = "HOLDFAST_MAX_PACKAGE_FILE_BYTES")]
    pub max_package_file_bytes: Option<u64>,
    /// Maximum total size of the packages of a project, in bytes [default: 100 GiB]
    #[arg(long, env = "HOLDFAST_MAX_PROJECT_PACKAGE_BYTES")]
    pub max_project_package_bytes: Option<u64>,
    /// Minutes between the updates of a pull mirror; at least 1 [default: 30]
    #[arg(long, env = "HOLDFAST_PULL_MIRROR_MINUTES")]
    pub pull_mirror_minutes: Option<u32>,
    /// Days after which untagged images are deleted; 0 never deletes them [default: 0]
    #[arg(long, env = "HOLDFAST_UNTAGGED_IMAGE_DAYS")]
    pub untagged_image_days: Option<u32>,
    /// Maximum number of accounts that the identity provider of a group can create [default: 10000]
    #[arg(long, env = "HOLDFAST_MAX_SCIM_USERS")]
    pub max_scim_users: Option<u32>,
    /// Storage of uploaded files and container images: file:///PATH or s3://BUCKET/PREFIX [default: objects
    /// in the data directory]
    #[arg(long, env = "HOLDFAST_OBJECT_STORE_URL", hide_env_values = true)]
    pub object_store_url: Option<String>,
    /// Free disk space below which health endpoints, metrics and `doctor` report low space, in bytes [default: 1 GiB]
    #[arg(long, env = "HOLDFAST_LOW_DISK_BYTES")]
    pub low_disk_bytes: Option<u64>,
    /// Write logs as JSON
    #[arg(long, env = "HOLDFAST_LOG_JSON", num_args = 0..=1, default_missing_value = "true")]
    pub log_json: Option<bool>,
    /// Log filter, in the syntax of RUST_LOG [default: info]
    #[arg(long, env = "HOLDFAST_LOG")]
    pub log: Option<String>,
    /// Base URL of an OpenTelemetry collector that receives traces by OTLP over HTTP, such as http://127.0.0.1:4318
    /// [default: none]
    #[arg(long, env = "HOLDFAST_TRACE_ENDPOINT")]
    pub trace_endpoint: Option<String>,
    /// Share of the traces that are recorded, from 0 to 1 [default: 1]
    #[arg(long, env = "HOLDFAST_TRACE_SAMPLING_RATIO")]
    pub trace_sampling_ratio: Option<f64>,
    /// File with headers for the collector, one NAME=VALUE in each line
    #[arg(long, env = "HOLDFAST_TRACE_HEADERS_FILE")]
    pub trace_headers_file: Option<PathBuf>,
    /// Comma-separated headers for the collector, such as NAME=VALUE
    #[arg(
        long,
        env = "HOLDFAST_TRACE_HEADERS",
        value_delimiter = ',',
        hide_env_values = true
    )]
    pub trace_headers: Option<Vec<String>>,
    /// Name of the service in traces [default: holdfast]
    #[arg(long, env = "HOLDFAST_TRACE_SERVICE_NAME")]
    pub trace_service_name: Option<String>,
    /// Token of the first administrator, used if the data directory is empty
    #[arg(long, env = "HOLDFAST_ROOT_TOKEN", hide_env_values = true)]
    pub root_token: Option<String>,
    /// Password of the first administrator, used if the data directory is empty
    #[arg(long, env = "HOLDFAST_ROOT_PASSWORD", hide_env_values = true)]
    pub root_password: Option<String>,
}

/// The resolved settings.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// Address and port to listen on.
    pub listen: SocketAddr,
    /// Directory of repositories, keys and the embedded database.
    pub data_dir: PathBuf,
    /// `sqlite://PATH` or `postgres://...`.
    pub database_url: String,
    /// The public URL without a trailing slash; none if derived from the listen address.
    pub base_url: Option<String>,
    /// Whether background jobs run in this process.
    pub worker: bool,
    /// Address of the health endpoints of a process that only runs jobs; `None` for no endpoints.
    pub worker_listen: Option<SocketAddr>,
    /// The plan.
    pub plan: InstancePlan,
    /// Whether headers are repeated under the names of the reference service, and its version is reported.
    pub compat: bool,
    /// Version of the reference service that the API reports with `compat`.
    pub compat_version: String,
    /// Whether webhooks, remote mirrors and pull mirrors may reach local addresses.
    pub allow_local_webhooks: bool,
    /// Proxies whose `X-Forwarded-For` header is trusted.
    pub trusted_proxies: Networks,
    /// Origins of web pages that can call the API.
    pub cors_origins: Origins,
    /// Maximum time of a REST request.
    pub request_timeout: Duration,
    /// Maximum time to receive the head of a connection's next request.
    pub idle_timeout: Duration,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum time to finish open requests at shutdown.
    pub drain_timeout: Duration,
    /// Maximum number of database connections.
    pub database_connections: u32,
    /// Maximum time of the statements of a request, in seconds; 0 is unlimited.
    pub database_seconds: u64,
    /// Maximum number of concurrent Git operations.
    pub git_concurrency: usize,
    /// Memory for all Git programs together, in bytes.
    pub git_memory_bytes: u64,
    /// Maximum size of a pushed pack.
    pub max_push_bytes: u64,
    /// Memory for the bodies of all requests and responses, in bytes.
    pub body_memory_bytes: u64,
    /// Memory for each kind of cache.
    pub caches: CacheSettings,
    /// Maximum number of requests of a user within a minute; 0 is unlimited.
    pub requests_per_minute_per_user: u32,
    /// Maximum number of requests of an address without valid credentials within a minute; 0 is unlimited.
    pub requests_per_minute_per_address: u32,
    /// Maximum processor time of the Git programs of a client within ten minutes, in seconds; 0 is unlimited.
    pub git_processor_seconds_per_client: u64,
    /// Maximum size of all request bodies of a client within ten minutes, in bytes; 0 is unlimited.
    pub received_bytes_per_client: u64,
    /// Maximum size of a file in a JSON response, in bytes.
    pub max_json_file_bytes: u64,
    /// Maximum size of a container image layer.
    pub max_layer_bytes: u64,
    /// Maximum size of a file of a package, in bytes.
    pub max_package_file_bytes: u64,
    /// Maximum total size of the packages of a project, in bytes.
    pub max_project_package_bytes: u64,
    /// Minutes between the updates of a pull mirror.
    pub pull_mirror_minutes: u32,
    /// Days after which untagged images are deleted; 0 never deletes them.
    pub untagged_image_days: u32,
    /// Maximum number of accounts that the identity provider of a group can create.
    pub max_scim_users: u32,
    /// Free disk space below which low space is reported, in bytes.
    pub low_disk_bytes: u64,
    /// Storage of uploaded files, container images and packages; the data directory if absent.
    pub object_store_url: Option<String>,
    /// Settings of the traces; `None` without a collector.
    pub traces: Option<TraceSettings>,
    /// Whether acknowledged changes survive a crash of the system. No option sets it: only `holdfast test-server` does.
    pub durable: bool,
}

/// The settings file that is read by default if it exists.
const DEFAULT_FILE: &str = "holdfast.toml";

/// Default version of the reference service that the API reports.
const COMPAT_VERSION: &str = "17.11.0-ee";
/// Default maximum size of a file in a JSON response.
const MAX_JSON_FILE_BYTES: u64 = 20 << 20;
/// Maximum length of the reported version, in bytes.
const MAX_VERSION_LENGTH: usize = 64;
/// Default maximum size of a container image layer.
const MAX_LAYER_BYTES: u64 = 10 << 30;
/// Default maximum size of a file of a package.
const MAX_PACKAGE_FILE_BYTES: u64 = 5 << 30;
/// Default maximum total size of the packages of a project.
const MAX_PROJECT_PACKAGE_BYTES: u64 = 100 << 30;
/// Default of the free disk space below which low space is reported.
const LOW_DISK_BYTES: u64 = 1 << 30;
/// Default of the minutes between the updates of a pull mirror.
const PULL_MIRROR_MINUTES: u32 = 30;
/// Default maximum number of accounts that the identity provider of a group can create.
const MAX_SCIM_USERS: u32 = 10_000;

impl ConfigOptions {
    /// Returns these options merged over those of a file: `file`, or `holdfast.toml` if it exists.
    ///
    /// # Errors
    /// If the file cannot be read or is not a valid settings file.
    pub fn over_file(self, file: Option<&Path>) -> Result<Self, ConfigError> {
        let path = match file {
            Some(path) => path,
            None if Path::new(DEFAULT_FILE).is_file() => Path::new(DEFAULT_FILE),
            None => return Ok(self),
        };
        let file = settings_file::read(path).map_err(|cause| ConfigError::File {
            path: path.to_owned(),
            cause,
        })?;
        Ok(self.over(file))
    }

    fn over(self, under: Self) -> Self {
        Self {
            listen: self.listen.or(under.listen),
            data_dir: self.data_dir.or(under.data_dir),
            database_url: self.database_url.or(under.database_url),
            base_url: self.base_url.or(under.base_url),
            no_worker: self.no_worker.or(under.no_worker),
            worker_listen: self.worker_listen.or(under.worker_listen),
            plan: self.plan.or(under.plan),
            compat: self.compat.or(under.compat),
            compat_version: self.compat_version.or(under.compat_version),
            allow_local_webhooks: self.allow_local_webhooks.or(under.allow_local_webhooks),
            trusted_proxies: self.trusted_proxies.or(under.trusted_proxies),
            cors_origins: self.cors_origins.or(under.cors_origins),
            request_timeout: self.request_timeout.or(under.request_timeout),
            idle_timeout: self.idle_timeout.or(under.idle_timeout),
            max_connections: self.max_connections.or(under.max_connections),
            drain_timeout: self.drain_timeout.or(under.drain_timeout),
            database_connections: self.database_connections.or(under.database_connections),
            database_seconds: self.database_seconds.or(under.database_seconds),
            git_concurrency: self.git_concurrency.or(under.git_concurrency),
            git_memory_bytes: self.git_memory_bytes.or(under.git_memory_bytes),
            max_push_bytes: self.max_push_bytes.or(under.max_push_bytes),
            body_memory_bytes: self.body_memory_bytes.or(under.body_memory_bytes),
            cache_bytes: self.cache_bytes.or(under.cache_bytes),
            response_cache_bytes: self.response_cache_bytes.or(under.response_cache_bytes),
            requests_per_minute_per_user: self
                .requests_per_minute_per_user
                .or(under.requests_per_minute_per_user),
            requests_per_minute_per_address: self
                .requests_per_minute_per_address
                .or(under.requests_per_minute_per_address),
            git_processor_seconds_per_client: self
                .git_processor_seconds_per_client
                .or(under.git_processor_seconds_per_client),
            received_bytes_per_client: self.received_bytes_per_client.or(under.received_bytes_per_client),
            max_json_file_bytes: self.max_json_file_bytes.or(under.max_json_file_bytes),
            max_layer_bytes: self.max_layer_bytes.or(under.max_layer_bytes),
            max_package_file_bytes: self.max_package_file_bytes.or(under.max_package_file_bytes),
            max_project_package_bytes: self.max_project_package_bytes.or(under.max_project_package_bytes),
            pull_mirror_minutes: self.pull_mirror_minutes.or(under.pull_mirror_minutes),
            untagged_image_days: self.untagged_image_days.or(under.untagged_image_days),
            max_scim_users: self.max_scim_users.or(under.max_scim_users),
            object_store_url: self.object_store_url.or(under.object_store_url),
            low_disk_bytes: self.low_disk_bytes.or(under.low_disk_bytes),
            log_json: self.log_json.or(under.log_json),
            log: self.log.or(under.log),
            trace_endpoint: self.trace_endpoint.or(under.trace_endpoint),
            trace_sampling_ratio: self.trace_sampling_ratio.or(under.trace_sampling_ratio),
            trace_headers_file: self.trace_headers_file.or(under.trace_headers_file),
            trace_headers: self.trace_headers.or(under.trace_headers),
            trace_service_name: self.trace_service_name.or(under.trace_service_name),
            root_token: self.root_token.or(under.root_token),
            root_password: self.root_password.or(under.root_password),
        }
    }

    fn trace_options(&self) -> TraceOptions<'_> {
        TraceOptions {
            endpoint: self.trace_endpoint.as_deref(),
            sampling_ratio: self.trace_sampling_ratio,
            headers_file: self.trace_headers_file.as_deref(),
            headers: self.trace_headers.as_deref().unwrap_or_default(),
            service_name: self.trace_service_name.as_deref(),
        }
    }

    /// Returns the resolved settings with all defaults.
    ///
    /// # Errors
    /// If a value is invalid.
    pub fn settings(&self) -> Result<ServerSettings, ConfigError> {
        let data_dir = self.data_dir.clone().unwrap_or_else(|| PathBuf::from("data"));
        let embedded = || format!("sqlite://{}", data_dir.join("holdfast.db").display());
        let plan = match &self.plan {
            Some(plan) => plan
                .parse()
                .map_err(|cause| ConfigError::Value { name: "plan", cause })?,
            None => InstancePlan::Ultimate,
        };
        let trusted_proxies = Networks::parse(self.trusted_proxies.as_deref().unwrap_or_default());
        let trusted_proxies = trusted_proxies.map_err(|cause| ConfigError::Value {
            name: "trusted_proxies",
            cause,
        })?;
        let cors_origins = Origins::parse(self.cors_origins.as_deref().unwrap_or_default());
        let cors_origins = cors_origins.map_err(|cause| ConfigError::Value {
            name: "cors_origins",
            cause,
        })?;
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        Ok(ServerSettings {
            listen: self
                .listen
                .unwrap_or_else(|| SocketAddr::from(([127, 0, 0, 1], 8080))),
            database_url: self.database_url.clone().unwrap_or_else(embedded),
            base_url: self.base_url.as_deref().map(base_url).transpose()?,
            data_dir,
            worker: !self.no_worker.unwrap_or(false),
            worker_listen: self.worker_listen,
            plan,
            compat: self.compat.unwrap_or(false),
            compat_version: compat_version(self.compat_version.as_deref())?,
            allow_local_webhooks: self.allow_local_webhooks.unwrap_or(false),
            trusted_proxies,
            cors_origins,
            request_timeout: Duration::from_secs(self.request_timeout.unwrap_or(60).max(1)),
            idle_timeout: Duration::from_secs(self.idle_timeout.unwrap_or(60).max(1)),
            max_connections: self
                .max_connections
                .unwrap_or_else(default_max_connections)
                .clamp(1, Semaphore::MAX_PERMITS),
            drain_timeout: Duration::from_secs(self.drain_timeout.unwrap_or(30)),
            database_connections: self
                .database_connections
                .unwrap_or(budgets::DATABASE_CONNECTIONS)
                .max(1),
            database_seconds: self.database_seconds.unwrap_or(budgets::DATABASE_SECONDS),
            git_concurrency: self
                .git_concurrency
                .unwrap_or(cores * 4)
                .clamp(1, Semaphore::MAX_PERMITS),
            git_memory_bytes: self.git_memory_bytes.unwrap_or(git::DEFAULT_GIT_MEMORY_BYTES),
            max_push_bytes: self.max_push_bytes.unwrap_or(git::DEFAULT_MAX_PUSH_BYTES),
            body_memory_bytes: self.body_memory_bytes.unwrap_or(budgets::BODY_MEMORY_BYTES),
            caches: CacheSettings::new(self.cache_bytes, self.response_cache_bytes)?,
            requests_per_minute_per_user: self
                .requests_per_minute_per_user
                .unwrap_or(budgets::REQUESTS_PER_MINUTE),
            requests_per_minute_per_address: self
                .requests_per_minute_per_address
                .unwrap_or(budgets::REQUESTS_PER_MINUTE),
            git_processor_seconds_per_client: self
                .git_processor_seconds_per_client
                .unwrap_or_else(budgets::git_processor_seconds),
            received_bytes_per_client: self.received_bytes_per_client.unwrap_or(budgets::RECEIVED_BYTES),
            max_json_file_bytes: self.max_json_file_bytes.unwrap_or(MAX_JSON_FILE_BYTES),
            max_layer_bytes: self.max_layer_bytes.unwrap_or(MAX_LAYER_BYTES),
            max_package_file_bytes: self.max_package_file_bytes.unwrap_or(MAX_PACKAGE_FILE_BYTES),
            max_project_package_bytes: self
                .max_project_package_bytes
                .unwrap_or(MAX_PROJECT_PACKAGE_BYTES),
            pull_mirror_minutes: self.pull_mirror_minutes.unwrap_or(PULL_MIRROR_MINUTES).max(1),
            untagged_image_days: self.untagged_image_days.unwrap_or_default(),
            max_scim_users: self.max_scim_users.unwrap_or(MAX_SCIM_USERS),
            low_disk_bytes: self.low_disk_bytes.unwrap_or(LOW_DISK_BYTES),
            object_store_url: self.object_store_url.clone().filter(|url| !url.is_empty()),
            traces: self.trace_options().settings()?,
            durable: true,
        })
    }
}

/// Returns the default maximum number of connections: half of the file limit. The other half is for
/// repositories, the database and pipes of the git program.
fn default_max_connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = files.and_then(|files| usize::try_from(files).ok());
    (files.unwrap_or(usize::MAX) / 2).min(8192)
}

fn base_url(text: &str) -> Result<String, ConfigError> {
    let fault = |cause: &str| ConfigError::Value {
        name: "base_url",
        cause: cause.to_owned(),
    };
    let rest = text
        .strip_prefix("http://")
        .or_else(|| text.strip_prefix("https://"));
    let host = rest.and_then(|rest| rest.split('/').next()).unwrap_or_default();
    if host.is_empty()
        || text.contains(|c: char| matches!(c, '?' | '#') || c.is_whitespace() || c.is_control())
    {
        return Err(fault(
            "must start with http:// or https://, contain a host, and have no query",
        ));
    }
    Ok(text.trim_end_matches('/').to_owned())
}

/// Returns the version to report. Clients compare its three numbers.
fn compat_version(given: Option<&str>) -> Result<String, ConfigError> {
    let version = given.unwrap_or(COMPAT_VERSION);
    let numbers = version.split('-').next().unwrap_or_default();
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = version.len() <= MAX_VERSION_LENGTH
        && numbers.split('.').count() == 3
        && numbers.split('.').all(is_number)
        && version.bytes().all(|byte| byte.is_ascii_graphic());
    match is_valid {
        true => Ok(version.to_owned()),
        false => Err(ConfigError::Value {
            name: "compat_version",
            cause: format!("\"{version}\" is not a version such as {COMPAT_VERSION}"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<ConfigOptions, ConfigError> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("holdfast.toml");
        std::fs::write(&path, text).expect("a file");
        ConfigOptions::default().over_file(Some(&path))
    }

    #[test]
    fn default_settings_use_loopback_and_sqlite() {
        let settings = ConfigOptions::default().settings().expect("settings");
        assert_eq!(settings.listen.to_string(), "127.0.0.1:8080");
        assert_eq!(settings.database_url, "sqlite://data/holdfast.db");
        assert_eq!(
            (settings.plan, settings.compat, settings.worker),
            (InstancePlan::Ultimate, false, true)
        );
    }

    #[test]
    fn numbers_of_permits_are_limited_to_those_of_a_semaphore() {
        for (given, expected) in [(0, 1), (7, 7), (usize::MAX, Semaphore::MAX_PERMITS)] {
            let options = ConfigOptions {
                max_connections: Some(given),
                git_concurrency: Some(given),
                ..ConfigOptions::default()
            };
            let settings = options.settings().expect("settings");
            assert_eq!(
                (settings.max_connections, settings.git_concurrency),
                (expected, expected)
            );
        }
    }

    #[test]
    fn options_override_settings_of_file() {
        let file = "listen = \"127.0.0.1:1\"\nplan = \"free\"\ncompat = true\ntrusted_proxies = [\"10.0.0.0/8\", \"::1\"]";
        let file = options(file).expect("a file");
        let given = ConfigOptions {
            plan: Some("premium".to_owned()),
            ..ConfigOptions::default()
        };
        let settings = given.over(file).settings().expect("settings");
        assert_eq!(
            (settings.listen.port(), settings.plan, settings.compat),
            (1, InstancePlan::Premium, true)
        );
        assert!(settings.trusted_proxies.contain([10, 1, 2, 3].into()));
    }

    #[test]
    fn errors_name_unknown_settings_and_invalid_values() {
        assert!(options("lisen = \"127.0.0.1:1\"").is_err_and(|error| error.to_string().contains("lisen")));
        let error_of = |options: ConfigOptions| options.settings().map_err(|error| error.to_string()).err();
        let plan = ConfigOptions {
            plan: Some("gold".to_owned()),
            ..ConfigOptions::default()
        };
        assert!(error_of(plan).is_some_and(|text| text.contains("gold")));
        let url = ConfigOptions {
            base_url: Some("ftp://h".to_owned()),
            ..ConfigOptions::default()
        };
        assert!(error_of(url).is_some_and(|text| text.contains("base_url")));
        let proxies = ConfigOptions {
            trusted_proxies: Some(vec!["proxy.example".to_owned()]),
            ..ConfigOptions::default()
        };
        assert!(error_of(proxies).is_some_and(|text| text.contains("trusted_proxies: proxy.example")));
        let origins = ConfigOptions {
            cors_origins: Some(vec!["app.example".to_owned()]),
            ..ConfigOptions::default()
        };
        assert!(error_of(origins).is_some_and(|text| text.contains("cors_origins: app.example")));
        for version in ["", "17.11", "17.x.0", "17.11.0-e e"] {
            let version = ConfigOptions {
                compat_version: Some(version.to_owned()),
                ..ConfigOptions::default()
            };
            assert!(error_of(version).is_some_and(|text| text.contains("compat_version")));
        }
    }
}
