//! Batches in which a limit is leased: each take goes where its counter is. All or none across leases and
//! scripts is charged one by one and given back where one denies: never admitted what a limit denies, but
//! others may for a moment find permits gone that are given back. What is leased makes no promises ahead to
//! callers, so that holding is taking.
//!
//! Where leases pay for all of a batch there is nothing to wait for. Else it runs to its end, whether its
//! caller waits or not.

use tollgate_core::{Algorithm, Cost, Decision, Timestamp};
use tollgate_store::remote::OwnBatch;
use tollgate_store::{Charge, StoreError, Take, Verdicts};

use super::RedisStore;
use crate::ask::Kind;
use crate::leased::{Begun, Hit, is_leased};

/// What a take came to.
struct Taken {
    result: Result<Decision, StoreError>,
    is_leased: bool,
}

impl Taken {
    fn is_admitted(&self) -> bool {
        self.result.as_ref().is_ok_and(Decision::is_admitted)
    }

    fn denies(&self) -> bool {
        self.result.is_ok() && !self.is_admitted()
    }
}

/// What a take answers after a denial of its window in the same batch, which counts for as long as the batch
/// lasts.
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
    /// Takes a batch of which at least one quota asks to be leased. `kind`: what is asked of those that are
    /// not.
    pub(super) async fn take_with_leases(
        &self,
        batch: &[Take<'_>],
        charge: Charge,
        kind: impl Fn(Cost) -> Kind + Send + 'static,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let hit = match (charge, kind(Cost::ONE)) {
            (Charge::Each, _) => Hit::Counts,
            (Charge::Together, Kind::Hold(..)) => Hit::Never,
            (Charge::Together, _) => Hit::TakenBack,
        };
        let mut begun = Vec::with_capacity(batch.len());
        if charge == Charge::Together {
            let waits = self.begin_on(batch, hit, now, &mut begun).is_some();
            let admitted = |it: &Option<Begun>| matches!(it, Some(Begun::Done(Ok(it))) if it.is_admitted());
            if waits || !begun.iter().all(admitted) {
                return self.finish_together(batch, begun, (hit, kind), now, verdicts).await;
            }
            for begun in begun.into_iter().flatten() {
                verdicts.push(self.receive(begun).await);
            }
            return;
        }
        if let [take] = batch {
            verdicts.push(match self.begin_one(take, hit, now) {
                Some(begun) => self.receive(begun).await,
                None => self.decide(take.key, take.quota, kind(take.cost), now).await,
            });
            return;
        }
        while let Some(place) = self.begin_on(batch, hit, now, &mut begun) {
            self.receive_in_place(&mut begun, place).await;
        }
        let exact = exact(batch, &begun);
        let mut others = Verdicts::with_capacity(exact.len());
        self.each(&exact, now, &mut others).await;
        let taken = self.receive_all(begun, others).await;
        verdicts.extend(taken.into_iter().map(|taken| taken.result));
    }

    /// Goes on with a batch that is charged together, of which these have begun: to its end, whether its
    /// caller waits or not.
    async fn finish_together(
        &self,
        batch: &[Take<'_>],
        begun: Vec<Option<Begun>>,
        (hit, kind): (Hit, impl Fn(Cost) -> Kind + Send + 'static),
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let (own, store, backs) = (OwnBatch::of(batch), self.clone(), self.clone());
        let work = async move {
            let taken = store.take_together(&own.takes(), begun, (hit, kind), now).await;
            (own, taken)
        };
        let abandoned = move |(own, taken): (OwnBatch, Vec<Taken>)| async move {
            // The rest is never decided, so this is not an admission.
            if taken.iter().any(|taken| taken.result.is_err()) && !taken.iter().any(Taken::denies) {
                backs.undo(&own.takes(), &taken, now).await;
            }
        };
        let (_, taken) = self.finisher().run(work, abandoned).await;
        verdicts.extend(taken.into_iter().map(|taken| taken.result));
    }

    async fn take_together(
        &self,
        batch: &[Take<'_>],
        mut begun: Vec<Option<Begun>>,
        (hit, kind): (Hit, impl Fn(Cost) -> Kind + Send),
        now: Timestamp,
    ) -> Vec<Taken> {
        while let Some(place) = self.begin_on(batch, hit, now, &mut begun) {
            self.receive_in_place(&mut begun, place).await;
        }
        let exact = exact(batch, &begun);
        let mut others = Verdicts::with_capacity(exact.len());
        if !exact.is_empty() {
            self.all_or_none(&exact, kind, now, &mut others).await;
        }
        let taken = self.receive_all(begun, others).await;
        if taken.iter().any(Taken::denies) {
            self.undo(batch, &taken, now).await;
        }
        taken
    }

    fn begin_one(&self, take: &Take<'_>, hit: Hit, now: Timestamp) -> Option<Begun> {
        if is_leased(take.quota) {
            self.leased().begin(take.key, take.quota, (take.cost, hit), now)
        } else {
            None
        }
    }

    /// Begins those of the batch that have not begun, in order. What is asked of one key twice is asked in
    /// turn, since a lease may answer before the ledger does: stops at a key that waits already, and returns
    /// the place that has to be received first.
    fn begin_on(
        &self,
        batch: &[Take<'_>],
        hit: Hit,
        now: Timestamp,
        begun: &mut Vec<Option<Begun>>,
    ) -> Option<usize> {
        for take in &batch[begun.len()..] {
            let before = batch.iter().zip(&*begun).rposition(|(before, _)| before.key == take.key);
            let next = match before.and_then(|place| Some((place, begun[place].as_ref()?))) {
                Some((place, Begun::Waits(_))) => return Some(place),
                Some((_, Begun::Done(Ok(denial)))) if hit == Hit::TakenBack => {
                    denied_after(denial, take).map(|denied| Begun::Done(Ok(denied)))
                }
                _ => None,
            };
            begun.push(next.or_else(|| self.begin_one(take, hit, now)));
        }
        None
    }

    async fn receive_in_place(&self, begun: &mut [Option<Begun>], place: usize) {
        if let Some(one) = begun[place].take() {
            begun[place] = Some(Begun::Done(self.receive(one).await));
        }
    }

    async fn receive(&self, begun: Begun) -> Result<Decision, StoreError> {
        match begun {
            Begun::Done(result) => result,
            Begun::Waits(pending) => self.leased().hear(pending).await,
        }
    }

    /// Waits for all that has begun; `others` are the answers to what is not leased.
    async fn receive_all(&self, begun: Vec<Option<Begun>>, others: Verdicts) -> Vec<Taken> {
        let mut others = others.into_iter();
        let mut taken = Vec::with_capacity(begun.len());
        for begun in begun {
            let is_leased = begun.is_some();
            let result = match begun {
                Some(begun) => self.receive(begun).await,
                None => {
                    let missing = || Err(self.client().rejected("a script answered too few callers"));
                    others.next().unwrap_or_else(missing)
                }
            };
            taken.push(Taken { result, is_leased });
        }
        taken
    }

    /// Gives back what was charged. What cannot be given back, because the store stopped answering, stays
    /// taken: that denies too much, never admits too much.
    async fn undo(&self, batch: &[Take<'_>], taken: &[Taken], now: Timestamp) {
        // Where one of those that are not leased denies, none of them is charged.
        let exact_stands = !taken.iter().any(|taken| !taken.is_leased && taken.denies());
        let stands = |taken: &Taken| taken.is_admitted() && (taken.is_leased || exact_stands);
        let charged: Vec<_> =
            batch.iter().zip(taken).filter(|(_, taken)| stands(taken)).map(|(take, _)| *take).collect();
        self.return_each(&charged, now).await.ok();
    }
}

/// Those that are not leased.
fn exact<'a>(batch: &[Take<'a>], begun: &[Option<Begun>]) -> Vec<Take<'a>> {
    batch.iter().zip(begun).filter(|(_, begun)| begun.is_none()).map(|(take, _)| *take).collect()
}
