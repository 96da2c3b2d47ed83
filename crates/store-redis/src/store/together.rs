//! All or none, over any number of keys. Keys of one slot are one script, which is atomic. Across the slots of a Cluster each slot's
//! share is charged on its own, and given back where another slot denies: never admitted what a limit denies, but others may for a moment
//! find permits gone that are given back.

use tollgate_core::{Cost, Timestamp};
use tollgate_store::{StoreError, StoreName, Take, Verdicts};

use super::RedisStore;
use crate::ask::{Answer, Ask, Kind};
use crate::flight::Item;

/// The takes of one slot, by their place in the batch.
struct Share {
    slot: u16,
    places: Vec<usize>,
    asks: Vec<Ask>,
}

/// What a share was answered.
type Heard = Result<Vec<Answer>, StoreError>;

impl RedisStore {
    pub(super) async fn all_or_none(
        &self,
        batch: &[Take<'_>],
        kind: impl Fn(Cost) -> Kind,
        now: Timestamp,
        verdicts: &mut Verdicts,
    ) {
        let shares = self.shares(batch, kind);
        let mut asked = Vec::with_capacity(shares.len());
        for Share { slot, places, asks } in shares {
            asked.push((places, self.send(slot, |to| Item::Together(asks, now, to)).await));
        }
        let mut answers = Vec::with_capacity(asked.len());
        for (places, asked) in asked {
            let answer: Heard = match asked {
                Ok(asked) => asked.hear(self.hub()).await,
                Err(error) => Err(error),
            };
            answers.push((places, answer));
        }
        let all_admit = answers.iter().all(|(_, answer)| admits(answer));
        let any_failed = answers.iter().any(|(_, answer)| answer.is_err());
        let mut dealt: Vec<Option<_>> = batch.iter().map(|_| None).collect();
        let several = answers.len() > 1;
        for (places, answer) in answers {
            if several && !all_admit && admits(&answer) {
                self.give_all_back(batch, &places, now).await;
                if any_failed {
                    // Admitted here, and not as a whole: whoever asked must not think so.
                    for place in places {
                        let why = "another limit that is charged together with this one gave no answer";
                        dealt[place] = Some(Err(self.hub().context().refused(why)));
                    }
                    continue;
                }
            }
            match answer {
                Ok(answers) => {
                    for (place, answer) in places.into_iter().zip(answers) {
                        dealt[place] = Some(self.as_decision(answer));
                    }
                }
                Err(error) => {
                    let more = places.len() - 1;
                    let copies: Vec<_> = (0..more).map(|_| again(&error)).collect();
                    for (place, error) in places.into_iter().zip(copies.into_iter().chain([error])) {
                        dealt[place] = Some(Err(error));
                    }
                }
            }
        }
        verdicts.extend(dealt.into_iter().map(|verdict| {
            verdict.unwrap_or_else(|| Err(self.hub().context().refused("a script answered too few callers")))
        }));
    }

    /// The batch by slot, in order of arrival.
    fn shares(&self, batch: &[Take<'_>], kind: impl Fn(Cost) -> Kind) -> Vec<Share> {
        let mut shares: Vec<Share> = Vec::new();
        for (place, take) in batch.iter().enumerate() {
            let key = self.redis_key(take.key);
            let slot = self.slot_of(&key);
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

    /// What cannot be given back, because the store has gone silent, stays taken: that denies too much, never admits too much.
    async fn give_all_back(&self, batch: &[Take<'_>], places: &[usize], now: Timestamp) {
        let mut asked = Vec::with_capacity(places.len());
        for place in places {
            let take = &batch[*place];
            asked.push(self.begin(take.key, take.quota, Kind::GiveBack(take.cost), now).await);
        }
        for asked in asked.into_iter().flatten() {
            asked.hear(self.hub()).await.ok();
        }
    }
}

fn admits(answer: &Heard) -> bool {
    let admitted = |answer: &Answer| matches!(answer, Answer::Decision(decision) if decision.is_admitted());
    answer.as_ref().is_ok_and(|answers| answers.iter().all(admitted))
}

/// The same error for another take of the same call.
pub(crate) fn again(error: &StoreError) -> StoreError {
    match error {
        StoreError::Unreachable { store, source } => {
            let source = std::io::Error::new(source.kind(), source.to_string());
            StoreError::Unreachable { store: store.clone(), source }
        }
        StoreError::Silent { store, waited } => StoreError::Silent { store: store.clone(), waited: *waited },
        StoreError::Unsupported { store, algorithm } => {
            StoreError::Unsupported { store: store.clone(), algorithm }
        }
        StoreError::Refused { store, reason } => {
            StoreError::Refused { store: store.clone(), reason: reason.clone() }
        }
        other => StoreError::Refused { store: StoreName::new("redis"), reason: other.to_string() },
    }
}
