//! Tests of deciding, in one program: each of its own would build the stores and the rules once more.

mod actions;
mod algorithms;
mod bucket;
mod common;
mod decide;
mod excess;
mod explain;
mod follow;
mod interventions;
mod keys;
mod laws;
mod leaving;
mod logged;
mod observe;
mod outage;
mod paying;
mod peer_metrics;
mod priority;
mod queue;
mod reservation_laws;
mod reservations;
mod slots;
mod throttle;
mod unmatched;
mod unobserved;
mod weighed;
