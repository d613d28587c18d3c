//! Texts that clients compare, which stay byte for byte.
//!
//! Client libraries and scripts match errors, system notes and protocol words of the reference service. The table lists
//! them as the sources write them: with escapes, and with `{}` for each placeholder, without its name. The test fails
//! if no string literal below `src` and `crates` equals an entry, unit tests excluded.
//!
//! When it fails:
//!
//! - You reworded the text: restore it, because a client may compare it.
//! - You moved a word into or out of a placeholder: change the entry, if the text that users get is the same.
//! - The operation that sends the text was removed: remove the entry.

use std::collections::HashSet;
use std::path::Path;

use super::source_text::literals;

/// An area, why its texts are fixed, and the texts.
type Area = (&'static str, &'static str, &'static [&'static str]);

const AREAS: &[Area] = &[
    (
        "statuses",
        "Clients print and match `message` of an error that has no text of its own.",
        &[
            "401 Unauthorized",
            "403 Forbidden",
            "403 Forbidden - {}",
            "404 Not Found",
            "404 Not found",
            "404 Not found or has expired",
            "404 {} Not Found",
            "405 Method Not Allowed",
            "409 Conflict: Resource lock",
            "412 Precondition Failed",
            "413 Request Entity Too Large",
            "416 Range Not Satisfiable",
            "500 Internal Server Error",
            "400 Bad request",
            "200 OK",
            "201 Created",
            "202 Accepted",
            "This endpoint has been requested too many times. Try again later.",
            "API V3 is no longer supported. Use API V4 instead.",
        ],
    ),
    (
        "parameters",
        "Clients parse these forms to find the parameter that is wrong.",
        &[
            "{} is missing",
            "{} is empty",
            "{} is invalid",
            "{} does not have a valid value",
            "{} is too long (maximum is {} characters)",
            "{} is too short (minimum is {} characters)",
            "{} are missing, at least one parameter must be provided",
            "{} are missing, exactly one parameter must be provided",
            "{} are mutually exclusive",
            "{}, {} are mutually exclusive",
            "{} allows one value, but found {}: {}",
            "{} should be {}, 'None' or 'Any'",
            "an integer",
            "extern_uid, provider provide all or none of parameters",
            "key, {} are mutually exclusive",
            "value is invalid",
            "name, search cannot be used together",
            "author_id, author_username are mutually exclusive",
            "start_branch, start_sha are mutually exclusive",
            "ref is empty",
            "actions[{}][{}] is missing",
            "strategies[{}][name] is missing",
            "strategies[{}][{}] is missing",
            "priority is invalid",
            "weight is invalid",
            "custom_attributes is invalid",
            "duration is invalid",
            "{} is an invalid regexp: {}",
        ],
    ),
    (
        "attributes",
        "Clients show these below the field of a form; validations of Rails write them.",
        &[
            "can't be blank",
            "must be blank",
            "has already been taken",
            "({}) has already been taken",
            "is invalid",
            "are invalid",
            "is not valid",
            "is not included in the list",
            "is too long (maximum is 255 characters)",
            "is too long (maximum is 63 characters)",
            "is too long (maximum is {} characters)",
            "is too short (minimum is 2 characters)",
            "is too short (minimum is {} characters)",
            "must be less than or equal to {}",
            "must be between 0 and 100",
            "is blocked: Only allowed schemes are http, https",
            "is a reserved name",
            "can contain only letters, digits, emojis, '_', '.', dash, space. It must start with letter, digit, emoji or '_'.",
            "can contain only letters, digits, emojis, '_', '.', dash, space, parenthesis. It must start with letter, digit, emoji or '_'.",
            "can contain only letters, digits, '_', '-' and '.'. Cannot start with '-' or end in '.', '.git' or '.atom'",
            "{} has been restricted by your administrator",
            "{} is not allowed since {} with higher visibility.",
            "{} is not allowed since the parent group has a {} visibility.",
            "{} is not allowed in a {} group.",
            "there are sub-groups",
            "this group contains projects",
            "is too big (should be at most 200 KiB)",
        ],
    ),
    (
        "authentication and tokens",
        "Clients tell an expired token from a revoked one, and log in again, by these texts.",
        &[
            "insufficient_scope",
            "invalid_token",
            "The request requires higher privileges than provided by the access token.",
            "Token is expired. You can either do re-authorization or token refresh.",
            "Token was revoked. You have to re-authorize from the user.",
            "Token is an impersonation token but impersonation was disabled.",
            "Your account has been blocked.",
            "Your account has been deactivated by your administrator. Please log back in from a web browser to reactivate your account.",
            "Must be admin to use sudo",
            "Must be authenticated using an OAuth or Personal Access Token to use sudo",
            "User with ID or username '{}'",
            "can only contain available scopes",
            "can contain only letters, digits, '_', '-', '+', and '.'",
            "Invalid login or password.",
        ],
    ),
    (
        "OAuth",
        "RFC 6749 fixes the codes; the descriptions and the texts on redirect URIs are those of the reference.",
        &[
            "invalid_request",
            "invalid_client",
            "invalid_grant",
            "invalid_scope",
            "unsupported_grant_type",
            "unsupported_response_type",
            "access_denied",
            "server_error",
            "Client authentication failed due to unknown client, no client authentication, or a wrong secret.",
            "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client.",
            "The requested scope is invalid, unknown, or malformed.",
            "The authorization grant type is not supported by the authorization server.",
            "The authorization server does not support this response type.",
            "The resource owner or authorization server denied the request.",
            "code is missing",
            "token is missing",
            "grant_type is missing",
            "refresh_token is missing",
            "response_type is missing",
            "must be an absolute URI.",
            "cannot contain a fragment.",
            "is forbidden by the server.",
        ],
    ),
    (
        "SCIM",
        "RFC 7644 fixes the URNs and types; identity providers match the details.",
        &[
            "urn:ietf:params:scim:api:messages:2.0:Error",
            "urn:ietf:params:scim:api:messages:2.0:ListResponse",
            "urn:ietf:params:scim:schemas:core:2.0:User",
            "invalidFilter",
            "invalidPath",
            "invalidSyntax",
            "invalidValue",
            "mutability",
            "noTarget",
            "uniqueness",
            "{} not found",
            "Resource {}",
            "{} can't be blank",
            "Error saving user with {}: {}",
            "externalId has already been taken",
            "Group SAML not enabled.",
        ],
    ),
    (
        "users and members",
        "Scripts that provision users treat these as already done or as not allowed.",
        &[
            "Username has already been taken",
            "Email has already been taken",
            "User cannot be removed while is the sole-owner of a group",
            "The API initiating user cannot be blocked by the API",
            "The API initiating user cannot be deactivated by the API",
            "Deactivated users cannot be unblocked by the API",
            "A blocked user cannot be deactivated by the API",
            "A blocked user must be unblocked to be activated",
            "An internal user cannot be deactivated by the API",
            "The user you are trying to deactivate has been active in the past 180 days and cannot be deactivated",
            "LDAP blocked users cannot be modified by the API",
            "cannot be generated",
            "Member already exists",
            "should be greater than or equal to {} inherited membership from group {}",
            "project bots cannot be added to other groups / projects",
            "Ghost User",
        ],
    ),
    (
        "groups and projects",
        "Scripts that create or share what exists already match these.",
        &[
            "Failed to save group {{{}}}",
            "has too deep level of nesting",
            r#"cannot be disabled when the parent group \"Share with group lock\" is enabled, except by the owner of the parent group"#,
            "Group already shared with this group",
            "The project sharing with group is disabled",
            "Project already forked",
            "Your project limit is {} projects! Please contact your administrator to increase it",
            "{} has already been taken",
            "Keyset pagination is not yet available for this type of request",
            "Offset pagination has a maximum allowed offset of {} for requests that return objects of type Project. Remaining records can be retrieved using keyset pagination.",
            "Initial commit",
            "Dashboard with requested path can not be found",
            "dashboard_path is empty",
            "can't be before starting_at time",
            "This request has already been made. You can run this at most once an hour for a given container repository",
        ],
    ),
    (
        "planning",
        "Clients of boards, labels, milestones, epics and issues match these.",
        &[
            "Label not found!",
            "Milestone not found!",
            "User not found!",
            "label_id, milestone_id, assignee_id are mutually exclusive",
            "label_id, milestone_id, assignee_id are missing, exactly one parameter must be provided",
            "label_id, name are mutually exclusive",
            "label_id, name are missing, exactly one parameter must be provided",
            "Label already exists",
            "must be a valid color code",
            "Failed to promote project label to group label",
            "Failed to promote project milestone to group milestone",
            "must be greater than start date",
            "already being used for another group or project milestone.",
            "Issue(s) already assigned",
            "Duplicated issue",
            "Cannot move issue to project it originates from!",
            "Cannot move issue due to insufficient permissions!",
            "Cannot move issue that was moved already!",
            "Award Emoji {}",
            "Name is not a valid emoji name",
            "Name has already been taken",
            "{} of {} tasks completed",
        ],
    ),
    (
        "merge requests",
        "Merge bots decide by these whether they retry, rebase or give up.",
        &[
            "SHA does not match HEAD of source branch: {}",
            "Branch cannot be merged",
            "Rebase failed: Rebase locally, resolve all conflicts, then push the branch.",
            "Cannot push to source branch",
            "Source branch does not exist",
            "Target branch does not exist",
            r#"{} branch \"{}\" does not exist"#,
            "Source project is not a fork of the target project",
            "You can't use same project/branch for source and target",
            "Another open merge request already exists for this source branch",
            "Another open merge request already exists for this source branch: !{}",
        ],
    ),
    (
        "system notes",
        "Clients find out what changed by the text of a system note.",
        &[
            "changed title from **{}** to **{}**",
            "changed the description",
            "assigned to {}",
            "unassigned {}",
            "requested review from {}",
            "removed review request for {}",
            "{} and {}",
            "{}, and {}",
            "changed milestone to %{}",
            "removed milestone",
            "changed due date to {}",
            "%B %-d, %Y",
            "removed due date",
            "changed weight to **{}**",
            "removed the weight",
            "changed target branch from `{}` to `{}`",
            "locked this {}",
            "unlocked this {}",
            "changed time estimate to {}",
            "removed time estimate",
            "added {} of time spent",
            "subtracted {} of time spent",
            "removed time spent",
            "made the issue confidential",
            "made the issue visible to everyone",
            "made the epic confidential",
            "made the epic visible to everyone",
            "moved to {}",
            "moved from {}",
            "closed via ",
            "commit {}",
            "merge request {}!{}",
            "mentioned in commit {}",
            "mentioned in {} {}{}{}",
            r"added 1 commit\n",
            r"added {} commits\n",
            r"\n* {} - {}",
            "approved this merge request",
            "unapproved this merge request",
            "enabled an automatic merge when the pipeline for {} succeeds",
            "canceled the automatic merge",
            "canceled the automatic merge because {}",
            "new commits were added",
            "aborted the automatic merge because it was refused: {}",
        ],
    ),
    (
        "events and webhooks",
        "Receivers dispatch on the name of the hook and the action; forms show why a webhook cannot be tested.",
        &[
            "Push Hook",
            "Tag Push Hook",
            "Issue Hook",
            "Confidential Issue Hook",
            "Note Hook",
            "Confidential Note Hook",
            "Merge Request Hook",
            "Job Hook",
            "Pipeline Hook",
            "Wiki Page Hook",
            "%Y-%m-%d %H:%M:%S UTC",
            "commented on",
            "pushed new",
            "pushed to",
            "removed due to membership expiration from",
            "Invalid url given",
            "Invalid token given",
            "Invalid branch filter given",
            "Custom headers validation failed",
            "Illegal key or value",
            "Maximum number of project hooks ({}) exceeded",
            "Ensure the project has at least one commit.",
            "Ensure the project has tags.",
            "Ensure the project has issues.",
            "Ensure the project has confidential issues.",
            "Ensure the project has merge requests.",
            "Ensure the project has notes.",
            "Ensure the project has confidential notes.",
            "Ensure the project has CI jobs.",
            "Ensure the project has CI pipelines.",
        ],
    ),
    (
        "repositories",
        "Tools that commit by the API match these to choose between create and update.",
        &[
            "A file with this name already exists",
            "A file with this name doesn't exist",
            "Path cannot include directory traversal",
            "You must provide a file path",
            "You must provide content",
            "You must provide a commit message",
            "file_path should be a valid file path",
            "The file has changed since you started editing it: {}",
            "You are attempting to update a file that has changed since you started editing it.",
            "You can only create or edit files when you are on a branch",
            "You are not allowed to push into this branch",
            "You are not allowed to create this tag as it is protected.",
            "Protected tags cannot be updated.",
            "Protected branch '{}' already exists",
            "Developers + Maintainers",
            "Maintainers",
            "Instance admins",
            "No one",
            "A branch called '{}' already exists. Switch to that branch in order to make changes",
            "Something went wrong when we tried to create '{}' for you: Branch name is invalid",
            "Invalid start_sha '{}'",
            "Cannot find start_sha '{}'",
            "Project is not included in the fork network for {} / {}",
            "Sorry, we cannot {} this commit automatically. This commit may already have been {}, or a more recent commit may have updated some of its content.",
            "Branch already exists",
            "Branch name is invalid",
            "Invalid reference name: {}",
            "The branch refname is invalid",
            "Could not find ref: {}",
            "400 Bad request - Provide at least 2 refs",
            "Tag name invalid",
            "Tag {} already exists",
            "Target {} is invalid",
        ],
    ),
    (
        "releases",
        "Release tools match the errors of a creation.",
        &[
            "Release already exists",
            "Ref is not specified",
            "{} not found: {}",
            "Milestone(s)",
            "Milestone id(s)",
            "Cannot specify milestones and milestone_ids at the same time",
            "Validation failed: {}",
            "Ensure the project has releases.",
        ],
    ),
    (
        "commit messages",
        "Git tools read these trailers and subjects.",
        &[
            r"\n\n(cherry picked from commit {})",
            r#"Revert \"{}\"\n\nThis reverts commit {}"#,
            r"Merge branch '{}' into '{}'\n\n{}{}\n\nSee merge request {}!{}",
            r"\n\nCloses {}",
        ],
    ),
    (
        "push rules",
        "Clients and wrappers of git match the violated condition.",
        &[
            "Commit message does not follow the pattern '{}'",
            "Commit message contains the forbidden pattern '{}'",
            "Commit message must contain a DCO signoff",
            "Commit must be signed with a GPG key",
            "Branch name does not follow the pattern '{}'",
            "{}'s email '{}' does not follow the pattern '{}'",
            "Author '{}' is not a member of team",
            "Committer email '{}' is not verified.",
            "You cannot delete a tag",
            "Project push rule exists",
            "Group push rule exists, try updating",
        ],
    ),
    (
        "Git over HTTP",
        "Wrappers of git match the lines that git prints after `remote:`.",
        &[
            "The project you were looking for could not be found or you don't have permission to view it.",
            "You are not allowed to download code from this project.",
            "You are not allowed to push code to this project.",
            "You are not allowed to upload code.",
            "The default branch {} cannot be deleted.",
            r"# service={}\n",
        ],
    ),
    (
        "CI",
        "Clients that set commit statuses, variables, schedules and flags match these.",
        &[
            "Reference not found",
            "The commit does not exist",
            "The branch or tag does not exist",
            r#"cannot transition via \"enqueue\""#,
            " is invalid syntax",
            "Maximum number of ci pipeline schedules ({}) exceeded",
            "Maximum number of {} variables ({}) exceeded",
            "ci instance level",
            "project ci",
            "group ci",
            "can contain only letters, digits and '_'.",
            "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', and spaces, but it cannot start or end with '/'",
            "have duplicate values ({})",
            "The value of the provided variable exceeds the {} character limit",
            "There are multiple variables with provided parameters. Please use 'filter[environment_scope]'",
            "slug is automatically generated and cannot be changed",
            "cannot add duplicated environment scope",
            "is not a fully qualified domain name",
            "waiting for resource",
            "waiting for manual action",
            "waiting for delayed job",
            "can contain only lowercase letters, digits, '_' and '-'. Must start with a letter, and cannot end with '-' or '_'",
            "parameters are invalid",
            "groupId parameter is invalid",
            "percentage must be a string between 0 and 100 inclusive",
            "rollout must be a string between 0 and 100 inclusive",
            "stickiness parameter must be default, userId, sessionId, or random",
            "must be a string of unique comma separated values each 256 characters or less",
            "User list is associated with a strategy",
        ],
    ),
    (
        "container registry",
        "OCI Distribution fixes the codes; Docker prints the texts of its reference implementation.",
        &[
            "BLOB_UNKNOWN",
            "BLOB_UPLOAD_INVALID",
            "BLOB_UPLOAD_UNKNOWN",
            "DIGEST_INVALID",
            "MANIFEST_BLOB_UNKNOWN",
            "MANIFEST_INVALID",
            "MANIFEST_UNKNOWN",
            "NAME_INVALID",
            "NAME_UNKNOWN",
            "PAGINATION_NUMBER_INVALID",
            "SIZE_INVALID",
            "UNAUTHORIZED",
            "DENIED",
            "UNSUPPORTED",
            "TOOMANYREQUESTS",
            "authentication required",
            "blob unknown to registry",
            "blob upload unknown to registry",
            "manifest unknown",
            "provided digest did not match uploaded content",
            "repository name not known to the registry",
            "the operation is unsupported",
        ],
    ),
];

