//! The vectors of other libraries against our core.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use std::path::Path;

use tollgate_testkit::vectors::{File, Tally, Vector, Verdict, report, run};

fn play(path: &Path) -> Option<(Tally, String)> {
    let file: File = serde_json::from_str(&std::fs::read_to_string(path).ok()?).expect("vectors");
    let mut said = Vec::new();
    let tally = report(&file, &mut said).expect("memory can be written to");
    Some((tally, String::from_utf8(said).expect("text")))
}

#[test]
fn our_copy_is_answered_as_written_or_as_our_laws_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/buckets_and_windows.json");
    let (tally, said) = play(&path).expect("our copy");
    assert_eq!((tally.failed, tally.skipped), (0, 0), "{said}");
    assert!(tally.passed >= 85, "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("differs by law")).count(), 6, "{said}");
}

#[test]
fn the_whole_file_has_no_vector_that_fails() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/vectors/library_vectors.json");
    let Some((tally, said)) = play(&path) else {
        println!("skipped: library_vectors.json is not here");
        return;
    };
    println!("{said}");
    assert_eq!(tally.failed, 0, "{said}");
}

fn vector(text: &str) -> Vector {
    serde_json::from_str(text).expect("a vector")
}

#[test]
fn a_wrong_number_fails_and_says_where() {
    let wrong = vector(
        r#"{"id": "x", "algorithm": "gcra", "params": {"period_per_token_ns": 100, "burst": 2}, "steps": [
            {"t_ns": 0, "op": "check", "n": 1, "expect": {"ok": true, "remaining": 1}},
            {"t_ns": 0, "op": "check", "n": 1, "expect": {"ok": true, "remaining": 1}}]}"#,
    );
    let said = "step 1 (check at 0 ns): remaining: expected 1, got 0";
    assert_eq!(run(&wrong), Verdict::Failed(said.to_owned()));
}

#[test]
fn what_cannot_be_expressed_is_skipped_with_the_reason() {
    let strange = vector(r#"{"id": "x", "algorithm": "vegas", "params": {}, "steps": []}"#);
    assert_eq!(run(&strange), Verdict::Skipped("no such algorithm in the core: vegas".to_owned()));
}
