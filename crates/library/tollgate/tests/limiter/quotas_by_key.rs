//! Keys with quotas of their own, which a function says and may change.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use super::*;
use parking_lot::Mutex;
use tollgate::{QuotaStats, Quotas};

const HOUR: Duration = Duration::from_secs(3_600);

/// Answers of the function, and the number of times it was asked.
#[derive(Clone, Default)]
struct Book {
    quotas: Arc<Mutex<HashMap<String, Quota>>>,
    asked: Arc<AtomicUsize>,
}

impl Book {
    fn set(&self, key: &str, quota: Quota) {
        self.quotas.lock().insert(key.to_owned(), quota);
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn quotas(&self, otherwise: Quota) -> Quotas<str> {
        let book = self.clone();
        Quotas::by(otherwise, move |key: &str| {
            book.asked.fetch_add(1, Ordering::Relaxed);
            book.quotas.lock().get(key).cloned()
        })
    }
}

type Limiter = KeyedRateLimiter<str, ManualClock>;

fn limiter(quotas: Quotas<str>) -> (Limiter, ManualClock) {
    let clock = ManualClock::at(NOON);
    (KeyedRateLimiter::with_clock(quotas, clock.clone()).expect("a quota"), clock)
}

#[test]
fn keys_are_counted_by_their_own_quotas() {
    let book = Book::default();
    book.set("premium", Quota::per_second(10));
    book.set("window", Quota::sliding_window(4, SECOND));
    let (limiter, clock) = limiter(book.quotas(Quota::per_second(1)));
    for (at_ms, key, want) in [
        (0, "premium", 10),
        (0, "ann", 1),
        (0, "bob", 1),
        (0, "window", 4),
        (500, "premium", 5),
        (500, "ann", 0),
        (500, "window", 0),
        (1_000, "premium", 5),
        (1_000, "ann", 1),
        (1_100, "window", 4),
    ] {
        clock.set(NOON + ms(at_ms));
        assert_eq!(limiter.take_at_most(key, 100), want, "{key} at {at_ms} ms");
    }
    assert_eq!(book.asked(), 4, "once for each key");
    let stats = limiter.quota_stats();
    assert_eq!((stats.remembered_keys, stats.quotas, stats.unusable), (4, 3, 0));
    assert_eq!((limiter.bounds_of("premium").limit, limiter.bounds().limit), (10, 1));
}

#[test]
fn a_key_whose_quota_changes_keeps_what_was_said() {
    for (how, left) in [
        (Inherit::Taken, 13),
        (Inherit::Reset, 20),
        (Inherit::AsIs, 3),
        (Inherit::Additive, 13),
        (Inherit::Proportional, 6),
    ] {
        let book = Book::default();
        let (limiter, clock) = limiter(book.quotas(Quota::per_hour(10)).inherit(how));
        assert_eq!(limiter.take_at_most("ann", 7), 7);
        book.set("ann", Quota::per_hour(20));
        assert_eq!(limiter.peek("ann").remaining(), 3, "not asked again yet");
        limiter.ask_again("ann");
        assert_eq!(limiter.peek("ann").remaining(), left, "{how:?}");
        clock.advance(HOUR);
        assert_eq!(limiter.peek("ann").remaining(), 20);
    }
}

#[test]
fn a_quota_for_all_other_keys_leaves_those_alone_that_have_their_own() {
    let book = Book::default();
    book.set("premium", Quota::per_hour(100));
    let (limiter, _) = limiter(book.quotas(Quota::per_hour(10)));
    assert_eq!((limiter.take_at_most("premium", 30), limiter.take_at_most("ann", 4)), (30, 4));
    limiter.reconfigure_as(Quota::per_hour(20), Inherit::Proportional).expect("a quota");
    assert_eq!(limiter.bounds().limit, 20);
    let left = ["premium", "ann", "bob"].map(|key| limiter.peek(key).remaining());
    assert_eq!(left, [70, 12, 20]);
    let error = limiter.reconfigure(Quota::per_hour(1).burst(0)).expect_err("a burst of nothing");
    assert_eq!((limiter.bounds().limit, limiter.peek("ann").remaining()), (20, 12), "{error}");
}

#[test]
fn answers_are_asked_for_again_when_they_are_old_and_not_before() {
    let book = Book::default();
    let quotas = book.quotas(Quota::per_hour(10)).remember_for(ms(9_001));
    let (limiter, clock) = limiter(quotas);
    for (at_ms, want) in [(0, 1), (9_999, 1), (10_000, 2), (10_000, 2), (19_999, 2), (20_000, 3)] {
        clock.set(NOON + ms(at_ms));
        assert!(limiter.check_n("ann", 0).is_ok());
        assert_eq!(book.asked(), want, "at {at_ms} ms");
    }
    limiter.ask_all_again();
    let _left = (limiter.peek("ann"), limiter.peek("ann"), limiter.peek("bob"));
    assert_eq!(book.asked(), 5);
}

#[test]
fn an_answer_that_cannot_be_used_counts_as_none_and_is_shown() {
    let book = Book::default();
    book.set("broken", Quota::sliding_window(5, SECOND).burst(2));
    let (limiter, _) = limiter(book.quotas(Quota::per_hour(3)));
    assert_eq!(limiter.take_at_most("broken", 10), 3);
    let QuotaStats { unusable, last_fault, .. } = limiter.quota_stats();
    assert_eq!(unusable, 1);
    assert!(last_fault.is_some_and(|fault| fault.to_string().contains("a burst")));
}

#[test]
fn so_many_different_quotas_have_an_end() {
    let of = |key: &u64| Some(Quota::per_hour(*key));
    let limiter = KeyedRateLimiter::with_clock(Quotas::by(Quota::per_hour(5), of), ManualClock::at(NOON));
    let limiter = limiter.expect("a quota");
    let most = 10_000;
    let wrong = (1..most + 5).filter(|key| key != &5).filter(|key| limiter.take_at_most(key, *key) != *key);
    assert_eq!(wrong.collect::<Vec<_>>(), [most + 1, most + 2, most + 3, most + 4]);
    let stats = limiter.quota_stats();
    assert_eq!((stats.quotas, stats.unusable), (10_000, 4));
    assert_eq!(limiter.peek(&(most + 1)).remaining(), 0, "counted by the quota of all others, and used up");
}

#[test]
fn answers_of_a_flood_of_keys_give_way_to_one_another() {
    let of = |key: &u64| key.is_multiple_of(2).then(|| Quota::per_hour(2));
    let quotas = Quotas::by(Quota::per_hour(1), of).remember_keys(5_000);
    let limiter = KeyedRateLimiter::with_clock(quotas, ManualClock::at(NOON)).expect("a quota");
    for key in 0..50_000 {
        assert_eq!(limiter.take_at_most(&key, 9), 2 - key % 2);
    }
    for key in 0..50_000 {
        assert_eq!(limiter.take_at_most(&key, 9), 0, "the same quota, and what was counted by it");
    }
    let stats = limiter.quota_stats();
    assert!(stats.evicted_keys > 0, "{stats:?}");
    assert!((4_000..20_000).contains(&stats.remembered_keys), "{stats:?}");
}

#[test]
fn a_function_that_panics_takes_nothing_and_is_asked_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let of = move |_: &str| {
        assert!(seen.fetch_add(1, Ordering::Relaxed) > 0, "the first time");
        Some(Quota::per_hour(2))
    };
    let (limiter, _) = limiter(Quotas::by(Quota::per_hour(1), of));
    assert!(catch_unwind(AssertUnwindSafe(|| limiter.check("ann"))).is_err());
    assert_eq!((limiter.take_at_most("ann", 9), calls.load(Ordering::Relaxed)), (2, 2));
}

