//! `tollgate replay`: its counts, comparisons and suggestions.

use std::fmt::Write as _;

use serde_json::Value;
use tollgate_replay::CommandOutcome;

use crate::{replay, replay_args, trace_file};

const TEN_A_MINUTE: &str = "domain: web\ndescriptors:\n  - key: remote_address\n    rate_limit: {unit: minute, \
                            requests_per_unit: 10, algorithm: ALGORITHM}\n";

fn rules(algorithm: &str) -> String {
    TEN_A_MINUTE.replace("ALGORITHM", algorithm)
}

/// Requests of `client` at these seconds.
fn log(requests: impl Iterator<Item = (u64, &'static str)>) -> String {
    requests.fold("t_s,client\n".to_owned(), |mut log, (at, client)| {
        let _ = writeln!(log, "{at},{client}");
        log
    })
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn a_fixed_window_admits_twice_its_limit_around_a_minute_and_the_report_shows_where() {
    // Ten just before the minute, ten just after, and two more: nothing of this is near for bob.
    let ann = (0..10).map(|_| (59, "ann")).chain((0..12).map(|_| (60, "ann")));
    let trace = log(ann.chain([(61, "bob")]));
    let (outcome, out, talk) = replay(&trace, &[&rules("fixed_window")], "");
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
    for want in [
        "trace    23 requests in 2s",
        "admitted 21, denied 2 (8.696 %)",
        "remote_address: 10 per minute, fixed_window",
        "offered 23, admitted 21, denied 2, near the limit 4",
        "keys 2, of which 1 were denied something",
        "wrongly admitted 43.478 %, wrongly denied 0.000 %",
        "worst window: 20 admitted of 10 (10 per minute, fixed_window), \"web|remote_address=ann|minute\", \
         59 s to 60 s",
        "denied        2  \"web|remote_address=ann|minute\"",
        "enough for 99 % of the keys: 22 in any 1m; or a burst of 22 at 10 per 1m",
        "offered  |",
    ] {
        assert!(out.contains(want), "{want}: {out}");
    }
    let (_, out, _) = replay(&trace, &[&rules("sliding_window_log")], "");
    assert!(out.contains("wrongly admitted 0.000 %, wrongly denied 0.000 %"), "{out}");
    assert!(out.contains("worst window: 10 admitted of 10"), "{out}");
}

#[test]
fn two_sets_of_rules_are_compared_on_one_trace() {
    let trace = log((0..100).map(|at| (at, "ann")));
    let twice = rules("fixed_window").replace("10", "20");
    let (_, out, _) = replay(&trace, &[&rules("fixed_window"), &twice], "--json");
    let report = json(&out);
    assert_eq!(report["difference"], serde_json::json!({"newly_denied": 0, "newly_admitted": 20}));
    assert_eq!(report["rules"][0]["rules"][0]["denied"], 80);
    assert_eq!(report["rules"][1]["rules"][0]["denied"], 60);
    let (_, out, _) = replay(&trace, &[&twice, &rules("fixed_window")], "");
    assert!(out.contains("newly denied    20 (20.000 %)\nnewly admitted  0"), "{out}");
    assert!(out.contains("denied B |"), "{out}");
}

#[test]
fn what_is_suggested_denies_nothing_to_that_share_of_the_keys() {
    let mut requests: Vec<(u64, &str)> = (0..30).map(|at| (100 + at, "busy")).collect();
    for client in ["a", "b", "c"] {
        requests.extend((0..5).map(|at| (at * 20, client)));
    }
    requests.sort_unstable();
    let trace = log(requests.into_iter());
    for (algorithm, percentile, denied) in [
        ("sliding_window_log", "100", 0),
        ("sliding_window_log", "75", 27),
        ("token_bucket", "100", 0),
        ("leaky_bucket", "100", 0),
        ("fixed_window", "100", 0),
    ] {
        let args = format!("--suggest --percentile {percentile}");
        let (outcome, suggested, talk) = replay(&trace, &[&rules(algorithm)], &args);
        assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
        let (_, out, _) = replay(&trace, &[&suggested], "--json");
        assert_eq!(json(&out)["rules"][0]["denied"], denied, "{algorithm}: {suggested}");
    }
}

#[test]
fn the_cost_of_a_rule_is_counted_by_the_exact_log_too() {
    let rules = "domain: web\ndescriptors:\n  - {key: client, rate_limit: {unit: minute, requests_per_unit: 10, \
                 cost: 5, algorithm: sliding_window_log}}\n";
    let trace = log([(0, "ann"), (1, "ann"), (2, "ann"), (59, "ann"), (60, "ann")].into_iter());
    let (_, out, _) = replay(&trace, &[rules], "--json --algorithms --percentile 100");
    let rule = &json(&out)["rules"][0]["rules"][0];
    assert_eq!(
        (&rule["admitted"], &rule["wrongly_admitted"], &rule["wrongly_denied"]),
        (&3.into(), &0.into(), &0.into())
    );
    assert_eq!(rule["worst_windows"][0]["admitted"], 10, "{rule}");
    assert_eq!(rule["suggested"][0]["limit"], 20, "four of its five requests are within a minute: {rule}");
    for it in rule["algorithms"].as_array().expect("a list") {
        assert!(it["worst_window"]["admitted"] == 10 || it["algorithm"] != "sliding_window_log", "{it}");
    }
}

/// A suggestion that is put in place of a rule must not switch its other settings off.
#[test]
fn a_suggested_rule_keeps_what_is_no_number() {
    let rules = "domain: web
descriptors:
  - {key: remote_address, shadow_mode: true, rate_limit: {name: shadow, unit: minute, requests_per_unit: 3}}
  - key: user
    on_limit: queue
    max_wait: 2s
    rate_limit: {unit: second, requests_per_unit: 2, algorithm: token_bucket, burst: 2, sharing: leased}
  - key: path
    value: /a
    rate_limit: {unit: hour, requests_per_unit: 9, cost: 2, algorithm: sliding_window, on_store_failure: deny}
";
    let trace: String = (0..40).map(|at| format!("{at},ann,bob,/a\n")).collect();
    let trace = format!("t_s,client,user,path\n{trace}");
    let (outcome, yaml, talk) = replay(&trace, &[rules], "--suggest");
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    let read = |text: &str| {
        let policy = tollgate_rule_files::parse_text("rules.yaml", text);
        policy.unwrap_or_else(|faults| panic!("{faults}: {text}"))
    };
    let before = read(rules);
    let after = read(&yaml);
    let settings = |policy: &tollgate_policy::Policy| {
        let of = |rule: &tollgate_policy::Rule| {
            let modes = (rule.shadow_mode, rule.quota_mode, rule.max_wait, rule.limits[0].cost);
            (rule.path.clone(), rule.name.clone(), modes, rule.sharing, rule.on_store_failure)
        };
        policy.rules().map(of).collect::<Vec<_>>()
    };
    assert_eq!(settings(&before), settings(&after), "{yaml}");
    // And the second rules deny nothing of the trace.
    let (_, out, _) = replay(&trace, &[&yaml], "--json");
    assert_eq!(json(&out)["rules"][0]["denied"], 0, "{yaml}{out}");
}

#[test]
fn entries_come_from_fields_of_their_name_or_as_the_mapping_says() {
    let rules = "domain: web\ndescriptors:\n  - key: api_key\n    descriptors:\n      - {key: plan, value: gold, \
                 rate_limit: {unit: minute, requests_per_unit: 2}}\n  - {key: path, rate_limit: {unit: minute, \
                 requests_per_unit: 100}}\n";
    let log = r#"{"ts":1,"user":"ann","plan":"gold","path":"/a"}
{"ts":1,"user":"ann","plan":"gold","path":"/a"}
{"ts":1,"user":"ann","plan":"gold","path":"/a"}
{"ts":1,"user":"bob","plan":"free","path":"/a"}
{"ts":1}
"#;
    let (_, out, talk) = replay(log, &[rules], "--json");
    let report = json(&out);
    let side = &report["rules"][0];
    assert_eq!((&side["denied"], &side["without_descriptor"]), (&1.into(), &1.into()), "{out}");
    assert_eq!(side["rules"][0]["path"], "api_key → plan=gold");
    assert_eq!(side["rules"][0]["offered"], 3);
    assert_eq!(side["rules"][1]["offered"], 4);
    assert!(talk.contains("1 of 5 requests have the fields of no descriptor"), "{talk}");
    let (_, out, talk) = replay(log, &[rules], "--json --map descriptors=path=user;path=nowhere");
    assert_eq!(json(&out)["rules"][0]["rules"][0]["offered"], 4, "{out}");
    assert!(talk.contains("no request has the fields of the descriptor (path)"), "{talk}");
}

#[test]
fn costs_are_permits() {
    let log = "t_us,context_tokens,generated_tokens\n1,40,20\n2,30,10\n3,1,0\n";
    let rules = "domain: llm\ndescriptors:\n  - {key: model, rate_limit: {unit: minute, requests_per_unit: 100, \
                 algorithm: sliding_window_log}}\n";
    // One key for all: a field that is the same in each line.
    let log = log.replace("tokens\n", "tokens,model\n").replace('\n', ",m\n").replacen("model,m", "model", 1);
    let (_, out, _) = replay(&log, &[rules], "--map cost=context_tokens+generated_tokens");
    assert!(out.contains("offered 3, admitted 2, denied 1") && out.contains("100 admitted of 100"), "{out}");
}

#[test]
fn what_cannot_be_replayed_says_why() {
    let rules = rules("fixed_window");
    let two = "domain: shop\ndescriptors: [{key: a, rate_limit: {unit: day, requests_per_unit: 1}}]\n";
    let some = "t_s,client\n1,a\n";
    for (log, rules, args, want) in [
        ("", &[rules.as_str()][..], "", "error: the log is empty"),
        ("t_s,client\n", &[&rules], "", "error: the log is empty"),
        ("a b\nc d\n", &[&rules], "", "error: no line can be replayed"),
        (some, &["domain: [\n"], "", "error: "),
        (some, &[&rules], "--map domain=shop", "have no domain shop; they are of web"),
        (some, &[&rules, two, two], "", "give --rules once or twice"),
        ("t_s,client\n1\n", &[&rules], "--strict", "error: line 2: fewer fields than columns"),
    ] {
        let (outcome, out, talk) = replay(log, rules, args);
        assert_eq!(outcome, CommandOutcome::CouldNotTell, "{out}");
        assert!(talk.contains(want), "{want}: {talk}");
    }
    let (outcome, _, talk) = replay("t_s,user\n1,a\n", &[&rules], "");
    assert_eq!(outcome, CommandOutcome::Yes);
    assert!(talk.contains("no request has the fields of the descriptor (remote_address)"), "{talk}");
}

#[test]
fn times_that_go_back_are_of_the_latest_time_or_sorted_within_the_tolerance() {
    let trace = log([(30, "ann"), (10, "ann"), (31, "ann")].into_iter());
    let (_, _, talk) = replay(&trace, &[&rules("fixed_window")], "");
    assert!(
        talk.contains("1 requests are out of order, by up to 20 s: 0 were sorted, 1 were more"),
        "{talk}"
    );
    assert!(talk.contains("the latest time is in line 4"), "{talk}");
    let (_, _, talk) = replay(&trace, &[&rules("fixed_window")], "--tolerance 20s");
    assert!(talk.contains("1 were sorted, 0 were more"), "{talk}");
    // One time of the far future puts all that follow out of order; its line is named.
    let trace = log([(1, "ann"), (9_000_000_000, "ann"), (3, "ann"), (4, "ann")].into_iter());
    let (_, _, talk) = replay(&trace, &[&rules("fixed_window")], "--tolerance 20s");
    assert!(
        talk.contains("2 requests are out of order") && talk.contains("latest time is in line 3"),
        "{talk}"
    );
}

#[test]
fn a_million_clients_fit_in_the_memory_that_is_given() {
    let mut trace = String::from("t_ms,client\n");
    for client in 0..1_000_000 {
        let _ = writeln!(trace, "{client},c{client}");
    }
    // All of them are within the hour of the limit: requests without room are counted.
    let hourly = rules("token_bucket").replace("minute", "hour");
    let (_, out, _) = replay(&trace, &[&hourly], "--max-memory 64 --json");
    let rule = &json(&out)["rules"][0]["rules"][0];
    let compared = rule["compared"].as_u64();
    let left_out = rule["not_compared"].as_u64();
    assert_eq!(compared.zip(left_out).map(|(a, b)| a + b), Some(1_000_000));
    assert!(left_out > Some(500_000), "{rule}");
    assert_eq!(rule["admitted"], 1_000_000);
    // By the minute 60,000 are active at the same time, and all are compared.
    let (_, out, _) = replay(&trace, &[&rules("token_bucket")], "--max-memory 64 --json");
    let rule = &json(&out)["rules"][0]["rules"][0];
    assert_eq!((&rule["compared"], &rule["not_compared"]), (&1_000_000.into(), &0.into()));
    assert_eq!(rule["keys"], 1_000_000);
}

#[test]
fn generated_traces_have_their_shapes_and_the_same_seed_makes_the_same() {
    let trace = |args: &str| {
        let (outcome, out, _) = replay_args(None, &format!("--generate {args}"));
        assert_eq!(outcome, CommandOutcome::Yes);
        let rows = out.lines().skip(1).map(|line| line.split_once(',').expect("two columns"));
        rows.map(|(at, client)| (at.parse().expect("a number"), client.to_owned()))
            .collect::<Vec<(u64, String)>>()
    };
    for shape in ["poisson", "bursts", "diurnal", "boundary", "surge"] {
        let first = trace(&format!("{shape} --requests 20000 --seed 7"));
        assert_eq!(first.len(), 20_000, "{shape}");
        assert_eq!(first, trace(&format!("{shape} --requests 20000 --seed 7")), "{shape}");
        if shape != "boundary" {
            assert_ne!(first, trace(&format!("{shape} --requests 20000 --seed 8")), "{shape}");
        }
        assert_eq!(first.iter().filter(|(at, _)| *at == 0).count(), 0, "{shape}");
        let seconds = first.last().map_or(0, |last| last.0) as f64 / 1e6;
        let rate = 20_000.0 / seconds;
        let want = match shape {
            "poisson" => 95.0..105.0,
            "bursts" => 70.0..130.0,
            "surge" => 400.0..800.0, // 5.75 times the rate, since a quarter of the time has 20 times it
            _ => 5.0..300.0,
        };
        assert!(want.contains(&rate), "{shape}: {rate} a second");
    }
    // The share of the busiest client is 1 / (1 + 2^-α + …).
    for (alpha, want) in [("0.6", 0.025), ("1", 0.134), ("2.7", 0.785)] {
        let trace = trace(&format!("poisson --requests 50000 --clients 1000 --zipf {alpha}"));
        let busiest = trace.iter().filter(|(_, client)| client == "c1").count() as f64 / 50_000.0;
        assert!((busiest - want).abs() < 0.01, "{alpha}: {busiest}");
    }
}

#[test]
fn the_boundary_attack_gets_twice_a_fixed_window_and_never_more_than_an_exact_one() {
    let attack = "--generate boundary --requests 4000 --clients 10 --rate 33.4";
    let (_, trace, _) = replay_args(None, attack);
    let hundred = |algorithm: &str| rules(algorithm).replace("10", "100");
    for (algorithm, want) in [("fixed_window", 200), ("sliding_window", 100), ("sliding_window_log", 100)] {
        let (_, out, _) = replay(&trace, &[&hundred(algorithm)], "--json --map time_unit=us");
        let worst = &json(&out)["rules"][0]["rules"][0]["worst_windows"][0]["admitted"];
        assert_eq!(worst, want, "{algorithm}");
    }
}

/// Row 126: the table of a real day, by the command itself.
#[test]
fn a_real_day_has_the_worst_windows_and_the_errors_that_are_published() {
    let path = trace_file("web-server-day.csv.gz");
    let limits = [(10, "10s"), (20, "1m"), (100, "1h")];
    for (algorithm, worst, wrongly) in [
        ("sliding_window_log", [10, 20, 100], ["0.000", "0.000"]),
        ("fixed_window", [16, 28, 200], ["0.639", "0.107"]),
        ("token_bucket", [17, 29, 193], ["0.617", "0.048"]),
        ("sliding_window_counter", [13, 27, 146], ["0.329", "0.142"]),
        ("sliding_window, cells: 10", [10, 20, 100], ["0.045", "0.090"]),
    ] {
        for ((limit, period), worst) in limits.into_iter().zip(worst) {
            let rules = format!(
                "domain: web\ndescriptors:\n  - key: client\n    rate_limit: {{period: {period}, \
                 requests_per_unit: {limit}, algorithm: {algorithm}}}\n"
            );
            let folder = tempfile::tempdir().expect("a folder");
            let file = folder.path().join("rules.yaml");
            std::fs::write(&file, rules).expect("written");
            let args = format!("--json --strict --rules {}", file.display());
            let (outcome, out, talk) = replay_args(Some(&path), &args);
            assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
            let report = json(&out);
            let rule = &report["rules"][0]["rules"][0];
            assert_eq!((&rule["offered"], &rule["keys"]), (&30_969.into(), &2_365.into()));
            assert_eq!(rule["worst_windows"][0]["admitted"], worst, "{algorithm}, {limit} per {period}");
            if limit == 100 {
                let shares = ["wrongly_admitted", "wrongly_denied"].map(|which| {
                    let count = rule[which].as_u64().expect("a number");
                    format!("{:.3}", count as f64 * 100.0 / 30_969.0)
                });
                assert_eq!(shares, wrongly, "{algorithm}");
            }
        }
    }
}

const TOKENS: &str = "domain: llm\ndescriptors:\n  - key: model\n    rate_limit: {unit: second, \
                      requests_per_unit: 100, algorithm: token_bucket, burst: 1000}\n";

/// Reserved permits are taken at once; a commit returns those that were not used, and use beyond them is
/// owed.
#[test]
fn a_cost_that_is_known_afterwards_is_reserved_and_committed() {
    // A thousand at first and a hundred a second: 600 are reserved each time.
    let trace = "t_s,input,output\n0,500,20\n1,500,200\n2,500,0\n3,500,0\n7,500,0\n";
    let map = "--map descriptors=model=\"large\" --map cost=input+output --map reserve=input+100";
    for (after, admitted, settled) in [
        // 1000: 600 are taken, of which 80 come back; 580 at 1, too few; 680 at 2, 100 come back; 280 at 3;
        // 680 at 7.
        ("0s", 3, [1_800, 1_520, 280, 0]),
        // Nothing has come back at 7, where 500 are there.
        ("8s", 2, [1_200, 1_020, 180, 0]),
    ] {
        let (outcome, out, talk) =
            replay(trace, &[TOKENS], &format!("{map} --map commit_after={after} --json"));
        assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
        let side = &json(&out)["rules"][0];
        assert_eq!(side["admitted"], admitted, "{after}: {out}");
        let got = ["reserved", "used", "returned", "owed"]
            .map(|name| side["settled"][name].as_u64().expect("a number"));
        assert_eq!(got, settled, "{after}: {side}");
    }
    // Only the input is reserved: the output is owed, and later permits repay it.
    let map = map.replace("+100", "");
    let (_, out, _) = replay(trace, &[TOKENS], &format!("{map} --map commit_after=0s"));
    assert!(out.contains("reserved 1000, used 1220: 0 given back, 220 charged beyond"), "{out}");
    for (map, want) in [
        ("--map reserve=nothing", "no field for reserve: there is no nothing"),
        ("--map reserve=input --map commit_after=1h", "write a time up to 4m"),
    ] {
        let (_, _, talk) = replay(trace, &[TOKENS], map);
        assert!(talk.contains(want), "{map}: {talk}");
    }
}

/// Minutes of calls of a language model: cost is context and generated tokens, of which the second are known
/// afterwards. The sum of all costs is that of the file, whichever way they are taken.
#[test]
fn a_real_trace_of_a_language_model_is_replayed_with_its_tokens_taken_and_reserved() {
    for (name, minutes) in [("language-model-conv.csv.gz", 8), ("language-model-code.csv.gz", 15)] {
        let requests = 2_000;
        let path = trace_file(name);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("rules.yaml");
        let run = |limit: u64, more: &str| {
            let rules = TOKENS.replace("unit: second", "unit: minute").replace("100,", &format!("{limit},"));
            std::fs::write(&file, rules.replace("burst: 1000", "burst: 200000")).expect("written");
            let args = format!(
                "--json --strict --rules {} --map descriptors=model=\"large\" --map \
                 cost=context_tokens+generated_tokens {more}",
                file.display()
            );
            let (outcome, out, talk) = replay_args(Some(&path), &args);
            assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""), "{name}");
            json(&out)["rules"][0].clone()
        };
        let plenty = run(1_000_000_000, "--map reserve=context_tokens+2000 --map commit_after=5s");
        assert_eq!(plenty["admitted"], requests, "{name}");
        let of = |side: &Value, what: &str| side["settled"][what].as_u64().expect("a number");
        assert_eq!(
            of(&plenty, "used") + of(&plenty, "returned"),
            of(&plenty, "reserved") + of(&plenty, "owed")
        );
        assert!(of(&plenty, "returned") > 0);
        // Scarce: no more of the limit's tokens are used than the bucket had, plus the debt at the end.
        let at_once = run(100_000, "");
        let reserved = run(100_000, "--map reserve=context_tokens+2000 --map commit_after=5s");
        let admitted = |side: &Value| side["admitted"].as_u64().expect("a number");
        println!(
            "{name}: {} of {requests} at once, {} reserved, used {} of reserved {}",
            admitted(&at_once),
            admitted(&reserved),
            of(&reserved, "used"),
            of(&reserved, "reserved")
        );
        assert!(admitted(&at_once) < requests && admitted(&reserved) < requests, "{name}");
        assert!(of(&reserved, "used") <= 200_000 + 100_000 * minutes + of(&reserved, "owed"), "{name}");
    }
}

