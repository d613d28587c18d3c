//! Parser of manifests. They are parsed once when they are pushed, within limits. Claims that can be looked
//! up are not trusted.

use std::collections::BTreeMap;

use chrono::{DateTime, Datelike, Utc};
use serde::Deserialize;
use serde_json::json;

use crate::registry::digest::Digest;
use crate::registry::error::{RegistryError, RegistryErrorCode};

/// Media type of an OCI image manifest.
const OCI_IMAGE: &str = "application/vnd.oci.image.manifest.v1+json";
/// Media type of an OCI image index.
const OCI_INDEX: &str = "application/vnd.oci.image.index.v1+json";
/// Media type of a Docker image manifest.
const DOCKER_IMAGE: &str = "application/vnd.docker.distribution.manifest.v2+json";
/// Media type of a Docker manifest list.
const DOCKER_LIST: &str = "application/vnd.docker.distribution.manifest.list.v2+json";
/// All media types of manifests.
const MANIFESTS: [&str; 4] = [OCI_IMAGE, OCI_INDEX, DOCKER_IMAGE, DOCKER_LIST];
/// Media types of configurations with the creation time of an image.
const CONFIGURATIONS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// Layers of this type are stored elsewhere and not pushed.
const FOREIGN: &str = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip";
/// Prefix of the types of layers that must not be distributed.
const NOT_DISTRIBUTED: &str = "application/vnd.oci.image.layer.nondistributable.";
/// Maximum number of references in a manifest.
const MAX_REFERENCES: usize = 1_000;
/// Maximum length of a media type, in bytes.
const MAX_TYPE_BYTES: usize = 255;
/// Maximum length of the annotations of a manifest with a subject, in bytes. Referrer lists repeat them.
const MAX_ANNOTATIONS_BYTES: usize = 256 << 10;

/// A parsed manifest.
#[derive(Debug)]
pub(super) struct ManifestDocument {
    /// The media type.
    pub(super) media_type: String,
    /// The artifact type, if given.
    pub(super) artifact_type: Option<String>,
    /// The subject.
    pub(super) subject: Option<Digest>,
    /// The annotations as JSON, if it has a subject.
    pub(super) annotations: Option<String>,
    /// The content.
    pub(super) parts: ManifestContent,
}

/// The content of a manifest.
#[derive(Debug)]
pub(super) enum ManifestContent {
    /// An image: its configuration and the layers that are pushed.
    Image {
        /// The configuration.
        config: Digest,
        /// Whether the configuration has a type with a creation time.
        dated: bool,
        /// The layers in order; a layer may occur twice.
        layers: Vec<Digest>,
    },
    /// A list with its children.
    List(Vec<ManifestChild>),
}

