//! Which tests of a log passed, failed, or said that they cannot run here: of nextest, of `cargo test`, and
//! of the tests in a browser.

use std::collections::BTreeMap;

/// Outcome of a test; of several tests with one name, the worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TestOutcome {
    /// Passed and was not skipped.
    Passed,
    /// Passed, and printed `SKIPPED`.
    Skipped,
    /// Failed, timed out, or crashed.
    Failed,
}

/// Outcomes by the name of the test, without its modules.
#[derive(Debug, Default)]
pub struct Ran(BTreeMap<String, TestOutcome>);

impl Ran {
    /// Outcome of the tests with this name; `None` if none ran.
    pub fn outcome(&self, name: &str) -> Option<TestOutcome> {
        self.0.get(name).copied()
    }

    /// Adds the tests of one log.
    pub fn read(&mut self, log: &str) {
        let mut test = None; // whose output follows
        for line in log.lines() {
            if let Some((name, outcome)) = of_nextest(line) {
                self.add(name, outcome);
                test = Some(name);
            } else if let Some((name, outcome)) = of_cargo(line).or_else(|| of_browser(line)) {
                self.add(name, outcome);
            } else if let Some(of) =
                line.strip_prefix("---- ").and_then(|line| line.strip_suffix(" stdout ----"))
            {
                test = Some(last_part(of));
            } else if line.starts_with("test result: ") {
                test = None;
            }
            if line.contains("SKIPPED ")
                && let Some(test) = test
            {
                self.add(test, TestOutcome::Skipped);
            }
        }
    }

    fn add(&mut self, name: &str, outcome: TestOutcome) {
        let known = self.0.entry(name.to_owned()).or_insert(outcome);
        *known = outcome.max(*known);
    }
}

/// `    PASS [   0.010s] (1/2) crate::tests module::name`; not `    SLOW [> 60.000s] …`, which still runs.
fn of_nextest(line: &str) -> Option<(&str, TestOutcome)> {
    let rest = line.strip_prefix(' ')?.trim_start();
    let (status, rest) = rest.split_once(" [")?;
    let (seconds, test) = rest.split_once("s]")?;
    seconds.trim().parse::<f64>().ok()?;
    let outcome = match status {
        "PASS" | "LEAK" => TestOutcome::Passed,
        _ => TestOutcome::Failed, // FAIL, TIMEOUT, ABORT, SIGSEGV …
    };
    let is_status = !status.is_empty() && status.chars().all(|c| c.is_ascii_uppercase());
    is_status.then_some((last_part(test), outcome))
}

/// `test module::name ... ok`
fn of_cargo(line: &str) -> Option<(&str, TestOutcome)> {
    let (name, result) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.split(' ').next()?; // `name - should panic`
    match result {
        "ok" => Some((last_part(name), TestOutcome::Passed)),
        "FAILED" => Some((last_part(name), TestOutcome::Failed)),
        _ => None, // ignored
    }
}

/// `PASS [1.0s] B2-zh the texts`
fn of_browser(line: &str) -> Option<(&str, TestOutcome)> {
    let (outcome, rest) = [("PASS [", TestOutcome::Passed), ("FAIL [", TestOutcome::Failed)]
        .into_iter()
        .find_map(|(begin, outcome)| Some((outcome, line.strip_prefix(begin)?)))?;
    Some((rest.split_once("s] ")?.1.split(' ').next()?, outcome))
}

fn last_part(test: &str) -> &str {
    test.rsplit([' ', ':']).next().unwrap_or(test)
}

#[cfg(test)]
mod tests {
    use super::TestOutcome::{Failed, Passed, Skipped};
    use super::*;

    #[test]
    fn every_runner_says_how_its_tests_ended() {
        let nextest = "\
   Compiling tollgate v0.1.0
        PASS [   0.010s] (1/4) tollgate-core::laws laws::a
  stdout ───
    4 keys
        SLOW [> 60.000s] (---) tollgate-core::laws b
        PASS [  61.010s] (2/4) tollgate-core::laws b
  stdout ───
    SKIPPED a real nginx: it is not installed
        FAIL [   0.010s] (3/4) tollgate-server c
     SIGSEGV [   0.010s] (4/4) tollgate-server d
     Summary [   1.000s] 4 tests run: 2 passed, 2 failed, 0 skipped
";
        let cargo = "\
     Running tests/loom.rs
test e ... ok
test module::f ... FAILED
test g - should panic ... ok
test h ... ignored, slow
test i ... ok
successes:
---- i stdout ----
SKIPPED it: no
test result: FAILED. 3 passed; 1 failed
SKIPPED of no test
";
        let browser = "PASS [1.0s] B2-zh texts\n    a note\nFAIL [0.1s] B-trial a trial\nError: PASS\n";
        let mut ran = Ran::default();
        [nextest, cargo, browser].into_iter().for_each(|log| ran.read(log));
        for (name, want) in [
            ("a", Some(Passed)),
            ("b", Some(Skipped)),
            ("c", Some(Failed)),
            ("d", Some(Failed)),
            ("e", Some(Passed)),
            ("f", Some(Failed)),
            ("g", Some(Passed)),
            ("h", None),
            ("i", Some(Skipped)),
            ("B2-zh", Some(Passed)),
            ("B-trial", Some(Failed)),
            ("B2", None),
        ] {
            assert_eq!(ran.outcome(name), want, "{name}");
        }
    }

    #[test]
    fn of_tests_of_one_name_the_worst_counts() {
        let mut ran = Ran::default();
        ran.read("test x::a ... ok\ntest y::a ... FAILED\ntest z::a ... ok\n");
        assert_eq!(ran.outcome("a"), Some(Failed));
    }
}
