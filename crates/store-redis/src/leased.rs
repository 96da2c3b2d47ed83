//! Leases, driven.
mod script;
