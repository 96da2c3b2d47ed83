//! A service, and programs that ask it through the client library, over each of its protocols.

use std::path::PathBuf;

use tokio::time::Instant;
use tollgate_remote::{AcquireError, Answer, DecidedBy, OnFailure, Permits, RemoteError, Service, TlsFiles};
use tollgate_testkit::certificates::Authority;
use tollgate_testkit::redis::{Options, Redis};

use super::*;

const LIMIT: usize = 500;
const CALLS: usize = 400;
/// Names the service to a process that is a client, and the file of the authority that it trusts.
const ADDRESS: &str = "TOLLGATE_TEST_SERVICE";
const AUTHORITY: &str = "TOLLGATE_TEST_AUTHORITY";

const LIMITS: &str = "
domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: year, requests_per_unit: 500}
  - key: bucket
    rate_limit: {rate: 10/m burst 5}
  - key: paced
    rate_limit: {unit: minute, requests_per_unit: 60, algorithm: leaky_bucket, form: queue}
  - key: plenty
    rate_limit: {rate: 20000/s burst 20000, sharing: leased}
  - key: strict
    rate_limit: {rate: 20000/s burst 20000}
  - key: free
    rate_limit: {unlimited: true}
  - key: shadowed
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
  - key: fast
    rate_limit: {rate: 20/s burst 1, on_limit: queue, max_wait: 30s}
  - key: slow
    rate_limit: {rate: 1/25s burst 1, on_limit: queue, max_wait: 30s}
";

/// A protocol, with or without TLS.
#[derive(Clone, Copy, Debug)]
enum Over {
    Http,
    Https,
    Grpc,
    Grpcs,
}

const ALL: [Over; 4] = [Over::Http, Over::Https, Over::Grpc, Over::Grpcs];

/// A server, and the data needed to reach it.
struct RemoteServer {
    server: ServerProcess,
    over: Over,
    folder: tempfile::TempDir,
}

impl Over {
    fn is_encrypted(self) -> bool {
        matches!(self, Self::Https | Self::Grpcs)
    }

    fn interface(self) -> &'static str {
        match self {
            Self::Http | Self::Https => "http",
            Self::Grpc | Self::Grpcs => "grpc",
        }
    }

    fn start(self) -> RemoteServer {
        let folder = rules(LIMITS);
        let mut flags = Vec::new();
        if self.is_encrypted() {
            let authority = Authority::new();
            let (cert, key) = authority.issue("server", 2060).write(folder.path());
            std::fs::write(folder.path().join("ca.crt"), authority.pem()).expect("written");
            for (flag, file) in [("--tls-cert", cert), ("--tls-key", key)] {
                flags.extend([flag.to_owned(), file.display().to_string()]);
            }
            flags.extend(["--tls", self.interface()].map(str::to_owned));
        }
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        RemoteServer { server: ServerProcess::start(folder.path(), &flags), over: self, folder }
    }
}

impl RemoteServer {
    /// Where the interface of this protocol listens.
    fn listens(&self) -> String {
        let says = self.server.says(self.over.interface());
        says.and_then(|text| text.split(' ').next()).expect("an address").to_owned()
    }

    fn address(&self) -> String {
        let scheme = match self.over {
            Over::Http => "http",
            Over::Https => "https",
            Over::Grpc => "grpc",
            Over::Grpcs => "grpcs",
        };
        format!("{scheme}://{}", self.listens())
    }

    fn authority(&self) -> Option<PathBuf> {
        self.over.is_encrypted().then(|| self.folder.path().join("ca.crt"))
    }

    fn service(&self) -> Service {
        service(&self.address(), self.authority())
    }

    /// The same server again, at the address that it had.
    fn again(self) -> Self {
        let address = self.listens();
        let Self { server, over, folder } = self;
        drop(server);
        let mut command = tollgate();
        let (http, grpc) = match over {
            Over::Http | Over::Https => (address.as_str(), "off"),
            Over::Grpc | Over::Grpcs => ("127.0.0.1:0", address.as_str()),
        };
        command.args(["serve", "--resp", "off", "--drain-delay", "0", "--http", http, "--grpc", grpc]);
        if over.is_encrypted() {
            command.arg("--tls-cert").arg(folder.path().join("tls.crt"));
            command.arg("--tls-key").arg(folder.path().join("tls.key")).args(["--tls", over.interface()]);
        }
        command.arg("--rules").arg(folder.path());
        Self { server: ServerProcess::of(command), over, folder }
    }
}