/// A child of a list.
#[derive(Debug)]
pub(super) struct ManifestChild {
    /// The digest.
    pub(super) digest: Digest,
    /// Whether its type is that of a manifest. Otherwise it may be a blob: build caches are lists of layers.
    pub(super) manifest: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawManifest {
    schema_version: u64,
    media_type: Option<String>,
    artifact_type: Option<String>,
    config: Option<Descriptor>,
    layers: Option<Vec<Descriptor>>,
    manifests: Option<Vec<Descriptor>>,
    subject: Option<Descriptor>,
    annotations: Option<Annotations>,
}

/// Annotations of a manifest. Clients expect only strings in a referrer list.
pub type Annotations = BTreeMap<String, String>;

/// The parsed part of a configuration; other fields are skipped.
#[derive(Deserialize)]
struct ImageConfiguration {
    created: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    #[serde(default)]
    media_type: String,
    digest: String,
    #[serde(default)]
    urls: Option<Vec<String>>,
}

impl ManifestDocument {
    /// Parses a manifest that was sent with this media type.
    ///
    /// # Errors
    /// Returns `MANIFEST_INVALID` with the reason, or `DIGEST_INVALID` for a malformed digest.
    pub(super) fn parse(bytes: &[u8], sent_as: &str) -> Result<Self, RegistryError> {
        let written: RawManifest =
            serde_json::from_slice(bytes).map_err(|error| invalid(format!("invalid manifest: {error}")))?;
        let sent_as = sent_as.split(';').next().unwrap_or_default().trim();
        if written.schema_version != 2 {
            return Err(invalid("the schemaVersion must be 2"));
        }
        if written.media_type.as_deref().is_some_and(|own| own != sent_as) {
            return Err(invalid("the mediaType does not match the Content-Type"));
        }
        let parts = match sent_as {
            OCI_IMAGE | DOCKER_IMAGE => image(&written)?,
            OCI_INDEX | DOCKER_LIST => list(&written)?,
            other => {
                return Err(invalid(format!(
                    "manifests of the type {} are not supported",
                    other.escape_default()
                )));
            }
        };
        let config_type = written.config.as_ref().map(|config| config.media_type.clone());
        let artifact_type = written.artifact_type.filter(|kind| !kind.is_empty());
        let named = |kind: &Option<String>| kind.as_ref().is_none_or(|kind| is_type(kind));
        if !named(&artifact_type) || !named(&config_type) {
            return Err(invalid(format!(
                "a media type must have at most {MAX_TYPE_BYTES} printable ASCII characters"
            )));
        }
        let subject = written
            .subject
            .map(|subject| Digest::parse(&subject.digest))
            .transpose()?;
        let annotations = written.annotations.filter(|_| subject.is_some());
        let annotations = annotations.map(|annotations| json!(annotations).to_string());
        if annotations
            .as_ref()
            .is_some_and(|text| text.len() > MAX_ANNOTATIONS_BYTES)
        {
            let text = format!("annotations are too long (maximum is {MAX_ANNOTATIONS_BYTES} bytes)");
            return Err(invalid(text));
        }
        Ok(Self {
            media_type: sent_as.to_owned(),
            // For an image without an artifact type, lists contain the type of the configuration.
            artifact_type: artifact_type.or(config_type.filter(|kind| !kind.is_empty())),
            subject,
            annotations,
            parts,
        })
    }
}

fn image(written: &RawManifest) -> Result<ManifestContent, RegistryError> {
    let config = written.config.as_ref();
    let config = config.ok_or_else(|| invalid("an image manifest must have a config"))?;
    let layers = written.layers.as_ref();
    let layers = layers.ok_or_else(|| invalid("an image manifest must have layers"))?;
    if written.manifests.is_some() {
        return Err(invalid("an image manifest must not have manifests"));
    }
    let pushed = layers.iter().filter(|layer| !is_foreign_layer(layer));
    Ok(ManifestContent::Image {
        config: Digest::parse(&config.digest)?,
        dated: CONFIGURATIONS.contains(&config.media_type.as_str()),
        layers: digests(layers.len(), pushed)?,
    })
}

fn list(written: &RawManifest) -> Result<ManifestContent, RegistryError> {
    let manifests = written.manifests.as_ref();
    let manifests = manifests.ok_or_else(|| invalid("an image index must have manifests"))?;
    if written.config.is_some() || written.layers.is_some() {
        return Err(invalid("an image index must not have config or layers"));
    }
    let children = digests(manifests.len(), manifests.iter())?.into_iter();
    let children = children.zip(manifests).map(|(digest, descriptor)| ManifestChild {
        digest,
        manifest: MANIFESTS.contains(&descriptor.media_type.as_str()),
    });
    Ok(ManifestContent::List(children.collect()))
}

fn digests<'a>(
    count: usize,
    named: impl Iterator<Item = &'a Descriptor>,
) -> Result<Vec<Digest>, RegistryError> {
    if count > MAX_REFERENCES {
        return Err(invalid(format!(
            "a manifest refers to too many objects (maximum is {MAX_REFERENCES})"
        )));
    }
    named
        .map(|descriptor| Digest::parse(&descriptor.digest))
        .collect()
}

