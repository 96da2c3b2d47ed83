//! The floors of the workspace: folders of `crates/`, each with a README that says which others it may use.

use std::collections::{BTreeMap, BTreeSet};

use crate::circles::{self, Graph};

/// The sections that each README has, in this order. The title of the last one continues with the name of a
/// thing.
const SECTIONS: [&str; 5] = ["Words", "Invariants", "Boundary", "Tests", "How to add"];
/// Most lines of a README: one page.
const MOST_LINES: usize = 90;

/// A folder of crates, or of the server alone.
#[derive(Clone)]
pub(crate) struct Floor {
    pub(crate) name: String,
    pub(crate) readme: String,
    pub(crate) crates: Vec<Crate>,
}

#[derive(Clone)]
pub(crate) struct Crate {
    /// Below `crates/`, such as `kernel/core`.
    pub(crate) path: String,
    pub(crate) manifest: String,
}

impl Crate {
    /// The package's name.
    pub(crate) fn package(&self) -> &str {
        let name = self.manifest.lines().find_map(|line| line.strip_prefix("name = "));
        name.expect("a package has a name").trim_matches('"')
    }

    /// The name of its folder.
    fn folder(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The packages of the workspace among its dependencies, without those of tests and builds.
    fn dependencies(&self) -> impl Iterator<Item = &str> {
        let mut inside = false;
        self.manifest.lines().filter_map(move |line| {
            if line.starts_with('[') {
                inside =
                    line.ends_with("dependencies]") && !line.contains("dev-") && !line.contains("build-");
            }
            let name = line.split(['.', ' ', '=']).next()?;
            (inside && (name == "tollgate" || name.starts_with("tollgate-"))).then_some(name)
        })
    }
}

/// The floors that a README allows: `Uses: kernel, stores.`, or `Uses: no other floor.`
fn allowed(readme: &str) -> Option<BTreeSet<&str>> {
    let list = readme.lines().find_map(|line| line.strip_prefix("Uses: "))?.split('.').next()?;
    Some(list.split(", ").filter(|name| *name != "no other floor").collect())
}

/// The rank of each crate of a floor, 0 for the lowest: `From the bottom: store; store-memory, redis-link.`
/// Crates between commas know nothing of each other.
fn ranks(readme: &str) -> BTreeMap<&str, usize> {
    let text = readme.split_once("From the bottom: ").map_or("", |(_, text)| text);
    let text = text.split('.').next().unwrap_or_default(); // on one line or more
    let ranks = text.split(';').enumerate();
    ranks.flat_map(|(rank, names)| names.split(',').map(move |name| (name.trim(), rank))).collect()
}

/// One sentence for each dependency within the floor that does not lead down, and for each crate without a
/// rank.
fn faults_within(floor: &Floor) -> Vec<String> {
    let mut faults = Vec::new();
    if floor.crates.len() < 2 {
        return faults;
    }
    let name = &floor.name;
    let ranks = ranks(&floor.readme);
    let folder_of: BTreeMap<&str, &str> = floor.crates.iter().map(|it| (it.package(), it.folder())).collect();
    for it in &floor.crates {
        let Some(rank) = ranks.get(it.folder()) else {
            faults.push(format!("{name}/README.md: the line \"From the bottom\" lacks {}", it.folder()));
            continue;
        };
        for other in it.dependencies().filter_map(|dependency| folder_of.get(dependency)) {
            if ranks.get(other).is_some_and(|of_other| of_other >= rank) {
                let path = &it.path;
                faults.push(format!("{path} depends on {other}, which is not below it in {name}/README.md"));
            }
        }
    }
    faults
}

/// One sentence for each dependency that leads to a floor that the README does not allow, for each floor that
/// is allowed and not used, and for each circle.
pub(crate) fn faults(floors: &[Floor]) -> Vec<String> {
    let floor_of: BTreeMap<&str, &str> = floors
        .iter()
        .flat_map(|floor| floor.crates.iter().map(|it| (it.package(), floor.name.as_str())))
        .collect();
    let mut faults = Vec::new();
    let mut graph = Graph::new();
    for floor in floors {
        faults.extend(faults_within(floor));
        let Some(allowed) = allowed(&floor.readme) else {
            faults.push(format!("{}/README.md has no line \"Uses: kernel, stores.\"", floor.name));
            continue;
        };
        let mut used = BTreeSet::new();
        for it in &floor.crates {
            for dependency in it.dependencies() {
                match floor_of.get(dependency) {
                    None => faults.push(format!("{} depends on {dependency}, which is on no floor", it.path)),
                    Some(other) if *other == floor.name => {}
                    Some(other) => {
                        used.insert(*other);
                        if !allowed.contains(other) {
                            let path = &it.path;
                            let floor = &floor.name;
                            faults.push(format!(
                                "{path} depends on {dependency}: {floor}/README.md does not allow {other}"
                            ));
                        }
                    }
                }
            }
        }
        for unused in allowed.difference(&used) {
            faults.push(format!("{}/README.md allows {unused}, which no crate uses", floor.name));
        }
        graph.insert(floor.name.clone(), used.into_iter().map(ToOwned::to_owned).collect());
    }
    faults.extend(
        circles::of(&graph).iter().map(|circle| format!("a circle of floors: {}", circle.join(", "))),
    );
    faults
}

/// Faults of the READMEs: a missing section, a missing crate of the folder, too many lines.
pub(crate) fn faults_of_readmes(floors: &[Floor]) -> Vec<String> {
    let mut faults = Vec::new();
    for Floor { name, readme, crates } in floors {
        let page = format!("{name}/README.md");
        let sections: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("## ")).collect();
        let has_all = sections.len() >= SECTIONS.len()
            && SECTIONS.iter().zip(&sections).all(|(want, found)| found.starts_with(want));
        if !has_all {
            faults.push(format!("{page} has the sections {sections:?}, not {SECTIONS:?}"));
        }
        let lines = readme.lines().count();
        if lines > MOST_LINES {
            faults.push(format!("{page} has {lines} lines, more than {MOST_LINES}"));
        }
        for it in crates.iter().filter(|it| !readme.contains(&format!("`{}`", it.folder()))) {
            faults.push(format!("{page} does not name `{}`", it.folder()));
        }
    }
    faults
}

