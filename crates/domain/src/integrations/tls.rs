//! Cryptography provider for outgoing TLS connections.

/// Installs the provider for the whole process. If another part of the process has installed one already,
/// that one is used.
pub(crate) fn install_provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
