//! The way of a large change: it is rehearsed on a snapshot, its rows are written ahead in short
//! transactions, and one transaction then finds all that. Not here: what is kept of a rehearsal (`known`,
//! `ahead`), and the rows (`staging`).

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tollgate_db::{DbError, Row, Tx, Value};
use tollgate_model::Role;

use crate::access::actor::Actor;
use crate::access::claim::Claim;
use crate::changes::ahead;
use crate::changes::known::{Known, Run};
use crate::changes::staging::{self, Staged, Steps, Wanted};
use crate::control::{Control, resolved};
use crate::error::ControlError;
use crate::fleet::levels::OldNodes;
use crate::published::{CommitWorkAs, Committed, Kept};

/// Times that a large change is worked out anew because the app has changed meanwhile. After that, one
/// transaction does all of it.
const ATTEMPTS: usize = 3;

/// Time that a step waits when too many others write, and how often it waits.
const WAIT: Duration = Duration::from_millis(20);
const WAITS: usize = 500;

/// A transaction that only reads: what is to be written is not.
struct Rehearsal<'t>(&'t mut dyn Tx);

impl Tx for Rehearsal<'_> {
    fn query(&mut self, statement: &'static str, values: &[Value]) -> Result<Vec<Row>, DbError> {
        self.0.query(statement, values)
    }

    fn execute(&mut self, _: &'static str, _: &[Value]) -> Result<u64, DbError> {
        Ok(1)
    }

    fn now_ms(&self) -> i64 {
        self.0.now_ms()
    }
}

impl Control {
    /// Which changes are large. For tests.
    pub fn set_steps(&self, steps: Steps) {
        *self.steps.lock() = steps;
    }

    /// Whether a change of this number of rules is written ahead.
    pub(crate) fn is_large(&self, rules: usize) -> bool {
        rules > self.steps.lock().most_at_once
    }

    /// Writes ahead what a change needs; `None` if the app is not as it was any more.
    pub(crate) async fn stage(&self, claim: &Claim, wanted: Wanted) -> Result<Option<Staged>, ControlError> {
        let turn = Arc::clone(&self.large).lock_owned().await;
        let of_one = self.steps.lock().of_one.max(1);
        staging::clear(&self.db, of_one).await?; // of a change that failed, and could not be removed then
        let wanted = Arc::new(wanted);
        let begin = Arc::clone(&wanted);
        let begun = self.step(claim, move |tx, actor| staging::begin_in(tx, actor, &begin)).await?;
        let Some(begun) = begun else { return Ok(None) };
        let staged = Staged::begun(&self.db, &wanted, begun, of_one, turn);
        let app = staged.app(&wanted.app);
        let most = wanted.writes.len().max(wanted.unchanged.len()).max(wanted.ops.len());
        for from in (0..most).step_by(of_one) {
            let wanted = Arc::clone(&wanted);
            let app = app.clone();
            let change_id = staged.change_id.clone();
            let work = move |tx: &mut dyn Tx, actor: &Actor| {
                actor.must(Role::Editor, &app.name)?;
                if !staging::is_open(tx, &app.id, &app.edition)? {
                    return Ok(None);
                }
                staging::write_some(tx, actor, &app, &wanted, &change_id, (from, from + of_one)).map(Some)
            };
            if self.step(claim, work).await?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(staged))
    }

    /// One transaction of several; it waits when many others write.
    async fn step<T: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<T, ControlError> + Clone + Send + 'static,
    ) -> Result<T, ControlError> {
        for _ in 0..WAITS {
            match self.db.write(resolved(claim, work.clone())).await {
                Err(ControlError::Db(DbError::Busy { .. })) => tokio::time::sleep(WAIT).await,
                done => return done,
            }
        }
        self.db.write(resolved(claim, work)).await
    }

    /// Runs a change; if it is large, with what a rehearsal has found.
    pub(crate) async fn commit_prepared<T: Send + 'static>(
        &self,
        claim: &Claim,
        old_nodes: OldNodes,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let (keep, value) = Kept::new();
        let work = move |tx: &mut dyn Tx, actor: &Actor| Ok(keep.keep(work(tx, actor)?));
        self.commit_prepared_work(claim, old_nodes, Box::new(work)).await?;
        value.take()
    }

    /// [`commit_prepared`](Self::commit_prepared) without the type of its result, so that it is compiled
    /// once.
    async fn commit_prepared_work(
        &self,
        claim: &Claim,
        old_nodes: OldNodes,
        work: CommitWorkAs,
    ) -> Result<(), ControlError> {
        let work = Arc::new(Mutex::new(work));
        let most = self.steps.lock().most_at_once;
        let run = |known: Known| {
            let work = Arc::clone(&work);
            let known = Arc::new(known);
            Box::new(resolved(claim, move |tx, actor| work.lock()(tx, &actor.with(Arc::clone(&known)))))
        };
        match self.commit_work(old_nodes, run(Known::new(Run::First, most))).await {
            Err(ControlError::Large) => {}
            done => return done,
        }
        for _ in 0..ATTEMPTS {
            let rehearsal = Arc::new(Known::new(Run::Rehearsal, most));
            let rehearsed = Arc::clone(&rehearsal);
            let work = Arc::clone(&work);
            let read = resolved(claim, move |tx, actor| {
                let actor = actor.with(Arc::clone(&rehearsed));
                drop(work.lock()(&mut Rehearsal(tx), &actor)); // the transaction decides
                Ok(())
            });
            self.db().read(read).await?;
            let mut known = Known::after(&rehearsal);
            if let Some(wanted) = ahead::wanted(&known) {
                let Some(staged) = self.stage(claim, wanted).await? else { continue };
                known.taken = Some(staged.taken());
                ahead::set_staged(&known, staged);
            }
            match self.commit_work(old_nodes, run(known)).await {
                Err(ControlError::Large) => {}
                done => return done,
            }
        }
        self.commit_work(old_nodes, run(Known::new(Run::AtOnce, most))).await
    }
}
