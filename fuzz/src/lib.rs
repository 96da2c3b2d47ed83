//! What each fuzz target does, as plain functions: `tests/seeds.rs` calls them on the stable compiler too.

pub mod http_body;
pub mod resp;
pub mod rls;
pub mod rules;
