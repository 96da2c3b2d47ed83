//! Limits on several servers of one store, charged together: clients that leave before the answer, and a
//! server that hangs.

use std::net::SocketAddr;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::task::block_in_place;
use tollgate_testkit::redis::{Cluster, Memcached, Options, RedisReply};

use crate::drain::frame;
use crate::fleet::{Fleet, until};
use crate::http;
use crate::rls;
use crate::tollgate::Tollgate;

/// Calls that are open at once.
const CHUNK: u64 = 50;

/// Each limit has a counter of its own, in a slot of its own.
const TWO: &str = "domain: fleet
charge: together
descriptors:
  - key: deny
    limits:
      - {name: wide, requests_per_unit: 1000000000, algorithm: total}
      - {name: slowest, requests_per_unit: 1, algorithm: total}
  - key: pass
    limits:
      - {name: wide, requests_per_unit: 1000000000, algorithm: total}
      - {name: slowest, requests_per_unit: 100000, algorithm: total}
";

/// Way in which a client leaves.
#[derive(Clone, Copy, Debug)]
enum Leaves {
    /// It takes each call back.
    Reset,
    /// Each call says how long it may take, in milliseconds.
    Timeout(u32),
    /// It closes the connection that the calls are on.
    Closes,
    /// It closes the connections of one call each.
    Http,
    /// It ends its side, which an HTTP client may do and still read.
    HttpHalf,
    Resp,
}

/// Calls that are open; dropping it closes their connections.
#[derive(Default)]
struct Open {
    http2: Vec<tokio::task::JoinHandle<()>>,
    streams: Vec<h2::SendStream<Bytes>>,
    answers: Vec<h2::client::ResponseFuture>,
    sockets: Vec<TcpStream>,
}

impl Open {
    async fn begin(node: &Tollgate, how: Leaves, key: &str, value: &str, costs: &[u64]) -> Self {
        let mut open = Self::default();
        match how {
            Leaves::Reset | Leaves::Timeout(_) | Leaves::Closes => {
                let stream = TcpStream::connect(node.grpc).await.expect("it listens");
                let (send, connection) = h2::client::handshake(stream).await.expect("HTTP/2");
                open.http2.push(tokio::spawn(async move { drop(connection.await) }));
                for cost in costs {
                    let mut head = ::http::Request::post(format!("http://tollgate{}", rls::PATH))
                        .header("content-type", "application/grpc")
                        .header("te", "trailers");
                    if let Leaves::Timeout(ms) = how {
                        head = head.header("grpc-timeout", format!("{ms}m"));
                    }
                    let mut send = send.clone().ready().await.expect("a place");
                    let (answer, mut body) =
                        send.send_request(head.body(()).expect("a request"), false).expect("sent");
                    let mut request = rls::hit("fleet", key, value);
                    request.hits_addend = u32::try_from(*cost).expect("few");
                    body.send_data(frame(&request), true).expect("sent");
                    open.answers.push(answer);
                    open.streams.push(body);
                }
            }
            Leaves::Http | Leaves::HttpHalf => {
                for cost in costs {
                    let body = json!({"domain": "fleet", "descriptors": [[{"key": key, "value": value}]], "hits": cost});
                    let body = body.to_string();
                    let head = "POST /v1/check HTTP/1.1\r\nhost: t\r\ncontent-type: application/json";
                    let text = format!("{head}\r\ncontent-length: {}\r\n\r\n{body}", body.len());
                    open.send(node.http, &text).await;
                }
            }
            Leaves::Resp => {
                for cost in costs {
                    let cost = cost.to_string();
                    let words = ["TOLLGATE.CHECK", "fleet", key, value, "COST", &cost];
                    let bulk: String = words.map(|it| format!("${}\r\n{it}\r\n", it.len())).concat();
                    open.send(node.resp, &format!("*{}\r\n{bulk}", words.len())).await;
                }
            }
        }
        open
    }

    async fn send(&mut self, to: SocketAddr, text: &str) {
        let mut stream = TcpStream::connect(to).await.expect("it listens");
        stream.set_nodelay(true).expect("a socket");
        stream.write_all(text.as_bytes()).await.expect("taken");
        self.sockets.push(stream);
    }

