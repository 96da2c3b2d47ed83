//! Header fields and bodies of requests with several limits, each decided by rules: the examples of
//! docs/headers.md, and the law that every limit which can bind is listed.
#![allow(clippy::expect_used, reason = "a failed step of a test must say which")]

use http::{HeaderMap, HeaderName, StatusCode};
use tollgate_answers::{Denial, DenialStatus, denial, limits, preview, shown};
use tollgate_core::{RetryAfter, Timestamp};
use tollgate_headers::{Style, most_restrictive, write};
use tollgate_limiter::{
    Descriptor, DescriptorAnswer, Entry, Limiter, LimiterSettings, Request, Scratch, Unmatched,
};
use tollgate_store::{ModelStore, block_on};

const PAGE: &str = include_str!("../../../../docs/headers.md");

/// 16:00:18.8 on a day: 41.2 seconds before the end of a minute.
fn then() -> Timestamp {
    at(16 * 3_600_000 + 18_800)
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_unix_seconds(1_700_006_400) + std::time::Duration::from_millis(ms)
}

/// A server with these rules.
struct RuleServer {
    limiter: Limiter<ModelStore>,
    scratch: Scratch,
}

impl RuleServer {
    fn new(rules: &str) -> Self {
        let rules = tollgate_rule_files::parse_text("rules.yaml", rules).expect("valid rules");
        let limiter = Limiter::new(rules, ModelStore::default(), LimiterSettings::default());
        Self { limiter, scratch: Scratch::new() }
    }

    /// Whether `hits` of the user ann pass at `now`; the fields and the body that a client gets.
    fn ask(&mut self, hits: u64, now: Timestamp, style: &Style) -> (bool, HeaderMap, String) {
        let entries = [Entry::new("user", "ann")];
        let request = Request { domain: "shop", descriptors: &[Descriptor::new(&entries)], hits };
        let answer =
            block_on(self.limiter.decide(&request, now, &mut self.scratch)).expect("a valid request");
        let mut fields = HeaderMap::new();
        let mut rest = HeaderMap::new();
        let listed = limits(&answer);
        write(listed.as_slice(), answer.is_admitted(), style, &mut fields);
        let status = DenialStatus::Fixed(StatusCode::TOO_MANY_REQUESTS);
        let Denial { body, .. } = denial(status, &answer, listed.as_slice(), "shop", &mut rest);
        (answer.is_admitted(), fields, body)
    }
}

/// The words behind each fence of the page, and the text up to the next fence.
fn blocks() -> Vec<(Vec<&'static str>, &'static str)> {
    let parts: Vec<&str> = PAGE.split("```").collect();
    assert_eq!(parts.len() % 2, 1, "every fence is closed");
    let inside = parts.into_iter().skip(1).step_by(2);
    inside
        .map(|part| part.split_once('\n').expect("a line"))
        .map(|(kind, text)| (kind.split(' ').collect(), text))
        .collect()
}

/// The reply to the request of the page.
fn reply(rules: &str, case: &str, style: &str) -> (HeaderMap, String) {
    let style: Style = style.parse().expect("a style");
    // Requests of the day before that minute, of that minute, and the hits of the request itself.
    let (before, lately, hits, passes) = match case {
        "admitted" => (131, 6, 1, true),
        "denied" => (128, 10, 1, false),
        "never" => (131, 6, 11, false),
        other => panic!("what is {other}?"),
    };
    let mut server = RuleServer::new(rules);
    for minute in 0..before {
        assert!(server.ask(1, at(minute * 60_000), &style).0, "{case}: request {minute} of the day");
    }
    for request in 0..lately {
        assert!(server.ask(1, then(), &style).0, "{case}: request {request} of the minute");
    }
    let (is_admitted, fields, body) = server.ask(hits, then(), &style);
    assert_eq!(is_admitted, passes, "{case}");
    (fields, body)
}

