//! Logs of every format, packed and not, whole and broken.

use std::fmt::Write as _;

use proptest::prelude::*;
use tollgate_replay::CommandOutcome;

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

/// Logs of other servers and programs, most of them with their own defaults.
#[test]
fn logs_of_other_servers_are_read_as_they_are() {
    let caddy = r#"{"level":"info","ts":1646861401.5241024,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"192.0.2.1","remote_port":"41342","client_ip":"2001:db8::7","proto":"HTTP/2.0","method":"GET","host":"localhost","uri":"/a","headers":{"User-Agent":["curl/7.82.0"],"Accept":["*/*"]}},"bytes_read":0,"user_id":"","duration":0.000929675,"size":10900,"status":200}
"#;
    let traefik = r#"{"ClientAddr":"192.0.2.9:4711","ClientHost":"192.0.2.9","ClientUsername":"-","DownstreamStatus":200,"RequestMethod":"GET","RequestPath":"/a?b","StartUTC":"2026-11-24T12:00:00.25Z","level":"info","msg":"","time":"2026-11-24T12:00:09Z"}
"#;
    let nginx_main = "192.0.2.1 - ann smith [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 23 \"http://x/y z\" \
                      \"curl \\x22 [a] \\\"b\\\"\" \"203.0.113.9, 192.0.2.200\"\n";
    let vhost = "www.example.com:443 2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] \"GET /a HTTP/1.1\" 200 23 \"-\" \"-\"\n";
    let tls = "192.0.2.1 - - [10/Oct/2000:13:55:36 -0700] \"\\x16\\x03\\x01\" 400 157 \"-\" \"-\"\n";
    for (log, args, want) in [
        (caddy, "", "key \"2001:db8::7\": 1 admitted from 2022-03-09T21:30:01.5241024Z"),
        (caddy, "--key request.uri --map admitted=status=200", "key \"/a\": 1 admitted"),
        (traefik, "", "key \"192.0.2.9\": 1 admitted from 2026-11-24T12:00:00.25Z"),
        (nginx_main, "", "key \"192.0.2.1\": 1 admitted from 2000-10-10T20:55:36Z"),
        (nginx_main, "--key user", "key \"ann smith\": 1 admitted"),
        (nginx_main, "--key referer", "key \"http://x/y z\": 1 admitted"),
        (nginx_main, "--key x_forwarded_for", "key \"203.0.113.9\": 1 admitted"),
        (vhost, "", "key \"2001:db8::1\": 1 admitted"),
        (vhost, "--key host", "key \"www.example.com\": 1 admitted"),
        (tls, "--key status", "key \"400\": 1 admitted"),
        // HAProxy in the common format has milliseconds.
        (
            "192.0.2.1 - - [06/Feb/2009:12:14:14.655 +0000] \"GET / HTTP/1.0\" 200 2750\n",
            "",
            "key \"192.0.2.1\": 1 admitted from 2009-02-06T12:14:14.655Z",
        ),
        // Daylight saving ends: an hour comes twice, with other offsets, and no time goes back.
        (
            "a - - [29/Oct/2000:02:59:59 +0200] \"GET / HTTP/1.0\" 200 1\n\
             a - - [29/Oct/2000:02:00:00 +0100] \"GET / HTTP/1.0\" 200 1\n",
            "--tolerance 0",
            "key \"a\": 2 admitted from 2000-10-29T00:59:59Z to 2000-10-29T01:00:00Z",
        ),
        // Azure's traces: a heading of its own, and times without a zone.
        (
            "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n",
            "--one-key --map cost=contexttokens+generatedtokens",
            "all requests: 418 admitted from 2023-11-16T18:15:46.68059Z",
        ),
        ("Client\tt_s\nx\t1\nx\t2\n", "", "key \"x\": 2 admitted from 1 s to 2 s"),
        ("client;t_s\n\"a;b\";1\n", "", "key \"a;b\": 1 admitted"),
        ("status,client,t_s\n200,\"a, b\",1\n200,\"a, b\",2\n", "", "key \"a, b\": 2 admitted"),
        ("\u{feff}{\"ts\":1,\"ip\":\"x\"}\r\n{\"ts\":2,\"ip\":\"x\"}\r\n", "", "key \"x\": 2 admitted"),
    ] {
        for packed in [log.as_bytes().to_vec(), gzip(log.as_bytes()), zstd(log.as_bytes())] {
            let (outcome, out, talk) = bound(&packed, &format!("--limit 1000 --window 1m {args}"));
            assert!(out.contains(want), "{args}: {log}: {out}{talk}");
            assert_eq!(outcome, CommandOutcome::Yes, "{args}: {log}: {out}{talk}");
        }
    }
}

