//! Confirmation of email addresses that identity providers state: only administrators and verified domains confirm.

use domain::spaces::verified_domains;
use reqwest::Method;
use serde_json::{Value, json};

use super::{Provider, account, rejection, user_attributes};
use crate::support::spaces::group;
use crate::support::{ApiResponse, TestServer, on_every_database};

const TAKEN: &str = "Email has already been taken";

/// Returns the attributes of a user with this address.
fn attributes(name: &str, email: &str) -> Value {
    let mut attributes = user_attributes(name);
    attributes["emails"][0]["value"] = json!(email);
    attributes
}

/// Provisions a user with this address and returns the ID of the account.
async fn provision(server: &TestServer, provider: &Provider, name: &str, email: &str) -> i64 {
    provider.create(&attributes(name, email)).await.expect(201);
    account(server, name).await.expect("an account")
}

async fn patch_email(provider: &Provider, name: &str, email: &str) -> ApiResponse {
    let path = "emails[type eq \"work\"].value";
    provider.patch(&format!("uid-{name}"), json!([{ "op": "replace", "path": path, "value": email }])).await
}

/// Returns the primary address of a user, and whether it is confirmed.
async fn address(server: &TestServer, user: i64) -> (String, bool) {
    let user = server.root().get(&format!("/users/{user}")).await.expect(200).json();
    (user["email"].as_str().expect("an address").to_owned(), user["confirmed_at"].is_string())
}

async fn verify(server: &TestServer, group: &str, domain: &str) -> u64 {
    verified_domains::add(&server.backend, group, domain).await.expect("a domain")
}

async fn provisioned_email_is_confirmed_only_in_verified_domain(server: TestServer) {
    let bank = Provider::of(&server, "bank").await;
    let other = Provider::of(&server, "other").await;
    assert_eq!(verify(&server, "Bank", "Bank.Example").await, 0);
    let saml = server.root().get(&format!("/groups/{}/saml", bank.group)).await.expect(200).json();
    assert_eq!(saml["verified_domains"], json!(["bank.example"]));
    for (number, (provider, domain, confirmed)) in [
        (&bank, "bank.example", true),
        (&bank, "BANK.example", true),
        (&bank, "sub.bank.example", false),
        (&bank, "bank.example.org", false),
        (&bank, "mybank.example", false),
        (&bank, "bank.example.", false),
        (&bank, "bank", false),
        (&other, "bank.example", false),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("user{number}");
        let email = format!("{name}@{domain}");
        let user = provision(&server, provider, &name, &email).await;
        assert_eq!(address(&server, user).await, (email, confirmed));
    }
}

async fn changed_email_is_confirmed_only_in_verified_domain(server: TestServer) {
    let bank = Provider::of(&server, "bank").await;
    verify(&server, "bank", "bank.example").await;
    let ada = provision(&server, &bank, "ada", "ada@bank.example").await;
    for (email, confirmed) in
        [("ada@elsewhere.example", false), ("ada@bank.example", true), ("ADA@elsewhere.example", false)]
    {
        patch_email(&bank, "ada", email).await.expect(204);
        assert_eq!(address(&server, ada).await, (email.to_owned(), confirmed));
    }
    let put = attributes("ada", "ada@bank.example");
    bank.send(Method::PUT, "/Users/uid-ada", &put).await.expect(200);
    assert_eq!(address(&server, ada).await, ("ada@bank.example".to_owned(), true));
    // A user who is provisioned again is confirmed as well.
    patch_email(&bank, "ada", "ada@late.example").await.expect(204);
    bank.delete("uid-ada").await.expect(204);
    verify(&server, "bank", "late.example").await;
    assert_eq!(address(&server, ada).await, ("ada@late.example".to_owned(), false));
    bank.create(&attributes("ada", "ada@late.example")).await.expect(201);
    assert_eq!(address(&server, ada).await, ("ada@late.example".to_owned(), true));
}

