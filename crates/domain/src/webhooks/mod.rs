//! Webhooks of projects: their settings, the [`payloads`], the [`outbox`], the [`delivery`] and its [`log`].

mod attempt;
mod body_template;
pub mod delivery;
pub mod jobs;
pub mod log;
pub mod payloads;
mod receiver;
mod receiver_url;
mod request;
pub mod status_checks;
pub mod test_delivery;
pub mod value_changes;
pub mod values;

use git::check_branch_name;
use sea_orm::{
    ActiveModelTrait,
    ActiveValue::{self, Set},
    ColumnTrait, ConnectionTrait, IntoActiveModel, PaginatorTrait, QueryFilter,
};
use storage::entities::project_hooks::{self, ActiveModel, BranchFilterStrategy, Column, Model};
use storage::entities::{now, projects, row_changes};
use storage::jobs::enqueue;
use url::Url;

use crate::activity::branch_filters;
use crate::audit::{self, AuditEvent, AuditKind, AuditTarget};
use crate::identity::access::ProjectAccess;
use crate::instance::settings::allows_local_requests;
use crate::integrations::webhooks::MASKED_PASSWORD;
use crate::kernel::Backend;
use crate::kernel::error::{Error, Result};
use crate::kernel::page::{Page, PageRequest};
use crate::kernel::patch::Patch;
use crate::kernel::preconditions;
use crate::kernel::query::page_of;
use crate::secrets::{EncryptionContext, Encryptor, Secret};
use crate::webhooks::jobs::delete_webhook::DeleteWebhook;
use crate::webhooks::receiver::{password_context, signing_context, token_context};
use crate::webhooks::receiver_url::{ReceiverUrl, UpdatedReceiver, expand};
use crate::webhooks::values::{KeyedValue, ValueKind};

/// Maximum webhooks of a project.
const MAX_WEBHOOKS: u64 = 100;
/// Maximum length of a regular expression for branches, in characters.
const MAX_REGEX_LENGTH: usize = 255;

/// Attributes of a webhook. Absent ones stay, or get the default in a new webhook.
#[derive(Debug, Clone, Default)]
pub struct WebhookSettings {
    /// Name. Null and a blank text remove it.
    pub name: Patch<String>,
    /// Description. Null and a blank text remove it.
    pub description: Patch<String>,
    /// URL of the receiver, with placeholders for URL variables.
    pub url: String,
    /// Secret token for the receiver. Null and the empty text remove it.
    pub token: Patch<Secret<String>>,
    /// Token that signs deliveries. Null and the empty text remove it.
    pub signing_token: Patch<Secret<String>>,
    /// Custom headers to add, or to replace by their names.
    pub custom_headers: Option<Vec<KeyedValue>>,
    /// URL variables to add, or to replace by their keys.
    pub url_variables: Option<Vec<KeyedValue>>,
    /// Template of the request bodies. Null and a blank text remove it.
    pub custom_webhook_template: Patch<String>,
    /// Whether push events trigger the webhook.
    pub push_events: Option<bool>,
    /// Pattern of the branches whose pushes trigger it.
    pub push_events_branch_filter: Patch<String>,
    /// Meaning of the pattern.
    pub branch_filter_strategy: Option<BranchFilterStrategy>,
    /// Whether tag events trigger it.
    pub tag_push_events: Option<bool>,
    /// Whether issue events trigger it.
    pub issues_events: Option<bool>,
    /// Whether events of confidential issues trigger it.
    pub confidential_issues_events: Option<bool>,
    /// Whether merge request events trigger it.
    pub merge_requests_events: Option<bool>,
    /// Whether comments trigger it.
    pub note_events: Option<bool>,
    /// Whether comments on confidential resources trigger it.
    pub confidential_note_events: Option<bool>,
    /// Whether job events trigger it.
    pub job_events: Option<bool>,
    /// Whether pipeline events trigger it.
    pub pipeline_events: Option<bool>,
    /// Whether wiki events trigger it.
    pub wiki_page_events: Option<bool>,
    /// Whether release events trigger it.
    pub releases_events: Option<bool>,
    /// Whether the receiver's TLS certificate is verified.
    pub enable_ssl_verification: Option<bool>,
}

/// Returns a page of a project's webhooks in order of creation, without their passwords, custom headers and URL
/// variables.
///
/// # Errors
/// Returns an error if the database fails.
pub async fn list(backend: &Backend, access: &ProjectAccess, page: &PageRequest) -> Result<Page<Model>> {
    page_of(
        backend.database.read(),
        project_hooks::of_project_for_list(access.project.id),
        page,
    )
    .await
}

/// Returns one webhook of a project.
///
/// # Errors
/// Returns `Error::NotFound` if it does not exist or belongs to another project.
pub async fn get(backend: &Backend, access: &ProjectAccess, id: i64) -> Result<Model> {
    find(backend.database.read(), access, id).await
}

