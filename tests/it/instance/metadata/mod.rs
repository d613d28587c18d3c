//! `GET /version` and `GET /metadata`.

use holdfast::config::ConfigOptions;
use serde_json::{Value, json};

use crate::support::{TestServer, on_every_database};

const PACKAGE_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the responses of both operations, which have the same version.
async fn responses(server: &TestServer) -> (Value, Value) {
    let version = server.root().get("/version").await.expect(200).json();
    let metadata = server.root().get("/metadata").await.expect(200).json();
    assert!(version["revision"].is_string());
    (version, metadata)
}

async fn get_version_and_metadata_return_package_version(server: TestServer) {
    let (version, metadata) = responses(&server).await;
    let expected = json!({
        "version": PACKAGE_VERSION,
        "revision": version["revision"],
        "enterprise": true,
        "server_version": PACKAGE_VERSION,
    });
    assert_eq!(version, expected);
    let mut expected = expected;
    expected["kas"] = json!({"enabled": false, "externalUrl": null, "version": null});
    assert_eq!(metadata, expected);
}

async fn compat_option_reports_version_of_reference_service(server: TestServer) {
    let (version, metadata) = responses(&server).await;
    for response in [version, metadata] {
        assert_eq!(response["version"], "17.11.0-ee");
        assert_eq!(response["server_version"], PACKAGE_VERSION);
        assert_eq!(response["enterprise"], true);
    }
}

async fn compat_version_is_a_setting_and_free_plan_is_no_enterprise(server: TestServer) {
    let (version, metadata) = responses(&server).await;
    for response in [version, metadata] {
        assert_eq!(response["version"], "18.2.1");
        assert_eq!(response["enterprise"], false);
    }
}

async fn get_version_and_metadata_without_token_return_401(server: TestServer) {
    for path in ["/version", "/metadata"] {
        let response = server.anonymous().get(path).await;
        assert_eq!((response.status, response.message()), (401, "401 Unauthorized".to_owned()), "{path}");
    }
}

async fn get_version_and_metadata_with_unknown_token_return_401(server: TestServer) {
    for path in ["/version", "/metadata"] {
        let response = server.with_token("hfpat-unknown").get(path).await;
        assert_eq!(response.status, 401, "{path}");
    }
}

fn compat() -> ConfigOptions {
    ConfigOptions { compat: Some(true), ..ConfigOptions::default() }
}

fn other_version() -> ConfigOptions {
    ConfigOptions { compat_version: Some("18.2.1".to_owned()), plan: Some("free".to_owned()), ..compat() }
}

on_every_database![
    get_version_and_metadata_return_package_version,
    compat_option_reports_version_of_reference_service with compat(),
    compat_version_is_a_setting_and_free_plan_is_no_enterprise with other_version(),
    get_version_and_metadata_without_token_return_401,
    get_version_and_metadata_with_unknown_token_return_401,
];