    /// Leaves. Returns itself if a connection stays open: where only the calls were taken back or are over.
    async fn leave(mut self, how: Leaves) -> Option<Self> {
        match how {
            Leaves::Reset => {
                self.streams.iter_mut().for_each(|it| it.send_reset(h2::Reason::CANCEL));
                Some(self)
            }
            Leaves::Timeout(_) => {
                for answer in self.answers.drain(..) {
                    answer.await.expect("late, or an answer");
                }
                Some(self)
            }
            Leaves::Closes | Leaves::Http | Leaves::Resp => None,
            Leaves::HttpHalf => {
                for socket in &mut self.sockets {
                    socket.shutdown().await.ok();
                }
                Some(self)
            }
        }
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.http2.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// The counters of both limits of a value, on the first and on the last master; which value that is.
async fn keys_apart(cluster: &Cluster, node: &Tollgate, key: &str) -> (String, [String; 2]) {
    // The names of both limits differ in length: else their slots would always differ by the same bits.
    for nth in 0..1_000 {
        let value = format!("v{nth}.");
        let body = json!({"domain": "fleet", "descriptors": [[{"key": key, "value": value}]], "hits": 1})
            .to_string();
        http::post(node.http, "/v1/check", &body).await.expect("an answer");
        let find = |node: usize, name: &str| {
            let keys = cluster.nodes[node].command(&["KEYS", &format!("*{key}={value}*{name}*")]);
            keys.array().first().map(RedisReply::text)
        };
        if let (Some(wide), Some(slow)) = (find(0, "wide"), find(2, "slowest")) {
            return (value, [wide, slow]);
        }
    }
    panic!("no value has its counters so")
}

fn charged(cluster: &Cluster, node: usize, key: &str) -> u64 {
    match cluster.nodes[node].command(&["GET", key]) {
        RedisReply::Nil => 0,
        other => u64::try_from(other.int()).expect("a count"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_before_the_answer_leave_nothing_half_charged() {
    let whole = Options::new().set("cluster-require-full-coverage", "no");
    let Some(cluster) = Cluster::start_with(&whole, false) else { return };
    let mut fleet = Fleet::start(1, TWO, &cluster.url(), &["--store-deadline", "20s", "--drain-delay", "0s"]);
    fleet.wait_for_store("up").await;
    let node = &fleet.nodes[0];
    let (value, [wide, slow]) = keys_apart(&cluster, node, "deny").await;
    let before = charged(&cluster, 0, &wide);
    assert_eq!((before, charged(&cluster, 2, &slow)), (1, 1), "the one that looked for them");
    let mixed: Vec<u64> = (0..CHUNK).map(|nth| 1 + nth * 37 % 1_000).collect();
    for how in [
        Leaves::Reset,
        Leaves::Timeout(50),
        Leaves::Timeout(20),
        Leaves::Timeout(5),
        Leaves::Timeout(3),
        Leaves::Closes,
        Leaves::Http,
        Leaves::HttpHalf,
        Leaves::Resp,
    ] {
        let mut most = 0;
        for turn in 0..4 {
            let costs = if turn % 2 == 0 { vec![1_000; CHUNK as usize] } else { mixed.clone() };
            cluster.nodes[2].stop();
            let open = Open::begin(node, how, "deny", &value, &costs).await;
            if !matches!(how, Leaves::Timeout(_)) {
                until("all to be charged on one master", async || {
                    most = charged(&cluster, 0, &wide) - before;
                    (most == costs.iter().sum::<u64>()).then_some(())
                })
                .await;
            }
            let _left = open.leave(how).await;
            cluster.nodes[2].resume();
            until(&format!("all to be given back, {how:?}"), async || {
                (charged(&cluster, 0, &wide) == before).then_some(())
            })
            .await;
        }
        println!("{how:?}: 0 of {} calls left anything", 4 * CHUNK);
    }
    assert_eq!(charged(&cluster, 2, &slow), 1, "it denied all");

    // Some are admitted. The last clients leave during shutdown; the server finishes their work first.
    let (value, [wide, slow]) = keys_apart(&cluster, node, "pass").await;
    let rows =
        [Leaves::Timeout(5), Leaves::Reset, Leaves::Resp, Leaves::Http, Leaves::Closes, Leaves::Closes];
    for (row, how) in rows.into_iter().enumerate() {
        let before = charged(&cluster, 0, &wide);
        cluster.nodes[2].stop();
        let open = Open::begin(node, how, "pass", &value, &mixed).await;
        if !matches!(how, Leaves::Timeout(_)) {
            until("all to be charged on one master", async || {
                (charged(&cluster, 0, &wide) == before + mixed.iter().sum::<u64>()).then_some(())
            })
            .await;
        }
        let _left = open.leave(how).await;
        if row + 1 == rows.len() {
            node.signal("TERM");
        }
        cluster.nodes[2].resume();
        if row + 1 < rows.len() {
            until("both to be charged alike", async || {
                (charged(&cluster, 0, &wide) == charged(&cluster, 2, &slow)).then_some(())
            })
            .await;
        }
    }
    let status = fleet.nodes[0].wait();
    assert_eq!(status.code(), Some(0), "{status:?}\n{}", fleet.nodes[0].printed());
    let both = [charged(&cluster, 0, &wide), charged(&cluster, 2, &slow)];
    println!("{both:?} charged of 100000");
    assert!(both[0] == both[1] && both[0] > 1 && both[0] <= 100_000, "{both:?}");
}

/// `a` is on a server that answers, `b` on one that hangs.
const APART: &str = "domain: fleet
charge: together
descriptors:
  - {key: a, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: allow, rate_limit: {unit: year, requests_per_unit: 4}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 4, on_store_failure: local}}
  - {key: deny, rate_limit: {unit: year, requests_per_unit: 4, on_store_failure: deny}}
";

async fn check(node: &Tollgate, entries: &[(&str, &str)], hits: u64) -> Value {
    let entry = |(key, value): &(&str, &str)| json!([{"key": key, "value": value}]);
    let descriptors: Vec<_> = entries.iter().map(entry).collect();
    let body = json!({"domain": "fleet", "descriptors": descriptors, "hits": hits}).to_string();
    let answer = http::post(node.http, "/v1/check", &body).await.expect("an answer");
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_str(&answer.body).expect("JSON")
}

/// With one server stopped: `b` of each kind does not answer, and `a` denies.
async fn holds_without(node: &Tollgate) {
    let find = async |key: &str, silent: bool| {
        for nth in 0..1_000 {
            let value = format!("v{nth}");
            if check(node, &[(key, &value)], 0).await["degraded"].is_null() != silent {
                return value;
            }
        }
        panic!("no value of {key} has its counter so")
    };
    let mut healthy = 0;
    for (key, admits) in [("allow", 10), ("local", 4), ("deny", 0)] {
        let b = find(key, true).await;
        let a = loop {
            healthy += 1;
            let value = format!("a{healthy}");
            if check(node, &[("a", &value)], 0).await["degraded"].is_null() {
                break value;
            }
        };
        let mut admitted = 0;
        for _ in 0..200 {
            let answer = check(node, &[("a", &a), (key, &b)], 1).await;
            admitted += u64::from(answer["outcome"] == "admit");
            let marks: Vec<_> = [0, 1].map(|at| answer["descriptors"][at]["degraded"].as_str()).into();
            assert_eq!(marks, [None, Some(key)], "{answer}");
        }
        assert_eq!(admitted, admits, "{key}");
        let left = check(node, &[("a", &a)], 0).await;
        assert_eq!(left["remaining"].as_u64(), Some(10 - admits), "{key}: what was denied went back: {left}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_master_of_a_cluster_switches_no_other_limit_off() {
    let whole = Options::new().set("cluster-require-full-coverage", "no");
    let Some(cluster) = Cluster::start_with(&whole, false) else { return };
    let fleet = Fleet::start(1, APART, &cluster.url(), &[]);
    fleet.wait_for_store("up").await;
    cluster.nodes[1].stop();
    holds_without(&fleet.nodes[0]).await;
    cluster.nodes[1].resume();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_memcached_of_three_switches_no_other_limit_off() {
    let (Some(one), Some(two), Some(three)) = (Memcached::start(), Memcached::start(), Memcached::start())
    else {
        return;
    };
    let url = format!("memcache://{},{},{}", one.address(), two.address(), three.address());
    let fleet = Fleet::start(1, APART, &url, &[]);
    fleet.wait_for_store("up").await;
    block_in_place(|| two.stop());
    let _ = check(&fleet.nodes[0], &[("a", "warm")], 0).await;
    holds_without(&fleet.nodes[0]).await;
    two.resume();
}
