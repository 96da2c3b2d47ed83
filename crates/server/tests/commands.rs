//! Output of `check` and `explain`, word for word; help texts; results of wrong command lines.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

#[path = "commands/import.rs"]
mod import;

use std::path::Path;
use std::process::Command;

use clap::{CommandFactory, Parser};
use tollgate_server::cli::{Cli, Ending};
use tollgate_server::settings::{SETTINGS, SettingKind};

const SHOP: &str = "\
domain: shop
charge: together
descriptors:
  - key: api_key
    rate_limit: {requests_per_unit: 100, unit: second, algorithm: token_bucket, burst: 200}
    descriptors:
      - key: plan
        value: gold*
        shadow_mode: true
        rate_limit: {requests_per_unit: 1000, unit: minute, unit_multiplier: 10}
  - key: remote_address
    ipv6_prefix: 64
    limits:
      - {name: short, requests_per_unit: 10, unit: second}
      - {name: daily, requests_per_unit: 1000, unit: day, time_zone: Asia/Shanghai}
  - key: remote_address
    value_cidr: 10.0.0.0/8
    rate_limit: {unlimited: true}
";

/// Ending, answer and talk of a command run over a folder with these files; the folder's path is taken out of
/// all.
fn run(files: &[(&str, &str)], args: &[&str]) -> (Ending, String, String) {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let place = |text: &str| text.replace("RULES", &folder.path().display().to_string());
    let args = std::iter::once("tollgate".to_owned()).chain(args.iter().map(|arg| place(arg)));
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let ending = Cli::try_parse_from(args).expect("a command").run(&mut out, &mut talk).expect("written");
    let prefix = format!("{}/", folder.path().display());
    let text = |bytes| String::from_utf8(bytes).expect("text").replace(&prefix, "");
    (ending, text(out), text(talk))
}

#[test]
fn check_names_every_fault_of_every_file_and_counts_them() {
    let app = "domain: app\ndescriptors:\n  - key: a\n    rate_limit: {unit: dya, requests_per_unit: 1}\n";
    let web = "domain: web\ndescriptors:\n  - key: a\n    rate_limit: {unit: day, request_per_unit: 1}\n";
    let (ending, out, talk) = run(&[("app.yaml", app), ("web.yaml", web)], &["check", "RULES"]);
    assert_eq!(ending, Ending::No);
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 2, "{out}");
    for (line, parts) in lines.iter().zip([
        ["error: app.yaml:4:24: ", "descriptors[0].rate_limit.unit: ", "day"],
        ["error: web.yaml:4:29: ", "descriptors[0].rate_limit.request_per_unit: ", "requests_per_unit"],
    ]) {
        for part in parts {
            assert!(line.contains(part), "{part} in {line}");
        }
    }
    assert_eq!(talk, "2 errors\n");
}

#[test]
fn check_counts_what_it_read_when_there_are_no_errors() {
    let (ending, out, talk) = run(&[("shop.yaml", SHOP)], &["check", "RULES"]);
    let (counts, version) = out.split_once(" (version ").expect("a version");
    let want = "warning: shop.yaml:7:9: descriptors[0].descriptors[0]: other values of plan match no rule here, so they \
                are not limited; add a descriptor with key: plan and no value\n\
                1 domain, 4 rules, no errors, 1 warning";
    assert_eq!((ending, counts, talk.as_str()), (Ending::Yes, want, ""));
    assert!(version.trim_end_matches(")\n").chars().all(|c| c.is_ascii_hexdigit()), "{version}");
}

