//! Lookups by client input.

use chrono::{Days, SubsecRound, TimeDelta};
use sea_orm::{ActiveEnum, ActiveValue::Set, EntityTrait, Iterable};

use super::fixtures::{World, today, user_row};
use crate::{
    database::testing::{DatabaseKind, on_every_database, on_migrated},
    entities::{
        AccessLevel, Visibility, access_tokens, commit_comments, members, namespace_ancestors, namespaces,
        now, project_topics, projects, ref_updates, sessions, settings, users,
    },
};

async fn user_lookup_ignores_case_and_reads_digits_as_id(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("Ada").await;
        let found = users::by_username(db.read(), "aDA").await.unwrap().unwrap();
        assert_eq!((found.id, found.username.as_str()), (ada.id, "Ada"));
        assert_eq!(found.state, users::UserState::Active);
        assert_eq!(found.projects_limit, 100_000);
        assert!(
            users::by_email(db.read(), "ADA@EXAMPLE.COM")
                .await
                .unwrap()
                .is_some()
        );
        let by_id = users::by_reference(db.read(), &ada.id.to_string()).await.unwrap();
        assert_eq!(by_id.map(|user| user.id), Some(ada.id));
        assert!(
            users::by_reference(db.read(), "99999999999999999999")
                .await
                .unwrap()
                .is_none()
        );
        assert!(users::by_reference(db.read(), "nobody").await.unwrap().is_none());
    })
    .await;
}

async fn timestamps_and_dates_round_trip(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let at = now();
        let mut row = user_row("ada");
        row.created_at = Set(at);
        row.confirmed_at = Set(Some(at + TimeDelta::microseconds(1)));
        row.last_activity_on = Set(Some(today()));
        let id = users::Entity::insert(row)
            .exec(db.write())
            .await
            .unwrap()
            .last_insert_id;
        let user = users::Entity::find_by_id(id)
            .one(db.read())
            .await
            .unwrap()
            .unwrap();
        assert_eq!(user.created_at, at);
        assert_eq!(user.confirmed_at, Some(at + TimeDelta::microseconds(1)));
        assert_eq!(user.last_activity_on, Some(today()));
    })
    .await;
}

async fn timestamps_of_any_precision_sort_by_time(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let whole_second = now().trunc_subsecs(0);
        let world = World::new(&db).await;
        let project = {
            world.user("ada").await;
            world.project("ada", "p").await
        };
        let offsets = [0, 1, 999, 1000, 1001, 500_000, 999_999];
        for offset in offsets {
            let row = ref_updates::ActiveModel {
                project_id: Set(project),
                kind: Set(ref_updates::RefUpdateKind::Push),
                changes: Set("[]".into()),
                created_at: Set(whole_second + TimeDelta::microseconds(offset)),
                ..Default::default()
            };
            ref_updates::Entity::insert(row).exec(db.write()).await.unwrap();
        }
        for (count, offset) in offsets.into_iter().enumerate() {
            let before = whole_second + TimeDelta::microseconds(offset);
            assert_eq!(
                ref_updates::pending(db.read(), Some(before)).await.unwrap().len(),
                count
            );
        }
        let all = ref_updates::pending(db.read(), None).await.unwrap();
        assert_eq!(all.len(), offsets.len());
    })
    .await;
}

async fn ids_are_never_reused(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let first = world.project("ada", "p").await;
        projects::Entity::delete_by_id(first)
            .exec(db.write())
            .await
            .unwrap();
        assert!(world.project("ada", "p").await > first);
    })
    .await;
}

