//! A control plane as a process, with a history; and a client that is logged in.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use serde_json::{Value, json};
use tollgate_control::{Control, KnownNodes, Origin};
use tollgate_core::Timestamp;
use tollgate_db::TimeSource;
use tollgate_fleet_proto::{Report, RuleCounts, TopKey};
use ureq::Agent;

use super::milliseconds;
use super::time::{now, pause};
use crate::process::{Process, free_port};
use crate::stopwatch::timed;

/// Attempts of a wait, 10 ms apart; only a hang takes as many.
const LOOKS: usize = 60_000;
const PASSWORD: &str = "correct horse battery";

/// Credentials made before the first start of a control plane: a session cookie and the token file of nodes.
pub(crate) struct Prepared {
    cookie: String,
    token_file: PathBuf,
}

/// Makes the first user, a token for nodes, and a history of this many hours.
pub(crate) fn prepare(folder: &Path, hours: u64, top_keys: u64) -> anyhow::Result<Prepared> {
    let data = folder.join("data");
    std::fs::create_dir(&data)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let control = Control::open(&data, TimeSource::Database, Arc::new(KnownNodes::default())).await?;
        let from = Origin { ip: "127.0.0.1", agent: "", request_id: "" };
        let code = control.setup_code().await?.context("a new folder")?;
        let cookie = control.set_up(from, &code, "ann", PASSWORD, PASSWORD).await?;
        let token = control.first_node_token().await?.context("a new folder")?;
        let token_file = folder.join("token");
        std::fs::write(&token_file, token)?;
        record(&control, hours, top_keys).await?;
        Ok(Prepared { cookie, token_file })
    })
}

/// Reports of one node, a minute each, which end now.
async fn record(control: &Control, hours: u64, top_keys: u64) -> anyhow::Result<()> {
    const RULES: usize = 100;
    let now_ms = control.read(|tx| Ok(tx.now_ms())).await?;
    let minutes = hours * 60;
    let a_minute = top_keys.div_ceil(minutes);
    let rule = |rule: usize| RuleCounts {
        domain: super::app_name(0),
        rule: format!("key=k{rule}"),
        admitted: 6_000 + rule as u64,
        denied: 60,
        ..RuleCounts::default()
    };
    let key = |key: u64| TopKey {
        domain: super::app_name(0),
        rule: "key=k0".to_owned(),
        key: format!("client-{key}"),
        denied: 10 + key % 7,
    };
    for minute in 0..minutes {
        let report = Report {
            sequence: minute + 1,
            age_ms: (minutes - minute - 1) * 60_000,
            span_ms: 60_000,
            rules: (0..RULES).map(rule).collect(),
            top: (minute * a_minute..(minute + 1) * a_minute).map(key).collect(),
            ..Report::default()
        };
        let stored = control.store_report("recorded", 1, report, now_ms);
        let (stored, written) = tokio::join!(stored, control.write_reports());
        stored?;
        written?;
    }
    Ok(())
}

/// A running control plane process.
pub(crate) struct Plane {
    process: Process,
    cookie: String,
    pub(crate) token_file: PathBuf,
}

impl Plane {
    pub(crate) fn start(binary: &Path, folder: &Path, prepared: &Prepared) -> anyhow::Result<Self> {
        let process = Process::start(|port| {
            let mut command = Command::new(binary);
            command.args(["control", "--listen", &format!("127.0.0.1:{port}"), "--data-dir"]);
            command.arg(folder.join("data"));
            command.args(["--node-wait", "0s"]); // for nodes of the history, which do not come back
            Ok(command)
        })?;
        let cookie = prepared.cookie.clone();
        let token_file = prepared.token_file.clone();
        Ok(Self { process, cookie, token_file })
    }

    /// The base URL.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.process.port)
    }

    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        self.process.cpu_seconds()
    }

    pub(crate) fn resident_mib(&self) -> anyhow::Result<f64> {
        self.process.resident_mib()
    }

    /// A client with connections of its own.
    pub(crate) fn client(&self) -> ConsoleClient {
        let config = Agent::config_builder().http_status_as_error(false).max_redirects(0);
        ConsoleClient {
            url: self.url(),
            cookie: format!("tollgate={}", self.cookie),
            agent: config.build().into(),
        }
    }

    /// A real node that attaches to it.
    pub(crate) fn node(&self, binary: &Path, state: &Path) -> anyhow::Result<Process> {
        Process::start_on(free_port()?, |port| {
            let mut command = Command::new(binary);
            command.args(["serve", "--grpc", "off", "--resp", "off", "--workers", "1"]);
            command.args(["--http", &format!("127.0.0.1:{port}"), "--control", &self.url()]);
            command.arg("--control-token-file").arg(&self.token_file).arg("--state-dir").arg(state);
            Ok(command)
        })
    }
}

