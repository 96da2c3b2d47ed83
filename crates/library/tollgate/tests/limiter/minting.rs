//! No sequence of calls mints a permit: at one instant, what was taken and not given back never exceeds the
//! burst, whatever callers reserve, cancel, commit, give back or change; and no call is denied that fits.

use tollgate::{KeyedRateLimiter, Reservation};

use super::*;

/// The calls of both kinds of limiters.
#[derive(Debug)]
enum Limiter {
    Direct(RateLimiter<ManualClock>),
    Keyed(KeyedRateLimiter<str, ManualClock>),
}

macro_rules! on {
    ($limiter:expr, $name:ident($($argument:expr),*)) => {
        match $limiter {
            Limiter::Direct(limiter) => limiter.$name($($argument),*),
            Limiter::Keyed(limiter) => limiter.$name("ann", $($argument),*),
        }
    };
}

impl Limiter {
    fn of(quota: &Quota, is_keyed: bool) -> Self {
        let quota = quota.clone();
        let clock = ManualClock::at(NOON);
        if is_keyed {
            Self::Keyed(KeyedRateLimiter::with_clock(quota, clock).expect("a quota"))
        } else {
            Self::Direct(RateLimiter::direct_with_clock(quota, clock).expect("a quota"))
        }
    }

    fn reconfigure_as(&self, quota: Quota, how: Inherit) {
        match self {
            Self::Direct(limiter) => limiter.reconfigure_as(quota, how),
            Self::Keyed(limiter) => limiter.reconfigure_as(quota, how),
        }
        .expect("a quota");
    }
}

#[derive(Clone, Debug)]
enum PermitCall {
    Check(u64),
    TakeAtMost(u64),
    Reserve(u64),
    Cancel(usize),
    Commit(usize, u64),
    GiveBack(u64),
    Penalise(u64),
    SaveAndRestore,
    Reset,
    /// The quota with this number, and whether what was taken stays.
    Change(usize, bool),
}

fn any_call() -> impl Strategy<Value = PermitCall> {
    prop_oneof![
        6 => (0_u64..14).prop_map(PermitCall::Check),
        3 => (0_u64..14).prop_map(PermitCall::TakeAtMost),
        5 => (1_u64..9).prop_map(PermitCall::Reserve),
        4 => (0_usize..8).prop_map(PermitCall::Cancel),
        2 => (0_usize..8, 0_u64..12).prop_map(|(which, used)| PermitCall::Commit(which, used)),
        2 => (0_u64..6).prop_map(PermitCall::GiveBack),
        1 => (0_u64..9).prop_map(PermitCall::Penalise),
        1 => Just(PermitCall::SaveAndRestore),
        1 => Just(PermitCall::Reset),
        2 => (0_usize..9, any::<bool>()).prop_map(|(quota, stays)| PermitCall::Change(quota, stays)),
    ]
}

/// Quotas of ten at once, and of twelve: those that count alike are beside each other.
fn all() -> Vec<Quota> {
    let day = Duration::from_secs(86_400);
    let per_day = |limit, algorithm| Quota::new(limit, Period::Span(day), algorithm);
    let log = Algorithm::SlidingWindowLog { log_denied: false };
    vec![
        Quota::per_day(10),
        Quota::per_day(12),
        Quota::sliding_window(10, day),
        Quota::sliding_window(12, day),
        per_day(10, log.clone()),
        per_day(12, log),
        Quota::fixed_window(10, day),
        Quota::total(12),
        per_day(10, Algorithm::SlidingWindowCounter),
    ]
}

/// Permits taken by the quota in force, and those of them that are reserved.
struct Model {
    used: i128,
    held: Vec<(Reservation, usize)>,
    /// Number of restarts of counting.
    epoch: usize,
    quota: usize,
    /// Something has been denied, which a fixed window counts.
    has_denied: bool,
}

impl Model {
    fn most(&self) -> i128 {
        [10, 12, 10, 12, 10, 12, 10, 12, 10][self.quota]
    }

    fn counts_alike(&self, other: usize) -> bool {
        self.quota / 2 == other / 2 && self.quota < 6 && other < 6 || self.quota == other
    }

    /// Counts a call that admitted `n` permits, and checks that it may have done so.
    fn admitted(&mut self, n: u64) -> Result<(), TestCaseError> {
        self.used += i128::from(n);
        prop_assert!(n == 0 || self.used <= self.most(), "{} of {} are taken", self.used, self.most());
        Ok(())
    }

    fn denied(&mut self, n: u64) -> Result<(), TestCaseError> {
        // A fixed window counts what it has denied.
        let may = self.quota == 6 && self.has_denied;
        prop_assert!(may || self.used + i128::from(n) > self.most(), "{n} fit beside {}", self.used);
        self.has_denied = true;
        Ok(())
    }

    /// Permits that were taken and are not reserved.
    fn used_up(&self) -> u64 {
        let held = self.held.iter().filter(|(_, epoch)| *epoch == self.epoch);
        let held: i128 = held.map(|(reservation, _)| i128::from(reservation.permits())).sum();
        u64::try_from(self.used - held).unwrap_or(0)
    }

