//! Recognizes common open-source licenses by their text.

use std::sync::LazyLock;

use spdx::detection::{Store, TextData};
use spdx::text::LICENSE_TEXTS;

/// Minimum similarity of a text to a license, from 0 to 1.
const MIN_SIMILARITY: f32 = 0.92;

/// SPDX IDs of the licenses that are recognized. Rarely used ones would only cost time.
const KNOWN_LICENSES: [&str; 44] = [
    "0BSD",
    "AFL-3.0",
    "AGPL-3.0-only",
    "Apache-2.0",
    "Artistic-2.0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSD-4-Clause",
    "BSL-1.0",
    "BlueOak-1.0.0",
    "CC-BY-4.0",
    "CC-BY-SA-4.0",
    "CC0-1.0",
    "CDDL-1.0",
    "CECILL-2.1",
    "ECL-2.0",
    "EPL-1.0",
    "EPL-2.0",
    "EUPL-1.1",
    "EUPL-1.2",
    "GPL-2.0-only",
    "GPL-3.0-only",
    "ISC",
    "LGPL-2.1-only",
    "LGPL-3.0-only",
    "LPPL-1.3c",
    "MIT",
    "MIT-0",
    "MPL-1.1",
    "MPL-2.0",
    "MS-PL",
    "MS-RL",
    "MulanPSL-2.0",
    "NCSA",
    "ODbL-1.0",
    "OFL-1.1",
    "OSL-3.0",
    "PostgreSQL",
    "UPL-1.0",
    "Unlicense",
    "Vim",
    "WTFPL",
    "X11",
    "Zlib",
];

/// A license.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LicenseDetail {
    /// The short name in lower case, such as `gpl-3.0`.
    pub key: String,
    /// The name.
    pub name: String,
    /// Common name, if different.
    pub nickname: Option<&'static str>,
    /// Address of a description.
    pub html_url: String,
    /// Address of the original text.
    pub source_url: Option<&'static str>,
}

static TEXTS: LazyLock<Store> = LazyLock::new(|| {
    let mut store = Store::new();
    for (id, text) in LICENSE_TEXTS.iter().filter(|(id, _)| KNOWN_LICENSES.contains(id)) {
        store.add_license((*id).to_owned(), TextData::new(text).without_text());
    }
    store
});

/// Returns how likely a file name is that of a license, lower being more likely, or `None` for other files.
#[must_use]
pub fn rank(file_name: &str) -> Option<u8> {
    let name = file_name.to_lowercase();
    let stem = name.split(['.', '-', '_']).next().unwrap_or_default();
    match (name.as_str(), stem) {
        ("license" | "licence", _) => Some(0),
        ("license.md" | "license.txt" | "licence.md" | "licence.txt", _) => Some(1),
        ("copying", _) => Some(2),
        (_, "copying") => Some(3),
        (_, "license" | "licence" | "unlicense" | "unlicence") => Some(4),
        _ => None,
    }
}

/// Returns the SPDX ID of the license whose text this is.
#[must_use]
pub fn recognize(text: &str) -> Option<&'static str> {
    if text.trim().is_empty() {
        return None;
    }
    let found = TEXTS.analyze(&TextData::new(text));
    let known = KNOWN_LICENSES.iter().copied().find(|id| *id == found.name);
    known.filter(|_| found.score >= MIN_SIMILARITY)
}

/// Returns the details of a license by an ID that [`recognize`] returned.
#[must_use]
pub fn describe(id: &str) -> Option<LicenseDetail> {
    let known = spdx::license_id(id)?;
    let short = id.strip_suffix("-only").unwrap_or(id);
    let name = known.full_name.strip_suffix(" only").unwrap_or(known.full_name);
    Some(LicenseDetail {
        key: short.to_lowercase(),
        name: name.to_owned(),
        nickname: nickname(short),
        html_url: format!("https://spdx.org/licenses/{id}.html"),
        source_url: source_url(short),
    })
}

fn nickname(short: &str) -> Option<&'static str> {
    match short {
        "AGPL-3.0" => Some("GNU AGPLv3"),
        "GPL-2.0" => Some("GNU GPLv2"),
        "GPL-3.0" => Some("GNU GPLv3"),
        "LGPL-2.1" => Some("GNU LGPLv2.1"),
        "LGPL-3.0" => Some("GNU LGPLv3"),
        _ => None,
    }
}

fn source_url(short: &str) -> Option<&'static str> {
    match short {
        "AGPL-3.0" => Some("https://www.gnu.org/licenses/agpl-3.0.txt"),
        "Apache-2.0" => Some("https://www.apache.org/licenses/LICENSE-2.0"),
        "GPL-2.0" => Some("https://www.gnu.org/licenses/gpl-2.0.txt"),
        "GPL-3.0" => Some("https://www.gnu.org/licenses/gpl-3.0.txt"),
        "LGPL-2.1" => Some("https://www.gnu.org/licenses/lgpl-2.1.txt"),
        "LGPL-3.0" => Some("https://www.gnu.org/licenses/lgpl-3.0.txt"),
        "MIT" => Some("https://opensource.org/licenses/MIT"),
        "MPL-2.0" => Some("https://www.mozilla.org/media/MPL/2.0/index.txt"),
        "Unlicense" => Some("https://unlicense.org/UNLICENSE"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(id: &str) -> &'static str {
        LICENSE_TEXTS
            .iter()
            .find(|(known, _)| *known == id)
            .expect("a license")
            .1
    }

    #[test]
    fn every_known_license_is_detected_from_its_own_text() {
        for id in KNOWN_LICENSES {
            assert_eq!(recognize(text_of(id)), Some(id));
            assert!(describe(id).is_some(), "{id}");
        }
    }

    #[test]
    fn license_detection_ignores_copyright_line() {
        let text = text_of("MIT")
            .replace("<year>", "1842")
            .replace("<copyright holders>", "Ada Lovelace");
        assert_eq!(recognize(&text), Some("MIT"));
    }

    #[test]
    fn other_texts_are_not_detected_as_license() {
        for text in [
            "",
            " \n",
            "All rights reserved.",
            "Do as you please with this software.",
        ] {
            assert_eq!(recognize(text), None, "{text:?}");
        }
    }

    #[test]
    fn license_has_known_key_name_and_nickname() {
        let license = describe("GPL-3.0-only").expect("a license");
        assert_eq!(
            (license.key.as_str(), license.nickname),
            ("gpl-3.0", Some("GNU GPLv3"))
        );
        assert_eq!(license.name, "GNU General Public License v3.0");
        assert_eq!(describe("MIT").expect("a license").name, "MIT License");
    }

    #[test]
    fn license_files_are_ranked_by_name() {
        assert!(rank("LICENSE") < rank("LICENSE-MIT") && rank("COPYING.LESSER").is_some());
        assert_eq!((rank("licensing.rs"), rank("README")), (None, None));
    }
}
