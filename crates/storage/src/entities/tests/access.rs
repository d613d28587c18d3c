//! Roles and visibility.

use std::collections::BTreeSet;

use chrono::Days;
use sea_orm::{EntityTrait, QueryFilter};

use super::fixtures::{Person, World, today};
use crate::{
    database::{
        Database,
        testing::{DatabaseKind, on_every_database, on_migrated},
    },
    entities::{
        AccessLevel::{self, *},
        Visibility::*,
        access::{self, Viewer},
        members::MembershipSource,
        namespaces, projects,
    },
};

async fn level(db: &Database, user: Person, project: i64) -> Option<AccessLevel> {
    access::project_level(db.read(), user.id, project, today())
        .await
        .unwrap()
}

async fn group_level(db: &Database, user: Person, group: i64) -> Option<AccessLevel> {
    access::group_level(db.read(), user.id, group, today())
        .await
        .unwrap()
}

async fn visible(db: &Database, viewer: Viewer) -> BTreeSet<i64> {
    let found = projects::Entity::find().filter(access::visible_projects(viewer, today()));
    found
        .all(db.read())
        .await
        .unwrap()
        .into_iter()
        .map(|project| project.id)
        .collect()
}

async fn visible_groups(db: &Database, viewer: Viewer) -> BTreeSet<i64> {
    let found = namespaces::Entity::find().filter(access::visible_groups(viewer, today()));
    found
        .all(db.read())
        .await
        .unwrap()
        .into_iter()
        .map(|group| group.id)
        .collect()
}

fn viewer(user: Person) -> Viewer {
    Viewer::User {
        id: user.id,
        external: false,
    }
}

async fn highest_of_direct_and_inherited_roles_applies(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let top = world.group("top", Private).await;
        let below = world.group("top/below", Private).await;
        let project = world.project("top/below", "p").await;
        assert_eq!(level(&db, ada, project).await, None);

        world
            .member(MembershipSource::Project(project), ada, Reporter)
            .await;
        assert_eq!(level(&db, ada, project).await, Some(Reporter));
        assert_eq!(group_level(&db, ada, below).await, None);

        world.member(MembershipSource::Group(top), ada, Developer).await;
        assert_eq!(level(&db, ada, project).await, Some(Developer));
        assert_eq!(group_level(&db, ada, below).await, Some(Developer));
        assert_eq!(group_level(&db, ada, top).await, Some(Developer));

        world
            .member(MembershipSource::Group(below), bob, Maintainer)
            .await;
        assert_eq!(level(&db, bob, project).await, Some(Maintainer));
        assert_eq!(group_level(&db, bob, top).await, None);
    })
    .await;
}

async fn owner_of_personal_namespace_owns_its_projects(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let project = world.project("ada", "p").await;
        assert_eq!(level(&db, ada, project).await, Some(Owner));
        assert_eq!(group_level(&db, ada, ada.personal).await, Some(Owner));
        assert_eq!(level(&db, bob, project).await, None);
    })
    .await;
}

async fn share_limits_role_to_its_level(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (owner, guest) = (world.user("owner").await, world.user("guest").await);
        let team = world.group("team", Private).await;
        let squad = world.group("team/squad", Private).await;
        world.member(MembershipSource::Group(team), owner, Owner).await;
        world.member(MembershipSource::Group(squad), guest, Guest).await;

        let shared = world.group("shared", Private).await;
        let inner = world.group("shared/inner", Private).await;
        let in_group = world.project("shared/inner", "p").await;
        world.share_group(shared, squad, Developer, None).await;
        assert_eq!(
            group_level(&db, owner, inner).await,
            Some(Developer),
            "inherited by the squad, capped"
        );
        assert_eq!(level(&db, owner, in_group).await, Some(Developer));
        assert_eq!(level(&db, guest, in_group).await, Some(Guest));

        let alone = world.group("alone", Private).await;
        let project = world.project("alone", "p").await;
        world.share_project(project, squad, Maintainer, None).await;
        assert_eq!(level(&db, owner, project).await, Some(Maintainer));
        assert_eq!(level(&db, guest, project).await, Some(Guest));
        assert_eq!(group_level(&db, owner, alone).await, None);
    })
    .await;
}

