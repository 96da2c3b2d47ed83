//! Tests that the documentation names as evidence, compared with the tests that ran: every test that a page
//! names has passed, or is listed with the rows that it leaves unshown.
//!
//! Not here: whether a test shows what its row says. `tests/acceptance.rs` looks whether it can.

mod log;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

pub use log::{Ran, TestOutcome};

/// Fewest underscores in the name of a test in the table of requirements, where everything quoted is one or
/// a setting; on other pages names of metrics and settings are as long.
const FEWEST_IN_ROWS: usize = 3;
const FEWEST_ELSEWHERE: usize = 5;

/// Tests that pages name, each with its places: `row 8` of the table of requirements, or the page.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Named(BTreeMap<String, BTreeSet<String>>);

impl Named {
    /// The tests that the table of requirements names, also those in a browser.
    pub fn read_rows(&mut self, page: &str) {
        for line in page.lines().filter(|line| line.starts_with("| ")) {
            let row = line.split('|').nth(1).map(str::trim).unwrap_or_default();
            if !row.starts_with(|first: char| first.is_ascii_digit()) {
                continue;
            }
            for name in quoted(line).filter(|name| is_test(name, FEWEST_IN_ROWS) || is_in_browser(name)) {
                self.0.entry(name.to_owned()).or_default().insert(format!("row {row}"));
            }
        }
    }

    /// The tests that any other page names.
    pub fn read_page(&mut self, name: &str, page: &str) {
        for test in page.lines().flat_map(quoted).filter(|test| is_test(test, FEWEST_ELSEWHERE)) {
            self.0.entry(test.to_owned()).or_default().insert(name.to_owned());
        }
    }

    /// Their names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// Writes one line per claim that this run did not show, and the counts that `./test` adds up. Returns
    /// whether nothing failed.
    ///
    /// A test that is missing from `ran` failed; one that could not run here is skipped, and its line says
    /// what nothing shows on this machine. `has_browser` is whether the stage of the browser ran at all.
    pub fn report(
        &self,
        ran: &Ran,
        is_law: &dyn Fn(&str) -> bool,
        has_browser: bool,
        out: &mut impl Write,
    ) -> io::Result<bool> {
        let mut passed = 0;
        let mut failed = 0;
        for (name, places) in &self.0 {
            let places: Vec<&str> = places.iter().map(String::as_str).collect();
            let places = places.join(", ");
            match ran.outcome(name) {
                Some(TestOutcome::Passed) => passed += 1,
                Some(TestOutcome::Skipped) => {
                    writeln!(out, "SKIPPED {name}, which could not run here: not shown for {places}")?;
                }
                None if is_in_browser(name) && !has_browser => {
                    writeln!(out, "SKIPPED {name}, without a browser: not shown for {places}")?;
                }
                None if is_law(name) => passed += 1,
                Some(TestOutcome::Failed) | None => {
                    writeln!(out, "{places}: {name} is named and did not pass")?;
                    failed += 1;
                }
            }
        }
        // Lines with SKIPPED are counted themselves.
        writeln!(out, "{passed} passed, {failed} failed, 0 skipped")?;
        Ok(failed == 0)
    }
}

fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

fn is_test(name: &str, fewest: usize) -> bool {
    name.matches('_').count() >= fewest
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
        && !name.starts_with("tollgate_") // a metric
        && !name.starts_with("envoy_") // one of Envoy
        && !name.starts_with("ratelimit_")
}

/// `B3`, `B18-report`, `B-trial`.
fn is_in_browser(name: &str) -> bool {
    let Some(rest) = name.strip_prefix('B') else { return false };
    rest.starts_with(|c: char| c.is_ascii_digit() || c == '-')
        && rest.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROWS: &str = "\
        | row | what must be true | shown by |\n\
        |---|---|---|\n\
        | 8 | exactly 100 | `a_hundred_and_no_more`, `both_rows_name_it` |\n\
        | 9, 10 | also `on_limit` | `both_rows_name_it`; in a browser: `B2-zh`, `B-trial` |\n";

    fn named() -> Named {
        let mut named = Named::default();
        named.read_rows(ROWS);
        named.read_page(
            "guarantees.md",
            "`a_law_of_the_suite_of_stores`,\n`tollgate_a_b_c_d_e`, `envoy_a_b_c_d_e`.",
        );
        named
    }

    fn report(logs: &[&str], has_browser: bool) -> (bool, String) {
        let mut ran = Ran::default();
        logs.iter().for_each(|log| ran.read(log));
        let mut out = Vec::new();
        let is_law = |name: &str| name == "a_law_of_the_suite_of_stores";
        let is_good = named().report(&ran, &is_law, has_browser, &mut out).expect("memory can be written to");
        (is_good, String::from_utf8(out).expect("text"))
    }

    const GOOD: &str = "    PASS [   0.010s] (1/2) core::laws a_hundred_and_no_more\n    \
                        PASS [   0.010s] (2/2) core both::both_rows_name_it\n";
    const BROWSER: &str = "PASS [1.0s] B2-zh the texts\nPASS [1.0s] B-trial a trial\n";

    #[test]
    fn tests_and_tests_in_a_browser_are_named_and_nothing_else() {
        let names = named();
        let names: Vec<&str> = names.names().collect();
        let want = [
            "B-trial",
            "B2-zh",
            "a_hundred_and_no_more",
            "a_law_of_the_suite_of_stores",
            "both_rows_name_it",
        ];
        assert_eq!(names, want);
    }

    #[test]
    fn every_named_test_has_passed_or_its_rows_are_listed() {
        let zh = "FAIL [1.0s] B2-zh the texts\nPASS [1.0s] B-trial a trial\n";
        let one_failed = GOOD.replacen("PASS", "FAIL", 1);
        let could_not = format!("{GOOD}  stdout ---\n    SKIPPED a real nginx: it is not installed\n");
        let failed = |line: &str| format!("{line}\n4 passed, 1 failed, 0 skipped\n");
        for (logs, has_browser, is_good, want) in [
            ([GOOD, BROWSER], true, true, "5 passed, 0 failed, 0 skipped\n".to_owned()),
            ([GOOD, zh], true, false, failed("row 9, 10: B2-zh is named and did not pass")),
            // The stage ran and ended before its first test.
            (
                [&one_failed, BROWSER],
                true,
                false,
                failed("row 8: a_hundred_and_no_more is named and did not pass"),
            ),
            (
                [&could_not, BROWSER],
                true,
                true,
                "SKIPPED both_rows_name_it, which could not run here: not shown for row 8, row 9, 10\n\
                 4 passed, 0 failed, 0 skipped\n"
                    .to_owned(),
            ),
            (
                [GOOD, ""],
                false,
                true,
                "SKIPPED B-trial, without a browser: not shown for row 9, 10\n\
                 SKIPPED B2-zh, without a browser: not shown for row 9, 10\n\
                 3 passed, 0 failed, 0 skipped\n"
                    .to_owned(),
            ),
            (
                [GOOD, ""],
                true,
                false,
                "row 9, 10: B-trial is named and did not pass\nrow 9, 10: B2-zh is named and did not pass\n\
                 3 passed, 2 failed, 0 skipped\n"
                    .to_owned(),
            ),
        ] {
            assert_eq!(report(&logs, has_browser), (is_good, want), "{logs:?}");
        }
    }
}
