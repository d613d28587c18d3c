//! `holdfast admin`.

use crate::support::git::{self, Work};
use crate::support::process::site_scenario;

site_scenario! {
    async fn imported_repository_can_be_cloned_with_tags_and_default_branch(site, _kind) {
        site.serve(&[]).await.stop().await;
        let work = Work::new().await;
        work.git(&["branch", "-m", "trunk"]).await;
        let tip = work.commit("a", "1").await;
        work.git(&["tag", "-a", "-m", "One", "v1"]).await;
        let path = work.path.to_str().unwrap();
        let said = site.succeeds(&["admin", "import-repo", "--project", "root/p", "--visibility", "public", path]).await;
        assert!(said.contains("default branch trunk"), "{said}");
        // A running server does not mind.
        let server = site.serve(&[]).await;
        let clones = Work::empty();
        let open = format!("{}/root/p.git", server.base);
        clones.git(&["clone", "--quiet", &open, "c"]).await;
        let clone = clones.below("c");
        assert_eq!(clone.git(&["rev-parse", "HEAD"]).await, tip);
        assert_eq!(clone.git(&["rev-parse", "v1^{commit}"]).await, tip);
        let newer = work.commit("b", "2").await;
        site.import("p", &work.path).await;
        clone.git(&["pull", "--quiet"]).await;
        assert_eq!(clone.git(&["rev-parse", "HEAD"]).await, newer);
        server.stop().await;
        site.succeeds(&["doctor"]).await;
    }

    async fn imports_that_cannot_be_are_refused(site, _kind) {
        site.serve(&[]).await.stop().await;
        let work = Work::new().await;
        let path = work.path.to_str().unwrap();
        for (project, source, reason) in [
            ("p", path, "NAMESPACE/NAME"),
            ("nowhere/p", path, "Namespace not found"),
            ("root/-p", path, "name of a project"),
            ("root/p.git", path, "name of a project"),
            ("root/p", "/nowhere", "No such file"),
        ] {
            let said = site.fails(&["admin", "import-repo", "--project", project, source]).await;
            assert!(said.contains(reason), "{project}: {said}");
        }
        // What was begun can be finished.
        site.import("p", &work.path).await;
        site.succeeds(&["doctor"]).await;
    }

    async fn users_and_tokens_are_good_at_once(site, _kind) {
        let server = site.serve(&[]).await;
        let work = Work::new().await;
        let path = work.path.to_str().unwrap();
        let said = site.succeeds(&["admin", "create-user", "ann", "--email", "ann@example.com"]).await;
        assert!(said.contains("User ann has id"), "{said}");
        let password = said.lines().find_map(|line| line.strip_prefix("Password (shown once): ")).unwrap().to_owned();
        site.succeeds(&["admin", "import-repo", "--project", "ann/p", path]).await;
        let token = site.succeeds(&["admin", "create-token", "ann", "--scopes", "read_repository,read_user"]).await;
        for secret in [token.trim(), &password] {
            let url = git::address(&server.base, "ann", secret, "ann/p");
            work.git(&["ls-remote", "--exit-code", &url, "refs/heads/main"]).await;
        }
        for (arguments, reason) in [
            (&["admin", "create-user", "ANN", "--email", "x@example.com"][..], "Username has already been taken"),
            (&["admin", "create-token", "nobody"], "there is no user nobody"),
            (&["admin", "create-token", "ann", "--scopes", "everything"], "scopes can only contain"),
        ] {
            let said = site.fails(arguments).await;
            assert!(said.contains(reason), "{said}");
        }
        server.stop().await;
    }
}
