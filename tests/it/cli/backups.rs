//! `holdfast backup` and `restore`.

use crate::support::git::Work;
use crate::support::process::{Site, site_scenario};

site_scenario! {
    async fn restored_server_has_all_that_the_saved_one_had(site, kind) {
        let server = site.serve(&[]).await;
        let work = Work::new().await;
        site.import("p", &work.path).await;
        let tip = work.commit("a", "1").await;
        work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
        site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
        let token = site.succeeds(&["admin", "create-token", "ann"]).await;
        let copy = site.beside("copy");
        let copy = copy.to_str().unwrap();
        let said = site.succeeds(&["backup", copy]).await;
        assert!(said.contains("Saved 1 repository to "), "{said}");
        // What comes later is not in it.
        work.commit("b", "2").await;
        work.git(&["push", "--quiet", &server.address("p"), "main"]).await;
        let said = site.fails(&["backup", copy]).await;
        assert!(said.contains("is not empty"), "{said}");
        let said = site.fails(&["restore", copy]).await;
        assert!(said.contains("is not empty"), "{said}");
        server.stop().await;

        let other = Site::new(&kind).await;
        other.succeeds(&["restore", copy]).await;
        other.succeeds(&["doctor"]).await;
        assert_eq!(
            std::fs::read(other.data.join("secret.key")).unwrap(),
            std::fs::read(site.data.join("secret.key")).unwrap()
        );
        let server = other.serve(&[]).await;
        let listed = work.git(&["ls-remote", &server.address("p"), "refs/heads/main"]).await;
        assert!(listed.starts_with(&tip), "{listed}");
        let url = crate::support::git::address(&server.base, "ann", token.trim(), "root/p");
        let said = work.fails(&["ls-remote", &url]).await;
        assert!(said.contains("could not be found"), "the token is not known: {said}");
        // New rows get ids of their own.
        other.import("q", &work.path).await;
        work.git(&["push", "--quiet", &server.address("q"), "main:other"]).await;
        server.stop().await;
        other.succeeds(&["doctor"]).await;
        other.remove().await;
    }

    async fn incomplete_backup_is_refused(site, kind) {
        site.serve(&[]).await.stop().await;
        let copy = site.beside("copy");
        site.succeeds(&["backup", copy.to_str().unwrap()]).await;
        std::fs::remove_file(copy.join("manifest.json")).unwrap();
        let other = Site::new(&kind).await;
        let said = other.fails(&["restore", copy.to_str().unwrap()]).await;
        assert!(said.contains("holds no complete backup"), "{said}");
        assert!(!other.data.exists());
        other.remove().await;
    }
}