/// A limit that is an exact log itself is never wrong, however requests are charged.
#[test]
fn what_was_not_charged_breaks_no_limit() {
    let log = "algorithm: sliding_window_log";
    let trace = log_of_two(400);
    for charge in ["each", "together"] {
        for (small, large) in [
            (format!("rate_limit: {{unit: minute, requests_per_unit: 5, {log}}}"), String::new()),
            (
                format!(
                    "limits: [{{name: s, unit: second, requests_per_unit: 1, {log}}}, {{name: m, unit: \
                         minute, requests_per_unit: 7, {log}}}]"
                ),
                String::new(),
            ),
            (
                format!(
                    "limits: [{{unit: minute, requests_per_unit: 9, {log}}}, {{name: next, unit: minute, \
                         requests_per_unit: 4, {log}, shadow: true}}]"
                ),
                "shadow_mode: true, ".to_owned(),
            ),
            (
                format!(
                    "on_limit: queue, max_wait: 1s, rate_limit: {{unit: minute, requests_per_unit: 5, \
                         {log}}}"
                ),
                String::new(),
            ),
            (
                format!("rate_limit: {{unit: minute, requests_per_unit: 5, {log}}}"),
                "quota_mode: true, ".to_owned(),
            ),
        ] {
            let rules = format!(
                "domain: web\ncharge: {charge}\ndescriptors:\n  - {{key: client, {small}}}\n  - {{key: user, \
                 {large}rate_limit: {{unit: minute, requests_per_unit: 20, {log}}}}}\n"
            );
            let (outcome, out, talk) = replay(&trace, &[&rules], "--json");
            assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
            for rule in json(&out)["rules"][0]["rules"].as_array().expect("a list") {
                let wrong = (&rule["wrongly_admitted"], &rule["wrongly_denied"]);
                assert_eq!(wrong, (&0.into(), &0.into()), "{rules}{rule}");
                for worst in rule["worst_windows"].as_array().expect("a list") {
                    let admitted = worst["admitted"].as_u64();
                    let allowed = worst["allowed"].as_u64();
                    let is_trial = rules.contains("shadow") || rules.contains("quota");
                    assert!(admitted <= allowed || is_trial, "{rules}{worst}");
                }
            }
        }
    }
}

