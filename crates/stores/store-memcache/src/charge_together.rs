//! Takes from several keys, all or nothing.
//!
//! memcached changes one item at a time. So the store looks at all keys first; if `core` says that any take
//! is denied, the batch is denied, and nothing was changed. Otherwise it charges each key, all its takes or
//! none, and if another caller was faster somewhere, gives back the charges. A hit that a limit denies is
//! never admitted. Others may for a moment see permits taken that are given back (and be denied for it),
//! never the other way round. Charges of several keys run to their end, whether their caller waits or not:
//! otherwise the charges of one key would stay though another denies.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tollgate_core::{Cost, Decision, Quota, State, Timestamp};
use tollgate_store::remote::duplicate;
use tollgate_store::{Counter, Key, StoreError, Take, Verdicts};

use crate::client::{Pending, SharedClient};
use crate::request::{Op, OpAnswer, take};

/// One counter, and the places of its takes in the batch.
struct Group<'a> {
    counter: Counter<'a>,
    takes: Vec<usize>,
}

/// The results of a key's takes.
type TakeResults = Result<Vec<Decision>, StoreError>;

/// Charges the whole batch or nothing of it; held for as long as `hold` says. Keys whose server gives no
/// answer deny nothing: the others are charged, and the caller decides what to do with them.
pub(crate) async fn charge(
    client: &Arc<SharedClient>,
    batch: &[Take<'_>],
    hold: Option<Duration>,
    now: Timestamp,
    verdicts: &mut Verdicts,
) {
    if let Some(odd) = batch.iter().find(|take| !client.can_count(take.counter.quota)) {
        verdicts.extend(batch.iter().map(|_| Err(client.unsupported(odd.counter.quota))));
        return;
    }
    let groups = by_key(batch);
    let looks: Vec<_> = groups.iter().map(|group| client.send(group.counter, Op::Look, now)).collect();
    let mut outcomes: Vec<TakeResults> = Vec::with_capacity(groups.len());
    let mut states = Vec::with_capacity(groups.len());
    for (look, group) in looks.into_iter().zip(&groups) {
        let answer = look.answer(client).await;
        states.push(match &answer {
            Ok(OpAnswer::State(state)) => state.clone(),
            _ => group.counter.quota.fresh(),
        });
        outcomes.push(answer.map(|_| Vec::with_capacity(group.takes.len())));
    }
    foresee(batch, &groups, &mut states, &mut outcomes, hold, now);
    let foreseen = || outcomes.iter().flatten().flatten();
    let changes = groups
        .iter()
        .zip(&outcomes)
        .any(|(group, outcome)| outcome.is_ok() && group.takes.iter().any(|&at| !batch[at].cost.is_peek()));
    if changes && foreseen().all(Decision::is_admitted) {
        let charges: Vec<_> = groups
            .iter()
            .zip(&outcomes)
            .enumerate()
            .filter(|(_, (_, outcome))| outcome.is_ok())
            .map(|(nth, (group, _))| {
                let takes =
                    group.takes.iter().map(|&at| (batch[at].counter.quota.clone(), batch[at].cost)).collect();
                let pending = client.send(group.counter, Op::All { takes, hold }, now);
                let cost =
                    group.takes.iter().fold(0_u64, |sum, &at| sum.saturating_add(batch[at].cost.permits()));
                let key = group.counter.key.0.to_vec();
                let quota = group.counter.quota.clone();
                Charging { nth, key, quota, cost: Cost(cost), pending }
            })
            .collect();
        // One key is charged in one step.
        let charged = if charges.len() == 1 {
            finish(client, charges, now).await
        } else {
            let settling = Arc::clone(client);
            let backs = Arc::clone(client);
            let fails = outcomes.iter().any(Result::is_err);
            let work = async move { finish(&settling, charges, now).await };
            let abandoned = move |charged: Vec<Charged>| async move {
                // The rest is never decided, so this is not an admission.
                if (fails || charged.iter().any(Charged::has_failed)) && !charged.iter().any(Charged::denies)
                {
                    give_back(&backs, charged.iter().filter(|it| it.is_charged), now).await;
                }
            };
            client.finisher.run(work, abandoned).await
        };
        for Charged { nth, outcome, .. } in charged {
            outcomes[nth] = outcome;
        }
    }
    deal(client, batch, &groups, outcomes, verdicts);
}

/// A key whose charge was sent.
struct Charging {
    /// Index of the group.
    nth: usize,
    key: Vec<u8>,
    quota: Quota,
    cost: Cost,
    pending: Pending,
}

/// A key whose charge was answered, or not.
struct Charged {
    nth: usize,
    key: Vec<u8>,
    quota: Quota,
    cost: Cost,
    is_charged: bool,
    outcome: TakeResults,
}

impl Charged {
    const fn counter(&self) -> Counter<'_> {
        Counter::new(Key(self.key.as_slice()), &self.quota)
    }

    const fn has_failed(&self) -> bool {
        self.outcome.is_err()
    }

    const fn denies(&self) -> bool {
        self.outcome.is_ok() && !self.is_charged
    }
}

