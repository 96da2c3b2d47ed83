//! A memcached server.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use rustix::process::Signal;

use super::process::{Process, free_port, have, poll};

/// A memcached on a port of 127.0.0.1, which stays the same through all its lives.
#[derive(Debug)]
pub struct Memcached {
    process: Process,
    port: u16,
    args: Vec<String>,
}

impl Memcached {
    /// Starts one with 64 MB and waits until it answers. `None` where there is no `memcached`; a line
    /// `SKIPPED …` is printed then.
    #[must_use]
    pub fn start() -> Option<Self> {
        Self::start_with(&[])
    }

    /// The same with more arguments, such as `-m 1` for one MB.
    ///
    /// # Panics
    /// When it does not answer; the panic shows its output.
    #[must_use]
    pub fn start_with(args: &[&str]) -> Option<Self> {
        if !have("memcached") {
            return None;
        }
        let args: Vec<_> = args.iter().map(|&arg| arg.to_owned()).collect();
        for _ in 0..10 {
            let mut memcached = Self { process: Process::new(), port: free_port(), args: args.clone() };
            if memcached.spawn() {
                return Some(memcached);
            }
            let log = memcached.process.log();
            assert!(log.contains("Address already in use"), "memcached ended: {log}");
        }
        panic!("no free port in ten tries");
    }

    fn spawn(&mut self) -> bool {
        let port = self.port.to_string();
        let mut all = vec!["-l", "127.0.0.1", "-p", &port, "-U", "0"];
        if rustix::process::geteuid().is_root() {
            all.extend(["-u", "root"]);
        }
        all.extend(self.args.iter().map(String::as_str));
        self.process.spawn("memcached", &all);
        poll("memcached to answer", || {
            if !self.process.runs() {
                return Some(false);
            }
            self.ask("version").is_ok_and(|line| line.starts_with("VERSION")).then_some(true)
        })
    }

    fn ask(&self, command: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(self.address())?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        write!(stream, "{command}\r\n")?;
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    /// Sends one command line and returns the first line of the answer.
    ///
    /// # Panics
    /// When it does not answer.
    #[must_use]
    pub fn command(&self, command: &str) -> String {
        self.ask(command).expect("it answers")
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    /// `memcache://` with its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("memcache://{}", self.address())
    }

    /// SIGKILL; returns when it has ended.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// SIGSTOP: it answers nothing, its port stays open.
    ///
    /// # Panics
    /// When it does not run.
    pub fn stop(&self) {
        self.process.stop();
    }

    /// SIGCONT: it continues, with all that has arrived meanwhile.
    ///
    /// # Panics
    /// When it does not run.
    pub fn resume(&self) {
        self.process.signal(Signal::CONT);
    }

    /// Starts it anew on the same port, empty.
    ///
    /// # Panics
    /// When it does not answer again.
    pub fn start_again(&mut self) {
        self.process.kill();
        assert!(self.spawn(), "memcached ended: {}", self.process.log());
    }
}
