//! The page where users set up and remove their second factor.

use reqwest::header::LOCATION;
use serde_json::json;

use super::sign_in::{both_steps, send};
use super::user;
use crate::support::authenticator::Authenticator;
use crate::support::browser::{Browser, Seen, style_source, token};
use crate::support::users::PASSWORD;
use crate::support::{TestServer, on_every_database};

const PATH: &str = "/users/two_factor";

/// Checks that a page works without scripts and external resources, and that each input has a label.
fn check_page(page: &Seen) {
    let policy = page.headers["content-security-policy"].to_str().expect("text");
    let expected = format!("default-src 'none'; style-src '{}'; form-action 'self'", style_source(page));
    assert!(policy.starts_with(&expected), "{policy}");
    assert!(!page.text.contains("style="), "an attribute has no digest");
    assert_eq!(page.headers["cache-control"], "no-store");
    for text in ["<html lang=\"en\">", "<title>Two-factor authentication", "<main>"] {
        assert!(page.text.contains(text), "{text}");
    }
    for text in ["<script", "src=", "url(", "<?xml", "http-equiv"] {
        assert!(!page.text.contains(text), "{text}");
    }
    let inputs = page.text.split("<input ").skip(1).filter(|input| !input.starts_with("type=\"hidden\""));
    let mut ids: Vec<&str> = inputs
        .map(|input| input.split("id=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("an ID"))
        .collect();
    for id in &ids {
        assert!(page.text.contains(&format!("<label for=\"{id}\">")), "{id} has no label");
    }
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), count, "IDs are unique");
}

/// Sends a form of the page.
async fn submit(browser: &mut Browser, path: &str, field: (&str, &str)) -> Seen {
    let page = browser.get(&format!("{PATH}?return_to=%2Fdocs%3Fx%3D1")).await;
    let token = token(&page);
    let pairs = [("authenticity_token", token.as_str()), field, ("return_to", "/docs?x=1")];
    browser.post(&format!("{PATH}{path}"), &pairs).await
}

/// Returns the texts of `code` elements.
fn codes(page: &Seen) -> Vec<String> {
    let parts = page.text.split("<li><code>").skip(1);
    parts.map(|part| part.split('<').next().expect("a code").to_owned()).collect()
}

async fn page_requires_session(server: TestServer) {
    let mut browser = Browser::new(&server);
    let redirected = browser.get(PATH).await;
    assert_eq!(redirected.headers[LOCATION], "/users/sign_in?return_to=%2Fusers%2Ftwo%5Ffactor");
    for path in ["", "/confirm", "/recovery_codes", "/disable"] {
        let sent = browser.post(&format!("{PATH}{path}"), &[("code", "123456")]).await;
        assert_eq!((sent.status.as_u16(), browser.session()), (303, None), "{path}");
    }
}

async fn user_sets_up_second_factor_on_page(server: TestServer) {
    let ada = user(&server, "ada").await;
    let (mut browser, mut other) = (Browser::new(&server), Browser::new(&server));
    browser.sign_in("ada", PASSWORD, &[]).await;
    other.sign_in("ada", PASSWORD, &[]).await;
    let page = browser.get(PATH).await;
    check_page(&page);
    assert!(!page.text.contains("You have to"), "nothing requires a second factor");
    let wrong = submit(&mut browser, "", ("current_password", "wrong password")).await;
    check_page(&wrong);
    assert!(wrong.status == 422 && wrong.text.contains("The current password is wrong."), "{}", wrong.text);
    let early = submit(&mut browser, "/confirm", ("code", "123456")).await;
    assert!(early.status == 422 && early.text.contains("No setup"), "{}", early.text);
    let started = submit(&mut browser, "", ("current_password", PASSWORD)).await;
    check_page(&started);
    assert!(started.text.contains("<div role=\"img\" aria-label=\"QR code of the secret\"><svg "), "{}", started.text);
    let (_, rest) = started.text.split_once("<code id=\"secret\">").expect("a secret");
    let app = Authenticator::new(&rest.split('<').next().expect("a secret").replace(' ', ""));
    let wrong = submit(&mut browser, "/confirm", ("code", "12345x")).await;
    check_page(&wrong);
    assert!(wrong.status == 422 && wrong.text.contains("The code is wrong"), "{}", wrong.text);
    let confirmed = submit(&mut browser, "/confirm", ("code", &app.code())).await;
    check_page(&confirmed);
    let recovery_codes = codes(&confirmed);
    assert!(confirmed.status == 200 && recovery_codes.len() == 10, "{}", confirmed.text);
    assert!(confirmed.text.contains("<a href=\"/docs?x=1\">Continue</a>"));
    // The session of the setup remains, the other one ends.
    assert_eq!(browser.get("/api/v4/user").await.json()["two_factor_enabled"], true);
    assert_eq!(other.get("/api/v4/user").await.status, 401);
    both_steps(&mut other, "ada", &recovery_codes[0]).await;
    let page = browser.get(PATH).await;
    check_page(&page);
    assert!(page.text.contains("Unused recovery codes: 9"), "{}", page.text);
    let again = submit(&mut browser, "", ("current_password", PASSWORD)).await;
    assert!(again.status == 422 && again.text.contains("already enabled"), "{}", again.text);
    assert_eq!(ada.client.get("/user/two_factor").await.json()["recovery_codes_left"], 9);
}

