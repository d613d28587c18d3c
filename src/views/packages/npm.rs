//! npm packages.

use std::sync::Arc;

use domain::packages::npm::{NpmPackageDetail, StoredManifest};
use parsers::npm::{NpmName, NpmVersion};
use serde_json::Value;

use contract::deferred::{Deferred, DeferredError};
use contract::map::Map;
use contract::{NpmArchive, NpmPackage, NpmPackageVersion};

/// Returns a package in the format of npm. `registry` is the URL of the registry, to which the URLs of the archives
/// belong.
#[must_use]
pub fn npm_package(registry: &str, detail: NpmPackageDetail) -> NpmPackage {
    let NpmPackageDetail { name, versions, tags } = detail;
    let package = Arc::new((registry.to_owned(), name.clone()));
    let versions = versions.into_iter().map(|detail| {
        let key = detail.version.as_str().to_owned();
        let package = Arc::clone(&package);
        let create = move || -> Result<NpmPackageVersion, DeferredError> {
            let (registry, name) = &*package;
            let manifest = detail.manifest()?;
            Ok(npm_package_version(registry, name, &detail.version, manifest))
        };
        (key, Deferred::new(create))
    });
    NpmPackage {
        versions: versions.collect(),
        dist_tags: tags.into_iter().collect(),
        name: name.to_string(),
    }
}

fn npm_package_version(
    registry: &str,
    name: &NpmName,
    version: &NpmVersion,
    stored: StoredManifest,
) -> NpmPackageVersion {
    let mut manifest = stored.manifest;
    let mut value = |attribute: &str| manifest.remove(attribute);
    NpmPackageVersion {
        name: name.to_string(),
        version: version.as_str().to_owned(),
        deprecated: stored.deprecated,
        description: value("description"),
        dependencies: value("dependencies").and_then(strings),
        dev_dependencies: value("devDependencies").and_then(strings),
        optional_dependencies: value("optionalDependencies").and_then(strings),
        peer_dependencies: value("peerDependencies").and_then(strings),
        peer_dependencies_meta: value("peerDependenciesMeta"),
        bundle_dependencies: value("bundleDependencies"),
        bundled_dependencies: value("bundledDependencies"),
        bin: value("bin"),
        directories: value("directories"),
        engines: value("engines"),
        os: value("os"),
        cpu: value("cpu"),
        libc: value("libc"),
        funding: value("funding"),
        has_install_script: value("hasInstallScript"),
        gypfile: value("gypfile").and_then(|value| value.as_bool()),
        has_shrinkwrap: value("_hasShrinkwrap"),
        dist: NpmArchive {
            tarball: format!("{registry}/{name}/-/{}", name.file_name(version)),
            shasum: stored.shasum,
            integrity: stored.integrity,
        },
    }
}

/// Returns the strings of an object. Uploads accept only objects of strings here.
fn strings(value: Value) -> Option<Map<String>> {
    let Value::Object(entries) = value else {
        return None;
    };
    let texts = entries.into_iter().filter_map(|(name, value)| match value {
        Value::String(text) => Some((name, text)),
        _ => None,
    });
    Some(texts.collect())
}
