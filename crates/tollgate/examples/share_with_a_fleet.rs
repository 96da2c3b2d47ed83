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
    use tollgate_testkit::redis::{Options, Redis};

    use super::*;

    async fn admitted(redis: Option<&str>) -> usize {
        let nodes = [limiter(redis).expect("rules"), limiter(redis).expect("rules")];
        let mut admitted = 0;
        for turn in 0..10 {
            let said = login(&nodes[turn % 2], "ann").await;
            admitted += usize::from(said.starts_with("welcome"));
        }
        admitted
    }

    #[tokio::test]
    async fn two_nodes_admit_three_each_and_three_together_where_they_share() {
        assert_eq!(admitted(None).await, 6);
        let Some(redis) = Redis::start(&Options::new()) else { return };
        assert_eq!(admitted(Some(&format!("redis://{}", redis.address()))).await, 3);
    }
}
