//! `tollgate simulate`: the result of each pattern, and of fleets.
#![allow(clippy::expect_used, reason = "helpers of a test count as no test to clippy")]

use clap::Parser;
use serde_json::Value;
use tollgate_simulate::{CommandOutcome, Simulate};

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    simulate: Simulate,
}

fn simulate(args: &str) -> (CommandOutcome, String, String) {
    let cli = Cli::try_parse_from(std::iter::once("simulate").chain(args.split_whitespace()));
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let outcome = cli.unwrap_or_else(|error| panic!("{error}")).simulate.run(&mut out, &mut talk);
    let text = |bytes| String::from_utf8(bytes).expect("text");
    (outcome.expect("written"), text(out), text(talk))
}

fn json(args: &str) -> Value {
    let (outcome, out, talk) = simulate(&format!("{args} --json"));
    assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""), "{args}");
    serde_json::from_str(&out).expect("JSON")
}

/// Figures of each algorithm or way of sharing.
fn figures<'a>(found: &'a Value, list: &str, name: &str, figure: &'a str) -> Vec<(&'a str, f64)> {
    let runs = found[0][list].as_array().expect("a list");
    let of = |run: &'a Value| {
        let name = runs.iter().find(|it| *it == run).and_then(|it| it[name].as_str()).expect("a name");
        (name, run[figure].as_f64().expect("a number"))
    };
    runs.iter().map(of).collect()
}

/// Rows 9 and 38: twice the limit around the edge of a fixed window, and no more than the limit by a strict
/// one, whatever the numbers.
#[test]
fn a_fixed_window_admits_twice_its_limit_around_the_edge_and_a_strict_one_does_not() {
    for (args, limit) in
        [("edge", 100.0), ("edge --limit 7 --window 10s", 7.0), ("edge --limit 1 --window 1m", 1.0)]
    {
        let found = json(args);
        for (name, most) in figures(&found, "runs", "algorithm", "most_in_window") {
            match name {
                "fixed_window" => assert_eq!(most, 2.0 * limit, "{args}"),
                "sliding_window, cells: 10" => assert_eq!(most, limit, "{args}"),
                _ => assert!((limit..2.0 * limit).contains(&most), "{args}: {name} {most}"),
            }
        }
    }
}

/// Row 10: finer cells pass more of a steady flood and deny less at a time, and none passes more than the
/// limit.
#[test]
fn finer_cells_are_smoother_and_none_admits_more_than_the_limit() {
    let found = json("cells");
    let admitted = figures(&found, "runs", "algorithm", "admitted");
    assert_eq!(admitted.len(), 5);
    assert!(admitted[..4].windows(2).all(|pair| pair[0].1 < pair[1].1), "{admitted:?}");
    assert!(admitted[3].1 <= admitted[4].1, "{admitted:?}");
    let most = figures(&found, "runs", "algorithm", "most_in_window");
    assert!(most.iter().all(|(_, most)| *most == 100.0), "{most:?}");
}

/// Row 13: a burst of twice the limit.
#[test]
fn a_burst_leaves_a_token_bucket_at_once_and_a_queue_evenly() {
    let found = json("burst");
    let delays = figures(&found, "runs", "algorithm", "longest_delay_ms");
    assert_eq!(delays[0], ("token_bucket", 0.0));
    assert!(delays[1].1 >= 900.0, "{delays:?}");
    let of = |place: usize| found[0]["series"][place].as_array().expect("points").clone();
    let at = |point: &Value| point[0].as_f64().expect("seconds");
    // The twentieth has left at the beginning, or after nineteen intervals of 50 ms.
    assert_eq!((at(&of(0)[20]), (at(&of(1)[20]) * 1e3).round()), (0.0, 950.0));
}