#[test]
fn the_function_may_use_the_limiter() {
    let inner: Arc<OnceLock<Limiter>> = Arc::default();
    let seen = Arc::clone(&inner);
    let of = move |key: &str| match (key.strip_prefix("child of "), seen.get()) {
        (Some(parent), Some(limiter)) => Some(Quota::per_hour(limiter.bounds_of(parent).limit / 2)),
        _ => Some(Quota::per_hour(8)),
    };
    let (limiter, _) = limiter(Quotas::by(Quota::per_hour(1), of));
    inner.get_or_init(|| limiter.clone());
    assert_eq!(limiter.take_at_most("child of child of ann", 100), 2);
}

/// Each change may lose what was being decided meanwhile, and no more.
#[test]
fn threads_that_share_a_key_whose_quota_changes_take_little_more_than_it_has() {
    const THREADS: u64 = 4;
    const CHANGES: u64 = 200;
    let large = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let seen = Arc::clone(&large);
    let of = move |_: &str| Some(Quota::total(if seen.load(Ordering::Relaxed) { 6_000 } else { 5_000 }));
    let limiter: KeyedRateLimiter<str> =
        RateLimiter::keyed(Quotas::by(Quota::total(1), of)).expect("a quota");
    let taken = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..5_000 {
                    taken.fetch_add(limiter.take_at_most("ann", 1), Ordering::Relaxed);
                }
            });
        }
        for change in 0..CHANGES {
            large.store(change % 2 == 0, Ordering::Relaxed);
            limiter.ask_again("ann");
            std::thread::yield_now();
        }
    });
    let taken = taken.into_inner();
    assert!((5_000..=6_000 + THREADS * CHANGES).contains(&taken), "{taken}");
}