/// The kinds in `404 {kind} Not Found`, separated by commas. The sources write them as `not_found("Project")`.
const KINDS: &str = "Application,Award Emoji,Badge,Blob,Board,Branch,Commit,Custom Attribute,Deploy Key,Deploy Token,Email,Epic,\
    File,Group,Group Link,Impersonation Token,Issue,Key,Label,List,Merge Base,MergeRequest,Milestone,Namespace,\
    Personal Access Token,Pipeline,Pipeline Schedule,Pipeline Schedule Variable,Project,Project Access Token,\
    References for commit,Repository,Snippet,Tag,Target Namespace,Template,User";

fn fixed_texts_are_unchanged() {
    let sources: Vec<String> = ["src", "crates"].into_iter().flat_map(read_sources).collect();
    assert!(sources.len() > 100, "the sources were not found");
    let literals: HashSet<String> = sources.iter().flat_map(|source| read_literals(source)).collect();
    let mut errors = Vec::new();
    for (area, reason, texts) in AREAS {
        let changed = texts.iter().filter(|text| !literals.contains(**text));
        errors.extend(changed.map(|text| format!("{area}: \"{text}\" is in no string literal. {reason}")));
    }
    for kind in KINDS.split(',') {
        let call = format!("not_found(\"{kind}\")");
        if !sources.iter().any(|source| source.contains(&call)) {
            errors.push(format!("kinds: no source has {call}"));
        }
    }
    assert!(errors.is_empty(), "fixed texts were changed:\n{}", errors.join("\n"));
}

