//! A service, and two programs that ask it through the client library.

use tollgate_remote::{DecidedBy, Permits, RemoteError, Service};

use super::*;

const LIMIT: usize = 500;
const CALLS: usize = 400;
/// Names the service to a process that is a client.
const ADDRESS: &str = "TOLLGATE_TEST_SERVICE";

fn rule() -> tempfile::TempDir {
    rules(&RULES.replace("requests_per_unit: 2", &format!("requests_per_unit: {LIMIT}")))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(future)
}

#[test]
fn two_programs_that_ask_one_service_are_admitted_exactly_the_limit() {
    if let Ok(address) = std::env::var(ADDRESS) {
        return run(client(&address));
    }
    let folder = rule();
    let server = Server::start(folder.path(), &[]);
    let clients: Vec<Child> = (0..2)
        .map(|_| {
            let name = "remote::two_programs_that_ask_one_service_are_admitted_exactly_the_limit";
            let mut command = Command::new(std::env::current_exe().expect("this program"));
            command.args(["--exact", name, "--nocapture"]).env(ADDRESS, format!("http://{}", server.http()));
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
    assert_eq!(admitted.iter().sum::<usize>(), LIMIT, "{admitted:?}");
    assert!(admitted.iter().all(|count| *count <= CALLS), "{admitted:?}");
}

/// Asks from many tasks at once, and prints how many calls were admitted.
async fn client(address: &str) {
    let service = Service::at(address).expect("an address").deadline(PATIENCE);
    let limiter = service.limiter("shop", "api_key");
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..CALLS {
        let limiter = limiter.clone();
        calls.spawn(async move { limiter.check("alice").await.expect("an answer").is_admitted });
    }
    let admitted = calls.join_all().await.into_iter().filter(|is_admitted| *is_admitted).count();
    println!("admitted {admitted}");
}

#[test]
fn a_service_that_goes_away_is_a_typed_error_and_serves_again_once_it_returns() {
    let folder = rule();
    let server = Server::start(folder.path(), &[]);
    let address = server.http();
    run(async {
        let service = Service::at(&format!("http://{address}")).expect("an address").deadline(PATIENCE);
        let limiter = service.limiter("shop", "api_key");
        assert_eq!(limiter.peek("bob").await.expect("an answer").remaining, Some(LIMIT as u64));
        let answer = limiter.check_n("bob", 100).await.expect("an answer");
        assert_eq!((answer.is_admitted, answer.remaining), (true, Some(LIMIT as u64 - 100)));
        assert_eq!(answer.decided_by, DecidedBy::Service);
        let over = limiter.check_n("bob", LIMIT as u64).await.expect("an answer");
        assert!(!over.is_admitted && over.retry_after.is_some());
        let rejected = limiter.check_n("bob", u64::MAX).await.expect_err("above 2^63 - 1");
        assert_eq!(rejected.permits(), Permits::Untaken, "{rejected}");

        drop(server);
        let error = loop {
            match limiter.check("bob").await {
                Err(RemoteError::Lost { .. }) => {} // the connection that was
                Err(error) => break error,
                Ok(answer) => panic!("{answer:?}"),
            }
        };
        assert!(matches!(error, RemoteError::Unreachable { .. }), "{error}");
        assert_eq!(error.permits(), Permits::Untaken);

        let mut command = tollgate();
        command.args(["serve", "--grpc", "off", "--resp", "off", "--drain-delay", "0"]);
        command.args(["--http", &address.to_string(), "--rules"]).arg(folder.path());
        let _again = Server::of(command);
        let answer = loop {
            match limiter.check("bob").await {
                Ok(answer) => break answer,
                Err(error) => assert_eq!(error.permits(), Permits::Untaken, "{error}"),
            }
        };
        assert!(answer.is_admitted);
    });
}