/// Requests of a client and a user each, at uneven times.
fn log_of_two(requests: u64) -> String {
    let rows =
        (0..requests).map(|nth| format!("{},c{},u{}\n", nth * nth % 3 + nth, nth * 7 % 3, nth * 5 % 2));
    let mut rows: Vec<String> = rows.collect();
    rows.sort_by_key(|row| row.split(',').next().and_then(|at| at.parse::<u64>().ok()));
    format!("t_s,client,user\n{}", rows.concat())
}

#[test]
fn a_rule_with_slots_leaves_the_other_rules_decided() {
    let rules = "domain: web\ndescriptors:\n  - {key: client, rate_limit: {unit: minute, requests_per_unit: 2}}\n  \
                 - {key: user, rate_limit: {algorithm: concurrency, limit: 2, ttl: 30s}}\n";
    let trace = "t_s,client,user\n1,ann,a\n2,ann,a\n3,ann,a\n";
    let (outcome, out, talk) = replay(trace, &[rules], "--json");
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    let side = &json(&out)["rules"][0];
    assert_eq!((&side["denied"], &side["undecided"]), (&1.into(), &0.into()), "{talk}");
    let (outcome, _, talk) = replay(trace, &[rules], "--map descriptors=client;user");
    assert_eq!(outcome, CommandOutcome::CouldNotTell, "{talk}");
}

