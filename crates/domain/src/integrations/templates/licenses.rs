//! License templates: texts, summaries and placeholders.

use std::sync::LazyLock;

use regex::{Captures, Regex};
use spdx::text::LICENSE_TEXTS;

use crate::integrations::licenses;

/// Maximum number of placeholders that are replaced in a text.
const MAX_REPLACED: usize = 1_000;

/// A license template.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LicenseTemplate {
    /// The short name in lower case, such as `gpl-3.0`.
    pub key: String,
    /// The name.
    pub name: String,
    /// Common name, if different.
    pub nickname: Option<&'static str>,
    /// Whether it is one of the most popular licenses.
    pub popular: bool,
    /// Address of a description.
    pub html_url: Option<String>,
    /// Address of the original text.
    pub source_url: Option<&'static str>,
    /// Short description.
    pub description: Option<&'static str>,
    /// Conditions for users of the work, such as `include-copyright`.
    pub conditions: &'static [&'static str],
    /// Permitted uses.
    pub permissions: &'static [&'static str],
    /// Limitations, such as `liability`.
    pub limitations: &'static [&'static str],
    /// The full text.
    pub content: String,
}

/// Details of a license other than its names and text.
struct LicenseFacts {
    id: &'static str,
    popular: bool,
    description: &'static str,
    conditions: &'static [&'static str],
    permissions: &'static [&'static str],
    limitations: &'static [&'static str],
}

const COMMERCIAL_USE: &str = "commercial-use";
const MODIFICATIONS: &str = "modifications";
const DISTRIBUTION: &str = "distribution";
const PATENT_USE: &str = "patent-use";
const PRIVATE_USE: &str = "private-use";
const INCLUDE_COPYRIGHT: &str = "include-copyright";
const INCLUDE_COPYRIGHT_WITH_SOURCE: &str = "include-copyright--source";
const DOCUMENT_CHANGES: &str = "document-changes";
const DISCLOSE_SOURCE: &str = "disclose-source";
const NETWORK_USE_DISCLOSE: &str = "network-use-disclose";
const SAME_LICENSE: &str = "same-license";
const SAME_LICENSE_FOR_FILES: &str = "same-license--file";
const SAME_LICENSE_FOR_LIBRARY: &str = "same-license--library";
const NO_LIABILITY: &str = "liability";
const NO_WARRANTY: &str = "warranty";
const NO_TRADEMARKS: &str = "trademark-use";
const NO_PATENTS: &str = "patent-use";

/// Permissions of nearly all licenses.
const PERMISSIVE: &[&str] = &[COMMERCIAL_USE, MODIFICATIONS, DISTRIBUTION, PRIVATE_USE];
/// The same permissions, with patent use.
const PERMISSIVE_WITH_PATENTS: &[&str] = &[
    COMMERCIAL_USE,
    MODIFICATIONS,
    DISTRIBUTION,
    PATENT_USE,
    PRIVATE_USE,
];
/// Limitations of nearly all licenses.
const NO_LIABILITY_OR_WARRANTY: &[&str] = &[NO_LIABILITY, NO_WARRANTY];