#[test]
fn check_knows_what_a_store_cannot_count() {
    let bucket = "{unit: day, requests_per_unit: 1, algorithm: token_bucket}";
    let leased = "{unit: day, requests_per_unit: 1, sharing: leased}";
    let cannot_count = ".algorithm: token_bucket: memcached runs no scripts, so it counts only fixed_window";
    let cannot_lease = ": fixed_window: memcached runs no scripts, so it cannot lease permits";
    let warm_up = "{unit: day, requests_per_unit: 1, algorithm: warm_up, warm_up: 1s}";
    let only_windows = ".algorithm: warm_up: memcached runs no scripts, so it counts only fixed_window";
    let (memcached, redis) = ("memcache://cache:11211", "redis://cache:6379");
    for (limit, store, want) in [
        (bucket, memcached, cannot_count),
        (leased, memcached, cannot_lease),
        (warm_up, memcached, only_windows),
    ] {
        let text = format!("domain: d\ndescriptors: [{{key: k, rate_limit: {limit}}}]\n");
        let files = [("d.yaml", text.as_str())];
        assert_eq!(run(&files, &["check", "RULES"]).0, Ending::Yes);
        let (ending, out, _) = run(&files, &["check", "--store", store, "RULES"]);
        assert_eq!(ending, Ending::No);
        assert!(out.contains("descriptors[0].rate_limit") && out.contains(want), "{out}");
        assert_eq!(run(&files, &["check", "--store", redis, "RULES"]).0, Ending::Yes, "{limit}");
    }
}

#[test]
fn check_of_a_path_that_is_not_there_cannot_tell() {
    let (ending, out, talk) = run(&[], &["check", "RULES/nowhere"]);
    assert_eq!((ending, out.as_str()), (Ending::CouldNotTell, ""));
    assert!(talk.starts_with("error: cannot read nowhere: "), "{talk}");
}

#[test]
fn check_rejects_a_folder_without_rule_files_as_serve_does() {
    let (ending, out, talk) = run(&[("notes.txt", "domain: no")], &["check", "RULES"]);
    assert_eq!((ending, talk.as_str()), (Ending::No, "1 error\n"));
    assert!(out.starts_with("error: ") && out.contains(": no rule file found; only *.yaml"), "{out}");
    let args = ["explain", "--rules", "RULES", "--domain", "d", "a=b"];
    let (ending, out, talk) = run(&[("notes.txt", "domain: no")], &args);
    assert_eq!((ending, out.as_str()), (Ending::CouldNotTell, ""));
    assert!(talk.contains("no rule file found"), "{talk}");
}

#[test]
fn check_and_explain_read_the_environment_that_serve_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, key) in [("a.yaml", "a"), ("b.yaml", "b")] {
        let text = format!(
            "domain: d\ndescriptors: [{{key: {key}, rate_limit: {{unit: day, requests_per_unit: 1}}}}]\n"
        );
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let run = |args: &[&str], env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
        let ran = command.env_clear().envs(env.iter().copied()).args(args).arg(folder.path());
        let ran = ran.output().expect("it ends");
        let said = [ran.stdout, ran.stderr].concat();
        (ran.status.code(), String::from_utf8_lossy(&said).into_owned())
    };
    let explain = ["explain", "--domain", "d", "b=1", "--rules"];
    for (env, code, part) in [
        (&[][..], 1, "error: "),
        (&[("MERGE_DOMAIN_CONFIG", "true")], 0, "1 domain, 2 rules, no errors"),
        (&[("TOLLGATE_MERGE_DOMAINS", "yes"), ("MERGE_DOMAIN_CONFIG", "false")], 0, "no errors"),
        (
            &[("TOLLGATE_MERGE_DOMAINS", "perhaps")],
            2,
            "error: environment: TOLLGATE_MERGE_DOMAINS: invalid switch",
        ),
        (&[("TOLLGATE_GRPC", "nonsense")], 1, "error: "), // a setting of the server alone
    ] {
        let (found, said) = run(&["check"], env);
        assert!(found == Some(code) && said.contains(part), "{env:?}: {found:?} {said}");
        let (found, said) = run(&explain, env);
        assert_eq!(found, Some(if code == 0 { 0 } else { 2 }), "{env:?}: {said}");
    }
    let stop = ("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "true");
    let explained = run(&explain, &[("MERGE_DOMAIN_CONFIG", "true"), stop]).1;
    assert!(explained.contains("only of fixed windows that do (charge: spare_others)"), "{explained}");
    assert_eq!(run(&["check", "--merge-domains"], &[("MERGE_DOMAIN_CONFIG", "false")]).0, Some(0));
}

