//! Baselines by build: which counts hold for which compiler.

use std::fmt::{self, Write as _};

use anyhow::{Context as _, bail};

use super::{Counted, version_of};
use crate::machine::first_line_of;

/// More or fewer instructions than this are a change.
const TOLERANCE: f64 = 0.03;
/// With another C library, whose copying of bytes takes other instructions.
const OTHER_LIBC: f64 = 0.06;

/// Everything that a count depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Build {
    /// Version and commit of the compiler, its target, and the processor features that the build may use.
    compiler: String,
    /// The C library, whose functions choose by processor.
    libc: String,
}

impl fmt::Display for Build {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.compiler, self.libc)
    }
}

impl Build {
    /// This build, on this machine.
    pub(super) fn here() -> anyhow::Result<Self> {
        let rustc = first_line_of("rustc", &["--version"]).context("no rustc")?;
        let target = std::env::consts::ARCH;
        let flags = [
            ("sse4.2", cfg!(target_feature = "sse4.2")),
            ("avx2", cfg!(target_feature = "avx2")),
            ("aes", cfg!(target_feature = "aes")),
            ("debug", cfg!(debug_assertions)),
        ];
        let flags: Vec<&str> = flags.into_iter().filter_map(|(name, has)| has.then_some(name)).collect();
        let flags = if flags.is_empty() { "no features".to_owned() } else { flags.join(" ") };
        let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        // Valgrind has two processors to show: one with AVX2 and one without.
        let shown = if cpu.contains(" avx2") { "avx2" } else { "no avx2" };
        let libc = format!("libc {}, {shown}", version_of("ldd", "--version"));
        Ok(Self { compiler: format!("{rustc}, {target}, {flags}"), libc })
    }
}

/// The counts of some builds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Baselines(Vec<(Build, Vec<Counted>)>);

/// Result of one path against its baseline.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BaselineVerdict {
    Within { baseline: f64, change: f64 },
    Outside { baseline: f64, change: f64, most: f64 },
    Unknown,
}

/// The baselines that hold for a build, and how exactly.
pub(super) struct Found<'a> {
    counted: &'a [Counted],
    most: f64,
}

impl Found<'_> {
    pub(super) fn judge(&self, name: &str, instructions: f64) -> BaselineVerdict {
        let Some(known) = self.counted.iter().find(|it| it.name == name) else {
            return BaselineVerdict::Unknown;
        };
        let baseline = known.instructions;
        let most = self.most;
        let change = instructions / baseline - 1.0;
        if change.abs() <= most {
            BaselineVerdict::Within { baseline, change }
        } else {
            BaselineVerdict::Outside { baseline, change, most }
        }
    }
}

