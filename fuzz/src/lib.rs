//! The fuzz targets as plain functions, so that `tests/seeds.rs` can call them on the stable compiler too.

pub mod http_body;
pub mod resp;
pub mod rls;
pub mod rules;