/// A file that is made from a rule must say the same rule, or leave it out by name.
#[test]
fn a_rule_that_a_suggested_file_cannot_say_is_left_out_by_name() {
    let head = "domain: web\ndescriptors:\n  - key: remote_address\n";
    let limited =
        |more: &str| format!("{head}    rate_limit: {{unit: minute, requests_per_unit: 5, {more}}}\n");
    let cidr =
        |rules: String| rules.replace("remote_address\n", "remote_address\n    value_cidr: 10.0.0.0/8\n");
    let trace = "t_s,remote_address\n0,10.0.0.1\n1,10.0.0.1\n2,10.0.0.1\n";
    for (rules, is_said) in [
        (limited("algorithm: fixed_window"), true),
        (limited("algorithm: token_bucket, burst: 9, overdraft: 2"), true),
        (limited("algorithm: sliding_window, cells: 5"), true),
        (limited("algorithm: warm_up, warm_up: 10s"), false),
        (limited("algorithm: leaky_bucket, form: queue"), false),
        (limited("algorithm: fixed_window, align: first_hit"), false),
        (limited("algorithm: token_bucket, initial: 1"), false),
        (limited("algorithm: token_bucket, bucket: backend"), false),
        (cidr(limited("algorithm: fixed_window")), false),
    ] {
        let (outcome, yaml, talk) = replay(trace, &[&rules], "--suggest");
        assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""), "{rules}");
        assert_eq!(yaml.contains("- key: "), is_said, "{rules}{yaml}");
        assert_eq!(yaml.contains("# Left out, change it in your own file: "), !is_said, "{rules}{yaml}");
        tollgate_rule_files::parse_text("suggested", yaml.as_str()).expect("it loads");
    }
}