async fn administrator_confirms_primary_email_of_provisioned_account(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let ada = provider.provision(&server, "ada").await;
    let path = format!("/users/{ada}");
    let confirm = json!({ "email": "ada@example.org", "skip_reconfirmation": true });
    server.root().put(&path, confirm).await.expect(200);
    assert!(address(&server, ada).await.1);
    // Providers send all attributes repeatedly; only another address ends the confirmation.
    for email in ["ada@example.org", "Ada@Example.org"] {
        patch_email(&provider, "ada", email).await.expect(204);
        assert_eq!(address(&server, ada).await, (email.to_owned(), true));
    }
    for email in ["ceo@bank.example", "ada@example.org"] {
        patch_email(&provider, "ada", email).await.expect(204);
        assert_eq!(address(&server, ada).await, (email.to_owned(), false));
    }
    // The address that an administrator set is confirmed if the provider states it too.
    server.root().put(&path, json!({ "email": "ada@bank.example" })).await.expect(200);
    patch_email(&provider, "ada", "ada@bank.example").await.expect(204);
    assert!(!address(&server, ada).await.1);
    verify(&server, "engines", "bank.example").await;
    server.root().put(&path, json!({ "email": "lovelace@bank.example" })).await.expect(200);
    assert!(!address(&server, ada).await.1);
    patch_email(&provider, "ada", "lovelace@bank.example").await.expect(204);
    assert!(address(&server, ada).await.1);
}

async fn unconfirmed_email_matches_filters_of_its_own_group_only(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let other = Provider::of(&server, "motors").await;
    let mut sent = attributes("ada", "ada.lovelace@example.org");
    sent["userName"] = json!("ada");
    provider.create(&sent).await.expect(201);
    let filter = "userName eq \"Ada.Lovelace@example.org\"";
    assert_eq!(provider.found(filter).await, ["uid-ada"]);
    assert!(other.found(filter).await.is_empty());
    let user = provider.user("uid-ada").await.expect(200).json();
    assert_eq!(user["emails"][0]["value"], "ada.lovelace@example.org");
    assert_eq!(rejection(&other.create(&attributes("eve", "ada.lovelace@example.org")).await).0, 409);
}

async fn verified_domain_takes_unconfirmed_emails_of_other_groups(server: TestServer) {
    let squatter = Provider::of(&server, "squatter").await;
    let bank = Provider::of(&server, "bank").await;
    let mut squatted = Vec::new();
    for name in ["a", "b", "c"] {
        squatted.push(provision(&server, &squatter, name, &format!("{name}@bank.example")).await);
    }
    let (status, _, detail) = rejection(&bank.create(&attributes("boss", "a@bank.example")).await);
    assert!(status == 409 && detail.ends_with(TAKEN), "{status} {detail}");
    verify(&server, "bank", "bank.example").await;
    let boss = provision(&server, &bank, "boss", "A@bank.example").await;
    assert_eq!(address(&server, boss).await, ("A@bank.example".to_owned(), true));
    let (placeholder, confirmed) = address(&server, squatted[0]).await;
    assert!(placeholder.ends_with("@noreply.invalid") && !confirmed, "{placeholder}");
    let shown = squatter.user("uid-a").await.expect(200).json();
    assert_eq!(shown["emails"][0]["value"], json!(placeholder));
    assert_eq!(rejection(&patch_email(&squatter, "a", "a@bank.example").await).2, TAKEN);
    // A change of the address has the same effect, also for accounts of a deleted group.
    server.root().delete(&format!("/groups/{}", squatter.group)).await.expect(202);
    server.finish_jobs().await;
    patch_email(&bank, "boss", "b@bank.example").await.expect(204);
    assert_eq!(address(&server, boss).await, ("b@bank.example".to_owned(), true));
    assert!(address(&server, squatted[1]).await.0.ends_with("@noreply.invalid"));
    assert_eq!(address(&server, squatted[2]).await, ("c@bank.example".to_owned(), false));
}