#[test]
fn a_cold_key_begins_at_a_third_of_the_rate_and_warms_up_to_all_of_it() {
    let found = json("warm-up");
    let rate = |second: usize| found[0]["series"][1][second][1].as_f64().expect("a rate");
    assert!((30.0..45.0).contains(&rate(0)), "{}", rate(0));
    assert!((0..13).all(|second| rate(second) <= rate(second + 1) + 3.0));
    assert!(rate(13) >= 90.0 && rate(20) == 0.0, "{} {}", rate(13), rate(20));
    assert!((30.0..45.0).contains(&rate(25)), "cold again: {}", rate(25));
}

#[test]
fn leases_and_the_store_keep_the_bound_and_leases_seldom_ask() {
    for args in [
        "fleet --duration 10s",
        "fleet --duration 10s --nodes 3 --uneven 20 --latency 5ms",
        "fleet --duration 10s --nodes 16 --loss 5 --outage 4s..5s",
        "fleet --duration 5s --nodes 1 --rate 50 --demand 0.5",
    ] {
        let found = json(args);
        let of = |figure| figures(&found, "ways", "sharing", figure);
        let over = of("above_bound");
        assert!(over.iter().all(|(_, over)| *over < 1.0), "{args}: {over:?}");
        let calls = of("store_calls");
        assert!(calls[0].1 > 0.0 && calls[2].1 == 0.0, "{args}: {calls:?}");
        if !args.contains("--rate 50") {
            assert!(calls[1].1 * 2.0 < calls[0].1, "{args}: {calls:?}");
        }
        let share = of("of_one_bucket");
        assert!(share.iter().all(|(_, share)| *share <= 1.001), "{args}: {share:?}");
        let least = if args.contains("outage") { 0.8 } else { 0.95 };
        assert!(share[0].1 > least && share[1].1 > least, "{args}: {share:?}");
        if args.contains("--uneven") {
            assert!(share[2].1 < 0.8, "idle nodes keep what the busy one lacks: {share:?}");
        }
    }
}

#[test]
fn while_the_store_is_away_nodes_deny_or_go_by_their_share() {
    let args = "fleet --duration 10s --nodes 4 --outage 4s..8s";
    let denying = json(args);
    let by_share = json(&format!("{args} --fail-local"));
    for (place, way) in ["exact", "leased"].into_iter().enumerate() {
        let share = |found: &Value| found[0]["ways"][place]["of_one_bucket"].as_f64().expect("a share");
        let admitted =
            |found: &Value| found[0]["ways"][place]["admitted_by_share"].as_u64().expect("a count");
        assert_eq!(admitted(&denying), 0, "{way}");
        assert!(admitted(&by_share) > 2_000 && share(&by_share) > share(&denying) + 0.2, "{way}: {by_share}");
    }
}