#[test]
fn a_sorted_trace_begins_with_its_earliest_time() {
    let trace = log([(50, "ann"), (45, "ann"), (48, "ann")].into_iter());
    let (_, out, _) = replay(&trace, &[&rules("fixed_window")], "--tolerance 10s");
    assert!(out.contains("trace    3 requests in 5s\n"), "{out}");
}

#[test]
fn a_request_that_was_not_decided_is_no_difference() {
    let rules = |user: &str| {
        format!(
            "domain: web\ndescriptors:\n  - {{key: client, rate_limit: {{unit: minute, requests_per_unit: 2}}}}\n  \
             - {{key: user, rate_limit: {{{user}}}}}\n"
        )
    };
    let rates = rules("unit: minute, requests_per_unit: 1");
    let slots = rules("algorithm: concurrency, limit: 2, ttl: 30s");
    let trace = "t_s,client,user\n1,ann,a\n2,ann,a\n3,ann,a\n";
    let (outcome, out, _) = replay(trace, &[&rates, &slots], "--map descriptors=client;user");
    assert_eq!(outcome, CommandOutcome::CouldNotTell, "{out}");
    assert!(out.contains("not decided 3\n") && out.contains("newly admitted  0 "), "{out}");
}

#[test]
fn a_cost_above_all_numbers_of_permits_is_denied() {
    let costly = "t_s,client,cost\n0,ann,1\n1,ann,9223372036854775808\n2,ann,20\n";
    let (outcome, out, _) =
        replay(costly, &[&rules("fixed_window"), &rules("token_bucket")], "--map cost=cost");
    assert_eq!(outcome, CommandOutcome::Yes, "{out}");
    assert_eq!(out.matches("admitted 1, denied 2 ").count(), 2, "{out}");
}

