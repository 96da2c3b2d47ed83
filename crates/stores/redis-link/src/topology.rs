//! The server of each key: one server, the master that the sentinels name, or the Cluster's nodes by slot.

use std::sync::atomic::{AtomicU16, AtomicU64, Ordering::Relaxed};

use parking_lot::RwLock;
use tokio::sync::{Notify, watch};
use tollgate_store::remote::HostPort;

use crate::dial::{Address, Dialer};
use crate::reply::Reply;
use crate::server_error::{Cause, ServerError};
use crate::settings::Servers;
use crate::value::Value;

/// Slots of a Cluster.
pub(crate) const SLOTS: usize = 16384;
const NO_NODE: u16 = u16::MAX;
/// Most nodes that are remembered; a larger number can only be a fault.
const MOST_NODES: usize = 4096;

/// A server by number: 0 where there is one only.
pub type ServerIndex = u16;

/// The server of each key.
#[derive(Debug)]
pub struct Topology {
    servers: Servers,
    /// By slot; empty where there is no Cluster.
    slots: Vec<AtomicU16>,
    nodes: RwLock<Vec<HostPort>>,
    /// Counts the changes.
    version: watch::Sender<u64>,
    /// Notified when a server contradicted the known topology.
    pub(crate) doubted: Notify,
    /// Counts changes of the master; a connection that was made before one belongs to the old master.
    epoch: AtomicU64,
}

impl Topology {
    pub(crate) fn new(servers: Servers) -> Self {
        let slots = if matches!(servers, Servers::Cluster(_)) { SLOTS } else { 0 };
        Self {
            servers,
            slots: (0..slots).map(|_| AtomicU16::new(NO_NODE)).collect(),
            nodes: RwLock::default(),
            version: watch::Sender::new(0),
            doubted: Notify::new(),
            epoch: AtomicU64::new(0),
        }
    }

    /// The slot of a key: 0 where there is one server only.
    #[inline]
    #[must_use]
    pub fn slot(&self, key: &[u8]) -> u16 {
        if self.slots.is_empty() { 0 } else { slot(key) }
    }

    /// The node of a slot; `None` while it is not known.
    pub(crate) fn node_of(&self, slot: u16) -> Option<ServerIndex> {
        if self.slots.is_empty() {
            return Some(0);
        }
        let node = self.slots.get(usize::from(slot))?.load(Relaxed);
        (node != NO_NODE).then_some(node)
    }

    /// False when a node keeps no slot any longer.
    pub(crate) fn keeps_any(&self, node: ServerIndex) -> bool {
        self.slots.is_empty() || self.slots.iter().any(|keeper| keeper.load(Relaxed) == node)
    }

