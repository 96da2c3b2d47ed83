//! Reflection reports the content of the proto files.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use prost::Message;

#[test]
fn descriptors_are_what_the_proto_files_say() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
    let files = [
        "envoy/service/ratelimit/v3/rls.proto",
        "grpc/health/v1/health.proto",
        "grpc/reflection/v1/reflection.proto",
        "grpc/reflection/v1alpha/reflection.proto",
        "tollgate/check/v1/check.proto",
        "tollgate/slots/v1/slots.proto",
    ];
    let mut compiler = protox::Compiler::new([root]).expect("a folder");
    compiler.include_imports(true).open_files(files).expect("files without fault");
    let compiled = compiler.file_descriptor_set();
    let path = format!("{root}/descriptors.bin");
    if std::env::var_os("TOLLGATE_BLESS").is_some() {
        std::fs::write(&path, compiled.encode_to_vec()).expect("written");
    }
    let kept =
        prost_types::FileDescriptorSet::decode(&std::fs::read(&path).expect("read")[..]).expect("a set");
    assert_eq!(kept, compiled, "run with TOLLGATE_BLESS=1 to write {path}");
}
