//! Building the image: the input of each instruction of `deploy/Dockerfile` is there.

use super::*;

/// Where Debian keeps the authorities that TLS trusts.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The instructions of a Dockerfile, without comments, each on one line.
fn instructions(text: &str) -> Vec<(String, String)> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    let whole = lines.join("\n").replace("\\\n", " ");
    let parts = whole.lines().filter_map(|line| line.trim().split_once(' '));
    parts.map(|(name, rest)| (name.to_owned(), rest.trim().to_owned())).collect()
}

/// Whether the context of the build lacks `path`.
fn is_ignored(path: &str, patterns: &str) -> bool {
    patterns
        .lines()
        .map(|line| line.trim().trim_start_matches('/'))
        .any(|pattern| !pattern.is_empty() && (path == pattern || path.starts_with(&format!("{pattern}/"))))
}

#[test]
fn the_image_is_built_of_what_there_is() {
    let ignored = read("deploy/Dockerfile.dockerignore");
    assert!(is_ignored("target/debug/tollgate", &ignored) && is_ignored(".git/HEAD", &ignored));
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    // Cargo needs this of the context: the lock file, and every member of the workspace.
    let here = root().canonicalize().expect("a folder");
    for manifest in packages.iter().map(|package| package["manifest_path"].as_str().expect("a path")) {
        let path = Path::new(manifest).strip_prefix(&here).expect("in the project");
        assert!(!is_ignored(&path.display().to_string(), &ignored), "{manifest}");
    }
    assert!(!is_ignored("Cargo.lock", &ignored) && root().join("Cargo.lock").is_file());

    // Output of each stage, by its name.
    let mut stage = String::new();
    let mut made = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (name, rest) in instructions(&read("deploy/Dockerfile")) {
        let words: Vec<&str> = rest.split_whitespace().collect();
        match (name.as_str(), &words[..]) {
            ("FROM", [image, more @ ..]) => {
                stage = match more {
                    ["AS", name] => (*name).to_owned(),
                    _ => String::new(),
                };
                made.insert(stage.clone(), Vec::new());
                let rust = image.strip_prefix("rust:").and_then(|tag| tag.split('-').next());
                if let Some(rust) = rust {
                    let server = packages.iter().find(|package| package["name"] == "tollgate-server");
                    assert_eq!(server.expect("the server")["rust_version"], rust, "the least Rust is enough");
                }
            }
            ("COPY", [from, source, _]) if from.starts_with("--from=") => {
                let other = &from["--from=".len()..];
                let files = made.get(other).unwrap_or_else(|| panic!("no stage {other}"));
                // The image of Rust has the authorities.
                let is_there = files.iter().any(|file| file == source) || *source == AUTHORITIES;
                assert!(is_there, "{source} is not made in {other}: {files:?}");
                made.entry(stage.clone()).or_default().push((*source).to_owned());
            }
            ("COPY", [sources @ .., _]) => {
                for source in sources {
                    let is_there = root().join(source).exists() && !is_ignored(source, &ignored);
                    assert!(is_there, "{source} is not in the context");
                }
            }
            ("RUN", words) => {
                let command: Vec<&str> =
                    words.iter().copied().skip_while(|word| word.starts_with("--mount=")).collect();
                for command in command.split(|word| *word == "&&") {
                    match command {
                        ["cargo", "build", "--profile", "dist", "--locked", "--package", package] => {
                            let mut packages = packages.iter().filter(|it| it["name"] == *package);
                            let targets = &packages.next().expect("a package")["targets"];
                            let mut targets = targets.as_array().expect("targets").iter();
                            let binary = targets.find(|it| it["kind"][0] == "bin").expect("a binary");
                            let path = format!("target/dist/{}", binary["name"].as_str().expect("a name"));
                            made.entry(stage.clone()).or_default().push(path);
                        }
                        ["cp", source, to] => {
                            let files = made.entry(stage.clone()).or_default();
                            assert!(files.iter().any(|file| file == source), "{source} is not made");
                            files.push((*to).to_owned());
                        }
                        ["ln", "-s", "/usr/local/bin/tollgate", "/bin/ratelimit"] => {}
                        other => panic!("a command that this test does not know: {other:?}"),
                    }
                }
            }
            ("WORKDIR" | "ENV" | "USER" | "EXPOSE" | "HEALTHCHECK" | "ENTRYPOINT" | "CMD", _) => {}
            _ => panic!("an instruction that this test does not know: {name} {rest}"),
        }
    }
    // `--store rediss://…` trusts the system's authorities, of which the slim image has none.
    let image = made.get("").expect("the last stage");
    assert_eq!(image, &[AUTHORITIES, "/tollgate"]);
}
