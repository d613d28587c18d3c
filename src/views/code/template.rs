//! File templates.

use domain::code::templates::{self, TemplateSummary};

use contract::MaybeUndefined;
use contract::{LicenseTemplate, Template, TemplateEntry};

/// Returns a template of a list.
#[must_use]
pub fn entry(summary: TemplateSummary) -> TemplateEntry {
    TemplateEntry {
        key: summary.key,
        name: summary.name,
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Returns a license.
#[must_use]
pub fn license(license: templates::LicenseTemplate) -> LicenseTemplate {
    LicenseTemplate {
        key: license.key,
        name: license.name,
        nickname: license.nickname.map(str::to_owned),
        popular: license.popular,
        html_url: license.html_url,
        source_url: license.source_url.map(str::to_owned),
        description: license.description.map(str::to_owned),
        conditions: texts(license.conditions),
        permissions: texts(license.permissions),
        limitations: texts(license.limitations),
        content: license.content,
    }
}

/// Returns a file or license template.
#[must_use]
pub fn template(template: templates::Template) -> Template {
    match template {
        templates::Template::File { name, content } => Template {
            name,
            content,
            key: None,
            nickname: MaybeUndefined::Undefined,
            popular: None,
            html_url: MaybeUndefined::Undefined,
            source_url: MaybeUndefined::Undefined,
            description: MaybeUndefined::Undefined,
            conditions: None,
            permissions: None,
            limitations: None,
        },
        templates::Template::License(template) => {
            let license = license(template);
            Template {
                name: license.name,
                content: license.content,
                key: Some(license.key),
                nickname: MaybeUndefined::from_opt_null(license.nickname),
                popular: Some(license.popular),
                html_url: MaybeUndefined::from_opt_null(license.html_url),
                source_url: MaybeUndefined::from_opt_null(license.source_url),
                description: MaybeUndefined::from_opt_null(license.description),
                conditions: Some(license.conditions),
                permissions: Some(license.permissions),
                limitations: Some(license.limitations),
            }
        }
    }
}
