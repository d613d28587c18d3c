//! What encrypts connections to others.

/// Chooses the implementation for the whole process. Another part of it may have chosen before; either will do.
pub(crate) fn choose() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}