#[test]
fn a_rule_file_whose_name_begins_with_a_dot_is_named() {
    let rules = "domain: d\ndescriptors:\n  - {key: k, rate: 1/s}\n";
    let (ending, out, _) = run(&[(".config.yaml", rules)], &["check", "RULES"]);
    let want = "error: .config.yaml: not read, since its name begins with a dot, and no other rule file was found; \
                rename it, give the path of the file itself, or set TOLLGATE_DOT_FILES=true\n";
    assert_eq!((ending, out.as_str()), (Ending::No, want));
    let warning = "warning: .config.yaml:1:1: not read, since the name begins with a dot; rename it, give its path \
                   itself, or set TOLLGATE_DOT_FILES=true";
    for (more, end) in [(&[][..], ""), (&[(".b.values", ""), (".c.json", "")], "; 2 more such files follow")]
    {
        // Other names with a dot are not meant as rules.
        let mut files =
            vec![(".config.yaml", rules), ("own.yaml", rules), (".own.yaml.swp", ""), (".yaml", "")];
        files.extend(more);
        let (ending, out, _) = run(&files, &["check", "RULES"]);
        let first = out.lines().next().unwrap_or_default().replace(".b.values", ".config.yaml");
        assert_eq!((ending, first), (Ending::Yes, format!("{warning}{end}")), "{out}");
    }
    assert_eq!(run(&[(".config.yaml", rules)], &["check", "--strict", "RULES/.config.yaml"]).0, Ending::Yes);
    assert_eq!(
        run(&[(".x.yaml", rules), ("own.yaml", rules)], &["check", "--strict", "RULES"]).0,
        Ending::No
    );
}

#[test]
fn a_manifest_of_kubernetes_is_checked_by_its_own_lines() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: limits}\ndata:\n  a.yaml: |\n    domain: a\n    \
                    descriptors:\n      - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}\n";
    let (ending, out, _) = run(&[("limits.yaml", manifest)], &["check", "--strict", "RULES/limits.yaml"]);
    assert!(ending == Ending::Yes && out.starts_with("1 domain, 1 rule, no errors"), "{out}");
    let faulty = manifest.replace("key: k", "kee: k");
    let (ending, out, _) = run(&[("limits.yaml", &faulty)], &["check", "RULES/limits.yaml"]);
    assert!(ending == Ending::No && out.starts_with("error: limits.yaml:8:"), "{out}");
    let (_, out, _) = run(&[("d.yaml", "apiVersion: apps/v1\nkind: Deployment\n")], &["check", "RULES"]);
    assert_eq!(out, "error: d.yaml:1:1: this is a manifest of Kubernetes, of a Deployment, and not rules\n");
}

#[test]
fn check_marks_warnings_and_rejects_them_only_if_it_is_strict() {
    let text =
        "domain: d\nunit: day\ndescriptors:\n  - {key: k, rate_limit: {unit: day, requests_per_unit: 1}}\n";
    let files = [("d.yaml", text)];
    let (ending, out, talk) = run(&files, &["check", "RULES"]);
    assert_eq!((ending, talk.as_str()), (Ending::Yes, ""));
    assert!(out.starts_with("warning: d.yaml:2:1: unit: has no effect here;"), "{out}");
    assert!(out.contains("\n1 domain, 1 rule, no errors, 1 warning (version "), "{out}");
    let (ending, strictly, talk) = run(&files, &["check", "--strict", "RULES"]);
    assert_eq!((ending, strictly, talk.as_str()), (Ending::No, out, "1 warning; --strict accepts none\n"));
    let without = text.replace("unit: day\ndesc", "desc");
    assert_eq!(run(&[("d.yaml", &without)], &["check", "--strict", "RULES"]).0, Ending::Yes);
}

