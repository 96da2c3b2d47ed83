//! Any bytes over gRPC.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tollgate_fuzz::rls::call_any_bytes(bytes));
