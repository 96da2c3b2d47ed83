//! The pages that the table of settings makes: `docs/settings.md` and the example of a settings file.

use super::*;

/// The page as the table says it.
fn page() -> String {
    let mut page = String::from(
        "# Settings of `tollgate serve`

Each setting is a flag, an environment variable, and a key in the file given by `--config` (or
`TOLLGATE_CONFIG`). `examples/tollgate.yaml` has every key with its default.

- The first of these that is set is used: the flag, the `TOLLGATE_` variable, the variable of
  envoyproxy/ratelimit, the file, the default.
- The variables of envoyproxy/ratelimit count only if one of them is set that no other program has
  ([envoy.md](envoy.md#which-environment-is-that-of-envoyproxyratelimit) lists these), or with
  `--compat ratelimit`. Then the addresses and the folder of rules that are not set have its defaults too.
  Otherwise a line in the log names those that were ignored: a `PORT` or `REDIS_URL` meant for another program
  changes nothing.
- `TOLLGATE_DEFAULT_…` replaces a default: `TOLLGATE_DEFAULT_GRPC` counts only where nothing else, also no
  file, sets `--grpc`. It is for images.
- All configuration errors are reported together with their location, and the server does not start.
- A misspelt `TOLLGATE_` variable is an error. Any other unknown one has no effect, and a line in the log
  names the nearest setting. What Kubernetes sets for a Service called `tollgate` (`TOLLGATE_PORT`,
  `TOLLGATE_SERVICE_HOST` and more) is ignored.
- A relative path in the file is relative to the folder of the file, so that it means the same wherever the
  server is started. If there is nothing, but something in the working directory, that is used, and a line in
  the log says so. Paths of flags and variables are relative to the working directory.
- Durations are written as `500ms`, `5s` or `1h30m`, sizes as `512MiB`, switches as `true` or `false`. In the
  environment, several rule paths are separated by `:`.
- Secrets have no flag, since all users of a machine can read command lines.

```yaml
rules: [/etc/tollgate/rules]
grpc: 0.0.0.0:8081
memory_max: 2GiB
response_headers: true
```

This page is generated from the rows in `crates/server/src/settings` and `surfaces`; a test checks that both
agree.
",
    );
    let mut heading = "";
    for row in SETTINGS.iter() {
        if row.heading.name() != heading {
            heading = row.heading.name();
            page += &format!(
                "\n## {heading}\n\n| flag | environment | file | default | |\n|---|---|---|---|---|\n"
            );
        }
        let value = if row.kind == SettingKind::Switch { String::new() } else { format!(" {}", row.value) };
        let names: Vec<String> =
            std::iter::once(row.env()).chain(row.envoy_compat.iter().map(ToString::to_string)).collect();
        let default = if row.default.is_empty() { String::new() } else { format!("`{}`", row.default) };
        let flag = row.name;
        let env = names.join("`, `");
        let key = row.key();
        let flag = if row.kind == SettingKind::Secret { String::new() } else { format!("`--{flag}{value}`") };
        page += &format!("| {flag} | `{env}` | `{key}` | {default} | {} |\n", row.help);
    }
    page + &fixed()
}

/// Constants of a shared store's requests that no setting changes, from the code.
fn fixed() -> String {
    let timing = tollgate_lease::Timing::default();
    let servers = tollgate_store_redis::Servers::Unix(PathBuf::new());
    let config = tollgate_store_redis::RedisConfig::new(servers);
    let breaker = &config.link.breaker;
    let rows = [
        (
            "breaker",
            format!("{} failures", breaker.failures),
            "in a row open it: late replies and broken connections. Then calls fail at once, and only probes are sent",
        ),
        (
            "breaker: longest pause",
            format!("{:?}", breaker.longest_pause),
            "between two probes. The first pauses are shorter, and each has random jitter",
        ),
        ("flight", config.link.max_flight.to_string(), "calls at most in one round trip of a connection"),
        (
            "node",
            format!("{:?}", config.node_timeout),
            "after its last heartbeat a node counts as alive; it sends three heartbeats in that time (Redis; memcached has `--store-nodes`)",
        ),
        (
            "lease: tau",
            format!("{:?}", timing.tau),
            "after its request a lease may be spent. It is written off after one to two of these without a message",
        ),
        (
            "lease: horizon",
            format!("{:?}", timing.horizon),
            "of demand is covered by one lease; if no permits are left, permits are promised ahead of their refill for half of tau",
        ),
        (
            "lease: end of a window",
            format!("{:?}", timing.skew),
            "before its fixed window a lease ends, to allow for clock differences",
        ),
        (
            "lease: drift",
            format!("{} ppm", timing.drift_ppm),
            "at most is the allowed difference between the speeds of two clocks",
        ),
    ];
    let mut text = String::from(
        "
## Shared store: fixed values

These values cannot be changed: all nodes must agree on some of them, and [guarantees.md](guarantees.md) is
derived from them.

| what | value | |
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
# Use it unchanged, or keep the lines that you change:  tollgate serve --config examples/tollgate.yaml
# Each is also a flag (--memory-max) and an environment variable (TOLLGATE_MEMORY_MAX), which both take
# precedence over this file. An unknown key, an invalid value or two contradicting keys are reported with
# their line and column, and the server does not start.
# A relative path is relative to the folder of this file.
",
    );
    let mut heading = "";
    for row in SETTINGS.iter() {
        if row.heading.name() != heading {
            heading = row.heading.name();
            file += &format!("\n# --- {heading} ---\n");
        }
        file += "\n";
        let mut line = String::from("#");
        let mut help = row.help.replace('`', "");
        if row.is_path() && !row.default.is_empty() {
            help += &format!(" [default: {}, in the working directory]", row.default);
        }
        for word in help.split(' ') {
            if line.len() + 1 + word.len() > 110 {
                file += &format!("{line}\n");
                line = String::from("#");
            }
            line += &format!(" {word}");
        }
        file += &format!("{line}\n");
        // A path is relative to the file, and a default to the working directory.
        let value = match (row.name, row.is_path()) {
            ("rules", _) => "rules",
            (_, true) => "",
            _ => row.default,
        };
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
    let mut as_it_is = read(&[], &[], Some(&example())).expect("no fault");
    assert!(as_it_is.rules.paths[0].is_absolute(), "beside the file: {:?}", as_it_is.rules.paths);
    as_it_is.rules.paths = vec!["rules".into()];
    assert_eq!(as_it_is, read(&[("rules", "rules")], &[], None).expect("no fault"));
}
