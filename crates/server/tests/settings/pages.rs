//! The pages that the table of settings makes: `docs/settings.md` and the example of a settings file.

use super::*;

/// The page as the table says it.
fn page() -> String {
    let mut page = String::from(
        "# Settings of `tollgate serve`

Each setting is a flag, a name in the environment and a line in the file of `--config` (or `TOLLGATE_CONFIG`). What
counts is the first of: the flag, the `TOLLGATE_` name, the name of envoyproxy/ratelimit, the file, the default. Every
fault is told at once with its place, and nothing is started then. Spans are written as `500ms`, `5s` or `1h30m`, sizes
as `512MiB`, switches as `true` or `false`; in the environment several rule paths have `:` between them. Secrets have no
flag, since everyone on a machine can see command lines. `examples/tollgate.yaml` says every key with its default.

```yaml
rules: [/etc/tollgate/rules]
grpc: 0.0.0.0:8081
memory_max: 2GiB
response_headers: true
```

This page is made of the table in `crates/server/src/settings/table.rs`; a test holds the two together.
",
    );
    let mut heading = "";
    for row in SETTINGS {
        if row.heading != heading {
            heading = row.heading;
            page += &format!(
                "\n## {heading}\n\n| flag | environment | file | default | |\n|---|---|---|---|---|\n"
            );
        }
        let value = if row.kind == Kind::Switch { String::new() } else { format!(" {}", row.value) };
        let names: Vec<String> =
            std::iter::once(row.env()).chain(row.peer.iter().map(ToString::to_string)).collect();
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let (flag, env, key) = (row.name, names.join("`, `"), row.key());
        let flag = if row.kind == Kind::Secret { String::new() } else { format!("`--{flag}{value}`") };
        page += &format!("| {flag} | `{env}` | `{key}` | {default} | {} |\n", row.help);
    }
    page + &fixed()
}

/// What a shared store is asked by and no setting changes, as the code has it.
fn fixed() -> String {
    let timing = tollgate_lease::Timing::default();
    let servers = tollgate_store_redis::Servers::Unix(PathBuf::new());
    let config = tollgate_store_redis::RedisConfig::new(servers);
    let breaker = &config.link.breaker;
    let rows = [
        (
            "breaker",
            format!("{} failures", breaker.failures),
            "in a row open it: answers that did not come in time, and broken connections. Then calls are refused at once, and only probes are sent",
        ),
        (
            "breaker: longest pause",
            format!("{:?}", breaker.longest_pause),
            "between two probes. The first pauses are shorter, and each is shortened by chance",
        ),
        (
            "flight",
            config.link.max_flight.to_string(),
            "calls at most that one round trip of a connection carries",
        ),
        (
            "node",
            format!("{:?}", config.node_timeout),
            "for so long after it was last heard of a node counts as alive; it tells that it lives three times as often (Redis; memcached has `--store-nodes`)",
        ),
        (
            "lease: tau",
            format!("{:?}", timing.tau),
            "for so long after it was asked for a lease may be spent. What is not heard of for one to two of these is written off",
        ),
        (
            "lease: horizon",
            format!("{:?}", timing.horizon),
            "of demand is covered by one lease; where nothing is left, permits are promised ahead of their refill for half of tau",
        ),
        (
            "lease: end of a window",
            format!("{:?}", timing.skew),
            "before its fixed window a lease ends, for clocks that differ",
        ),
        (
            "lease: drift",
            format!("{} ppm", timing.drift_ppm),
            "is the most by which the speeds of two clocks may differ",
        ),
    ];
    let mut text = String::from(
        "
## Shared store: what is fixed

No setting changes these: the nodes of a fleet must agree on some, and [guarantees.md](guarantees.md) is derived from them.

| what | is | |
|---|---|---|
",
    );
    for (what, is, means) in rows {
        text += &format!("| {what} | {is} | {means} |\n");
    }
    text
}

/// The example of a settings file as the table says it: every key, with its default.
fn example() -> String {
    let mut file = String::from(
        "# Every setting of `tollgate serve`, with its default; a key without a value is not set.
# Use it as it is, or keep the lines that you change:  tollgate serve --config examples/tollgate.yaml
# Each is also a flag (--memory-max) and a name in the environment (TOLLGATE_MEMORY_MAX), which both count before
# this file. An unknown key, a wrong value or two keys that do not go together are told with their line and column,
# and nothing is started then.
",
    );
    let mut heading = "";
    for row in SETTINGS {
        if row.heading != heading {
            heading = row.heading;
            file += &format!("\n# --- {heading} ---\n");
        }
        file += "\n";
        let mut line = String::from("#");
        for word in row.help.replace('`', "").split(' ') {
            if line.len() + 1 + word.len() > 118 {
                file += &format!("{line}\n");
                line = String::from("#");
            }
            line += &format!(" {word}");
        }
        file += &format!("{line}\n");
        let value = if row.name == "rules" { "examples/rules" } else { row.default };
        let quote = if value.ends_with(':') { "'" } else { "" };
        file += format!("{}: {quote}{value}{quote}", row.key()).trim_end();
        file += "\n";
    }
    file
}

/// The page at `path` of the project is `made`; `TOLLGATE_WRITE_DOCS` writes it.
fn is_kept(path: &str, made: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("TOLLGATE_WRITE_DOCS").is_some() {
        std::fs::write(&file, made).expect("written");
    }
    let kept = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(kept == made, "{path} is out of date: TOLLGATE_WRITE_DOCS=1 cargo test -p tollgate-server");
}

#[test]
fn the_page_of_settings_is_the_table() {
    is_kept("docs/settings.md", &page());
}

#[test]
fn the_example_of_a_settings_file_says_every_key_and_is_the_defaults() {
    is_kept("examples/tollgate.yaml", &example());
    let as_it_is = read(&[], &[], Some(&example())).expect("no fault");
    assert_eq!(as_it_is, read(&[("rules", "examples/rules")], &[], None).expect("no fault"));
}
