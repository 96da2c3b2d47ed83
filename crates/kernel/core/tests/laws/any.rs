//! Quotas and histories to try, small enough that everything happens often.

use std::time::Duration;

use proptest::prelude::*;
use tollgate_core::{
    Algorithm, Align, LeakyForm, LeavingCell, Period, Quota, Refill, Step, Timestamp, WordAlgorithm,
};

/// A Monday noon.
pub(crate) const NOON: u64 = 1_699_876_800_000_000_000;

/// A quota in plain numbers, for oracles to read.
#[derive(Clone, Debug)]
pub(crate) struct Plain {
    pub(crate) limit: u64,
    pub(crate) period_ns: u64,
    pub(crate) algorithm: Algorithm,
}

impl Plain {
    pub(crate) fn quota(&self) -> Quota {
        let period = Period::Span(Duration::from_nanos(self.period_ns));
        Quota::new(self.limit, period, self.algorithm.clone()).expect("small numbers")
    }

    /// The permits that a fresh key may get at once.
    pub(crate) fn at_once(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket { burst, initial, .. } => initial.or(burst).unwrap_or(self.limit),
            Algorithm::LeakyBucket { capacity, .. } => capacity.unwrap_or(self.limit),
            Algorithm::WarmUp { .. } | Algorithm::SmoothBursty { .. } => 1,
            _ => self.limit,
        }
    }

    /// The most permits that a key may hold in the end.
    pub(crate) fn burst(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket { burst, .. } => burst.unwrap_or(self.limit),
            Algorithm::SmoothBursty { .. } => self.quota().burst(),
            _ => self.at_once(),
        }
    }

    pub(crate) fn overdraft(&self) -> u64 {
        match self.algorithm {
            Algorithm::TokenBucket { overdraft, .. } => overdraft,
            _ => 0,
        }
    }
}

/// The algorithm of a quota that keeps one word per key.
pub(crate) fn word_algorithm(quota: &Quota) -> &WordAlgorithm {
    match quota.step() {
        Step::Word(algorithm) => algorithm,
        Step::Wide(_) => panic!("{:?} keeps a wide state", quota.algorithm()),
    }
}

/// Nanoseconds of a period: prime and round ones, sub-second and long.
pub(crate) fn period() -> impl Strategy<Value = u64> {
    prop_oneof![
        1_u64..50,
        Just(7_000_000),
        Just(999_999_937),
        Just(1_000_000_000),
        Just(60_000_000_000),
        Just(86_400_000_000_000),
        1_u64..10_000_000_000,
    ]
}

pub(crate) fn token_bucket() -> impl Strategy<Value = Plain> {
    (1_u64..40, period(), 1_u64..60, 0.0..1.0, prop_oneof![Just(0_u64), 0_u64..20], any::<bool>()).prop_map(
        |(limit, period_ns, burst, initial, overdraft, is_full)| {
            let initial = if is_full { None } else { Some((initial * burst as f64) as u64) };
            let algorithm =
                Algorithm::TokenBucket { burst: Some(burst), initial, overdraft, refill: Refill::Continuous };
            Plain { limit, period_ns, algorithm }
        },
    )
}

pub(crate) fn interval_bucket() -> impl Strategy<Value = Plain> {
    token_bucket().prop_map(|mut plain| {
        if let Algorithm::TokenBucket { refill, .. } = &mut plain.algorithm {
            *refill = Refill::Interval;
        }
        plain
    })
}

pub(crate) fn leaky(queue: bool) -> impl Strategy<Value = Plain> {
    (1_u64..40, period(), 1_u64..60, 0_u64..30).prop_map(move |(limit, period_ns, capacity, delay_after)| {
        let form = if queue { LeakyForm::Queue { delay_after } } else { LeakyForm::Meter };
        Plain { limit, period_ns, algorithm: Algorithm::LeakyBucket { capacity: Some(capacity), form } }
    })
}

fn with(algorithm: Algorithm) -> impl Strategy<Value = Plain> {
    (1_u64..40, period()).prop_map(move |(limit, period_ns)| Plain {
        limit,
        period_ns,
        algorithm: algorithm.clone(),
    })
}

pub(crate) fn fixed_window(align: Align) -> impl Strategy<Value = Plain> {
    with(Algorithm::FixedWindow { align })
}

