//! Commands of the control plane about keys: look up, reset, list, explain.
//!
//! Bodies are JSON, `{"domain": …, "entries": [[key, value], …]}`. Keys and values are in the spelling of
//! `tollgate_human_text::show_bytes`, in both directions. A reply has the counters of the rule, or
//! says why there is none. Not here: who may ask (the control plane).

use std::borrow::Cow;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use tollgate_core::{Clock, Timestamp};
use tollgate_fleet_proto::{Command, Reply};
use tollgate_human_text::{read_bytes, show_bytes};
use tollgate_limiter::{Entry, KeyError, KeyReport, Limiter, Observer};
use tollgate_policy::KeyParts;
use tollgate_store::{ScanError, ScannedKey, Store, StoreError};

use crate::driver::CarryOut;

/// Most keys of one look-up.
const MOST_KEYS: usize = 100;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CountersQuestion {
    domain: String,
    #[serde(default)]
    entries: Vec<(String, String)>,
    /// Several keys of the domain instead.
    #[serde(default)]
    keys: Vec<Vec<(String, String)>>,
    /// Start of the page of a scan; empty for the first page.
    #[serde(default)]
    cursor: String,
}

/// Returns the [`Seams::command`](crate::Seams::command) of a node with this limiter. Stores are called on
/// the agent's runtime, so that all commands share its connections.
pub fn carry_out<S: Store, O: Observer>(limiter: Arc<Limiter<S, O>>, clock: Arc<dyn Clock>) -> Arc<CarryOut> {
    Arc::new(move |Command { command, kind, body }| {
        let limiter = Arc::clone(&limiter);
        let clock = Arc::clone(&clock);
        Box::pin(async move {
            let answered = match serde_json::from_str(&body) {
                Ok(question) => answer(&limiter, &kind, &question, clock.now()).await,
                Err(error) => Err(format!("invalid body of the command: {error}")),
            };
            let (body, error) = match answered {
                Ok(body) => (body.to_string(), String::new()),
                Err(error) => (String::new(), error),
            };
            Reply { command, error, body }
        })
    })
}

async fn answer<S: Store, O: Observer>(
    limiter: &Limiter<S, O>,
    kind: &str,
    question: &CountersQuestion,
    now: Timestamp,
) -> Result<Value, String> {
    let CountersQuestion { domain, entries, keys, cursor } = question;
    match kind {
        "inspect" if !keys.is_empty() => {
            let mut found = Vec::new();
            for entries in keys.iter().take(MOST_KEYS) {
                let entries = bytes(entries);
                found.push(about(limiter, domain, &entries, false, now).await?);
            }
            Ok(json!({ "keys": found }))
        }
        "inspect" => about(limiter, domain, &bytes(entries), false, now).await,
        "reset" => about(limiter, domain, &bytes(entries), true, now).await,
        "scan" => match limiter.scan(domain, &borrowed(&bytes(entries)), cursor).await {
            Ok(page) => Ok(json!({
                "next": page.next,
                "keys": page.keys.iter().map(named).collect::<Vec<_>>(),
            })),
            Err(error @ ScanError::Unsupported { .. }) => Ok(json!({"none": error.to_string()})),
            Err(error @ ScanError::Cursor(_)) => Ok(json!({"invalid": error.to_string()})),
            Err(error) => Err(error.to_string()),
        },
        "explain" => {
            let entries = bytes(entries);
            let entries = borrowed(&entries);
            Ok(json!({"text": limiter.explain(domain, &entries, now).to_string()}))
        }
        _ => Err(format!("unknown command {kind:?}")),
    }
}

/// Keys and values as requests have them.
type Bytes<'a> = Vec<(Cow<'a, [u8]>, Cow<'a, [u8]>)>;

fn bytes(entries: &[(String, String)]) -> Bytes<'_> {
    entries.iter().map(|(key, value)| (read_bytes(key), read_bytes(value))).collect()
}

fn borrowed<'a>(entries: &'a Bytes<'_>) -> Vec<Entry<'a>> {
    entries.iter().map(|(key, value)| Entry::new(key, value)).collect()
}

/// The counters of one key. A key without counters is an answer; a store that fails is an error.
async fn about<S: Store, O: Observer>(
    limiter: &Limiter<S, O>,
    domain: &str,
    entries: &Bytes<'_>,
    forget: bool,
    now: Timestamp,
) -> Result<Value, String> {
    let entries = borrowed(entries);
    let found = match forget {
        true => limiter.reset(domain, &entries, now).await,
        false => limiter.inspect(domain, &entries, now).await,
    };
    let mut value = match found {
        Ok(reports) => json!({
            "rule": reports.first().map(|it| &it.rule),
            "limits": reports.iter().map(shown).collect::<Vec<_>>(),
        }),
        Err(KeyError::Store(error @ StoreError::Unsupported { .. })) => json!({"none": error.to_string()}),
        Err(KeyError::Store(error)) => return Err(error.to_string()),
        Err(error) => json!({"none": error.to_string()}),
    };
    if let Some(found) = limiter.intervention(domain, &entries, now) {
        let left_ms = u64::try_from(found.left.as_millis()).unwrap_or(u64::MAX);
        value["override"] = json!({"action": found.action.name(), "left_ms": left_ms});
    }
    Ok(value)
}

/// A counter of a listing. A counter of an inline limit has no entries.
fn named(key: &ScannedKey) -> Value {
    let parts = KeyParts::read(&key.key);
    json!({
        "key": show_bytes(&key.key), "kept": key.kept.name(),
        "entries": parts.as_ref().and_then(|it| it.entries.as_ref()).map(|it| texts(it)),
        "counted": parts.map(|it| it.counted),
    })
}

fn texts(entries: &[(Vec<u8>, Vec<u8>)]) -> Vec<[Cow<'_, str>; 2]> {
    entries.iter().map(|(key, value)| [show_bytes(key), show_bytes(value)]).collect()
}

fn shown(report: &KeyReport) -> Value {
    let reset = u64::try_from(report.decision.reset_after().as_nanos().div_ceil(1_000_000)).ok();
    json!({
        "limit": report.limit, "key": report.key, "max": report.burst, "tokens": report.tokens,
        "remaining": report.decision.remaining(), "reset_after_ms": reset, "tracked": report.is_tracked,
        "local": report.is_local, "degraded": report.degraded.map(|it| it.name()),
    })
}
