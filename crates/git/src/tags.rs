//! Tags, lightweight and annotated.

use std::cmp::Reverse;

use git2::ObjectType;

use super::commit::{parse_id, parse_signature, split_headers};
use super::refs::{self, NameFilter, PageWindow};
use super::result_memory::ResultSize;
use super::write::ObjectBatch;
use super::{
    Error, LockedRepository, Oid, Repository, Result, Signature, check_tag_name, object_memory, revision,
};

/// Prefix of all tag refs.
const PREFIX: &str = "refs/tags/";

/// Maximum number of nested tags that are followed.
const MAX_TAG_DEPTH: usize = 16;

/// A tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tag {
    /// The name, without `refs/tags/`.
    pub name: String,
    /// Target of the reference: the tag object of an annotated tag, else the commit.
    pub target: Oid,
    /// The commit of the tag; none if the tag points to a tree or blob.
    pub commit: Option<Oid>,
    /// The message of an annotated tag without its last line end.
    pub message: Option<String>,
    /// The tagger of an annotated tag, if present.
    pub tagger: Option<Signature>,
}

/// Order of a list of tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagOrder {
    /// By name.
    Name,
    /// By the time of the tagged commit.
    Updated,
}

/// Filter and order of a list of tags.
#[derive(Debug, Clone)]
pub struct TagQuery {
    /// `^x` matches a prefix of the name, `x$` a suffix; other text matches anywhere.
    pub search: Option<String>,
    /// The order; tags with the same time are ordered by name.
    pub order: TagOrder,
    /// Whether the order is descending.
    pub descending: bool,
    /// The section to return.
    pub window: PageWindow,
}

/// A page of tags.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagPage {
    /// The tags of the page.
    pub tags: Vec<Tag>,
    /// Number of tags on all pages.
    pub total: usize,
}

impl Repository {
    /// Returns the tags of a query.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn tags(&self, query: TagQuery) -> Result<TagPage> {
        let mut size = self.result_size();
        self.git2(move |repository| {
            let mut found = refs::with_prefix(repository, PREFIX, &NameFilter::new(query.search.as_deref()))?;
            match (query.order, query.descending) {
                (TagOrder::Name, false) => {}
                (TagOrder::Name, true) => found.reverse(),
                (TagOrder::Updated, false) => {
                    found.sort_by_cached_key(|(_, target)| commit_time(repository, *target));
                }
                (TagOrder::Updated, true) => {
                    found.sort_by_cached_key(|(_, target)| Reverse(commit_time(repository, *target)));
                }
            }
            let tags = query
                .window
                .of(&found)
                .iter()
                .map(|(name, target)| read(repository, name.clone(), *target, &mut size));
            Ok(TagPage {
                tags: tags.collect::<Result<_>>()?,
                total: found.len(),
            })
        })
        .await
    }

    /// Returns the names of all tags and the targets of their references, without reading the tags.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn tag_targets(&self) -> Result<Vec<(String, Oid)>> {
        self.git2(|repository| refs::with_prefix(repository, PREFIX, &NameFilter::new(None)))
            .await
    }

    /// Returns a tag by name.
    ///
    /// # Errors
    /// [`Error::TagNotFound`], also for an invalid name.
    pub async fn tag(&self, name: &str) -> Result<Tag> {
        let name = name.to_owned();
        let mut size = self.result_size();
        self.git2(move |repository| {
            let target = refs::target(repository, &format!("{PREFIX}{name}"))?.ok_or(Error::TagNotFound)?;
            read(repository, name, target, &mut size)
        })
        .await
    }

    /// Returns the tags of several names, in the given order; `None` for a name without a tag.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn tags_named(&self, names: Vec<String>) -> Result<Vec<Option<Tag>>> {
        let mut size = self.result_size();
        self.git2(move |repository| {
            let found = names.into_iter().map(|name| {
                let target = refs::target(repository, &format!("{PREFIX}{name}"))?;
                target
                    .map(|target| read(repository, name, target, &mut size))
                    .transpose()
            });
            found.collect()
        })
        .await
    }

    /// Returns the tag of a name that points or pointed to `target`; without a commit if that is gone.
    ///
    /// # Errors
    /// [`Error::RepositoryMissing`] and failures of the repository.
    pub async fn tag_at(&self, name: &str, target: Oid) -> Result<Tag> {
        let name = name.to_owned();
        let mut size = self.result_size();
        self.git2(move |repository| read(repository, name, target, &mut size))
            .await
    }

    /// As [`LockedRepository::create_tag`].
    ///
    /// # Errors
    /// As [`LockedRepository::create_tag`], and those of [`Self::lock`].
    pub async fn create_tag(
        &self,
        name: &str,
        revision: &str,
        annotation: Option<(String, Signature)>,
    ) -> Result<Tag> {
        check_tag_name(name)?;
        self.lock().await?.create_tag(name, revision, annotation).await
    }

    /// As [`LockedRepository::delete_tag`].
    ///
    /// # Errors
    /// As [`LockedRepository::delete_tag`], and those of [`Self::lock`].
    pub async fn delete_tag(&self, name: &str, expected: Option<Oid>) -> Result<Oid> {
        self.lock().await?.delete_tag(name, expected).await
    }
}

