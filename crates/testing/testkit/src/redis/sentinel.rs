//! A master, its replica, and Sentinels that make the replica the master when the master is gone.

use std::net::SocketAddr;

use super::process::{Process, free_port, poll};
use super::server::{installed, listen, own_client, own_socket, program};
use super::{Options, Proxy, Redis, RedisReply};

/// The name by which the Sentinels know the master.
const NAME: &str = "tollgate";

/// A Sentinel's unix socket in its folder.
const SOCKET: &str = "sentinel.sock";

/// A master and a replica under Sentinels that call it dead after half a second.
#[derive(Debug)]
pub struct Sentinel {
    /// Both servers; which of them is the master may change: ask [`Sentinel::master`].
    pub servers: [Redis; 2],
    /// Where the Sentinels reach them.
    known: [SocketAddr; 2],
    watchers: Vec<Watcher>,
}

#[derive(Debug)]
struct Watcher {
    process: Process,
    port: u16,
}

impl Sentinel {
    /// Starts a master, a replica that has caught up with it, and `sentinels` Sentinels that all know both.
    /// `None` where there is no `redis-server`; a line `SKIPPED …` is printed then.
    ///
    /// # Panics
    /// When they do not find together.
    #[must_use]
    pub fn start(options: &Options, sentinels: usize) -> Option<Self> {
        Self::start_with(options, sentinels, "")
    }

    /// The same with more lines for the Sentinels' configuration: `requirepass secret`, their own password,
    /// for one.
    ///
    /// # Panics
    /// When they do not find together.
    #[must_use]
    pub fn start_with(options: &Options, sentinels: usize, more: &str) -> Option<Self> {
        installed().then(|| {
            let master = Redis::run(&options.for_several(), "");
            let known = master.address();
            Self::watch(master, known, sentinels, more)
        })
    }

    /// The same with the master behind a [`Proxy`]: its replica, the Sentinels, and clients that ask them for
    /// the master reach it only through the proxy. If the proxy swallows all bytes, the master is on the far
    /// side of a partition.
    ///
    /// # Panics
    /// When they do not find together.
    #[must_use]
    pub fn start_apart(options: &Options, sentinels: usize) -> Option<(Self, Proxy)> {
        installed().then(|| {
            let master = Redis::run(&options.for_several(), "");
            let proxy = Proxy::before(master.address());
            // So that it is known by no other name when it has become a replica.
            master.command(&["CONFIG", "SET", "replica-announce-port", &proxy.address().port().to_string()]);
            let sooner = format!("sentinel down-after-milliseconds {NAME} 250");
            let all = Self::watch(master, proxy.address(), sentinels, &sooner);
            // They look after a master that is back within a second, not ten.
            let often = ["INFO-PERIOD", "100", "PUBLISH-PERIOD", "100", "MIN-LINK-RECONNECT-PERIOD", "500"];
            for watcher in &all.watchers {
                watcher.ask(&[&["SENTINEL", "DEBUG"], &often[..]].concat());
            }
            (all, proxy)
        })
    }

    fn watch(master: Redis, known: SocketAddr, sentinels: usize, more: &str) -> Self {
        let options = master.options().clone();
        let replica = Redis::run(&options.clone().replica_of(known), "");
        poll("the replica to follow", || (replica.info("master_link_status")? == "up").then_some(()));
        let quorum = sentinels / 2 + 1;
        let watchers = (0..sentinels).map(|_| Watcher::start(known, &options, quorum, more)).collect();
        let known = [known, replica.address()];
        let all = Self { servers: [master, replica], known, watchers };
        for watcher in &all.watchers {
            poll("the Sentinels to find all", || {
                let known = |field: &str| watcher.about_master(field)?.parse::<usize>().ok();
                let found = known("num-slaves")? == 1 && known("num-other-sentinels")? == sentinels - 1;
                found.then_some(())
            });
        }
        all
    }