async fn find(db: &impl ConnectionTrait, access: &ProjectAccess, id: i64) -> Result<Model> {
    let found = project_hooks::of_project(access.project.id)
        .filter(Column::Id.eq(id))
        .one(db)
        .await?;
    found.ok_or_else(|| Error::not_found(""))
}

/// Creates a webhook.
///
/// # Errors
/// Returns `Error::Unprocessable` if the URL, a token, the branch filter, a custom header or a URL variable is invalid.
/// Returns `Error::Unprocessable` if the project has `MAX_WEBHOOKS` webhooks already.
pub async fn create(backend: &Backend, access: &ProjectAccess, settings: WebhookSettings) -> Result<Model> {
    let project_id = access.project.id;
    let url_variables = settings.url_variables.as_deref().unwrap_or_default();
    let url_variables = ValueKind::UrlVariables.merge(&[], url_variables)?;
    let local = allows_local_requests(backend).await?;
    let target = ReceiverUrl::parse(&settings.url, &url_variables, local)?;
    let token = token(settings.token.clone())?;
    let signing_token = signing_token(settings.signing_token.clone())?;
    let custom_headers = settings.custom_headers.as_deref().unwrap_or_default();
    let custom_headers = ValueKind::CustomHeaders.merge(&[], custom_headers)?;
    let at = now();
    let mut row = ActiveModel {
        project_id: Set(project_id),
        url: Set(target.shown.clone()),
        created_at: Set(at),
        updated_at: Set(at),
        ..Default::default()
    };
    apply(&mut row, &settings)?;
    backend
        .database
        .transaction(async |transaction| {
            // The lock serializes inserts, so that concurrent ones cannot exceed the maximum.
            if projects::lock(transaction, project_id).await?.is_none() {
                return Err(Error::not_found("Project"));
            }
            if project_hooks::of_project(project_id).count(transaction).await? >= MAX_WEBHOOKS {
                let text = format!("Maximum number of project hooks ({MAX_WEBHOOKS}) exceeded");
                return Err(Error::Unprocessable(text.into()));
            }
            let hook = row.insert(transaction).await?;
            audit::record(
                transaction,
                &access.caller,
                event(AuditKind::WebhookAdded, access, &hook),
            )
            .await?;
            let mut secrets = hook.clone().into_active_model();
            let encryptor = backend.keyring.encryptor(transaction).await?;
            if let Some(password) = &target.password {
                secrets.password_encrypted = Set(Some(
                    encryptor.encrypt(password.expose(), &password_context(hook.id))?,
                ));
            }
            if let Some(Some(token)) = &token {
                secrets.token_encrypted =
                    Set(Some(encryptor.encrypt(token.expose(), &token_context(hook.id))?));
            }
            if let Some(Some(token)) = &signing_token {
                secrets.signing_token_encrypted = Set(Some(
                    encryptor.encrypt(token.expose(), &signing_context(hook.id))?,
                ));
            }
            if !custom_headers.is_empty() {
                ValueKind::CustomHeaders.write(&mut secrets, &encryptor, hook.id, &custom_headers)?;
            }
            if !url_variables.is_empty() {
                ValueKind::UrlVariables.write(&mut secrets, &encryptor, hook.id, &url_variables)?;
            }
            if secrets.is_changed() {
                return Ok(secrets.update(transaction).await?);
            }
            Ok(hook)
        })
        .await
}

