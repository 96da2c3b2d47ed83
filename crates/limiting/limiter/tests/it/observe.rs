//! The text of `/metrics` after a few decisions.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use std::time::Duration;

use crate::common::{NOON, ask, ask_at, limiter, of, policy};
use tollgate_limiter::{Format, Limiter, LimiterSettings, ObserveSettings, Rejected, RuleSeries, StoreStats};
use tollgate_store::ModelStore;

const RULES: &str = "
domain: d
descriptors:
  - {key: a, rate_limit: {unit: minute, requests_per_unit: 10}}
  - key: plan
    value: gold
    descriptors:
      - {key: user, shadow_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}";

/// The series of `text` must have each of these lines.
fn has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|it| it == *line), "no `{line}` in\n{text}");
    }
}

#[test]
fn decisions_and_hits_are_counted_by_rule_and_outcome() {
    let limiter = limiter(RULES);
    for hits in [7, 2, 1, 1, 0] {
        ask(&limiter, &[of("a=1").hits(hits)]);
    }
    for _ in 0..3 {
        ask(&limiter, &[of("plan=gold user=u"), of("nothing=1")]);
    }
    ask_at(&limiter, "elsewhere", &[of("a=1")], NOON);
    for _ in 0..2 {
        limiter.request_rejected(Rejected {
            surface: "http",
            peer: None,
            status: "400",
            reason: "invalid",
            detail: "there is no descriptor",
        });
    }
    has(
        &limiter.metrics().render(),
        &[
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="admit"} 3"#,
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="deny"} 2"#,
            r#"tollgate_hits_total{domain="d",rule="a"} 11"#,
            r#"tollgate_denied_hits_total{domain="d",rule="a"} 1"#,
            r#"tollgate_decisions_total{domain="d",rule="plan=gold > user",outcome="admit"} 1"#,
            r#"tollgate_decisions_total{domain="d",rule="plan=gold > user",outcome="shadow_deny"} 2"#,
            r#"tollgate_unmatched_descriptors_total{domain="d"} 3"#,
            "tollgate_unknown_domains_total 1",
            r#"tollgate_unmatched_requests_total{domain="d",outcome="admit"} 0"#,
            r#"tollgate_unmatched_requests_total{domain="(unknown)",outcome="admit"} 1"#,
            r#"tollgate_unmatched_requests_total{domain="(unknown)",outcome="deny"} 0"#,
            r#"tollgate_bad_requests_total{surface="http",status="400",reason="invalid"} 2"#,
            r#"tollgate_store_batch_takes_bucket{le="1.0"} 8"#,
            "tollgate_store_batch_takes_count 8",
            r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="a"} 11"#,
            r#"ratelimit_service_rate_limit_within_limit{domain="d",key1="a"} 10"#,
            // 8 of 10 is near: 7 is not; 7 + 2 is by one; 9 + 1 is by one.
            r#"ratelimit_service_rate_limit_near_limit{domain="d",key1="a"} 2"#,
            r#"ratelimit_service_rate_limit_over_limit{domain="d",key1="a"} 1"#,
            r#"ratelimit_service_rate_limit_shadow_mode{domain="d",key1="plan_gold",key2="user"} 2"#,
            "# EOF",
        ],
    );
}

#[test]
fn counts_continue_over_a_reload() {
    let limiter = limiter(RULES);
    ask(&limiter, &[of("a=1")]);
    limiter.replace(policy(&RULES.replace("requests_per_unit: 10", "requests_per_unit: 20")), NOON);
    ask(&limiter, &[of("a=1")]);
    let version = limiter.rules().policy().version().to_owned();
    has(
        &limiter.metrics().render(),
        &[
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="admit"} 2"#,
            &format!(r#"tollgate_rules_info{{version="{version}"}} 1"#),
            r#"tollgate_rule_loads_total{result="ok"} 2"#,
            "tollgate_last_rule_load_ok 1",
            "tollgate_last_rule_load_timestamp_seconds 1699920000",
            "ratelimit_service_config_load_success 2",
        ],
    );
}

#[test]
fn rules_above_the_cap_are_counted_together() {
    let rules = "{domain: d, descriptors: [
        {key: a, rate_limit: {unit: minute, requests_per_unit: 1}},
        {key: b, rate_limit: {unit: minute, requests_per_unit: 1}},
        {key: c, rate_limit: {unit: minute, requests_per_unit: 1}}]}";
    let settings = LimiterSettings {
        observe: ObserveSettings { max_rule_series: 1, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    };
    let limiter = Limiter::new(policy(rules), ModelStore::default(), settings);
    for _ in 0..2 {
        ask(&limiter, &[of("a=1"), of("b=1"), of("c=1")]);
        limiter.replace(policy(rules), NOON);
    }
    let text = limiter.metrics().render();
    has(
        &text,
        &[
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="deny"} 1"#,
            r#"tollgate_decisions_total{domain="",rule="(others)",outcome="deny"} 2"#,
        ],
    );
    assert_eq!(text.matches("tollgate_decisions_total{").count(), 2 * 3, "{text}");
}