async fn user_changes_second_factor_on_page(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let (mut browser, mut other) = (Browser::new(&server), Browser::new(&server));
    both_steps(&mut browser, "ada", &factor.recovery_codes[0]).await;
    both_steps(&mut other, "ada", &factor.recovery_codes[1]).await;
    let rejected = submit(&mut browser, "/recovery_codes", ("code", &factor.recovery_codes[0])).await;
    check_page(&rejected);
    assert!(rejected.status == 422 && rejected.text.contains("was used before"), "{}", rejected.text);
    let replaced = submit(&mut browser, "/recovery_codes", ("code", &factor.recovery_codes[2])).await;
    let recovery_codes = codes(&replaced);
    assert_eq!(recovery_codes.len(), 10);
    assert_eq!(other.get("/api/v4/user").await.status, 200);
    assert_eq!(submit(&mut browser, "/disable", ("code", "wrong")).await.status, 422);
    let disabled = submit(&mut browser, "/disable", ("code", &recovery_codes[9])).await;
    assert_eq!((disabled.status.as_u16(), &disabled.headers[LOCATION]), (303, &PATH.parse().expect("a value")));
    assert_eq!(ada.client.get("/user").await.json()["two_factor_enabled"], false);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    assert_eq!(other.get("/api/v4/user").await.status, 401);
    let late = submit(&mut browser, "/disable", ("code", &recovery_codes[8])).await;
    assert!(late.status == 422 && late.text.contains("is not enabled"), "{}", late.text);
}

async fn forms_require_token_of_session(server: TestServer) {
    let (ada, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    both_steps(&mut browser, "ada", &factor.recovery_codes[0]).await;
    let mut other = Browser::new(&server);
    both_steps(&mut other, "ada", &factor.recovery_codes[1]).await;
    let foreign = token(&other.get(PATH).await);
    for sent in ["", "guess", &foreign] {
        for path in ["", "/confirm", "/recovery_codes", "/disable"] {
            let pairs = [("authenticity_token", sent), ("code", &factor.recovery_codes[2])];
            let refused = browser.post(&format!("{PATH}{path}"), &pairs).await;
            assert_eq!(refused.status, 403, "{path}");
            check_page(&refused);
        }
    }
    assert_eq!(ada.client.get("/user/two_factor").await.json()["recovery_codes_left"], 8);
}

async fn limited_session_can_set_up_second_factor_and_sign_out(server: TestServer) {
    user(&server, "ada").await;
    let settings = json!({ "require_two_factor_authentication": true, "two_factor_grace_period": 0 });
    server.root().put("/application/settings", settings).await.expect(200);
    let mut browser = Browser::new(&server);
    let target = "//evil.example";
    let seen = browser.sign_in("ada", PASSWORD, &[("return_to", target)]).await;
    assert_eq!(seen.headers[LOCATION], "/users/two_factor?return_to=%2Fdocs");
    let page = browser.get("/users/two_factor?return_to=//evil.example").await;
    assert!(!page.text.contains("evil"), "{}", page.text);
    assert_eq!(browser.get("/api/v4/user").await.status, 403);
    let started = submit(&mut browser, "", ("current_password", PASSWORD)).await;
    let (_, rest) = started.text.split_once("<code id=\"secret\">").expect("a secret");
    let app = Authenticator::new(&rest.split('<').next().expect("a secret").replace(' ', ""));
    assert_eq!(submit(&mut browser, "/confirm", ("code", &app.code())).await.status, 200);
    assert_eq!(browser.get("/api/v4/user").await.status, 200);
    let token = token(&browser.get(PATH).await);
    assert_eq!(browser.post("/users/sign_out", &[("authenticity_token", &token)]).await.status, 303);
    assert!(browser.session().is_none());
    browser.sign_in("ada", PASSWORD, &[]).await;
    assert_eq!(send(&mut browser, &app.code_at(1)).await.status, 303);
}

async fn wrong_codes_on_page_are_limited(server: TestServer) {
    let (_, factor) = server.create_user_with_second_factor("ada").await;
    let mut browser = Browser::new(&server);
    both_steps(&mut browser, "ada", &factor.recovery_codes[0]).await;
    for _ in 0..10 {
        assert_eq!(submit(&mut browser, "/disable", ("code", "000000x")).await.status, 422);
    }
    let limited = submit(&mut browser, "/disable", ("code", &factor.recovery_codes[1])).await;
    assert!(limited.status == 429 && limited.headers.contains_key("retry-after"));
    check_page(&limited);
}

on_every_database![
    page_requires_session,
    user_sets_up_second_factor_on_page,
    user_changes_second_factor_on_page,
    forms_require_token_of_session,
    limited_session_can_set_up_second_factor_and_sign_out,
    wrong_codes_on_page_are_limited,
];
