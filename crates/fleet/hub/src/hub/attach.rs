//! A node says hello: whether it may attach, and its place among the others. Not here: what it is sent then
//! (`node::plan`).

use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_fleet_proto::{FromControl, Hello, Welcome};
use tollgate_shares::{Part, Room, machine};

use crate::bindings::{self, BindingCheck, Standing};
use crate::bundle::Outgoing;
use crate::hub::checks::check_hello;
use crate::hub::settings::HubSettings;
use crate::hub::{Action, Hub, MUST_JOIN};
use crate::kept;
use crate::node::{Database, NodeRecord};
use crate::node_state::Liveness;
use crate::peer::Peer;
use crate::session::SessionId;

/// Most bytes that all nodes may say about themselves, not counting published apps.
const MOST_BYTES: u64 = 256 << 20;
/// A tenth of the places is kept for nodes that are known.
const RESERVE: usize = 10;

impl Hub {
    pub(super) fn hello(&mut self, session: SessionId, mut hello: Hello, peer: Peer, now: Timestamp) {
        if let Err(why) = check_hello(&hello) {
            return self.close(session, why);
        }
        let id = hello.node.clone();
        let machine = machine(&peer.address);
        let may_join = self.sessions.get(&session).is_some_and(|it| it.may_join);
        // Checked before the node's record is touched. Known nodes are considered first, so that no flood of
        // others keeps them out.
        let verdict = self.verdict(&id, &hello.secret);
        let holders = self.bindings.holders(&machine, peer.token).map(|it| it.name);
        let holders = [Part { name: holders[0], times: 4 }, Part { name: holders[1], times: 9 }];
        let passes = verdict == BindingCheck::Known && self.bindings.may_pass(&id, now);
        let storm = if passes { &mut self.known } else { &mut self.strangers };
        if let Err(after) = storm.admit(now, holders) {
            return self.send_away(session, after, "too many nodes connect at once");
        }
        if verdict == BindingCheck::Other {
            let address = peer.address;
            self.bindings.claimed(&id, &address, now);
            self.revision += 1;
            self.actions.push(Action::Claimed { node: id, address });
            let why = "another node has this id and another secret; if this node has lost the file \
                       `secret` of its state folder, remove the file `node` there too, and it joins as new";
            return self.send_away(session, Duration::from_secs(30), why);
        }
        let has_joined = verdict == BindingCheck::Known && self.bindings.is_known(&id);
        if !may_join && !has_joined {
            return self.send_away(session, Duration::from_secs(30), MUST_JOIN);
        }
        let known = self.nodes.get(&id).map(|node| (node.hello().incarnation, node.session));
        if known.is_some_and(|(incarnation, _)| incarnation > hello.incarnation) {
            // An older process of that node, or a copy of its state folder.
            let why = "another process has started with this node's state folder";
            return self.send_away(session, Duration::from_secs(30), why);
        }
        let published = &self.published.apps;
        // The names of published apps are not counted: what is published bounds them.
        let is_known = |app: &str| published.is_empty() || published.contains_key(app);
        let bytes = kept::shorten(&mut hello, is_known);
        let Some(holder) = self.place(&id, &machine, bytes, verdict, now) else {
            return self.send_away(session, Duration::from_secs(30), "the fleet is full");
        };
        if let Some((_, Some(before))) = known {
            self.close(before, "the node has opened another stream");
        }
        if verdict == BindingCheck::Free {
            let holders = self.bindings.holders(&machine, peer.token);
            if !self.bindings.bind(&id, &hello.secret, holders) {
                tracing::warn!(node = id, address = peer.address, "no room to bind the id of a node");
            }
        }
        let HubSettings { epoch, missing_apps, .. } = &self.settings;
        let database = Database { epoch, missing_apps: *missing_apps, past: &self.past };
        let mut node = NodeRecord::new(hello, database, peer.address, now);
        node.session = Some(session);
        node.holder = Some(holder);
        if let Some(before) = self.nodes.get(&id) {
            node.follows(before);
        }
        self.nodes.insert(id.clone(), node);
        if let Some(session) = self.sessions.get_mut(&session) {
            session.node = Some(id.clone());
        }
        self.revision += 1;
        let HubSettings { epoch, replica, report_every, .. } = &self.settings;
        let welcome = Welcome {
            epoch: epoch.clone(),
            replica: replica.clone(),
            report_interval_ms: u32::try_from(report_every.as_millis()).unwrap_or(u32::MAX),
        };
        self.send(session, FromControl::Welcome(welcome));
        if let Some(overrides) = self.overrides.clone() {
            self.actions.push(Action::Send(session, Outgoing::Encoded(overrides)));
        }
        if !self.candidates.apps.is_empty() {
            self.send(session, FromControl::Candidates(self.candidates.clone()));
        }
        self.catch_up(&id);
    }