fn fixed_texts_are_listed_once() {
    let mut listed = HashSet::new();
    let texts = AREAS.iter().flat_map(|(_, _, texts)| texts.iter());
    let twice: Vec<_> = texts.filter(|text| !listed.insert(**text)).collect();
    assert!(twice.is_empty(), "listed more than once: {twice:?}");
}

/// Returns the sources below a folder, without unit tests.
fn read_sources(folder: &str) -> Vec<String> {
    let mut sources = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !["tests.rs", "testing.rs", "sample.rs"].contains(&name.as_str()) {
                let text = std::fs::read_to_string(&path).expect("a file");
                let body = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
                sources.push(body.to_owned());
            }
        }
    }
    sources
}

/// Returns the string literals of a source as they are written: lines that a backslash continues are joined, and
/// placeholders have lost their names.
fn read_literals(source: &str) -> Vec<String> {
    literals(source).iter().map(|literal| without_names(&joined(literal.text))).collect()
}

fn joined(literal: &str) -> String {
    let mut lines = literal.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

/// Replaces `{name}`, `{0}` and `{:?}` by `{}`.
fn without_names(literal: &str) -> String {
    let mut text = String::with_capacity(literal.len());
    let mut rest = literal;
    while let Some(at) = rest.find('{') {
        text.push_str(&rest[..=at]);
        rest = &rest[at + 1..];
        let inside = |c: char| c.is_ascii_alphanumeric() || "_.:?".contains(c);
        let after = rest.trim_start_matches(inside);
        if after.starts_with('}') {
            rest = after;
        }
    }
    text + rest
}

harness::tests![fixed_texts_are_unchanged, fixed_texts_are_listed_once];
