//! Clients that people use: redis-cli, redis-benchmark, the `redis` crate and the Python package `redis`.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed step of a test must say which"
)]

use std::io::ErrorKind;
use std::process::{Command, Output};
use std::time::Duration;

use crate::common::Server;
use tollgate_resp_api::{Password, RespSettings};

fn guarded() -> Server {
    Server::start(RespSettings { password: Some(Password::new("s3cret")), ..RespSettings::default() })
}

/// Output of a program, or `None` where there is no such program.
fn run(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            println!("SKIPPED {program} is not here");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn redis_cli_speaks_both_versions_without_noise() {
    let server = guarded();
    let port = server.address.port().to_string();
    for (version, arguments, want) in [
        ("-2", &["PING"][..], "PONG\n"),
        ("-3", &["PING"], "PONG\n"),
        (
            "-2",
            &["cl.throttle", "a b", "0", "1", "60"],
            "1) (integer) 0\n2) (integer) 1\n3) (integer) 0\n4) (integer) -1\n5) (integer) 60\n",
        ),
        (
            "-3",
            &["cl.throttle", "a b", "0", "1", "60"],
            "1) (integer) 1\n2) (integer) 1\n3) (integer) 0\n4) (integer) 60\n5) (integer) 60\n",
        ),
        ("-2", &["COMMAND", "COUNT"], "(integer) 17\n"),
        ("-2", &["CONFIG", "GET", "save"], "1) \"save\"\n2) \"\"\n"),
        ("-3", &["CONFIG", "GET", "save"], "1# \"save\" => \"\"\n"),
        (
            "-3",
            &["TOLLGATE.CHECK", "x", "y", "z", "COST", "0"],
            "1) (integer) 0\n2) (integer) -1\n3) (integer) -1\n4) (integer) -1\n5) (integer) 0\n6) (nil)\n",
        ),
    ] {
        let all = [
            &["-p", &port, "--user", "default", "-a", "s3cret", "--no-auth-warning", "--no-raw", version][..],
            arguments,
        ]
        .concat();
        let Some(output) = run("redis-cli", &all) else { return };
        assert_eq!(
            (text(&output.stdout), text(&output.stderr)),
            (want.to_owned(), String::new()),
            "{arguments:?}"
        );
    }
    let output = run("redis-cli", &["-p", &port, "-a", "wrong", "PING"]).expect("it was here");
    assert!(text(&output.stderr).contains("WRONGPASS"), "{output:?}");
    // It asks for the commands' descriptions when it is used by hand.
    let output =
        run("redis-cli", &["-p", &port, "-a", "s3cret", "-3", "--json", "COMMAND", "DOCS", "tollgate.check"]);
    let docs = text(&output.expect("it was here").stdout);
    assert!(docs.contains(r#""token":"COST""#) && docs.contains(r#""flags":["optional"]"#), "{docs}");
}

#[test]
fn redis_cli_sends_a_file_of_commands_at_once() {
    let server = Server::start(RespSettings::default());
    let script = format!(
        "for i in $(seq 20000); do echo \"CL.THROTTLE key 99999 1 1\"; done | redis-cli -p {} --pipe",
        server.address.port()
    );
    if run("redis-cli", &["--version"]).is_none() {
        return;
    }
    let output = run("sh", &["-c", &script]).expect("a shell");
    assert!(text(&output.stdout).contains("errors: 0, replies: 20000"), "{output:?}");
    assert_eq!(server.api.stats().admitted(), 20_000);
}

#[test]
fn redis_benchmark_runs_with_and_without_pipelining() {
    let server = guarded();
    let port = server.address.port().to_string();
    for depth in ["1", "16", "64"] {
        let arguments = [
            "-p",
            &port,
            "-a",
            "s3cret",
            "-q",
            "-c",
            "50",
            "-n",
            "20000",
            "-r",
            "1000",
            "-P",
            depth,
            "CL.THROTTLE",
            "key:__rand_int__",
            "10",
            "100",
            "60",
        ];
        let Some(output) = run("redis-benchmark", &arguments) else { return };
        let said = text(&output.stdout);
        let noise = text(&output.stderr);
        assert!(output.status.success() && said.contains("requests per second"), "{said} {noise}");
        assert!(!noise.contains("WARNING") && !said.contains("rror"), "{said} {noise}");
    }
    let stats = server.api.stats();
    // Whole pipelines only.
    assert!((60_000..60_128).contains(&(stats.admitted() + stats.denied())));
    assert_eq!(stats.protocol_errors(), 0);
}

#[tokio::test]
async fn the_redis_crate_asks_alone_and_in_pipelines() {
    for query in ["", "?protocol=resp3"] {
        let server = guarded();
        let url = format!("redis://:s3cret@{}/0{query}", server.address);
        let client = redis::Client::open(url).expect("a URL");
        let mut connection = client.get_multiplexed_async_connection().await.expect("it connects");
        let mut ask = redis::cmd("CL.THROTTLE");
        ask.arg("ann").arg(2).arg(30).arg(60);
        let reply: [i64; 5] = ask.query_async(&mut connection).await.expect("a reply");
        assert_eq!(reply, [0, 3, 2, -1, 2]);
        server.advance_ms(2_000);
        let mut pipeline = redis::pipe();
        for _ in 0..1_000 {
            pipeline.add_command(ask.clone());
        }
        let replies: Vec<Vec<i64>> = pipeline.query_async(&mut connection).await.expect("replies");
        assert_eq!(replies.len(), 1_000);
        assert_eq!(replies.iter().filter(|reply| reply[0] == 0).count(), 3);
        assert_eq!(replies[999], [1, 3, 0, 2, 6]);
        let (_, _, _, _, _, rule): (i64, i64, i64, i64, i64, Option<String>) = redis::cmd("TOLLGATE.CHECK")
            .arg(&["shop", "user", "ann"])
            .query_async(&mut connection)
            .await
            .expect("a reply");
        assert_eq!(rule.as_deref(), Some("user"));
        let info: redis::InfoDict = redis::cmd("INFO").query_async(&mut connection).await.expect("a reply");
        assert_eq!(info.get::<String>("redis_mode").as_deref(), Some("standalone"));
        let error = redis::cmd("GET")
            .arg("x")
            .query_async::<String>(&mut connection)
            .await
            .expect_err("no such command");
        assert!(error.to_string().contains("unknown command 'GET'"), "{error}");
    }
}

#[tokio::test]
async fn the_redis_crate_is_answered_that_its_password_is_wrong() {
    let server = guarded();
    for url in ["redis://{}/", "redis://:wrong@{}/", "redis://root:s3cret@{}/"] {
        let client = redis::Client::open(url.replace("{}", &server.address.to_string())).expect("a URL");
        let answer = match client.get_multiplexed_async_connection().await {
            Ok(mut connection) => redis::cmd("PING").query_async::<String>(&mut connection).await,
            Err(error) => Err(error),
        };
        let error = answer.expect_err("it must not get in");
        assert!(
            matches!(
                error.kind(),
                redis::ErrorKind::AuthenticationFailed
                    | redis::ErrorKind::Server(_)
                    | redis::ErrorKind::Extension
            ),
            "{error:?}"
        );
    }
    assert_eq!(server.api.guesses().wrong(), 2);
}

const PYTHON: &str = r#"
import sys, redis
port = int(sys.argv[1])
for protocol in (2, 3):
    client = redis.Redis(port=port, password="s3cret", protocol=protocol, client_name="python", decode_responses=True)
    assert client.ping()
    assert client.client_getname() == "python", client.client_getname()
    assert client.echo("hello") == "hello"
    key = f"ann-{protocol}"
    assert client.execute_command("CL.THROTTLE", key, 2, 30, 60) == [0, 3, 2, -1, 2]
    with client.pipeline(transaction=False) as pipe:
        for _ in range(1000):
            pipe.execute_command("CL.THROTTLE", key, 2, 30, 60)
        replies = pipe.execute()
    assert [reply[0] for reply in replies] == [0, 0] + [1] * 998
    assert client.execute_command("TOLLGATE.CHECK", "shop", "用户", key)[5] == "用户"
    assert client.info()["redis_mode"] == "standalone"
    assert client.info("stats")["protocol_errors"] == 0
    assert "cl.throttle" in client.command()
    assert client.command_count() == 17
    assert client.config_get("save") == {"save": ""}
    try:
        client.execute_command("CL.THROTTLE", key)
        raise SystemExit("no error")
    except redis.exceptions.ResponseError as error:
        assert str(error) == "wrong number of arguments for 'cl.throttle' command", error
    client.close()
for password in (None, "wrong"):
    try:
        redis.Redis(port=port, password=password).ping()
        raise SystemExit("a stranger got in")
    except redis.exceptions.AuthenticationError:
        pass
print("well")
"#;

#[test]
fn pythons_redis_speaks_both_versions() {
    let Ok(python) = std::env::var("TOLLGATE_TEST_PYTHON") else {
        return println!(
            "SKIPPED TOLLGATE_TEST_PYTHON names no Python with the package `redis`; ./test makes one"
        );
    };
    let server = guarded();
    let port = server.address.port().to_string();
    let Some(output) = run(&python, &["-c", PYTHON, &port]) else { return };
    assert_eq!(text(&output.stdout), "well\n", "{}", text(&output.stderr));
}

#[test]
fn the_examples_of_the_page_are_true() {
    let page = include_str!("../../../../../docs/resp.md");
    let server = Server::start(RespSettings::default());
    let port = server.address.port().to_string();
    let mut examples = 0;
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("a block ends");
        for example in block.split("$ ").skip(1) {
            let (line, want) = example.split_once('\n').expect("a line ends");
            if let Some(seconds) = line.strip_prefix("sleep ") {
                server.clock.advance(Duration::from_secs(seconds.parse().expect("seconds")));
                continue;
            }
            let words = line.strip_prefix("redis-cli -p 6390 ").expect("all examples are redis-cli's");
            let arguments: Vec<&str> =
                ["-p", &port, "--no-raw"].into_iter().chain(words.split(' ')).collect();
            let Some(output) = run("redis-cli", &arguments) else { return };
            let said = text(&output.stdout);
            assert_eq!(said.trim_end(), want.trim_end(), "{line}");
            examples += 1;
        }
    }
    assert!(examples > 15, "{examples}");
}
