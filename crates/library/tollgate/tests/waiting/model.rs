//! A bucket and its waiters in the plainest way: millisecond by millisecond.

use proptest::prelude::*;

use super::*;

/// A permit comes every this many milliseconds.
const EVERY_MS: u64 = 10;
const BURST: u64 = 5;
pub(super) const KEYS: [&str; 2] = ["ann", "bob"];
pub(super) const END_MS: u64 = 1_000;

/// Fate of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerFate {
    Admitted { at_ms: u64 },
    Denied,
    Left,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum CallerEvent {
    Wait {
        key: usize,
        n: u64,
        timeout_ms: u64,
    },
    Check {
        key: usize,
        n: u64,
    },
    /// The caller that came as this one, modulo those that came, leaves.
    Leave {
        number: usize,
    },
}

#[derive(Default)]
struct Bucket {
    /// In milliseconds' worth of permits.
    level: u64,
    waiting: Vec<(usize, u64)>,
}

impl Bucket {
    fn serve(&mut self, at_ms: u64, outcomes: &mut [Option<CallerFate>]) {
        while let Some(&(number, n)) = self.waiting.first()
            && n * EVERY_MS <= self.level
        {
            self.level -= n * EVERY_MS;
            self.waiting.remove(0);
            outcomes[number] = Some(CallerFate::Admitted { at_ms });
        }
    }
}

/// The fate of each caller in the model. Checks are callers too.
fn expected(events: &[(u64, CallerEvent)]) -> Vec<CallerFate> {
    let mut buckets = KEYS.map(|_| Bucket { level: BURST * EVERY_MS, waiting: Vec::new() });
    let mut outcomes = Vec::new();
    for at_ms in 0..=END_MS {
        for bucket in &mut buckets {
            if at_ms > 0 {
                bucket.level = (bucket.level + 1).min(BURST * EVERY_MS);
            }
            bucket.serve(at_ms, &mut outcomes);
        }
        for (_, event) in events.iter().filter(|(at, _)| *at == at_ms) {
            match *event {
                CallerEvent::Wait { key, n, timeout_ms } => {
                    let bucket = &mut buckets[key];
                    let asked: u64 = bucket.waiting.iter().map(|(_, n)| n).sum::<u64>() + n;
                    let wait = (asked * EVERY_MS).saturating_sub(bucket.level);
                    if n > BURST || wait > timeout_ms {
                        outcomes.push(Some(CallerFate::Denied));
                    } else {
                        bucket.waiting.push((outcomes.len(), n));
                        outcomes.push(None);
                        bucket.serve(at_ms, &mut outcomes);
                    }
                }
                CallerEvent::Check { key, n } => {
                    let bucket = &mut buckets[key];
                    let fits = bucket.waiting.is_empty() && n * EVERY_MS <= bucket.level;
                    bucket.level -= if fits { n * EVERY_MS } else { 0 };
                    outcomes.push(Some(if fits {
                        CallerFate::Admitted { at_ms }
                    } else {
                        CallerFate::Denied
                    }));
                }
                CallerEvent::Leave { number } if !outcomes.is_empty() => {
                    let number = number % outcomes.len();
                    for bucket in &mut buckets {
                        if let Some(place) = bucket.waiting.iter().position(|(it, _)| *it == number) {
                            bucket.waiting.remove(place);
                            outcomes[number] = Some(CallerFate::Left);
                            bucket.serve(at_ms, &mut outcomes);
                        }
                    }
                }
                CallerEvent::Leave { .. } => {}
            }
        }
    }
    outcomes.into_iter().map(|outcome| outcome.expect("all are served by the end")).collect()
}

/// Their fates at `limiter`.
pub(super) async fn observed(
    events: &[(u64, CallerEvent)],
    limiter: KeyedRateLimiter<str, impl Clock + 'static>,
) -> Vec<CallerFate> {
    let began = limiter.now();
    let mut callers = Vec::new();
    let mut instants: Vec<u64> = events.iter().map(|(at, _)| *at).chain([END_MS]).collect();
    instants.dedup();
    for at_ms in instants {
        let passed = limiter.now().since(began);
        sleep(ms(at_ms).saturating_sub(passed)).await;
        settle().await;
        for (_, event) in events.iter().filter(|(at, _)| *at == at_ms) {
            match *event {
                CallerEvent::Wait { key, n, timeout_ms } => {
                    let limiter = limiter.clone();
                    callers.push(tokio::spawn(async move {
                        let came = limiter.now().since(began);
                        match limiter.try_acquire(KEYS[key], n, ms(timeout_ms)).await {
                            Ok(waited) => CallerFate::Admitted { at_ms: (came + waited).as_millis() as u64 },
                            Err(_) => CallerFate::Denied,
                        }
                    }));
                }
                CallerEvent::Check { key, n } => {
                    let is_admitted = limiter.check_n(KEYS[key], n).is_ok();
                    let outcome =
                        if is_admitted { CallerFate::Admitted { at_ms } } else { CallerFate::Denied };
                    callers.push(tokio::spawn(async move { outcome }));
                }
                CallerEvent::Leave { number } if !callers.is_empty() => {
                    callers[number % callers.len()].abort();
                }
                CallerEvent::Leave { .. } => {}
            }
            settle().await;
        }
    }
    assert_eq!(limiter.waiting(), 0);
    let mut outcomes = Vec::new();
    for caller in callers {
        outcomes.push(caller.await.unwrap_or(CallerFate::Left));
    }
    outcomes
}

pub(super) fn any_event() -> impl Strategy<Value = (u64, CallerEvent)> {
    let wait = (0..2_usize, 1..=BURST + 1, prop_oneof![Just(5_000), 0_u64..200]);
    let event = prop_oneof![
        4 => wait.prop_map(|(key, n, timeout_ms)| CallerEvent::Wait { key, n, timeout_ms }),
        1 => (0..2_usize, 1..=2_u64).prop_map(|(key, n)| CallerEvent::Check { key, n }),
        2 => (0..50_usize).prop_map(|number| CallerEvent::Leave { number }),
    ];
    (0_u64..300, event)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Never too early, never later than needed, in order, and as if those who left had never come.
    #[test]
    fn callers_fare_as_in_a_bucket_that_is_looked_at_every_millisecond(
        mut events in prop::collection::vec(any_event(), 1..25),
    ) {
        events.sort_by_key(|(at, _)| *at);
        let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
        let observed = runtime.expect("a runtime").block_on(async {
            observed(&events, keyed(Quota::token_bucket(1, ms(EVERY_MS)).burst(BURST))).await
        });
        prop_assert_eq!(observed, expected(&events));
    }
}