    /// Changes whenever the topology changes.
    pub(crate) fn watch(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Relaxed)
    }

    /// Records another master than before: connections to the old one are closed once their calls are
    /// answered.
    pub fn new_master(&self) {
        self.epoch.fetch_add(1, Relaxed);
    }

    /// The current address of a node.
    ///
    /// # Errors
    /// [`ServerError`] when no sentinel knows the master, or the node is unknown.
    pub async fn find(&self, node: ServerIndex, dialer: &Dialer) -> Result<Address, ServerError> {
        match &self.servers {
            Servers::Single(at) => Ok(Address::Tcp(at.clone())),
            Servers::Unix(path) => Ok(Address::Unix(path.clone())),
            Servers::Sentinel { sentinels, master } => {
                Ok(Address::Tcp(dialer.master(sentinels, master).await?))
            }
            Servers::Cluster(_) => {
                let nodes = self.nodes.read();
                nodes
                    .get(usize::from(node))
                    .map(|at| Address::Tcp(at.clone()))
                    .ok_or_else(|| ServerError::new(Cause::Unavailable, "unknown node"))
            }
        }
    }

    /// Nodes to ask about the Cluster: those that keep slots first, then those that the settings name.
    fn seeds(&self) -> Vec<HostPort> {
        let nodes = self.nodes.read();
        let known = (0..nodes.len())
            .filter(|node| self.keeps_any(*node as ServerIndex))
            .map(|node| nodes[node].clone());
        let mut seeds: Vec<HostPort> = known.collect();
        if let Servers::Cluster(named) = &self.servers {
            seeds.extend(named.iter().filter(|at| !seeds.contains(at)).cloned().collect::<Vec<_>>());
        }
        seeds
    }

    /// The nodes that keep slots.
    #[must_use]
    pub fn masters(&self) -> Vec<ServerIndex> {
        if self.slots.is_empty() {
            return vec![0];
        }
        let nodes = self.nodes.read();
        (0..nodes.len() as ServerIndex).filter(|node| self.keeps_any(*node)).collect()
    }

    /// The number of a node, a new one where it was not known.
    pub(crate) fn number(&self, at: &HostPort) -> Option<ServerIndex> {
        let find =
            |nodes: &[HostPort]| nodes.iter().position(|node| node == at).map(|node| node as ServerIndex);
        if let Some(node) = find(&self.nodes.read()) {
            return Some(node);
        }
        let mut nodes = self.nodes.write();
        find(&nodes).or_else(|| {
            (nodes.len() < MOST_NODES).then(|| {
                nodes.push(at.clone());
                (nodes.len() - 1) as ServerIndex
            })
        })
    }

    /// A slot has moved to another node, as a node reported.
    pub(crate) fn moved(&self, slot: u16, node: ServerIndex) {
        if let Some(keeper) = self.slots.get(usize::from(slot)) {
            keeper.store(node, Relaxed);
        }
        self.doubted.notify_one();
    }

    /// Asks the Cluster for the node of each slot. Does nothing without a Cluster.
    ///
    /// # Errors
    /// [`ServerError`] when no node answers, or one does that is not part of a Cluster.
    pub async fn learn(&self, dialer: &Dialer) -> Result<(), ServerError> {
        if self.slots.is_empty() {
            return Ok(());
        }
        let mut whys = Vec::new();
        for seed in self.seeds() {
            match self.learn_from(&seed, dialer).await {
                Ok(()) => {
                    self.version.send_modify(|version| *version += 1);
                    return Ok(());
                }
                Err(error) if error.cause == Cause::Misconfigured => return Err(error),
                Err(error) => whys.push(error.why.to_string()),
            }
        }
        Err(ServerError::new(Cause::Network, format!("no node of the Cluster answers: {}", whys.join("; "))))
    }

    async fn learn_from(&self, seed: &HostPort, dialer: &Dialer) -> Result<(), ServerError> {
        let (mut connection, _) = dialer.open_any(&Address::Tcp(seed.clone())).await?;
        let strange = |what: &str| {
            ServerError::new(
                Cause::Unavailable,
                format!("{seed}: cannot learn which node keeps which slot: {what}"),
            )
        };
        let limit = dialer.patience();
        let questions: [&[&[u8]]; 2] = [&[b"CLUSTER", b"INFO"], &[b"CLUSTER", b"SLOTS"]];
        let asked = tokio::time::timeout(limit, connection.ask(&questions)).await;
        let mut replies = asked.map_err(|_| strange("no reply in time"))??.into_iter();
        // A node that was cut off from the others has outdated information.
        if let Some(Reply::Value(info)) = replies.next()
            && info.text().is_some_and(|info| info.contains("cluster_state:fail"))
        {
            return Err(strange("it reports the Cluster as down"));
        }
        let ranges = match replies.next() {
            Some(Reply::Value(Value::Array(ranges))) => ranges,
            Some(Reply::Error(error)) => return Err(strange(&error)),
            _ => return Err(strange("the reply is not a list")),
        };
        let mut keepers = vec![NO_NODE; SLOTS];
        for range in &ranges {
            let Some((from, to, at)) = read_range(range, seed) else {
                return Err(strange("a range cannot be read"));
            };
            let node = self.number(&at).ok_or_else(|| strange("too many nodes"))?;
            if let Some(keepers) = keepers.get_mut(from..=to) {
                keepers.fill(node);
            }
        }
        if keepers.iter().all(|keeper| *keeper == NO_NODE) {
            return Err(strange("no node keeps a slot yet"));
        }
        for (slot, keeper) in self.slots.iter().zip(keepers) {
            // A slot without a node stays where it was: that node reports the fault.
            if keeper != NO_NODE {
                slot.store(keeper, Relaxed);
            }
        }
        Ok(())
    }
}

