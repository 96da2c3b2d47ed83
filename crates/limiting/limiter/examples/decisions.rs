//! Decides the same kind of request again and again, to be counted by a profiler:
//!
//! ```sh
//! cargo build --release -p tollgate-limiter --example decisions
//! for n in 10000 110000; do valgrind --tool=callgrind target/release/examples/decisions decide $n; done
//! ```
//! The difference divided by 100,000 is the cost of one. `store` takes from the store alone, by a ready key;
//! `decide` and `deny` are whole decisions about one descriptor, `two` about two, `together` about two that
//! are charged together; `throttle` and `throttle-deny` bring their own quota, sixteen at a time; `reserve`
//! holds a permit and commits it; `beside-50000` decides about one descriptor while operators block 50,000
//! others of its domain, and `elsewhere` while they block some of another; `outage` decides while a shared store is down.

use std::hint::black_box;
use std::time::Duration;

use tollgate_core::{Cost, Quota, Timestamp};
use tollgate_limiter::{
    Descriptor, Entry, Intervened, Intervention, Limiter, LimiterSettings, Request, ReserveTerms, Scratch,
    Throttle,
};
use tollgate_store::routed::RoutedStore;
use tollgate_store::suite::OutageStore;
use tollgate_store::{Charge, Counter, Key, Store, Verdicts, block_on};
use tollgate_store_memory::MemoryStore;

const RULES: &str = "
domain: shop
descriptors:
  - {key: api_key, rate_limit: {unit: minute, requests_per_unit: 4000000000}}
  - {key: address, rate_limit: {unit: second, requests_per_unit: 1000000000, algorithm: token_bucket}}
  - {key: denied, rate_limit: {unit: minute, requests_per_unit: 0}}";
const NOON: Timestamp = Timestamp::from_unix_seconds(1_700_000_000);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let rounds: u32 = arguments.next().unwrap_or_default().parse()?;
    let text = if what == "together" { format!("{RULES}\ncharge: together") } else { RULES.to_owned() };
    let policy = tollgate_rule_files::parse_text("shop.yaml", text)?;
    let quota = policy.rules().next().ok_or("no rule")?.limits[0].quota.clone();
    if what == "outage" {
        return outage(rounds);
    }
    let limiter: Limiter<MemoryStore> =
        Limiter::new(policy, MemoryStore::default(), LimiterSettings::default());
    if what.starts_with("beside") || what == "elsewhere" {
        let domain = if what == "elsewhere" { "bank" } else { "shop" };
        let block = |n: u32| Intervention {
            domain: domain.to_owned(),
            entries: vec![("api_key".into(), format!("{n:020}").into())],
            action: Intervened::Blocked,
            until: NOON + Duration::from_secs(60),
        };
        let count = what.strip_prefix("beside-").map_or(Ok(9), str::parse)?;
        limiter.intervene((0..count).map(block).collect(), NOON);
    }
    let [mine, theirs, denied] = [
        [Entry::new("api_key", "0123456789abcdefghij")],
        [Entry::new("address", "192.168.100.200")],
        [Entry::new("denied", "0123456789abcdefghij")],
    ];
    let descriptors = match what.as_str() {
        "two" | "together" => vec![Descriptor::new(&mine), Descriptor::new(&theirs)],
        "deny" => vec![Descriptor::new(&denied)],
        _ => vec![Descriptor::new(&mine)],
    };
    let request = Request { domain: "shop", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let mut verdicts = Verdicts::new();
    let key = Key(b"shop|api_key=0123456789abcdefghij|minute");
    let limit = if what == "throttle-deny" { 1 } else { 1_000_000_000 };
    let own = Quota::token_bucket(limit, Duration::from_secs(1))?;
    let asks = [Throttle { key: b"0123456789abcdefghij", quota: &own, cost: Cost::ONE }; 16];
    let mut throttled = Vec::new();
    for _ in 0..rounds {
        if what == "store" {
            verdicts.clear();
            let take = Counter::new(black_box(key), &quota).take(Cost::ONE);
            block_on(limiter.store().take(&[take], Charge::Each, NOON, &mut verdicts));
            black_box(&verdicts);
        } else if what.starts_with("throttle") {
            throttled.clear();
            block_on(limiter.throttle(black_box(&asks), black_box(NOON), &mut scratch, &mut throttled));
            black_box(&throttled);
        } else if what == "reserve" {
            let terms = ReserveTerms::default();
            let id = block_on(limiter.reserve(black_box(&request), terms, NOON, &mut scratch))?
                .id
                .ok_or("denied")?;
            black_box(block_on(limiter.commit(id, None, NOON))?);
        } else {
            let answer = block_on(limiter.decide(black_box(&request), black_box(NOON), &mut scratch))?;
            black_box(answer.is_admitted());
        }
    }
    Ok(())
}

/// Decides while the store is down, by this node's share.
fn outage(rounds: u32) -> Result<(), Box<dyn std::error::Error>> {
    let text = RULES.replace("unit: minute", "on_store_failure: local, unit: minute");
    let policy = tollgate_rule_files::parse_text("shop.yaml", text)?;
    let store: RoutedStore<OutageStore, _> =
        RoutedStore::new(OutageStore::default().down(), MemoryStore::default());
    let limiter = Limiter::new(policy, store, LimiterSettings::default());
    let mine = [Entry::new("api_key", "0123456789abcdefghij")];
    let descriptors = [Descriptor::new(&mine)];
    let request = Request { domain: "shop", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    for _ in 0..rounds {
        let answer = block_on(limiter.decide(black_box(&request), black_box(NOON), &mut scratch))?;
        black_box(answer.is_admitted());
    }
    Ok(())
}