impl LockedRepository {
    /// Creates a tag on the commit of a revision; the tag is annotated if a message and a tagger are given.
    ///
    /// # Errors
    /// [`Error::InvalidReferenceName`], [`Error::RevisionNotFound`], [`Error::ReferenceExists`].
    pub async fn create_tag(
        self,
        name: &str,
        revision: &str,
        annotation: Option<(String, Signature)>,
    ) -> Result<Tag> {
        check_tag_name(name)?;
        let (name, revision) = (name.to_owned(), revision.to_owned());
        self.publish(move |repository| {
            let commit = revision::resolve(repository, &revision)?;
            let full = format!("{PREFIX}{name}");
            if refs::target(repository, &full)?.is_some() {
                return Err(Error::ReferenceExists);
            }
            let target = match annotation {
                Some((message, tagger)) => write(repository, &name, commit, &message, &tagger)?,
                None => commit,
            };
            refs::create(repository, &full, target)?;
            read(repository, name, target, &mut ResultSize::new(None))
        })
        .await
    }

    /// Deletes a tag and returns its target. If `expected` is given, the tag must point to it.
    ///
    /// # Errors
    /// [`Error::TagNotFound`], [`Error::StaleReference`].
    pub async fn delete_tag(self, name: &str, expected: Option<Oid>) -> Result<Oid> {
        let name = format!("{PREFIX}{name}");
        self.delete_ref(name, expected, Error::TagNotFound).await
    }
}

fn commit_time(repository: &git2::Repository, target: Oid) -> i64 {
    let commit = revision::peel(repository, target).and_then(|id| Ok(repository.find_commit(id)?));
    commit.map_or(i64::MIN, |commit| commit.time().seconds())
}

fn read(repository: &git2::Repository, name: String, target: Oid, size: &mut ResultSize) -> Result<Tag> {
    let odb = repository.odb()?;
    let mut tag = Tag {
        name,
        target,
        commit: None,
        message: None,
        tagger: None,
    };
    let mut next = target;
    for depth in 0..MAX_TAG_DEPTH {
        if object_memory::check(repository, next).is_err() {
            break;
        }
        let Ok(object) = odb.read(next) else { break };
        if object.kind() == ObjectType::Commit {
            tag.commit = Some(next);
        }
        if object.kind() != ObjectType::Tag {
            break;
        }
        let (mut headers, message) = split_headers(object.data());
        if depth == 0 {
            size.add(object.len())?;
            let message = String::from_utf8_lossy(message);
            tag.message = Some(message.strip_suffix('\n').unwrap_or(&message).to_owned());
            tag.tagger = headers
                .clone()
                .find(|(name, _)| name == b"tagger")
                .map(|(_, line)| parse_signature(line));
        }
        let inner = headers
            .find(|(name, _)| name == b"object")
            .and_then(|(_, id)| parse_id(id));
        let Some(inner) = inner else { break };
        next = inner;
    }
    Ok(tag)
}