fn service(address: &str, ca_file: Option<PathBuf>) -> Service {
    Service::with_tls(address, TlsFiles { ca_file, ..TlsFiles::default() })
        .expect("an address")
        .deadline(PATIENCE)
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

#[test]
fn two_programs_that_ask_one_service_are_admitted_exactly_the_limit() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return run(client(&address, std::env::var_os(AUTHORITY).map(PathBuf::from)));
    }
    for over in ALL {
        let running = over.start();
        let clients: Vec<Child> = (0..2)
            .map(|_| {
                let name = "remote::two_programs_that_ask_one_service_are_admitted_exactly_the_limit";
                let mut command = Command::new(std::env::current_exe().expect("this program"));
                command.args(["--exact", name, "--nocapture"]).env(ADDRESS, running.address());
                command.envs(running.authority().map(|file| (AUTHORITY, file)));
                command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("it starts")
            })
            .collect();
        let admitted: Vec<usize> = clients
            .into_iter()
            .map(|client| {
                let output = client.wait_with_output().expect("it ends");
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                let count = text.lines().find_map(|line| line.split_once("admitted ")?.1.trim().parse().ok());
                count.unwrap_or_else(|| panic!("no count in {text}"))
            })
            .collect();
        assert_eq!(admitted.iter().sum::<usize>(), LIMIT, "{over:?}: {admitted:?}");
        assert!(admitted.iter().all(|count| *count <= CALLS), "{over:?}: {admitted:?}");
    }
}

/// Asks from many tasks at once, and prints how many calls were admitted.
async fn client(address: &str, authority: Option<PathBuf>) {
    let limiter = service(address, authority).limiter("shop", "api_key");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check("alice").await.expect("an answer").is_admitted });
    }
    let admitted = calls.join_all().await.into_iter().filter(|is_admitted| *is_admitted).count();
    println!("admitted {admitted}");
}

/// The answer to the same calls over each protocol, each of a server of its own.
#[test]
fn every_protocol_has_the_same_answers() {
    let answers = |over: Over| {
        let running = over.start();
        run(async {
            let service = running.service();
            let mut answers = Vec::new();
            for (key, hits) in [
                ("api_key", 0),
                ("api_key", 7),
                ("api_key", 494),
                ("api_key", 501),
                ("bucket", 5),
                ("bucket", 1),
                ("bucket", 6),
                ("paced", 1),
                ("paced", 1),
                ("free", 3),
                ("shadowed", 2),
                ("slow", 1),
                ("slow", 1),
                ("nobody", 1),
            ] {
                let asked = service.ask("shop", &[(key, "ann")], hits).await.expect("an answer");
                // The times are those of two moments.
                let at_most = |span: Option<Duration>, ms: u64| {
                    span.map(|span| (span.is_zero(), span <= Duration::from_millis(ms)))
                };
                let times = (at_most(Some(asked.delay), 2_000), at_most(asked.retry_after, 400_000_000_000));
                let Answer { is_admitted, limit, remaining, rule, decided_by, .. } = asked;
                answers.push((key, is_admitted, limit, remaining, rule, decided_by, times));
            }
            answers
        })
    };
    let [http, grpc] = [Over::Http, Over::Grpc].map(answers);
    assert_eq!(http, grpc);
    let admitted: Vec<bool> = grpc.iter().map(|answer| answer.1).collect();
    let yes = true;
    let no = false;
    assert_eq!(admitted, [yes, yes, no, no, yes, no, no, yes, yes, yes, yes, yes, no, yes]);
}

#[test]
fn a_service_that_goes_away_is_a_typed_error_and_serves_again_once_it_returns() {
    for over in ALL {
        let running = over.start();
        run(async {
            let limiter = running.service().limiter("shop", "api_key");
            assert_eq!(limiter.peek("bob").await.expect("an answer").remaining, Some(LIMIT as u64));
            let answer = limiter.check_n("bob", 100).await.expect("an answer");
            assert_eq!((answer.is_admitted, answer.remaining), (true, Some(LIMIT as u64 - 100)));
            assert_eq!(answer.decided_by, DecidedBy::Service);
            let over_limit = limiter.check_n("bob", LIMIT as u64).await.expect("an answer");
            assert!(!over_limit.is_admitted && over_limit.retry_after.is_some());
            let never = limiter.check_n("bob", u64::MAX).await.expect("an answer");
            assert!(!never.is_admitted && never.retry_after.is_none(), "{over:?}: {never:?}");

            let mut running = running;
            drop(running.server.child.kill());
            drop(running.server.child.wait());
            let error = loop {
                match limiter.check("bob").await {
                    Err(RemoteError::Lost { .. }) => {} // the connection that was
                    Err(error) => break error,
                    Ok(answer) => panic!("{answer:?}"),
                }
            };
            assert!(matches!(error, RemoteError::Unreachable { .. }), "{over:?}: {error}");
            assert_eq!(error.permits(), Permits::Untaken);

            let _again = running.again();
            let answer = loop {
                match limiter.check("bob").await {
                    Ok(answer) => break answer,
                    Err(error) => assert_eq!(error.permits(), Permits::Untaken, "{over:?}: {error}"),
                }
            };
            assert!(answer.is_admitted);
        });
    }
}

