//! Batches in which a limit is leased: each take goes where its counter is. All or none across leases and scripts is charged one by one
//! and given back where one denies: never admitted what a limit denies, but others may for a moment find permits gone that are given
//! back. What is leased makes no promises ahead to callers, so that holding is taking.

use tollgate_core::{Algorithm, Cost, Decision, Quota, Sharing, Timestamp};
use tollgate_store::{Charge, StoreError, Take, Verdicts};

use super::RedisStore;
use crate::ask::Kind;
use crate::leased::{Begun, Hit};

/// What a take came to.
struct Taken {
    result: Result<Decision, StoreError>,
    is_leased: bool,
}

impl Taken {
    fn is_admitted(&self) -> bool {
        self.result.as_ref().is_ok_and(Decision::is_admitted)
    }
}

pub(super) fn is_leased(quota: &Quota) -> bool {
    quota.sharing() == Sharing::Leased
}

/// What a take answers after a denial of its window in the same batch, which counts for as long as the batch lasts.
fn denied_after(denial: &Decision, take: &Take<'_>) -> Option<Decision> {
    let is_window = matches!(take.quota.algorithm(), Algorithm::FixedWindow { .. });
    if denial.is_admitted() || !is_window {
        return None;
    }
    let (limit, reset_ns) = (denial.limit(), denial.reset_after().as_nanos() as u64);
    Some(if take.cost.permits() > limit {
        Decision::never(limit, 0, reset_ns)
    } else {
        Decision::deny(limit, 0, reset_ns, reset_ns)
    })
}

impl RedisStore {
    /// Takes a batch of which at least one quota asks to be leased. `kind`: what is asked of those that are not.
    pub(super) async fn take_with_leases(
        &self,
        batch: &[Take<'_>],
        charge: Charge,
        kind: impl Fn(Cost) -> Kind,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let hit = match (charge, kind(Cost::ONE)) {
            (Charge::Each, _) => Hit::Counts,
            (Charge::Together, Kind::Hold(..)) => Hit::Never,
            (Charge::Together, _) => Hit::TakenBack,
        };
        let begin = |take: &Take<'_>| {
            is_leased(take.quota)
                .then(|| self.leased().begin(take.key, take.quota, (take.cost, hit), now))
                .flatten()
        };
        if let ([take], Charge::Each) = (batch, charge) {
            verdicts.push(match begin(take) {
                Some(begun) => self.heard(begun).await,
                None => self.decide(take.key, take.quota, kind(take.cost), now).await,
            });
            return;
        }
        let mut begun: Vec<Option<Begun>> = Vec::with_capacity(batch.len());
        for (nth, take) in batch.iter().enumerate() {
            let before = batch.iter().zip(&begun).rev().find(|(before, _)| before.key == take.key);
            if hit == Hit::TakenBack
                && let Some((_, Some(Begun::Done(Ok(denial))))) = before
                && let Some(denied) = denied_after(denial, take)
            {
                begun.push(Some(Begun::Done(Ok(denied))));
                continue;
            }
            // What is asked of one key twice is asked in turn: a lease may answer before the ledger does.
            let comes_again = batch[nth + 1..].iter().any(|later| later.key == take.key);
            begun.push(match begin(take) {
                Some(one) if comes_again => Some(Begun::Done(self.heard(one).await)),
                one => one,
            });
        }
        let exact: Vec<_> =
            batch.iter().zip(&begun).filter(|(_, begun)| begun.is_none()).map(|(take, _)| *take).collect();
        let mut others = Verdicts::with_capacity(exact.len());
        match charge {
            _ if exact.is_empty() => {}
            Charge::Each => self.each(&exact, now, &mut others).await,
            Charge::Together => self.all_or_none(&exact, kind, now, &mut others).await,
        }
        let mut others = others.into_iter();
        let mut taken = Vec::with_capacity(batch.len());
        for begun in begun {
            let is_leased = begun.is_some();
            let result = match begun {
                Some(begun) => self.heard(begun).await,
                None => {
                    let missing = || Err(self.hub().context().refused("a script answered too few callers"));
                    others.next().unwrap_or_else(missing)
                }
            };
            taken.push(Taken { result, is_leased });
        }
        if charge == Charge::Together && !taken.iter().all(Taken::is_admitted) {
            self.undo(batch, &mut taken, now).await;
        }
        verdicts.extend(taken.into_iter().map(|taken| taken.result));
    }

    async fn heard(&self, begun: Begun) -> Result<Decision, StoreError> {
        match begun {
            Begun::Done(result) => result,
            Begun::Waits(pending) => self.leased().hear(pending).await,
        }
    }

    /// Gives back what was charged. What cannot be given back, because the store has gone silent, stays taken: that denies too much,
    /// never admits too much.
    async fn undo(&self, batch: &[Take<'_>], taken: &mut [Taken], now: Timestamp) {
        let exact_stands = taken.iter().filter(|taken| !taken.is_leased).all(Taken::is_admitted);
        let any_failed = taken.iter().any(|taken| taken.result.is_err());
        for (take, taken) in batch.iter().zip(taken) {
            let (key, quota, cost) = (take.key, take.quota, take.cost);
            if taken.is_leased && taken.is_admitted() && !cost.is_peek() {
                self.leased().give_back(key, quota, cost, now).await;
            } else if !taken.is_leased && exact_stands && !cost.is_peek() {
                self.decide(key, quota, Kind::GiveBack(cost), now).await.ok();
            }
            if any_failed && taken.is_admitted() {
                // Admitted here, and not as a whole: whoever asked must not think so.
                let why = "another limit that is charged together with this one gave no answer";
                taken.result = Err(self.hub().context().refused(why));
            }
        }
    }
}
