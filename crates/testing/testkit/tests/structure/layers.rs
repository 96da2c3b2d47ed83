//! The layers of crates, as the map in ARCHITECTURE.md draws them.

use std::collections::BTreeMap;

/// The layer of each crate; 0 is the lowest.
pub(crate) type Layers = BTreeMap<String, usize>;

/// Reads the first code block of the page: one layer a line, the highest first. Crates stand before two
/// spaces, separated by ` · `; a line that begins with a space continues the explanation of the line above.
pub(crate) fn read(page: &str) -> Layers {
    let map = page.split("```").nth(1).expect("a map of the crates in a code block");
    let lines: Vec<&str> =
        map.lines().skip(1).filter(|line| line.starts_with(|c: char| c.is_ascii_alphabetic())).collect();
    let mut layers = Layers::new();
    for (layer, line) in lines.iter().rev().enumerate() {
        let names = line.split("  ").next().unwrap_or_default();
        for name in names.split('·').map(str::trim).filter(|name| !name.is_empty()) {
            assert!(layers.insert(name.to_owned(), layer).is_none(), "{name} is in the map twice");
        }
    }
    layers
}

/// One sentence for each dependency that does not point down, and for each crate that is missing from the
/// map.
pub(crate) fn faults(layers: &Layers, manifests: &[(String, String)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, manifest) in manifests {
        let Some(layer) = layers.get(name) else {
            faults.push(format!("crate {name} is missing from the map in ARCHITECTURE.md"));
            continue;
        };
        for dependency in dependencies(manifest) {
            match layers.get(dependency) {
                None => faults.push(format!("crate {dependency} is missing from the map in ARCHITECTURE.md")),
                Some(of) if of >= layer => {
                    faults.push(format!("{name} depends on {dependency}, which is not below it"))
                }
                Some(_) => {}
            }
        }
    }
    for name in layers.keys().filter(|name| !manifests.iter().any(|(known, _)| known == *name)) {
        faults.push(format!("the map in ARCHITECTURE.md names {name}, which does not exist"));
    }
    faults
}

/// The workspace's own crates among the dependencies, without those of tests and builds.
fn dependencies(manifest: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    manifest.lines().filter_map(move |line| {
        if line.starts_with('[') {
            inside = line.ends_with("dependencies]") && !line.contains("dev-") && !line.contains("build-");
        }
        line.strip_prefix("tollgate-").filter(|_| inside)?.split(['.', ' ', '=']).next()
    })
}

#[test]
fn a_dependency_that_points_up_or_sideways_is_a_fault() {
    let layers = read(
        "# Page\n```text\nserver   the binary\nhttp · resp   transports\n         and more\ncore\n```\n",
    );
    let manifest = |text: &str| text.replace(' ', "\n").replace('_', " ");
    let faults_of = |http: &str, core: &str| {
        let manifests = [
            ("server", "[dependencies] tollgate-http.workspace_=_true"),
            ("http", http),
            ("resp", ""),
            ("core", core),
        ];
        faults(&layers, &manifests.map(|(name, text)| (name.to_owned(), manifest(text))))
    };
    let down = "[dependencies] tollgate-core.workspace_=_true [dev-dependencies] tollgate-resp_=_{}";
    assert_eq!(faults_of(down, ""), [""; 0]);
    assert_eq!(
        faults_of("[dependencies] tollgate-resp_=_{}", ""),
        ["http depends on resp, which is not below it"]
    );
    assert_eq!(
        faults_of(down, "[dependencies] tollgate-http.path_=_true"),
        ["core depends on http, which is not below it"]
    );
    assert_eq!(
        faults_of(down, "[dependencies] tollgate-new.path_=_true"),
        ["crate new is missing from the map in ARCHITECTURE.md"]
    );
}
