//! Nothing to run. Cargo turns the features that only tests need on where it builds an example too, so that
//! the fuzz targets need no dependency that is not built already.
#![no_main]

libfuzzer_sys::fuzz_target!(|_bytes: &[u8]| {});
