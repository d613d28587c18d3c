//! Large texts that are read after their memory was reserved.

use sea_orm::{ActiveModelTrait, ActiveValue::Set, DbErr, EntityTrait, QueryOrder, QueryTrait};

use super::fixtures::World;
use crate::{
    database::testing::{DatabaseKind, on_every_database, on_migrated},
    entities::{
        Visibility::Private,
        large_texts::{load_texts, read_sized_joined},
        milestones::{self, MilestoneState},
        namespaces, now,
        related_rows::RelatedRows,
    },
};

async fn long_texts_are_read_after_their_sizes(kind: DatabaseKind) {
    on_migrated(kind, async |db| {
        let group = World::new(&db).await.group("top", Private).await;
        let texts = [Some("short".to_owned()), Some("ä".repeat(10_000)), None];
        for (iid, text) in (1..).zip(&texts) {
            let row = milestones::ActiveModel {
                namespace_id: Set(Some(group)),
                iid: Set(iid),
                title: Set(format!("m{iid}")),
                description: Set(text.clone()),
                state: Set(MilestoneState::Active),
                created_at: Set(now()),
                updated_at: Set(now()),
                ..Default::default()
            };
            row.insert(db.write()).await.unwrap();
        }
        let db = db.read();
        let sorted = || {
            let sorted = milestones::Entity::find().order_by_asc(milestones::Column::Id);
            sorted.find_also_related(namespaces::Entity)
        };
        let statement = sorted().into_query();
        let rows = read_sized_joined::<milestones::Entity, namespaces::Entity>(db, statement).await;
        let rows = rows.unwrap();
        let sizes: Vec<u64> = rows.iter().map(|row| row.text_bytes).collect();
        assert_eq!(sizes, [5, 20_000, 0]);
        let found = load_texts::<milestones::Entity, _>(db, rows).await.unwrap();
        let mut expected = sorted().all(db).await.unwrap();
        for (milestone, _) in &mut expected {
            // Lists do not read folded texts.
            milestone.description_key = None;
        }
        assert_eq!(found, expected);

        let ids: Vec<i64> = found.iter().map(|(milestone, _)| milestone.id).collect();
        let load = async |limit: u64| {
            let mut related = RelatedRows::default();
            let part = related.add(milestones::descriptions_part(db.get_database_backend(), &ids));
            let reserve = |size: u64| match size > limit {
                true => Err(DbErr::Custom("too little memory".to_owned())),
                false => Ok(()),
            };
            let rows = related.load_reserving(db, reserve).await;
            rows.map(|mut rows| rows.take(part))
        };
        assert!(load(20_004).await.is_err());
        let rows = load(20_005).await.unwrap();
        let descriptions: Vec<Option<String>> = rows.into_iter().map(|row| row.texts[0].clone()).collect();
        assert_eq!(descriptions, texts[..2]);
    })
    .await;
}

on_every_database![long_texts_are_read_after_their_sizes,];
