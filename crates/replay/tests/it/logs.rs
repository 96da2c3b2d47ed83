//! Logs of every format, packed and not, whole and broken.

use std::fmt::Write as _;

use proptest::prelude::*;
use tollgate_replay::Outcome;

use crate::{bound, gzip, zstd};

pub(crate) const COMBINED: &str = r#"192.0.2.1 - ann [10/Oct/2000:13:55:36 -0700] "GET /a?b=\"c\" HTTP/1.0" 200 23 "-" "curl \"8\""
192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] "GET /b HTTP/1.0" 429 23 "-" "curl"
192.0.2.2 - - [10/Oct/2000:13:55:37 -0700] "-" 400 0
192.0.2.1 - - [10/Oct/2000:20:55:38 +0000] "GET /a HTTP/1.0" 200 -
"#;

const ENVOY: &str = r#"{"start_time":"2000-10-10T20:55:36.000Z","downstream_remote_address":"192.0.2.1:4711","response_code":200,"x_forwarded_for":"203.0.113.9"}
{"start_time":"2000-10-10T20:55:37.500Z","downstream_remote_address":"192.0.2.1:4712","response_code":200,"x_forwarded_for":null}
{"start_time":"2000-10-10T20:55:37.600Z","downstream_remote_address":"[2001:db8::1]:80","response_code":429}
"#;

const NESTED: &str = r#"{"ts":971211336.5,"request":{"client":{"id":"a\"b"}},"tokens":[1,2]}
{"ts":971211336.75,"request":{"client":{"id":"a\"b"}}}
"#;

#[test]
fn every_format_is_recognized_and_read() {
    for (log, args, want) in [
        (COMBINED, "", "key \"192.0.2.1\": 3 admitted from 2000-10-10T20:55:36Z to 2000-10-10T20:55:38Z"),
        (COMBINED, "--map admitted=status!=429", "key \"192.0.2.1\": 2 admitted"),
        (COMBINED, "--key path", "key \"/a\": 2 admitted"),
        (COMBINED, "--key client --key path", "key \"192.0.2.1, /a\": 2 admitted"),
        (COMBINED, "--one-key", "all requests: 4 admitted"),
        (COMBINED, "--one-key --map cost=bytes --strict", "all requests: 46 admitted"),
        (ENVOY, "", "key \"192.0.2.1\": 2 admitted from 2000-10-10T20:55:36Z to 2000-10-10T20:55:37.5Z"),
        (ENVOY, "--map format=envoy --map admitted=response_code!=200", "key \"2001:db8::1\": 1 admitted"),
        (
            NESTED,
            "--key request.client.id",
            "2 admitted from 2000-10-10T20:55:36.5Z to 2000-10-10T20:55:36.75Z",
        ),
        ("t_s,client\n\"1\",\"a,b\"\"c\"\n2,x\n3,x\n", "", "key \"x\": 2 admitted from 2 s to 3 s"),
        ("5;a\n", "--map format=csv --map columns=time --key time", "no line"),
        ("1,a\r\n2,a\r\n", "--map columns=t_s,client", "key \"a\": 2 admitted from 1 s to 2 s"),
        ("\u{feff}t_s,client\n1,a\n", "", "key \"a\": 1 admitted"),
    ] {
        for packed in [log.as_bytes().to_vec(), gzip(log.as_bytes()), zstd(log.as_bytes())] {
            let (_, out, talk) = bound(&packed, &format!("--limit 100 --window 1m {args}"));
            assert!(format!("{out}{talk}").contains(want), "{args}: {log}: {out}{talk}");
        }
    }
}

#[test]
fn a_mapping_file_says_what_fields_mean() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("map.yaml");
    std::fs::write(
        &file,
        "format: csv\ncolumns: [at, who, in, out]\ntime: at\ntime_unit: ms\ncost: in + out\n",
    )
    .expect("written");
    let args = format!("--limit 100 --window 1s --key who --mapping {}", file.display());
    let (outcome, out, talk) = bound(b"1,a,60,2\n999,a,30,8\n", &args);
    assert_eq!(outcome, Outcome::Yes, "{out}{talk}");
    assert!(out.contains("key \"a\": 100 admitted from 0.001 s to 0.999 s"), "{out}");
    std::fs::write(&file, "format: csv\ncolums: [at]\n").expect("written");
    let (outcome, _, talk) = bound(b"1,a\n", &args);
    assert_eq!(outcome, Outcome::CouldNotTell);
    assert!(talk.contains("map.yaml:2:1: unknown key colums; did you mean columns?"), "{talk}");
}

