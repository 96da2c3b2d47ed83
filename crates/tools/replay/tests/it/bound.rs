//! `tollgate bound`: its output, word for word.

use tollgate_replay::CommandOutcome;

use crate::{bound, bound_of};

/// Requests of `client` at these milliseconds.
fn log(requests: &[(&str, u64)]) -> Vec<u8> {
    let lines = requests.iter().map(|(client, at_ms)| format!("{at_ms},{client}\n"));
    format!("t_ms,client\n{}", lines.collect::<String>()).into_bytes()
}

#[test]
fn a_window_with_one_too_many_is_found_and_its_place_is_named() {
    let log = log(&[("ann", 0), ("bob", 1), ("ann", 500), ("ann", 999), ("bob", 1_001), ("ann", 1_400)]);
    let (outcome, out, talk) = bound(&log, "--limit 2 --window 1s");
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::No, ""));
    let want = "\
bound    2 in any 1s, for each key
verdict  broken
verified 6 requests
broken   by 2 requests, keys: 1
worst    key \"ann\": 3 admitted from 0 s to 0.999 s
         2 may be: 1 more
";
    assert_eq!(out, want);
    let (outcome, out, _) = bound(&log, "--limit 3 --window 1s");
    assert_eq!(outcome, CommandOutcome::Yes);
    assert!(out.contains("verdict  kept\n") && out.contains("3 may be: 0 less"), "{out}");
}

#[test]
fn a_bucket_is_held_to_its_burst_and_its_rate_at_once() {
    // Ten a second after a burst of three: at 100 ms one more may be, at 299 ms two.
    let good = log(&[("a", 0), ("a", 0), ("a", 0), ("a", 100), ("a", 200), ("a", 10_000), ("a", 10_000)]);
    assert_eq!(bound(&good, "--rate 10/s --burst 3").0, CommandOutcome::Yes);
    let bad = log(&[("a", 0), ("a", 0), ("a", 0), ("a", 99)]);
    let (outcome, out, _) = bound(&bad, "--rate 10/s --burst 3");
    assert_eq!(outcome, CommandOutcome::No);
    assert!(out.contains("key \"a\": 4 admitted from 0 s to 0.099 s\n         3 may be: 1 more"), "{out}");
}

#[test]
fn a_question_that_is_wrong_is_not_answered() {
    let some = log(&[("a", 0)]);
    for (log, args, want) in [
        (&b""[..], "--limit 1 --window 1s", "the log is empty"),
        (b"t_ms,client\n", "--limit 1 --window 1s", "the log is empty"),
        (&some, "--limit 1 --window 1s --key user", "it has none"),
        (&some, "--limit 1 --window 1s --map time=when", "there is no when; the columns are t_ms, client"),
        (&some, "--limit 1 --window 1s --map tiem=when", "unknown key tiem; did you mean time?"),
        (&some, "--limit 1 --window 1s --map format=xml", "unknown format xml"),
        (&some, "--limit 1 --window 1s --mapping /nowhere", "cannot read the mapping /nowhere"),
        (&some, "--rate 10/moon --burst 1", "--rate 10/moon"),
    ] {
        let (outcome, out, talk) = bound(log, args);
        assert_eq!(outcome, CommandOutcome::CouldNotTell, "{args}: {out}");
        let want = want.replace("it has none", "there is no user");
        assert!(talk.contains(&want), "{args}: {talk}");
    }
    let (outcome, _, talk) = bound_of("/nowhere/log".as_ref(), "--limit 1 --window 1s");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(talk.starts_with("error: cannot read LOG: "), "{talk}");
}

#[test]
fn requests_out_of_order_are_sorted_within_the_tolerance_and_left_out_beyond() {
    let mixed = log(&[
        ("a", 20_000),
        ("a", 11_000),
        ("a", 20_500),
        ("a", 30_501),
        ("a", 100_000),
        ("a", 111_000),
        ("a", 50_000),
    ]);
    let (outcome, out, talk) = bound(&mixed, "--limit 1 --window 5s");
    assert_eq!(outcome, CommandOutcome::No);
    assert!(out.contains("2 admitted from 20 s to 20.5 s"), "{out}");
    assert!(
        talk.contains("2 requests are out of order, by up to 61 s: 1 were sorted, 1 were more"),
        "{talk}"
    );
    let late = log(&[("a", 100_000), ("a", 50_000)]);
    let (outcome, out, _) = bound(&late, "--limit 1 --window 60s --tolerance 0");
    assert_eq!(outcome, CommandOutcome::CouldNotTell, "what is late is not verified: {out}");
    assert!(out.contains("verdict  kept as far as verified"), "{out}");
    assert_eq!(bound(&late, "--limit 1 --window 60s --tolerance 50s").0, CommandOutcome::No);
}

#[test]
fn keys_beyond_the_memory_are_left_out_and_counted() {
    let many: String = (0..40_000).map(|key| format!("{key},{key:0>40}\n")).collect();
    let log = format!("t_us,client\n{many}");
    let (outcome, _, talk) = bound(log.as_bytes(), "--limit 5 --window 1h --max-memory 1");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(talk.contains("were active at the same time, more than --max-memory 1 holds"), "{talk}");
    // Keys that are idle for a window are forgotten without loss.
    let (outcome, out, talk) = bound(log.as_bytes(), "--limit 5 --window 1ms --max-memory 1");
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""), "{out}");
    let (outcome, out, talk) = bound(log.as_bytes(), "--rate 5000/s --burst 5 --max-memory 1");
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""), "{out}");
}

#[test]
fn a_line_without_a_key_is_quoted_by_its_own_number_also_where_lines_are_sorted() {
    let log = b"{\"t_s\": 1, \"client\": \"a\"}\n{\"t_s\": 2}\n{\"t_s\": 3, \"client\": \"a\"}\n{\"t_s\": 4, \"client\": \"a\"}\n";
    for args in ["--limit 9 --window 1m", "--limit 9 --window 1m --tolerance 0s"] {
        let (_, _, talk) = bound(log, args);
        let want = "line 2: no field for the key: ";
        assert!(talk.contains(want) && talk.contains("{\\\"t_s\\\": 2}"), "{args}: {talk}");
    }
    let (_, _, talk) = bound(log, "--limit 9 --window 1m --strict");
    assert!(talk.contains("line 2: "), "{talk}");
}

#[test]
fn keys_of_several_fields_are_different_where_their_values_are() {
    let log = b"{\"t_s\": 1, \"a\": \"x, y\", \"b\": \"z\"}\n{\"t_s\": 1, \"a\": \"x\", \"b\": \"y, z\"}\n";
    let (outcome, out, talk) = bound(log, "--limit 1 --window 1m --key a --key b");
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
    assert!(out.contains("key \"x, y, z\": 1 admitted"), "{out}");
}