#[test]
fn explain_says_which_rule_why_and_what_is_charged() {
    for (asked, want) in [
        (
            "api_key=alice",
            "\
domain   shop
asked    api_key=alice
rule     api_key (shop.yaml:4:5)
why      api_key=alice has no rule of its own, so that of every api_key applies
limit    100 per second, token_bucket, burst 200
counter  shop|api_key=alice|token_bucket
charge   1 permit of each limit, or of none when one denies (charge: together)
sharing  exact: with --store, every decision asks it
outage   allow
not      api_key → plan=gold* (shop.yaml:7:9): it needs 2 entries, the descriptor has 1
",
        ),
        (
            "api_key=alice plan=golden",
            "\
domain   shop
asked    api_key=alice → plan=golden
rule     api_key → plan=gold* (shop.yaml:7:9)
why      api_key=alice has no rule of its own, so that of every api_key applies
why      plan=golden matches plan=gold*, the first pattern that does
limit    1000 per 10m, fixed_window
counter  shop|api_key=alice|plan=golden|10m
charge   1 permit of each limit, or of none when one denies (charge: together)
sharing  exact: with --store, every decision asks it
outage   allow
mode     shadow: counted, never denied
not      api_key (shop.yaml:4:5): it ends after 1 of the descriptor's 2 entries
",
        ),
        (
            "remote_address=2001:db8::1",
            "\
domain   shop
asked    remote_address=2001:db8::1
rule     remote_address (shop.yaml:11:5)
why      remote_address=2001:db8::1 has no rule of its own, so that of every remote_address applies
limit    short: 10 per second, fixed_window
counter  shop|remote_address@2001:db8::/64|second#short
limit    daily: 1000 per day, fixed_window, time_zone Asia/Shanghai
counter  shop|remote_address@2001:db8::/64|day:Asia/Shanghai#daily
charge   1 permit of each limit, or of none when one denies (charge: together)
sharing  exact: with --store, every decision asks it
outage   allow
not      remote_address in 10.0.0.0/8 (shop.yaml:16:5): `remote_address in 10.0.0.0/8` does not take \
remote_address=2001:db8::1
",
        ),
        (
            "remote_address=10.1.2.3",
            "\
domain   shop
asked    remote_address=10.1.2.3
rule     remote_address in 10.0.0.0/8 (shop.yaml:16:5)
why      remote_address=10.1.2.3 falls to remote_address in 10.0.0.0/8, the narrowest network that it lies in
limit    none: the rule says unlimited
not      remote_address (shop.yaml:11:5): a narrower network takes remote_address=10.1.2.3 before `remote_address`
",
        ),
    ] {
        let args = ["explain", "--rules", "RULES", "--domain", "shop"].into_iter().chain(asked.split(' '));
        let (ending, out, talk) = run(&[("shop.yaml", SHOP)], &args.collect::<Vec<_>>());
        assert_eq!((ending, out.as_str(), talk.as_str()), (Ending::Yes, want, ""), "{asked}");
    }
}

#[test]
fn explain_says_why_nothing_limits_a_descriptor() {
    for (domain, asked, want) in [
        (
            "shop",
            "user=1",
            "why      no rule begins with user=1
known    api_key, api_key → plan=gold*, remote_address, remote_address in 10.0.0.0/8
",
        ),
        (
            "shop",
            "api_key=a plan=tin",
            "why      below api_key=a no rule takes plan=tin; there is no way back to another branch
not      api_key → plan=gold* (shop.yaml:7:9): nothing on its level takes plan=tin
not      api_key (shop.yaml:4:5): it ends after 1 of the descriptor's 2 entries
",
        ),
        (
            "shop",
            "remote_address=192.0.2.1 path=/",
            "why      below remote_address=192.0.2.1 no rule takes path=/; there is no way back to another branch
not      remote_address (shop.yaml:11:5): it ends after 1 of the descriptor's 2 entries
not      remote_address in 10.0.0.0/8 (shop.yaml:16:5): it ends after 1 of the descriptor's 2 entries
",
        ),
    ] {
        let args = ["explain", "--rules", "RULES", "--domain", domain].into_iter().chain(asked.split(' '));
        let (ending, out, talk) = run(&[("shop.yaml", SHOP)], &args.collect::<Vec<_>>());
        let asked = asked.replace(' ', " → ");
        let want =
            format!("domain   {domain}\nasked    {asked}\nrule     none: nothing limits it\n{want}");
        assert_eq!((ending, out, talk), (Ending::No, want, String::new()), "{asked}");
    }
    let args = ["explain", "--rules", "RULES", "--domain", "shpo", "a=b"];
    let (ending, out, _) = run(&[("shop.yaml", SHOP)], &args);
    assert_eq!(ending, Ending::No);
    assert_eq!(
        out,
        "domain   shpo\nasked    a=b\nrule     none: there is no such domain, so --unmatched admits it\ndomains  shop\n"
    );
}

