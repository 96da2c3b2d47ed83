use tollgate_rule_files::{Options, RuleFile, parse};

use super::*;

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

#[test]
fn each_zone_is_a_leaky_bucket_with_the_burst_of_its_use() {
    let imported = import("nginx.conf", CONF, "edge").expect("readable");
    let rules = imported.rules.split_once("descriptors:\n").expect("descriptors").1;
    let want = "  # line 4: key $binary_remote_addr; line 14: burst=20 nodelay
  # Its 10m of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: perip
    descriptors:
      - key: remote_address
        rate_limit: {rate: 10/s, algorithm: leaky_bucket, form: meter, capacity: 21}
  # line 5: key ${server_name}:$uri; line 15: burst=5 delay=3
  # Its 1m of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: page
    descriptors:
      - key: server_name
        descriptors:
          - key: uri
            rate_limit: {rate: 30/m, algorithm: leaky_bucket, form: queue, capacity: 6, delay_after: 3}
  # line 6: key all; line 20: no burst
  # Its 32k of memory: --memory-max bounds the counters of all rules together.
  - key: zone
    value: everything
    rate_limit: {rate: 5/s, algorithm: leaky_bucket, form: meter, capacity: 1}
";
    assert_eq!((imported.number, rules), (3, want));
}

#[test]
fn what_is_written_loads_without_a_warning() {
    for (text, number) in
        [(CONF, 3), ("", 0), ("limit_req_zone $a \"zone=on:1m\";limit_req zone=on burst=1;", 1)]
    {
        let imported = import("nginx.conf", text, "a domain: \"with\" quotes").expect("readable");
        let file = RuleFile { name: "nginx.yaml".into(), text: imported.rules.clone() };
        let rules = parse(&[file], &Options::default())
            .unwrap_or_else(|faults| panic!("{faults}\n{}", imported.rules));
        assert!(rules.warnings.is_empty(), "{:?}", rules.warnings);
        assert_eq!((rules.policy.rules().count(), imported.number), (number, number));
        assert_eq!(rules.policy.domains()[0].name(), "a domain: \"with\" quotes");
    }
}

#[test]
fn what_is_not_taken_over_is_said_by_line() {
    let left_out = import("nginx.conf", CONF, "edge").expect("readable").left_out;
    let lines: Vec<String> = left_out.iter().map(|it| format!("{}: {}", it.line, it.why)).collect();
    let conn = "rules cannot limit concurrent requests; keep it in nginx";
    let want = [
        "6: sync of limit_req_zone all zone=everything:32k rate=5r/s sync: nodes share counters with --store instead",
        "7: zone unused is not used by any limit_req",
        &format!("8: limit_conn_zone $binary_remote_addr zone=addr:10m: {conn}"),
        "10: include conf.d/*.conf: the file was not read; import what `nginx -T` prints, which has all files",
        &format!("17: limit_conn addr 10: {conn}"),
        "19: limit_req_dry_run on: write shadow_mode: true into the rules that this part of nginx uses",
        "19: zone perip has the burst of line 14 here too, since a rule has one: burst=20 nodelay",
        "20: limit_req_status 503: all rules have the first one, 429; write a response into single rules",
        "20: zone nowhere is not defined in this text",
        "21: limit_req zone=perip burst=many: burst=many has no whole number",
        "21: limit_req_log_level warn: the level is a setting of Tollgate, --denial-log-level",
    ];
    assert_eq!(lines, want);
    let whole = import("-", &format!("# configuration file /etc/nginx/nginx.conf:\n{CONF}"), "edge");
    assert!(whole.expect("readable").left_out.iter().all(|it| !it.why.starts_with("include")));
}

#[test]
fn words_quotes_comments_and_blocks_are_read_as_nginx_does() {
    for (text, want) in [
        ("a b;c", &["a b", "c"][..]),
        ("a 'b c' \"d\\\"e\";", &["a b c d\"e"]),
        ("a{b c;}d;", &["a", "b c", "d"]),
        ("a ${b}c;", &["a ${b}c"]),
        ("# a;\nb#c;", &["b#c"]),
        ("a \\;b;", &["a ;b"]),
        ("x_by_lua_block { a; { b } } c;", &["x_by_lua_block", "c"]),
        ("", &[]),
    ] {
        let got: Vec<String> =
            directives(text).expect("readable").iter().map(|it| it.words.join(" ")).collect();
        assert_eq!(got, want, "{text}");
    }
    assert_eq!(directives("a;\n'b"), Err(Unreadable::OpenQuote(2)));
    assert_eq!(directives("x_by_lua_block {"), Err(Unreadable::OpenBlock(1)));
}