/// Files that are not logs, or not readable ones: each is named, with a remedy.
#[test]
fn what_is_not_read_is_named_with_what_helps() {
    let utf16: Vec<u8> = "t_s,client\n1,a\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (log, want) in [
        (&b""[..], "the log is empty"),
        (b"\n\n  \n", "the log is empty"),
        (b"t_s,client\n", "the log is empty"),
        (b"[{\"ts\":1,\"ip\":\"a\"},\n{\"ts\":2,\"ip\":\"a\"}]\n", "write one object per line"),
        (b"[2020-11-25T21:09:32.123Z] \"GET / HTTP/1.1\" 200 - 0\n[2020\n", "write its access log as JSON"),
        (
            b"Feb  6 12:14:14 localhost haproxy[14389]: 10.0.1.2:33317 [06/Feb/2009:12:14:14.655] a b/c 10 200\nx\n",
            "`option httplog clf`",
        ),
        (b"#Version: 1.0\n#Fields: date time c-ip\n2020-01-01 00:00:00 1.2.3.4\n", "W3C"),
        (b"BZh91AY&SY", "bzcat FILE"),
        (b"\xfd7zXZ\x00\x00", "xzcat FILE"),
        (b"PK\x03\x04 and so on", "unzip -p FILE"),
        (b"\x7fELF\x02\x01\x01\x00\x80\xff\xfe\n\x00\xff\n", "not UTF-8"),
        (&utf16, "no field for time"),
        (b"t_s,client\n1,\xff\n", "line 2: not UTF-8"),
        (b"t_s,client\n-1,a\n", "is not a time from 1970 to 2554"),
        (b"time,client\n0000-01-01T00:00:00Z,a\n9999-01-01T00:00:00Z,a\n", "is not a time from 1970 to 2554"),
    ] {
        for packed in [log.to_vec(), gzip(log)] {
            let (outcome, out, talk) = bound(&packed, "--limit 1 --window 1s");
            assert_eq!(outcome, CommandOutcome::CouldNotTell, "{want}: {out}{talk}");
            let is_packed_twice = packed != log && want.ends_with("FILE");
            assert!(talk.contains(want) || is_packed_twice, "{want}: {out}{talk}");
        }
    }
    // A cost below zero, of half a permit, or too large to count.
    for (cost, want) in [
        ("-5", "\"-5\" is not a cost"),
        ("1.5", "\"1.5\" is not a cost"),
        ("18446744073709551616", "is not a cost"),
    ] {
        let log = format!("t_s,client,tokens\n1,a,{cost}\n2,a,1\n");
        let (outcome, out, talk) = bound(log.as_bytes(), "--limit 1 --window 1s --map cost=tokens");
        assert_eq!(outcome, CommandOutcome::CouldNotTell, "{out}{talk}");
        assert!(talk.contains("1 of 2 lines are broken") && talk.contains(want), "{talk}");
    }
}