/// `[first, last, [host, port, …], …]`; a missing host means the one that was asked.
fn read_range(range: &Value, asked: &HostPort) -> Option<(usize, usize, HostPort)> {
    let Value::Array(parts) = range else { return None };
    let [Value::Int(from), Value::Int(to), Value::Array(master), ..] = parts.as_slice() else { return None };
    let [host, Value::Int(port), ..] = master.as_slice() else { return None };
    let host = match host.text() {
        None | Some("" | "?") => &asked.host,
        Some(host) => host,
    };
    let at = HostPort::new(host, u16::try_from(*port).ok()?);
    let from = usize::try_from(*from).ok()?;
    let to = usize::try_from(*to).ok()?;
    (from <= to && to < SLOTS).then_some((from, to, at))
}

/// The Cluster's slot of a key: CRC-16 of the part between the first braces, or of the whole key.
pub(crate) fn slot(key: &[u8]) -> u16 {
    let tag = key.iter().position(|byte| *byte == b'{').and_then(|open| {
        let rest = &key[open + 1..];
        let close = rest.iter().position(|byte| *byte == b'}')?;
        (close > 0).then(|| &rest[..close])
    });
    crc16(tag.unwrap_or(key)) % SLOTS as u16
}

/// CRC-16/XMODEM, four bits at a time.
fn crc16(bytes: &[u8]) -> u16 {
    const TABLE: [u16; 16] = {
        let mut table = [0; 16];
        let mut at = 0;
        while at < 16 {
            let mut crc = (at as u16) << 12;
            let mut bit = 0;
            while bit < 4 {
                crc = (crc << 1) ^ if crc & 0x8000 == 0 { 0 } else { 0x1021 };
                bit += 1;
            }
            table[at] = crc;
            at += 1;
        }
        table
    };
    bytes.iter().fold(0, |crc, byte| {
        let crc = (crc << 4) ^ TABLE[usize::from((crc >> 12) as u8 ^ (byte >> 4))];
        (crc << 4) ^ TABLE[usize::from((crc >> 12) as u8 ^ (byte & 15))]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_those_of_the_cluster_specification() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
        for (key, same) in
            [("{user1000}.following", "user1000"), ("foo{bar}{zap}", "bar"), ("foo{{bar}}zap", "{bar")]
        {
            assert_eq!(slot(key.as_bytes()), crc16(same.as_bytes()) % 16384, "{key}");
        }
        assert_eq!(slot(b"foo{}{bar}"), crc16(b"foo{}{bar}") % 16384, "an empty tag does not count");
        assert_eq!(slot(b"foo{bar"), crc16(b"foo{bar") % 16384);
        assert_eq!(slot(b"somekey"), 11058);
    }

    #[test]
    fn ranges_are_read_and_a_missing_host_is_the_one_that_was_asked() {
        let asked = HostPort::new("seed", 1);
        let range = |host: Value| {
            let master = Value::Array(vec![host, Value::Int(7000), Value::BulkString(b"id".to_vec())]);
            Value::Array(vec![Value::Int(0), Value::Int(5460), master])
        };
        for (host, want) in [
            (Value::BulkString(b"10.0.0.1".to_vec()), "10.0.0.1"),
            (Value::BulkString(Vec::new()), "seed"),
            (Value::Nil, "seed"),
        ] {
            assert_eq!(read_range(&range(host), &asked), Some((0, 5460, HostPort::new(want, 7000))));
        }
        assert_eq!(read_range(&Value::Array(vec![Value::Int(5), Value::Int(4)]), &asked), None);
    }

    #[test]
    fn a_slot_belongs_to_the_node_that_was_last_reported() {
        let topology = Topology::new(Servers::Cluster(vec![HostPort::new("a", 1)]));
        assert_eq!(topology.node_of(7), None);
        let [b, c] = ["b", "c"].map(|host| topology.number(&HostPort::new(host, 1)).expect("a number"));
        topology.moved(7, b);
        topology.moved(7, c);
        assert_eq!((topology.node_of(7), topology.node_of(8)), (Some(c), None));
        assert_eq!((topology.keeps_any(b), topology.keeps_any(c)), (false, true));
        assert_eq!(topology.masters(), [c]);
    }
}
