//! Rules in code, and one line that decides who counts together: this process, or all that use one Redis.
//!
//! `cargo run -p tollgate --features redis --example share_with_a_fleet [redis://127.0.0.1:6379]`
#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;

use tollgate::RuleLimiter;
use tollgate::rule::{DescriptorSpec, DomainSpec, Limit, PolicyBuilder, RuleSpec, Unit};

/// Three logins an hour, for each user.
fn limiter(redis: Option<&str>) -> Result<RuleLimiter, Box<dyn Error>> {
    let three = RuleSpec::new(Limit::per(3, Unit::Hour)?);
    let logins = DomainSpec::new("logins").descriptor(DescriptorSpec::new("user").rule(three));
    let limiter = RuleLimiter::new(PolicyBuilder::new().domain(logins).build()?);
    Ok(match redis {
        None => limiter,
        Some(url) => limiter.shared(url)?, // the line that a fleet needs
    })
}

/// The same code for one process and for a fleet.
async fn login(limiter: &RuleLimiter, user: &str) -> String {
    match limiter.check("logins", &[("user", user)]).await {
        Ok(admitted) => format!("welcome, {user}: {} left", admitted.remaining()),
        Err(error) => format!("not now, {user}: {error}"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let redis = std::env::args().nth(1);
    let nodes = [limiter(redis.as_deref())?, limiter(redis.as_deref())?];
    for turn in 0..6 {
        println!("node {}: {}", turn % 2, login(&nodes[turn % 2], "ann").await);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tollgate::rule::RedisConfig;
    use tollgate_testkit::redis::{Options, Redis};

    use super::*;

    async fn admitted(nodes: [RuleLimiter; 2]) -> usize {
        let mut admitted = 0;
        for turn in 0..10 {
            let said = login(&nodes[turn % 2], "ann").await;
            admitted += usize::from(said.starts_with("welcome"));
        }
        admitted
    }

    #[tokio::test]
    async fn two_nodes_admit_three_each_and_three_together_where_they_share() {
        let alone = || limiter(None).expect("rules");
        assert_eq!(admitted([alone(), alone()]).await, 6);
        let Some(redis) = Redis::start(&Options::new()) else { return };
        let url = format!("redis://{}", redis.address());
        assert!(limiter(Some(&url)).is_ok());
        // A busy machine may need longer than the deadline that is usual.
        let mut config = RedisConfig::parse_url(&url).expect("a URL");
        config.link.deadline = Duration::from_secs(30);
        let shared = || alone().shared_by(config.clone()).expect("settings");
        assert_eq!(admitted([shared(), shared()]).await, 3);
    }
}