/// The charts of a fleet show an outage: nothing is admitted while the store is away, and admissions exceed
/// the bound of one bucket where nodes have used their share meanwhile.
#[test]
fn a_fleet_shows_over_time_what_it_admits_denies_asks_of_the_store_and_lets_pass_above_the_bound() {
    let args = "fleet --duration 12s --nodes 4 --outage 4s..8s";
    for (args, is_above) in [(args.to_owned(), false), (format!("{args} --fail-local"), true)] {
        let found = json(&args);
        let span_s = found[0]["span_seconds"].as_f64().expect("a number");
        for way in found[0]["ways"].as_array().expect("a list") {
            let name = &way["sharing"];
            let of = |figure: &str| way[figure].as_f64().expect("a number");
            let each = |figure: &str| -> Vec<f64> {
                let spans = way["over_time"][figure].as_array().expect("a list");
                spans.iter().map(|it| it.as_f64().expect("a number")).collect()
            };
            let between = |figure: &str, from_s: f64, until_s: f64| -> f64 {
                let spans = each(figure).into_iter().enumerate();
                let at = |nth: usize| (nth as f64 + 0.5) * span_s;
                spans.filter(|(nth, _)| (from_s..until_s).contains(&at(*nth))).map(|(_, it)| it).sum()
            };
            assert_eq!(between("admitted", 0.0, 99.0), of("admitted"), "{name}");
            assert_eq!(between("store_calls", 0.0, 99.0), of("store_calls"), "{name}");
            assert_eq!(between("denied", 0.0, 99.0), of("denied"), "{name}");
            let unanswered = of("asked") - of("admitted") - of("denied");
            assert!((0.0..10.0).contains(&unanswered), "{name}: {unanswered} when the run ended");
            assert_eq!(between("denied", 0.0, 1.0), 0.0, "the burst covers the first second: {way}");
            // The greatest span has the figure that is reported for the whole run.
            let most = each("above_bound").into_iter().fold(0.0, f64::max);
            assert_eq!(most, of("above_bound").floor(), "{name}: {way}");
            // A lease covers up to half a second of the outage.
            let away = between("admitted", 4.6, 7.9);
            match (name.as_str(), is_above) {
                (Some("local"), _) => assert!(away > 3_000.0 && most == 0.0, "{way}"),
                (_, false) => assert_eq!((away, most), (0.0, 0.0), "{name}"),
                (_, true) => assert!(away > 2_500.0, "{name}: {away} while away"),
            }
        }
        let page = tempfile::tempdir().expect("a folder");
        simulate(&format!("{args} --svg {}", page.path().display()));
        assert!(page.path().join("fleet-denied.svg").is_file());
        let is_above_somewhere = found[0]["ways"].as_array().expect("a list").iter();
        let is_above_somewhere =
            is_above_somewhere.clone().any(|way| way["above_bound"].as_f64() >= Some(1.0));
        assert_eq!(page.path().join("fleet-over.svg").is_file(), is_above_somewhere, "{args}");
        assert_eq!(is_above, is_above_somewhere, "{args}");
    }
}

#[test]
fn what_cannot_be_simulated_is_said() {
    for (args, want) in [
        ("fleet --lease 100ms --horizon 100ms", "error: --lease must be at least twice --horizon\n"),
        ("fleet --rate 10000000 --duration 1h", "are too many; choose a lower rate"),
        ("fleet --duration 2s --outage 3s..4s", "error: --outage: at 3s the run has ended\n"),
        ("edge --html /nowhere/x.html", "error: cannot write /nowhere/x.html"),
        ("edge --svg /dev/null/x", "error: cannot write /dev/null/x/edge.svg"),
        ("cells --window 1us1ns", "error: "),
    ] {
        let (outcome, _, talk) = simulate(args);
        assert!(outcome == CommandOutcome::CouldNotTell && talk.contains(want), "{args}: {talk}");
    }
    for args in [
        "fleet --nodes 0",
        "fleet --demand nan",
        "fleet --outage 4s..2s",
        "edge --limit 0",
        "edge --window 0s",
    ] {
        assert!(Cli::try_parse_from(std::iter::once("simulate").chain(args.split(' '))).is_err(), "{args}");
    }
}

#[test]
fn charts_are_written_as_text_as_files_and_on_a_page_in_both_languages() {
    let folder = tempfile::tempdir().expect("a folder");
    let page = folder.path().join("page.html");
    for (lang, want) in [("en", "Around the edge of a window"), ("zh-CN", "窗口边界")] {
        let args = format!("all --svg {0} --html {1} --lang {lang}", folder.path().display(), page.display());
        let (outcome, out, talk) = simulate(&args);
        assert_eq!((outcome, talk.as_str()), (CommandOutcome::Yes, ""));
        let html = std::fs::read_to_string(&page).expect("written");
        let svg = std::fs::read_to_string(folder.path().join("edge.svg")).expect("written");
        assert!(html.contains(&format!("lang=\"{lang}\"")) && html.matches("<svg").count() == 4, "{lang}");
        assert!([&out, &html, &svg].into_iter().all(|text| text.contains(want)), "{lang}: {out}");
        assert!(out.contains('█') && out.contains("fixed_window"), "{out}");
    }
}

