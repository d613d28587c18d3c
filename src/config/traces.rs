//! Settings of the traces.

use std::path::Path;

use domain::secrets::Secret;

use super::error::ConfigError;

/// Settings of the traces, if there is a collector.
#[derive(Debug, Clone)]
pub struct TraceSettings {
    /// Base URL of the collector, without a trailing slash.
    pub endpoint: String,
    /// Share of the traces that are recorded, from 0 to 1.
    pub sampling_ratio: f64,
    /// Headers of requests to the collector.
    pub headers: Vec<(String, Secret)>,
    /// Name of the service in traces.
    pub service_name: String,
}

/// Default name of the service.
const SERVICE_NAME: &str = "holdfast";

/// The given settings of the traces.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct TraceOptions<'a> {
    pub(super) endpoint: Option<&'a str>,
    pub(super) sampling_ratio: Option<f64>,
    pub(super) headers_file: Option<&'a Path>,
    pub(super) headers: &'a [String],
    pub(super) service_name: Option<&'a str>,
}

impl TraceOptions<'_> {
    /// Returns the resolved settings; `None` without a collector.
    pub(super) fn settings(&self) -> Result<Option<TraceSettings>, ConfigError> {
        let Some(endpoint) = self.endpoint.filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let sampling_ratio = self.sampling_ratio.unwrap_or(1.0);
        if !(0.0..=1.0).contains(&sampling_ratio) {
            return Err(invalid("trace_sampling_ratio", "must be a number from 0 to 1"));
        }
        let mut headers = Vec::new();
        if let Some(path) = self.headers_file {
            headers.extend(read(path)?);
        }
        for header in self.headers {
            headers.push(header_of(header).ok_or_else(|| invalid("trace_headers", HEADER_FORM))?);
        }
        let name = self.service_name.filter(|name| !name.is_empty());
        Ok(Some(TraceSettings {
            endpoint: base_url(endpoint)?,
            sampling_ratio,
            headers,
            service_name: name.unwrap_or(SERVICE_NAME).to_owned(),
        }))
    }
}

/// Form of a header, for errors. They do not contain the value, which can be a password.
const HEADER_FORM: &str = "each header must have the form NAME=VALUE";

fn invalid(name: &'static str, cause: &str) -> ConfigError {
    ConfigError::Value {
        name,
        cause: cause.to_owned(),
    }
}

fn base_url(text: &str) -> Result<String, ConfigError> {
    let url = url::Url::parse(text).ok().filter(|url| {
        matches!(url.scheme(), "http" | "https")
            && url.has_host()
            && url.username().is_empty()
            && url.password().is_none()
            && url.query().is_none()
            && url.fragment().is_none()
    });
    match url {
        Some(_) => Ok(text.trim_end_matches('/').to_owned()),
        None => Err(invalid(
            "trace_endpoint",
            "must be a URL such as http://127.0.0.1:4318, without user, query and fragment",
        )),
    }
}

/// Reads a file with one header in each line.
fn read(path: &Path) -> Result<Vec<(String, Secret)>, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| invalid("trace_headers_file", &format!("{}: {error}", path.display())))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| header_of(line).ok_or_else(|| invalid("trace_headers_file", HEADER_FORM)))
        .collect()
}

/// Parses `NAME=VALUE`.
fn header_of(text: &str) -> Option<(String, Secret)> {
    let (name, value) = text.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    let is_name = !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let is_value = !value.is_empty() && value.bytes().all(|byte| (b' '..=b'~').contains(&byte));
    (is_name && is_value).then(|| (name.to_owned(), Secret::new(value.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(endpoint: &str) -> TraceOptions<'_> {
        TraceOptions {
            endpoint: Some(endpoint),
            ..TraceOptions::default()
        }
    }

    #[test]
    fn traces_are_off_without_a_collector() {
        assert!(TraceOptions::default().settings().expect("settings").is_none());
        assert!(options("").settings().expect("settings").is_none());
    }

    #[test]
    fn headers_of_file_and_environment_are_secrets() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "Authorization=Basic c2VjcmV0==\n\n").expect("a file");
        let options = TraceOptions {
            headers_file: Some(file.path()),
            headers: &["X-Scope=team".to_owned()],
            ..options("https://collector.example/otlp/")
        };
        let settings = options.settings().expect("settings").expect("a collector");
        assert_eq!(settings.endpoint, "https://collector.example/otlp");
        assert_eq!(settings.service_name, "holdfast");
        assert!((settings.sampling_ratio - 1.0).abs() < f64::EPSILON);
        let headers: Vec<_> = settings
            .headers
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose().as_str()))
            .collect();
        assert_eq!(
            headers,
            [("Authorization", "Basic c2VjcmV0=="), ("X-Scope", "team")]
        );
        assert!(!format!("{settings:?}").contains("c2VjcmV0"));
    }

    #[test]
    fn invalid_settings_are_refused_without_secrets() {
        let error_of = |options: TraceOptions<'_>| match options.settings() {
            Ok(_) => panic!("accepted"),
            Err(error) => error.to_string(),
        };
        for endpoint in [
            "127.0.0.1:4318",
            "ftp://h",
            "http://user:secret-word@h",
            "http://h?a=b",
        ] {
            let error = error_of(options(endpoint));
            assert!(
                error.contains("trace_endpoint") && !error.contains("secret-word"),
                "{error}"
            );
        }
        let ratio = TraceOptions {
            sampling_ratio: Some(1.5),
            ..options("http://h")
        };
        assert!(error_of(ratio).contains("from 0 to 1"));
        let header = TraceOptions {
            headers: &["secret-word".to_owned()],
            ..options("http://h")
        };
        let error = error_of(header);
        assert!(
            error.contains("NAME=VALUE") && !error.contains("secret-word"),
            "{error}"
        );
    }
}
