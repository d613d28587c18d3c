//! Time zone names.

use jiff::tz::{TimeZone, TimeZoneDatabase};

/// Regions of the tz database.
const REGIONS: [&str; 8] = [
    "Africa",
    "America",
    "Asia",
    "Atlantic",
    "Australia",
    "Europe",
    "Indian",
    "Pacific",
];

/// Common zone names that are not the name of the zone's city.
pub(super) const COMMON: [(&str, &str); 48] = [
    ("Abu Dhabi", "Asia/Muscat"),
    ("Alaska", "America/Juneau"),
    ("American Samoa", "Pacific/Pago_Pago"),
    ("Arizona", "America/Phoenix"),
    ("Astana", "Asia/Almaty"),
    ("Atlantic Time (Canada)", "America/Halifax"),
    ("Beijing", "Asia/Shanghai"),
    ("Bern", "Europe/Zurich"),
    ("Brasilia", "America/Sao_Paulo"),
    ("Canberra", "Australia/Canberra"),
    ("Cape Verde Is.", "Atlantic/Cape_Verde"),
    ("Central America", "America/Guatemala"),
    ("Central Time (US & Canada)", "America/Chicago"),
    ("Chatham Is.", "Pacific/Chatham"),
    ("Chennai", "Asia/Kolkata"),
    ("Eastern Time (US & Canada)", "America/New_York"),
    ("Edinburgh", "Europe/London"),
    ("Ekaterinburg", "Asia/Yekaterinburg"),
    ("Georgetown", "America/Guyana"),
    ("Greenland", "America/Nuuk"),
    ("Guadalajara", "America/Mexico_City"),
    ("Hanoi", "Asia/Bangkok"),
    ("Hawaii", "Pacific/Honolulu"),
    ("Indiana (East)", "America/Indiana/Indianapolis"),
    ("International Date Line West", "Etc/GMT+12"),
    ("Islamabad", "Asia/Karachi"),
    ("Marshall Is.", "Pacific/Majuro"),
    ("Mid-Atlantic", "Atlantic/South_Georgia"),
    ("Midway Island", "Pacific/Midway"),
    ("Mountain Time (US & Canada)", "America/Denver"),
    ("Mumbai", "Asia/Kolkata"),
    ("New Caledonia", "Pacific/Noumea"),
    ("New Delhi", "Asia/Kolkata"),
    ("Newfoundland", "America/St_Johns"),
    ("Nuku'alofa", "Pacific/Tongatapu"),
    ("Osaka", "Asia/Tokyo"),
    ("Pacific Time (US & Canada)", "America/Los_Angeles"),
    ("Pretoria", "Africa/Johannesburg"),
    ("Quito", "America/Lima"),
    ("Samoa", "Pacific/Apia"),
    ("Sapporo", "Asia/Tokyo"),
    ("Saskatchewan", "America/Regina"),
    ("Solomon Is.", "Pacific/Guadalcanal"),
    ("Sri Jayawardenepura", "Asia/Colombo"),
    ("St. Petersburg", "Europe/Moscow"),
    ("Tokelau Is.", "Pacific/Fakaofo"),
    ("Wellington", "Pacific/Auckland"),
    ("West Central Africa", "Africa/Algiers"),
];

/// Returns the zone of a name. Accepts exact names of the tz database (`Europe/Istanbul`), their city alone
/// (`Istanbul`, `Hong Kong`) and common names (`Pacific Time (US & Canada)`).
#[must_use]
pub fn zone(name: &str) -> Option<TimeZone> {
    // The database is compiled in, so that every node knows the same zones.
    let database = TimeZoneDatabase::bundled();
    if let Some((_, common)) = COMMON.iter().find(|(common, _)| *common == name) {
        return database.get(common).ok();
    }
    let exactly = |name: &str| {
        let found = database.get(name).ok()?;
        (found.iana_name() == Some(name)).then_some(found)
    };
    let city = name.replace(' ', "_");
    let in_region = |region: &str| exactly(&format!("{region}/{city}"));
    exactly(name).or_else(|| REGIONS.iter().find_map(|region| in_region(region)))
}
