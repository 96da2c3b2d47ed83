//! One run of h2load against one server.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};

use super::servers::GrpcServer;
use crate::process::pinned;

pub(crate) struct Load<'a> {
    pub(crate) server: &'a GrpcServer,
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) folder: &'a Path,
}

impl Load<'_> {
    /// Requests a second over `count` requests, every one answered with HTTP 200.
    pub(crate) fn rate(&self, count: usize) -> anyhow::Result<f64> {
        let talk = self.run(count, None)?;
        let line =
            talk.lines().find(|line| line.starts_with("finished in")).context("no result from h2load")?;
        let rate = line.split(", ").nth(1).and_then(|part| part.strip_suffix(" req/s"));
        Ok(rate.context("no rate from h2load")?.parse()?)
    }

    /// The median and the 99th percentile in µs.
    pub(crate) fn latency(&self, count: usize) -> anyhow::Result<(f64, f64)> {
        let log = self.folder.join("latency.log");
        // h2load appends to its log, so begin with an empty one.
        std::fs::write(&log, "")?;
        self.run(count, Some(&log))?;
        let text = std::fs::read_to_string(&log)?;
        let mut took: Vec<u32> =
            text.lines().filter_map(|line| line.split('\t').nth(2)?.parse().ok()).collect();
        ensure!(!took.is_empty(), "h2load logged no request");
        took.sort_unstable();
        let at = |share: f64| f64::from(took[((took.len() - 1) as f64 * share) as usize]);
        Ok((at(0.5), at(0.99)))
    }

    fn run(&self, count: usize, log: Option<&Path>) -> anyhow::Result<String> {
        let body = self.folder.join(format!("{}.body", self.server.process.port));
        std::fs::write(&body, &self.server.body)?;
        let mut load = pinned(1, Path::new("h2load"));
        load.arg(format!("--requests={count}"));
        load.arg(format!("--clients={}", self.connections))
            .arg(format!("--max-concurrent-streams={}", self.streams));
        load.arg("--data").arg(&body);
        load.args(["--header=content-type: application/grpc", "--header=te: trailers"]);
        if let Some(log) = log {
            load.arg(format!("--log-file={}", log.display()));
        }
        load.arg(format!("http://127.0.0.1:{}{}", self.server.process.port, self.server.path));
        let output = output_of(load)?;
        let answered = format!("{count} 2xx");
        ensure!(
            output.contains(&answered),
            "{}: not every request was answered:\n{output}",
            self.server.name
        );
        Ok(output)
    }
}

fn output_of(mut command: Command) -> anyhow::Result<String> {
    let output = command.output().context("h2load is not installed (package nghttp2-client)")?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    Ok(text)
}
