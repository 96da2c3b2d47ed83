//! Rules in manifests of Kubernetes.

#![allow(clippy::expect_used, reason = "tests say what they expect")]

use std::path::PathBuf;

use tollgate_human_text::with_causes;
use tollgate_rule_files::{Options, load};

/// Result of loading a folder with these files: the domains, or the errors, with the folder taken out.
fn loaded(files: &[(&str, &str)]) -> Result<Vec<String>, String> {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).expect("written");
    }
    let place = format!("{}/", folder.path().display());
    let rules = load(&[PathBuf::from(folder.path())], &Options::default());
    match rules {
        Ok(rules) => Ok(rules.policy.domains().iter().map(|domain| domain.name().to_owned()).collect()),
        Err(error) => Err(with_causes(&error).to_string().replace(&place, "")),
    }
}

const A: &str = "apiVersion: v1
kind: ConfigMap
metadata: {name: limits}
data:
  a.yaml: |
    domain: a
    descriptors:
      - {key: k, rate_limit: {unit: minute, requests_per_unit: 1}}
";

#[test]
fn the_files_under_data_of_every_config_map_are_rules() {
    let own = "domain: own\ndescriptors: [{key: k, rate: 1/s}]\n";
    for (text, want) in [
        (A.to_owned(), &["a", "own"][..]),
        (A.replace('\n', "\r\n"), &["a", "own"]),
        (A.replace("a.yaml: |", "a.yaml: |-  # the rules"), &["a", "own"]),
        (A.replace("a.yaml: |", "\"a.yaml\":   |2+"), &["a", "own"]),
        (A.replace("a.yaml: |", "a.yaml: &x |"), &["a", "own"]),
        (A.replace("a.yaml: |", "README.md: |\n    domain: no\n  a.yaml: |"), &["a", "own"]),
        (format!("{A}  b.yml: |\n\n    domain: b\n"), &["a", "b", "own"]),
        (format!("{A}  b.json: '{{\"domain\": \"b\"}}'\n"), &["a", "b", "own"]),
        (format!("{A}  b.yaml: \"domain: b\\ndescriptors: []\\n\"\n"), &["a", "b", "own"]),
        (
            format!(
                "# ours\n---\n{A}---\nkind: Service\napiVersion: v1\n---\n{}",
                A.replace("domain: a", "domain: c")
            ),
            &["a", "c", "own"],
        ),
    ] {
        let got = loaded(&[("limits.yaml", &text), ("own.yaml", own)]);
        assert_eq!(got, Ok(want.iter().map(ToString::to_string).collect()), "{text}");
    }
    let listed = format!(
        "{}  l.values: |\n    10.0.0.0/8\n    # ours\n",
        A.replace("key: k,", "key: k, value_file: l.values,")
    );
    assert_eq!(loaded(&[("limits.yaml", &listed)]), Ok(vec!["a".to_owned()]));
}

#[test]
fn errors_have_the_lines_and_columns_of_the_manifest() {
    let bad = |text: &str| text.replace("unit: minute", "unit: minuet");
    let message = "descriptors[0].rate_limit.unit: unknown unit \"minuet\"; did you mean minute?";
    assert_eq!(loaded(&[("m.yaml", &bad(A))]), Err(format!("m.yaml:8:37: {message}")));
    let second = format!("{A}---\n{}", bad(&A.replace("domain: a", "domain: b")));
    assert_eq!(loaded(&[("m.yaml", &second)]), Err(format!("m.yaml:17:37: {message}")));
    let twice = format!("{A}  b.yaml: |\n    domain: b\n    descriptorz: []\n");
    assert_eq!(
        loaded(&[("m.yaml", &twice)]),
        Err("m.yaml:11:5: descriptorz: unknown key; did you mean descriptors?".to_owned())
    );
    // The lines of a quoted text are its own.
    let quoted = "apiVersion: v1\nkind: ConfigMap\ndata: {a.yaml: \"domain: a\\ndescriptorz: []\\n\"}\n";
    assert_eq!(
        loaded(&[("m.yaml", quoted)]),
        Err("m.yaml/a.yaml:2:1: descriptorz: unknown key; did you mean descriptors?".to_owned())
    );
}

#[test]
fn a_manifest_without_rules_is_one_error() {
    for (text, want) in [
        (
            "apiVersion: v1\nkind: ConfigMap\ndata: {config: \"domain: a\"}\n",
            "m.yaml:1:1: this is a ConfigMap without rules; they are read from the files under data, whose names end \
             in .yaml, .yml or .json",
        ),
        (
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: empty}\n",
            "m.yaml:1:1: this is a ConfigMap without rules; they are read from the files under data, whose names end \
             in .yaml, .yml or .json",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment\nspec: {}\n",
            "m.yaml:1:1: this is a manifest of Kubernetes, of a Deployment, and not rules",
        ),
    ] {
        assert_eq!(loaded(&[("m.yaml", text)]), Err(want.to_owned()), "{text}");
    }
}

#[test]
fn a_manifest_of_many_files_far_down_is_bounded() {
    let head = format!("apiVersion: v1\nkind: ConfigMap\ndata:\n{}", "\n".repeat(1_000_000));
    let files: String = (0..100).map(|at| format!("  f{at}.yaml: |\n    domain: d{at}\n")).collect();
    let error = loaded(&[("m.yaml", &(head + &files))]).expect_err("100 times a million lines");
    assert!(error.contains("all rule files together have more than 67108864 bytes"), "{error}");
}
