//! Every dependency has a licence that we may use, comes from the registry, and is not one that `deny.toml`
//! bans. `cargo deny check` reads the same file and more of it, but takes minutes to build.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use regex::Regex;
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Clone, Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    source: Option<String>,
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<ResolveNode>,
}

#[derive(Deserialize)]
struct ResolveNode {
    id: String,
    dependencies: Vec<String>,
}

/// Contents of `deny.toml`.
struct DenyRules {
    licences: BTreeSet<String>,
    banned: BTreeSet<String>,
    /// Crates that may be there in one version only.
    single: BTreeSet<String>,
    /// Crates whose own dependencies may be there in other versions.
    skipped: BTreeSet<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The packages of the workspace at `root` and all that it depends on.
fn metadata() -> Metadata {
    let host = Command::new("rustc").arg("-vV").output().expect("rustc").stdout;
    let host = String::from_utf8(host).expect("text");
    let host = host.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").to_owned();
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(root()).args(["metadata", "--locked", "--all-features", "--format-version", "1"]);
    let output = cargo.args(["--filter-platform", &host]).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("metadata")
}

fn rules(text: &str) -> DenyRules {
    let quoted = Regex::new("\"([^\"]+)\"").expect("a pattern");
    let list = |name: &str| {
        let begin = text.find(&format!("\n{name} = [")).expect("the list");
        let list = &text[begin..];
        let end = list.find("\n]").into_iter().chain(list.find("]\n")).min().expect("its end");
        list[..end].lines().filter(|line| !line.trim_start().starts_with('#')).collect::<Vec<_>>().join("\n")
    };
    let names = |text: &str| quoted.captures_iter(text).map(|it| it[1].to_owned()).collect::<BTreeSet<_>>();
    let (single, banned): (Vec<_>, Vec<_>) =
        list("deny").lines().map(ToOwned::to_owned).partition(|line| line.contains('{'));
    let of_crates = Regex::new("crate = \"([^\"]+)\"").expect("a pattern");
    let crates = |text: &str| of_crates.captures_iter(text).map(|it| it[1].to_owned()).collect();
    DenyRules {
        licences: names(&list("allow")),
        banned: names(&banned.join("\n")),
        single: crates(&single.join("\n")),
        skipped: crates(&list("skip-tree")),
    }
}

/// Faults of the dependencies, a line each.
fn faults(metadata: &Metadata, rules: &DenyRules) -> Vec<String> {
    let mut faults = Vec::new();
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|package| (package.id.as_str(), package)).collect();
    for package in packages.values().filter(|package| package.source.is_some()) {
        let called = format!("{} {}", package.name, package.version);
        if package.source.as_deref() != Some(REGISTRY) {
            faults.push(format!("{called}: comes from {:?}", package.source));
        }
        if rules.banned.contains(&package.name) {
            faults.push(format!("{called}: is banned"));
        }
        let is_allowed =
            |asked: &LicenseReq| asked.license.id().is_some_and(|id| rules.licences.contains(id.name));
        let licence = package.license.as_deref().unwrap_or_default();
        let parsed = Expression::parse_mode(licence, ParseMode::LAX);
        if !parsed.is_ok_and(|licence| licence.evaluate(is_allowed)) {
            faults.push(format!("{called}: has the licence {licence:?}"));
        }
    }
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for id in reached(metadata, &packages, rules) {
        let package = packages[id];
        versions.entry(&package.name).or_default().insert(&package.version);
    }
    for (name, versions) in
        versions.iter().filter(|(name, versions)| rules.single.contains(**name) && versions.len() > 1)
    {
        faults.push(format!("{name}: is there in the versions {versions:?}"));
    }
    faults
}

/// Dependencies of the workspace, except the crates whose trees are skipped.
fn reached<'m>(
    metadata: &'m Metadata,
    packages: &BTreeMap<&'m str, &'m Package>,
    rules: &DenyRules,
) -> BTreeSet<&'m str> {
    let edges: BTreeMap<&str, &ResolveNode> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let mut open: Vec<&str> = packages
        .values()
        .filter(|package| package.source.is_none())
        .map(|package| package.id.as_str())
        .collect();
    let mut reached = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !rules.skipped.contains(&packages[id].name) && reached.insert(id) {
            open.extend(edges[id].dependencies.iter().map(String::as_str));
        }
    }
    reached
}