pub(crate) fn sliding_window() -> impl Strategy<Value = Plain> {
    (1_u64..40, 1_u32..13, 1_u64..2_000_000_000).prop_map(|(limit, cells, cell_ns)| Plain {
        limit,
        period_ns: cell_ns * u64::from(cells),
        algorithm: Algorithm::sliding_window(cells),
    })
}

/// The cell that is leaving does not count.
pub(crate) fn sliding_window_that_drops() -> impl Strategy<Value = Plain> {
    sliding_window().prop_map(|plain| match plain.algorithm {
        Algorithm::SlidingWindow { cells, .. } => {
            Plain { algorithm: Algorithm::SlidingWindow { cells, leaving: LeavingCell::Drops }, ..plain }
        }
        _ => plain,
    })
}

pub(crate) fn sliding_window_counter() -> impl Strategy<Value = Plain> {
    with(Algorithm::SlidingWindowCounter)
}

pub(crate) fn sliding_window_log(log_denied: bool) -> impl Strategy<Value = Plain> {
    with(Algorithm::SlidingWindowLog { log_denied })
}

pub(crate) fn total() -> impl Strategy<Value = Plain> {
    with(Algorithm::Total)
}

/// A rate that warms up, of all kinds: shorter than a permit's interval and as long as many, up to no cold at
/// all.
pub(crate) fn warm_up() -> impl Strategy<Value = Plain> {
    (1_u64..40, period(), 1_u64..60, 1_u64..5, prop_oneof![Just(1_u32), Just(3), 1_u32..12]).prop_map(
        |(limit, period_ns, times, parts, cold_factor)| {
            let warm_up = Duration::from_nanos((period_ns * times / parts).max(1));
            Plain { limit, period_ns, algorithm: Algorithm::WarmUp { warm_up, cold_factor } }
        },
    )
}

pub(crate) fn smooth_bursty() -> impl Strategy<Value = Plain> {
    (1_u64..40, period(), prop::option::of(1_u64..60)).prop_map(|(limit, period_ns, burst)| Plain {
        limit,
        period_ns,
        algorithm: Algorithm::SmoothBursty { burst },
    })
}

pub(crate) fn any_quota() -> impl Strategy<Value = Plain> {
    prop_oneof![10 => any_bounded(), 1 => warm_up(), 1 => smooth_bursty()]
}

/// Every algorithm in which exactly the takes fit that are not above the remaining permits.
pub(crate) fn any_bounded() -> impl Strategy<Value = Plain> {
    prop_oneof![
        token_bucket(),
        interval_bucket(),
        leaky(false),
        leaky(true),
        fixed_window(Align::Calendar),
        fixed_window(Align::FirstHit),
        sliding_window(),
        sliding_window_that_drops(),
        sliding_window_counter(),
        sliding_window_log(false),
        sliding_window_log(true),
        total(),
    ]
}

/// One take of a history: the time since the previous one, in parts of the quota's period, and the permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit {
    pub(crate) gap: f64,
    pub(crate) cost: u64,
}

pub(crate) fn visits(most_cost: u64) -> impl Strategy<Value = Vec<Visit>> {
    let gap = prop_oneof![
        4 => Just(0.0),
        4 => 0.0..0.2,
        2 => 0.0..1.5,
        1 => Just(1.0),
        1 => 0.0..5.0,
    ];
    let cost = prop_oneof![6 => Just(1), 3 => 0..=most_cost, 1 => 0..100_u64];
    prop::collection::vec((gap, cost).prop_map(|(gap, cost)| Visit { gap, cost }), 1..80)
}

/// The visits at their instants. Gaps are cut to whole nanoseconds; short periods get some of one or two.
pub(crate) fn times(plain: &Plain, visits: &[Visit], start: u64) -> Vec<(u64, u64)> {
    let mut now = start;
    let mut list = Vec::new();
    for visit in visits {
        now += (visit.gap * plain.period_ns as f64).round() as u64;
        list.push((now, visit.cost));
    }
    list
}

/// Where histories begin: noon, and near the beginning of time.
pub(crate) fn start() -> impl Strategy<Value = u64> {
    prop_oneof![Just(NOON), NOON..NOON + 2_000_000_000, 1_u64..100]
}

pub(crate) fn at(ns: u64) -> Timestamp {
    Timestamp::from_nanos(ns)
}