#[test]
fn broken_lines_are_counted_and_the_first_three_are_quoted() {
    let mut log = String::from("t_s,client\n");
    for line in 0..20 {
        let _ = writeln!(log, "{}", if line % 4 == 3 { "no\u{1b}pe" } else { "1,a" });
    }
    let (outcome, out, talk) = bound(log.as_bytes(), "--limit 100 --window 1s");
    assert_eq!(outcome, Outcome::CouldNotTell);
    assert!(out.contains("kept as far as verified"), "{out}");
    assert!(talk.contains("5 of 20 lines are broken"), "{talk}");
    let quotes = talk.lines().filter(|line| line.contains("fewer fields than columns")).count();
    assert_eq!(quotes, 3, "{talk}");
    assert!(talk.contains("line 5: ") && talk.contains("line 9: ") && talk.contains("line 13: "), "{talk}");
    assert!(!talk.contains('\u{1b}'), "a terminal must not act on what a log contains: {talk:?}");
    let (outcome, _, talk) = bound(log.as_bytes(), "--limit 100 --window 1s --strict");
    assert_eq!(outcome, Outcome::CouldNotTell);
    assert!(talk.starts_with("error: line 5: fewer fields than columns"), "{talk}");
    // A line without an end does not fill the memory.
    let endless = [b"t_s,client\n1,a\n".to_vec(), vec![b'x'; 5 << 20]].concat();
    let (_, _, talk) = bound(&endless, "--limit 100 --window 1s");
    assert!(talk.contains("line 3: longer than 1048576 bytes"), "{talk}");
    // A quote that is never closed swallows one line only.
    let (_, out, talk) = bound(b"t_s,client\n1,\"a\n2,b\n3,b\n", "--limit 100 --window 9s");
    assert!(
        talk.contains("line 2: a quote is not closed on its line") && out.contains("verified 2"),
        "{talk}{out}"
    );
}

#[test]
fn a_log_that_is_cut_off_anywhere_says_so_and_never_passes_for_whole() {
    let mut log = String::from("t_s,client\n");
    for at in 0..400 {
        let _ = writeln!(log, "{at},client-{}", at * 7919 % 31);
    }
    for packed in [gzip(log.as_bytes()), zstd(log.as_bytes())] {
        assert_eq!(bound(&packed, "--limit 100 --window 1s").0, Outcome::Yes);
        for end in 5..packed.len() {
            let (outcome, out, talk) = bound(&packed[..end], "--limit 100 --window 1s");
            assert_eq!(outcome, Outcome::CouldNotTell, "{end} of {} bytes: {out}{talk}", packed.len());
        }
    }
    // Two files one after another are one log.
    let twice = [gzip(log.as_bytes()), gzip(b"400,x\n")].concat();
    assert!(bound(&twice, "--limit 100 --window 1s").1.contains("verified 401 requests"));
    let twice = [zstd(log.as_bytes()), zstd(b"400,x\n")].concat();
    assert!(bound(&twice, "--limit 100 --window 1s").1.contains("verified 401 requests"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_bytes_make_a_reader_panic(
        start in prop::sample::select(vec![
            "", "{", "{\"ts\":1,", "t_s,client\n", "a - - [10/Oct/2000:13:55:36 -0700] \"",
            "\u{1f}", "[[[[", "{\"a\":{\"a\":{\"a\":{\"a\":",
        ]),
        format in prop::sample::select(vec!["", "--map format=csv", "--map format=json", "--map format=common"]),
        bytes in prop::collection::vec(prop_oneof![
            3 => prop::sample::select(b"\"\\,{}[]:-/ \n\r019ae.".to_vec()), 1 => any::<u8>(),
        ], 0..300),
        magic in prop::sample::select(vec![&b""[..], &[0x1f, 0x8b, 8, 0], &[0x28, 0xb5, 0x2f, 0xfd]]),
    ) {
        let log = [magic, start.as_bytes(), &bytes].concat();
        let _ = bound(&log, &format!("--limit 1 --window 1s --one-key {format}"));
    }
}
