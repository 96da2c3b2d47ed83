//! Any bytes over HTTP.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::http_body::answer_any_bytes(bytes));