    /// A log has a bounded number of entries, so it forgets a part of what is owed beyond its limit.
    fn payable(&self, n: u64) -> u64 {
        let is_log = matches!(self.quota, 4 | 5);
        if is_log { n.min(u64::try_from(self.most() - self.used).unwrap_or(0)) } else { n }
    }

    fn settle(&mut self, which: usize, used: Option<u64>) {
        if self.held.is_empty() {
            return;
        }
        let (reservation, epoch) = self.held.remove(which % self.held.len());
        let reserved = reservation.permits();
        let used = used.map(|used| used.min(reserved) + self.payable(used.saturating_sub(reserved)));
        if epoch == self.epoch {
            self.used += i128::from(used.unwrap_or(0)) - i128::from(reserved);
        } else {
            self.used += i128::from(used.unwrap_or(0).saturating_sub(reserved));
        }
        match used {
            Some(used) => reservation.commit(used),
            None => reservation.cancel(),
        }
    }
}

#[test]
fn permits_that_are_cancelled_after_a_change_of_the_rate_are_all_there_again() {
    for (is_keyed, [first, then]) in [false, true].into_iter().flat_map(|it| [(it, [0, 1]), (it, [1, 0])]) {
        for n in 1..=10 {
            let limiter = Limiter::of(&all()[first], is_keyed);
            let reservation = on!(&limiter, reserve(n, Duration::ZERO)).expect("as many are there");
            limiter.reconfigure_as(all()[then].clone(), Inherit::Taken);
            reservation.cancel();
            let most = [10, 12][then];
            assert!(on!(&limiter, check_n(most)).is_ok(), "{n} of {first}, then {then}, keyed: {is_keyed}");
            assert!(on!(&limiter, check_n(1)).is_err(), "{n} of {first}, then {then}, keyed: {is_keyed}");
        }
    }
}

#[test]
fn a_penalty_never_lowers_what_is_owed_by_a_higher_limit_of_before() {
    for (is_keyed, penalty) in [false, true].into_iter().flat_map(|it| (0..3).map(move |n| (it, n))) {
        let limiter = Limiter::of(&all()[5], is_keyed);
        assert!(on!(&limiter, check_n(12)).is_ok());
        limiter.reconfigure_as(all()[4].clone(), Inherit::Taken);
        on!(&limiter, penalise(penalty));
        on!(&limiter, give_back(2));
        assert_eq!(on!(&limiter, peek()).remaining(), 0, "10 of 10 are taken");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn what_is_taken_never_exceeds_the_burst_whatever_callers_reserve_and_change(
        calls in prop::collection::vec(any_call(), 1..40),
        first in 0_usize..9,
        is_keyed in any::<bool>(),
    ) {
        let limiter = Limiter::of(&all()[first], is_keyed);
        let mut model = Model { used: 0, held: Vec::new(), epoch: 0, quota: first, has_denied: false };
        for call in calls {
            match call.clone() {
                PermitCall::Check(n) => match on!(&limiter, check_n(n)) {
                    Ok(_) => model.admitted(n)?,
                    Err(_) => model.denied(n)?,
                },
                PermitCall::TakeAtMost(n) => {
                    let got = on!(&limiter, take_at_most(n));
                    model.admitted(got)?;
                    if got < n {
                        model.denied(got + 1)?;
                    }
                }
                PermitCall::Reserve(n) => match on!(&limiter, reserve(n, Duration::ZERO)) {
                    Ok(reservation) => {
                        model.admitted(n)?;
                        model.held.push((reservation, model.epoch));
                    }
                    Err(_) => model.denied(n)?,
                },
                PermitCall::Cancel(which) => model.settle(which, None),
                PermitCall::Commit(which, used) => model.settle(which, Some(used)),
                PermitCall::GiveBack(n) => {
                    let n = n.min(model.used_up()); // nobody gives back what is reserved
                    on!(&limiter, give_back(n));
                    model.used -= i128::from(n);
                }
                PermitCall::Penalise(n) => {
                    let n = model.payable(n);
                    on!(&limiter, penalise(n));
                    model.used += i128::from(n);
                }
                PermitCall::SaveAndRestore => {
                    let snapshot = on!(&limiter, snapshot());
                    on!(&limiter, reset());
                    on!(&limiter, restore(&snapshot)).expect("the same quota");
                    model.epoch += 1; // what was reserved before is used now
                }
                PermitCall::Reset => {
                    on!(&limiter, reset());
                    (model.used, model.epoch, model.has_denied) = (0, model.epoch + 1, false);
                }
                PermitCall::Change(quota, stays) => {
                    let how = if stays { Inherit::Taken } else { Inherit::Reset };
                    limiter.reconfigure_as(all()[quota].clone(), how);
                    if !stays || !model.counts_alike(quota) {
                        (model.used, model.epoch, model.has_denied) = (0, model.epoch + 1, false);
                    }
                    model.quota = quota;
                }
            }
            let left = on!(&limiter, peek()).remaining();
            let most_left = (model.most() - model.used.max(0)).max(0);
            prop_assert!(i128::from(left) <= most_left, "{call:?}: {left} left");
        }
    }
}
