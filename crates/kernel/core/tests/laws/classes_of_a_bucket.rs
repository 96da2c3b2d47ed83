//! Quotas that count one key and differ in their overdraft: the classes of a bucket, with costs of their own.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{Algorithm, Cost, Period, Quota, Refill, RetryAfter, State, Timestamp, Word};

use crate::any;

/// A bucket by its numbers, and the overdraft of each of its classes.
#[derive(Clone, Debug)]
struct Bucket {
    limit: u64,
    period_ns: u64,
    burst: u64,
    overdrafts: Vec<u64>,
}

impl Bucket {
    fn class(&self, overdraft: u64) -> Quota {
        let algorithm = Algorithm::TokenBucket {
            burst: Some(self.burst),
            initial: None,
            overdraft,
            refill: Refill::Continuous,
        };
        let period = Period::Span(Duration::from_nanos(self.period_ns));
        Quota::new(self.limit, period, algorithm).expect("small numbers")
    }

    /// All of them, with room for the largest overdraft.
    fn classes(&self) -> Vec<Quota> {
        let most = self.overdrafts.iter().copied().max().unwrap_or_default();
        let with_room = |overdraft: &u64| self.class(*overdraft).with_room_for_overdraft(most);
        self.overdrafts.iter().map(with_room).collect::<Result<_, _>>().expect("small numbers")
    }
}

fn bucket() -> impl Strategy<Value = Bucket> {
    // Long periods have units that depend on the capacity.
    let period = prop_oneof![
        4 => any::period().prop_map(|ns| ns.max(1_000)),
        1 => Just(86_400_000_000_000),
    ];
    let overdrafts = prop::collection::vec(prop_oneof![Just(0_u64), 0_u64..20, 0_u64..60_000], 1..5);
    (1_u64..40, period, 1_u64..60, overdrafts)
        .prop_map(|(limit, period_ns, burst, overdrafts)| Bucket { limit, period_ns, burst, overdrafts })
        .prop_filter("it fills within decades", |bucket| {
            let most = bucket.overdrafts.iter().max().unwrap_or(&0) + bucket.burst;
            most * (bucket.period_ns / bucket.limit + 1) < 1 << 60
        })
}

/// The permits in the bucket, in parts of a permit: at most the burst, and negative while it is overdrawn.
struct Level {
    parts: i128,
    at: u64,
}

const PARTS: i128 = 1 << 60;

impl Level {
    fn pass(&mut self, bucket: &Bucket, now: u64) {
        let elapsed = i128::from(now - self.at);
        let more = elapsed * i128::from(bucket.limit) * PARTS / i128::from(bucket.period_ns);
        self.parts = (self.parts + more).min(i128::from(bucket.burst) * PARTS);
        self.at = now;
    }
}

/// One request: its class, the time since the previous one, in periods, and its cost.
fn requests() -> impl Strategy<Value = Vec<(prop::sample::Index, f64, u64)>> {
    let gap = prop_oneof![Just(0.0), 0.0..0.5, 0.0..5.0];
    prop::collection::vec((any::<prop::sample::Index>(), gap, prop_oneof![0_u64..8, 0_u64..80]), 1..14)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Both sides, through any number of reloads that change the rate, the burst, the overdraft of classes,
    /// and their number: each class is admitted exactly where one bucket has the cost, or may lend it in
    /// advance.
    #[test]
    fn a_bucket_of_several_classes_never_admits_more_than_its_rate(
        reloads in prop::collection::vec((bucket(), requests()), 1..7),
    ) {
        let mut classes: Vec<Quota> = Vec::new();
        let mut state = State::Word(Word::FRESH);
        let mut now = any::NOON;
        let mut level = Level { parts: i128::from(reloads[0].0.burst) * PARTS, at: now };
        // The most by which the words may be behind the level: units that were rounded up, and at each reload
        // less than one unit. They are never ahead of it.
        let mut behind = 0;
        let mut burst_before = reloads[0].0.burst;
        for (bucket, requests) in &reloads {
            let new = bucket.classes();
            classes = match classes.first() {
                None => new,
                Some(old) => new.into_iter().map(|new| new.migrated_from(old, any::at(now))).collect(),
            };
            // The missing part of the full bucket stays missing.
            level.parts += (i128::from(bucket.burst) - i128::from(burst_before)) * PARTS;
            burst_before = bucket.burst;
            behind += PARTS / 1_000;
            for (class, gap, cost) in requests {
                let elapsed = (gap * bucket.period_ns as f64) as u64;
                now += elapsed;
                level.pass(bucket, now);
                behind += (i128::from(elapsed) * i128::from(bucket.limit) / i128::from(bucket.period_ns) + 2)
                    * PARTS / 1_000_000;
                if state.expires().is_past(any::at(now)) {
                    level.parts = i128::from(bucket.burst) * PARTS; // a store may have dropped it by now
                }
                let place = class.index(classes.len());
                let overdraft = bucket.overdrafts[place];
                let decision = classes[place].take(&mut state, Cost(*cost), any::at(now));
                let asked = i128::from(*cost) * PARTS;
                let room = level.parts.min(level.parts - asked + i128::from(overdraft) * PARTS);
                let is_never = *cost > bucket.burst + overdraft;
                if is_never || room < -PARTS / 1_000_000 {
                    prop_assert!(!decision.is_admitted(), "too much: {} of {:?}, {}", cost, bucket, room);
                } else if room > behind {
                    prop_assert!(decision.is_admitted(), "needless: {} of {:?}, {}", cost, bucket, room);
                }
                if decision.is_admitted() {
                    level.parts -= asked;
                } else if let RetryAfter::After(wait) = decision.retry_after() {
                    // The wait is enough for this class, whatever overdraft the others have.
                    let mut later = state.clone();
                    let then = any::at(now) + wait;
                    prop_assert!(classes[place].take(&mut later, Cost(*cost), then).is_admitted());
                }
            }
        }
    }

    /// Permits that one class gave back, charged or reserved count for the others as if they were theirs.
    #[test]
    fn classes_read_what_others_returned_charged_and_reserved(
        bucket in bucket(), steps in prop::collection::vec((0_u8..4, any::<prop::sample::Index>(), 0.0..1.5, 0_u64..40), 1..20),
    ) {
        let classes = bucket.classes();
        let mut state = State::Word(Word::FRESH);
        let mut now = any::NOON;
        for (what, class, gap, cost) in steps {
            now += (gap * bucket.period_ns as f64) as u64;
            let class = &classes[class.index(classes.len())];
            let _decision = match what {
                0 => class.take(&mut state, Cost(cost), any::at(now)),
                1 => class.give_back(&mut state, Cost(cost), any::at(now)),
                2 => class.charge(&mut state, Cost(cost), any::at(now)),
                _ => class.reserve(&mut state, Cost(cost), Duration::from_nanos(bucket.period_ns), any::at(now)),
            };
            let peek = |class: &Quota| {
                let seen = class.take(&mut state.clone(), Cost::PEEK, any::at(now));
                (seen.remaining(), seen.reset_after())
            };
            let first = peek(&classes[0]);
            for other in &classes {
                prop_assert_eq!(peek(other), first, "all of them see the same bucket");
            }
        }
    }
}

