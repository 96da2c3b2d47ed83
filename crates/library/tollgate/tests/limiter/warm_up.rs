//! Limiters by which each take pays for the one before.

use super::*;

/// When each of several callers may act that come now and wait.
fn acts_at(limiter: &RateLimiter<ManualClock>, costs: &[u64]) -> Vec<Duration> {
    let reserve = |&cost: &u64| {
        let reservation = limiter.reserve(cost, YEAR).expect("patience for a year");
        let act_at = reservation.act_at();
        reservation.commit(cost);
        act_at.since(limiter.now())
    };
    costs.iter().map(reserve).collect()
}

#[test]
fn a_bursty_limiter_begins_to_keep_permits_when_it_is_made() {
    let (limiter, clock) = direct(Quota::smooth_bursty(5, SECOND));
    clock.advance(ms(400));
    assert_eq!(acts_at(&limiter, &[1, 1, 1, 3, 1]), [0, 0, 0, 200, 800].map(ms));
    let (limiter, clock) = direct(Quota::smooth_bursty(5, SECOND).burst(50));
    clock.advance(60 * SECOND);
    assert_eq!((limiter.peek().remaining(), limiter.bounds().burst), (50, 50));
}

#[test]
fn a_warm_up_makes_those_wait_who_come_while_it_is_cold() {
    let quota = Quota::warm_up(2, SECOND, 4 * SECOND);
    let (limiter, clock) = direct(quota.clone());
    assert_eq!(acts_at(&limiter, &[1, 1, 1, 1, 1, 1]), [0, 1_375, 2_500, 3_375, 4_000, 4_500].map(ms));
    clock.advance(9 * SECOND);
    assert_eq!(acts_at(&limiter, &[4, 1]), [0, 4_000].map(ms), "cold again");
    let (limiter, _) = direct(quota.cold_factor(1));
    assert_eq!(acts_at(&limiter, &[1, 1, 1]), [0, 500, 1_000].map(ms), "never cold");
}

/// Whoever leaves the line takes the price of its permits along.
#[test]
fn a_cancelled_reservation_leaves_the_line_as_if_it_had_never_been_made() {
    let (limiter, clock) = direct(Quota::warm_up(2, SECOND, 4 * SECOND));
    let first = limiter.reserve(1, YEAR).expect("now");
    let second = limiter.reserve(3, YEAR).expect("later");
    assert_eq!(second.act_at().since(NOON), ms(1_375));
    first.commit(1);
    second.cancel();
    assert_eq!(acts_at(&limiter, &[1, 1]), [1_375, 2_500].map(ms));
    clock.advance(ms(3_374));
    assert!(limiter.check().is_err());
    clock.advance(ms(1));
    assert!(limiter.check().is_ok());
}

#[test]
fn a_change_of_the_rate_keeps_how_warm_each_key_is() {
    let slow = Quota::warm_up(2, SECOND, 4 * SECOND);
    let fast = Quota::warm_up(4, SECOND, 4 * SECOND);
    for how in [Inherit::Taken, Inherit::Proportional] {
        let (limiter, clock) = direct(slow.clone());
        let (by_key, same) = keyed(slow.clone());
        for wait in [1_375, 1_125, 875] {
            assert!(limiter.check().is_ok() && by_key.check("a").is_ok());
            clock.advance(ms(wait));
            same.advance(ms(wait));
        }
        limiter.reconfigure_as(fast.clone(), how).expect("a quota");
        by_key.reconfigure_as(fast.clone(), how).expect("a quota");
        assert!(limiter.check().is_ok() && by_key.check("a").is_ok() && by_key.check("b").is_ok());
        let wait = |denied: Result<_, tollgate::Denied>| denied.expect_err("one by one").retry_after();
        assert_eq!(wait(limiter.check()).map(|wait| wait.as_micros()), Some(343_750), "{how:?}");
        assert_eq!(wait(by_key.check("a")).map(|wait| wait.as_micros()), Some(343_750), "{how:?}");
        assert_eq!(wait(by_key.check("b")).map(|wait| wait.as_micros()), Some(718_750), "cold");
    }
}

#[test]
fn a_snapshot_of_a_warm_key_is_warm() {
    let (limiter, clock) = direct(Quota::warm_up(2, SECOND, 4 * SECOND));
    assert!(limiter.check_n(20).is_ok());
    let snapshot = limiter.snapshot();
    clock.advance(ms(12_500));
    let (other, at) = direct(Quota::warm_up(2, SECOND, 4 * SECOND));
    at.set(limiter.now());
    other.restore(&snapshot).expect("the same quota");
    assert_eq!(acts_at(&other, &[1, 1]), [0, 500].map(ms), "warm, paid for, and half a second on");
    limiter.reset();
    assert_eq!(acts_at(&limiter, &[1, 1]), [0, 1_375].map(ms));
}

#[test]
fn only_a_warm_up_has_a_cold_factor() {
    let error = RateLimiter::direct(Quota::per_second(5).cold_factor(3)).expect_err("no warm-up");
    assert_eq!(error.to_string(), "token_bucket does not work with a cold factor; warm_up does");
    let error = RateLimiter::direct(Quota::warm_up(5, SECOND, SECOND).burst(3)).expect_err("no burst");
    assert_eq!(error.to_string(), "warm_up does not work with a burst; its permits pass one by one");
}