#[test]
fn no_generated_trace_goes_back_in_time() {
    for shape in ["poisson", "bursts", "diurnal", "surge", "boundary"] {
        let args = format!("--generate {shape} --requests 20000 --rate 10000 --clients 7");
        let (_, out, _) = replay_args(None, &args);
        let times =
            out.lines().skip(1).map(|line| line.split(',').next().and_then(|at| at.parse::<u64>().ok()));
        let times: Vec<u64> = times.map(|at| at.expect("a time")).collect();
        assert!(times.len() == 20_000 && times.is_sorted(), "{shape}");
    }
}

/// Each rule of a bucket alone would admit all that it gets.
#[test]
fn rules_that_share_a_bucket_are_compared_by_its_one_counter() {
    let rule = |value: &str, cost: u32| {
        format!(
            "  - {{key: client, value: {value}, rate_limit: {{unit: minute, requests_per_unit: 10, cost: {cost}, \
             algorithm: sliding_window_log, bucket: backend}}}}\n"
        )
    };
    let rules = format!("domain: web\ndescriptors:\n{}{}", rule("search", 1), rule("book", 3));
    let trace = log((0..4).flat_map(|at| [(at, "search"), (at, "book")]));
    let (outcome, out, talk) = replay(&trace, &[&rules], "--json --algorithms");
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    let side = json(&out)["rules"][0].clone();
    // 1 + 3 + 1 + 3 + 1, then 3 do not fit, then 1, then 3 do not fit.
    assert_eq!((&side["admitted"], &side["denied"]), (&6.into(), &2.into()), "{side}");
    for (nth, denied) in [(0, 0), (1, 2)] {
        let rule = &side["rules"][nth];
        assert_eq!(rule["denied"], denied, "{rule}");
        assert_eq!((&rule["wrongly_admitted"], &rule["wrongly_denied"]), (&0.into(), &0.into()), "{rule}");
        for it in rule["algorithms"].as_array().expect("a list") {
            let is_log = it["algorithm"] == "sliding_window_log";
            assert!(!is_log || it["denied"] == denied, "{it}");
        }
    }
    assert!(talk.contains("2 rules share buckets"), "{talk}");
}