/// A packed file that is a million times as large unpacked, and a line of a hundred megabytes: both are read
/// in the memory of one line.
#[test]
fn a_file_that_unpacks_to_a_hundred_megabytes_of_one_line_is_one_broken_line() {
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut packed, b"t_s,client\n1,a\n").expect("packed");
    let zeros = vec![b'0'; 1 << 20];
    for _ in 0..100 {
        std::io::Write::write_all(&mut packed, &zeros).expect("packed");
    }
    std::io::Write::write_all(&mut packed, b"\n2,a\n").expect("packed");
    let packed = packed.finish().expect("packed");
    assert!(packed.len() < 1 << 20, "{} bytes", packed.len());
    let (outcome, out, talk) = bound(&packed, "--limit 9 --window 1m");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(talk.contains("line 3: longer than 1048576 bytes"), "{talk}");
    assert!(out.contains("verified 2 requests") && talk.len() < 1_000, "{out}{talk}");
}

#[test]
fn frames_to_skip_are_skipped() {
    let skip = [&[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let log = [&skip, &zstd(b"t_s,client\n1,a\n")[..], &skip, &zstd(b"2,a\n")[..]].concat();
    let (outcome, out, talk) = bound(&log, "--limit 9 --window 1m");
    assert_eq!(outcome, CommandOutcome::Yes, "{out}{talk}");
    assert!(out.contains("verified 2 requests"), "{out}");
    for end in [log.len() - 1, skip.len() - 1, 6] {
        assert_eq!(
            bound(&log[..end], "--limit 9 --window 1m").0,
            CommandOutcome::CouldNotTell,
            "{end} bytes"
        );
    }
}

/// The command waits for a pipe without a writer, as `cat` does, but says so; then the pipe is read as it is
/// written.
#[test]
fn a_pipe_is_waited_for_and_the_command_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
        .expect("a pipe");
    let to = path.clone();
    let writer = std::thread::spawn(move || std::fs::write(to, "t_s,client\n1,a\n2,a\n").expect("written"));
    let (outcome, out, talk) = crate::bound_of(&path, "--limit 9 --window 1m");
    writer.join().expect("no panic");
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    assert!(talk.contains("LOG is a pipe: reading what is written to it"), "{talk}");
    assert!(out.contains("verified 2 requests"), "{out}");
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
    assert_eq!(outcome, CommandOutcome::Yes, "{out}{talk}");
    assert!(out.contains("key \"a\": 100 admitted from 0.001 s to 0.999 s"), "{out}");
    std::fs::write(&file, "format: csv\ncolums: [at]\n").expect("written");
    let (outcome, _, talk) = bound(b"1,a\n", &args);
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(talk.contains("map.yaml:2:1: unknown key colums; did you mean columns?"), "{talk}");
}

#[test]
fn broken_lines_are_counted_and_the_first_three_are_quoted() {
    let mut log = String::from("t_s,client\n");
    for line in 0..20 {
        let _ = writeln!(log, "{}", if line % 4 == 3 { "no\u{1b}pe" } else { "1,a" });
    }
    let (outcome, out, talk) = bound(log.as_bytes(), "--limit 100 --window 1s");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
    assert!(out.contains("kept as far as verified"), "{out}");
    assert!(talk.contains("5 of 20 lines are broken"), "{talk}");
    let quotes = talk.lines().filter(|line| line.contains("fewer fields than columns")).count();
    assert_eq!(quotes, 3, "{talk}");
    assert!(talk.contains("line 5: ") && talk.contains("line 9: ") && talk.contains("line 13: "), "{talk}");
    assert!(!talk.contains('\u{1b}'), "a terminal must not act on what a log contains: {talk:?}");
    let (outcome, _, talk) = bound(log.as_bytes(), "--limit 100 --window 1s --strict");
    assert_eq!(outcome, CommandOutcome::CouldNotTell);
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
        assert_eq!(bound(&packed, "--limit 100 --window 1s").0, CommandOutcome::Yes);
        for end in 5..packed.len() {
            let (outcome, out, talk) = bound(&packed[..end], "--limit 100 --window 1s");
            assert_eq!(outcome, CommandOutcome::CouldNotTell, "{end} of {} bytes: {out}{talk}", packed.len());
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
