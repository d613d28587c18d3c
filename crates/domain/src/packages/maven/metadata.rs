//! The metadata of an artifact: the list of its versions. It is computed from the stored versions when a client requests it, so it
//! is correct after concurrent deployments and after deletions. The server parses no XML.

use std::collections::HashSet;

use chrono::{DateTime, Utc};
use parsers::maven::{MavenPath, is_snapshot};
use sea_orm::{ColumnTrait, QueryFilter, QueryOrder, QuerySelect};
use storage::entities::packages::{Column, PackageType};

use super::MAX_VERSIONS;
use crate::kernel::Backend;
use crate::kernel::error::Result;
use crate::packages::client_lists::PackageScope;

/// Maximum length of the document for one version, without the version.
const VERSION_BYTES: usize = 32;

/// A version, and when it was last changed.
type Version = (String, DateTime<Utc>);

/// Returns the metadata for the path of the metadata of an artifact. Returns `None` for all other paths, such as metadata
/// of a snapshot or of the plugins of a group, which clients upload.
pub(super) async fn of_artifact(
    backend: &Backend,
    scope: &PackageScope<'_>,
    path: &MavenPath,
) -> Result<Option<String>> {
    if path.version().is_some() {
        return Ok(None);
    }
    let Some((group, artifact)) = path.name().rsplit_once('/') else {
        return Ok(None);
    };
    let mut versions: Vec<Version> = scope
        .listed(PackageType::Maven)?
        .filter(Column::LookupName.eq(path.name()))
        .filter(Column::Version.ne(""))
        .select_only()
        .column(Column::Version)
        .column(Column::UpdatedAt)
        .order_by_desc(Column::Id)
        .limit(MAX_VERSIONS)
        .into_tuple()
        .all(backend.database.read())
        .await?;
    versions.reverse();
    // Several projects of a group can have a version.
    let mut known = HashSet::new();
    versions.retain(|(version, _)| known.insert(version.clone()));
    if versions.is_empty() {
        return Ok(None);
    }
    let size = versions
        .iter()
        .map(|(version, _)| version.len() + VERSION_BYTES)
        .sum::<usize>();
    scope.caller().reserve_memory(size as u64)?;
    Ok(Some(write(group, artifact, &versions)))
}

/// Writes the document. The texts need no escaping: `MavenPath` accepts only letters, digits and a few other characters.
fn write(group: &str, artifact: &str, versions: &[Version]) -> String {
    let names = versions.iter().map(|(version, _)| version.as_str());
    let latest = names.clone().next_back().unwrap_or_default();
    let release = names.clone().rfind(|version| !is_snapshot(version));
    let release = release.map(|version| format!("    <release>{version}</release>\n"));
    let list: String = names
        .map(|version| format!("      <version>{version}</version>\n"))
        .collect();
    let changed = versions.iter().map(|(_, time)| *time).max().unwrap_or_default();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <metadata>\n\
         \x20 <groupId>{}</groupId>\n\
         \x20 <artifactId>{artifact}</artifactId>\n\
         \x20 <versioning>\n\
         \x20   <latest>{latest}</latest>\n\
         {}\
         \x20   <versions>\n\
         {list}\
         \x20   </versions>\n\
         \x20   <lastUpdated>{}</lastUpdated>\n\
         \x20 </versioning>\n\
         </metadata>\n",
        group.replace('/', "."),
        release.unwrap_or_default(),
        changed.format("%Y%m%d%H%M%S"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(name: &str, seconds: i64) -> Version {
        let time = DateTime::from_timestamp(1_700_000_000 + seconds, 0).expect("a time");
        (name.to_owned(), time)
    }

    #[test]
    fn metadata_lists_versions_and_the_newest_release() {
        let versions = [version("1.0", 5), version("1.1", 1), version("1.2-SNAPSHOT", 2)];
        let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<metadata>
  <groupId>com.example</groupId>
  <artifactId>app</artifactId>
  <versioning>
    <latest>1.2-SNAPSHOT</latest>
    <release>1.1</release>
    <versions>
      <version>1.0</version>
      <version>1.1</version>
      <version>1.2-SNAPSHOT</version>
    </versions>
    <lastUpdated>20231114221325</lastUpdated>
  </versioning>
</metadata>
";
        assert_eq!(write("com/example", "app", &versions), expected);
    }

    #[test]
    fn metadata_without_a_release_has_no_release() {
        let text = write("com", "app", &[version("1-SNAPSHOT", 0)]);
        assert!(
            text.contains("<latest>1-SNAPSHOT</latest>\n    <versions>"),
            "{text}"
        );
    }
}
