//! `tollgate import`: where the rule file and the warnings go, and how it ends.

use std::path::Path;

use clap::Parser;
use tollgate_server::cli::{Cli, Ending};

/// Result of `tollgate import nginx PATH`, and its output to stdout and stderr.
fn import(path: &Path) -> (Ending, String, String) {
    let mut out = Vec::new();
    let mut talk = Vec::new();
    let args = ["tollgate".as_ref(), "import".as_ref(), "nginx".as_ref(), path.as_os_str()];
    let ending = Cli::try_parse_from(args).expect("a command").run(&mut out, &mut talk).expect("written");
    (ending, String::from_utf8(out).expect("text"), String::from_utf8(talk).expect("text"))
}

#[test]
fn import_ends_with_0_if_all_limits_were_taken_over_and_with_1_if_it_warns() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    let zone = "limit_req_zone $binary_remote_addr zone=a:1m rate=1r/s;\n";
    for (limits, want, said) in [
        ("limit_req zone=a burst=5 nodelay;", Ending::Yes, &[][..]),
        ("limit_req zone=a burst=5;", Ending::No, &["3: "][..]),
        ("limit_req zone=a;\nlimit_req zone=b;\nauth_basic a;", Ending::No, &["4: ", "5: "]),
    ] {
        std::fs::write(&path, format!("http {{\n{zone}server {{ {limits} }}\n}}\n")).expect("written");
        let (ending, out, talk) = import(&path);
        let warnings: Vec<&str> = talk.lines().filter_map(|line| line.strip_prefix("warning: ")).collect();
        assert_eq!((ending, warnings.len()), (want, said.len()), "{limits}: {talk}");
        for (warning, line) in warnings.iter().zip(said) {
            assert!(warning.starts_with(&format!("{}:{line}", path.display())), "{warning}");
        }
        assert!(out.contains("zone"), "{out}");
        let end = match said.len() {
            0 => "1 rule\n".to_owned(),
            1 => "1 rule, 1 warning\n".to_owned(),
            number => format!("1 rule, {number} warnings\n"),
        };
        assert!(talk.ends_with(&end), "{talk}");
    }
}

#[test]
fn a_file_without_limits_makes_no_rule_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    for (text, want) in [
        ("", "is empty: looked for limit_req_zone and limit_req"),
        ("http { server { listen 80; } }", "has no limit_req_zone and no limit_req"),
        ("domain: edge\n", "is this an nginx configuration?"),
    ] {
        std::fs::write(&path, text).expect("written");
        let (ending, out, talk) = import(&path);
        assert_eq!((ending, out.len()), (Ending::CouldNotTell, 0), "{text}");
        assert!(talk.starts_with("error: ") && talk.contains(want), "{talk}");
    }
}
