//! Lists counters by `SCAN`, a page per call, over a connection of its own: no decision waits behind it. Not
//! here: the parts of a counter's key (`policy`).

use tokio::time::{Duration, Instant, timeout_at};
use tollgate_redis_link::{Connection, Reply, ServerError, Value};
use tollgate_store::{Kept, MAX_SCANNED, ScanError, Scanned, ScannedKey};

use crate::client::RedisClient;
use crate::config::{HashTag, RedisConfig};
use crate::keys::up_to_bar;
use crate::leased::ledger_script;
use crate::slots;

/// Keys that the server looks at per command, about: it serves no other client meanwhile.
const STEP: usize = 250;
/// Most commands of one page, so that a page of few counters among many keys ends too.
const MOST_STEPS: usize = 400;
/// Bytes of keys of one page, about: it travels in one message.
const MOST_BYTES: usize = 512 << 10;
/// Time for one page, about; the next one continues where it ends.
const BUDGET: Duration = Duration::from_secs(1);

/// The counters of one page.
pub(crate) async fn page(client: &RedisClient, start: &[u8], cursor: &str) -> Result<Scanned, ScanError> {
    let failed = |reason: String| ScanError::Failed { store: client.name().clone(), reason };
    let failed_as = |error: ServerError| failed(error.why.to_string());
    let topology = client.shared().topology();
    let dialer = client.shared().dialer();
    topology.learn(dialer).await.map_err(failed_as)?;
    let mut servers = Vec::new();
    for node in topology.masters() {
        servers.push(topology.find(node, dialer).await.map_err(failed_as)?);
    }
    servers.sort_by_key(ToString::to_string);
    let invalid = || ScanError::Cursor(cursor.to_owned());
    let mut at = 0;
    let mut place = 0;
    if let Some((number, address)) = cursor.split_once('@') {
        at = servers.iter().position(|it| it.to_string() == address).ok_or_else(invalid)?;
        place = number.parse().map_err(|_| invalid())?;
    } else if !cursor.is_empty() {
        return Err(invalid());
    }
    let pattern = pattern(client.config(), start);
    let mut page = Scanned::default();
    let by = Instant::now() + BUDGET;
    let mut steps = 0;
    let mut bytes = 0;
    while let Some(address) = servers.get(at) {
        let limit = dialer.patience();
        let late = |_| failed(format!("{address}: no answer within {limit:?}"));
        let opened = timeout_at(Instant::now() + limit, dialer.open_master(address)).await;
        let mut connection = opened.map_err(late)?.map_err(failed_as)?;
        let is_over = loop {
            let asked = timeout_at(Instant::now() + limit, step(&mut connection, place, &pattern)).await;
            let (next, found) = asked.map_err(late)?.map_err(failed)?;
            bytes += found.iter().map(Vec::len).sum::<usize>();
            page.keys.extend(found.iter().filter_map(|key| counter(client.config(), key)));
            (steps, place) = (steps + 1, next);
            // A step may find some more than it was asked to look at.
            let is_full = page.keys.len() + 2 * STEP > MAX_SCANNED || bytes > MOST_BYTES;
            let is_over = is_full || steps >= MOST_STEPS || Instant::now() >= by;
            if place == 0 || is_over {
                break is_over;
            }
        };
        if place == 0 {
            at += 1;
        }
        if let Some(address) = servers.get(at).filter(|_| is_over) {
            page.next = Some(format!("{place}@{address}"));
            break;
        }
    }
    Ok(page)
}

/// One command: the cursor after it, and the Redis keys that it found.
async fn step(
    connection: &mut Connection,
    place: u64,
    pattern: &[u8],
) -> Result<(u64, Vec<Vec<u8>>), String> {
    let place = place.to_string();
    let count = STEP.to_string();
    let command: [&[u8]; 6] = [b"SCAN", place.as_bytes(), b"MATCH", pattern, b"COUNT", count.as_bytes()];
    let name = connection.name().clone();
    let reply = connection.ask_one(&command).await.map_err(|error| error.why.to_string())?;
    let unexpected = || format!("{name}: an unexpected reply to SCAN");
    let parts = match reply {
        Reply::Value(Value::Array(parts)) => parts,
        Reply::Value(_) => return Err(unexpected()),
        Reply::Error(error) => return Err(format!("{name}: {error}")),
    };
    let [next, Value::Array(keys)] = &*parts else { return Err(unexpected()) };
    let next = next.text().and_then(|it| it.parse().ok()).ok_or_else(unexpected)?;
    let bytes = |it: &Value| match it {
        Value::BulkString(bytes) => Some(bytes.clone()),
        _ => None,
    };
    Ok((next, keys.iter().filter_map(bytes).collect()))
}

