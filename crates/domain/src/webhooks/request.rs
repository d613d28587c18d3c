//! Requests to the receivers of webhooks: their headers, secrets and signatures.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use storage::entities::now;
use storage::entities::project_hooks::{self, HookEvent};
use url::Url;

use super::receiver::{password_context, signing_context, token_context};
use super::receiver_url;
use super::values::{KeyedValue, ValueKind};
use crate::integrations::webhooks::{WebhookRequest, is_client_header};
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::secrets::{EncryptionContext, Secret};

/// Request headers, with their names in this service and in the compatible mode.
pub(super) const EVENT: [&str; 2] = ["X-Service-Event", "X-Gitlab-Event"];
pub(super) const UUID: [&str; 2] = ["X-Service-Event-UUID", "X-Gitlab-Event-UUID"];
const TOKEN: [&str; 2] = ["X-Service-Token", "X-Gitlab-Token"];
/// Headers of signed requests.
const SIGNED_ID: &str = "webhook-id";
const SIGNED_TIME: &str = "webhook-timestamp";
const SIGNATURE: &str = "webhook-signature";
/// Header with the password of a URL.
const AUTHORIZATION: &str = "Authorization";

/// Prefix of a signing token, before the key in Base64.
const SIGNING_PREFIX: &str = "whsec_";
/// Length of the key in a signing token, in bytes.
const SIGNING_KEY_LENGTH: usize = 32;

/// Replacement for secrets in the log of deliveries.
const REDACTED: &str = "[REDACTED]";

/// A request to a receiver.
pub(super) struct DeliveryRequest {
    /// The request.
    pub request: WebhookRequest,
    /// The headers that depend on the settings of the webhook, for the log of deliveries: a JSON object without
    /// secrets.
    pub logged_headers: Option<String>,
}

/// Returns the request of a delivery for one attempt. URL and secrets are those of one row, so that a change of the
/// webhook in between never sends the secrets of one receiver to another.
///
/// # Errors
/// Returns an error if a secret of the webhook cannot be decrypted.
pub(super) fn build(
    backend: &Backend,
    hook: &project_hooks::Model,
    kind: HookEvent,
    uuid: &str,
    body: Bytes,
    local: bool,
) -> Result<DeliveryRequest> {
    let names = if backend.instance.compat { 2 } else { 1 };
    let token = decrypt(backend, hook.token_encrypted.as_deref(), &token_context(hook.id))?;
    let signing_token = decrypt(
        backend,
        hook.signing_token_encrypted.as_deref(),
        &signing_context(hook.id),
    )?;
    let mut headers = Vec::new();
    let mut secrets = Vec::new();
    let mut logged = serde_json::Map::new();
    for ((event, id), secret) in EVENT.into_iter().zip(UUID).zip(TOKEN).take(names) {
        headers.push((event, kind.title().to_owned()));
        headers.push((id, uuid.to_owned()));
        secrets.extend(token.clone().map(|token| (secret, token)));
    }
    if token.is_some() {
        logged.insert(TOKEN[0].to_owned(), REDACTED.into());
    }
    if let Some(signing_token) = &signing_token {
        let time = now().timestamp().to_string();
        let signature = signature(signing_token, uuid, &time, &body)?;
        for (name, value) in [
            (SIGNED_ID, uuid),
            (SIGNED_TIME, time.as_str()),
            (SIGNATURE, signature.as_str()),
        ] {
            logged.insert(name.to_owned(), value.into());
        }
        headers.push((SIGNED_ID, uuid.to_owned()));
        headers.push((SIGNED_TIME, time));
        secrets.push((SIGNATURE, Secret::new(signature)));
    }
    let url = receiver_url::of_hook(backend, hook)?;
    let mut custom_headers = ValueKind::CustomHeaders.read(backend, hook)?;
    let own = headers.iter().map(|(name, _)| *name);
    let own = own.chain(secrets.iter().map(|(name, _)| *name));
    let own: Vec<&str> = own
        .chain(has_credentials(&url).then_some(AUTHORIZATION))
        .collect();
    custom_headers.retain(|header| !is_own(&own, header));
    for header in &custom_headers {
        logged.insert(header.key.clone(), REDACTED.into());
    }
    let request = WebhookRequest {
        url,
        password: decrypt(
            backend,
            hook.password_encrypted.as_deref(),
            &password_context(hook.id),
        )?,
        headers,
        secrets,
        custom_headers: custom_headers
            .into_iter()
            .map(|header| (header.key, header.value))
            .collect(),
        body,
        verify: hook.enable_ssl_verification,
        local,
    };
    let logged = serde_json::to_string(&logged).map_err(Error::internal)?;
    Ok(DeliveryRequest {
        request,
        logged_headers: Some(logged),
    })
}

