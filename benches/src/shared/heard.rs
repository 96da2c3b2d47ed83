//! The store's own call for one key, as recorded at its Redis, so that a bench sends exactly what the store
//! sends.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

use super::Redis;

/// A call of a script for one key.
pub(super) struct Heard {
    /// `EVALSHA`, the script's SHA-1, `1`, the key, and the arguments.
    pub(super) words: Vec<Vec<u8>>,
    /// The Lua source of the script.
    pub(super) source: String,
}

impl Heard {
    /// The last call for the key that has `sample` in its name, among all that arrives while `work` is done.
    ///
    /// A node also calls scripts of its own accord: it sends a heartbeat every second.
    pub(super) fn while_done(
        redis: &Redis,
        sample: &str,
        work: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<Self> {
        let commands = overheard(redis, work)?;
        let words = commands.iter().rfind(|words| calls(words, sample));
        let words = words.with_context(|| format!("no call for {sample}"))?.clone();
        // A script is known by what Redis calls it, not by when it was loaded.
        for source in commands.iter().filter_map(|words| source(words)) {
            let source = String::from_utf8(source.clone())?;
            if redis.load(&source)?.as_bytes() == words[1] {
                return Ok(Self { words, source });
            }
        }
        bail!("the script of the call for {sample} was not loaded meanwhile")
    }

    pub(super) fn key(&self) -> &[u8] {
        &self.words[3]
    }

    pub(super) fn arguments(&self) -> &[Vec<u8>] {
        &self.words[4..]
    }
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

/// Whether it calls a script for one key, which has `sample` in its name.
fn calls(words: &[Vec<u8>], sample: &str) -> bool {
    let [evalsha, _, keys, key, ..] = words else { return false };
    is(evalsha, "EVALSHA") && keys == b"1" && key.windows(sample.len()).any(|it| it == sample.as_bytes())
}

/// The script that a command brings.
fn source(words: &[Vec<u8>]) -> Option<&Vec<u8>> {
    match words {
        [script, load, text] if is(script, "SCRIPT") && is(load, "LOAD") => Some(text),
        [eval, text, ..] if is(eval, "EVAL") => Some(text),
        _ => None,
    }
}

/// Every command, as its words, that arrives while `work` is done.
fn overheard(redis: &Redis, work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<Vec<Vec<Vec<u8>>>> {
    const LAST: &str = "that was all";
    let mut stream = TcpStream::connect(("127.0.0.1", redis.process.port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "MONITOR\r\n")?;
    let mut lines = BufReader::new(stream).lines();
    lines.next().context("MONITOR")??;
    work()?;
    redis.ask(&format!("ECHO \"{LAST}\""))?;
    let mut commands = Vec::new();
    for line in lines {
        let line = line?;
        let command = quoted(line.split_once("] ").map_or("", |(_, command)| command))?;
        if command.last().is_some_and(|word| word == LAST.as_bytes()) {
            return Ok(commands);
        }
        commands.push(command);
    }
    bail!("the connection that listens was closed")
}

/// The words of a line of `MONITOR`, which are all in quotes, with unprintable bytes as `\\x00`.
fn quoted(line: &str) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut word = None;
    let mut rest = line.trim().bytes();
    while let Some(byte) = rest.next() {
        match (byte, &mut word) {
            (b'"', None) => word = Some(Vec::new()),
            (b'"', Some(_)) => words.extend(word.take()),
            (_, None) => {}
            (b'\\', Some(word)) => word.push(match rest.next().context("a backslash at the end")? {
                b'n' => b'\n',
                b'r' => b'\r',
                b't' => b'\t',
                b'a' => 7,
                b'b' => 8,
                b'x' => {
                    let digits = [rest.next().unwrap_or_default(), rest.next().unwrap_or_default()];
                    u8::from_str_radix(std::str::from_utf8(&digits)?, 16)?
                }
                other => other,
            }),
            (byte, Some(word)) => word.push(byte),
        }
    }
    ensure!(word.is_none(), "a word does not end: {line}");
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn words_are_read_as_redis_writes_them() {
        let words = quoted(r#""EVALSHA" "a b" "" "\x00\xff\"\\n\n" "#).expect("words");
        assert_eq!(words, [b"EVALSHA".to_vec(), b"a b".to_vec(), Vec::new(), b"\x00\xff\"\\n\n".to_vec()]);
        assert!(quoted("\"x").is_err());
    }

    #[test]
    fn a_call_is_known_by_its_key() {
        assert!(calls(&words(&["EVALSHA", "sha", "1", "tollgate:{user:1}", "a"]), "user:1"));
        assert!(calls(&words(&["evalsha", "sha", "1", "tollgate:{user:1}"]), "user:1"));
        for other in [
            &["EVALSHA", "sha", "1", "tollgate:nodes", "user:1"][..], // a node that tells that it lives
            &["EVALSHA", "sha", "2", "tollgate:{user:1}", "tollgate:{user:2}"],
            &["GET", "tollgate:{user:1}"],
            &["SCRIPT", "LOAD", "return 1"],
        ] {
            assert!(!calls(&words(other), "user:1"), "{other:?}");
        }
    }

    #[test]
    fn a_script_is_brought_by_load_and_by_eval() {
        for brings in [&["SCRIPT", "LOAD", "return 1"][..], &["eval", "return 1", "0"]] {
            assert_eq!(source(&words(brings)).map(Vec::as_slice), Some(&b"return 1"[..]));
        }
        assert_eq!(source(&words(&["SCRIPT", "EXISTS", "sha"])), None);
    }
}
