//! A load generator for every surface, with percentiles from the intended send time.
//!
//! Not here: which servers are compared (`benches`).