#[test]
fn rules_with_priorities_are_not_compared_and_the_report_says_so() {
    let rules = "domain: web\ndescriptors:\n  - key: client\n    rate_limit: {unit: minute, requests_per_unit: 10, \
                 algorithm: priority_buckets, classes: {ann: 1, others: 1}}\n";
    let trace = log((0..20).map(|at| (at, "ann")));
    let (outcome, out, talk) = replay(&trace, &[rules], "--json --algorithms");
    assert_eq!(outcome, CommandOutcome::Yes, "{talk}");
    let rule = &json(&out)["rules"][0]["rules"][0];
    assert_eq!((&rule["wrongly_denied"], &rule["compared"]), (&0.into(), &0.into()), "{rule}");
    assert!(talk.contains("rules have priorities"), "{talk}");
}

#[test]
fn the_charge_of_the_server_is_that_of_domains_that_do_not_say_it() {
    let rules = "domain: web\ndescriptors:\n  - {key: client, rate_limit: {unit: minute, requests_per_unit: 2}}\n  \
                 - {key: user, rate_limit: {unit: minute, requests_per_unit: 3}}\n";
    // ann is out of permits after two; what she asks for then takes one of u's by `each` only.
    let trace = "t_s,client,user\n1,ann,u\n2,ann,u\n3,ann,u\n4,bob,u\n";
    for (args, denied) in [("", 2), ("--charge each", 2), ("--charge together", 1)] {
        let (_, out, talk) = replay(trace, &[rules], &format!("--json {args}"));
        assert_eq!(json(&out)["rules"][0]["denied"], denied, "{args}: {talk}");
    }
    let said = format!("charge: each\n{rules}");
    let (_, out, talk) = replay(trace, &[&said], "--json --charge together");
    assert_eq!(json(&out)["rules"][0]["denied"], 2, "{talk}");
}