fn is_type(kind: &str) -> bool {
    kind.len() <= MAX_TYPE_BYTES && kind.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn is_foreign_layer(layer: &Descriptor) -> bool {
    let kind = layer.media_type.as_str();
    (kind == FOREIGN || kind.starts_with(NOT_DISTRIBUTED))
        && layer.urls.as_ref().is_some_and(|urls| !urls.is_empty())
}

fn invalid(text: impl Into<std::borrow::Cow<'static, str>>) -> RegistryError {
    RegistryError::new(RegistryErrorCode::ManifestInvalid, text)
}

/// Returns the creation time in the configuration of an image, or `None` if it is absent or the zero time.
pub(super) fn creation_time(config: &[u8]) -> Option<DateTime<Utc>> {
    // An array would be deserialized by position.
    if !config.trim_ascii_start().starts_with(b"{") {
        return None;
    }
    let config: ImageConfiguration = serde_json::from_slice(config).ok()?;
    let instant = DateTime::parse_from_rfc3339(&config.created?).ok()?.to_utc();
    (2..=9999).contains(&instant.year()).then_some(instant)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn digest(number: u8) -> String {
        Digest::of(&[number]).to_string()
    }

    fn read(document: &Value, kind: &str) -> Result<ManifestDocument, RegistryError> {
        ManifestDocument::parse(document.to_string().as_bytes(), kind)
    }

    fn image_with(further: Value) -> Value {
        let mut document = json!({
            "schemaVersion": 2,
            "config": {"mediaType": CONFIGURATIONS[0], "digest": digest(1), "size": 1},
            "layers": [{"mediaType": "x", "digest": digest(2), "size": 1}],
        });
        for (name, value) in further.as_object().expect("an object") {
            document[name] = value.clone();
        }
        document
    }

    #[test]
    fn image_manifest_and_index_are_parsed() {
        let found = read(&image_with(json!({"mediaType": OCI_IMAGE})), OCI_IMAGE).expect("an image");
        let ManifestContent::Image {
            config,
            dated,
            layers,
        } = found.parts
        else {
            panic!("no image");
        };
        assert_eq!((config.as_str(), dated), (digest(1).as_str(), true));
        assert_eq!(layers.len(), 1);
        assert_eq!(found.artifact_type.as_deref(), Some(CONFIGURATIONS[0]));
        let list = json!({"schemaVersion": 2, "manifests": [{"digest": digest(1)}, {"digest": digest(2)}]});
        let found = read(&list, &format!("{OCI_INDEX}; charset=utf-8")).expect("a list");
        assert!(matches!(found.parts, ManifestContent::List(children) if children.len() == 2));
        assert_eq!(found.artifact_type, None);
    }

    #[test]
    fn foreign_layers_with_urls_are_not_required() {
        let elsewhere = json!({"mediaType": FOREIGN, "digest": digest(3), "urls": ["https://x"]});
        let nowhere = json!({"mediaType": FOREIGN, "digest": digest(3)});
        for (layer, expected_layers) in [(elsewhere, 0), (nowhere, 1)] {
            let found = read(&image_with(json!({"layers": [layer]})), DOCKER_IMAGE).expect("an image");
            assert!(
                matches!(found.parts, ManifestContent::Image { layers, .. } if layers.len() == expected_layers)
            );
        }
    }

    #[test]
    fn index_entries_of_other_media_types_may_be_blobs() {
        let children: Vec<Value> = MANIFESTS
            .into_iter()
            .chain(["", "application/vnd.oci.image.layer.v1.tar+gzip"])
            .map(|kind| json!({"mediaType": kind, "digest": digest(1)}))
            .collect();
        let found = read(&json!({"schemaVersion": 2, "manifests": children}), OCI_INDEX).expect("a list");
        let ManifestContent::List(children) = found.parts else {
            panic!("no list");
        };
        let manifests: Vec<bool> = children.iter().map(|child| child.manifest).collect();
        assert_eq!(manifests, [true, true, true, true, false, false]);
    }

    #[test]
    fn annotations_are_returned_only_with_subject() {
        let about =
            json!({"subject": {"digest": digest(9)}, "annotations": {"a": "b"}, "artifactType": "t/x"});
        let found = read(&image_with(about), OCI_IMAGE).expect("an image");
        assert_eq!(found.subject.map(|subject| subject.to_string()), Some(digest(9)));
        assert_eq!(found.annotations.as_deref(), Some(r#"{"a":"b"}"#));
        assert_eq!(found.artifact_type.as_deref(), Some("t/x"));
        let found = read(&image_with(json!({"annotations": {"a": "b"}})), OCI_IMAGE).expect("an image");
        assert_eq!(found.annotations, None);
    }

    #[test]
    fn invalid_manifest_is_rejected() {
        let many = vec![json!({"digest": digest(1)}); MAX_REFERENCES + 1];
        for (document, kind) in [
            (json!(null), OCI_IMAGE),
            (json!([]), OCI_IMAGE),
            (json!({}), OCI_IMAGE),
            (image_with(json!({"schemaVersion": 1})), OCI_IMAGE),
            (image_with(json!({"schemaVersion": "2"})), OCI_IMAGE),
            (image_with(json!({"mediaType": DOCKER_IMAGE})), OCI_IMAGE),
            (image_with(json!({})), "application/json"),
            (image_with(json!({})), ""),
            (image_with(json!({"config": null})), OCI_IMAGE),
            (image_with(json!({"layers": null})), OCI_IMAGE),
            (image_with(json!({"layers": many})), OCI_IMAGE),
            (image_with(json!({"layers": [{"digest": "sha256:x"}]})), OCI_IMAGE),
            (image_with(json!({"layers": [{"digest": 1}]})), OCI_IMAGE),
            (image_with(json!({"manifests": []})), OCI_IMAGE),
            (image_with(json!({"subject": {"digest": "x"}})), OCI_IMAGE),
            (image_with(json!({"artifactType": "x".repeat(256)})), OCI_IMAGE),
            (image_with(json!({"artifactType": "a\0b"})), OCI_IMAGE),
            (image_with(json!({"artifactType": "\u{e4}/x"})), OCI_IMAGE),
            (
                image_with(json!({"config": {"mediaType": "a\0", "digest": digest(1)}})),
                OCI_IMAGE,
            ),
            (image_with(json!({"annotations": {"a": 1}})), OCI_IMAGE),
            (image_with(json!({"annotations": {"a": null}})), OCI_IMAGE),
            (image_with(json!({"annotations": {"a": {"b": "c"}}})), OCI_IMAGE),
            (image_with(json!({"annotations": ["a"]})), OCI_IMAGE),
            (json!({"schemaVersion": 2}), OCI_INDEX),
            (json!({"schemaVersion": 2, "manifests": many}), OCI_INDEX),
            (
                json!({"schemaVersion": 2, "manifests": [], "layers": []}),
                DOCKER_LIST,
            ),
        ] {
            assert!(read(&document, kind).is_err(), "{kind} {document}");
        }
        assert!(ManifestDocument::parse(b"{", OCI_IMAGE).is_err());
        assert!(ManifestDocument::parse(&[b'['; 100_000], OCI_IMAGE).is_err());
    }

    #[test]
    fn creation_time_is_read_from_image_config() {
        let created = |text: &str| creation_time(text.as_bytes()).map(|instant| instant.to_rfc3339());
        let some = created(r#"{"created": "2020-02-03T04:05:06.789+02:00"}"#);
        assert_eq!(some.as_deref(), Some("2020-02-03T02:05:06.789+00:00"));
        // Other fields are ignored at any position.
        let among = created(" {\"a\": [[{}, 1e999]], \"created\": \"2020-02-03T04:05:06Z\", \"b\": null}");
        assert_eq!(among.as_deref(), Some("2020-02-03T04:05:06+00:00"));
        for none in [
            "",
            "x",
            "[]",
            "{}",
            r#"["2020-02-03T04:05:06Z"]"#,
            "[0, 0, 0]",
            r#"{"created": 7}"#,
            r#"{"created": null}"#,
            r#"{"created": "yesterday"}"#,
            r#"{"created": "0001-01-01T00:00:00Z"}"#,
        ] {
            assert_eq!(created(none), None, "{none}");
        }
    }
}