fn write(
    repository: &git2::Repository,
    name: &str,
    commit: Oid,
    message: &str,
    tagger: &Signature,
) -> Result<Oid> {
    let message = message.replace('\0', "");
    let end = if message.ends_with('\n') { "" } else { "\n" };
    let line = tagger.to_line();
    let data = format!("object {commit}\ntype commit\ntag {name}\ntagger {line}\n\n{message}{end}");
    let mut batch = ObjectBatch::default();
    let id = batch.add(ObjectType::Tag, data)?;
    batch.flush(repository)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::{TagOrder, TagQuery};
    use crate::testing::{self, Fixture};
    use crate::{Error, Oid, PageWindow};

    fn query(search: Option<&str>, order: TagOrder, descending: bool) -> TagQuery {
        let window = PageWindow {
            offset: 0,
            limit: usize::MAX,
        };
        TagQuery {
            search: search.map(str::to_owned),
            order,
            descending,
            window,
        }
    }

    #[tokio::test]
    async fn tags_are_compatible_with_git() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let commit = testing::commit(repository, "main", &[("a", "1")]).await;
        let light = repository.create_tag("v1", "main", None).await.unwrap();
        assert_eq!(
            (light.target, light.commit, light.message),
            (commit, Some(commit), None)
        );
        let annotation = Some(("First\n\nrelease".to_owned(), testing::signature()));
        let heavy = repository
            .create_tag("v2/final", "main", annotation)
            .await
            .unwrap();
        assert_eq!(heavy.message.as_deref(), Some("First\n\nrelease"));
        assert_eq!(heavy.tagger, Some(testing::signature()));
        assert_eq!(
            fixture.git(&["rev-parse", "v2/final^{commit}"]).trim(),
            commit.to_string()
        );
        // `git mktag` creates the same object from the same text.
        let text = fixture.git(&["cat-file", "tag", "v2/final"]);
        assert_eq!(
            fixture.git_stdin(&["mktag"], text.as_bytes()).trim(),
            heavy.target.to_string()
        );
        fixture.git(&["tag", "-a", "-m", "outer", "nested", "v2/final"]);
        let nested = repository.tag("nested").await.unwrap();
        assert_eq!(
            (nested.commit, nested.message.as_deref()),
            (Some(commit), Some("outer"))
        );
        fixture.git(&["tag", "of-tree", "main^{tree}"]);
        assert_eq!(repository.tag("of-tree").await.unwrap().commit, None);
        fixture.fsck();
    }

    #[tokio::test]
    async fn tag_object_of_cruft_pack_is_stored_again() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        testing::commit(repository, "main", &[("a", "1")]).await;
        let annotation = || Some(("First".to_owned(), testing::signature()));
        let tag = repository.create_tag("v1", "main", annotation()).await.unwrap();
        repository.delete_tag("v1", None).await.unwrap();
        fixture.git(&["repack", "--cruft", "-d", "-q"]);
        let id = tag.target.to_string();
        let (first, rest) = id.split_at(2);
        let loose = fixture.path().join("objects").join(first).join(rest);
        assert!(!loose.exists(), "the object is in a cruft pack");
        // Reading the object makes libgit2 open the pack.
        repository.tag_at("v1", tag.target).await.unwrap();
        let again = repository.create_tag("v1", "main", annotation()).await.unwrap();
        assert_eq!(again, tag);
        assert!(loose.is_file());
    }

    #[tokio::test]
    async fn create_tag_rejects_existing_and_invalid_names() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        let commit = testing::commit(repository, "main", &[("a", "1")]).await;
        repository.create_tag("v1", "main", None).await.unwrap();
        assert!(matches!(
            repository.create_tag("v1", "main", None).await,
            Err(Error::ReferenceExists)
        ));
        assert!(matches!(
            repository.create_tag("v1/x", "main", None).await,
            Err(Error::ReferenceExists)
        ));
        assert!(matches!(
            repository.create_tag("v 1", "main", None).await,
            Err(Error::InvalidReferenceName)
        ));
        assert!(matches!(
            repository.create_tag("v2", "nope", None).await,
            Err(Error::RevisionNotFound)
        ));
        assert!(matches!(repository.tag("no such").await, Err(Error::TagNotFound)));
        assert!(matches!(
            repository.delete_tag("v1", Some(Oid::ZERO_SHA1)).await,
            Err(Error::StaleReference)
        ));
        assert_eq!(repository.delete_tag("v1", None).await.unwrap(), commit);
        assert!(matches!(
            repository.delete_tag("v1", None).await,
            Err(Error::TagNotFound)
        ));
    }

    #[tokio::test]
    async fn tags_sort_by_name_or_commit_time() {
        let fixture = Fixture::new("main").await;
        let repository = &fixture.repository;
        for (seconds, tag) in [(300, "b"), (100, "c"), (200, "a"), (200, "aa")] {
            let commit = testing::commit_at(repository, "main", &[("f", tag)], seconds).await;
            repository
                .create_tag(tag, &commit.to_string(), None)
                .await
                .unwrap();
        }
        for (order, descending, expected) in [
            (TagOrder::Name, false, "a aa b c"),
            (TagOrder::Name, true, "c b aa a"),
            (TagOrder::Updated, false, "c a aa b"),
            (TagOrder::Updated, true, "b a aa c"),
        ] {
            let page = repository.tags(query(None, order, descending)).await.unwrap();
            let names: Vec<String> = page.tags.into_iter().map(|tag| tag.name).collect();
            assert_eq!(names.join(" "), expected);
        }
        let mut narrow = query(Some("^a"), TagOrder::Name, false);
        narrow.window = PageWindow { offset: 1, limit: 1 };
        let page = repository.tags(narrow).await.unwrap();
        assert_eq!((page.total, page.tags[0].name.as_str()), (2, "aa"));
    }
}
