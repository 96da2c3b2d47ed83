//! The service: the database, what is published of it, and what needs more than a transaction.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tollgate_db::{Db, Head, Options, TimeSource, Tx};
use tollgate_fleet_proto::Overrides;

use crate::access::actor::Actor;
use crate::access::attempts::Attempts;
use crate::access::claim::Claim;
use crate::access::node_tokens::NodeTokens;
use crate::access::passwords::Passwords;
use crate::access::settings::{self, Settings};
use crate::access::tokens;
use crate::audit::chain::Walk;
use crate::audit::edited_rows::{self, Edited};
use crate::audit::head::{self, HeadFile};
use crate::audit::head_start;
use crate::audit::rejections::Rejections;
use crate::changes::staging::{self, Steps};
use crate::error::{Awaited, ControlError};
use crate::fleet::attach_wait::AttachWait;
use crate::fleet::levels::{self, OldNodes};
use crate::fleet::nodes::Nodes;
use crate::fleet::overrides::{self, Override, OverrideInput};
use crate::fleet::{epoch, frozen};
use crate::published::{AppDocuments, CommitWork, Committed, Kept, Published};
use crate::rollouts;
use crate::schema::{MIGRATIONS, UNSEALED};
use crate::tasks::events::Topic;
use crate::tasks::live::Live;

/// Time between two looks of a waiting change whether its nodes have attached.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// The control plane without its surfaces.
pub struct Control {
    pub(crate) db: Db,
    committed: Arc<Current>,
    nodes: Arc<dyn Nodes>,
    pub(crate) passwords: Passwords,
    pub(crate) attempts: Attempts,
    pub(crate) rejections: Rejections,
    /// The position up to which the audit was found whole.
    pub(crate) walked: Mutex<Walk>,
    live: Arc<Live>,
    pub(crate) attach_wait: Arc<AttachWait>,
    pub(crate) head: Arc<HeadFile>,
    pub(crate) steps: Mutex<Steps>,
    /// Held by the large change that is on its way.
    pub(crate) large: Arc<tokio::sync::Mutex<()>>,
    /// Rows that another program has edited.
    pub(crate) edited: Mutex<Edited>,
}

/// The part of the database that this process has in memory. A change gets here on the thread that commits
/// it, so no commit is left out: not even that of a request whose client has left.
struct Current {
    /// The same as `published` holds.
    current: Mutex<Published>,
    published: watch::Sender<Arc<Published>>,
    overrides: watch::Sender<Arc<Overrides>>,
    settings: Mutex<Arc<Settings>>,
    node_tokens: watch::Sender<Arc<NodeTokens>>,
}

impl std::fmt::Debug for Control {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Control").field("db", &self.db).finish_non_exhaustive()
    }
}