/// Updates a webhook, and enables it again if it was disabled. If its URL gets another origin, the stored secrets
/// are removed. Values that cannot be decrypted remain until an update replaces all of them.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook does not exist. Returns `Error::Unprocessable` if an attribute is
/// invalid, as in [`create`]. The same applies to a masked password if the stored URL has no password, or another
/// origin or username, and to values that replace only some of those that cannot be decrypted.
pub async fn update(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    settings: WebhookSettings,
) -> Result<Model> {
    let local = allows_local_requests(backend).await?;
    let token = token(settings.token.clone())?;
    let signing_token = signing_token(settings.signing_token.clone())?;
    backend
        .database
        .transaction(async |transaction| {
            projects::lock(transaction, access.project.id).await?;
            let hook = find(transaction, access, id).await?;
            let mut row = hook.clone().into_active_model();
            let encryptor = backend.keyring.encryptor(transaction).await?;
            let readable_variables = ValueKind::UrlVariables.read_for_update(backend, &hook);
            let are_readable = readable_variables.is_some();
            let stored_variables = readable_variables.unwrap_or_default();
            let sent_variables = settings.url_variables.as_deref().unwrap_or_default();
            let former_url = expand(&hook.url, &stored_variables);
            let UpdatedReceiver {
                target,
                variables,
                is_same: is_same_receiver,
            } = UpdatedReceiver::parse(
                (&former_url, &stored_variables),
                (&settings.url, sent_variables),
                local,
            )?;
            if !is_same_receiver {
                clear_secrets(&mut row);
            } else if !are_readable && !sent_variables.is_empty() {
                ValueKind::UrlVariables.check_replaces_all(&hook, sent_variables)?;
            }
            if !is_same_receiver || !values::are_equal(&stored_variables, &variables) {
                ValueKind::UrlVariables.write(&mut row, &encryptor, id, &variables)?;
            }
            match &target.password {
                Some(password) if password.expose() == MASKED_PASSWORD => {
                    let is_stored = hook.password_encrypted.is_some() && target.has_username_of(&former_url);
                    if !(is_same_receiver && is_stored) {
                        return Err(invalid(
                            "Invalid url given: the hidden password can be used only with the same scheme, host, port \
                             and username",
                        ));
                    }
                }
                Some(password) => {
                    let stored = hook.password_encrypted.as_deref().filter(|_| is_same_receiver);
                    let column = &mut row.password_encrypted;
                    set_secret(backend, &encryptor, column, (stored, password), &password_context(id))?;
                }
                None => row.password_encrypted = Set(None),
            }
            row.url = Set(target.shown.clone());
            match &token {
                None => {}
                Some(None) => row.token_encrypted = Set(None),
                Some(Some(token)) => {
                    let stored = hook.token_encrypted.as_deref().filter(|_| is_same_receiver);
                    let column = &mut row.token_encrypted;
                    set_secret(backend, &encryptor, column, (stored, token), &token_context(id))?;
                }
            }
            match &signing_token {
                None => {}
                Some(None) => row.signing_token_encrypted = Set(None),
                Some(Some(token)) => {
                    let stored = hook
                        .signing_token_encrypted
                        .as_deref()
                        .filter(|_| is_same_receiver);
                    let column = &mut row.signing_token_encrypted;
                    set_secret(backend, &encryptor, column, (stored, token), &signing_context(id))?;
                }
            }
            let sent_headers = settings.custom_headers.as_deref().unwrap_or_default();
            if !sent_headers.is_empty() {
                let kind = ValueKind::CustomHeaders;
                let stored = match is_same_receiver {
                    true => kind.read_for_change(backend, &hook, sent_headers)?,
                    false => Vec::new(),
                };
                let merged = kind.merge(&stored, sent_headers)?;
                if !values::are_equal(&stored, &merged) {
                    kind.write(&mut row, &encryptor, id, &merged)?;
                }
            }
            apply(&mut row, &settings)?;
            if hook.disabled_at.is_some() {
                row.updated_at = Set(now());
            }
            let changed = row_changes::update_if_changed(transaction, &hook, row).await?;
            if changed != hook {
                let event = event(AuditKind::WebhookChanged, access, &changed);
                let event = event.from(address(&hook.url)).to(address(&changed.url));
                audit::record(transaction, &access.caller, event).await?;
            }
            delivery::reenable(transaction, id).await?;
            find(transaction, access, id).await
        })
        .await
}

/// Hides a webhook, and enqueues the deletion with its deliveries.
///
/// # Errors
/// Returns `Error::NotFound` if the webhook does not exist. Returns `Error::PreconditionFailed` if it changed
/// after `unmodified_since`.
pub async fn delete(
    backend: &Backend,
    access: &ProjectAccess,
    id: i64,
    unmodified_since: Option<&str>,
) -> Result<()> {
    let hook = get(backend, access, id).await?;
    preconditions::check_unmodified_since(unmodified_since, hook.updated_at)?;
    backend
        .database
        .transaction(async |transaction| {
            if !project_hooks::hide(transaction, id).await? {
                return Ok(());
            }
            let job = DeleteWebhook { hook_id: id };
            enqueue(transaction, &job).await.map_err(Error::internal)?;
            audit::record(
                transaction,
                &access.caller,
                event(AuditKind::WebhookRemoved, access, &hook),
            )
            .await
        })
        .await
}

fn event(kind: AuditKind, access: &ProjectAccess, hook: &Model) -> AuditEvent {
    let target = AuditTarget::new("ProjectHook", hook.id, address(&hook.url));
    AuditEvent::new(kind, access.audit_entity(), target)
}

/// Returns the origin of a URL. Users, paths and queries can contain secrets.
fn address(url: &str) -> String {
    Url::parse(url).map_or_else(|_| String::new(), |url| url.origin().ascii_serialization())
}

/// Encrypts a secret for a column, unless it is the stored secret. A new ciphertext would look like a change.
fn set_secret(
    backend: &Backend,
    encryptor: &Encryptor<'_>,
    column: &mut ActiveValue<Option<String>>,
    (stored, secret): (Option<&str>, &Secret<String>),
    context: &EncryptionContext,
) -> Result<()> {
    let stored = stored.and_then(|stored| backend.keyring.decrypt(stored, context).ok());
    if stored.is_none_or(|stored| stored.expose() != secret.expose()) {
        *column = Set(Some(encryptor.encrypt(secret.expose(), context)?));
    }
    Ok(())
}

