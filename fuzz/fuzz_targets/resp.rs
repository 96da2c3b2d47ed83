//! Any bytes to the Redis-protocol surface.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::resp::send_any_bytes(bytes));
