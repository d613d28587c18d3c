//! Custom attributes of projects, groups and users, in one table to share the finders. Exactly one of the
//! references is set.

use sea_orm_migration::{prelude::*, schema::*};

use crate::naming::{create, drop, index, reference, table, unique};

const OWNERS: [(&str, &str); 3] = [
    ("project_id", "projects"),
    ("namespace_id", "namespaces"),
    ("user_id", "users"),
];

#[derive(DeriveMigrationName)]
pub struct Migration;

#[async_trait::async_trait]
impl MigrationTrait for Migration {
    async fn up(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        let set = |column: &'static str| -> Expr {
            Expr::case(Expr::col(column).is_not_null(), Expr::val(1))
                .finally(Expr::val(0))
                .into()
        };
        let owners = set("project_id").add(set("namespace_id")).add(set("user_id"));
        let mut attributes = table("custom_attributes");
        for (column, target) in OWNERS {
            attributes
                .col(big_integer_null(column))
                .foreign_key(&mut reference(
                    "custom_attributes",
                    column,
                    target,
                    ForeignKeyAction::Cascade,
                ));
        }
        attributes
            .col(text("key"))
            .col(text("value"))
            .col(timestamp_with_time_zone("created_at"))
            .col(timestamp_with_time_zone("updated_at"))
            .check(Check::named("ck_custom_attributes_owner", owners.eq(1)));
        create(
            manager,
            &mut attributes,
            [
                unique("custom_attributes", &["project_id", "key"]),
                unique("custom_attributes", &["namespace_id", "key"]),
                unique("custom_attributes", &["user_id", "key"]),
                // Lists are filtered by key and value.
                index("custom_attributes", &["key"]),
            ],
        )
        .await
    }

    async fn down(&self, manager: &SchemaManager) -> Result<(), DbErr> {
        drop(manager, &["custom_attributes"]).await
    }

    fn use_transaction(&self) -> Option<bool> {
        Some(true)
    }
}