async fn token_lookup_finds_revoked_and_expired_tokens(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("ada").await;
        let token = |digest: &str, kind, revoked, expires_at| access_tokens::ActiveModel {
            user_id: Set(ada.id),
            name: Set("t".into()),
            kind: Set(kind),
            digest: Set(digest.into()),
            scopes: Set("api sudo".into()),
            revoked: Set(revoked),
            expires_at: Set(expires_at),
            created_at: Set(now()),
            ..Default::default()
        };
        let yesterday = today().checked_sub_days(Days::new(1));
        for row in [
            token("good", access_tokens::TokenKind::Personal, false, Some(today())),
            token("revoked", access_tokens::TokenKind::Personal, true, None),
            token(
                "expired",
                access_tokens::TokenKind::Impersonation,
                false,
                yesterday,
            ),
        ] {
            access_tokens::Entity::insert(row).exec(db.write()).await.unwrap();
        }
        for (digest, active) in [("good", true), ("revoked", false), ("expired", false)] {
            let (token, user) = access_tokens::by_digest(db.read(), digest)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((token.is_active(today()), user.id), (active, ada.id), "{digest}");
            assert_eq!(token.scopes().collect::<Vec<_>>(), ["api", "sudo"]);
        }
        assert!(
            access_tokens::by_digest(db.read(), "unknown")
                .await
                .unwrap()
                .is_none()
        );
        let personal = access_tokens::of_user(ada.id, access_tokens::TokenKind::Personal);
        assert_eq!(personal.all(db.read()).await.unwrap().len(), 2);
    })
    .await;
}

async fn session_lookup_ignores_expired_sessions(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let ada = World::new(&db).await.user("ada").await;
        let at = now();
        let row = sessions::ActiveModel {
            digest: Set("d".into()),
            user_id: Set(ada.id),
            csrf_seed: Set("s".into()),
            created_at: Set(at),
            last_seen_at: Set(at),
            expires_at: Set(at + TimeDelta::hours(1)),
            ..Default::default()
        };
        sessions::Entity::insert(row).exec(db.write()).await.unwrap();
        let found = sessions::by_digest(db.read(), "d", at).await.unwrap().unwrap();
        assert_eq!(found.1.id, ada.id);
        assert!(
            sessions::by_digest(db.read(), "d", at + TimeDelta::hours(1))
                .await
                .unwrap()
                .is_none()
        );
    })
    .await;
}

async fn projects_and_groups_are_found_by_id_or_path(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let top = world.group("Top", Visibility::Private).await;
        let below = world.group("Top/Below", Visibility::Private).await;
        let project = world.project("Top/Below", "Code").await;
        for reference in ["top/below/code", "TOP/Below/Code", project.to_string().as_str()] {
            let (found, namespace) = projects::by_reference(db.read(), reference)
                .await
                .unwrap()
                .unwrap();
            assert_eq!((found.id, namespace.id), (project, below), "{reference}");
        }
        for reference in ["code", "top/code", "top/below", "", "/", "0", "-1"] {
            assert!(
                projects::by_reference(db.read(), reference)
                    .await
                    .unwrap()
                    .is_none(),
                "{reference}"
            );
        }
        let group = async |reference: &str| {
            let found = namespaces::group_by_reference(db.read(), reference)
                .await
                .unwrap();
            found.map(|group| group.id)
        };
        assert_eq!(group("top").await, Some(top));
        assert_eq!(group("top/below").await, Some(below));
        assert_eq!(group(&top.to_string()).await, Some(top));
        assert_eq!(group("ada").await, None, "a personal namespace is no group");
    })
    .await;
}

async fn project_with_started_deletion_is_not_found(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let project = world.project("ada", "p").await;
        let row = projects::ActiveModel {
            id: Set(project),
            deletion_started_at: Set(Some(now())),
            ..Default::default()
        };
        projects::Entity::update(row).exec(db.write()).await.unwrap();
        assert!(
            projects::by_full_path(db.read(), "ada/p")
                .await
                .unwrap()
                .is_none()
        );
        assert!(
            projects::by_reference(db.read(), &project.to_string())
                .await
                .unwrap()
                .is_none()
        );
    })
    .await;
}

async fn group_path_must_be_unique_among_users_and_siblings(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        assert!(world.try_group("ADA", Visibility::Private).await.is_err());
        world.group("g", Visibility::Private).await;
        world.group("g/ada", Visibility::Private).await;
        assert!(world.try_group("g/Ada", Visibility::Private).await.is_err());
        assert!(world.try_group("G", Visibility::Private).await.is_err());
    })
    .await;
}

