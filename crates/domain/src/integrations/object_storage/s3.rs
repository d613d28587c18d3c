//! Buckets that support the S3 protocol.
//!
//! The address contains the bucket and the key prefix. The endpoint and the credentials are secrets or belong
//! to the machine. They are read from the environment variables that other tools for such buckets use.

use std::sync::Arc;
use std::time::Duration;

use object_store::aws::AmazonS3Builder;
use object_store::prefix::PrefixStore;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use super::Error;
use crate::integrations::tls;

/// Time limit for opening a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum time without data from the bucket, also within a response.
const READ_TIMEOUT: Duration = Duration::from_secs(20);
/// Maximum time for retries of a failed request.
const RETRY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of retries.
const MAX_RETRIES: usize = 3;
/// Environment variables with the endpoint of a bucket outside AWS.
const ENDPOINTS: [&str; 3] = ["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"];

/// Opens `s3://BUCKET/PREFIX`; no request is sent yet.
///
/// # Errors
/// Returns an error if the address or the environment is invalid.
pub(super) fn open(address: &str) -> Result<Arc<dyn ObjectStore>, Error> {
    let (bucket, prefix) = split_address(address).ok_or(Error::Address)?;
    tls::install_provider();
    let plain = ENDPOINTS.iter().find_map(|name| std::env::var(name).ok());
    let plain = plain.is_some_and(|endpoint| endpoint.starts_with("http://"));
    let options = ClientOptions::new()
        .with_connect_timeout(CONNECT_TIMEOUT)
        .with_read_timeout(READ_TIMEOUT)
        // A slow client may take any time to receive a file.
        .with_timeout_disabled();
    let retry = RetryConfig {
        max_retries: MAX_RETRIES,
        retry_timeout: RETRY_TIMEOUT,
        ..RetryConfig::default()
    };
    let bucket = AmazonS3Builder::from_env()
        .with_client_options(options)
        .with_allow_http(plain)
        .with_retry(retry)
        .with_bucket_name(bucket)
        .build()?;
    Ok(match prefix {
        "" => Arc::new(bucket),
        prefix => Arc::new(PrefixStore::new(bucket, prefix)),
    })
}

/// Splits an address into bucket and prefix, or returns `None` if it is invalid.
fn split_address(address: &str) -> Option<(&str, &str)> {
    let rest = address.strip_prefix("s3://")?;
    let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
    let named = (3..=63).contains(&bucket.len()) && bucket.chars().all(plain);
    let prefix = prefix.trim_matches('/');
    let parts = prefix.split('/');
    let has_valid_prefix = prefix.is_empty()
        || parts.clone().all(|part| !matches!(part, "" | "." | ".."))
            && prefix
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_'));
    (named && has_valid_prefix).then_some((bucket, prefix))
}

#[cfg(test)]
mod tests {
    use super::split_address;

    #[test]
    fn s3_url_has_bucket_and_optional_prefix() {
        assert_eq!(split_address("s3://files"), Some(("files", "")));
        assert_eq!(split_address("s3://files/"), Some(("files", "")));
        assert_eq!(
            split_address("s3://my.files-1/a/b_c/"),
            Some(("my.files-1", "a/b_c"))
        );
        for address in [
            "s3://",
            "s3:///prefix",
            "s3://ab",
            "s3://Files",
            "s3://key:secret@files",
            "s3://files:9000/a",
            "s3://files/a//b",
            "s3://files/../b",
            "s3://files/a?b",
            "s3://files/a%2Fb",
            "http://files",
        ] {
            assert_eq!(split_address(address), None, "{address}");
        }
    }
}