async fn verified_domain_takes_no_emails_of_other_accounts(server: TestServer) {
    let (bank, other) = (Provider::of(&server, "bank").await, Provider::of(&server, "other").await);
    let root = server.root();
    // An address of a user that an administrator created, which is unconfirmed by default.
    let new = json!({
        "name": "Bob", "username": "bob", "email": "bob@bank.example", "force_random_password": true,
    });
    root.post("/users", new).await.expect(201);
    // A confirmed address of another group.
    let eve = provision(&server, &other, "eve", "eve@bank.example").await;
    let confirm = json!({ "email": "eve@bank.example", "skip_reconfirmation": true });
    root.put(&format!("/users/{eve}"), confirm).await.expect(200);
    // An address of an administrator.
    let chief = provision(&server, &other, "chief", "chief@bank.example").await;
    root.put(&format!("/users/{chief}"), json!({ "admin": true })).await.expect(200);
    // An address of an account of the same group under another ID.
    provision(&server, &bank, "ada", "ada@bank.example").await;
    bank.delete("uid-ada").await.expect(204);
    provision(&server, &bank, "own", "own@bank.example").await;
    verify(&server, "bank", "bank.example").await;
    for name in ["bob", "eve", "chief", "ada"] {
        let email = format!("{name}@bank.example");
        let (status, _, detail) = rejection(&bank.create(&attributes("new", &email)).await);
        assert!(status == 409 && detail.ends_with(TAKEN), "{name}: {status} {detail}");
        let (status, _, detail) = rejection(&patch_email(&bank, "own", &email).await);
        assert_eq!((status, detail.as_str()), (409, TAKEN), "{name}");
        let user = account(&server, name).await.expect("an account");
        assert_eq!(address(&server, user).await.0, email);
    }
    assert_eq!(account(&server, "new").await, None);
}

async fn unverified_provider_removes_no_emails_of_other_users(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    let bob = server.create_user("bob").await;
    let further = bob.client.post("/user/emails", json!({ "email": "boss@example.org" })).await.expect(201).json();
    let (status, _, detail) = rejection(&provider.create(&user_attributes("boss")).await);
    assert!(status == 409 && detail.ends_with(TAKEN), "{status} {detail}");
    provider.provision(&server, "ada").await;
    assert_eq!(rejection(&patch_email(&provider, "ada", "boss@example.org").await).2, TAKEN);
    bob.client.get(&format!("/user/emails/{}", further["id"])).await.expect(200);
    verify(&server, "engines", "example.org").await;
    patch_email(&provider, "ada", "boss@example.org").await.expect(204);
    bob.client.get(&format!("/user/emails/{}", further["id"])).await.expect(404);
    let events = format!("/audit_events?entity_type=User&entity_id={}", bob.id);
    let event = server.root().get(&events).await.expect(200).json()[0]["details"].clone();
    let shown = ["event_name", "author_name", "target_details"].map(|field| event[field].clone());
    assert_eq!(shown, ["user_email_removed", "Identity provider", "boss@example.org"]);
}

async fn setting_forbids_account_creation_by_groups(server: TestServer) {
    let provider = Provider::of(&server, "engines").await;
    verify(&server, "engines", "example.org").await;
    let ada = provider.provision(&server, "ada").await;
    provider.provision(&server, "bob").await;
    provider.delete("uid-bob").await.expect(204);
    let set = async |allowed: bool| {
        let body = json!({ "allow_account_creation_by_groups": allowed });
        let settings = server.root().put("/application/settings", body).await.expect(200).json();
        assert_eq!(settings["allow_account_creation_by_groups"], json!(allowed));
    };
    set(false).await;
    let refused = provider.create(&user_attributes("eve")).await;
    assert_eq!(
        rejection(&refused),
        (
            403,
            Value::Null,
            "403 Forbidden - Groups cannot create accounts on this instance (setting: allow_account_creation_by_groups)"
                .to_owned()
        )
    );
    assert_eq!(account(&server, "eve").await, None);
    // Existing accounts can be changed and provisioned again.
    provider.create(&user_attributes("ada")).await.expect(201);
    provider.create(&user_attributes("bob")).await.expect(201);
    patch_email(&provider, "ada", "countess@example.org").await.expect(204);
    provider.delete("uid-ada").await.expect(204);
    assert_eq!(provider.role(&server, ada).await, None);
    set(true).await;
    provider.create(&user_attributes("eve")).await.expect(201);
}