async fn path_is_taken_by_group_user_or_project_with_started_deletion(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let group = world.group("g", Visibility::Private).await;
        world.group("g/sub", Visibility::Private).await;
        let project = world.project("g", "code").await;
        let row = projects::ActiveModel {
            id: Set(project),
            deletion_started_at: Set(Some(now())),
            ..Default::default()
        };
        projects::Entity::update(row).exec(db.write()).await.unwrap();
        for (path, is_taken) in [
            ("ADA", true),
            ("g", true),
            ("G/Sub", true),
            ("g/CODE", true),
            ("code", false),
            ("ada/code", false),
            ("g/sub/code", false),
        ] {
            let tx = db.begin().await.unwrap();
            assert_eq!(
                namespaces::lock(&tx, group).await.unwrap().map(|found| found.id),
                Some(group)
            );
            assert_eq!(
                namespaces::is_path_taken(&tx, path).await.unwrap(),
                is_taken,
                "{path}"
            );
            tx.rollback().await.unwrap();
        }
    })
    .await;
}

async fn ancestors_and_descendants_of_group_are_listed_once(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let a = world.group("a", Visibility::Private).await;
        let b = world.group("a/b", Visibility::Private).await;
        let c = world.group("a/b/c", Visibility::Private).await;
        let above = namespace_ancestors::of(db.read(), c).await.unwrap();
        let above: Vec<_> = above
            .into_iter()
            .map(|row| (row.ancestor_id, row.depth))
            .collect();
        assert_eq!(above, [(c, 0), (b, 1), (a, 2)]);
        assert_eq!(
            namespace_ancestors::descendant_ids(db.read(), a).await.unwrap(),
            [a, b, c]
        );
        assert_eq!(
            namespace_ancestors::descendant_ids(db.read(), c).await.unwrap(),
            [c]
        );
    })
    .await;
}

async fn direct_members_are_sorted_and_exclude_expired_ones(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let group = world.group("g", Visibility::Private).await;
        let source = members::MembershipSource::Group(group);
        world.member(source, bob, AccessLevel::Owner).await;
        let cid = world.user("cid").await;
        world.member(source, cid, AccessLevel::Guest).await;
        world
            .member_until(source, ada, AccessLevel::Owner, Some(today()))
            .await;
        let all = members::of(source, today()).all(db.read()).await.unwrap();
        let names: Vec<_> = all
            .into_iter()
            .filter_map(|(_, user)| user.map(|user| user.username))
            .collect();
        assert_eq!(names, ["bob", "cid"]);
        assert_eq!(members::owners(db.read(), group, today()).await.unwrap(), 1);
        assert!(
            members::direct(db.read(), source, ada.id)
                .await
                .unwrap()
                .is_some()
        );
        let elsewhere = members::MembershipSource::Project(group);
        assert!(
            members::direct(db.read(), elsewhere, ada.id)
                .await
                .unwrap()
                .is_none()
        );
    })
    .await;
}

async fn topics_of_projects_are_sorted(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let (p, q) = (world.project("ada", "p").await, world.project("ada", "q").await);
        let topic = |project_id, name: &str| project_topics::ActiveModel {
            project_id: Set(project_id),
            name: Set(name.into()),
            ..Default::default()
        };
        let rows = [topic(p, "rust"), topic(p, "git")];
        project_topics::Entity::insert_many(rows)
            .exec(db.write())
            .await
            .unwrap();
        let topics = project_topics::of_projects(db.read(), [p, q]).await.unwrap();
        assert_eq!(topics.get(&p), Some(&vec!["git".to_owned(), "rust".to_owned()]));
        assert_eq!(topics.get(&q), None);
    })
    .await;
}

async fn commit_comment_survives_deletion_of_author(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        world.user("ada").await;
        let project = world.project("ada", "p").await;
        let bob = users::Entity::insert(user_row("bob"))
            .exec(db.write())
            .await
            .unwrap()
            .last_insert_id;
        let sha = "a".repeat(40);
        let row = commit_comments::ActiveModel {
            project_id: Set(project),
            sha: Set(sha.clone()),
            author_id: Set(Some(bob)),
            note: Set("n".into()),
            line_type: Set(Some(commit_comments::LineType::Old)),
            created_at: Set(now()),
            ..Default::default()
        };
        commit_comments::Entity::insert(row)
            .exec(db.write())
            .await
            .unwrap();
        users::Entity::delete_by_id(bob).exec(db.write()).await.unwrap();
        let found = commit_comments::on_commit(project, &sha)
            .all(db.read())
            .await
            .unwrap();
        assert_eq!(found.len(), 1);
        assert!(
            found
                .iter()
                .all(|(comment, author)| comment.author_id.is_none() && author.is_none())
        );
    })
    .await;
}