/// Removes all secrets that are sent to the receiver. Users can change the URL without knowing the secrets, and must
/// not receive them at another address. Each new secret of a webhook belongs here.
fn clear_secrets(row: &mut ActiveModel) {
    row.password_encrypted = Set(None);
    row.token_encrypted = Set(None);
    row.signing_token_encrypted = Set(None);
    row.custom_header_keys = Set(None);
    row.custom_headers_encrypted = Set(None);
    row.url_variable_keys = Set(None);
    row.url_variables_encrypted = Set(None);
}

fn apply(row: &mut ActiveModel, settings: &WebhookSettings) -> Result<()> {
    for (column, text) in [
        (&mut row.name, &settings.name),
        (&mut row.description, &settings.description),
        (
            &mut row.custom_webhook_template,
            &settings.custom_webhook_template,
        ),
    ] {
        match text {
            Patch::Keep => {}
            Patch::Set(text) if !text.trim().is_empty() => *column = Set(Some(text.clone())),
            Patch::Set(_) | Patch::Clear => *column = Set(None),
        }
    }
    match &settings.push_events_branch_filter {
        Patch::Keep => {}
        Patch::Set(filter) if !filter.trim().is_empty() => {
            row.push_events_branch_filter = Set(Some(filter.trim().to_owned()));
        }
        Patch::Set(_) | Patch::Clear => row.push_events_branch_filter = Set(None),
    }
    if let Some(strategy) = settings.branch_filter_strategy {
        row.branch_filter_strategy = Set(strategy);
    }
    check_branch_filter(row)?;
    for (column, value) in [
        (&mut row.push_events, settings.push_events),
        (&mut row.tag_push_events, settings.tag_push_events),
        (&mut row.issues_events, settings.issues_events),
        (
            &mut row.confidential_issues_events,
            settings.confidential_issues_events,
        ),
        (&mut row.merge_requests_events, settings.merge_requests_events),
        (&mut row.note_events, settings.note_events),
        (
            &mut row.confidential_note_events,
            settings.confidential_note_events,
        ),
        (&mut row.job_events, settings.job_events),
        (&mut row.pipeline_events, settings.pipeline_events),
        (&mut row.wiki_page_events, settings.wiki_page_events),
        (&mut row.releases_events, settings.releases_events),
        (&mut row.enable_ssl_verification, settings.enable_ssl_verification),
    ] {
        if let Some(value) = value {
            *column = Set(value);
        }
    }
    Ok(())
}

fn invalid(text: &'static str) -> Error {
    Error::Unprocessable(text.into())
}

/// Validates the token to store, if one was sent.
fn token(token: Patch<Secret<String>>) -> Result<Option<Option<Secret<String>>>> {
    match token {
        Patch::Keep => Ok(None),
        Patch::Clear => Ok(Some(None)),
        Patch::Set(token) if token.expose().chars().any(char::is_control) => {
            Err(invalid("Invalid token given"))
        }
        Patch::Set(token) => Ok(Some(Some(token).filter(|token| !token.expose().is_empty()))),
    }
}

/// Validates the signing token to store, if one was sent.
fn signing_token(token: Patch<Secret<String>>) -> Result<Option<Option<Secret<String>>>> {
    match token {
        Patch::Keep => Ok(None),
        Patch::Clear => Ok(Some(None)),
        Patch::Set(token) if token.expose().is_empty() => Ok(Some(None)),
        Patch::Set(token) if request::signing_key(token.expose()).is_none() => Err(invalid(
            "Invalid signing token given: use whsec_ followed by 32 bytes in Base64 with padding",
        )),
        Patch::Set(token) => Ok(Some(Some(token))),
    }
}

/// Checks that the branch filter of a row is valid for its strategy, which can change without the filter.
fn check_branch_filter(row: &ActiveModel) -> Result<()> {
    let Some(filter) = row
        .push_events_branch_filter
        .try_as_ref()
        .and_then(Option::as_deref)
    else {
        return Ok(());
    };
    let strategy = row.branch_filter_strategy.try_as_ref();
    let is_valid = match strategy.copied().unwrap_or(BranchFilterStrategy::Wildcard) {
        BranchFilterStrategy::AllBranches => true,
        BranchFilterStrategy::Wildcard => check_branch_name(&filter.replace('*', "x")).is_ok(),
        BranchFilterStrategy::Regex => {
            filter.chars().count() <= MAX_REGEX_LENGTH && branch_filters::compile(filter).is_ok()
        }
    };
    match is_valid {
        true => Ok(()),
        false => Err(invalid("Invalid branch filter given")),
    }
}
