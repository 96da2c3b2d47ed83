//! `tollgate top` in a pseudo-terminal of 80 by 24, read as a terminal reads it.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::rls::{self, Client, PATIENCE};
use crate::start::rules;
use crate::tollgate::{Start, Tollgate, binary, run};

const RULES: &str = "
domain: shop
descriptors:
  - key: api_key
    rate_limit: {unit: year, requests_per_unit: 3}
  - key: remote_address
    rate_limit: {unit: year, requests_per_unit: 1000}
";

/// A program on a terminal of its own, and its screen.
struct Shown {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<vt100::Parser>>,
}

impl Shown {
    fn start(args: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("a size");
        let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("text");
        let end = || Stdio::from(File::options().read(true).write(true).open(&name).expect("it opens"));
        let child = Command::new(binary())
            .env_clear()
            .env("TERM", "xterm-256color")
            .args(args)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .expect("it can be started");
        let keyboard = File::from(master);
        let screen = Arc::new(Mutex::new(vt100::Parser::new(24, 80, 0)));
        let mut output = keyboard.try_clone().expect("a copy");
        let seen = screen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                seen.lock().process(&bytes[..count]);
            }
        });
        Self { child, keyboard, screen }
    }

    fn text(&self) -> String {
        self.screen.lock().screen().contents()
    }

    /// Waits until all of `parts` are on the screen at once.
    async fn await_all(&self, parts: &[&str]) {
        let all = |screen: &vt100::Screen| parts.iter().all(|part| screen.contents().contains(part));
        self.await_that(&format!("all of {parts:?}"), all).await;
    }

    /// Waits until the screen is as `wanted`: output, also of a program that has ended, is read a moment
    /// later.
    async fn await_that(&self, what: &str, wanted: impl Fn(&vt100::Screen) -> bool) {
        let is_so = || wanted(self.screen.lock().screen());
        let so = async {
            while !is_so() {
                tokio::time::sleep(Duration::from_millis(20)).await; // between two looks; what decides is what is seen
            }
        };
        let seen = tokio::time::timeout(PATIENCE, so).await;
        assert!(seen.is_ok(), "never {what} in\n{}", self.text());
    }

    /// Waits for its end.
    fn wait(&mut self) -> ExitStatus {
        tokio::task::block_in_place(|| self.child.wait()).expect("it was started")
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("it is read");
    }
}

impl Drop for Shown {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// Ten requests each of two clients, of which three pass.
async fn knock(server: &Tollgate) {
    let mut client = Client::connect(server.grpc).await.expect("it listens");
    for _ in 0..10 {
        for name in ["mallory", "eve"] {
            client.admits(rls::hit("shop", "api_key", name)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn top_shows_who_is_limited_on_80_by_24_and_gives_the_terminal_back() {
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    knock(&server).await;
    let mut top = Shown::start(&["top", "--target", &format!("http://{}", server.http), "--every-ms", "100"]);
    top.await_all(&["ready", "2 loaded", "shop: api_key", "shop: remote_address"]).await;
    top.await_all(&["most limited by shop: api_key (3 per year", "mallory", "eve", "q quit"]).await;
    assert!(top.screen.lock().screen().alternate_screen());
    // Another rule, another column, a pause, and out.
    top.press("j");
    top.await_all(&["most limited by shop: remote_address", "no key yet"]).await;
    top.press("s");
    top.await_all(&["sort (by decisions/s)"]).await;
    top.press("p");
    top.await_all(&["paused"]).await;
    top.press("pq");
    let status = top.wait();
    assert!(status.success(), "{status}");
    top.await_that("the terminal given back, and the cursor", |screen| {
        !screen.alternate_screen() && !screen.hide_cursor()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn top_says_so_when_the_server_goes_and_comes_back_to_it() {
    let rules = rules(RULES);
    let mut server = Tollgate::start(rules.path());
    let mut top = Shown::start(&["top", "--target", &format!("http://{}", server.http), "--every-ms", "100"]);
    top.await_all(&["ready"]).await;
    let at = server.http;
    server.kill();
    top.await_all(&["no response:"]).await;
    let server = Start::new(rules.path()).http(at).go();
    knock(&server).await;
    top.await_all(&["ready", "mallory"]).await;
    top.await_that("without the error", |screen| !screen.contents().contains("no response:")).await;
    top.press("q");
    assert!(top.wait().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn top_once_prints_text_and_a_wrong_address_is_reported() {
    let rules = rules(RULES);
    let server = Tollgate::start(rules.path());
    knock(&server).await;
    let at = format!("http://{}", server.http);
    let (status, text, talk) =
        tokio::task::block_in_place(|| run(&["top", "--once", "--every-ms", "100", "--target", &at]));
    assert!(status.success(), "{talk}");
    assert!(text.contains("shop: api_key") && text.contains("mallory"), "{text}");
    drop(server);
    let (status, _, talk) = tokio::task::block_in_place(|| run(&["top", "--target", &at]));
    assert_eq!(status.code(), Some(2));
    assert!(talk.contains("terminal") || talk.contains("no response from"), "{talk}");
    let (status, _, talk) = tokio::task::block_in_place(|| run(&["top", "--once", "--target", &at]));
    assert_eq!(status.code(), Some(2));
    assert!(talk.contains("no response from") && talk.contains("tollgate serve"), "{talk}");
}
