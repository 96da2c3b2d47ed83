//! Streams between nodes and the control plane: they open, delay, break, and keep each direction's order.

use tollgate_fleet_agent::{Event as AgentEvent, LinkId};
use tollgate_fleet_hub::{Event as HubEvent, Outgoing, SessionId};
use tollgate_fleet_proto::{Ack, FromNode, Nack};

use super::world::{SimEvent, Stream, World};

impl World {
    pub(super) fn dialed(&mut self, place: usize, link: LinkId) -> Result<(), String> {
        let fails = self.hub.is_none() || (!self.is_calm && self.random.u8(..5) == 0);
        if self.nodes[place].agent.is_none() {
            return Ok(());
        }
        if fails {
            return self.node(place, AgentEvent::Disconnected(link));
        }
        self.last_session += 1;
        let session = SessionId(self.last_session);
        self.nodes[place].link = Some(link);
        self.streams.insert(session, Stream { node: place, link, up: self.now, down: self.now });
        self.hub(HubEvent::Opened(session, "simulated".into()));
        self.node(place, AgentEvent::Connected(link))
    }

    pub(super) fn hang_up(&mut self, place: usize, link: LinkId) {
        let found = self.streams.iter().find(|(_, it)| it.node == place && it.link == link);
        if let Some(session) = found.map(|(session, _)| *session) {
            self.streams.remove(&session);
            let at = self.now + self.delay();
            self.at(at, SimEvent::HubClosed(session));
        }
    }

    pub(super) fn send_up(&mut self, place: usize, link: LinkId, says: FromNode) {
        if let FromNode::Ack(Ack { held, .. }) | FromNode::Nack(Nack { held, .. }) = &says {
            for held in held {
                self.nodes[place].versions.acknowledged(&held.app, held.version);
            }
        }
        let delay = self.delay();
        let Some((session, stream)) =
            self.streams.iter_mut().find(|(_, it)| it.node == place && it.link == link)
        else {
            return;
        };
        stream.up = stream.up.max(self.now + delay);
        let session = *session;
        let at = stream.up;
        self.at(at, SimEvent::ToHub(session, Box::new(says)));
    }

    pub(super) fn send_down(&mut self, session: SessionId, outgoing: Outgoing) {
        if matches!(outgoing, Outgoing::Bundle(_)) {
            self.last_bundle_at = self.now;
        }
        for says in outgoing.messages() {
            let delay = self.delay();
            let Some(stream) = self.streams.get_mut(&session) else { return };
            stream.down = stream.down.max(self.now + delay);
            let node = stream.node;
            let link = stream.link;
            let at = stream.down;
            self.at(at, SimEvent::ToNode(node, link, Box::new(says)));
        }
    }

    /// The stream is lost. Messages that were sent may still arrive, or not; each end notices by itself.
    pub(super) fn break_stream(&mut self, session: SessionId) {
        let Some(stream) = self.streams.remove(&session) else { return };
        self.report.breaks += 1;
        if self.random.bool() {
            let lost = |event: &SimEvent| match event {
                SimEvent::ToHub(of, _) => *of == session,
                SimEvent::ToNode(place, link, _) => (*place, *link) == (stream.node, stream.link),
                _ => false,
            };
            self.events.retain(|_, event| !lost(event));
        }
        let hub = stream.up + self.delay();
        let node = stream.down + self.delay();
        self.at(hub, SimEvent::HubClosed(session));
        self.at(node, SimEvent::NodeClosed(stream.node, stream.link));
    }

    pub(super) fn break_something(&mut self) {
        if !self.is_calm {
            let sessions: Vec<_> = self.streams.keys().copied().collect();
            if let Some(session) = self.random.choice(sessions) {
                self.break_stream(session);
            }
            let wait = self.random.u64(500..8_000);
            self.after(wait, SimEvent::Break);
        }
    }
}
