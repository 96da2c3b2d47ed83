//! All or none, over any number of keys. Keys of one slot are one script, which is atomic. Across the slots
//! of a Cluster each slot's share is charged on its own, and given back where another slot denies: never
//! admitted what a limit denies, but others may for a moment find permits gone that are given back. A slot
//! that gives no answer denies nothing: the others' shares are charged, and the caller decides what to do
//! with them.
//!
//! What has begun is carried to its end, whether its caller waits or not: else what one slot has charged
//! would stay charged though another denies.

use std::future::ready;

use tollgate_core::{Cost, Timestamp};
use tollgate_store::remote::{OwnBatch, duplicate};
use tollgate_store::{StoreError, Take, Verdicts};

use super::RedisStore;
use crate::ask::{Answer, Ask, Kind};
use crate::counting::CountItem;
use crate::leased::is_leased;

/// The takes of one slot, by their place in the batch.
struct Share {
    slot: u16,
    places: Vec<usize>,
    asks: Vec<Ask>,
}

/// The answers to a share.
type Answered = Result<Vec<Answer>, StoreError>;

/// A share that was charged, or tried.
struct Charged {
    slot: u16,
    places: Vec<usize>,
    /// What gives it back.
    backs: Vec<Ask>,
    answered: Answered,
}

impl RedisStore {
    pub(super) async fn all_or_none(
        &self,
        batch: &[Take<'_>],
        kind: impl Fn(Cost) -> Kind,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let mut shares = self.shares(batch, kind);
        let mut dealt: Vec<Option<_>> = batch.iter().map(|_| None).collect();
        if let [share] = &mut shares[..] {
            let asks = std::mem::take(&mut share.asks);
            let answered = match self.send(share.slot, |to| CountItem::Together(asks, now, to)).await {
                Ok(asked) => self.client().receive(asked).await,
                Err(error) => Err(error),
            };
            self.deal(&share.places, answered, &mut dealt);
        } else {
            let (store, backs) = (self.clone(), self.clone());
            let work = async move { store.charge_apart(shares, now).await };
            let abandoned = move |charged: Vec<Charged>| async move {
                // The rest is never decided, so this is not an admission.
                if charged.iter().any(|share| share.answered.is_err()) && !charged.iter().any(Charged::denies)
                {
                    backs.undo_shares(&charged, now).await;
                }
            };
            for share in self.finisher().run(work, abandoned).await {
                self.deal(&share.places, share.answered, &mut dealt);
            }
        }
        verdicts.extend(dealt.into_iter().map(|verdict| {
            verdict.unwrap_or_else(|| Err(self.client().rejected("a script answered too few callers")))
        }));
    }

    /// Charges each slot's share by itself; where one denies, gives back what the others have charged.
    async fn charge_apart(&self, shares: Vec<Share>, now: Timestamp) -> Vec<Charged> {
        let mut asked = Vec::with_capacity(shares.len());
        for Share { slot, places, asks } in shares {
            let backs = backs(&asks);
            asked.push((slot, places, backs, self.send(slot, |to| CountItem::Together(asks, now, to)).await));
        }
        let mut charged = Vec::with_capacity(asked.len());
        for (slot, places, backs, asked) in asked {
            let answered = match asked {
                Ok(asked) => self.client().receive(asked).await,
                Err(error) => Err(error),
            };
            charged.push(Charged { slot, places, backs, answered });
        }
        if charged.iter().any(Charged::denies) {
            self.undo_shares(&charged, now).await;
        }
        charged
    }

    /// What cannot be given back, because the store stopped answering, stays taken: that denies too much,
    /// never admits too much.
    async fn undo_shares(&self, charged: &[Charged], now: Timestamp) {
        let mut asked = Vec::new();
        for share in charged.iter().filter(|share| share.is_charged()) {
            for back in &share.backs {
                let item = |to| CountItem::Ask(Box::new(back.clone()), now, to);
                asked.push(self.send(share.slot, item).await);
            }
        }
        for asked in asked.into_iter().flatten() {
            self.client().receive(asked).await.ok();
        }
    }

    /// Gives back what the takes have charged, all at the same time; to its end, whether the caller waits or
    /// not.
    pub(super) async fn return_all(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let (store, own) = (self.clone(), OwnBatch::of(batch));
        let work = async move { store.return_each(&own.takes(), now).await };
        self.finisher().run(work, |_| ready(())).await
    }

    /// As [`Self::return_all`], for work that runs to its end already.
    pub(super) async fn return_each(&self, batch: &[Take<'_>], now: Timestamp) -> Result<(), StoreError> {
        let mut outcome = Ok(());
        let mut asked = Vec::with_capacity(batch.len());
        for take in batch.iter().filter(|take| !take.cost.is_peek()) {
            let (key, quota, cost) = (take.key, take.quota, take.cost);
            let leased = match is_leased(quota) {
                true => self.leased().give_back(key, quota, cost, now).await,
                false => None,
            };
            match leased {
                Some(given) => outcome = outcome.and(given.map(drop)),
                None => asked.push(self.begin(key, quota, Kind::GiveBack(cost), now).await),
            }
        }
        for asked in asked {
            let given = match asked {
                Ok(asked) => self.client().receive(asked).await.map(drop),
                Err(error) => Err(error),
            };
            outcome = outcome.and(given);
        }
        outcome
    }

    /// The batch by slot, in order of arrival.
    fn shares(&self, batch: &[Take<'_>], kind: impl Fn(Cost) -> Kind) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        for (place, take) in batch.iter().enumerate() {
            let key = self.redis_key(take.key);
            let slot = self.client().slot_of(&key);
            let ask = Ask { key, quota: take.quota.clone(), kind: kind(take.cost) };
            match shares.iter_mut().find(|share| share.slot == slot) {
                Some(share) => {
                    share.places.push(place);
                    share.asks.push(ask);
                }
                None => shares.push(Share { slot, places: vec![place], asks: vec![ask] }),
            }
        }
        shares
    }

    /// Puts the answers of a share where they belong.
    fn deal(
        &self,
        places: &[usize],
        answered: Answered,
        dealt: &mut [Option<Result<tollgate_core::Decision, StoreError>>],
    ) {
        match answered {
            Ok(answers) => {
                for (place, answer) in places.iter().zip(answers) {
                    dealt[*place] = Some(self.as_decision(answer));
                }
            }
            Err(error) => {
                let copies: Vec<_> = (1..places.len()).map(|_| duplicate(&error)).collect();
                for (place, error) in places.iter().zip(copies.into_iter().chain([error])) {
                    dealt[*place] = Some(Err(error));
                }
            }
        }
    }
}

impl Charged {
    /// Every take of it was admitted.
    fn is_charged(&self) -> bool {
        let admitted =
            |answer: &Answer| matches!(answer, Answer::Decision(decision) if decision.is_admitted());
        self.answered.as_ref().is_ok_and(|answers| answers.iter().all(admitted))
    }

    fn denies(&self) -> bool {
        self.answered.is_ok() && !self.is_charged()
    }
}

/// What gives back what these ask for.
fn backs(asks: &[Ask]) -> Vec<Ask> {
    let back = |ask: &Ask| match ask.kind {
        Kind::Take(cost) | Kind::Hold(cost, _) if !cost.is_peek() => {
            Some(Ask { kind: Kind::GiveBack(cost), ..ask.clone() })
        }
        _ => None,
    };
    asks.iter().filter_map(back).collect()
}
