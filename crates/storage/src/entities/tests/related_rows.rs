//! Related rows of several tables in one statement.

use chrono::{Days, NaiveDate};
use sea_orm::sea_query::{Asterisk, Expr, Func, Query};
use sea_orm::{ActiveValue::Set, ColumnTrait, EntityTrait, QueryFilter};

use super::fixtures::{World, today};
use crate::{
    database::testing::{DatabaseKind, on_every_database, on_migrated},
    entities::{
        AccessLevel, ShareSummary, Visibility,
        access::{LevelParts, Viewer, has_project_level_part},
        members::MembershipSource,
        namespace_ancestors, project_shares, project_topics, projects,
        related_rows::{RelatedPart, RelatedRows, bigint},
        row_conditions::is_among,
        users::{self, UserState, UserSummary},
    },
};

fn tomorrow() -> NaiveDate {
    today() + Days::new(1)
}

async fn rows_of_several_tables_are_read_in_one_statement(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        world.group("engines", Visibility::Public).await;
        let inner = world.group("engines/brass", Visibility::Public).await;
        let other = world.group("other", Visibility::Public).await;
        let hidden = world.group("hidden", Visibility::Private).await;
        let (p, q) = (
            world.project("engines/brass", "p").await,
            world.project("ada", "q").await,
        );
        for name in ["steam", "brass"] {
            let row = project_topics::ActiveModel {
                project_id: Set(p),
                name: Set(name.into()),
                ..Default::default()
            };
            project_topics::Entity::insert(row)
                .exec(db.write())
                .await
                .unwrap();
        }
        world
            .share_project(p, other, AccessLevel::Reporter, Some(tomorrow()))
            .await;
        world.share_project(p, hidden, AccessLevel::Guest, None).await;
        world
            .share_project(q, other, AccessLevel::Guest, Some(today()))
            .await;
        let db = db.read();
        let database = db.get_database_backend();
        let mut related = RelatedRows::default();
        let counted = Query::select().from(users::Entity).take();
        let counted = RelatedPart::new(counted, bigint(Expr::Constant(0.into())));
        let counted = related.add(Some(counted.with_number(Func::count(Expr::col(Asterisk)).into())));
        let nothing = related.add(UserSummary::part(database, []));
        let summaries = related.add(UserSummary::part(database, [bob.id, ada.id, bob.id]));
        let paths = related.add(projects::paths_part(database, &[p, q]));
        let names = related.add(namespace_ancestors::names_part(database, &[inner]));
        let topics = related.add(project_topics::part(database, &[p, q]));
        let shares = project_shares::part(database, Viewer::Anonymous, today(), &[p, q]);
        let shares = related.add(shares);
        let mut rows = related.load(db).await.unwrap();
        assert_eq!(rows.take(counted)[0].number, Some(2));
        assert_eq!(rows.take(nothing), []);
        let users = rows.take_by_owner(summaries, UserSummary::read).unwrap();
        assert_eq!(users.len(), 2);
        let ada_row = users::by_username(db, "ada").await.unwrap().unwrap();
        assert_eq!(users[&ada.id], UserSummary::from(&ada_row));
        assert_eq!(users[&bob.id].state, UserState::Active);
        let paths = rows.take_by_owner(paths, |row| Ok(projects::full_path_of(row)));
        let paths = paths.unwrap();
        assert_eq!(
            (paths[&p].as_str(), paths[&q].as_str()),
            ("engines/brass/p", "ada/q")
        );
        let names: Vec<_> = rows
            .take(names)
            .into_iter()
            .map(|row| row.texts[0].clone())
            .collect();
        assert_eq!(names, [Some("engines".to_owned()), Some("brass".to_owned())]);
        let topics = rows.take_grouped(topics, |row| Ok(row.texts[0].clone())).unwrap();
        assert_eq!(topics[&p].len(), 2);
        assert_eq!(topics.get(&q), None);
        let shares = rows.take_grouped(shares, ShareSummary::read).unwrap();
        let expected = ShareSummary {
            group_id: other,
            group_name: "other".to_owned(),
            group_full_path: "other".to_owned(),
            access_level: AccessLevel::Reporter,
            expires_at: Some(tomorrow()),
        };
        assert_eq!((shares.len(), &shares[&p]), (1, &vec![expected]));
    })
    .await;
}

async fn parts_with_roles_match_the_roles_of_single_projects(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let (ada, bob) = (world.user("ada").await, world.user("bob").await);
        let group = world.group("engines", Visibility::Private).await;
        let (direct, inherited, none) = (
            world.project("bob", "direct").await,
            world.project("engines", "inherited").await,
            world.project("bob", "none").await,
        );
        world
            .member(MembershipSource::Project(direct), ada, AccessLevel::Developer)
            .await;
        world
            .member(MembershipSource::Group(group), ada, AccessLevel::Reporter)
            .await;
        let found = [(direct, bob.personal), (inherited, group), (none, bob.personal)];
        let db = db.read();
        let mut related = RelatedRows::default();
        let levels = LevelParts::add(&mut related, db.get_database_backend(), ada.id, &found, today());
        let has_role = [direct, inherited, none]
            .map(|project| related.add(Some(has_project_level_part(ada.id, project, today()))));
        let mut rows = related.load(db).await.unwrap();
        let levels = levels.take(&mut rows, &found).unwrap();
        assert_eq!(levels.projects.get(&direct), Some(&AccessLevel::Developer));
        assert_eq!(levels.direct.get(&direct), Some(&AccessLevel::Developer));
        assert_eq!(levels.projects.get(&inherited), Some(&AccessLevel::Reporter));
        assert_eq!(levels.direct.get(&inherited), None);
        assert_eq!(levels.namespaces.get(&group), Some(&AccessLevel::Reporter));
        assert_eq!(levels.projects.get(&none), None);
        let has_role = has_role.map(|part| !rows.take(part).is_empty());
        assert_eq!(has_role, [true, true, false]);
    })
    .await;
}

async fn no_parts_have_no_rows(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let mut related = RelatedRows::default();
        let part = related.add(None);
        assert_eq!(related.load(db.read()).await.unwrap().take(part), []);
    })
    .await;
}

async fn condition_on_ids_matches_any_number_of_them(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ids = [world.user("ada").await.id, world.user("bob").await.id];
        let count = async |among: Vec<i64>| {
            let database = db.read().get_database_backend();
            let condition = is_among(database, users::Column::Id.into_expr(), among);
            let found = users::Entity::find().filter(condition).all(db.read()).await;
            found.unwrap().len()
        };
        assert_eq!(count(vec![]).await, 0);
        assert_eq!(count(vec![ids[0], ids[0]]).await, 1);
        assert_eq!(count(vec![ids[1], -1, ids[0], i64::MAX]).await, 2);
        assert_eq!(count((1..=5_000).collect()).await, 2);
    })
    .await;
}

on_every_database![
    rows_of_several_tables_are_read_in_one_statement,
    parts_with_roles_match_the_roles_of_single_projects,
    no_parts_have_no_rows,
    condition_on_ids_matches_any_number_of_them,
];