async fn expired_memberships_and_shares_grant_no_role(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let tomorrow = today().checked_add_days(Days::new(1));
        let (late, early) = (world.user("late").await, world.user("early").await);
        let group = world.group("g", Private).await;
        let project = world.project("g", "p").await;
        world
            .member_until(MembershipSource::Group(group), late, Developer, Some(today()))
            .await;
        world
            .member_until(MembershipSource::Group(group), early, Developer, tomorrow)
            .await;
        assert_eq!(level(&db, late, project).await, None);
        assert_eq!(level(&db, early, project).await, Some(Developer));
        assert!(!visible(&db, viewer(late)).await.contains(&project));
        assert!(visible(&db, viewer(early)).await.contains(&project));

        let (ended, running) = (
            world.group("ended", Private).await,
            world.group("running", Private).await,
        );
        let (a, b) = (
            world.project("ended", "a").await,
            world.project("running", "b").await,
        );
        world.share_group(ended, group, Guest, Some(today())).await;
        world.share_group(running, group, Guest, tomorrow).await;
        assert_eq!(level(&db, early, a).await, None);
        assert_eq!(level(&db, early, b).await, Some(Guest));
        world.share_project(a, group, Guest, Some(today())).await;
        assert_eq!(level(&db, early, a).await, None);
    })
    .await;
}

async fn roles_of_many_projects_match_single_queries(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("ada").await;
        let bob = world.user("bob").await;
        let group = world.group("g", Private).await;
        world.member(MembershipSource::Group(group), ada, Reporter).await;
        let mine = world.project("ada", "mine").await;
        let ours = world.project("g", "ours").await;
        let more = world.project("g", "more").await;
        let less = world.project("g", "less").await;
        let theirs = world.project("bob", "theirs").await;
        world
            .member(MembershipSource::Project(more), ada, Maintainer)
            .await;
        world.member(MembershipSource::Project(less), ada, Guest).await;
        let found = [
            (mine, ada.personal),
            (ours, group),
            (more, group),
            (less, group),
            (theirs, bob.personal),
        ];
        let levels = access::levels(db.read(), ada.id, &found, today()).await.unwrap();
        for (project, expected) in [
            (mine, Some(Owner)),
            (ours, Some(Reporter)),
            (more, Some(Maintainer)),
            (less, Some(Reporter)),
            (theirs, None),
        ] {
            assert_eq!(levels.projects.get(&project).copied(), expected);
            assert_eq!(level(&db, ada, project).await, expected);
        }
        let direct = |project| levels.direct.get(&project).copied();
        assert_eq!(
            [mine, ours, more, less].map(direct),
            [None, None, Some(Maintainer), Some(Guest)]
        );
        assert_eq!(levels.namespaces.get(&group), Some(&Reporter));
        assert_eq!(levels.namespaces.get(&ada.personal), Some(&Owner));
        let none = access::levels(db.read(), ada.id, &[], today()).await.unwrap();
        assert!(none.projects.is_empty() && none.namespaces.is_empty());
    })
    .await;
}

async fn visible_projects_depend_on_visibility_and_role(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        world.group("g", Private).await;
        let secret = world.project("g", "secret").await;
        let inside = world.project("g", "inside").await;
        let open = world.project("g", "open").await;
        let deleted = world.project("g", "gone").await;
        world.visibility(inside, Internal).await;
        world.visibility(open, Public).await;
        world.visibility(deleted, Public).await;
        let row = projects::ActiveModel {
            id: sea_orm::ActiveValue::Set(deleted),
            deletion_started_at: sea_orm::ActiveValue::Set(Some(crate::entities::now())),
            ..Default::default()
        };
        projects::Entity::update(row).exec(db.write()).await.unwrap();
        world.member(MembershipSource::Project(secret), ada, Guest).await;

        assert_eq!(visible(&db, Viewer::Anonymous).await, BTreeSet::from([open]));
        assert_eq!(visible(&db, viewer(bob)).await, BTreeSet::from([open, inside]));
        assert_eq!(
            visible(&db, viewer(ada)).await,
            BTreeSet::from([open, inside, secret])
        );
        let external = Viewer::User {
            id: ada.id,
            external: true,
        };
        assert_eq!(visible(&db, external).await, BTreeSet::from([open, secret]));
        assert_eq!(
            visible(&db, Viewer::Admin).await,
            BTreeSet::from([open, inside, secret])
        );
    })
    .await;
}

