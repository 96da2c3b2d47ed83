//! `tollgate replay --html`: the file has what the report has, and a real browser opens it and shows it.

use std::path::{Path, PathBuf};
use std::process::Command;

use tollgate_replay::CommandOutcome;

use crate::replay;

const RULES: &str = "domain: web\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, \
                     requests_per_unit: 10, algorithm: fixed_window}\n";

/// Twenty requests of a client within a second, around the minute, and twelve of a client with a rude name.
fn trace() -> String {
    let requests = |second: u64| format!("{second},ann\n").repeat(10);
    let rude = "61,\"<script>alert('x')</script>\"\n".repeat(12);
    format!("t_s,client\n{}{}{rude}broken\n", requests(59), requests(60))
}

/// The page about that trace, with these arguments besides.
fn page(rules: &[&str], args: &str) -> (tempfile::TempDir, PathBuf, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("report.html");
    let (outcome, out, talk) = replay(&trace(), rules, &format!("--html {} {args}", path.display()));
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    assert!(talk.contains("report written to") && out.contains("trace    32 requests"), "{talk}{out}");
    let html = std::fs::read_to_string(&path).expect("written");
    (folder, path, html)
}

#[test]
fn the_page_has_the_report_in_both_languages_and_asks_nothing_of_a_network() {
    for (args, lang, want) in [
        ("", "en", ["Worst window", "Wrongly admitted", "Requests over time", "1 of 33 lines are broken"]),
        ("--lang zh-CN", "zh-CN", ["最差窗口", "误放行", "请求随时间的变化", "共 33 行，其中 1 行无法解析"]),
    ] {
        let (_folder, _, html) = page(&[RULES], args);
        assert!(html.contains(&format!("<html lang=\"{lang}\">")), "{html}");
        let figures = ["sliding_window, cells: 10", "token_bucket", "31.250 %", "remote_address=ann"];
        for want in want.into_iter().chain(figures) {
            assert!(html.contains(want), "{want}: {html}");
        }
        assert!(!html.contains("<script") && html.contains("&lt;script&gt;"), "{html}");
        for word in ["http://", "https://", "src=", "href=", "@import", "url("] {
            assert!(!html.contains(word), "{word}: {html}");
        }
    }
}

#[test]
fn two_sets_of_rules_are_on_one_page() {
    let twice = RULES.replace("10", "20");
    let (_folder, _, html) = page(&[RULES, &twice], "");
    for want in ["B instead of A", "Newly admitted", "Denied by B", "Rules B"] {
        assert!(html.contains(want), "{want}: {html}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error() {
    let (outcome, _, talk) = replay(&trace(), &[RULES], "--html /nowhere/at/all.html");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(talk.contains("error: cannot write /nowhere/at/all.html"), "{talk}");
}

/// The algorithms with the rule's limit, as text and as JSON.
#[test]
fn every_algorithm_is_compared_with_the_exact_log() {
    let (_, out, _) = replay(&trace(), &[RULES], "--algorithms");
    for want in [
        "    fixed_window               denied 6.250 %, worst window 20, wrongly admitted 31.250 %, wrongly \
         denied 0.000 %\n",
        "    sliding_window_log         denied 37.500 %, worst window 10, wrongly admitted 0.000 %, wrongly \
         denied 0.000 %\n",
    ] {
        assert!(out.contains(want), "{want}: {out}");
    }
    let (_, out, _) = replay(&trace(), &[RULES], "");
    assert!(!out.contains("sliding_window_log"), "{out}");
    let (_, out, _) = replay(&trace(), &[RULES], "--algorithms --json");
    let report: serde_json::Value = serde_json::from_str(&out).expect("JSON");
    let compared = report["rules"][0]["rules"][0]["algorithms"].as_array().expect("a list");
    assert_eq!(compared.len(), 5);
    for it in compared {
        assert_eq!(it["admitted"].as_u64().zip(it["denied"].as_u64()).map(|(a, d)| a + d), Some(32), "{it}");
        let most = it["worst_window"]["admitted"].as_u64().expect("a number");
        assert_eq!(most, if it["algorithm"] == "fixed_window" { 20 } else { 10 }, "{it}");
    }
}

fn browser() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "chrome"];
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let found =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |folder| folder.join(name)));
    let found = named.into_iter().chain(found).find(|path| path.is_file());
    if found.is_none() {
        println!("SKIPPED the report in a browser: chromium is not installed");
    }
    found
}

/// Opens the file in the browser: its document, and its output.
fn opened(browser: &Path, file: &Path, profile: &Path) -> (String, String) {
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
        .args(["--enable-logging=stderr", "--log-level=0", "--dump-dom"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("a browser");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

#[test]
fn a_browser_opens_the_page_and_shows_charts_and_tables() {
    let Some(browser) = browser() else { return };
    let (folder, path, html) = page(&[RULES], "--lang zh-CN");
    let (document, said) = opened(&browser, &path, &folder.path().join("profile"));
    let count = |what: &str| document.matches(what).count();
    assert!(document.contains("<h1>流量回放报告</h1>"), "{document}{said}");
    assert_eq!(count("<svg "), 2, "over time, and worst windows: {document}");
    assert_eq!((count("<figcaption>"), count("class=\"bar ")), (2, 5), "{document}");
    assert_eq!(count("<td"), html.matches("<td").count(), "no cell was moved or dropped: {document}");
    assert_eq!(count("<tbody>"), html.matches("<tbody>").count(), "{document}");
    assert_eq!(count("<script"), 0, "{document}");
    let complaints: Vec<&str> = said.lines().filter(|line| line.contains("CONSOLE")).collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}
