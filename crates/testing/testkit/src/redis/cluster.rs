//! A Cluster of three masters, made without any tool but the server itself.

use std::net::SocketAddr;
use std::ops::RangeInclusive;

use super::process::poll;
use super::server::installed;
use super::{Options, Redis, RedisReply};

/// The slots that each node has in the beginning.
const SLOTS: [RangeInclusive<u16>; 3] = [0..=5460, 5461..=10922, 10923..=16383];

/// Three masters that share the slots; with [`Cluster::start_with_replicas`] each has a copy.
#[derive(Debug)]
pub struct Cluster {
    /// The masters of the beginning, in the order of their slots.
    pub nodes: Vec<Redis>,
    /// Node `i` is the copy of master `i`; none without replicas.
    pub replicas: Vec<Redis>,
}

impl Cluster {
    /// Starts three masters and waits until each takes the cluster for whole. `None` where there is no
    /// `redis-server`; a line `SKIPPED …` is printed then.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&Options::new(), false)
    }

    /// The same, and a copy of each.
    #[must_use]
    pub fn start_with_replicas() -> Option<Self> {
        Self::start_with(&Options::new(), true)
    }

    /// The same with options for each node.
    ///
    /// # Panics
    /// When they do not find together.
    #[must_use]
    pub fn start_with(options: &Options, replicas: bool) -> Option<Self> {
        if !installed() {
            return None;
        }
        let options = &options.for_several();
        let node = || {
            let more = "cluster-enabled yes\ncluster-node-timeout 1000\ncluster-replica-validity-factor 0\n\
                        cluster-port {port2}\n";
            Redis::run(options, more)
        };
        let nodes: Vec<_> = SLOTS.iter().map(|_| node()).collect();
        let replicas: Vec<_> = nodes.iter().filter(|_| replicas).map(|_| node()).collect();
        for (epoch, (node, slots)) in nodes.iter().zip(&SLOTS).enumerate() {
            let first = slots.start().to_string();
            let last = slots.end().to_string();
            ok(node, &["CLUSTER", "ADDSLOTSRANGE", &first, &last]);
            ok(node, &["CLUSTER", "SET-CONFIG-EPOCH", &(epoch + 1).to_string()]);
        }
        let all = nodes.len() + replicas.len();
        for node in nodes.iter().chain(&replicas).skip(1) {
            let port = node.address().port().to_string();
            let bus = config(node, "cluster-port");
            ok(&nodes[0], &["CLUSTER", "MEET", "127.0.0.1", &port, &bus]);
        }
        let cluster = Self { nodes, replicas };
        cluster.wait_for_whole(all);
        for (replica, node) in cluster.replicas.iter().zip(&cluster.nodes) {
            ok(replica, &["CLUSTER", "REPLICATE", &id(node)]);
            poll("a replica to follow", || (replica.info("master_link_status")? == "up").then_some(()));
        }
        for node in cluster.nodes.iter().chain(&cluster.replicas) {
            poll("all to know the replicas", || {
                let nodes = node.command(&["CLUSTER", "NODES"]).text();
                let known = nodes.lines().filter(|line| line.contains("slave")).count();
                (known == cluster.replicas.len()).then_some(())
            });
        }
        Some(cluster)
    }

    fn wait_for_whole(&self, known: usize) {
        for node in self.nodes.iter().chain(&self.replicas) {
            poll("the cluster to be whole", || {
                let info = node.command(&["CLUSTER", "INFO"]).text();
                let has = |line: &str| info.lines().any(|it| it.trim() == line);
                (has("cluster_state:ok") && has(&format!("cluster_known_nodes:{known}"))).then_some(())
            });
        }
    }

    /// Waits until every node that runs takes the cluster for whole.
    ///
    /// # Panics
    /// When that does not happen in time.
    pub fn wait(&self) {
        for node in self.nodes.iter().chain(&self.replicas) {
            poll("the cluster to be whole", || {
                let Ok(reply) = node.ask(&["CLUSTER", "INFO"]) else { return Some(()) };
                let info = reply.text();
                info.lines().any(|it| it.trim() == "cluster_state:ok").then_some(())
            });
        }
    }

    /// Where the nodes listen, replicas last.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.nodes.iter().chain(&self.replicas).map(Redis::address).collect()
    }

    /// `redis+cluster://` with all nodes, or `rediss+cluster://`.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.addresses().iter().map(SocketAddr::to_string).collect();
        let options = self.nodes[0].options();
        let who = options.password.as_ref().map(|it| format!(":{it}@")).unwrap_or_default();
        format!("{}+cluster://{who}{}", options.scheme(), hosts.join(","))
    }

    /// The slot of a key, by its `{tag}` where it has one.
    ///
    /// # Panics
    /// When the first node does not answer.
    #[must_use]
    pub fn slot(&self, key: &str) -> u16 {
        self.nodes[0].command(&["CLUSTER", "KEYSLOT", key]).int() as u16
    }

    /// Which of [`Cluster::nodes`] owns a slot, as they say themselves.
    ///
    /// # Panics
    /// When none does.
    #[must_use]
    pub fn owner(&self, slot: u16) -> usize {
        let owns = |node: &Redis| {
            let Ok(reply) = node.ask(&["CLUSTER", "SLOTS"]) else {
                return false;
            };
            let own = id(node);
            reply.array().iter().map(RedisReply::array).any(|range| {
                (range[0].int()..=range[1].int()).contains(&i64::from(slot))
                    && range[2].array()[2].text() == own
            })
        };
        self.nodes.iter().position(owns).expect("an owner")
    }

    /// Moves a slot with all its keys to another node while clients go on.
    ///
    /// # Panics
    /// When a step fails.
    pub fn move_slot(&self, slot: u16, to: usize) {
        if self.owner(slot) != to {
            self.begin_move(slot, to);
            self.finish_move(slot, to);
        }
    }

    /// The first half of a move: the owner answers `ASK` for keys that it does not have, and no key has moved
    /// yet.
    ///
    /// # Panics
    /// When a step fails.
    pub fn begin_move(&self, slot: u16, to: usize) {
        let from = &self.nodes[self.owner(slot)];
        let number = slot.to_string();
        ok(&self.nodes[to], &["CLUSTER", "SETSLOT", &number, "IMPORTING", &id(from)]);
        ok(from, &["CLUSTER", "SETSLOT", &number, "MIGRATING", &id(&self.nodes[to])]);
    }

    /// The second half: the keys move, then all nodes learn whose the slot is.
    ///
    /// # Panics
    /// When a step fails.
    pub fn finish_move(&self, slot: u16, to: usize) {
        let from = &self.nodes[self.owner(slot)];
        let number = slot.to_string();
        let port = self.nodes[to].address().port().to_string();
        loop {
            let keys = from.command(&["CLUSTER", "GETKEYSINSLOT", &number, "100"]);
            let keys: Vec<_> = keys.array().iter().map(RedisReply::text).collect();
            if keys.is_empty() {
                break;
            }
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000"];
            if let Some(password) = &from.options().password {
                words.extend(["AUTH", password]);
            }
            words.push("KEYS");
            words.extend(keys.iter().map(String::as_str));
            let reply = from.command(&words);
            assert!(reply.error().is_none(), "{reply:?}");
        }
        let owner = id(&self.nodes[to]);
        let first = [&self.nodes[to], from];
        let rest = self.nodes.iter().filter(|node| !first.iter().any(|it| std::ptr::eq(*it, *node)));
        for node in first.into_iter().chain(rest) {
            ok(node, &["CLUSTER", "SETSLOT", &number, "NODE", &owner]);
        }
    }

    /// Makes a replica the master of its slots, with the consent of the master where that runs, and waits for
    /// it.
    ///
    /// # Panics
    /// When it does not become one in time, or there is no such replica.
    pub fn fail_over(&self, replica: usize) {
        let node = &self.replicas[replica];
        let master = &self.nodes[replica];
        let how: &[&str] = if master.client().is_ok() { &[] } else { &["FORCE"] };
        let mut asked = 0_u32;
        poll("a replica to become master", || {
            if asked.is_multiple_of(200) {
                // Again after 2 s: an election may be lost.
                node.command(&[&["CLUSTER", "FAILOVER"], how].concat());
            }
            asked += 1;
            (node.command(&["ROLE"]).array()[0].text() == "master").then_some(())
        });
    }
}

/// The id of a node in the cluster.
fn id(node: &Redis) -> String {
    node.command(&["CLUSTER", "MYID"]).text()
}

fn config(node: &Redis, name: &str) -> String {
    node.command(&["CONFIG", "GET", name]).array()[1].text()
}

fn ok(node: &Redis, words: &[&str]) {
    let reply = node.command(words);
    assert_eq!(reply, RedisReply::Status("OK".to_owned()), "{words:?}");
}