/// The pattern of the Redis keys of counters whose keys begin with `start` and a bar.
fn pattern(config: &RedisConfig, start: &[u8]) -> Vec<u8> {
    let whole = [start, b"|"].concat();
    let end = match config.hash_tag {
        HashTag::Counter => whole.len(),
        HashTag::Domain => up_to_bar(&whole, 0),
        HashTag::FirstEntry => up_to_bar(&whole, 1),
    };
    let (tag, rest) = whole.split_at(end);
    let is_tag_over = end < whole.len();
    let mut pattern = Vec::with_capacity(config.prefix.len() + whole.len() + 8);
    let mut literal = |bytes: &[u8]| {
        for byte in bytes {
            if b"*?[]\\^".contains(byte) {
                pattern.push(b'\\');
            }
            pattern.push(*byte);
        }
    };
    literal(config.prefix.as_bytes());
    literal(b"{");
    literal(tag);
    if is_tag_over {
        literal(b"}");
        literal(rest);
    }
    pattern.push(b'*');
    pattern
}

/// The counter of a Redis key; `None` if it is not one.
fn counter(config: &RedisConfig, redis_key: &[u8]) -> Option<ScannedKey> {
    let named = redis_key.strip_prefix(config.prefix.as_bytes())?.strip_prefix(b"{")?;
    let end = named.iter().position(|byte| *byte == b'}')?;
    // Braces in a counter's key are escaped, so this is the end of the tag.
    let key = [named.get(..end)?, named.get(end + 1..)?].concat();
    let of = |suffix: &[u8], kept| Some(ScannedKey { key: key.strip_suffix(suffix)?.to_vec(), kept });
    let of = of(ledger_script::SUFFIX, Kept::Ledger).or_else(|| of(slots::SUFFIX, Kept::Slots));
    Some(of.unwrap_or(ScannedKey { key, kept: Kept::Counter }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::redis_key;

    fn config(hash_tag: HashTag) -> RedisConfig {
        RedisConfig { hash_tag, ..RedisConfig::parse_url("redis://h").expect("a URL") }
    }

    #[test]
    fn a_pattern_is_for_whole_levels_whatever_the_hash_tag_and_takes_nothing_as_a_wildcard() {
        for (tag, start, want) in [
            (HashTag::Counter, "shop", "tollgate:{shop|*"),
            (HashTag::Domain, "shop", "tollgate:{shop}|*"),
            (HashTag::FirstEntry, "shop", "tollgate:{shop|*"),
            (HashTag::Counter, "shop|a=b", "tollgate:{shop|a=b|*"),
            (HashTag::Domain, "shop|a=b", "tollgate:{shop}|a=b|*"),
            (HashTag::FirstEntry, "shop|a=b", "tollgate:{shop|a=b}|*"),
            (HashTag::FirstEntry, "shop|a=b|c=d", "tollgate:{shop|a=b}|c=d|*"),
            (HashTag::Counter, r"s*p|a=[x]?\", r"tollgate:{s\*p|a=\[x\]\?\\|*"),
        ] {
            let found = pattern(&config(tag), start.as_bytes());
            assert_eq!(found.escape_ascii().to_string().replace(r"\\", r"\"), want, "{tag:?}");
        }
    }

    #[test]
    fn the_counter_of_a_redis_key_is_read_back() {
        for tag in [HashTag::Counter, HashTag::Domain, HashTag::FirstEntry] {
            for key in [&b"shop|a=b|minute"[..], b"shop|a=b%7D|c=|token_bucket"] {
                let name = redis_key("tollgate:", tag, key);
                for (suffix, kept) in
                    [(&b""[..], Kept::Counter), (b"|leased", Kept::Ledger), (b"|slots", Kept::Slots)]
                {
                    let found = counter(&config(tag), &[&*name, suffix].concat());
                    assert_eq!(found, Some(ScannedKey { key: key.to_vec(), kept }));
                }
            }
        }
        for foreign in [&b"other:{a}"[..], b"tollgate:nodes", b"tollgate:{open"] {
            assert_eq!(counter(&config(HashTag::Counter), foreign), None);
        }
    }
}
