//! The image of a user without an avatar: a symmetric pattern that depends only on the ID of the user.

use std::fmt::Write as _;

use crate::secrets;

/// Number of rows and columns.
const SIZE: usize = 5;
/// Number of columns that the digest determines; the others mirror them.
const COLUMNS: usize = SIZE.div_ceil(2);
/// Position of the color in the digest, after the digits of the cells.
const COLOR: usize = SIZE * COLUMNS;

/// Returns the image as an SVG document.
pub(super) fn svg(user_id: i64) -> String {
    // The digest has 64 hexadecimal digits.
    let digest = secrets::digest(&format!("identicon:{user_id}"));
    let digit = |position: usize| {
        let digit = digest.chars().nth(position).and_then(|digit| digit.to_digit(16));
        digit.unwrap_or_default()
    };
    let mut cells = String::new();
    for row in 0..SIZE {
        for column in 0..SIZE {
            let mirrored = column.min(SIZE - 1 - column);
            if digit(row * COLUMNS + mirrored) % 2 == 0 {
                // Writing to a string cannot fail.
                let _ = write!(cells, "M{} {}h2v2h-2z", 2 * column + 1, 2 * row + 1);
            }
        }
    }
    // Each part of the color is from 48 to 168, so the pattern is visible on the light background.
    let part = |number: usize| 48 + digit(COLOR + number) * 8;
    let (red, green, blue) = (part(0), part(1), part(2));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 12 12\" width=\"96\" height=\"96\">\
         <path fill=\"#f0f0f0\" d=\"M0 0h12v12H0z\"/>\
         <path fill=\"#{red:02x}{green:02x}{blue:02x}\" d=\"{cells}\"/></svg>"
    )
}

#[cfg(test)]
mod tests {
    use super::svg;

    #[test]
    fn image_depends_only_on_user_and_is_symmetric() {
        assert_eq!(svg(1), svg(1));
        assert_ne!(svg(1), svg(2));
        let image = svg(1);
        for row in [1, 3, 5, 7, 9] {
            for (left, right) in [(1, 9), (3, 7)] {
                let has_cell = |column: usize| image.contains(&format!("M{column} {row}h2"));
                assert_eq!(has_cell(left), has_cell(right), "{row}");
            }
        }
    }
}
