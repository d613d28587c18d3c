//! Models that are read by the positions of their columns.

use sea_orm::{EntityTrait, QueryOrder};

use super::fixtures::World;
use crate::{
    database::testing::{DatabaseKind, on_every_database, on_migrated},
    entities::{
        AccessLevel::Developer,
        Visibility::Private,
        columns::{all, all_joined},
        members,
        members::MembershipSource,
        namespaces, projects, users,
    },
};

async fn models_read_by_position_equal_models_read_by_name(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let ada = world.user("ada").await;
        world.group("top", Private).await;
        let project = world.project("top", "p").await;
        world
            .member(MembershipSource::Project(project), ada, Developer)
            .await;
        let db = db.read();

        let joined = || projects::Entity::find().find_also_related(namespaces::Entity);
        let by_position = all_joined(db, joined()).await.unwrap();
        assert_eq!(by_position.len(), 1);
        assert_eq!(by_position, joined().all(db).await.unwrap());

        let members = || members::Entity::find().find_also_related(users::Entity);
        assert_eq!(
            all_joined(db, members()).await.unwrap(),
            members().all(db).await.unwrap()
        );

        let sorted = || namespaces::Entity::find().order_by_asc(namespaces::Column::Id);
        let by_position = all(db, sorted()).await.unwrap();
        assert!(by_position.len() > 1);
        assert_eq!(by_position, sorted().all(db).await.unwrap());
    })
    .await;
}

async fn joined_row_that_does_not_exist_is_none(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let world = World::new(&db).await;
        let top = world.group("top", Private).await;
        let db = db.read();
        // A group has no owner.
        let groups = namespaces::Entity::find_by_id(top).find_also_related(users::Entity);
        let rows = all_joined(db, groups).await.unwrap();
        let ids: Vec<_> = rows
            .iter()
            .map(|(group, owner)| (group.id, owner.is_some()))
            .collect();
        assert_eq!(ids, [(top, false)]);
    })
    .await;
}

on_every_database![
    models_read_by_position_equal_models_read_by_name,
    joined_row_that_does_not_exist_is_none,
];
