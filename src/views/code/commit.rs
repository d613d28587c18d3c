//! Commits, their changes and comments.

use domain::code::commits::comments::CommitCommentDetail;
use domain::code::commits::listing::{CommitDetail, RefKind};
use domain::code::commits::signature::{SignatureFormat, VerificationStatus, VerifiedSignature};
use domain::identity::access::ProjectAccess;
use git::{DiffEntry, DiffStats};
use storage::entities::commit_comments::LineType;
use storage::entities::pipelines;

use crate::views::accounts::account::key;
use crate::views::accounts::users as user_view;
use crate::views::delivery::pipeline::{self, ProjectLocation};
use crate::views::enums::Convert;
use contract::MaybeUndefined;
use contract::{
    Commit, CommitComment, CommitRef, CommitRefType, CommitSequence, CommitSignature, CommitSignatureType,
    CommitStats, CommitVerificationStatus, Diff, DiffLineType,
};

/// Number of digits of a short ID.
const SHORT_ID_DIGITS: usize = 8;

/// Returns the URL of a project's page.
#[must_use]
pub fn project_url(base_url: &str, access: &ProjectAccess) -> String {
    format!(
        "{base_url}/{}/{}",
        access.namespace.full_path, access.project.path
    )
}

/// Returns a commit in the format of lists; `project_url` is the URL of its project.
#[must_use]
pub fn commit(commit: git::Commit, project_url: &str) -> Commit {
    let id = commit.id.to_string();
    let committed = commit.committer.time.into();
    Commit {
        short_id: id.chars().take(SHORT_ID_DIGITS).collect(),
        created_at: committed,
        parent_ids: commit.parents.iter().map(ToString::to_string).collect(),
        title: commit.title().to_owned(),
        message: commit.message,
        author_name: commit.author.name,
        author_email: commit.author.email,
        authored_date: commit.author.time.into(),
        committer_name: commit.committer.name,
        committer_email: commit.committer.email,
        committed_date: committed,
        web_url: format!("{project_url}/-/commit/{id}"),
        id,
        stats: None,
        status: MaybeUndefined::Undefined,
        project_id: None,
        last_pipeline: MaybeUndefined::Undefined,
    }
}

/// Returns a commit of a list, with its statistics if known.
#[must_use]
pub fn with_stats(detail: CommitDetail, project_url: &str) -> Commit {
    Commit {
        stats: detail.stats.map(stats),
        ..commit(detail.commit, project_url)
    }
}

/// Returns a commit of a list with the status of its last pipeline, if visible to the caller.
#[must_use]
pub fn with_status(detail: CommitDetail, last: Option<&pipelines::Model>, project_url: &str) -> Commit {
    let status = last.map(|last| last.status.convert());
    Commit {
        status: status.map_or(MaybeUndefined::Null, MaybeUndefined::Value),
        ..with_stats(detail, project_url)
    }
}

/// Returns a commit with details and its last pipeline, if visible to the caller.
#[must_use]
pub fn detail(
    detail: CommitDetail,
    last: Option<&pipelines::Model>,
    project_id: i64,
    at: ProjectLocation<'_>,
) -> Commit {
    let pipeline = last.map(|last| pipeline::reference(at, last));
    Commit {
        project_id: Some(project_id),
        last_pipeline: pipeline.map_or(MaybeUndefined::Null, MaybeUndefined::Value),
        ..with_status(detail, last, &format!("{}/{}", at.base, at.path))
    }
}

fn stats(stats: DiffStats) -> CommitStats {
    let number = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    CommitStats {
        additions: number(stats.additions),
        deletions: number(stats.deletions),
        total: number(stats.additions.saturating_add(stats.deletions)),
    }
}

/// Returns a branch or tag that contains a commit.
#[must_use]
pub fn reference((kind, name): (RefKind, String)) -> CommitRef {
    let r#type = match kind {
        RefKind::Branch => CommitRefType::Branch,
        RefKind::Tag => CommitRefType::Tag,
    };
    CommitRef { r#type, name }
}

/// Returns the sequence number of a commit.
#[must_use]
pub fn sequence(count: usize) -> CommitSequence {
    CommitSequence {
        count: i64::try_from(count).unwrap_or(i64::MAX),
    }
}

/// Returns a signature with the result of its verification.
#[must_use]
pub fn signature(found: VerifiedSignature) -> CommitSignature {
    let user_id = found.openpgp.user_id.map(|id| (id.name, id.email));
    let (gpg_key_user_name, gpg_key_user_email) = user_id.unzip();
    CommitSignature {
        signature_type: match found.format {
            SignatureFormat::Ssh => CommitSignatureType::Ssh,
            SignatureFormat::OpenPgp => CommitSignatureType::Pgp,
            SignatureFormat::X509 => CommitSignatureType::X509,
        },
        verification_status: match found.status {
            VerificationStatus::Verified => CommitVerificationStatus::Verified,
            VerificationStatus::Unverified => CommitVerificationStatus::Unverified,
            VerificationStatus::UnknownKey => CommitVerificationStatus::UnknownKey,
            VerificationStatus::OtherUser => CommitVerificationStatus::OtherUser,
            VerificationStatus::SameUserDifferentEmail => CommitVerificationStatus::SameUserDifferentEmail,
            VerificationStatus::UnverifiedKey => CommitVerificationStatus::UnverifiedKey,
        },
        key: found.key.map(key),
        gpg_key_id: found.openpgp.gpg_key_id,
        gpg_key_primary_keyid: found.openpgp.primary_key_id,
        gpg_key_subkey_id: found.openpgp.subkey_id,
        gpg_key_user_name,
        gpg_key_user_email,
    }
}

/// Returns the changes of a file.
#[must_use]
pub fn diff(entry: DiffEntry) -> Diff {
    Diff {
        old_path: entry.old_path,
        new_path: entry.new_path,
        a_mode: Some(entry.a_mode),
        b_mode: entry.b_mode,
        new_file: entry.new_file,
        renamed_file: entry.renamed_file,
        deleted_file: entry.deleted_file,
        diff: entry.diff,
    }
}

/// Returns a comment.
#[must_use]
pub fn comment((comment, author): CommitCommentDetail, base_url: &str) -> CommitComment {
    CommitComment {
        note: comment.note,
        path: comment.path,
        line: comment.line.map(i64::from),
        line_type: comment.line_type.map(|side| match side {
            LineType::New => DiffLineType::New,
            LineType::Old => DiffLineType::Old,
        }),
        author: user_view::author(base_url, author, comment.created_at),
        created_at: comment.created_at.into(),
    }
}
