//! Background jobs of this area.

pub mod auto_merge;
pub mod create_merge_request;
pub mod post_merge;
pub mod refresh_closing_issues;
pub mod update_head_ref;
