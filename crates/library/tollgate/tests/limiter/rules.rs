//! Limits by rules: from files and from code, in this process and over a real Redis.

use tollgate::rule::{
    Degraded, DescriptorSpec, DomainSpec, Limit, OnStoreFailure, Policy, PolicyBuilder, RedisConfig,
    RequestError, RuleSpec, Unit,
};
use tollgate::{ReloadError, RuleError, RuleLimiter};
use tollgate_testkit::redis::{Options, Redis};

use super::*;

/// Two an hour for each user, as a file and in code.
const TWO: &str =
    "{domain: shop, descriptors: [{key: user, rate_limit: {unit: hour, requests_per_unit: 2}}]}";

fn two(on_failure: OnStoreFailure) -> Policy {
    let rule = RuleSpec::new(Limit::per(2, Unit::Hour).expect("a limit")).on_store_failure(on_failure);
    let shop = DomainSpec::new("shop").descriptor(DescriptorSpec::new("user").rule(rule));
    PolicyBuilder::new().domain(shop).build().expect("rules")
}

/// Result of one request: the permits left, or the error.
async fn ask(limiter: &RuleLimiter<ManualClock>, user: &str) -> Result<u64, RuleError> {
    limiter.check("shop", &[("user", user)]).await.map(|admitted| admitted.remaining())
}

#[tokio::test]
async fn rules_of_a_file_and_the_same_in_code_answer_alike() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shop.yaml");
    std::fs::write(&path, TWO).expect("a file");
    let clock = ManualClock::at(NOON);
    let of_file = RuleLimiter::from_rules_with_clock(&path, clock.clone()).expect("rules");
    let in_code = RuleLimiter::with_clock(two(OnStoreFailure::Allow), clock);
    for limiter in [&of_file, &in_code] {
        assert_eq!((ask(limiter, "ann").await, ask(limiter, "ann").await), (Ok(1), Ok(0)));
        let until_the_hour = Duration::from_secs(3_600 - 1_700_000_000 % 3_600);
        let denied = RuleError::Denied { rule: "user".to_owned(), retry_after: Some(until_the_hour) };
        assert_eq!(ask(limiter, "ann").await, Err(denied));
        assert_eq!(ask(limiter, "bob").await, Ok(1));
        assert_eq!(
            limiter.check("elsewhere", &[("user", "ann")]).await.map(|it| it.remaining()),
            Ok(u64::MAX)
        );
        assert!(limiter.check_n("shop", &[("user", "eve")], 3).await.is_err());
        let both: [&[(&str, &str)]; 2] = [&[("user", "carl")], &[("user", "ann")]];
        assert!(limiter.check_all("shop", &both, 1).await.is_err(), "ann has none left");
        assert_eq!(limiter.check_all("shop", &[], 1).await, Err(RequestError::NoDescriptors.into()));
    }

    // The file changes: what was counted stays counted. A faulty one changes nothing.
    std::fs::write(&path, TWO.replace("unit: 2", "unit: 5")).expect("a file");
    of_file.clone().reload().expect("rules");
    assert!(ask(&of_file, "ann").await.is_ok());
    std::fs::write(&path, "domain: [").expect("a file");
    assert!(matches!(of_file.reload(), Err(ReloadError::Load(_))));
    assert_eq!(ask(&of_file, "dora").await, Ok(4));
    assert!(matches!(in_code.reload(), Err(ReloadError::NoPath)));
    assert!(RateLimiter::from_rules(&path).is_err());
}

#[tokio::test]
async fn nodes_that_share_a_store_admit_together_what_one_would_and_follow_the_rule_when_it_dies() {
    let Some(mut redis) = Redis::start(&Options::new()) else { return };
    let mut config = RedisConfig::parse_url(&format!("redis://{}", redis.address())).expect("a URL");
    // A busy machine may need longer than the deadline that is usual.
    config.link.deadline = Duration::from_secs(30);
    let node = |on_failure| {
        let limiter = RuleLimiter::with_clock(two(on_failure), ManualClock::at(NOON));
        limiter.shared_by(config.clone()).expect("settings")
    };
    let nodes = [node(OnStoreFailure::Deny), node(OnStoreFailure::Deny), node(OnStoreFailure::Allow)];
    let mut admitted = 0;
    for turn in 0..9 {
        admitted += usize::from(ask(&nodes[turn % 3], "ann").await.is_ok());
    }
    assert_eq!(admitted, 2);

    redis.kill();
    let denied = RuleError::Unavailable { rule: "user".to_owned() };
    assert_eq!(ask(&nodes[0], "bob").await, Err(denied));
    let passed = nodes[2].check("shop", &[("user", "bob")]).await.expect("allowed without the store");
    assert_eq!(passed.degraded(), Some(Degraded::Allowed));
}
