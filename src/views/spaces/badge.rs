//! Badges.

use domain::spaces::badges::RenderedBadge;

use contract::{Badge, BadgeKind, BadgePreview};

/// Returns a badge of a project or group.
#[must_use]
pub fn badge(row: RenderedBadge) -> Badge {
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

/// Returns a preview of a badge with these URLs.
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