async fn verified_domain_applies_to_existing_users_of_group(server: TestServer) {
    let bank = Provider::of(&server, "bank").await;
    let other = Provider::of(&server, "other").await;
    let ada = provision(&server, &bank, "ada", "ada@bank.example").await;
    let bob = provision(&server, &bank, "bob", "bob@bank.example").await;
    let sub = provision(&server, &bank, "sub", "sub@a.bank.example").await;
    let eve = provision(&server, &other, "eve", "eve@bank.example").await;
    let former = provision(&server, &bank, "former", "former@bank.example").await;
    bank.delete("uid-former").await.expect(204);
    // Wildcards of the database have no meaning.
    assert_eq!(verify(&server, "bank", "_ank.example").await, 0);
    assert_eq!(verify(&server, "bank", "%.example").await, 0);
    assert_eq!(verify(&server, "bank", "bank.example").await, 2);
    assert_eq!(verify(&server, "bank", "BANK.example").await, 0);
    for (user, confirmed) in [(ada, true), (bob, true), (sub, false), (eve, false), (former, false)] {
        assert_eq!(address(&server, user).await.1, confirmed, "{user}");
    }
    let listed = verified_domains::list(&server.backend, "bank").await.expect("domains");
    assert_eq!(listed, ["_ank.example", "%.example", "bank.example"]);
    // Removing the domain also applies to users who are no longer provisioned.
    bank.delete("uid-bob").await.expect(204);
    let removed = verified_domains::remove(&server.backend, "bank", "Bank.example").await;
    assert_eq!(removed.expect("a domain"), 2);
    for user in [ada, bob] {
        assert!(!address(&server, user).await.1, "{user}");
    }
    let again = verified_domains::remove(&server.backend, "bank", "bank.example").await;
    assert_eq!(again.expect_err("a missing domain").to_string(), "Domain not found");
}

async fn verified_domain_requires_group_with_single_sign_on_and_valid_domain(server: TestServer) {
    let root = server.root();
    let engines = group(&root, "engines", json!({})).await;
    group(&root, "below", json!({ "parent_id": engines })).await;
    server.create_user("ada").await;
    let add = async |group: &str, domain: &str| verified_domains::add(&server.backend, group, domain).await.is_ok();
    for (group, domain) in
        [("ada", "bank.example"), ("missing", "bank.example"), ("engines/below", "bank.example"), ("engines", "a@b")]
    {
        assert!(!add(group, domain).await, "{group} {domain}");
    }
    for number in 0..100 {
        assert!(add("engines", &format!("{number}.example")).await);
    }
    assert!(!add("engines", "more.example").await);
    assert!(add("engines", "7.example").await);
    root.delete(&format!("/groups/{engines}")).await.expect(202);
    assert!(!add("engines", "7.example").await);
    server.finish_jobs().await;
}

on_every_database![
    provisioned_email_is_confirmed_only_in_verified_domain,
    changed_email_is_confirmed_only_in_verified_domain,
    administrator_confirms_primary_email_of_provisioned_account,
    unconfirmed_email_matches_filters_of_its_own_group_only,
    verified_domain_takes_unconfirmed_emails_of_other_groups,
    verified_domain_takes_no_emails_of_other_accounts,
    unverified_provider_removes_no_emails_of_other_users,
    setting_forbids_account_creation_by_groups,
    verified_domain_applies_to_existing_users_of_group,
    verified_domain_requires_group_with_single_sign_on_and_valid_domain,
];