/// Keys that change one by one are as limiters of one key that are reconfigured.
#[derive(Clone, Debug)]
enum Turn {
    Take(usize, u64),
    GiveBack(usize, u64),
    Penalise(usize, u64),
    Wait(u64),
    Change(usize, usize),
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let key = 0..3_usize;
    let turn = prop_oneof![
        4 => (key.clone(), 0..8_u64).prop_map(|(key, n)| Turn::Take(key, n)),
        1 => (key.clone(), 1..4_u64).prop_map(|(key, n)| Turn::GiveBack(key, n)),
        1 => (key.clone(), 1..20_u64).prop_map(|(key, n)| Turn::Penalise(key, n)),
        2 => (0..1_000_000_u64).prop_map(Turn::Wait),
        2 => (key, 0..6_usize).prop_map(|(key, quota)| Turn::Change(key, quota)),
    ];
    prop::collection::vec(turn, 1..40)
}

proptest! {
    #[test]
    fn a_key_whose_quota_changes_is_as_a_limiter_that_is_reconfigured(
        turns in turns(),
        how in prop::sample::select(vec![
            Inherit::Taken, Inherit::Reset, Inherit::AsIs, Inherit::Additive, Inherit::Proportional,
        ]),
    ) {
        let quotas = [
            Quota::per_hour(10),
            Quota::per_minute(7).burst(3),
            Quota::fixed_window(9, HOUR),
            Quota::sliding_window(12, HOUR),
            Quota::leaky_queue(30, HOUR).burst(5),
            Quota::total(40),
        ];
        let book = Book::default();
        let clock = ManualClock::at(NOON);
        let keys = ["ann", "bob", "cy"];
        let by_key = book.quotas(quotas[0].clone()).inherit(how);
        let by_key: Limiter = KeyedRateLimiter::with_clock(by_key, clock.clone()).expect("a quota");
        let each = keys.map(|_| keyed_on(quotas[0].clone(), &clock));
        let mut current = [0; 3];
        for turn in turns {
            match turn {
                Turn::Take(key, n) => {
                    let got = by_key.check_n(keys[key], n);
                    let want = each[key].check_n(keys[key], n);
                    prop_assert_eq!(got, want, "{:?}", &turn);
                }
                Turn::GiveBack(key, n) => {
                    by_key.give_back(keys[key], n);
                    each[key].give_back(keys[key], n);
                }
                Turn::Penalise(key, n) => {
                    by_key.penalise(keys[key], n);
                    each[key].penalise(keys[key], n);
                }
                Turn::Wait(ms) => {
                    clock.advance(Duration::from_millis(ms));
                }
                Turn::Change(key, quota) if current[key] == quota => {
                    by_key.ask_again(keys[key]); // the same answer changes nothing, whatever is inherited
                }
                Turn::Change(key, quota) => {
                    current[key] = quota;
                    book.set(keys[key], quotas[quota].clone());
                    by_key.ask_again(keys[key]);
                    each[key].reconfigure_as(quotas[quota].clone(), how).expect("a quota");
                }
            }
            for (key, each) in keys.into_iter().zip(&each) {
                prop_assert_eq!(by_key.peek(key), each.peek(key), "{} after {:?}", key, &turn);
            }
        }
    }
}

fn keyed_on(quota: Quota, clock: &ManualClock) -> Limiter {
    KeyedRateLimiter::with_clock(quota, clock.clone()).expect("a quota")
}
