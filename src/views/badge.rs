//! Badges.

use crate::api::contract::{Badge, BadgeKind, BadgePreview};
use crate::services::badges::Row;

/// A badge where it is shown.
#[must_use]
pub fn badge(row: Row) -> Badge {
    let badge = row.badge;
    Badge {
        id: badge.id,
        name: badge.name,
        link_url: badge.link_url,
        image_url: badge.image_url,
        rendered_link_url: row.link_url,
        rendered_image_url: row.image_url,
        kind: match badge.project_id {
            Some(_) => BadgeKind::Project,
            None => BadgeKind::Group,
        },
    }
}

/// What a badge with these addresses would look like.
#[must_use]
pub fn preview(
    link_url: String,
    image_url: String,
    [rendered_link_url, rendered_image_url]: [String; 2],
) -> BadgePreview {
    BadgePreview {
        link_url,
        image_url,
        rendered_link_url,
        rendered_image_url,
    }
}