    /// The name of the master, as the Sentinels call it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        NAME
    }

    /// Where the Sentinels listen.
    #[must_use]
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.watchers.iter().map(Watcher::address).collect()
    }

    /// `redis+sentinel://` with all Sentinels and the master's name, or `rediss+sentinel://`; without the
    /// Sentinels' own password.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.addresses().iter().map(SocketAddr::to_string).collect();
        let options = self.servers[0].options();
        let who = options.password.as_ref().map(|it| format!(":{it}@")).unwrap_or_default();
        format!("{}+sentinel://{who}{}/{NAME}", options.scheme(), hosts.join(","))
    }

    /// Which of [`Sentinel::servers`] the first Sentinel takes for the master.
    #[must_use]
    pub fn master(&self) -> Option<usize> {
        let reply = self.watchers.first()?.ask(&["SENTINEL", "GET-MASTER-ADDR-BY-NAME", NAME])?;
        let RedisReply::Array(parts) = reply else { return None };
        let port = parts.get(1)?.int();
        self.known.iter().position(|it| i64::from(it.port()) == port)
    }

    /// Orders a failover and waits until the other server is the master; returns which that is.
    ///
    /// # Panics
    /// When there is none in time.
    pub fn fail_over(&self) -> usize {
        let before = self.master().expect("a master");
        poll("a failover to begin", || {
            let reply = self.watchers[0].ask(&["SENTINEL", "FAILOVER", NAME])?;
            reply.error().is_none().then_some(())
        });
        self.wait_for(1 - before);
        1 - before
    }

    /// Kills the master and waits until the replica is the master; returns which that is.
    ///
    /// # Panics
    /// When there is none in time.
    pub fn kill_master(&mut self) -> usize {
        let before = self.master().expect("a master");
        self.servers[before].kill();
        self.wait_for(1 - before);
        1 - before
    }

    fn wait_for(&self, server: usize) {
        poll("the other server to be the master", || {
            let role = self.servers[server].ask(&["ROLE"]).ok()?.array().first()?.text();
            (self.master()? == server && role == "master").then_some(())
        });
    }
}

impl Watcher {
    fn start(master: SocketAddr, options: &Options, quorum: usize, more: &str) -> Self {
        for _ in 0..10 {
            let mut process = Process::new();
            let port = free_port();
            let (mut text, _) = listen(options, port, process.folder());
            text += &own_socket(&process.folder().join(SOCKET));
            text += &format!(
                "bind 127.0.0.1\nprotected-mode no\nsentinel resolve-hostnames no\n\
                 sentinel monitor {NAME} 127.0.0.1 {} {quorum}\n\
                 sentinel down-after-milliseconds {NAME} 500\n\
                 sentinel failover-timeout {NAME} 3000\n",
                master.port()
            );
            if let Some(password) = &options.password {
                text += &format!("sentinel auth-pass {NAME} {password}\n");
            }
            text += more;
            std::fs::write(process.folder().join("sentinel.conf"), text).expect("written");
            process.spawn(&program(), &["sentinel.conf", "--sentinel"]);
            let mut watcher = Self { process, port };
            let runs = poll("a Sentinel to answer", || {
                if !watcher.process.runs() {
                    return Some(false);
                }
                watcher.ask(&["PING"]).map(|_| true)
            });
            if runs {
                return watcher;
            }
            let log = watcher.process.log();
            assert!(log.contains("Address already in use"), "the Sentinel ended: {log}");
        }
        panic!("no free port in ten tries");
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    fn ask(&self, words: &[&str]) -> Option<RedisReply> {
        own_client(&self.process.folder().join(SOCKET)).ok()?.command(words).ok()
    }

    fn about_master(&self, field: &str) -> Option<String> {
        let RedisReply::Array(parts) = self.ask(&["SENTINEL", "MASTER", NAME])? else { return None };
        let at = parts.iter().position(|it| it.text() == field)?;
        parts.get(at + 1).map(RedisReply::text)
    }
}