#[test]
fn the_pages_examples_are_what_is_sent() {
    let mut rules = None;
    let mut seen = Vec::new();
    for (kind, text) in blocks() {
        match kind.as_slice() {
            ["yaml"] => rules = Some(text),
            ["http", style, case] => {
                let (fields, _) = reply(rules.expect("the rule comes first"), case, style);
                let mut want = HeaderMap::new();
                for line in text.lines() {
                    let (name, value) = line.split_once(": ").expect("a field");
                    let name = HeaderName::from_bytes(name.as_bytes()).expect("a name");
                    want.insert(name, value.parse().expect("a value"));
                }
                assert_eq!(fields, want, "{kind:?}");
                seen.push(*style);
            }
            ["json", case] => {
                let body = match *case {
                    "unmatched" => {
                        let rules = "{domain: shop, unmatched: deny, descriptors: [{key: a, rate: 1/s}]}";
                        RuleServer::new(rules).ask(1, then(), &Style::OFF).2
                    }
                    case => reply(rules.expect("the rule comes first"), case, "off").1,
                };
                let body: serde_json::Value = serde_json::from_str(&body).expect("JSON");
                let want: serde_json::Value = serde_json::from_str(text).expect("JSON");
                assert_eq!(body, want, "{case}");
            }
            other => panic!("{other:?} is not checked"),
        }
    }
    assert!(seen.len() >= 6, "{seen:?}");
}

/// `explain --preview` shows the reply that a client gets just after it has used up a limit.
#[test]
fn a_preview_lists_every_limit_as_the_denial_does() {
    for (rules, listed) in [
        ("[{name: a, unit: day, requests_per_unit: 2}, {name: b, unit: hour, requests_per_unit: 5}]", 2),
        ("[{name: a, unit: day, requests_per_unit: 5}, {name: b, unit: day, requests_per_unit: 3}]", 2),
        ("[{name: t, unit: day, requests_per_unit: 1, shadow: true}, {name: a, rate: 2/day}]", 1),
        ("[{name: a, rate: 6/day burst 6, cost: 2}, {name: b, unit: day, requests_per_unit: 9}]", 2),
        ("[{name: a, rate: 6/day burst 7, cost: 2}, {name: b, unit: day, requests_per_unit: 9}]", 2),
    ] {
        let rules = format!("domain: shop\ncharge: together\ndescriptors: [{{key: user, limits: {rules}}}]");
        let style = "draft-11".parse().expect("a style");
        let policy = tollgate_rule_files::parse_text("rules.yaml", &rules).expect("valid rules");
        let entries = [Entry::new("user", "ann")];
        let shown = preview(&policy, "shop", &entries, Unmatched::Admit, &style).expect("it denies");
        let mut server = RuleServer::new(&rules);
        let (fields, body) = loop {
            // At midnight, since a preview assumes the longest wait.
            let (is_admitted, fields, body) = server.ask(1, at(0), &style);
            if !is_admitted {
                break (fields, body);
            }
        };
        for name in ["ratelimit", "ratelimit-policy", "retry-after"] {
            assert_eq!(shown.fields.get(name), fields.get(name), "{name} of {rules}");
        }
        assert_eq!(shown.body, body, "{rules}");
        let policies = fields["ratelimit-policy"].to_str().expect("ASCII").split(", ").count();
        assert_eq!(policies, listed, "{rules}");
    }
}

