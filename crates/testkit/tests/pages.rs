//! What pages show of a file is the file.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::path::Path;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn the_readmes_show_the_envoy_file_that_is_run() {
    let file = read("examples/envoy.yaml");
    for page in ["README.md", "README.zh-CN.md"] {
        assert!(read(page).contains(&format!("```yaml\n{file}```\n")), "{page} shows another envoy.yaml");
    }
}
