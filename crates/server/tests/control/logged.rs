//! A process that writes into a file, so that its output need not be read while it runs.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tollgate_harness::processes::wait;

/// A process whose output is kept in a file: all of it, from the first line to the last.
pub(crate) struct Logged {
    pub(crate) child: Child,
    log: PathBuf,
}

impl Logged {
    pub(crate) fn start(mut command: Command, log: PathBuf) -> Self {
        let file = File::create(&log).expect("a file");
        let other = file.try_clone().expect("a file");
        let child = command.stdout(Stdio::from(file)).stderr(Stdio::from(other)).spawn().expect("it starts");
        let started = Self { child, log };
        wait("it is ready", || started.said().contains("  ready\n").then_some(()));
        started
    }

    pub(crate) fn said(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.log).expect("its output")).into_owned()
    }

    pub(crate) fn says(&self, word: &str) -> String {
        let said = self.said();
        let line = said.lines().find_map(|line| line.trim_start().strip_prefix(word)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {word} in {said}")).trim().to_owned()
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
