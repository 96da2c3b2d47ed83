//! The vectors of other libraries against ours.
#![expect(clippy::expect_used, reason = "a test that cannot set up its case has failed")]

use serde_json::{Value, json};
use tollgate_testkit::vectors::{ExpectedVerdict, File, report, run};

#[path = "vectors/changed.rs"]
mod changed;

#[test]
fn our_copy_is_answered_as_written_or_as_our_laws_say() {
    let file = File::parse(include_str!("../vectors/libraries.json")).expect("vectors");
    let mut said = Vec::new();
    let tally = report(&file, &mut said).expect("memory can be written to");
    let said = String::from_utf8(said).expect("text");
    assert_eq!((tally.failed, tally.skipped), (0, 0), "{said}");
    assert!(tally.passed >= 125, "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("differs by law")).count(), 9, "{said}");
}

fn vector(text: &str) -> Value {
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
    assert_eq!(run(&wrong), ExpectedVerdict::Failed(said.to_owned()));
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
    assert_eq!(run(&wait(1.38)), ExpectedVerdict::Passed);
    for wrong in [1.36, 1.39] {
        assert!(matches!(run(&wait(wrong)), ExpectedVerdict::Failed(_)), "{wrong}");
    }
}

#[test]
fn what_cannot_be_expressed_is_skipped_with_the_reason() {
    let strange = vector(r#"{"id": "x", "algorithm": "vegas", "params": {}, "steps": []}"#);
    assert_eq!(run(&strange), ExpectedVerdict::Skipped("no such algorithm in the library: vegas".to_owned()));
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
    assert_eq!(run(&wait(99_999_999, false)), ExpectedVerdict::Passed);
    assert_eq!(run(&wait(100_000_000, true)), ExpectedVerdict::Passed);
    assert!(matches!(run(&wait(99_999_999, true)), ExpectedVerdict::Failed(_)));
    assert!(matches!(run(&wait(100_000_000, false)), ExpectedVerdict::Failed(_)));
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
        assert_eq!(run(&strange), ExpectedVerdict::Skipped(reason.to_owned()), "{algorithm}");
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
    assert_eq!(play("concurrency_aimd", "{}", &aimd), ExpectedVerdict::Passed);
    let vegas = both(sample(10, false, 20), sample(10, false, 26));
    assert_eq!(play("concurrency_vegas", "{}", &vegas), ExpectedVerdict::Passed);
    let gradient = both(sample(10, false, 20), sample(10, false, 21));
    assert_eq!(play("concurrency_gradient2", "{}", &gradient), ExpectedVerdict::Passed);
    let wrong = "step 0 (sample at 0 ns): limit: expected 22, got 21".to_owned();
    assert_eq!(play("concurrency_aimd", "{}", &sample(1, false, 22)), ExpectedVerdict::Failed(wrong));
    let other = r#"{"t_ns": 0, "op": "probe", "expect": {"limit": 1}}"#;
    let reason = "`probe` of a learning limit".to_owned();
    assert_eq!(play("concurrency_vegas", "{}", other), ExpectedVerdict::Skipped(reason));
    let strange = play("concurrency_vegas", r#"{"decrease": "L-1"}"#, &vegas);
    assert_eq!(strange, ExpectedVerdict::Skipped("a limit that is lowered by L-1".to_owned()));
}

#[test]
fn what_lacks_a_part_or_compares_nothing_is_skipped_with_the_reason() {
    let check = json!({"t_ns": 0, "op": "check", "n": 1, "expect": {"ok": true, "remaining": 1}});
    let with = |params: Value, steps: Value| json!({"id": "x", "algorithm": "gcra", "params": params, "steps": steps});
    let params = json!({"period_per_token_ns": 100, "burst": 2});
    assert_eq!(run(&with(params.clone(), json!([check]))), ExpectedVerdict::Passed);
    let changed = |name: &str, value: Value| {
        let mut step = check.clone();
        step[name] = value;
        with(params.clone(), json!([step]))
    };
    for (strange, reason) in [
        (json!(7), "a vector that is not an object: 7"),
        (json!({"id": "x", "steps": []}), "`algorithm` is missing"),
        (json!({"algorithm": "gcra", "tide": 3}), "`tide` of a vector"),
        (with(params.clone(), json!([])), "steps that compare nothing"),
        (with(params.clone(), json!(3)), "`steps` is not a list: 3"),
        (with(params.clone(), json!([3])), "a step that is not an object: 3"),
        (with(json!([]), json!([check])), "parameters that is not an object: []"),
        (with(json!({"burst": 2}), json!([check])), "`period_per_token_ns` is missing"),
        (
            with(json!({"period_per_token_ns": 100, "burst": 2, "tide": 3}), json!([check])),
            "`tide` of the parameters",
        ),
        (
            with(json!({"period_per_token_ns": 100.5, "burst": 2}), json!([check])),
            "`period_per_token_ns` is not a whole number from 0 to 2^64 - 1: 100.5",
        ),
        (changed("expect", json!({})), "steps that compare nothing"),
        (changed("expect", Value::Null), "`check` that expects nothing"),
        (changed("expect", json!("yes")), "`expect` is not an object: \"yes\""),
        (changed("expect", json!({"mood": 1})), "`mood` of `check` is not to be had"),
        (changed("expect", json!({"ok": true, "tol_us": 9})), "`tol_us` of `check` is not to be had"),
        (changed("n", json!(-1)), "`n` is not a whole number from 0 to 2^64 - 1: -1"),
        (changed("n", json!(1.5)), "`n` is not a whole number from 0 to 2^64 - 1: 1.5"),
        (changed("n", Value::Null), "`n` is missing"),
        (changed("t_ns", json!(-5)), "`t_ns` is not a whole number from 0 to 2^64 - 1: -5"),
        (changed("t_ns", json!(u64::MAX)), "an instant after the year 2554: 18446744073709551615 ns"),
        (changed("deadline_ns", json!(5)), "`deadline_ns` of `check`"),
        (changed("op", json!("consult")), "no such operation: consult"),
        (changed("op", json!(["check"])), "`op` is not a text: [\"check\"]"),
    ] {
        assert_eq!(run(&strange), ExpectedVerdict::Skipped(reason.to_owned()), "{strange}");
    }
}

#[test]
fn a_step_that_means_more_calls_than_anybody_waits_for_is_skipped() {
    let params = json!({"rate_per_s": 10, "burst": 1});
    for (step, reason) in [
        (
            json!({"t_ns": 0, "op": "allow_many", "n": 1, "count": 1_000_001, "expect": {"ok_count": 1}}),
            "`count` is 1000001: more than a million calls in one step",
        ),
        (
            json!({"t_ns": 0, "op": "allow_every", "n": 1, "every_ns": 0, "until_ns": 9, "expect": {"ok_count_min": 1}}),
            "more than a million calls in one step",
        ),
        (
            json!({"t_ns": 0, "op": "acquire_total", "n": u64::MAX, "expect": {"total_ns": 1}}),
            "`n` is 18446744073709551615: more than a million calls in one step",
        ),
    ] {
        let vector = json!({"id": "x", "algorithm": "token_bucket", "params": params, "steps": [step]});
        assert_eq!(run(&vector), ExpectedVerdict::Skipped(reason.to_owned()), "{vector}");
    }
}

#[test]
fn a_tolerance_of_times_is_none_of_permits_and_large_numbers_are_compared_to_the_last_digit() {
    let check = |t_ns: u64, expect: Value| {
        let params = json!({"period_per_token_ns": 100, "burst": 2, "tol_ns": 1_000});
        let step = json!({"t_ns": t_ns, "op": "rate_limit", "n": 1, "expect": expect});
        json!({"id": "x", "algorithm": "gcra", "params": params, "steps": [step]})
    };
    assert_eq!(run(&check(0, json!({"remaining": 1, "reset_after_ns": 1_100}))), ExpectedVerdict::Passed);
    assert!(matches!(run(&check(0, json!({"reset_after_ns": 1_101}))), ExpectedVerdict::Failed(_)));
    assert!(matches!(run(&check(0, json!({"remaining": 2}))), ExpectedVerdict::Failed(_)));
    let large = |granted: u64| {
        let params = json!({"rate_per_s": 1e18, "burst": (1_u64 << 53) + 1});
        let step = json!({"t_ns": 0, "op": "consume_as_much", "expect": {"granted": granted}});
        json!({"id": "x", "algorithm": "token_bucket", "params": params, "steps": [step]})
    };
    let verdict = run(&large((1 << 53) + 1));
    if verdict == ExpectedVerdict::Passed {
        assert!(matches!(run(&large(1 << 53)), ExpectedVerdict::Failed(_)));
    } else {
        assert!(matches!(verdict, ExpectedVerdict::Skipped(_)), "{verdict:?}");
    }
}

#[test]
fn a_file_is_an_object_or_a_list_and_one_strange_vector_does_not_hide_the_others() {
    let good = r#"{"id": "good", "algorithm": "gcra", "params": {"period_per_token_ns": 100, "burst": 2}, "steps": [
        {"t_ns": 0, "op": "check", "n": 1, "expect": {"ok": true}}]}"#;
    for text in [format!("[3, {good}]"), format!(r#"{{"vectors": [3, {good}]}}"#)] {
        let mut said = Vec::new();
        let tally =
            report(&File::parse(&text).expect("a file"), &mut said).expect("memory can be written to");
        assert_eq!((tally.passed, tally.failed, tally.skipped), (1, 0, 1));
        let said = String::from_utf8(said).expect("text");
        assert!(said.contains("a vector that is not an object: 3: (vector 0, without a name)"), "{said}");
    }
    for (text, error) in
        [("3", "expected an object with the list"), ("{", "invalid JSON"), ("{}", "expected an object")]
    {
        let said = File::parse(text).expect_err(text).to_string();
        assert!(said.starts_with(error), "{said}");
    }
}

#[test]
fn windows_of_any_length_begin_with_the_vector_and_promise_permits_of_those_to_come() {
    let reserve = |t_ns: u64, n: u64, last_wait_ns: u64, next_free_ns: u64| {
        json!({"t_ns": t_ns, "op": "reserve", "n": n,
            "expect": {"last_wait_ns": last_wait_ns, "next_free_ns": next_free_ns}})
    };
    // Seven nanoseconds do not divide a day.
    let steps = json!([reserve(0, 1, 0, 7), reserve(3, 2, 11, 21), reserve(50, 1, 0, 56)]);
    let grid = json!({"id": "x", "algorithm": "leaky_bucket_queue_grid", "params": {"interval_ns": 7}, "steps": steps});
    assert_eq!(run(&grid), ExpectedVerdict::Passed);
    let steps = json!([reserve(0, 1, 0, 7), reserve(3, 2, 12, 21)]);
    let grid = json!({"id": "x", "algorithm": "leaky_bucket_queue_grid", "params": {"interval_ns": 7}, "steps": steps});
    assert!(matches!(run(&grid), ExpectedVerdict::Failed(_)));
}
