//! All or none, over any number of keys that are counted exactly.
//!
//! Keys of one hash slot are one script, which is atomic. Across the hash slots of a Cluster each slot's
//! share is charged on its own, and given back where another denies: no limit admits more than it has. For a
//! moment, other callers may not find permits that are given back. A hash slot that gives no answer denies
//! nothing: the other shares are charged, and the caller decides about them.
//!
//! A call that has begun runs to its end, whether its caller waits or not. Otherwise the charges of one hash
//! slot would stay though another denies.

use std::sync::Arc;

use tollgate_core::{Decision, Timestamp};
use tollgate_store::remote::duplicate;
use tollgate_store::{StoreError, Take, Verdicts};

use super::Exact;
use crate::ask::{Answer, Ask, BatchKind, KeyOperation};
use crate::counting::CountItem;

/// The takes of one hash slot, by their place in the batch.
struct Share {
    hash_slot: u16,
    places: Vec<usize>,
    asks: Vec<Ask>,
}

/// The answers to the asks of a share.
type Answers = Result<Vec<Answer>, StoreError>;

/// A share of several that was asked for.
struct ChargedShare {
    hash_slot: u16,
    places: Vec<usize>,
    /// The asks that give it back.
    returns: Vec<Ask>,
    answers: Answers,
}

impl Exact {
    /// Takes or reserves all of a batch or none of it.
    pub(crate) async fn all_or_none(
        self: &Arc<Self>,
        batch: &[Take<'_>],
        kind: BatchKind,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let mut shares = self.shares(batch, kind);
        let mut decisions: Vec<Option<_>> = batch.iter().map(|_| None).collect();
        if let [share] = &mut shares[..] {
            let asks = std::mem::take(&mut share.asks);
            let asked = self.send(share.hash_slot, |to| CountItem::Together(asks, now, to)).await;
            let answers = self.answer(asked).await;
            self.place(&share.places, answers, &mut decisions);
        } else {
            for share in self.charge_to_the_end(shares, now).await {
                self.place(&share.places, share.answers, &mut decisions);
            }
        }
        verdicts.extend(
            decisions
                .into_iter()
                .map(|decision| decision.unwrap_or_else(|| Err(self.unexpected("too few answers")))),
        );
    }

    /// Charges the shares of several hash slots, whether the caller waits or not.
    async fn charge_to_the_end(self: &Arc<Self>, shares: Vec<Share>, now: Timestamp) -> Vec<ChargedShare> {
        let exact = self.clone();
        let undoes = self.clone();
        let work = async move { exact.charge_apart(shares, now).await };
        let unheard = move |charged: Vec<ChargedShare>| async move {
            // The caller has left, so the shares without an answer cannot be decided: this is not an
            // admission.
            if charged.iter().any(|share| share.answers.is_err()) && !charged.iter().any(ChargedShare::denies)
            {
                undoes.undo(&charged, now).await;
            }
        };
        self.finisher().run(work, unheard).await
    }

    /// Charges each hash slot's share by itself; where one denies, gives back the charges of the others.
    async fn charge_apart(&self, shares: Vec<Share>, now: Timestamp) -> Vec<ChargedShare> {
        let mut asked = Vec::with_capacity(shares.len());
        for Share { hash_slot, places, asks } in shares {
            let returns = returns(&asks);
            let sent = self.send(hash_slot, |to| CountItem::Together(asks, now, to)).await;
            asked.push((hash_slot, places, returns, sent));
        }
        let mut charged = Vec::with_capacity(asked.len());
        for (hash_slot, places, returns, sent) in asked {
            let answers = self.answer(sent).await;
            charged.push(ChargedShare { hash_slot, places, returns, answers });
        }
        if charged.iter().any(ChargedShare::denies) {
            self.undo(&charged, now).await;
        }
        charged
    }

    /// Gives back the charges. If the store has stopped answering, they stay: that denies too much and never
    /// admits too much.
    async fn undo(&self, charged: &[ChargedShare], now: Timestamp) {
        let mut asked = Vec::new();
        for share in charged.iter().filter(|share| share.is_charged()) {
            for ask in &share.returns {
                let item = |to| CountItem::Ask(Box::new(ask.clone()), now, to);
                asked.push(self.send(share.hash_slot, item).await);
            }
        }
        for asked in asked {
            self.answer(asked).await.ok();
        }
    }

    /// The batch by hash slot, in order of arrival.
    fn shares(&self, batch: &[Take<'_>], kind: BatchKind) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        for (place, take) in batch.iter().enumerate() {
            let key = self.client().redis_key(take.counter.key);
            let hash_slot = self.client().hash_slot(&key);
            let ask = Ask { key, quota: take.counter.quota.clone(), kind: kind.of(take.cost) };
            match shares.iter_mut().find(|share| share.hash_slot == hash_slot) {
                Some(share) => {
                    share.places.push(place);
                    share.asks.push(ask);
                }
                None => shares.push(Share { hash_slot, places: vec![place], asks: vec![ask] }),
            }
        }
        shares
    }

    /// Puts the answers of a share at their places in the batch.
    fn place(
        &self,
        places: &[usize],
        answers: Answers,
        decisions: &mut [Option<Result<Decision, StoreError>>],
    ) {
        match answers {
            Ok(answers) => {
                for (place, answer) in places.iter().zip(answers) {
                    decisions[*place] = Some(self.as_decision(answer));
                }
            }
            Err(error) => {
                let copies: Vec<_> = (1..places.len()).map(|_| duplicate(&error)).collect();
                for (place, error) in places.iter().zip(copies.into_iter().chain([error])) {
                    decisions[*place] = Some(Err(error));
                }
            }
        }
    }
}

impl ChargedShare {
    /// True when every take of the share was admitted.
    fn is_charged(&self) -> bool {
        let admitted =
            |answer: &Answer| matches!(answer, Answer::Decision(decision) if decision.is_admitted());
        self.answers.as_ref().is_ok_and(|answers| answers.iter().all(admitted))
    }

    fn denies(&self) -> bool {
        self.answers.is_ok() && !self.is_charged()
    }
}

/// The asks that give back the charges of these asks.
fn returns(asks: &[Ask]) -> Vec<Ask> {
    let give_back = |ask: &Ask| match ask.kind {
        KeyOperation::Take(cost) | KeyOperation::Reserve(cost, _) if !cost.is_peek() => {
            Some(Ask { kind: KeyOperation::GiveBack(cost), ..ask.clone() })
        }
        _ => None,
    };
    asks.iter().filter_map(give_back).collect()
}
