//! Database migrations.
