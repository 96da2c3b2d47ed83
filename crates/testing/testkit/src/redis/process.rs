//! A child process with its folder, and waiting without a clock.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

/// Attempts of [`poll`], 10 ms apart: longer than anything takes on a busy machine.
const PATIENCE: u32 = 30_000;

/// Asks every 10 ms until there is an answer; panics after about five minutes without one, and names `what`.
///
/// # Panics
/// When there is no answer in time.
pub fn poll<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    for _ in 0..PATIENCE {
        if let Some(answer) = ask() {
            return answer;
        }
        std::thread::park_timeout(Duration::from_millis(10));
    }
    panic!("waited too long for {what}");
}

/// A port of 127.0.0.1 that nothing listens on. It is below those that the kernel gives to clients, so that
/// no client takes it while a killed server is to come back, and a client of a dead server never connects to
/// itself.
///
/// # Panics
/// When none of a thousand is free.
#[must_use]
pub fn free_port() -> u16 {
    let free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    let random = |_| 10_000 + (RandomState::new().build_hasher().finish() % 20_000) as u16;
    (0..1000).map(random).find(free).expect("a free port")
}

/// Whether a program can be started; prints `SKIPPED` with the reason where not.
pub(super) fn have(program: &str) -> bool {
    let found =
        Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        println!("SKIPPED {program} is not installed");
    }
    found
}

/// A program that runs, or ran, in a folder of its own.
#[derive(Debug)]
pub(super) struct Process {
    child: Option<Child>,
    folder: TempDir,
}

impl Process {
    pub(super) fn new() -> Self {
        Self { child: None, folder: tempfile::tempdir().expect("a folder") }
    }

    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn log_file(&self) -> PathBuf {
        self.folder().join("log")
    }

    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    /// Starts a program, with its output appended to the log.
    pub(super) fn spawn(&mut self, program: &str, args: &[&str]) {
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.log_file()).expect("a log");
        let child = Command::new(program)
            .args(args)
            .current_dir(self.folder())
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a log"))
            .stderr(log)
            .spawn();
        self.child = Some(child.expect("it can be started"));
    }

    /// Whether it was started and has not ended.
    pub(super) fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.try_wait().is_ok_and(|ended| ended.is_none()))
    }

    /// SIGSTOP. It answers nothing more when this returns: every thread of it has stopped by then.
    pub(super) fn stop(&self) {
        self.signal(Signal::STOP);
        let id = self.child.as_ref().map_or(0, Child::id);
        let threads = || std::fs::read_dir(format!("/proc/{id}/task")).ok();
        let has_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
            Some(stat.rsplit_once(") ")?.1.starts_with('T'))
        };
        let have_stopped = || threads()?.all(|thread| has_stopped(thread).unwrap_or(true)).then_some(());
        poll("a process to stop", have_stopped);
    }

    pub(super) fn signal(&self, signal: Signal) {
        let child = self.child.as_ref().expect("it runs");
        kill_process(Pid::from_child(child), signal).expect("it runs");
    }

    /// SIGKILL, whatever it is doing; returns when it has ended. Nothing where it does not run.
    pub(super) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().ok();
            child.wait().ok();
        }
    }

    /// SIGTERM: it ends as it is meant to; returns when it has.
    pub(super) fn terminate(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill_process(Pid::from_child(&child), Signal::TERM).ok();
            child.wait().ok();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            let log = self.log();
            let tail: Vec<_> = log.lines().rev().take(20).collect();
            println!("the end of the log in {}:", self.folder().display());
            tail.iter().rev().for_each(|line| println!("  {line}"));
        }
    }
}