/// The trap: 7 a day, 10,000 at once. Its permits come at whole sevenths of a nanosecond; with an overdraft
/// of 5,000 there is no room for such fine units.
#[test]
fn a_class_reads_the_word_of_one_with_a_larger_overdraft_in_its_units() {
    let bucket =
        Bucket { limit: 7, period_ns: 86_400_000_000_000, burst: 10_000, overdrafts: vec![0, 5_000] };
    let noon = Timestamp::from_unix_seconds(1_700_000_000);
    let after = |classes: [Quota; 2]| {
        let [plain, deep] = classes;
        let mut state = plain.fresh();
        assert!(deep.take(&mut state, Cost(9_990), noon).is_admitted());
        plain.take(&mut state, Cost::PEEK, noon).remaining()
    };
    assert_ne!(after([bucket.class(0), bucket.class(5_000)]), 10, "apart they are misread");
    let classes: [Quota; 2] = bucket.classes().try_into().expect("two");
    assert_eq!(after(classes), 10);
}

/// A reload that changes one overdraft changes the units of all: the counts stay.
#[test]
fn a_new_overdraft_of_one_class_leaves_the_counts_of_all() {
    let of = |overdrafts: &[u64]| Bucket {
        limit: 7,
        period_ns: 86_400_000_000_000,
        burst: 10_000,
        overdrafts: overdrafts.to_vec(),
    };
    let noon = Timestamp::from_unix_seconds(1_700_000_000);
    let mut classes = of(&[0, 0]).classes();
    let mut state = classes[0].fresh();
    assert!(classes[0].take(&mut state, Cost(9_000), noon).is_admitted());
    for overdrafts in [&[0, 5_000][..], &[0, 60_000], &[100, 0, 0], &[0], &[0, 0], &[7_000, 3_000]] {
        let old = classes[0].clone();
        classes = of(overdrafts).classes().into_iter().map(|new| new.migrated_from(&old, noon)).collect();
        for class in &classes {
            // Rounded up by less than a permit at each change.
            let left = class.take(&mut state.clone(), Cost::PEEK, noon).remaining();
            assert!((999..=1_000).contains(&left), "{overdrafts:?}: {left}");
        }
        assert!(classes[classes.len() - 1].take(&mut state, Cost(1), noon).is_admitted());
        let _back = classes[0].give_back(&mut state, Cost(1), noon);
    }
}

#[test]
fn a_share_of_a_class_has_the_words_of_the_other_shares() {
    let bucket =
        Bucket { limit: 7, period_ns: 86_400_000_000_000, burst: 30_000, overdrafts: vec![0, 15_000] };
    let noon = Timestamp::from_unix_seconds(1_700_000_000);
    let [plain, deep]: [Quota; 2] = bucket.classes().try_into().expect("two");
    let plain = plain.share_of(3);
    let deep = deep.share_of(3);
    let mut state = plain.fresh();
    assert!(deep.take(&mut state, Cost(9_000), noon).is_admitted());
    assert_eq!(plain.take(&mut state, Cost::PEEK, noon).remaining(), 1_000);
    assert!(deep.take(&mut state, Cost(6_000), noon).is_admitted(), "5,000 in advance");
    assert!(!plain.take(&mut state, Cost(1), noon).is_admitted());
}
