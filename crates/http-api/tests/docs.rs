//! The commands of `docs/http.md` do what the page says.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

mod common;

use std::process::{Command, Stdio};

use common::Server;

/// The commands of the `console` blocks, each with what the page says it prints.
fn examples() -> Vec<(String, String)> {
    let page = std::fs::read_to_string("../../docs/http.md").expect("the page");
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
    let server = Server::of_folder("../../examples/rules").await;
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