/// The value of a metric of a server whose HTTP interface may be encrypted.
fn queue_events(running: &RemoteServer, event: &str) -> u64 {
    metric(&running.server, &format!("tollgate_queue_events_total{{event=\"{event}\"}}"))
}

#[test]
fn calls_that_wait_hold_their_places_at_the_service() {
    for over in [Over::Http, Over::Grpc] {
        let running = over.start();
        run(async {
            let limiter = running.service().deadline(Duration::from_secs(5)).limiter("shop", "fast");
            let mut calls = tokio::task::JoinSet::new();
            for _ in 0..10 {
                let limiter = limiter.clone();
                calls.spawn(async move { limiter.acquire("ann", 1, PATIENCE).await });
            }
            for waited in calls.join_all().await {
                waited.unwrap_or_else(|error| panic!("{over:?}: {error}"));
            }
            let denied = r#"tollgate_decisions_total{domain="shop",rule="fast",outcome="deny"}"#;
            assert_eq!(metric(&running.server, denied), 0, "{over:?}: none asked twice");
            assert!(queue_events(&running, "joined") > 0, "{over:?}");

            // A turn after the deadline is a denial at once, and says when a retry passes.
            let slow = running.service().deadline(Duration::from_secs(1)).limiter("shop", "slow");
            assert!(slow.check("bob").await.expect("an answer").is_admitted);
            let timeout = Duration::from_secs(10);
            let began = Instant::now();
            let error = slow.acquire("bob", 1, timeout).await.expect_err("25 s");
            let AcquireError::TooLong { retry_after } = error else { panic!("{over:?}: {error}") };
            assert!(retry_after > timeout && began.elapsed() < timeout, "{over:?}: {retry_after:?}");

            // A caller that goes away leaves the line. Over HTTP it may still read, and keeps its place.
            if let Over::Http = over {
                return;
            }
            let left = queue_events(&running, "left");
            let waiting = tokio::spawn(async move { slow.acquire("bob", 1, PATIENCE).await });
            while metric(&running.server, "tollgate_queued_requests") == 0 {
                tokio::task::yield_now().await;
            }
            waiting.abort();
            while queue_events(&running, "left") == left {
                tokio::task::yield_now().await;
            }
        });
    }
}

#[test]
fn a_service_that_dies_while_callers_wait_leaves_none_of_them_waiting() {
    for over in [Over::Http, Over::Grpc, Over::Grpcs] {
        let mut running = over.start();
        run(async {
            let slow = running.service().deadline(Duration::from_secs(5)).limiter("shop", "slow");
            let lenient = slow.clone().on_failure(OnFailure::Allow).expect("a policy");
            let callers = [(&slow, "a"), (&slow, "b"), (&lenient, "c"), (&lenient, "d")];
            let mut calls = Vec::new();
            for (limiter, value) in callers {
                assert!(limiter.check(value).await.expect("an answer").is_admitted);
                let limiter = limiter.clone();
                calls.push(tokio::spawn(async move { limiter.acquire(value, 1, PATIENCE).await }));
            }
            while metric(&running.server, "tollgate_queued_requests") < calls.len() as u64 {
                tokio::task::yield_now().await;
            }
            drop(running.server.child.kill());
            drop(running.server.child.wait());
            for (call, (_, value)) in calls.into_iter().zip(callers) {
                match (value, call.await.expect("no panic")) {
                    ("a" | "b", Err(AcquireError::Remote(RemoteError::Lost { .. }))) => {}
                    ("c" | "d", Ok(waited)) => assert!(waited < Duration::from_secs(25), "{waited:?}"),
                    (_, other) => panic!("{over:?}: {value}: {other:?}"),
                }
            }

            let _again = running.again();
            let waited = loop {
                match slow.acquire("a", 1, PATIENCE).await {
                    Ok(waited) => break waited,
                    Err(AcquireError::Remote(error)) => {
                        assert_eq!(error.permits(), Permits::Untaken, "{over:?}: {error}");
                    }
                    Err(error) => panic!("{over:?}: {error}"),
                }
            };
            assert!(waited < Duration::from_secs(25), "{over:?}: {waited:?}: the place was not remembered");
        });
    }
}