/// Crates that the table of ARCHITECTURE.md lacks, and rows without a crate.
pub(crate) fn faults_of_map(page: &str, floors: &[Floor]) -> Vec<String> {
    let rows: BTreeSet<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `"))
        .filter_map(|line| line.split('`').nth(1))
        .filter(|name| {
            *name == "server" || floors.iter().any(|floor| name.starts_with(&format!("{}/", floor.name)))
        })
        .collect();
    let crates: BTreeSet<&str> =
        floors.iter().flat_map(|floor| &floor.crates).map(|it| it.path.as_str()).collect();
    let missing = crates.difference(&rows).map(|path| format!("ARCHITECTURE.md has no row for {path}"));
    let gone = rows
        .difference(&crates)
        .map(|path| format!("ARCHITECTURE.md has a row for {path}, which does not exist"));
    missing.chain(gone).collect()
}

/// A floor for tests: its name, its README, and its crates with their manifests. `/` ends a line.
type WrittenFloor<'t> = (&'t str, &'t str, &'t [(&'t str, &'t str)]);

fn floors(of: &[WrittenFloor<'_>]) -> Vec<Floor> {
    let lines = |text: &str| text.replace('/', "\n");
    of.iter()
        .map(|(name, readme, crates)| Floor {
            name: (*name).to_owned(),
            readme: lines(readme),
            crates: crates
                .iter()
                .map(|(folder, manifest)| Crate {
                    path: format!("{name}/{folder}"),
                    manifest: format!("[package]\nname = \"tollgate-{folder}\"\n{}", lines(manifest)),
                })
                .collect(),
        })
        .collect()
}

#[test]
fn a_dependency_on_a_floor_that_is_not_allowed_is_a_fault() {
    let faults_of = |http: &str, core: &str, uses: &str| {
        faults(&floors(&[
            (
                "kernel",
                "Uses: no other floor./From the bottom: core; clock.",
                &[("core", core), ("clock", "[dependencies]/tollgate-core = {}")],
            ),
            (
                "serving",
                &format!("{uses}/From the bottom: net; http, resp."),
                &[("net", ""), ("http", http), ("resp", "[dependencies]/tollgate-core.workspace = true")],
            ),
        ]))
    };
    let down = "[dependencies]/tollgate-core.workspace = true";
    let uses = "Uses: kernel.";
    assert_eq!(faults_of(down, "", uses), [""; 0]);
    assert_eq!(faults_of("[dependencies]/tollgate-net = {}", "", uses), [""; 0]);
    assert_eq!(faults_of(down, "[dev-dependencies]/tollgate-http = {}", uses), [""; 0]);
    for (http, core, uses, want) in [
        (
            down,
            "[dependencies]/tollgate-http.workspace = true",
            uses,
            &[
                "kernel/core depends on tollgate-http: kernel/README.md does not allow serving",
                "a circle of floors: kernel, serving",
            ][..],
        ),
        (
            down,
            "",
            "Uses: no other floor.",
            &[
                "serving/http depends on tollgate-core: serving/README.md does not allow kernel",
                "serving/resp depends on tollgate-core: serving/README.md does not allow kernel",
            ],
        ),
        (
            "[dependencies]/tollgate-resp = {}",
            "",
            uses,
            &["serving/http depends on resp, which is not below it in serving/README.md"],
        ),
        (down, "", "It uses kernel.", &["serving/README.md has no line \"Uses: kernel, stores.\""]),
        (down, "", "Uses: kernel, stores.", &["serving/README.md allows stores, which no crate uses"]),
        (
            "[dependencies]/tollgate-new.workspace = true",
            "",
            uses,
            &["serving/http depends on tollgate-new, which is on no floor"],
        ),
    ] {
        assert_eq!(faults_of(http, core, uses), want);
    }
}

#[test]
fn a_crate_without_a_rank_on_its_floor_is_a_fault() {
    let of = |line: &str| faults_within(&floors(&[("kernel", line, &[("core", ""), ("clock", "")])])[0]);
    assert_eq!(of("From the bottom: core, clock."), [""; 0]);
    assert_eq!(of("From the bottom: core."), ["kernel/README.md: the line \"From the bottom\" lacks clock"]);
    assert_eq!(of("").len(), 2);
}

#[test]
fn a_readme_without_a_section_or_a_crate_is_a_fault_and_so_is_a_row_without_a_crate() {
    let whole =
        "# Kernel/`core`, `clock`/## Words/## Invariants/## Boundary/## Tests/## How to add an algorithm";
    let of = |readme: &str| floors(&[("kernel", readme, &[("core", ""), ("clock", "")])]);
    assert_eq!(faults_of_readmes(&of(whole)), [""; 0]);
    for (readme, faults) in [
        (whole.replace("## Tests/", ""), 1),
        (whole.replace("## Words/", "## Invariants/"), 1),
        (whole.replace("`clock`", "clock"), 1),
        (whole.replace("# Kernel", &"/".repeat(MOST_LINES)), 1),
        (String::new(), 3),
    ] {
        assert_eq!(faults_of_readmes(&of(&readme)).len(), faults, "{readme}");
    }
    let rows = "| `kernel/core` | `lib.rs` |\n| `kernel/clock` | |\n| permit | one unit |\n";
    assert_eq!(faults_of_map(rows, &of(whole)), [""; 0]);
    assert_eq!(faults_of_map(&rows.replace("clock", "lock"), &of(whole)).len(), 2);
}
