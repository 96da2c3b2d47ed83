//! The laws as properties, each named for its law, against oracles that share nothing with the code under
//! test.
//!
//! An oracle keeps the whole history and decides by going through it, in 128-bit whole numbers.

#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

mod any;
mod bounds;
mod classes_of_a_bucket;
mod clock_steps;
mod exactness;
mod extremes;
mod fast_path;
mod give_back;
mod honesty;
mod oracle;
mod paying;
mod priority_buckets;
mod promises;
mod redis_cell;
mod reload;
mod reserving;
mod shares;
mod warming;