/// Details, ordered by key.
const LICENSES: [LicenseFacts; 16] = [
    LicenseFacts {
        id: "AGPL-3.0-only",
        popular: false,
        description: "Same terms as the GPL. Users who interact with the work over a network must be \
                      offered its source as well.",
        conditions: &[
            INCLUDE_COPYRIGHT,
            DOCUMENT_CHANGES,
            DISCLOSE_SOURCE,
            NETWORK_USE_DISCLOSE,
            SAME_LICENSE,
        ],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "Apache-2.0",
        popular: true,
        description: "Permissive license that requires preserving notices and stating changes. \
                      Contributors grant patent rights.",
        conditions: &[INCLUDE_COPYRIGHT, DOCUMENT_CHANGES],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: &[NO_TRADEMARKS, NO_LIABILITY, NO_WARRANTY],
    },
    LicenseFacts {
        id: "BSD-2-Clause",
        popular: false,
        description: "Permissive license that requires preserving the copyright notice and the disclaimer.",
        conditions: &[INCLUDE_COPYRIGHT],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "BSD-3-Clause",
        popular: false,
        description: "Same terms as the 2-clause BSD license. The names of contributors must not be \
                      used for promotion.",
        conditions: &[INCLUDE_COPYRIGHT],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "BSL-1.0",
        popular: false,
        description: "Permissive license that requires preserving the notice in source code, but not in \
                      compiled copies.",
        conditions: &[INCLUDE_COPYRIGHT_WITH_SOURCE],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "CC0-1.0",
        popular: false,
        description: "Dedicates the work to the public domain and waives all rights worldwide, except \
                      patents and trademarks.",
        conditions: &[],
        permissions: PERMISSIVE,
        limitations: &[NO_LIABILITY, NO_TRADEMARKS, NO_PATENTS, NO_WARRANTY],
    },
    LicenseFacts {
        id: "EPL-2.0",
        popular: false,
        description: "Modified parts must be published with source under this license; separate parts \
                      need not. Can be made compatible with the GPL.",
        conditions: &[DISCLOSE_SOURCE, INCLUDE_COPYRIGHT, SAME_LICENSE],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "EUPL-1.2",
        popular: false,
        description: "License of the European Union, available in its official languages. Derived works \
                      must use it or a license that it lists.",
        conditions: &[
            INCLUDE_COPYRIGHT,
            DISCLOSE_SOURCE,
            DOCUMENT_CHANGES,
            NETWORK_USE_DISCLOSE,
            SAME_LICENSE,
        ],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: &[NO_LIABILITY, NO_TRADEMARKS, NO_WARRANTY],
    },
    LicenseFacts {
        id: "GPL-2.0-only",
        popular: false,
        description: "Distributed copies and derived works must include source under the same license.",
        conditions: &[INCLUDE_COPYRIGHT, DOCUMENT_CHANGES, DISCLOSE_SOURCE, SAME_LICENSE],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "GPL-3.0-only",
        popular: true,
        description: "Distributed copies and derived works must include source under the same license. \
                      Contributors grant patent rights, and technical locks against modification are \
                      prohibited.",
        conditions: &[INCLUDE_COPYRIGHT, DOCUMENT_CHANGES, DISCLOSE_SOURCE, SAME_LICENSE],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "ISC",
        popular: false,
        description: "Permissive license that is equivalent to the MIT license, in a shorter form.",
        conditions: &[INCLUDE_COPYRIGHT],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "LGPL-2.1-only",
        popular: false,
        description: "For libraries: changes to the library must be published with source under this \
                      license. Programs that use it may have any license.",
        conditions: &[
            INCLUDE_COPYRIGHT,
            DISCLOSE_SOURCE,
            DOCUMENT_CHANGES,
            SAME_LICENSE_FOR_LIBRARY,
        ],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "LGPL-3.0-only",
        popular: false,
        description: "For libraries: version 3 of the GPL with additional permission to use the library \
                      in programs under any license.",
        conditions: &[
            INCLUDE_COPYRIGHT,
            DISCLOSE_SOURCE,
            DOCUMENT_CHANGES,
            SAME_LICENSE_FOR_LIBRARY,
        ],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "MIT",
        popular: true,
        description: "Short permissive license that requires preserving the copyright notice.",
        conditions: &[INCLUDE_COPYRIGHT],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
    LicenseFacts {
        id: "MPL-2.0",
        popular: false,
        description: "Modified files must be published with source under this license. Other files may \
                      have any license.",
        conditions: &[DISCLOSE_SOURCE, INCLUDE_COPYRIGHT, SAME_LICENSE_FOR_FILES],
        permissions: PERMISSIVE_WITH_PATENTS,
        limitations: &[NO_LIABILITY, NO_TRADEMARKS, NO_WARRANTY],
    },
    LicenseFacts {
        id: "Unlicense",
        popular: false,
        description: "Dedicates the work to the public domain without conditions.",
        conditions: &[],
        permissions: PERMISSIVE,
        limitations: NO_LIABILITY_OR_WARRANTY,
    },
];

static ALL: LazyLock<Vec<LicenseTemplate>> = LazyLock::new(|| LICENSES.iter().filter_map(license).collect());

/// Matches placeholders in brackets of any kind.
static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let years = "(?<year>year|yyyy)";
    let projects = r"(?<project>project|program|description|one\s+line\s[^<>{}\[\]]*does\.)";
    let names =
        r"(?<name>fullname|owner|name\s+of\s+(?:author|copyright\s+owner)|copyright\s+(?:owner|holders?))";
    let brackets = format!(r"(?i)[<{{\[]\s*(?:{years}|{projects}|{names})\s*[>}}\]]");
    Regex::new(&brackets).ok()
});

/// Returns all licenses, ordered by key.
#[must_use]
pub fn all() -> &'static [LicenseTemplate] {
    &ALL
}

/// Other IDs under which the same texts have brackets around their placeholders.
const WITH_BRACKETS: [(&str, &str); 2] = [("GPL-2.0-only", "GPL-2.0+"), ("LGPL-2.1-only", "LGPL-2.1+")];

fn license(facts: &LicenseFacts) -> Option<LicenseTemplate> {
    let described = licenses::describe(facts.id)?;
    let text_id = WITH_BRACKETS.iter().find(|(id, _)| *id == facts.id);
    let text_id = text_id.map_or(facts.id, |(_, other)| other);
    let (_, text) = LICENSE_TEXTS.iter().find(|(id, _)| *id == text_id)?;
    Some(LicenseTemplate {
        key: described.key,
        name: described.name,
        nickname: described.nickname,
        popular: facts.popular,
        html_url: Some(described.html_url),
        source_url: described.source_url,
        description: Some(facts.description),
        conditions: facts.conditions,
        permissions: facts.permissions,
        limitations: facts.limitations,
        content: (*text).to_owned(),
    })
}

