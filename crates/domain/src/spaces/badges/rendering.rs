//! Placeholders in badge URLs.

use git::RepositoryId;

use crate::identity::space_access::SpaceAccess;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::kernel::urls::encode_path;

/// The placeholder whose value is read from the repository.
const COMMIT: &str = "%{commit_sha}";

/// Values of the placeholders.
#[derive(Debug, Clone)]
pub struct PlaceholderValues(Vec<(&'static str, String)>);

impl PlaceholderValues {
    /// Loads the values of the placeholders that occur in `texts`. Placeholders stay unrendered in a group
    /// and where the caller may not know the value.
    ///
    /// # Errors
    /// Returns an error if the repository fails.
    pub async fn new<'a>(
        backend: &Backend,
        space: &SpaceAccess,
        texts: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self> {
        let Some(project) = &space.project else {
            return Ok(Self(Vec::new()));
        };
        let mut known = vec![
            ("%{project_path}", space.full_path()),
            ("%{project_title}", project.name.clone()),
            ("%{project_name}", project.path.clone()),
            ("%{project_id}", project.id.to_string()),
        ];
        let reads = space
            .effective_access()
            .can_read_code(project.repository_access_level, project.visibility);
        if let Some(branch) = project.default_branch.as_ref().filter(|_| reads) {
            known.push(("%{default_branch}", branch.clone()));
            if texts.into_iter().any(|text| text.contains(COMMIT)) {
                let repository = backend
                    .repositories
                    .repository(&RepositoryId::of_project(project.id));
                let tips = repository.targets(vec![format!("refs/heads/{branch}")]).await?;
                let tip = tips.into_iter().flatten().next();
                known.extend(tip.map(|tip| (COMMIT, tip.to_string())));
            }
        }
        Ok(Self(known))
    }

    /// Returns a URL with its placeholders replaced.
    #[must_use]
    pub fn render(&self, url: &str) -> String {
        replace_placeholders(url, &self.0)
    }
}

/// Replaces each placeholder once; the values themselves are not scanned.
fn replace_placeholders(url: &str, known: &[(&'static str, String)]) -> String {
    let mut filled = String::with_capacity(url.len());
    let mut rest = url;
    while let Some(at) = rest.find("%{") {
        let (before, from) = rest.split_at(at);
        filled.push_str(before);
        let found = known.iter().find(|(name, _)| from.starts_with(name));
        match found {
            Some((name, value)) => {
                filled.extend(encode_path(value));
                rest = &from[name.len()..];
            }
            None => {
                filled.push_str("%{");
                rest = &from["%{".len()..];
            }
        }
    }
    filled.push_str(rest);
    filled
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_replaced_once_and_unknown_ones_are_unchanged() {
        let known = [
            ("%{project_path}", "a/b c".to_owned()),
            ("%{project_id}", "%{project_path}".to_owned()),
        ];
        for (url, filled) in [
            ("https://h/%{project_path}.svg", "https://h/a/b%20c.svg"),
            ("https://h/%{project_id}", "https://h/%25%7Bproject_path%7D"),
            (
                "https://h/%{other}%{project_path",
                "https://h/%{other}%{project_path",
            ),
            ("https://h/%{%{project_path}}", "https://h/%{a/b%20c}"),
        ] {
            assert_eq!(replace_placeholders(url, &known), filled, "{url}");
        }
    }
}
