use tollgate_rule_files::{Options, RuleFile, parse};

use super::directives::{Block, directives};
use super::*;

mod tables;

const CONF: &str = r#"
http {
    # limit_req_zone $commented zone=out:1m rate=1r/s;
    limit_req_zone $binary_remote_addr zone=perip:10m rate=10r/s;
    limit_req_zone "${server_name}:$uri" zone=page:1m rate=30r/m;
    limit_req_zone all zone=everything:32k rate=5r/s sync;
    limit_req_zone $http_x_key zone=unused:1m;
    limit_conn_zone $binary_remote_addr zone=addr:10m;
    limit_req_status 429;
    include conf.d/*.conf;
    server {
        content_by_lua_block { local s = "limit_req zone=lua; {" .. [[ } ]] }
        location / {
            limit_req zone=perip burst=20 nodelay;
            limit_req zone=page
                burst=5 delay=3;
            limit_conn addr 10;
        }
        location /slow { limit_req zone=perip burst=5; limit_req_dry_run on; }
        location /all  { limit_req zone=everything; limit_req zone=nowhere burst=1; limit_req_status 503; }
        location /odd  { limit_req zone=perip burst=many; limit_req_log_level warn; limit_req_dry_run off; }
    }
}
"#;

/// The import of a text without files around it.
fn imported(text: &str) -> Imported {
    import(None, text.to_owned(), "edge")
}

fn rules_of(text: &str) -> String {
    let rules = imported(text).rules.expect("rules").text;
    rules.split_once("descriptors:\n").expect("descriptors").1.to_owned()
}

fn left_out(text: &str) -> Vec<String> {
    imported(text).left_out.into_iter().map(|it| format!("{}: {}", it.place, it.why)).collect()
}

#[test]
fn each_zone_is_a_leaky_bucket_with_the_burst_of_its_use() {
    let want = "  # line 4: key $binary_remote_addr
  # line 14: burst=20 nodelay in location /
  # line 19: burst=5 in location /slow
  # Its 10m of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: perip
    descriptors:
      - key: remote_address
        ipv6_prefix: 128
        rate_limit: {rate: 10/s, algorithm: leaky_bucket, capacity: 21}
        response: {status: 429}
  # line 5: key ${server_name}:$uri
  # line 15: burst=5 delay=3 in location /
  # Its 1m of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: page
    descriptors:
      - key: server_name
        descriptors:
          - key: uri
            rate_limit: {rate: 30/m, algorithm: leaky_bucket, capacity: 4}
            on_limit: queue
            max_wait: 4200ms
            response: {status: 429}
  # line 6: key all
  # line 20: no burst in location /all
  # Its 32k of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: everything
    rate_limit: {rate: 5/s, algorithm: leaky_bucket, capacity: 1}
    response: {status: 503}
  # line 8: key $binary_remote_addr
  # line 17: 10 at the same time in location /
  # nginx gives a place back when the request ends. Here its holder does (/v1/acquire, /v1/release),
  # and renews it before the ttl ends; docs/concurrency.md.
  - key: conn_zone
    value: addr
    descriptors:
      - key: remote_address
        ipv6_prefix: 128
        rate_limit: {algorithm: concurrency, limit: 10, ttl: 1m}
";
    assert_eq!((imported(CONF).rules.map(|it| it.number), rules_of(CONF).as_str()), (Ok(4), want));
}

#[test]
fn what_is_written_loads_without_a_warning() {
    let quoted = "limit_req_zone $a \"zone=on:1m\";limit_req zone=on burst=1;";
    for (text, number, rules) in [(CONF, 4, 4), (CONNS, 2, 3), (quoted, 1, 2), (RECIPE, 2, 3)] {
        let imported = import(None, text.to_owned(), "a domain: \"with\" quotes").rules.expect("rules");
        let file = RuleFile { name: "nginx.yaml".into(), text: imported.text.clone() };
        let loaded = parse(&[file], &Options::default())
            .unwrap_or_else(|faults| panic!("{faults}\n{}", imported.text));
        assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
        assert_eq!((loaded.policy.rules().count(), imported.number), (rules, number));
        assert_eq!(loaded.policy.domains()[0].name(), "a domain: \"with\" quotes");
    }
}

/// Limits of concurrency alone: inherited, with a number of its own, only counted.
const CONNS: &str = "limit_conn_zone $binary_remote_addr zone=perip:10m;
limit_conn_zone $http_x_key zone=perkey:1m;
server {
    limit_conn perip 5;
    location /a { limit_conn_dry_run on; }
    location /b { limit_conn perkey 3; limit_conn_dry_run on; }
}";

#[test]
fn zones_of_limit_conn_become_rules_with_slots() {
    let rules = rules_of(CONNS);
    let want = "  # line 1: key $binary_remote_addr
  # line 4: 5 at the same time in server
  # line 5: 5 at the same time in location /a
";
    assert!(rules.starts_with(want), "{rules}");
    for part in [
        "  - key: conn_zone\n    value: perip\n    descriptors:\n      - key: remote_address\n        ipv6_prefix: \
         128\n        rate_limit: {algorithm: concurrency, limit: 5, ttl: 1m}\n",
        "value_regex: ^$\n        action: allow",
        "limit: 3, ttl: 1m}\n        shadow_mode: true\n",
    ] {
        assert!(rules.contains(part), "{part:?} in {rules}");
    }
    let said = left_out(CONNS);
    let want = [
        "-:2: a client writes $http_x_key in the key of zone perkey",
        "-:4: limit_conn perip 5: auth_request cannot give a place back; keep limit_conn in nginx",
        "-:5: limit_conn_dry_run: the rule of zone perip denies here too, as elsewhere",
        "-:6: limit_conn perkey 3: auth_request cannot give a place back",
    ];
    assert!(said.len() == want.len(), "{said:#?}");
    for (said, want) in said.iter().zip(want) {
        assert!(said.starts_with(want), "{said}");
    }
}

#[test]
fn what_is_not_taken_over_is_said_by_line() {
    let want = [
        "-:5: a client writes $uri in the key of zone page, so it must not be part of a URL: send it by \
         `proxy_set_header X-Limit-Uri $tollgate_uri;` and entry_header=uri=X-Limit-Uri, as the rule file says",
        "-:6: sync of limit_req_zone all zone=everything:32k rate=5r/s sync: nodes share counters with --store instead",
        "-:7: zone unused is not used by any limit_req",
        "-:10: include conf.d/*.conf: stdin has no folder to look in; give the path of the configuration, or what `nginx -T` prints",
        "-:15: a request of zone page waits for its turn at Tollgate, up to 4200ms: where nginx asks, write \
         `proxy_read_timeout 4700ms;`, or it takes a wait for an outage; while it waits, it is not charged to the \
         other zones of its place, and the shortest of their waits is the longest",
        "-:17: limit_conn addr 10: auth_request cannot give a place back; keep limit_conn in nginx, or let the \
         application acquire and release, which the rule is for (docs/concurrency.md)",
        "-:19: zone perip has the burst of line 14 here too, since a rule has one: burst=20 nodelay",
        "-:19: limit_req_dry_run: the rule of zone perip denies here too, as elsewhere",
        "-:20: zone nowhere is not defined in this configuration",
        "-:21: limit_req zone=perip burst=many: burst=many has no whole number",
        "-:21: limit_req_log_level warn: the level is a setting of Tollgate, --denial-log-level",
    ];
    assert_eq!(left_out(CONF), want);
    for (text, want) in [
        (
            "limit_conn_status 429;",
            "-:1: limit_conn_status 429: a holder that gets no slot answers its client itself",
        ),
        ("limit_conn addr 0;", "-:1: limit_conn addr 0: 0 is not a whole number from 1 to 65535"),
        ("limit_conn addr 5;", "-:1: zone addr is not defined in this configuration"),
        ("limit_conn_zone $a zone=a:1m;", "-:1: zone a is not used by any limit_conn"),
        (
            "limit_conn_zone $server_name zone=a:1m; server { limit_conn a 5; }\nserver { limit_conn a 6; }",
            "-:2: zone a has the number of line 1 here too, since a rule has one: 5",
        ),
        ("limit_rate 100k;", "-:1: limit_rate 100k: rules cannot limit bandwidth; keep it in nginx"),
        ("limit_req_status 302;", "-:1: limit_req_status 302: expected a status from 400 to 599"),
        ("limit_req_zone $a zone=a:1m rate=5/s;", "rate=5/s is not a rate such as 10r/s or 10r/m"),
        ("\n\nlimit_req_burst 3;", "-:3: limit_req_burst 3: unknown directive"),
        (
            "content_by_lua_block { require \"resty.limit.count\" }",
            "-:1: content_by_lua_block: limits that Lua makes are not read",
        ),
    ] {
        let lines = left_out(text);
        assert!(lines.last().is_some_and(|line| line.contains(want)), "{text}: {lines:?}");
    }
}

#[test]
fn a_text_without_limits_says_what_was_looked_for() {
    let zone = "limit_req_zone $a zone=a:1m rate=1r/s;";
    for (text, want) in [
        (
            "",
            "- is empty: looked for limit_req_zone and limit_req in an nginx configuration; give the main file",
        ),
        (" \n", "- is empty: "),
        ("events {}\nhttp { server { listen 80; } }", "- has no limit_req_zone and no limit_req"),
        ("domain: edge\ndescriptors:\n", "-:1: the directive that begins here ends neither with"),
        ("{\"domain\": 1}", "-:1: unexpected \"{\"; is this an nginx configuration?"),
        ("limit_req zone=b; server { limit_req zone=a; }", "no valid limit_req_zone defines zone a or b"),
        (zone, "- has limit_req_zone, and no valid limit_req uses zone a; give the main file"),
    ] {
        let error = imported(text).rules.expect_err("no rules").to_string();
        assert!(error.contains(want), "{text:?}: {error}");
    }
}

#[test]
fn a_zone_that_is_used_in_several_places_is_one_rule() {
    let text = "limit_req_zone $server_name zone=a:1m rate=1r/s;
server { location /a { limit_req zone=a burst=5 nodelay; } location /b { limit_req zone=a burst=5 nodelay; } }
server { server_name b b.example; limit_req zone=a burst=5 nodelay; limit_req_status 429; }";
    let want = "  # line 1: key $server_name
  # line 2: burst=5 nodelay in location /a
  # line 2: burst=5 nodelay in location /b
  # line 3: burst=5 nodelay in server b
";
    let rules = rules_of(text);
    assert!(rules.starts_with(want), "{rules}");
    assert_eq!(rules.matches("- key: zone").count(), 1);
    assert_eq!(
        left_out(text),
        ["-:3: zone a denies with the status of line 2 here too, since a rule has one: 503"]
    );
}

#[test]
fn a_place_has_the_limits_and_the_status_of_the_places_around_it() {
    let zones = "limit_req_zone $host zone=a:1m; limit_req_zone $uri zone=b:1m;";
    // Each is the uses of the zones a and b, their status, and whether they only count.
    for (text, want) in [
        // One status and one dry run for all: they are inherited, and a limit may come before them.
        ("http { server { limit_req zone=a; } limit_req_status 429; }", &["no burst in server", "429"][..]),
        (
            "http { limit_req_dry_run on; server { location / { limit_req zone=a; } } }",
            &["no burst in location /", "shadow_mode: true"],
        ),
        // A limit of its own replaces those around.
        (
            "http { limit_req zone=a burst=1; server { limit_req zone=b burst=2; } }",
            &["burst=1 in http", "burst=2 in server"],
        ),
        // A directive that changes an inherited limit is a use of it.
        (
            "http { limit_req zone=a; server { limit_req_dry_run on; } }",
            &["no burst in http", "no burst in server"],
        ),
        (
            "limit_req_dry_run on; limit_req zone=a; server { limit_req_dry_run off; limit_req zone=b; }",
            &["no burst in the top level", "no burst in server", "shadow_mode: true"],
        ),
    ] {
        let rules = imported(&format!("{zones}\n{text}")).rules.expect("rules").text;
        for want in want {
            assert!(rules.contains(want), "{text}: {want}\n{rules}");
        }
        let rules = rules.split_once("descriptors:\n").map_or("", |(_, rules)| rules);
        assert_eq!(rules.matches(" in ").count(), want.iter().filter(|it| it.contains(" in ")).count());
    }
}

/// A key that a header decides about, as allow lists by user agent have it.
const RECIPE: &str = r#"
map $http_x_plan $limit_key { default $binary_remote_addr; gold ""; }
limit_req_zone $limit_key zone=others:10m rate=5r/s;
limit_req_zone $binary_remote_addr zone=all:10m rate=15r/s;
server {
    location / {
        limit_req zone=others burst=10 nodelay;
        limit_req zone=all burst=20 nodelay;
    }
}
"#;

#[test]
fn a_key_that_a_map_makes_stays_in_nginx_and_its_empty_value_is_not_limited() {
    let want = "    descriptors:
      # nginx does not limit a request whose key is empty.
      - key: limit_key
        value_regex: ^$
        action: allow
      - key: limit_key
        rate_limit: {rate: 5/s, algorithm: leaky_bucket, capacity: 11}
";
    let rules = rules_of(RECIPE);
    assert!(rules.contains(want), "{rules}");
    assert_eq!(rules.matches("action: allow").count(), 1, "an address is never empty");
    assert_eq!(
        left_out(RECIPE),
        [
            "-:2: map $http_x_plan $limit_key makes the key of zone others, and $http_x_plan is not made of the client's \
             address: keep it in nginx, which sends it by `proxy_set_header X-Limit-Limit-Key $tollgate_limit_key;` and \
             entry_header=limit_key=X-Limit-Limit-Key, as the rule file says; write $remote_addr for \
             $binary_remote_addr there, whose bytes a field cannot have"
        ]
    );
}

#[test]
fn a_request_without_any_part_of_its_key_is_not_limited_and_any_part_is_enough() {
    let text = "limit_req_zone $http_a$cookie_b$arg_c zone=a:1m; limit_req zone=a;";
    let name = |text: String| RuleFile { name: "nginx.yaml".into(), text };
    let loaded =
        parse(&[name(imported(text).rules.expect("rules").text)], &Options::default()).expect("rules");
    let domain = loaded.policy.domain("edge").expect("the domain");
    for parts in 0..8 {
        let value = |bit: u32| if parts & bit == 0 { "" } else { "x" };
        let entries = [("zone", "a"), ("http_a", value(1)), ("cookie_b", value(2)), ("arg_c", value(4))]
            .map(|(key, value)| tollgate_policy::Entry::new(key, value));
        let rule = domain.find(&entries).expect("a rule");
        assert_eq!(rule.unlimited, parts == 0, "{entries:?}");
    }
}

#[test]
fn included_files_are_read_from_the_folder_or_from_what_nginx_prints() {
    let folder = tempfile::tempdir().expect("a folder");
    let main =
        "limit_req_zone $server_name zone=a:1m;\nhttp { include conf.d/*.conf; include missing.conf; }\n";
    let first = "limit_req zone=a burst=3 nodelay;";
    let second = "server { limit_req zone=a burst=4 nodelay; }\ninclude ../main.conf;";
    let main_path = folder.path().join("main.conf");
    std::fs::create_dir(folder.path().join("conf.d")).expect("created");
    let write = |name: &str, text: &[u8]| std::fs::write(folder.path().join(name), text).expect("written");
    write("main.conf", main.as_bytes());
    write("conf.d/a.conf", [first.as_bytes(), b" # caf\xe9"].concat().as_slice());
    write("conf.d/b.conf", b"server { limit_req zone=a burst=4 nodelay; }");
    write("conf.d/c.txt", b"limit_req zone=a burst=9 nodelay;");
    let base = folder.path().display().to_string();
    let printed = format!(
        "nginx: the configuration file {base}/main.conf syntax is ok\n# configuration file {base}/main.conf:\n{main}\n\
         # configuration file {base}/conf.d/a.conf:\n{first}\n# configuration file {base}/conf.d/b.conf:\n\
         {second}\n# configuration file {base}/conf.d/sub/c.conf:\nlimit_req zone=a burst=9 nodelay;\n"
    );
    for (path, text) in [(Some(main_path.as_path()), main.to_owned()), (None, printed)] {
        let Imported { rules, left_out } = import(path, text, "edge");
        let rules = rules.expect("rules").text;
        let want = format!(
            "  # line 1: key $server_name\n  # {base}/conf.d/a.conf:1: burst=3 nodelay in http\n  # {base}/conf.d/b.conf:1: burst=4 \
             nodelay in server\n  # Its"
        );
        assert!(rules.contains(&want), "{rules}");
        let places: Vec<_> = left_out.iter().map(|it| it.place.replace(&base, "")).collect();
        assert!(places.starts_with(&["/main.conf:2".to_owned()]), "{left_out:?}");
        assert!(left_out[0].why.starts_with("include missing.conf: "), "{left_out:?}");
    }
}

#[test]
fn files_that_include_each_other_end() {
    let folder = tempfile::tempdir().expect("a folder");
    for text in ["include a.conf;", "server { include a.conf; }", "include a.conf; include a.conf;"] {
        let path = folder.path().join("a.conf");
        std::fs::write(&path, text).expect("written");
        let Imported { rules, left_out } = import(Some(&path), text.to_owned(), "edge");
        assert!(rules.is_err() && left_out.len() <= 2, "{left_out:?}");
        assert!(left_out[0].why.contains("too many files"), "{left_out:?}");
    }
}

#[test]
fn a_pipe_without_a_writer_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, pipe) = (folder.path().join("a.conf"), folder.path().join("pipe"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let Imported { left_out, .. } = import(Some(&path), "include pipe;".to_owned(), "edge");
    assert!(left_out[0].why.contains("not a regular file"), "{left_out:?}");
}

#[test]
fn words_quotes_comments_and_blocks_are_read_as_nginx_does() {
    fn words(all: &[super::directives::Directive]) -> Vec<String> {
        let inner = |block: &Block| match block {
            Block::Directives(all) => words(all),
            Block::None | Block::Lua(_) => Vec::new(),
        };
        all.iter().flat_map(|it| [vec![it.words.join(" ")], inner(&it.block)].concat()).collect()
    }
    for (text, want) in [
        ("a b;c;", &["a b", "c"][..]),
        ("a 'b c' \"d\\\"e\";", &["a b c d\"e"]),
        ("a{b c;}d;", &["a", "b c", "d"]),
        ("a ${b}c;", &["a ${b}c"]),
        ("a $b{c;}", &["a $b", "c"]),
        ("# a;\nb#c;", &["b#c"]),
        ("a \\;b;", &["a \\;b"]),
        ("location ~ \\.php$ {}", &["location ~ \\.php$"]),
        ("a b}c;", &["a b}c"]),
        ("\u{feff}a;\r\nb;", &["a", "b"]),
        ("x_by_lua_block { a; { b } } c;", &["x_by_lua_block", "c"]),
        ("", &[]),
    ] {
        assert_eq!(words(&directives(text).expect("readable")), want, "{text}");
    }
    for (text, want) in [
        ("a;\n'b", "2: the quote that begins here does not end"),
        ("\nx_by_lua_block {", "2: the block that begins here does not end"),
        ("a {\nb {\n", "2: the block that begins here does not end"),
        ("a;\n}", "2: unexpected \"}\""),
        ("a;\n;", "2: unexpected \";\""),
        ("a { b }", "1: unexpected \"}\": a directive ends with \";\""),
        ("\nabc\n", "2: the directive that begins here ends neither with \";\" nor with a block"),
    ] {
        assert_eq!(directives(text).map_err(|error| error.to_string()), Err(want.to_owned()), "{text}");
    }
    let deep = |depth| format!("{}{}", "a {".repeat(depth), "}".repeat(depth));
    assert!(directives(&deep(64)).is_ok() && directives(&deep(65)).is_err());
}

#[test]
fn lua_is_skipped_whole_with_its_own_quotes_comments_and_braces() {
    for lua in [
        "",
        "local t = { a = { 1 } }",
        "ngx.say(\"}\") ngx.say('{')",
        "ngx.say(\"it's \\\" }\")",
        "-- it's a comment {\n",
        "--[[ { ' \" ]] --[==[ ]] } ]==]",
        "local s = [[ { ' ]] .. [=[ ]] } ]=]",
        "t[t[1]] = '[['",
        "x = a - b -- [[ }\n",
        "# no comment in Lua: }\" }\" ; {",
    ] {
        // A line without Lua's meaning of its characters is not Lua.
        if lua.starts_with('#') {
            assert!(directives(&format!("content_by_lua_block {{{lua}}} after;")).is_err());
            continue;
        }
        let text = format!("content_by_lua_block {{{lua}}} after;");
        let all = directives(&text).expect(lua);
        assert_eq!((all.len(), &all[0].block), (2, &Block::Lua(lua.to_owned())), "{lua}");
        assert_eq!(all[1].words, ["after"], "{lua}");
    }
}
