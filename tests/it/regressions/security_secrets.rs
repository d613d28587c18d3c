//! Whatever is said in secret stays out of the log, even of one that tells a lot.

use reqwest::Method;
use serde_json::json;

use crate::support::Client;
use crate::support::git::{self, Work};
use crate::support::process::{TOKEN, site_scenario};

const PASSWORD: &str = "planted-pass-word-1";
const WRONG: &str = "planted-wrong-token-2";
const QUERIED: &str = "planted-query-token-3";
const TYPED: &str = "planted-typed-password-4";
const BASIC: &str = "planted-basic-password-5";
const COOKIE: &str = "planted-cookie-6";
const VARIABLE: &str = "planted-variable-7";

site_scenario! {
    async fn no_secret_reaches_the_log(site, _kind) {
        let log = site.beside("log");
        let server = site.serve_logging(&log).await;
        let root = Client::new(&server.base, Some(TOKEN));
        let new = json!({ "email": "ann@example.com", "username": "ann", "name": "Ann", "password": PASSWORD });
        root.post("/users", new).await.expect(201);
        let made = root
            .post("/users/2/impersonation_tokens", json!({ "name": "t", "scopes": ["api"] }))
            .await
            .expect(201);
        let given = made.json()["token"].as_str().expect("a token").to_owned();
        Client::new(&server.base, Some(&given)).get("/user").await.expect(200);
        for (method, path) in [(Method::POST, "/admin/ci/variables"), (Method::POST, "/admin/ci/variables"), (Method::PUT, "/admin/ci/variables/K")] {
            let body = json!({ "key": "K", "value": VARIABLE, "masked": true });
            root.send(root.request(method, path).json(&body)).await;
        }
        root.get("/admin/ci/variables").await.expect(200);
        let nobody = Client::new(&server.base, None);
        Client::new(&server.base, Some(WRONG)).get("/user").await.expect(401);
        for name in ["private_token", "access_token"] {
            nobody.get(&format!("/user?{name}={QUERIED}")).await.expect(401);
        }
        let listed = nobody.get(&format!("/projects?private_token={given}")).await.expect(200);
        assert!(!listed.header("link").contains(&given));
        let form = nobody
            .clone()
            .header("cookie", &format!("_service_session={COOKIE}; _service_sign_in={COOKIE}"));
        form.send(form.request(Method::POST, "//users/sign_in").form(&[("login", "ann"), ("password", TYPED)]))
            .await
            .expect(403);
        let work = Work::new().await;
        site.import("p", &work.path).await;
        work.git(&["push", "--quiet", &server.address("p"), "main:other"]).await;
        let address = git::address(&server.base, "root", BASIC, "root/p");
        work.fails(&["push", "--quiet", &address, "main:more"]).await;
        server.stop().await;
        let said = std::fs::read_to_string(&log).expect("a log");
        assert!(said.contains("/api/v4/users"), "the log tells of the requests");
        for secret in [TOKEN, PASSWORD, WRONG, QUERIED, TYPED, BASIC, COOKIE, VARIABLE, &given] {
            let leak = said.lines().find(|line| line.contains(secret));
            assert_eq!(leak, None, "{secret} is in the log");
        }
    }
}