#[test]
fn explain_previews_what_a_client_over_its_limit_gets() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rules/circuit.yaml");
    let explain = ["explain", "--preview", "--headers", "legacy,draft-11", "--domain", "circuit", "--rules"];
    let asked = |entry| run(&[], &[&explain[..], &[root, entry]].concat());
    let (ending, out, talk) = asked("app=checkout");
    assert_eq!((ending, talk.as_str()), (Ending::Yes, ""));
    let (_, told) = out.split_once("an HTTP client over its limit receives:\n").expect("a preview");
    for line in [
        "429 Too Many Requests",
        "x-ratelimit-remaining: 0",
        "retry-after: 1",
        "content-type: application/json; charset=utf-8",
    ] {
        assert!(told.lines().any(|it| it == line), "{line}: {told}");
    }
    let body = r#"{
    "result": "FAILURE",
    "errorMessage": {
        "code": 2000,
        "desc": "请求过于频繁, 请稍后重试"
    }
}"#;
    assert!(told.ends_with(&format!("\n\n{body}\n")), "{told}");
    let (_, out, _) = asked("user=alice");
    assert!(out.ends_with("receives:\nnothing: no rule would deny it\n"), "{out}");
}

#[test]
fn explain_says_what_a_request_gets_that_no_rule_matches() {
    let loose = "{domain: d, descriptors: [{key: user, rate: 5/s}]}";
    let strict = "{domain: d, unmatched: deny, response: {status: 403, body: 'not here'}, descriptors: [{key: user, rate: 5/s}]}";
    let denied = "rule     none: no rule matches, which denies it\n";
    let free = "rule     none: nothing limits it\n";
    for (rules, setting, domain, line, receives) in [
        (loose, "admit", "d", free, "nothing: no rule would deny it\n"),
        (loose, "deny", "d", denied, "429 Too Many Requests\n"),
        (strict, "admit", "d", denied, "403 Forbidden\n"),
        (loose, "deny", "e", "rule     none: there is no such domain, so --unmatched denies it\n", "429 Too"),
    ] {
        let args =
            ["explain", "--preview", "--unmatched", setting, "--rules", "RULES", "--domain", domain, "a=b"];
        let (ending, out, talk) = run(&[("d.yaml", rules)], &args);
        assert_eq!((ending, talk.as_str()), (Ending::No, ""));
        assert!(out.contains(line), "{setting} {domain}: {out}");
        assert!(
            out.contains(&format!("\nan HTTP client receives:\n{receives}")),
            "{setting} {domain}: {out}"
        );
    }
    let args = ["explain", "--unmatched", "maybe", "--rules", "RULES", "--domain", "d", "a=b"];
    let (ending, _, talk) = run(&[("d.yaml", loose)], &args);
    assert_eq!(ending, Ending::CouldNotTell);
    assert_eq!(talk, "command line: --unmatched: unknown answer \"maybe\": expected admit or deny\n");
}

#[test]
fn explain_over_faulty_rules_cannot_tell() {
    let args = ["explain", "--rules", "RULES", "--domain", "d", "a=b"];
    let (ending, out, talk) = run(&[("shop.yaml", "domain: [\n")], &args);
    assert_eq!((ending, out.as_str()), (Ending::CouldNotTell, ""));
    assert!(
        talk.starts_with("shop.yaml:") && talk.ends_with("1 error; nothing can be explained\n"),
        "{talk}"
    );
}

#[test]
fn help_of_every_command_has_examples_and_names_every_setting() {
    let mut cli = Cli::command();
    cli.build();
    for name in ["serve", "check", "explain"] {
        let help = cli.find_subcommand_mut(name).expect("a command").render_long_help().to_string();
        assert!(help.contains("Examples:\n  "), "{name}: {help}");
        if name == "serve" {
            let flat: String = help.split_whitespace().collect::<Vec<_>>().join(" ");
            for setting in SETTINGS.iter() {
                assert!(help.contains(&format!("--{}", setting.name)), "{}", setting.name);
                assert!(flat.contains(&format!("[env: {}", setting.env())), "{}", setting.env());
            }
        }
    }
    cli.debug_assert();
}