async fn setting_is_replaced_by_next_value(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        settings::put(db.write(), "k", "1").await.unwrap();
        settings::put(db.write(), "k", "2").await.unwrap();
        assert_eq!(settings::get(db.read(), "k").await.unwrap().as_deref(), Some("2"));
    })
    .await;
}

async fn every_value_of_every_text_enum_is_accepted(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("ada").await;
        let project = world.project("ada", "p").await;
        let group = world.group("g", Visibility::Private).await;
        for state in users::UserState::iter() {
            let row = users::ActiveModel {
                id: Set(ada.id),
                state: Set(state),
                ..Default::default()
            };
            assert_eq!(
                users::Entity::update(row).exec(db.write()).await.unwrap().state,
                state
            );
        }
        for creation in namespaces::ProjectCreation::iter() {
            let row = namespaces::ActiveModel {
                id: Set(group),
                project_creation_level: Set(creation),
                ..Default::default()
            };
            namespaces::Entity::update(row).exec(db.write()).await.unwrap();
        }
        for creation in namespaces::SubgroupCreation::iter() {
            let row = namespaces::ActiveModel {
                id: Set(group),
                subgroup_creation_level: Set(creation),
                ..Default::default()
            };
            namespaces::Entity::update(row).exec(db.write()).await.unwrap();
        }
        let change = async |edit: &dyn Fn(&mut projects::ActiveModel)| {
            let mut row = projects::ActiveModel {
                id: Set(project),
                ..Default::default()
            };
            edit(&mut row);
            projects::Entity::update(row).exec(db.write()).await.unwrap();
        };
        for value in projects::MergeMethod::iter() {
            change(&|row| row.merge_method = Set(value)).await;
        }
        for value in projects::FeatureAccess::iter() {
            change(&|row| {
                row.issues_access_level = Set(value);
                row.package_registry_access_level = Set(value);
                row.releases_access_level = Set(value);
                row.environments_access_level = Set(value);
                row.feature_flags_access_level = Set(value);
                row.infrastructure_access_level = Set(value);
                row.monitor_access_level = Set(value);
                row.security_and_compliance_access_level = Set(value);
            })
            .await;
        }
        for value in projects::DeployStrategy::iter() {
            change(&|row| row.auto_devops_deploy_strategy = Set(value)).await;
        }
        for value in projects::OnOff::iter() {
            change(&|row| row.auto_cancel_pending_pipelines = Set(value)).await;
        }
        for value in projects::GitStrategy::iter() {
            change(&|row| row.build_git_strategy = Set(value)).await;
        }
        for value in projects::ImportStatus::iter() {
            change(&|row| row.import_status = Set(value)).await;
        }
        for value in Visibility::iter() {
            change(&|row| row.visibility = Set(value)).await;
        }
        assert_eq!(users::UserState::LdapBlocked.to_value(), "ldap_blocked");
        assert_eq!(projects::MergeMethod::RebaseMerge.to_value(), "rebase_merge");
    })
    .await;
}

on_every_database![
    user_lookup_ignores_case_and_reads_digits_as_id,
    timestamps_and_dates_round_trip,
    timestamps_of_any_precision_sort_by_time,
    ids_are_never_reused,
    token_lookup_finds_revoked_and_expired_tokens,
    session_lookup_ignores_expired_sessions,
    projects_and_groups_are_found_by_id_or_path,
    project_with_started_deletion_is_not_found,
    group_path_must_be_unique_among_users_and_siblings,
    path_is_taken_by_group_user_or_project_with_started_deletion,
    ancestors_and_descendants_of_group_are_listed_once,
    direct_members_are_sorted_and_exclude_expired_ones,
    topics_of_projects_are_sorted,
    commit_comment_survives_deletion_of_author,
    setting_is_replaced_by_next_value,
    every_value_of_every_text_enum_is_accepted,
];