/// A rule file of one to three descriptors with one to four limits each, some of them in shadow; how many of
/// each can bind.
fn any_rules(random: &mut fastrand::Rng) -> (String, Vec<usize>) {
    let charge = random.choice(["each", "together"]).expect("one");
    let mut text = format!("domain: shop\ncharge: {charge}\ndescriptors:\n");
    let mut binding = Vec::new();
    for descriptor in 0..random.usize(1..=3) {
        let mode = random.choice(["", ", shadow_mode: true", ", quota_mode: true"]).expect("one");
        let count = random.usize(1..=4);
        let mut limits = Vec::new();
        for limit in 0..count {
            let rate = match random.u8(..4) {
                0 => format!("unit: minute, requests_per_unit: {}", random.u32(1..9)),
                1 => format!("unit: day, requests_per_unit: {}", random.u32(1..9)),
                2 => format!("rate: {}/minute burst {}", random.u32(1..9), random.u32(1..9)),
                _ => format!("rate: {}/hour, algorithm: sliding_window", random.u32(1..9)),
            };
            let is_shadow = limit > 0 && random.u8(..5) == 0;
            let shadow = if is_shadow { ", shadow: true" } else { "" };
            limits.push((format!("{{name: l{descriptor}-{limit}, {rate}{shadow}}}"), is_shadow));
        }
        binding.push(limits.iter().filter(|(_, is_shadow)| !is_shadow).count());
        let limits: Vec<_> = limits.into_iter().map(|(text, _)| text).collect();
        text += &format!("  - {{key: k{descriptor}{mode}, limits: [{}]}}\n", limits.join(", "));
    }
    (text, binding)
}

#[test]
fn every_limit_that_can_bind_is_listed_once_with_what_a_check_for_free_says() {
    for seed in 0..400 {
        let mut random = fastrand::Rng::with_seed(seed);
        let (rules, binding) = any_rules(&mut random);
        let mut server = RuleServer::new(&rules);
        let names: Vec<_> = (0..binding.len()).map(|descriptor| format!("k{descriptor}")).collect();
        let entries: Vec<_> = names.iter().map(|name| [Entry::new(name.as_str(), "x")]).collect();
        let descriptors: Vec<_> = entries.iter().map(|entries| Descriptor::new(entries)).collect();
        let mut ask = |hits: u64, now: Timestamp| {
            let request = Request { domain: "shop", descriptors: &descriptors, hits };
            let RuleServer { limiter, scratch } = &mut server;
            let answer = block_on(limiter.decide(&request, now, scratch)).expect("a valid request");
            let listed = limits(&answer);
            let passes = answer.is_admitted();
            let states: Vec<_> = listed.as_slice().iter().map(|it| (it.name.to_owned(), *it)).collect();
            assert_eq!(states.len(), binding.iter().sum::<usize>(), "seed {seed}: {states:?}\n{rules}");
            let mut names: Vec<_> = states.iter().map(|(name, _)| name.clone()).collect();
            assert!(names.is_sorted(), "in the order of the rules: {names:?}");
            names.dedup();
            assert_eq!(names.len(), states.len(), "seed {seed}: {names:?}");

            // Fields that show one limit show the same limit as bodies, unless a limit that denies is not
            // enforced.
            let denies = |it: DescriptorAnswer<'_>| it.retry_after() != RetryAfter::Now;
            if !passes || !answer.descriptors().any(denies) {
                let alone = most_restrictive(listed.as_slice()).expect("there is one");
                let shown = shown(&answer).and_then(|place| answer.descriptor(place)).expect("one is shown");
                let of_body = (shown.remaining(), shown.reset_after(), answer.retry_after());
                let of_fields = (alone.remaining, alone.reset_after, alone.retry_after);
                assert_eq!(of_fields, of_body, "seed {seed}: {answer:?}\n{rules}");
            }
            listed.as_slice().iter().map(|it| (it.name.to_owned(), it.remaining)).collect::<Vec<_>>()
        };
        for step in 0..8 {
            let now = at(step * random.u64(0..20_000));
            let states = ask(random.u64(0..4), now);
            let free = ask(0, now);
            for ((name, remaining), (same, later)) in states.iter().zip(&free) {
                assert_eq!(name, same);
                // A limit that denies has nothing left for this request.
                let is_right = *remaining == 0 || remaining == later;
                assert!(is_right, "seed {seed}: {name} has {remaining}, then {later}\n{rules}");
            }
        }
    }
}
