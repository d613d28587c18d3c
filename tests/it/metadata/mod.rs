//! `GET /version`.

use crate::support::scenario;

scenario! {
    async fn the_version_is_told_to_whoever_is_signed_in(server) {
        let answer = server.root().get("/version").await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.json()["version"], env!("CARGO_PKG_VERSION"));
    }

    async fn the_version_is_not_told_to_strangers(server) {
        let answer = server.anonymous().get("/version").await;
        assert_eq!((answer.status, answer.message()), (401, "401 Unauthorized".to_owned()));
    }

    async fn an_unknown_token_is_refused(server) {
        let answer = server.with_token("hfpat-unknown").get("/version").await;
        assert_eq!(answer.status, 401);
    }
}