/// Values of the placeholders in a text; a placeholder without a value is unchanged.
#[derive(Debug, Clone, Copy)]
pub struct LicenseTerms<'a> {
    /// The current year.
    pub year: i32,
    /// The name of the project.
    pub project: Option<&'a str>,
    /// The name of the copyright holder.
    pub full_name: Option<&'a str>,
}

/// Returns a text with its placeholders replaced. Inserted values are not scanned for placeholders.
#[must_use]
pub fn fill_in(text: &str, terms: LicenseTerms<'_>) -> String {
    let Some(words) = WORDS.as_ref() else {
        return text.to_owned();
    };
    let replaced = words.replacen(text, MAX_REPLACED, |found: &Captures<'_>| {
        let placeholder = found.get(0).map_or("", |placeholder| placeholder.as_str());
        if found.name("year").is_some() {
            return terms.year.to_string();
        }
        let other = match found.name("project") {
            Some(_) => terms.project,
            None => terms.full_name,
        };
        other.unwrap_or(placeholder).to_owned()
    });
    replaced.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TERMS: LicenseTerms<'static> = LicenseTerms {
        year: 1843,
        project: Some("Analytical Engine"),
        full_name: Some("Ada $1 Lovelace"),
    };

    fn text_of(key: &str) -> &'static str {
        let license = all().iter().find(|license| license.key == key);
        &license.expect("a license").content
    }

    #[test]
    fn every_license_template_has_text_and_metadata() {
        let keys: Vec<&str> = all().iter().map(|license| license.key.as_str()).collect();
        assert_eq!(keys.len(), LICENSES.len());
        assert!(keys.is_sorted());
        for key in [
            "agpl-3.0",
            "apache-2.0",
            "bsd-2-clause",
            "bsd-3-clause",
            "epl-2.0",
            "gpl-2.0",
            "gpl-3.0",
            "lgpl-2.1",
            "mit",
            "mpl-2.0",
            "unlicense",
        ] {
            assert!(keys.contains(&key), "{key}");
        }
        for license in all() {
            assert!(
                license.content.len() > 500 && license.permissions.contains(&COMMERCIAL_USE),
                "{}",
                license.key
            );
            assert!(license.limitations.contains(&NO_WARRANTY), "{}", license.key);
        }
        let popular: Vec<&str> = all()
            .iter()
            .filter(|license| license.popular)
            .map(|license| license.key.as_str())
            .collect();
        assert_eq!(popular, ["apache-2.0", "gpl-3.0", "mit"]);
    }

    #[test]
    fn license_placeholders_are_replaced() {
        let mit = fill_in(text_of("mit"), TERMS);
        assert!(mit.contains("Copyright (c) 1843 Ada $1 Lovelace\n"));
        let apache = fill_in(text_of("apache-2.0"), TERMS);
        assert!(apache.contains("Copyright 1843 Ada $1 Lovelace"));
        for key in ["bsd-2-clause", "bsd-3-clause", "isc"] {
            assert!(
                fill_in(text_of(key), TERMS).contains("1843 Ada $1 Lovelace"),
                "{key}"
            );
        }
        for key in ["gpl-3.0", "agpl-3.0"] {
            let text = fill_in(text_of(key), TERMS);
            assert!(
                text.contains("     Analytical Engine\n     Copyright (C) 1843  Ada $1 Lovelace\n"),
                "{key}"
            );
        }
        for key in ["gpl-2.0", "lgpl-2.1"] {
            let text = fill_in(text_of(key), TERMS);
            assert!(
                text.contains("\nAnalytical Engine\nCopyright (C) 1843 Ada $1 Lovelace\n"),
                "{key}"
            );
        }
        assert_eq!(
            fill_in("{YEAR} [Project] <FullName> [ description ] year project", TERMS),
            "1843 Analytical Engine Ada $1 Lovelace Analytical Engine year project"
        );
    }

    #[test]
    fn missing_values_leave_placeholders_and_values_are_not_expanded() {
        let nothing = LicenseTerms {
            project: None,
            full_name: None,
            ..TERMS
        };
        let text = "<year> [project] {fullname} <https://example.com> [none] <one line, by which it\ndoes.>";
        assert_eq!(
            fill_in(text, nothing),
            "1843 [project] {fullname} <https://example.com> [none] <one line, by which it\ndoes.>"
        );
        let circle = LicenseTerms {
            project: Some("[fullname]"),
            full_name: Some("<project>"),
            ..TERMS
        };
        assert_eq!(
            fill_in("[project] by [fullname]", circle),
            "[fullname] by <project>"
        );
        // No text contains other words that match as placeholders.
        for license in all() {
            let filled = fill_in(&license.content, nothing);
            let years = filled.matches("1843").count();
            assert!(years < 3, "{}", license.key);
        }
        let many = "[year]".repeat(MAX_REPLACED + 1);
        assert!(fill_in(&many, TERMS).ends_with("1843[year]"));
    }
}