#[test]
fn short_help_is_a_summary_and_long_help_is_complete() {
    let mut cli = Cli::command();
    cli.build();
    for (name, longest) in [("serve", 80), ("bench", 60)] {
        let command = cli.find_subcommand_mut(name).expect("a command");
        let short = command.render_help().to_string();
        let long = command.render_long_help().to_string();
        assert!(short.lines().count() <= longest, "{name} -h has {} lines", short.lines().count());
        assert!(short.contains("Examples:\n  ") && long.contains("Examples:\n  "), "{name}");
        assert!(short.contains(&format!("`tollgate {name} --help`")), "{name}: {short}");
        let hidden = command.get_arguments().filter(|arg| !arg.is_hide_set() && arg.is_hide_short_help_set());
        let hidden: Vec<String> =
            hidden.filter_map(|arg| arg.get_long()).map(|name| format!("--{name} ")).collect();
        assert!(hidden.len() > 5, "{name}: {hidden:?}");
        for flag in hidden {
            assert!(!short.contains(&flag) && long.contains(flag.trim_end()), "{name}: {flag}");
        }
        for arg in command.get_arguments().filter(|arg| !matches!(arg.get_id().as_str(), "help" | "config")) {
            assert!(arg.get_help_heading().is_some(), "{name}: {} is in no group", arg.get_id());
        }
    }
}

#[test]
fn servers_are_named_alike_by_every_command_that_asks_one() {
    for command in ["top", "bench", "healthcheck"] {
        for flag in ["--target", "--http"] {
            let parsed = Cli::try_parse_from(["tollgate", command, flag, "http://127.0.0.1:9"]);
            assert!(parsed.is_ok(), "{command} {flag}");
        }
    }
}

#[test]
fn the_examples_of_help_are_commands() {
    let mut cli = Cli::command();
    cli.build();
    let texts: Vec<String> = std::iter::once(cli.render_long_help().to_string())
        .chain(cli.get_subcommands_mut().map(|command| command.render_long_help().to_string()))
        .collect();
    let mut seen = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        let is_example = line.starts_with("  ") && !line.starts_with("   ");
        let Some(at) = line.find("tollgate ").filter(|_| is_example) else { continue };
        // The text after the gap describes the command.
        let line = line.split_once("    ").map_or(line, |(command, _)| command);
        if line.contains("[OPTIONS]") || line.contains('<') {
            continue;
        }
        // Redirections and pipes are not part of the command.
        let words = line[at..].split_whitespace().take_while(|word| !matches!(*word, ">" | "|"));
        let parsed = Cli::try_parse_from(words);
        assert!(parsed.is_ok(), "{line}: {}", parsed.expect_err("faulty"));
        seen += 1;
    }
    assert!(seen >= 10, "{seen} examples");
}

#[test]
fn a_wrong_command_line_is_answered_with_a_way_out_and_exit_2() {
    for (args, way_out) in [
        (&["serve", "--grcp", "127.0.0.1:0"][..], "--grpc"),
        (&["sevre"], "serve"),
        (&["explain", "--rules", "r", "--domain", "d", "alice"], "key=value"),
        (&["check"], "PATH"),
        (&["serve"], "--rules FOLDER"),
    ] {
        let ran =
            Command::new(env!("CARGO_BIN_EXE_tollgate")).env_clear().args(args).output().expect("it ends");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(way_out), "{way_out} in {said}");
    }
}

#[test]
fn the_example_rules_of_the_project_have_no_errors() {
    let rules = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/rules");
    let mut out = Vec::new();
    let args = ["tollgate".as_ref(), "check".as_ref(), rules.as_os_str()];
    let ending =
        Cli::try_parse_from(args).expect("a command").run(&mut out, &mut Vec::new()).expect("written");
    assert_eq!(ending, Ending::Yes, "{}", String::from_utf8_lossy(&out));
}

