//! The commands of `docs/http.md` do what the page says.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]
#![allow(clippy::print_stdout, reason = "the line SKIPPED")]

use std::process::{Command, Stdio};

use crate::common::Server;
use tollgate_http_api::HttpSettings;

/// The commands of the `console` blocks, each with what the page says it prints.
fn examples() -> Vec<(String, String)> {
    let page = std::fs::read_to_string("../../../docs/http.md").expect("the page");
    let mut examples: Vec<(String, String)> = Vec::new();
    for block in page.split("```console\n").skip(1) {
        let block = block.split("```").next().expect("an end");
        for example in block.split("$ ").skip(1) {
            // A command continues while a quote is open.
            let mut end = 0;
            for line in example.split_inclusive('\n') {
                end += line.len();
                if example[..end].matches('\'').count() % 2 == 0 {
                    break;
                }
            }
            let (command, printed) = example.split_at(end);
            examples.push((command.trim_end().to_owned(), printed.trim_end().to_owned()));
        }
    }
    examples
}

/// Whether `printed` is `said`, in which `…` means anything.
fn is_as_said(printed: &str, said: &str) -> bool {
    let printed = printed.replace('\r', "");
    let mut rest = printed.trim_end();
    let parts: Vec<&str> = said.split('…').map(|part| part.trim_matches('\n')).collect();
    let Some(((first, last), between)) =
        parts.split_first().and_then(|(first, rest)| Some(((first, rest.last()?), &rest[..rest.len() - 1])))
    else {
        return rest == said;
    };
    rest = match rest.strip_prefix(first).and_then(|rest| rest.strip_suffix(last)) {
        Some(rest) => rest,
        None => return false,
    };
    between.iter().all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_command_of_the_page_prints_what_the_page_says() {
    let curl = Command::new("curl").arg("--version").stdout(Stdio::piped()).output();
    let version = curl.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    if !version.starts_with("curl ") {
        println!("SKIPPED the page's commands: there is no curl");
        return;
    }
    let server = Server::of_folder("../../../examples/rules").await;
    let examples = examples();
    assert!(examples.len() >= 11, "the page has lost its examples");
    for (command, said) in examples {
        let command = command.replace("localhost:8080", &server.address.to_string());
        let output = tokio::task::spawn_blocking({
            let command = command.clone();
            move || Command::new("sh").args(["-c", &command]).output().expect("a shell")
        });
        let output = output.await.expect("it ran");
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(is_as_said(&printed, &said), "$ {command}\n{printed}\nis not\n{said}");
    }
}

/// The program of the page in this language. A busy machine must not be taken for a silent Tollgate.
fn program(language: &str, timeout: [&str; 2], address: &str) -> String {
    let page = std::fs::read_to_string("../../../docs/http.md").expect("the page");
    let (_, block) = page.split_once(&format!("```{language}\n")).expect("it is there");
    let (text, _) = block.split_once("```").expect("an end");
    let [short, long] = timeout;
    assert!(text.contains("127.0.0.1:8080") && text.contains(short), "{text}");
    text.replace("127.0.0.1:8080", address).replace(short, long)
}

/// Output of a program, or `None` if this machine cannot run it.
async fn printed(command: &str, args: &[&str], program: String) -> Option<String> {
    let mut run = Command::new(command);
    run.args(args).arg(program);
    let output = tokio::task::spawn_blocking(move || run.output()).await.expect("it ran");
    let output = match output {
        Ok(output) => output,
        Err(error) => {
            println!("SKIPPED the page's {command} program: {error}");
            return None;
        }
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_programs_of_the_page_admit_deny_and_admit_without_a_server() {
    let rules =
        "domain: shop\ndescriptors:\n  - {key: api_key, rate_limit: {unit: minute, requests_per_unit: 2}}\n";
    // Nothing listens there any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a port");
    // The clock of the server is at 20 s of its minute.
    let deny = "[true, 0]\n[true, 0]\n[false, 40000]\n";
    let admit = "[true, 0]\n[true, 0]\n[true, 0]\n";
    for (is_up, want) in [(true, deny), (false, admit)] {
        let server = Server::start(rules, HttpSettings::default()).await;
        let address = if is_up { server.address } else { closed }.to_string();
        let python = program("python", ["timeout=0.2", "timeout=60"], &address)
            + "for _ in range(3):\n    print(json.dumps(check('a \"k\\u2028y\"')))\n";
        if let Some(printed) = printed("python3", &["-c"], python).await {
            assert_eq!(printed, want, "Python");
        }
        let node = program("javascript", ["timeout(200)", "timeout(60000)"], &address)
            + "(async () => { for (let i = 0; i < 3; i++) { const { admitted, retryAfterMs } = await check('b \"k\\u2028y\"');\n\
               console.log(`[${admitted}, ${retryAfterMs}]`); } })();\n";
        if let Some(printed) = printed("node", &["-e"], node).await {
            assert_eq!(printed, want, "JavaScript");
        }
    }
}
