//! The vectors of other libraries against ours.
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
    assert!(tally.passed >= 104, "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("differs by law")).count(), 8, "{said}");
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
fn a_warm_up_that_is_a_hundredth_of_a_second_off_fails() {
    let wait = |wait_s: f64| {
        vector(&format!(
            r#"{{"id": "x", "algorithm": "guava_smooth_warming_up",
                "params": {{"rate_per_s": 2, "warmup_s": 4, "cold_factor": 3}}, "steps": [
                {{"t_ns": 0, "op": "acquire", "n": 1, "expect": {{"wait_s": 0}}}},
                {{"t_ns": 0, "op": "acquire", "n": 1, "expect": {{"wait_s": {wait_s}}}}}]}}"#
        ))
    };
    assert_eq!(run(&wait(1.38)), Verdict::Passed);
    for wrong in [1.36, 1.39] {
        assert!(matches!(run(&wait(wrong)), Verdict::Failed(_)), "{wrong}");
    }
}

#[test]
fn what_cannot_be_expressed_is_skipped_with_the_reason() {
    let strange = vector(r#"{"id": "x", "algorithm": "vegas", "params": {}, "steps": []}"#);
    assert_eq!(run(&strange), Verdict::Skipped("no such algorithm in the library: vegas".to_owned()));
}

#[test]
fn a_deadline_that_is_not_met_is_seen_and_one_that_is_met_too() {
    let wait = |deadline_ns: u64, ok: bool| {
        vector(&format!(
            r#"{{"id": "x", "algorithm": "token_bucket", "params": {{"rate_per_s": 10, "burst": 1}}, "steps": [
                {{"t_ns": 0, "op": "wait", "n": 1, "expect": {{"ok": true, "wait_ns": 0}}}},
                {{"t_ns": 0, "op": "wait", "n": 1, "deadline_ns": {deadline_ns}, "expect": {{"ok": {ok}}}}}]}}"#
        ))
    };
    assert_eq!(run(&wait(99_999_999, false)), Verdict::Passed);
    assert_eq!(run(&wait(100_000_000, true)), Verdict::Passed);
    assert!(matches!(run(&wait(99_999_999, true)), Verdict::Failed(_)));
    assert!(matches!(run(&wait(100_000_000, false)), Verdict::Failed(_)));
}

#[test]
fn a_shape_that_is_not_known_is_skipped_with_the_reason_and_never_a_panic() {
    let step = r#"{"t_ns": 9, "op": "count_taken_before", "n": 1, "expect": {"count": 1}}"#;
    let known = r#""rate": 1, "per_ns": 100"#;
    for (algorithm, params, step, reason) in [
        (
            "leaky_bucket_queue",
            format!(r#"{known}, "slack": 1"#),
            step.to_owned(),
            "callers that take from other than one limiter, or two in turn",
        ),
        ("leaky_bucket_queue", known.to_owned(), step.to_owned(), "a limiter without a quota"),
        (
            "token_bucket_multi",
            r#""bandwidths": []"#.to_owned(),
            step.to_owned(),
            "a limiter without a quota",
        ),
        (
            "gcra",
            r#""period_per_token_ns": 100, "burst": 2"#.to_owned(),
            r#"{"t_ns": 0, "op": "check", "n": 1, "tide": 3, "expect": {"ok": true}}"#.to_owned(),
            "`tide` of `check`",
        ),
    ] {
        let strange = vector(&format!(
            r#"{{"id": "x", "algorithm": "{algorithm}", "params": {{{params}}}, "steps": [{step}]}}"#
        ));
        assert_eq!(run(&strange), Verdict::Skipped(reason.to_owned()), "{algorithm}");
    }
}

#[test]
fn limits_that_learn_are_played_by_the_types_of_the_library() {
    let play = |algorithm: &str, params: &str, steps: &str| {
        let text =
            format!(r#"{{"id": "x", "algorithm": "{algorithm}", "params": {params}, "steps": [{steps}]}}"#);
        run(&vector(&text))
    };
    let sample = |rtt_ms: u64, dropped: bool, limit: u64| {
        let rtt_ns = rtt_ms * 1_000_000;
        format!(
            r#"{{"t_ns": 0, "op": "sample", "n": 1, "rtt_ns": {rtt_ns}, "inflight": 20, "dropped": {dropped},
                "expect": {{"limit": {limit}}}}}"#
        )
    };
    let both = |first: String, second: String| format!("{first}, {second}");
    let aimd = both(sample(1, false, 21), sample(1, true, 20));
    assert_eq!(play("concurrency_aimd", "{}", &aimd), Verdict::Passed);
    let vegas = both(sample(10, false, 20), sample(10, false, 26));
    assert_eq!(play("concurrency_vegas", "{}", &vegas), Verdict::Passed);
    let gradient = both(sample(10, false, 20), sample(10, false, 21));
    assert_eq!(play("concurrency_gradient2", "{}", &gradient), Verdict::Passed);
    let wrong = "step 0 (sample at 0 ns): limit: expected 22, got 21".to_owned();
    assert_eq!(play("concurrency_aimd", "{}", &sample(1, false, 22)), Verdict::Failed(wrong));
    let other = r#"{"t_ns": 0, "op": "probe", "expect": {"limit": 1}}"#;
    let reason = "probe of a learning limit".to_owned();
    assert_eq!(play("concurrency_vegas", "{}", other), Verdict::Skipped(reason));
    let strange = play("concurrency_vegas", r#"{"decrease": "L-1"}"#, &vegas);
    assert_eq!(strange, Verdict::Skipped("a limit that is lowered by L-1".to_owned()));
}