    /// Whose id it is. A node whose id found no room to be bound keeps it while its stream is open.
    fn verdict(&self, id: &str, secret: &[u8]) -> BindingCheck {
        match self.bindings.check(id, secret) {
            verdict @ (BindingCheck::Known | BindingCheck::Other) => verdict,
            verdict => {
                let open = self.nodes.get(id).filter(|it| it.session.is_some()).and_then(|it| it.digest);
                let is_other = open.is_some_and(|digest| !bindings::is_of(&digest, secret));
                if is_other { BindingCheck::Other } else { verdict }
            }
        }
    }

    /// Makes room for a node and its description of itself; `None` if there is none. A known node takes the
    /// reserve, and then the place of an unknown one. A lost node makes room first.
    fn place(
        &mut self,
        id: &str,
        machine: &str,
        bytes: u64,
        verdict: BindingCheck,
        now: Timestamp,
    ) -> Option<(u64, u64)> {
        let before = self.nodes.get(id).and_then(|node| node.holder);
        self.give_back(before);
        let others = self.nodes.len() - usize::from(self.nodes.contains_key(id));
        let is_known = verdict == BindingCheck::Known;
        let most = self.settings.max_nodes;
        let most = if is_known { most } else { most - most / RESERVE };
        if others >= most && !self.make_room(is_known, now) {
            self.keep(before);
            return None;
        }
        let name = self.places.name(machine);
        let free = Room {
            // Known nodes have their places regardless of others at the same address.
            places: if is_known { u64::MAX } else { (most - others.min(most - 1)) as u64 },
            bytes: MOST_BYTES.saturating_sub(self.bytes),
        };
        let room = Room { places: 1, bytes };
        if free.bytes < bytes || self.places.take(&[Part { name, times: 4 }], room, free).is_err() {
            self.keep(before);
            return None;
        }
        self.bytes += bytes;
        Some((name, bytes))
    }

    /// The node keeps the place that it has.
    fn keep(&mut self, holder: Option<(u64, u64)>) {
        let Some((name, bytes)) = holder else { return };
        let all = Room { places: u64::MAX, bytes: u64::MAX };
        // There is always a share of everything.
        let _ = self.places.take(&[Part { name, times: 1 }], Room { places: 1, bytes }, all);
        self.bytes += bytes;
    }

    /// Whether there is room for one more node: the one that was lost first makes room; for a node that is
    /// known, then one that is not.
    fn make_room(&mut self, is_known: bool, now: Timestamp) -> bool {
        let lost = self.nodes.iter().filter(|(_, node)| node.session.is_none());
        let lost = lost.filter(|(_, node)| self.liveness(node, now) == Liveness::Lost);
        let oldest = lost.min_by_key(|(_, node)| node.last_seen).map(|(id, _)| id.clone());
        if let Some(oldest) = oldest {
            return self.forget(&oldest);
        }
        if !is_known {
            return false;
        }
        let is_new = |id: &str| self.bindings.standing(id).is_none_or(|it| it == Standing::New);
        let new = self.nodes.iter().filter(|(id, node)| is_new(id) && !node.is_proven);
        let newest = new.max_by_key(|(_, node)| node.last_seen).map(|(id, node)| (id.clone(), node.session));
        let Some((id, session)) = newest else { return false };
        if let Some(session) = session {
            self.send_away(session, Duration::from_secs(30), "the fleet is full");
        }
        self.forget(&id);
        true
    }
}
