//! Types that all services share.

pub mod download;
pub mod page;
pub mod patch;
