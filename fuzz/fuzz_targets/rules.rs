//! Any bytes as a rule file.
#![no_main]

libfuzzer_sys::fuzz_target!(|text: &str| tollgate_fuzz::rules::read_any_text(text));