impl Baselines {
    /// Blocks that begin with `[compiler; libc]` and have one `name = count` a line.
    pub(super) fn parse(text: &str) -> anyhow::Result<Self> {
        let mut all = Self::default();
        for (at, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let place = || format!("line {} of the baselines: {line}", at + 1);
            if line.starts_with('#') {
                continue;
            }
            if let Some(head) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                let (compiler, libc) = head.rsplit_once("; ").with_context(place)?;
                let build = Build { compiler: compiler.to_owned(), libc: libc.to_owned() };
                all.0.push((build, Vec::new()));
                continue;
            }
            let (name, count) = line.rsplit_once(" = ").with_context(place)?;
            let instructions: f64 = count.trim().parse().with_context(place)?;
            let Some((_, counted)) = all.0.last_mut() else { bail!("{}: no build above it", place()) };
            counted.push(Counted { name: name.trim().to_owned(), instructions });
        }
        Ok(all)
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::from(
            "# Instructions of the hot paths, by build. `cargo run --profile dist -p tollgate-bench -- count --write`\n\
             # replaces those of the build that it runs on. docs/performance.md says what may differ.\n",
        );
        for (build, counted) in &self.0 {
            let _ = writeln!(text, "\n[{build}]");
            for Counted { name, instructions } in counted {
                let _ = writeln!(text, "{name} = {instructions:.1}");
            }
        }
        text
    }

    /// Replaces the counts of a build.
    pub(super) fn put(&mut self, build: Build, counted: &[Counted]) {
        self.0.retain(|(known, _)| *known != build);
        self.0.push((build, counted.to_vec()));
    }

    /// Baselines of exactly this build; or of the same compiler with another C library, with twice the
    /// tolerance.
    pub(super) fn of(&self, build: &Build) -> Found<'_> {
        let same = self.0.iter().find(|(known, _)| known == build);
        let near = self.0.iter().rev().find(|(known, _)| known.compiler == build.compiler);
        let most = if same.is_some() { TOLERANCE } else { OTHER_LIBC };
        Found { counted: same.or(near).map_or(&[], |(_, counted)| counted), most }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn build(compiler: &str, libc: &str) -> Build {
        Build { compiler: compiler.to_owned(), libc: libc.to_owned() }
    }

    #[test]
    fn a_slowdown_of_four_percent_fails_and_so_does_a_gain_that_nobody_noted() {
        let counted = [Counted { name: "store, admitted".to_owned(), instructions: 200.0 }];
        let mut baselines = Baselines::default();
        baselines.put(build("rustc 1", "libc 2"), &counted);
        let found = baselines.of(&build("rustc 1", "libc 2"));
        for (count, is_within) in
            [(200.0, true), (205.9, true), (194.1, true), (206.1, false), (193.9, false)]
        {
            let verdict = found.judge("store, admitted", count);
            assert_eq!(matches!(verdict, BaselineVerdict::Within { .. }), is_within, "{count}: {verdict:?}");
        }
        let near = baselines.of(&build("rustc 1", "libc 3"));
        assert!(matches!(near.judge("store, admitted", 211.0), BaselineVerdict::Within { .. }));
        assert!(matches!(near.judge("store, admitted", 213.0), BaselineVerdict::Outside { .. }));
        assert_eq!(
            baselines.of(&build("rustc 2", "libc 2")).judge("store, admitted", 200.0),
            BaselineVerdict::Unknown
        );
        assert_eq!(found.judge("a new path", 200.0), BaselineVerdict::Unknown);
    }

    #[test]
    fn baselines_are_read_as_they_are_written_and_broken_ones_are_errors() {
        let mut baselines = Baselines::default();
        let counted = |instructions| vec![Counted { name: "a, b = c".to_owned(), instructions }];
        baselines.put(build("rustc 1, x86_64; odd", "libc 2, avx2"), &counted(1.5));
        baselines.put(build("rustc 2", "libc 2, avx2"), &counted(2.0));
        baselines.put(build("rustc 2", "libc 2, avx2"), &counted(3.0));
        let again = Baselines::parse(&baselines.text()).expect("as written");
        assert_eq!(again, baselines);
        assert_eq!(again.0.len(), 2);
        for broken in ["a = 1", "[x]\n", "[a; b]\nname 1\n", "[a; b]\nname = many\n"] {
            assert!(Baselines::parse(broken).is_err(), "{broken}");
        }
    }

    /// The file that is committed.
    #[test]
    fn the_committed_baselines_name_every_path() {
        let baselines = Baselines::parse(include_str!("../../instructions.txt")).expect("valid");
        assert!(!baselines.0.is_empty());
        for (build, counted) in &baselines.0 {
            assert!(!build.compiler.contains("debug"), "{build}");
            let names: Vec<&str> = counted.iter().map(|it| it.name.as_str()).collect();
            let paths = super::super::PATHS.map(|(name, ..)| name);
            let servers = super::super::servers::SURFACES.map(|surface| surface.name);
            let want: Vec<&str> = paths.into_iter().chain(servers).collect();
            assert_eq!(names, want, "{build}");
        }
    }
}
