//! The settings file `holdfast.toml`.

use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};

/// Reads a settings file. Returns the reason if it is not valid. The reason contains the line of the fault, but not the
/// text there, which can be a password.
pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, String> {
    let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
    toml::from_str(&text).map_err(|error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let message = error.message().trim_end();
        match before {
            Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
            None => message.to_owned(),
        }
    })
}

/// A list of networks, or the single text that is written by mistake.
#[derive(Deserialize)]
#[serde(untagged)]
enum ListOrText {
    List(Vec<String>),
    Text(String),
}

/// Reads the networks of trusted proxies.
pub(super) fn networks<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<String>>, D::Error> {
    list(source, "trusted_proxies", "networks, such as [\"10.0.0.0/8\"]")
}

/// Reads the origins of web pages that can call the API.
pub(super) fn origins<'de, D: Deserializer<'de>>(source: D) -> Result<Option<Vec<String>>, D::Error> {
    list(
        source,
        "cors_origins",
        "origins, such as [\"https://app.example\"]",
    )
}

/// Reads a list of texts. A text is the syntax of the command line, so its error shows the list to write.
fn list<'de, D: Deserializer<'de>>(
    source: D,
    name: &str,
    content: &str,
) -> Result<Option<Vec<String>>, D::Error> {
    match ListOrText::deserialize(source) {
        Ok(ListOrText::List(list)) => Ok(Some(list)),
        Ok(ListOrText::Text(text)) => {
            let list: Vec<&str> = text.split(',').map(str::trim).collect();
            Err(serde::de::Error::custom(format!(
                "{name} is a text, but must be a list; write {name} = {list:?}"
            )))
        }
        Err(_) => Err(serde::de::Error::custom(format!(
            "{name} must be a list of {content}"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Settings {
        #[serde(rename = "plan")]
        _plan: Option<String>,
        #[serde(rename = "root_password")]
        _root_password: Option<String>,
        #[serde(deserialize_with = "networks")]
        trusted_proxies: Option<Vec<String>>,
    }

    fn fault(text: &str) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("holdfast.toml");
        std::fs::write(&path, text).expect("a file");
        let found = read::<Settings>(&path);
        found
            .map(|settings| {
                settings
                    .trusted_proxies
                    .map_or_else(String::new, |list| list.join(" "))
            })
            .unwrap_or_else(|cause| cause)
    }

    #[test]
    fn empty_file_has_no_settings() {
        assert_eq!(fault(""), "");
        assert!(read::<Settings>(Path::new("/dev/null")).is_ok());
        assert_eq!(
            fault("trusted_proxies = [\"10.0.0.0/8\", \"::1\"]"),
            "10.0.0.0/8 ::1"
        );
    }

    #[test]
    fn faults_name_line_and_remedy() {
        assert_eq!(
            fault("plan = \"free\"\ntrusted_proxies = \"10.0.0.0/8, ::1\"\n"),
            "line 2: trusted_proxies is a text, but must be a list; \
             write trusted_proxies = [\"10.0.0.0/8\", \"::1\"]"
        );
        assert!(fault("trusted_proxies = 5").contains("must be a list of networks"));
        let unknown = fault("\n\nlisen = \"127.0.0.1:1\"");
        assert!(
            unknown.starts_with("line 3: ") && unknown.contains("lisen"),
            "{unknown}"
        );
    }

    #[test]
    fn faults_do_not_contain_passwords() {
        for text in [
            "root_password = secret-word",
            "root_password = \"secret-word",
            "root_password = [\"secret-word\"]",
        ] {
            let shown = fault(text);
            assert!(!shown.is_empty() && !shown.contains("secret-word"), "{shown}");
        }
    }
}