/// At most `most` calls, until `leased` were answered by a lease: how many were admitted, and by a lease.
async fn ask_until(limiter: tollgate_remote::RemoteRateLimiter, leased: u64, most: u64) -> (u64, u64) {
    let mut admitted = 0;
    let mut by_lease = 0;
    for _ in 0..most {
        let answer = limiter.check("ann").await.expect("an answer");
        admitted += u64::from(answer.is_admitted);
        by_lease += u64::from(answer.decided_by == DecidedBy::Lease);
        if by_lease >= leased {
            break;
        }
    }
    (admitted, by_lease)
}

#[test]
fn programs_hand_out_leased_permits_by_themselves_where_the_rule_and_they_allow_it() {
    let running = Over::Grpc.start();
    run(async {
        let began = Instant::now();
        let asked = async |key: &str, service: Service, leased, most| {
            ask_until(service.limiter("shop", key), leased, most).await
        };
        let leasing = || running.service().with_leases();
        // Two programs at a time, each with a connection of its own.
        let ((one, a), (other, b)) = tokio::join!(
            asked("plenty", leasing(), 500, u64::MAX),
            asked("plenty", leasing(), 500, u64::MAX)
        );
        assert!(a >= 500 && b >= 500, "{a} of {one}, {b} of {other}");
        let most = 20_000.0 + 20_000.0 * began.elapsed().as_secs_f64();
        assert!(((one + other) as f64) <= most, "{one} + {other} > {most}");
        let (_, leased) = asked("strict", leasing(), 1, 3_000).await;
        assert_eq!(leased, 0, "the rule does not allow it");
        let (_, leased) = asked("plenty", running.service(), 1, 3_000).await;
        assert_eq!(leased, 0, "the program does not want it");
    });
}

/// Leases within leases: the store's account, nodes that hold permits of it, programs that hold permits of
/// theirs. Costs and demand differ by program, and so do the ends.
#[test]
fn leases_of_programs_and_of_nodes_over_one_redis_together_keep_the_limit() {
    const RATE: u64 = 6_000;
    const BURST: u64 = 3_000;
    const LIMITS: &str = "
domain: shop
descriptors:
  - key: tenant
    rate_limit: {rate: 6000/s burst 3000, sharing: leased}
";
    let Some(redis) = Redis::start(&Options::new()) else { return };
    let (folder, url) = (rules(LIMITS), format!("redis://{}", redis.address()));
    let nodes: Vec<ServerProcess> = (0..2)
        .map(|_| ServerProcess::start(folder.path(), &["--store", &url, "--store-deadline", "5s"]))
        .collect();
    run(async {
        let began = Instant::now();
        let programs = [(0, &[1][..], 6_000), (0, &[1, 9, 2], 2_000), (1, &[40, 1], 700), (1, &[3], 1_500)];
        let mut calls = tokio::task::JoinSet::new();
        for (node, costs, count) in programs {
            let address =
                nodes[node].says("grpc").and_then(|text| text.split(' ').next()).expect("an address");
            let limiter = service(&format!("grpc://{address}"), None).with_leases().limiter("shop", "tenant");
            calls.spawn(async move {
                let mut permits = 0;
                let mut by_lease = 0_u64;
                for cost in costs.iter().copied().cycle().take(count) {
                    let answer = limiter.check_n("one", cost).await.expect("an answer");
                    permits += if answer.is_admitted { cost } else { 0 };
                    by_lease += u64::from(answer.decided_by == DecidedBy::Lease);
                }
                (permits, by_lease)
            });
        }
        let counts = calls.join_all().await;
        let elapsed = began.elapsed();
        let total: u64 = counts.iter().map(|(permits, _)| permits).sum();
        let most = BURST + (RATE as f64 * elapsed.as_secs_f64()).ceil() as u64;
        assert!(total <= most, "{total} of {most} in {elapsed:?}: {counts:?}");
        // Leased permits decay and travel, but every caller finds the burst.
        assert!(total >= BURST / 2, "{total} in {elapsed:?}: {counts:?}");
        assert!(counts.iter().any(|(_, by_lease)| *by_lease > 0), "{counts:?}");
    });
}
