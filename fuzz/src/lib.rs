//! What each fuzz target does, as plain functions: property tests on stable call the same ones.

pub mod http_body;
pub mod resp;
pub mod rules;