#[test]
fn what_a_client_sends_makes_no_series() {
    let limiter = limiter(RULES);
    ask(&limiter, &[of("a=1")]); // the rule has its series from now on
    let lines = limiter.metrics().render().lines().count();
    for value in 0..100 {
        ask(&limiter, &[of(&format!("a={value}")), of(&format!("k{value}={value}"))]);
        ask_at(&limiter, &format!("domain-{value}"), &[of("a=1")], NOON);
    }
    assert_eq!(limiter.metrics().render().lines().count(), lines);
}

#[test]
fn stores_latency_and_what_others_register_are_shown() {
    let limiter = limiter(RULES);
    let metrics = limiter.metrics();
    metrics.watch_store("memory", || StoreStats::new(7, 1_024, 4_096, 3));
    let http = metrics.latency("http");
    let resp = metrics.latency("resp");
    http.observe(Duration::from_nanos(700));
    metrics.latency("http").observe(Duration::from_secs(7));
    resp.observe_all(Duration::from_millis(2), 3);
    metrics.register(|registry| {
        let gauge = prometheus_client::metrics::gauge::ConstGauge::new(1_i64);
        registry.register("tollgate_up", "A transport's own", gauge);
    });
    has(
        &metrics.render(),
        &[
            r#"tollgate_tracked_keys{store="memory"} 7"#,
            r#"tollgate_table_bytes{store="memory"} 1024"#,
            r#"tollgate_evictions_total{store="memory"} 3"#,
            r#"tollgate_decision_latency_seconds_bucket{le="5e-7",surface="http"} 0"#,
            r#"tollgate_decision_latency_seconds_bucket{le="0.000001",surface="http"} 1"#,
            r#"tollgate_decision_latency_seconds_bucket{le="+Inf",surface="http"} 2"#,
            r#"tollgate_decision_latency_seconds_count{surface="http"} 2"#,
            r#"tollgate_decision_latency_seconds_sum{surface="resp"} 0.006"#,
            r#"tollgate_decision_latency_seconds_count{surface="resp"} 3"#,
            "tollgate_up 1",
            "# TYPE tollgate_evictions counter",
            "# TYPE ratelimit_service_config_load_success unknown",
        ],
    );
    let text = metrics.render_as(Format::Text);
    has(
        &text,
        &[
            r#"tollgate_evictions_total{store="memory"} 3"#,
            "# TYPE tollgate_evictions_total counter",
            "# TYPE tollgate_rules_info gauge",
            "# TYPE ratelimit_service_config_load_success counter",
        ],
    );
    assert!(!text.contains("# EOF") && !text.contains(" unknown\n") && !text.contains(" info\n"), "{text}");
}

#[test]
fn no_label_has_an_arrow_and_rules_of_the_same_words_keep_their_series_over_a_reload() {
    let limiter = limiter(RULES);
    ask(&limiter, &[of("plan=gold user=ann")]);
    assert!(!limiter.metrics().render().contains('→'));
    limiter.replace(policy(&RULES.replace("requests_per_unit: 10", "requests_per_unit: 20")), NOON);
    let series = r#"tollgate_decisions_total{domain="d",rule="plan=gold > user",outcome="admit"} 1"#;
    assert!(limiter.metrics().render().contains(series), "{}", limiter.metrics().render());
}

#[test]
fn a_rule_has_its_series_from_its_first_request_on_or_always_if_asked_for() {
    let rules = |number: usize| {
        let rule = |nth| {
            format!("  - {{key: k, value: v{nth}, rate_limit: {{unit: minute, requests_per_unit: 1}}}}\n")
        };
        format!("domain: d\ndescriptors:\n{}", (0..number).map(rule).collect::<String>())
    };
    let limiter_with = |number: usize, rule_series| {
        let observe = ObserveSettings { rule_series, ..ObserveSettings::default() };
        let settings = LimiterSettings { observe, ..LimiterSettings::default() };
        Limiter::new(policy(&rules(number)), ModelStore::default(), settings)
    };
    // Samples of a page that are about a rule.
    let samples = |limiter: &Limiter<ModelStore>| {
        let text = limiter.metrics().render();
        text.lines()
            .filter(|line| !line.starts_with('#') && line.contains("k=v") | line.contains("k_v"))
            .count()
    };
    for (number, all) in [(3, 33), (2_000, 22_000)] {
        let used = limiter_with(number, RuleSeries::Used);
        assert_eq!(samples(&used), 0);
        // A check, an admission and a denial: all series at once, whichever comes first.
        for (nth, hits) in [(0, 0), (1, 1), (2, 2)] {
            ask(&used, &[of(&format!("k=v{nth}")).hits(hits)]);
            assert_eq!(samples(&used), 11 * (nth + 1), "{hits} hits");
        }
        // They stay over a reload, and other rules have none of their own accord.
        used.replace(policy(&rules(number + 1)), NOON);
        assert_eq!(samples(&used), 33);
        assert_eq!(samples(&limiter_with(number, RuleSeries::All)), all);
    }
    let used = limiter_with(3, RuleSeries::Used);
    ask(&used, &[of("k=v1")]);
    has(
        &used.metrics().render(),
        &[
            r#"tollgate_decisions_total{domain="d",rule="k=v1",outcome="deny"} 0"#,
            r#"tollgate_degraded_decisions_total{domain="d",rule="k=v1"} 0"#,
            r#"ratelimit_service_rate_limit_over_limit{domain="d",key1="k_v1"} 0"#,
        ],
    );
}