async fn projects_with_minimum_role_exclude_lower_roles(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("ada").await;
        let team = world.group("team", Private).await;
        world.member(MembershipSource::Group(team), ada, Maintainer).await;
        world.group("g", Private).await;
        let capped = world.project("g", "capped").await;
        world.share_project(capped, team, Reporter, None).await;
        let ours = world.project("team", "ours").await;
        let mine = world.project("ada", "mine").await;
        let at_least = async |least| {
            let found = projects::Entity::find().filter(access::projects_with_level(ada.id, least, today()));
            let rows = found.all(db.read()).await.unwrap();
            rows.into_iter()
                .map(|project| project.id)
                .collect::<BTreeSet<_>>()
        };
        assert_eq!(at_least(Guest).await, BTreeSet::from([capped, ours, mine]));
        assert_eq!(at_least(Developer).await, BTreeSet::from([ours, mine]));
        assert_eq!(at_least(Owner).await, BTreeSet::from([mine]));
    })
    .await;
}

async fn visible_groups_depend_on_visibility_role_and_projects(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let open = world.group("open", Public).await;
        let inside = world.group("inside", Internal).await;
        let secret = world.group("secret", Private).await;
        let below = world.group("secret/below", Private).await;
        let other = world.group("other", Private).await;
        let project = world.project("secret/below", "p").await;
        assert_eq!(
            visible_groups(&db, Viewer::Anonymous).await,
            BTreeSet::from([open])
        );
        assert_eq!(
            visible_groups(&db, viewer(ada)).await,
            BTreeSet::from([open, inside])
        );
        world.member(MembershipSource::Project(project), ada, Guest).await;
        assert_eq!(
            visible_groups(&db, viewer(ada)).await,
            BTreeSet::from([open, inside, secret, below])
        );
        world.member(MembershipSource::Group(secret), bob, Guest).await;
        assert_eq!(
            visible_groups(&db, viewer(bob)).await,
            BTreeSet::from([open, inside, secret, below])
        );
        let everything = BTreeSet::from([open, inside, secret, below, other]);
        assert_eq!(visible_groups(&db, Viewer::Admin).await, everything);
    })
    .await;
}

async fn project_and_group_are_found_with_role_of_user(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob, eve) = (
            world.user("ada").await,
            world.user("bob").await,
            world.user("eve").await,
        );
        let outer = world.group("engines", Private).await;
        let inner = world.group("engines/brass", Private).await;
        let project = world.project("engines/brass", "p").await;
        let own = world.project("bob", "own").await;
        world.member(MembershipSource::Group(outer), ada, Reporter).await;
        world
            .member(MembershipSource::Project(project), ada, Developer)
            .await;
        let role = async |reference: &str, user: Option<Person>| {
            let user = user.map(|user| user.id);
            let found = access::project_with_role(db.read(), reference, user, today()).await;
            found
                .unwrap()
                .map(|((project, namespace), role)| (project.id, namespace.id, role))
        };
        for reference in [project.to_string().as_str(), "Engines/Brass/P"] {
            assert_eq!(
                role(reference, Some(ada)).await,
                Some((project, inner, Some(Developer)))
            );
            assert_eq!(role(reference, Some(eve)).await, Some((project, inner, None)));
            assert_eq!(role(reference, None).await, Some((project, inner, None)));
        }
        assert_eq!(
            role("bob/own", Some(bob)).await,
            Some((own, bob.personal, Some(Owner)))
        );
        for reference in ["engines", "engines/p", "0", "99999999999999999999"] {
            assert_eq!(role(reference, Some(ada)).await, None, "{reference}");
        }
        let group_role = async |reference: &str, user: Option<Person>| {
            let user = user.map(|user| user.id);
            let found = access::group_with_role(db.read(), reference, user, today()).await;
            found.unwrap().map(|(group, role)| (group.id, role))
        };
        for reference in [inner.to_string().as_str(), "engines/BRASS"] {
            assert_eq!(
                group_role(reference, Some(ada)).await,
                Some((inner, Some(Reporter)))
            );
            assert_eq!(group_role(reference, None).await, Some((inner, None)));
        }
        assert_eq!(group_role("bob", Some(bob)).await, None);
    })
    .await;
}

on_every_database![
    project_and_group_are_found_with_role_of_user,
    highest_of_direct_and_inherited_roles_applies,
    owner_of_personal_namespace_owns_its_projects,
    share_limits_role_to_its_level,
    expired_memberships_and_shares_grant_no_role,
    roles_of_many_projects_match_single_queries,
    visible_projects_depend_on_visibility_and_role,
    projects_with_minimum_role_exclude_lower_roles,
    visible_groups_depend_on_visibility_role_and_projects,
];
