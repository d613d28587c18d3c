//! stub
/// d
pub fn digest(text: &str) -> String { use sha2::Digest; hex::encode(sha2::Sha256::digest(text)) }
