//! The commands of `docs/control-api.md` do what the page says.

use tollgate_harness::console::{ConsoleClient, ConsoleServer};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_about_the_api_do_what_it_says() {
    let server = ConsoleServer::start().await;
    ConsoleClient::admin(&server).await;
    let page = include_str!("../../../../../docs/control-api.md");
    let blocks: Vec<&str> = page.split("```sh\n").skip(1).filter_map(|it| it.split("\n```").next()).collect();
    assert!(blocks.len() >= 5);
    let script = format!("set -euo pipefail\n{}\n", blocks.join("\n"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut bash = std::process::Command::new("bash");
    bash.arg("-c").arg(script).current_dir(folder.path());
    bash.env("CONTROL", server.url()).env("PASSWORD", "correct horse battery");
    let ran = tokio::task::spawn_blocking(move || bash.output()).await.expect("waited");
    let ran = match ran {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: bash is not installed");
            return;
        }
        ran => ran.expect("bash ran"),
    };
    let out = String::from_utf8_lossy(&ran.stdout);
    let err = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{}\n{out}\n{err}", ran.status);
}