/// Returns whether the server sets a header itself.
fn is_own(own: &[&str], header: &KeyedValue) -> bool {
    is_client_header(&header.key) || own.iter().any(|name| name.eq_ignore_ascii_case(&header.key))
}

/// Returns whether a URL has a username or password.
fn has_credentials(url: &str) -> bool {
    Url::parse(url).is_ok_and(|url| !url.username().is_empty() || url.password().is_some())
}

fn decrypt(
    backend: &Backend,
    sealed: Option<&str>,
    context: &EncryptionContext,
) -> Result<Option<Secret<String>>> {
    let opened = sealed.map(|sealed| backend.keyring.decrypt(sealed, context));
    Ok(opened.transpose()?)
}

/// Returns the key in a signing token, or `None` if the token is malformed.
pub(super) fn signing_key(token: &str) -> Option<[u8; SIGNING_KEY_LENGTH]> {
    let key = STANDARD.decode(token.strip_prefix(SIGNING_PREFIX)?).ok()?;
    key.try_into().ok()
}

/// Returns the signature of one attempt, as in the specification of Standard Webhooks.
fn signature(token: &Secret<String>, id: &str, time: &str, body: &[u8]) -> Result<String> {
    let key = signing_key(token.expose());
    let key = key.ok_or_else(|| Error::internal("the signing token of the webhook is malformed"))?;
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(&key).map_err(Error::internal)?;
    mac.update(format!("{id}.{time}.").as_bytes());
    mac.update(body);
    Ok(format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A token whose key has the bytes 0 to 31.
    const SIGNING_TOKEN: &str = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn signing_token_has_a_prefix_and_exactly_32_bytes() {
        assert_eq!(signing_key(SIGNING_TOKEN).map(|key| key[31]), Some(31));
        for token in [
            "",
            "whsec_",
            "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8",
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHg==",
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8g",
            "WHSEC_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
            "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
        ] {
            assert_eq!(signing_key(token), None, "{token}");
        }
    }

    #[test]
    fn signature_covers_id_time_and_body() {
        let token = Secret::new(SIGNING_TOKEN.to_owned());
        let of = |id: &str, time: &str, body: &str| {
            signature(&token, id, time, body.as_bytes()).expect("a signature")
        };
        let first = of("msg_1", "1764547200", "{\"a\":1}");
        assert_eq!(first, "v1,RxbuozuzWrhvCYINIeIpy6OmcLZldgY8YdrLi5SQ7jU=");
        for other in [
            of("msg_2", "1764547200", "{\"a\":1}"),
            of("msg_1", "1764547201", "{\"a\":1}"),
            of("msg_1", "1764547200", "{\"a\":2}"),
        ] {
            assert_ne!(first, other);
        }
    }

    #[test]
    fn own_headers_are_recognized_without_case() {
        let header = |key: &str| KeyedValue {
            key: key.to_owned(),
            value: Secret::new(String::new()),
        };
        for name in ["content-TYPE", "Host", "x-service-event"] {
            assert!(is_own(&EVENT, &header(name)), "{name}");
        }
        assert!(!is_own(&EVENT, &header("X-Service-Token")) && !is_own(&EVENT, &header("Authorization")));
        assert!(has_credentials("https://ada@example.com/") && !has_credentials("https://example.com/a@b"));
    }
}
