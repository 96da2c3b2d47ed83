//! A limiter that reports to nobody, as in a simulation.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test a panic is the finding")]

use crate::common::{NOON, entries, policy};
use tollgate_limiter::{Descriptor, Limiter, LimiterSettings, Request, Scratch};
use tollgate_store::{ModelStore, block_on};

#[test]
fn an_observer_that_is_off_changes_no_decision() {
    let rules = "{domain: d, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 2}}]}";
    let observed = Limiter::new(policy(rules), ModelStore::default(), LimiterSettings::default());
    let unobserved =
        Limiter::with_observer(policy(rules), ModelStore::default(), LimiterSettings::default(), ());
    let lists = [entries("user=ann")];
    let descriptors = [Descriptor::new(&lists[0])];
    let request = Request { domain: "d", descriptors: &descriptors, hits: 1 };
    let mut scratch = Scratch::new();
    let mut other = Scratch::new();
    for want in [true, true, false] {
        let one = block_on(observed.decide(&request, NOON, &mut scratch)).expect("an answer");
        let two = block_on(unobserved.decide(&request, NOON, &mut other)).expect("an answer");
        assert_eq!((one.is_admitted(), two.is_admitted()), (want, want));
        let remaining = |of: Option<tollgate_limiter::DescriptorAnswer<'_>>| of.map(|it| it.remaining());
        assert_eq!(remaining(one.descriptor(0)), remaining(two.descriptor(0)));
    }
    assert!(unobserved.call_span("http", "d", None).is_none());
}
