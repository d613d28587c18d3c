//! Paths of files that usually contain secrets.

use std::sync::LazyLock;

use regex::{Regex, RegexBuilder};

/// Expressions for paths: private keys of SSH and TLS, credentials of cloud services and of clients, and histories of shells.
const EXPRESSIONS: [&str; 8] = [
    r"aws/credentials$",
    r"(ssh|config)/(personal|server)_(rsa|dsa|ed[0-9]+|ecdsa)$",
    r"(^|[/_.-])id_(rsa|dsa|ed25519|ecdsa)(_sk)?$",
    r"\.(pem|key)$",
    r"(^|/)[._]netrc$",
    r"(^|/)[^/]*[._]history$",
    r"(^|/)secret_token\.rb$",
    r"(^|/)otr\.private_key$",
];

static COMPILED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let compile = |expression: &&str| RegexBuilder::new(expression).case_insensitive(true).build().ok();
    EXPRESSIONS.iter().filter_map(compile).collect()
});

/// Returns the expression that a path matches, if the file usually contains secrets.
pub(super) fn matching_expression(path: &str) -> Option<&'static str> {
    let found = COMPILED.iter().position(|expression| expression.is_match(path))?;
    EXPRESSIONS.get(found).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_secrets_are_found() {
        // All expressions compile, so their positions correspond.
        assert_eq!(COMPILED.len(), EXPRESSIONS.len());
        for path in [
            "id_rsa",
            "keys/id_ed25519",
            "deploy_id_ecdsa_sk",
            "ID_DSA",
            "tls/server.key",
            "a.pem",
            ".netrc",
            "home/_netrc",
            ".bash_history",
            "x/.irb-history/../.psql_history",
            ".aws/credentials",
            "aws/credentials",
            "config/server_rsa",
            "config/initializers/secret_token.rb",
            "otr.private_key",
        ] {
            assert!(matching_expression(path).is_some(), "{path}");
        }
        for path in [
            "id_rsa.pub",
            "grid_rsa",
            "keys.md",
            "pem",
            "docs/history",
            "history/notes.md",
            "netrc.md",
            "credentials",
            "monkey",
            "src/secret_token.rs",
        ] {
            assert_eq!(matching_expression(path), None, "{path}");
        }
    }
}