#[test]
fn the_boundary_attack_keeps_its_rate() {
    let (_, out, _) = replay_args(None, "--generate boundary --requests 60000 --rate 100 --clients 7");
    let last = out.lines().last().and_then(|line| line.split(',').next()?.parse::<f64>().ok());
    let minutes = last.expect("a time") / 60e6;
    assert!((9.0..=11.0).contains(&minutes), "60,000 requests at 100 a second take ten minutes: {minutes}");
}

/// A key that owes permits is not forgotten: its later demand would look smaller than it was.
#[test]
fn what_is_enough_stays_enough_where_keys_are_forgotten() {
    let mut trace = String::from("t_ms,client\n");
    (0..50).for_each(|_| trace.push_str("0,busy\n"));
    for client in 0..20_000 {
        let _ = writeln!(trace, "{},c{client}", 60_500 + client * 9_000 / 20_000);
    }
    (0..50).for_each(|_| trace.push_str("70000,busy\n"));
    for client in 0..20_000 {
        let _ = writeln!(trace, "{},d{client}", 140_000 + client * 9_000 / 20_000);
    }
    let generous = rules("token_bucket, burst: 100");
    for memory in ["512", "1"] {
        let args = format!("--json --percentile 100 --max-memory {memory}");
        let (_, out, talk) = replay(&trace, &[&generous], &args);
        let rule = &json(&out)["rules"][0]["rules"][0];
        assert_eq!(
            (&rule["denied"], &rule["suggested"][0]["burst"]),
            (&0.into(), &89.into()),
            "{rule}{talk}"
        );
        assert_eq!(rule["keys_forgotten"].as_u64() > Some(0), memory == "1", "{rule}");
    }
}
