//! A node whose rules come from a control plane: the agent on a thread and a runtime of its own, so that no
//! worker waits for it.
//!
//! Rule files are watched beside it: the agent joins them with the rules of the control plane. Not here: the
//! protocol, commands and overrides (`fleet-agent`).

pub(crate) mod controlled;
mod local_files;
mod metrics;
mod store_health;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};
use tokio::time::timeout;
use tollgate_core::Clock;
use tollgate_fleet_agent::{
    AgentSettings, Apply, Endpoint, FollowApply, Parsed, Seams, Start, StateDir, Status, carry_out,
    put_in_force, rule_files_parser, run,
};
use tollgate_fleet_proto::Label;
use tollgate_limiter::follow::FollowSettings;
use tollgate_rule_files::{Options, RuleSet, read_files};
use tollgate_tls::{TlsClient, TlsClientFiles};

pub(crate) use self::controlled::Controlled;
use self::local_files::LocalFiles;
use crate::any_store::NodeLimiter;
use crate::folder_lock;
use crate::settings::{ControlAt, NodeControl, Settings};
use crate::worker::small_runtime;

/// Longest time to put saved rules in force.
const LONGEST_START: Duration = Duration::from_secs(60);

/// Starts the agent, and waits until saved rules are in force. Without any rules it waits for the first ones,
/// as long as `--control-wait` says.
///
/// # Errors
/// The part that cannot be used, and the remedy: the folder of the state, a certificate.
pub(crate) fn start(
    control: &NodeControl,
    rules: Option<&RuleSet>,
    options: &Options,
    settings: &Settings,
    limiter: &Arc<NodeLimiter>,
    clock: &Arc<dyn Clock>,
) -> Result<Controlled, String> {
    let folder = control.state_dir.display();
    let in_folder = |error: io::Error| {
        format!("state-dir {folder} cannot be used: {error}; give another folder by --state-dir")
    };
    let random = tollgate_control::secret().map_err(|error| error.to_string())?;
    let mut state_dir = StateDir::open(&control.state_dir).map_err(in_folder)?;
    let lock = folder_lock::lock(&control.state_dir).map_err(in_folder)?.ok_or_else(|| {
        let what = "is in use by another node; give each node a folder of its own by --state-dir";
        format!("state-dir {folder} {what}")
    })?;
    let mut secret = [0; 32];
    // Hexadecimal digits: 32 of them have 128 random bits.
    secret.copy_from_slice(&tollgate_control::secret().map_err(|error| error.to_string())?.as_bytes()[..32]);
    let identity = state_dir.identify(&random[..32], &secret).map_err(in_folder)?;
    let seed = u64::from_str_radix(&random[48..], 16).unwrap_or_default();
    let label = |(key, value): &(String, String)| Label { key: key.clone(), value: value.clone() };
    let labels = control.labels.iter().map(label).collect();
    let agent = AgentSettings::new(identity, control.name.clone().unwrap_or_else(host_name), labels, seed);
    let paths = &settings.rules.paths;
    // Files that cannot be used were reported already; the watcher supplies them once they are valid.
    let local = rules.and_then(|_| read_files(paths, settings.rules.dot_files).ok()).unwrap_or_default();
    let marker = state_dir.marker().map_err(in_folder)?;
    let saved = state_dir.load().map_err(in_folder)?;
    let start = Start { saved, marker, local };
    let endpoint = endpoint(control)?;
    let name = endpoint.uri.to_string();
    let follow = FollowSettings::default(); // the control plane guards against dropped rules
    let no_thread = |error: io::Error| format!("the system gives no thread: {error}");
    let apply = FollowApply::new(Arc::clone(limiter), Arc::clone(clock), follow).map_err(no_thread)?;
    let (to_agent, local_files) = mpsc::channel(1);
    let local = match paths.is_empty() {
        true => None,
        false => {
            let loaded = rules.map(|rules| rules.revision.clone());
            Some(LocalFiles::watch(paths, options, loaded, to_agent).map_err(no_thread)?)
        }
    };
    let (status, shown) = watch::channel(Status::default());
    let applied = Arc::new(Notify::new());
    let sampled = Arc::clone(limiter);
    let seams = Seams {
        clock: Arc::clone(clock),
        parser: rule_files_parser(*options),
        apply: Arc::new(Announced { apply, applied: Arc::clone(&applied) }),
        sample: store_health::sampler(sampled),
        overrides: put_in_force(Arc::clone(limiter), Arc::clone(clock)),
        judge: {
            let limiter = Arc::clone(limiter);
            let clock = Arc::clone(clock);
            Box::new(move |candidates| limiter.judge(candidates, clock.now()))
        },
        command: carry_out(Arc::clone(limiter), Arc::clone(clock)),
        local: local_files,
        status,
    };
    let (stop, stopped) = oneshot::channel();
    let runtime = small_runtime().map_err(no_thread)?;
    let thread = std::thread::Builder::new().name("control".into()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                () = run(agent, start, state_dir, endpoint, seams) => {}
                _ = stopped => {}
            }
        });
    });
    thread.map_err(no_thread)?;
    let controlled = Controlled { status: shown, local, name, _stop: stop, _lock: lock };
    let waiting = small_runtime().map_err(no_thread)?;
    waiting.block_on(wait(controlled.status(), &applied, limiter, control.wait));
    Ok(controlled)
}

/// Puts rules in force, and reports each time that it has.
struct Announced<A> {
    apply: A,
    applied: Arc<Notify>,
}

impl<A: Apply> Apply for Announced<A> {
    fn apply(&self, revision: &str, parsed: Parsed) -> Result<(), String> {
        let result = self.apply.apply(revision, parsed);
        self.applied.notify_one();
        result
    }
}

/// Waits for saved rules; and for the first ones, if there are none at all.
async fn wait(
    mut status: watch::Receiver<Status>,
    applied: &Notify,
    limiter: &NodeLimiter,
    patience: Duration,
) {
    let patience = tokio::time::sleep(patience);
    // An error: the agent's thread has ended, so nothing will start.
    if !matches!(timeout(LONGEST_START, status.wait_for(|shown| shown.started)).await, Ok(Ok(_))) {
        return;
    }
    let first_rules = async {
        while !limiter.rules().policy().is_loaded() {
            applied.notified().await;
        }
    };
    tokio::select! {
        () = first_rules => {}
        () = patience => {}
    }
}

fn endpoint(control: &NodeControl) -> Result<Endpoint, String> {
    let ControlAt::Url(uri) = &control.at else {
        return Err("the control plane of this process has no address".to_owned());
    };
    let tls = match uri.scheme_str() {
        Some("https") => {
            let (certificate_file, key_file) = match &control.certificate {
                Some(files) => (Some(files.cert.clone()), Some(files.key.clone())),
                None => (None, None),
            };
            let files =
                TlsClientFiles { ca_file: control.ca.clone(), certificate_file, key_file, insecure: false };
            let client = TlsClient::load(files).map_err(|error| error.to_string())?;
            Some(Arc::new(client))
        }
        _ => None,
    };
    Ok(Endpoint { uri: uri.clone(), tls, token_file: control.token_file.clone() })
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() { "node".to_owned() } else { name }
}