/// Waits for all charges; where one denies, gives back the charges of the others.
async fn finish(client: &SharedClient, charges: Vec<Charging>, now: Timestamp) -> Vec<Charged> {
    let mut settled = Vec::with_capacity(charges.len());
    for Charging { nth, key, quota, cost, pending } in charges {
        let (is_charged, outcome) = match pending.answer(client).await {
            Ok(OpAnswer::All { charged, decisions }) => (charged, Ok(decisions)),
            Ok(_) => (false, Err(client.odd())),
            Err(error) => (false, Err(error)),
        };
        settled.push(Charged { nth, key, quota, cost, is_charged, outcome });
    }
    if settled.iter().any(Charged::denies) {
        let lost = give_back(client, settled.iter().filter(|it| it.is_charged), now).await;
        for charged in settled.iter_mut().filter(|it| lost.contains(&it.nth)) {
            charged.outcome = Err(client.silent());
        }
    }
    settled
}

/// Gives back the charges of these keys; returns those that could not be given back.
async fn give_back<'a>(
    client: &SharedClient,
    charged: impl Iterator<Item = &'a Charged>,
    now: Timestamp,
) -> Vec<usize> {
    let backs: Vec<_> =
        charged.map(|it| (it.nth, it.cost, client.send(it.counter(), Op::GiveBack(it.cost), now))).collect();
    let mut lost = Vec::new();
    for (nth, cost, pending) in backs {
        if pending.answer(client).await.is_err() {
            client.counters.left_counted.add(cost.permits());
            lost.push(nth);
        }
    }
    lost
}

/// Gives back the charges of all takes at the same time; runs to its end, whether the caller waits or not.
pub(crate) async fn give_all_back(
    client: &Arc<SharedClient>,
    batch: &[Take<'_>],
    now: Timestamp,
) -> Result<(), StoreError> {
    let pending: Vec<_> = batch
        .iter()
        .filter(|take| !take.cost.is_peek())
        .map(|take| (take.cost, client.send(take.counter, Op::GiveBack(take.cost), now)))
        .collect();
    let settling = Arc::clone(client);
    let work = async move {
        let mut outcome = Ok(());
        for (cost, pending) in pending {
            let given = pending.answer(&settling).await.map(drop);
            if given.is_err() {
                settling.counters.left_counted.add(cost.permits());
            }
            outcome = outcome.and(given);
        }
        outcome
    };
    client.finisher.run(work, |_| ready(())).await
}

/// The takes by key, in the order of the batch.
fn by_key<'a>(batch: &[Take<'a>]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::with_capacity(batch.len());
    for (at, take) in batch.iter().enumerate() {
        match groups.iter_mut().find(|group| group.counter.key == take.counter.key) {
            Some(group) => group.takes.push(at),
            None => groups.push(Group { counter: take.counter, takes: vec![at] }),
        }
    }
    groups
}

/// The decisions that the takes of the keys read would get one after another, if no other caller came.
fn foresee(
    batch: &[Take<'_>],
    groups: &[Group<'_>],
    states: &mut [State],
    outcomes: &mut [TakeResults],
    hold: Option<Duration>,
    now: Timestamp,
) {
    for ((group, state), outcome) in groups.iter().zip(states).zip(outcomes) {
        if let Ok(decisions) = outcome {
            let takes = group.takes.iter().map(|&at| &batch[at]);
            decisions.extend(takes.map(|it| take(state, it.counter.quota, it.cost, hold, now)));
        }
    }
}

/// Puts the results of each key's takes into the order of the batch.
fn deal(
    client: &SharedClient,
    batch: &[Take<'_>],
    groups: &[Group<'_>],
    outcomes: Vec<TakeResults>,
    verdicts: &mut Verdicts,
) {
    let mut said: Vec<Option<Result<Decision, StoreError>>> = batch.iter().map(|_| None).collect();
    for (group, outcome) in groups.iter().zip(outcomes) {
        match outcome {
            Ok(decisions) => {
                group.takes.iter().zip(decisions).for_each(|(&at, decision)| said[at] = Some(Ok(decision)));
            }
            Err(error) => {
                group.takes[1..].iter().for_each(|&at| said[at] = Some(Err(duplicate(&error))));
                said[group.takes[0]] = Some(Err(error));
            }
        }
    }
    verdicts.extend(said.into_iter().map(|said| said.unwrap_or_else(|| Err(client.odd()))));
}