/// The pictures of the docs are drawn by the command.
#[test]
fn the_pictures_of_the_docs_are_those_of_the_command() {
    let folder = tempfile::tempdir().expect("a folder");
    simulate(&format!("all --svg {}", folder.path().display()));
    simulate(&format!("fleet --outage 8s..10s --svg {}", folder.path().display()));
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/pictures");
    let draws = std::env::var_os("TOLLGATE_DRAW_PICTURES").is_some();
    let mut count = 0;
    for file in std::fs::read_dir(folder.path()).expect("a folder") {
        let name = file.expect("a file").file_name();
        let read = |folder: &std::path::Path| std::fs::read_to_string(folder.join(&name)).expect("a picture");
        if draws {
            std::fs::write(docs.join(&name), read(folder.path())).expect("written");
        }
        let is_drawn = read(&docs) == read(folder.path());
        assert!(
            is_drawn,
            "{name:?}: TOLLGATE_DRAW_PICTURES=1 cargo test -p tollgate-simulate draws it again"
        );
        count += 1;
    }
    assert_eq!(count, 7);
}

/// The tables of `docs/scale.md`: each figure is the simulation's, and each formula is worked out.
#[test]
fn the_figures_of_the_page_about_scale_are_those_of_the_simulation() {
    let page = include_str!("../../../../../docs/scale.md");
    let number = |cell: &str| cell.replace([',', ' '], "").parse::<f64>().ok();
    let rows = page.lines().filter(|line| line.starts_with('|')).map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let numbers: Vec<f64> = cells.iter().filter_map(|cell| number(cell)).collect();
        (cells.get(1).copied().unwrap_or_default().to_owned(), numbers)
    });
    let rows: Vec<(String, Vec<f64>)> = rows.collect();
    let fleet = |args: &str, figure: &str| -> Vec<f64> {
        let found = json(&format!("fleet {args}"));
        figures(&found, "ways", "sharing", figure).into_iter().map(|(_, figure)| figure).collect()
    };
    let by_nodes: Vec<&Vec<f64>> = rows.iter().map(|row| &row.1).filter(|row| row.len() == 6).collect();
    assert_eq!(by_nodes.len(), 6, "{by_nodes:?}");
    for row in by_nodes {
        let &[nodes, exact, by_formula, leased, by_rule, of_one] = row.as_slice() else { panic!("{row:?}") };
        // One node's demand, the round trip, and the demand that a lease covers, in seconds.
        let lambda = 15_000.0 / nodes;
        let trip = 0.002;
        let horizon = 0.1;
        let formula = nodes / (trip + f64::exp(-lambda * trip) / lambda);
        assert!((formula - by_formula).abs() < 1.0, "{nodes} nodes: {formula} by the formula");
        assert!((0.6 * nodes / horizon - by_rule).abs() < 0.5, "{nodes} nodes");
        let args = format!("--rate 10000 --demand 1.5 --duration 10s --nodes {nodes}");
        let calls = fleet(&args, "store_calls_per_second");
        assert_eq!([calls[0].round(), calls[1].round()], [exact, leased], "{args}");
        let share = fleet(&args, "of_one_bucket");
        assert!((share[1] - of_one).abs() < 0.000_5, "{args}: {share:?}");
    }
    for (begin, args) in [
        ("10 per second", "--nodes 16 --demand 1.5 --rate 10 --duration 60s"),
        ("100 per second", "--nodes 16 --demand 1.5 --rate 100"),
    ] {
        let (_, row) = rows.iter().find(|row| row.0.starts_with(begin)).expect("a row");
        let calls = fleet(args, "store_calls_per_second");
        assert_eq!(row.as_slice(), [calls[0].round(), calls[1].round()], "{args}");
    }
    for demand in ["0.9", "1.5"] {
        let begin = format!("{demand} ");
        let (_, row) = rows.iter().find(|row| row.0.starts_with(&begin)).expect("a row");
        let args = format!("--nodes 16 --rate 10000 --uneven 15 --duration 10s --demand {demand}");
        let share: Vec<f64> =
            fleet(&args, "of_one_bucket").iter().map(|it| (it * 1e3).round() / 1e3).collect();
        assert_eq!(row, &share, "{args}");
    }
}