#[test]
fn completions_and_manual_pages_come_from_the_definitions_of_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (ending, out, talk) = run(&[], &["completions", shell]);
        assert_eq!((ending, talk.as_str()), (Ending::Yes, ""), "{shell}");
        for word in ["serve", "healthcheck", "store-password-file"] {
            assert!(out.contains(word), "{word} in the script of {shell}");
        }
    }
    let (ending, page, _) = run(&[], &["man"]);
    assert!(ending == Ending::Yes && page.contains("tollgate\\-serve(1)"), "{page}");
    // The page of all commands shows how each is used, and the page of each does.
    let synopsis = |page: &str| {
        let (_, rest) = page.split_once(".SH SYNOPSIS\n").expect("a synopsis");
        rest.split_once("\n.SH ").expect("more").0.replace("\\-", "-").replace("\\fB", "").replace("\\fR", "")
    };
    let of_all = synopsis(&page);
    assert!(!page.contains("tollgate\\-help(1)"), "there is no such page");
    for usage in [
        "tollgate serve [OPTIONS]",
        "tollgate check [OPTIONS] <PATH>...",
        "tollgate explain [OPTIONS] --rules <PATH> --domain <DOMAIN> <KEY=VALUE>...",
        "tollgate import [OPTIONS] <SOURCE> <FILE>",
        "tollgate man [OPTIONS] [COMMAND]",
    ] {
        assert!(of_all.lines().any(|line| line == usage), "{usage} in {of_all}");
        let name = usage.split(' ').nth(1).expect("a name");
        let (_, page, _) = run(&[], &["man", name]);
        assert_eq!(synopsis(&page), usage);
        assert!(page.contains(concat!("\"tollgate ", env!("CARGO_PKG_VERSION"), "\"")), "{page}");
    }
    let (ending, page, _) = run(&[], &["man", "serve"]);
    assert!(ending == Ending::Yes && page.starts_with(".ie"), "{page}");
    for setting in SETTINGS.iter().filter(|setting| setting.kind != SettingKind::Secret) {
        assert!(page.contains(&setting.name.replace('-', "\\-")), "{} in the page", setting.name);
    }
    let (ending, out, talk) = run(&[], &["man", "sevre"]);
    assert_eq!((ending, out.as_str()), (Ending::CouldNotTell, ""));
    assert_eq!(talk, "unknown command \"sevre\"; `tollgate help` lists them\n");
    assert_eq!(run(&[], &["man", "--dir", "RULES/nowhere"]).0, Ending::CouldNotTell);
}

/// Completions that bash offers after these words.
fn completed(script: &str, words: &[&str]) -> Vec<String> {
    let last = words[words.len() - 1];
    let before = words[words.len() - 2];
    let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
    let text = format!(
        "{script}\nCOMP_WORDS=({})\nCOMP_CWORD={}\n_tollgate tollgate '{last}' '{before}'\n\
         printf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        quoted.join(" "),
        words.len() - 1
    );
    let ran = Command::new("bash").args(["--norc", "-c", &text]).output().expect("bash");
    let said = String::from_utf8(ran.stdout).expect("text");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    said.lines().map(str::to_owned).collect()
}

#[test]
fn shells_complete_the_values_of_settings_that_have_a_few() {
    let (_, script, _) = run(&[], &["completions", "bash"]);
    if Command::new("bash").arg("--version").output().is_err() {
        println!("SKIPPED the completions of bash, which is not installed");
        return;
    }
    for (words, want) in [
        (&["serve", "--unmatched", ""][..], &["admit", "deny"][..]),
        (&["serve", "--unmatched", "d"], &["deny"]),
        (&["serve", "--log-format", ""], &["text", "json"]),
        (&["serve", "--charge", ""], &["each", "together", "spare_others"]),
        (&["serve", "--headers", "draft-"], &["draft-03", "draft-07", "draft-11"]),
        (&["serve", "--max-reserv"], &["--max-reservations"]),
        (&["top", "--sort", ""], &["denied", "decisions", "share", "rule"]),
        (&["import", ""], &["--domain", "--help", "nginx"]),
        (&["heal"], &["healthcheck"]),
    ] {
        let words = [&["tollgate"], words].concat();
        let got = completed(&script, &words);
        assert!(want.iter().all(|want| got.iter().any(|got| got == want)), "{words:?}: {got:?}");
        assert!(got.len() <= want.len() + 2, "{words:?}: {got:?}");
    }
    for shell in ["zsh", "fish"] {
        let (_, script, _) = run(&[], &["completions", shell]);
        let of_it =
            script.lines().filter(|line| line.contains("unmatched")).any(|line| line.contains("admit"));
        assert!(of_it, "{shell}");
    }
}

#[test]
fn the_answer_to_what_cannot_be_read_is_set_by_either_name() {
    for (name, is_known) in [("--undecided", true), ("--oversized", true), ("--oversize", false)] {
        let parsed = Cli::try_parse_from(["tollgate", "serve", "--rules", "r", name, "error"]);
        assert_eq!(parsed.is_ok(), is_known, "{name}");
    }
}