/// A client that is logged in.
pub(crate) struct ConsoleClient {
    url: String,
    cookie: String,
    agent: Agent,
}

struct ConsoleReply {
    etag: String,
    body: String,
}

impl ConsoleClient {
    fn ask(
        &self,
        method: &str,
        path: &str,
        etag: &str,
        body: Option<(&str, &str)>,
    ) -> anyhow::Result<ConsoleReply> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("cookie", &self.cookie)
            .header("accept-language", "en");
        if !etag.is_empty() {
            request = request.header("if-match", etag);
        }
        let (kind, body) = body.unwrap_or_default();
        if !kind.is_empty() {
            request = request.header("content-type", kind);
        }
        let mut reply = self.agent.run(request.body(body.to_owned())?)?;
        let etag = reply.headers().get("etag").and_then(|it| it.to_str().ok()).unwrap_or_default().to_owned();
        let status = reply.status();
        let body = reply.body_mut().with_config().limit(256 << 20).read_to_string()?;
        ensure!(status.is_success(), "{method} {path}: {status} {body}");
        Ok(ConsoleReply { etag, body })
    }

    fn value(&self, path: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(&self.ask("GET", path, "", None)?.body)?)
    }

    /// Duration of a request, in ms.
    pub(crate) fn time(&self, method: &str, path: &str, body: Option<(&str, &str)>) -> anyhow::Result<f64> {
        let (reply, took) = timed(|| self.ask(method, path, "", body));
        reply.map(|_| milliseconds(took))
    }

    /// Makes `app` have this many rules: `k0`, `k1` and so on.
    pub(crate) fn import(&self, app: &str, rules: usize) -> anyhow::Result<()> {
        let mut yaml = format!("tollgate: 1\napp: \"{app}\"\ncar:\n");
        for rule in 0..rules {
            yaml += &format!("  - key: \"k{rule}\"\n    rate: 10\n    max_permits: 10\n");
        }
        self.ask("POST", "/api/v1/import", "", Some(("application/yaml", &yaml)))?;
        Ok(())
    }

    /// Adds a rule that denies all but one request a second.
    pub(crate) fn create(&self, app: &str, key: &str) -> anyhow::Result<()> {
        let body = json!({"key": key, "rate": 1, "max_permits": 1}).to_string();
        let path = format!("/api/v1/apps/{app}/rules");
        self.ask("POST", &path, "", Some(("application/json", &body))).map(|_| ())
    }

    /// Sets the rate of a rule. Returns when it was sent, and how long it took, in ms.
    pub(crate) fn change(&self, app: &str, key: &str, rate: usize) -> anyhow::Result<(Timestamp, f64)> {
        let path = format!("/api/v1/apps/{app}/rules/{key}");
        let etag = self.ask("GET", &path, "", None)?.etag;
        let body = json!({"key": key, "rate": rate, "max_permits": rate}).to_string();
        let clicked = now();
        self.ask("PUT", &path, &etag, Some(("application/json", &body)))?;
        Ok((clicked, milliseconds(now().since(clicked))))
    }

    /// The time of the control plane, in ms.
    pub(crate) fn now_ms(&self) -> anyhow::Result<i64> {
        let newest = self.value("/api/v1/apps/many/versions?limit=1")?;
        newest["versions"][0]["created_at"].as_i64().context("a version with its time")
    }

    /// Waits until all of these are lines of the metrics.
    pub(crate) fn wait_for_metrics(&self, lines: &[&str]) -> anyhow::Result<()> {
        for _ in 0..LOOKS {
            let metrics = self.ask("GET", "/metrics", "", None)?.body;
            if lines.iter().all(|line| metrics.lines().any(|it| it == *line)) {
                return Ok(());
            }
            pause(std::time::Duration::from_millis(10));
        }
        anyhow::bail!("the metrics never were {lines:?}")
    }
}

/// Waits until a node applies a rule to this key. Returns when it did.
pub(crate) fn wait_in_force(port: u16, domain: &str, key: &str) -> anyhow::Result<Timestamp> {
    let agent: Agent = Agent::config_builder().http_status_as_error(false).build().into();
    let url = format!("http://127.0.0.1:{port}/v1/check?domain={domain}&entry=key={key}");
    for _ in 0..LOOKS {
        let body = agent.get(&url).call()?.body_mut().read_to_string()?;
        if !body.contains("\"rule\":null") {
            return Ok(now());
        }
        pause(std::time::Duration::from_micros(500));
    }
    anyhow::bail!("{key} never was limited on port {port}")
}