#[test]
fn every_dependency_may_be_used() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("readable");
    let metadata = metadata();
    let rules = rules(&text);
    assert!(metadata.packages.len() > 200, "{} packages: not the workspace", metadata.packages.len());
    assert!(rules.licences.contains("MIT") && rules.banned.contains("openssl"), "the lists are read");
    assert!(rules.single.contains("tokio") && rules.skipped.contains("limitador"), "the lists are read");
    let faults = faults(&metadata, &rules);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_licence_a_source_a_ban_and_a_second_version_are_faults() {
    let rules = rules(
        "\nallow = [\"MIT\", \"Zlib\"]\ndeny = [\n    # A comment with a \"name\".\n    \"openssl\",\n    \
         { crate = \"tokio\", deny-multiple-versions = true },\n]\nskip-tree = [{ crate = \"peer\", reason = \"so\" }]\n",
    );
    let package = |name: &str, version: &str, licence: &str, source: Option<&str>| Package {
        id: format!("{name} {version}"),
        name: name.to_owned(),
        version: version.to_owned(),
        license: Some(licence.to_owned()),
        source: source.map(ToOwned::to_owned),
    };
    let good = [
        package("ours", "1", "", None),
        package("a", "1", "GPL-3.0 OR MIT", Some(REGISTRY)),
        package("b", "1", "MIT/Apache-2.0", Some(REGISTRY)),
        package("peer", "1", "Zlib AND MIT", Some(REGISTRY)),
        package("tokio", "1", "MIT", Some(REGISTRY)),
    ];
    let second = package("tokio", "2", "MIT", Some(REGISTRY));
    let found = |more: &Package, by: &str| {
        let mut packages = good.to_vec();
        packages.push(more.clone());
        let ids: Vec<String> = packages.iter().map(|package| package.id.clone()).collect();
        let nodes = ids.iter().map(|id| ResolveNode {
            id: id.clone(),
            dependencies: match id.as_str() {
                "ours 1" => ids[1..5].to_vec(),
                id if id == by => vec![more.id.clone()],
                _ => Vec::new(),
            },
        });
        faults(&Metadata { resolve: Resolve { nodes: nodes.collect() }, packages }, &rules)
    };
    assert_eq!(found(&second, "peer 1"), [""; 0], "a skipped tree may have its own version");
    assert_eq!(found(&second, "a 1"), ["tokio: is there in the versions {\"1\", \"2\"}"]);
    for (more, want) in [
        (package("c", "1", "GPL-3.0 AND MIT", Some(REGISTRY)), "c 1: has the licence \"GPL-3.0 AND MIT\""),
        (package("c", "1", "", Some(REGISTRY)), "c 1: has the licence \"\""),
        (package("openssl", "1", "MIT", Some(REGISTRY)), "openssl 1: is banned"),
        (package("c", "1", "MIT", Some("git+https://a")), "c 1: comes from Some(\"git+https://a\")"),
    ] {
        assert_eq!(found(&more, "a 1"), [want]);
    }
}

/// `cargo deny check advisories` is not repeated here: its database is not in the registry.
#[test]
fn advisories_are_errors_and_each_that_is_ignored_has_a_reason() {
    let text = std::fs::read_to_string(root().join("deny.toml")).expect("readable");
    let section = text.split("\n[").find_map(|section| section.strip_prefix("advisories]\n"));
    let section = section.expect("a section of advisories");
    for line in ["yanked = \"deny\"", "unsound = \"all\"", "unused-ignored-advisory = \"deny\""] {
        assert!(section.lines().any(|it| it.starts_with(line)), "no {line} in {section}");
    }
    let named = Regex::new("RUSTSEC-|crate = ").expect("a pattern");
    for line in section.lines().filter(|line| named.is_match(line)) {
        assert!(line.contains("reason = \""), "{line}");
    }
}