impl Control {
    /// Opens or creates `control.db` in `folder`, and publishes what it holds.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn open(folder: &Path, time: TimeSource, nodes: Arc<dyn Nodes>) -> Result<Self, ControlError> {
        let head = Arc::new(HeadFile::new(folder));
        let kept = Arc::clone(&head);
        let on_head: Box<dyn Fn(&Head) + Send> = Box::new(move |head| kept.keep(head));
        let options = Options {
            witness: Some(head::WITNESS),
            on_head: Some(on_head),
            on_edits: Some(Arc::new(edited_rows::record)),
            unsealed: Some(UNSEALED),
        };
        let db = Db::open_with(&folder.join("control.db"), MIGRATIONS, time, options)?;
        head_start::at_start(&db, &head).await?;
        staging::clear(&db, Steps::default().of_one).await?;
        let current = Published { apps: db.read(rollouts::published).await? };
        let published = watch::Sender::new(Arc::new(current.clone()));
        let overrides = watch::Sender::new(Arc::new(db.read(overrides::in_force).await?));
        let (settings, _) = db.read(settings::get).await?;
        let settings = Mutex::new(Arc::new(settings));
        let node_tokens = watch::Sender::default();
        let current = Mutex::new(current);
        let committed = Current { current, published, overrides, settings, node_tokens };
        let control = Self {
            db,
            committed: Arc::new(committed),
            nodes,
            passwords: Passwords::default(),
            attempts: Attempts::default(),
            rejections: Rejections::default(),
            walked: Mutex::default(),
            live: Arc::default(),
            attach_wait: Arc::default(),
            head,
            steps: Mutex::default(),
            large: Arc::default(),
            edited: Mutex::default(),
        };
        control.read_node_tokens().await?;
        Ok(control)
    }

    /// The tokens with which nodes attach, now and after each change. To be asked for each stream that opens.
    #[must_use]
    pub fn node_tokens(&self) -> watch::Receiver<Arc<NodeTokens>> {
        self.committed.node_tokens.subscribe()
    }

    /// The settings as this process knows them, for what no transaction asks.
    #[must_use]
    pub fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.committed.settings.lock())
    }

    /// Changes the settings. Returns their etag with them.
    ///
    /// # Errors
    /// As [`settings::update`].
    pub async fn change_settings(
        &self,
        claim: &Claim,
        etag: i64,
        new: Settings,
    ) -> Result<(Settings, i64), ControlError> {
        let committed = Arc::clone(&self.committed);
        let then = move |change: Committed<(Settings, i64)>| {
            *committed.settings.lock() = Arc::new(change.value.0.clone());
            change.value
        };
        let work = resolved(claim, move |tx, actor| settings::update(tx, actor, etag, &new));
        let changed = self.db.write_then(work, then).await?;
        self.live.events.note(Topic::Changes);
        Ok(changed)
    }

    /// Reads the tokens of nodes again, and records when those of before were used: after a change by another
    /// process, and from time to time.
    ///
    /// # Errors
    /// [`ControlError::Db`].
    pub async fn read_node_tokens(&self) -> Result<(), ControlError> {
        let uses = self.committed.node_tokens.borrow().take_uses();
        self.change_tokens(move |tx| uses.iter().try_for_each(|(id, at)| tokens::touch(tx, id, *at))).await
    }

    /// Changes tokens, and has those of nodes in force with the commit: what is read elsewhere could be older
    /// than a token that has just ended.
    pub(crate) async fn change_tokens<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let work =
            move |tx: &mut dyn Tx| -> Result<_, ControlError> { Ok((work(tx)?, tokens::of_nodes(tx)?)) };
        let committed = Arc::clone(&self.committed);
        let then = move |(value, rows)| {
            let of_nodes = &committed.node_tokens;
            of_nodes.send_modify(|it| *it = Arc::new(NodeTokens::new(rows, &it.take_uses())));
            value
        };
        self.db.write_then(work, then).await
    }

    /// The name of the database, by which nodes know whether versions compare.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn epoch(&self) -> Result<String, ControlError> {
        self.db.write(epoch::epoch).await
    }

    /// The documents that nodes should have, now and after each change.
    #[must_use]
    pub fn published(&self) -> watch::Receiver<Arc<Published>> {
        self.committed.published.subscribe()
    }

    /// The overrides that nodes should have, now and after each change. Each ends by itself.
    #[must_use]
    pub fn overrides(&self) -> watch::Receiver<Arc<Overrides>> {
        self.committed.overrides.subscribe()
    }

    /// Puts an override in force, on all nodes too.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn create_override(
        &self,
        claim: &Claim,
        input: OverrideInput,
    ) -> Result<Override, ControlError> {
        let nodes = self.nodes_shared();
        let work = move |tx: &mut dyn Tx, actor: &Actor| overrides::create(tx, &*nodes, actor, &input);
        self.change_overrides(resolved(claim, work)).await
    }

    /// Checks an override without putting it in force.
    ///
    /// # Errors
    /// As [`overrides::check`].
    pub async fn check_override(
        &self,
        claim: &Claim,
        input: OverrideInput,
    ) -> Result<Override, ControlError> {
        let nodes = self.nodes_shared();
        self.read_as(claim, move |tx, actor| overrides::check(tx, &*nodes, actor, &input)).await
    }

    /// Puts several overrides in force, all or none, on all nodes too.
    ///
    /// # Errors
    /// As [`overrides::create`].
    pub async fn create_overrides(
        &self,
        claim: &Claim,
        inputs: Vec<OverrideInput>,
    ) -> Result<Vec<Override>, ControlError> {
        let nodes = self.nodes_shared();
        let work = move |tx: &mut dyn Tx, actor: &Actor| {
            inputs.iter().map(|input| overrides::create(tx, &*nodes, actor, input)).collect()
        };
        self.change_overrides(resolved(claim, work)).await
    }

    /// Ends an override before its time, on all nodes too. Returns what it was.
    ///
    /// # Errors
    /// [`ControlError`].
    pub async fn end_override(&self, claim: &Claim, id: &str) -> Result<Override, ControlError> {
        let id = id.to_owned();
        let nodes = self.nodes_shared();
        let work = move |tx: &mut dyn Tx, actor: &Actor| overrides::end(tx, &*nodes, actor, &id);
        self.change_overrides(resolved(claim, work)).await
    }

    async fn change_overrides<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let work =
            move |tx: &mut dyn Tx| -> Result<_, ControlError> { Ok((work(tx)?, overrides::changed(tx)?)) };
        let committed = Arc::clone(&self.committed);
        let then = move |(value, now): (T, Overrides)| {
            committed.overrides.send_if_modified(|shown| {
                let is_newer = now.revision > shown.revision;
                if is_newer {
                    *shown = Arc::new(now);
                }
                is_newer
            });
            value
        };
        self.db.write_then(work, then).await
    }

    /// The last reports of nodes.
    #[must_use]
    pub fn nodes(&self) -> &dyn Nodes {
        &*self.nodes
    }

    /// Reports, figures and events.
    #[must_use]
    pub fn live(&self) -> &Live {
        &self.live
    }

    pub(crate) fn live_shared(&self) -> Arc<Live> {
        Arc::clone(&self.live)
    }

    pub(crate) const fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn nodes_shared(&self) -> Arc<dyn Nodes> {
        Arc::clone(&self.nodes)
    }

    /// Runs a function that publishes nothing.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.db.write(work).await
    }

    /// Runs a function that changes nothing, for who the claim is from: with the rights of this transaction.
    ///
    /// # Errors
    /// Those of `work`, [`ControlError::NoLogin`], [`ControlError::NoToken`] and [`ControlError::Db`].
    pub async fn read_as<T: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.db.read(resolved(claim, work)).await
    }

    /// Runs a function that publishes nothing, as [`read_as`](Self::read_as).
    pub(crate) async fn write_as<T: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.db.write(resolved(claim, work)).await
    }

    /// Runs a change in one transaction, a large one after a rehearsal and in several, for who the claim is
    /// from: with the rights of each transaction. Publishes its documents once they are on the disk.
    ///
    /// # Errors
    /// Those of `work`, [`ControlError::NoLogin`], [`ControlError::NoToken`] and [`ControlError::Db`].
    pub async fn commit_as<T: Send + 'static>(
        &self,
        claim: &Claim,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.commit_prepared(claim, OldNodes::Reject, work).await
    }

    /// As [`commit_as`](Self::commit_as), where the author says what becomes of nodes that cannot read the
    /// rules.
    ///
    /// # Errors
    /// As there, and [`ControlError::OldNodes`].
    pub async fn commit_beside_as<T: Send + 'static>(
        &self,
        claim: &Claim,
        old_nodes: OldNodes,
        work: impl Fn(&mut dyn Tx, &Actor) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.commit_prepared(claim, old_nodes, work).await
    }

    /// Runs a function that changes nothing and asks for no right.
    ///
    /// # Errors
    /// Those of `work`, and [`ControlError::Db`].
    pub async fn read<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.db.read(work).await
    }

    /// Runs a change of the program itself in one transaction, and publishes its documents once they are on
    /// the disk.
    ///
    /// # Errors
    /// Those of `work`, and [`ControlError::Db`].
    pub async fn commit<T: Send + 'static>(
        &self,
        work: impl Fn(&mut dyn Tx) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        self.commit_beside(OldNodes::Reject, work).await
    }

    /// As [`commit`](Self::commit), where the author says what becomes of nodes that cannot read the rules.
    ///
    /// # Errors
    /// As there, and [`ControlError::OldNodes`].
    pub async fn commit_beside<T: Send + 'static>(
        &self,
        old_nodes: OldNodes,
        work: impl Fn(&mut dyn Tx) -> Result<Committed<T>, ControlError> + Send + 'static,
    ) -> Result<T, ControlError> {
        let (keep, value) = Kept::new();
        let work = move |tx: &mut dyn Tx| Ok(keep.keep(work(tx)?));
        self.commit_work(old_nodes, Box::new(work)).await?;
        value.take()
    }

    /// [`commit_beside`](Self::commit_beside) without the type of its result, so that it is compiled once.
    pub(crate) async fn commit_work(
        &self,
        old_nodes: OldNodes,
        work: CommitWork,
    ) -> Result<(), ControlError> {
        // It may have to run again, when the nodes that it waits for are there.
        let work = Arc::new(Mutex::new(work));
        loop {
            let nodes = self.nodes_shared();
            let work = Arc::clone(&work);
            let attach_wait = Arc::clone(&self.attach_wait);
            let work = move |tx: &mut dyn Tx| {
                let documents = work.lock()(tx)?;
                if let Some(documents) = &documents {
                    if let Some(awaited) = attach_wait.awaited(&*nodes, tx.now_ms()) {
                        return Err(ControlError::Awaiting(awaited));
                    }
                    if old_nodes == OldNodes::Reject {
                        levels::check(documents, &*nodes, tx.now_ms())?;
                    }
                    frozen::ask(tx, documents, &*nodes)?;
                }
                Ok::<_, ControlError>(documents)
            };
            let committed = Arc::clone(&self.committed);
            let live = Arc::clone(&self.live);
            let then = move |documents: Option<AppDocuments>| {
                if let Some(documents) = documents {
                    committed.publish(documents);
                    live.events.note(Topic::Rollouts);
                }
                live.events.note(Topic::Changes);
            };
            match self.db.write_then(work, then).await {
                Err(ControlError::Awaiting(_)) => self.attached().await?,
                Err(error @ ControlError::Frozen { .. }) => {
                    // The pages show it at once, and it stays frozen when the nodes leave again.
                    if let Err(error) = self.look_for_problems().await {
                        tracing::debug!(%error, "problems cannot be read");
                    }
                    return Err(error);
                }
                done => return done,
            }
        }
    }

    /// Waits until changes wait for no node any more. No change is tried meanwhile: a large one would keep
    /// all other writers waiting each time.
    async fn attached(&self) -> Result<(), ControlError> {
        while self.awaited(self.db.read(|tx| Ok::<_, ControlError>(tx.now_ms())).await?).is_some() {
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// The nodes that changes wait for now.
    #[must_use]
    pub fn awaited(&self, now_ms: i64) -> Option<Awaited> {
        self.attach_wait.awaited(&*self.nodes, now_ms)
    }
}

/// `work` with who the claim is from, as of its transaction.
pub(crate) fn resolved<T>(
    claim: &Claim,
    work: impl Fn(&mut dyn Tx, &Actor) -> Result<T, ControlError> + Send + 'static,
) -> impl Fn(&mut dyn Tx) -> Result<T, ControlError> + Send + 'static {
    let claim = claim.clone();
    move |tx: &mut dyn Tx| {
        let actor = claim.resolve(tx)?;
        work(tx, &actor)
    }
}

impl Current {
    fn publish(&self, documents: AppDocuments) {
        let mut current = self.current.lock();
        if current.take(documents) {
            self.published.send_replace(Arc::new(current.clone()));
        }
    }
}