#[test]
fn with_room_for_no_rule_all_are_counted_together() {
    let observe = ObserveSettings { max_rule_series: 0, ..ObserveSettings::default() };
    let settings = LimiterSettings { observe, ..LimiterSettings::default() };
    let limiter = Limiter::new(policy(RULES), ModelStore::default(), settings);
    ask(&limiter, &[of("a=1")]);
    ask(&limiter, &[of("plan=gold user=u")]);
    limiter.replace(policy(RULES), NOON);
    let text = limiter.metrics().render();
    has(&text, &[r#"tollgate_decisions_total{domain="",rule="(others)",outcome="admit"} 2"#]);
    assert_eq!(text.matches("tollgate_decisions_total{").count(), 3, "{text}");
}

#[test]
fn the_names_of_envoyproxy_ratelimit_are_also_lines_of_its_page() {
    let limiter = limiter(RULES);
    limiter.metrics().latency("grpc").observe(Duration::from_millis(2));
    ask(&limiter, &[of("a=1").hits(12)]);
    ask(&limiter, &[of("plan=gold user=u")]);
    for surface in ["grpc", "http"] {
        let status = "INVALID_ARGUMENT";
        let reason = "invalid";
        limiter.request_rejected(Rejected { surface, peer: None, status, reason, detail: "no domain" });
    }
    let stats = limiter.metrics().peer_stats();
    has(
        &stats,
        &[
            "ratelimit.service.rate_limit.d.a.total_hits: 12",
            "ratelimit.service.rate_limit.d.a.over_limit: 2",
            "ratelimit.service.rate_limit.d.a.near_limit: 2",
            "ratelimit.service.rate_limit.d.plan_gold.user.within_limit: 1",
            "ratelimit.service.config_load_success: 1",
            "ratelimit.service.call.should_rate_limit.redis_error: 0",
            "ratelimit.service.call.should_rate_limit.service_error: 1",
            "ratelimit_server.ShouldRateLimit.total_requests: 1",
        ],
    );
    assert!(stats.lines().is_sorted(), "{stats}");
    has(
        &limiter.metrics().render(),
        &[
            r#"ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 1"#,
            r#"ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 1"#,
            r#"ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"} 0.002"#,
            r#"ratelimit_service_should_rate_limit_error{err_type="redis_error"} 0"#,
            r#"ratelimit_service_should_rate_limit_error{err_type="service_error"} 1"#,
            "# TYPE ratelimit_service_should_rate_limit_error unknown",
            "# TYPE ratelimit_service_response_time_seconds histogram",
        ],
    );
}

#[test]
fn rules_that_ask_for_it_are_shown_by_values_up_to_a_cap() {
    let rules = "
domain: d
descriptors:
  - {key: a, detailed_metric: true, rate_limit: {unit: minute, requests_per_unit: 1}}
  - key: b
    value_to_metric: true
    descriptors:
      - {key: c, rate_limit: {unit: minute, requests_per_unit: 9}}";
    let settings = LimiterSettings {
        observe: ObserveSettings { max_value_series: 3, ..ObserveSettings::default() },
        ..LimiterSettings::default()
    };
    let limiter = Limiter::new(policy(rules), ModelStore::default(), settings);
    for entries in ["a=1", "a=1", "a=10.0.0.1", "b=x c=y", "a=2", "a=3", "a=1"] {
        ask(&limiter, &[of(entries)]);
    }
    let text = limiter.metrics().render();
    has(
        &text,
        &[
            r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="a_1"} 3"#,
            r#"ratelimit_service_rate_limit_over_limit{domain="d",key1="a_1"} 2"#,
            r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="a_10_0_0_1"} 1"#,
            r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="b_x",key2="c"} 1"#,
            r#"ratelimit_service_rate_limit_total_hits{domain="d",key1="(others)"} 2"#,
            r#"tollgate_decisions_total{domain="d",rule="a",outcome="admit"} 4"#,
        ],
    );
    assert_eq!(text.matches("rate_limit_total_hits{").count(), 4, "{text}");
}
