//! Servers of the Redis protocol, and the ceiling: a responder that decides nothing.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

use crate::process::{Process, built_tollgate, pinned};
use crate::report::Table;
use crate::responder;
use crate::settings::Settings;
use crate::surfaces::{Contender, Shape, check, command, measure, table, tollgate};

/// Keys that take turns; few enough that a warm-up run touches each, for the rows that are denied.
const MANY: u64 = 1_000_000;
const FEW: u64 = 10_000;

/// 79 bytes with its key; never denied in these runs.
pub(crate) const ADMIT: &str = "CL.THROTTLE {key} 1000 1000 3600";
/// A byte shorter; denied from the second on.
const DENY: &str = "CL.THROTTLE {key} 0 1 300000000";

const SHAPES: [(&str, Shape); 3] = [
    ("resp-50x1", Shape { connections: 50, in_flight: 1, requests: 400_000 }),
    ("resp-50x16", Shape { connections: 50, in_flight: 16, requests: 2_000_000 }),
    ("resp-50x64", Shape { connections: 50, in_flight: 64, requests: 4_000_000 }),
];

/// Measures every server that can be started.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Vec<Table>> {
    let folder = tempfile::tempdir()?;
    let contenders = start(folder.path(), settings)?;
    let mut tables = Vec::new();
    for (name, shape) in SHAPES {
        let runs = measure(&contenders, shape, settings)?;
        let title = format!("Redis protocol, {} × {}", shape.connections, shape.in_flight);
        tables.push(table(name, title, &contenders, &runs, shape, settings));
    }
    Ok(tables)
}

fn start(folder: &Path, settings: &Settings) -> anyhow::Result<Vec<Contender>> {
    let mut contenders = Vec::new();
    let mut add = |name: &str, words: &str, keys, process: Process| {
        settings.say(&format!("resp: {name} is there"));
        let name = name.to_owned();
        let ask = command(words);
        contenders.push(Contender { name, process, scheme: "resp", path: "", ask, keys });
    };
    add("raw epoll responder", ADMIT, MANY, responder::ResponderKind::Epoll.start()?);
    add("tokio echo", ADMIT, MANY, responder::ResponderKind::Tokio.start()?);
    if settings.has("redis-server") {
        add("Redis INCR", "INCR {key}", MANY, redis()?);
        let process = redis()?;
        let words = format!("EVALSHA {} 1 {{key}} 1000 1000 3600", loaded(process.port, GCRA)?);
        add("Redis, GCRA in Lua", &words, MANY, process);
    }
    if let Some(module) = redis_cell().filter(|_| settings.has("redis-server")) {
        add("Redis with redis-cell", ADMIT, MANY, redis_with(&["--loadmodule".into(), module])?);
    } else {
        settings.lacks("redis-cell", "there is no libredis_cell.so on the path");
    }
    if settings.has("throttlecrab-server") {
        let process = Process::start(|port| {
            let mut command = pinned(0, Path::new("throttlecrab-server"));
            command.args(["--redis", "--redis-host", "127.0.0.1", "--log-level", "error", "--redis-port"]);
            command.arg(port.to_string());
            Ok(command)
        })?;
        add("throttlecrab-server", "THROTTLE {key} 1000 1000 3600", MANY, process);
    }
    let binary = built_tollgate()?;
    let ours = |limit| tollgate(&binary, folder, "resp", limit, &[]);
    add("**tollgate**, CL.THROTTLE", ADMIT, MANY, ours(u32::MAX)?);
    add("**tollgate**, 10,000 keys admitted", ADMIT, FEW, ours(u32::MAX)?);
    add("**tollgate**, 10,000 keys denied", DENY, FEW, ours(u32::MAX)?);
    let process = ours(u32::MAX)?;
    let name = "**tollgate**, TOLLGATE.CHECK".to_owned();
    contenders.push(Contender { name, process, scheme: "resp", path: "", ask: check(), keys: MANY });
    Ok(contenders)
}

/// The module redis-cell: on the path, or where Redis has its modules.
fn redis_cell() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let modules = ["/usr/lib/redis/modules", "/usr/local/lib/redis/modules"].map(PathBuf::from);
    let folders = std::env::split_paths(&path).chain(modules);
    folders.map(|folder| folder.join("libredis_cell.so")).find(|file| file.exists())
}

fn redis() -> anyhow::Result<Process> {
    redis_with(&[])
}

fn redis_with(more: &[PathBuf]) -> anyhow::Result<Process> {
    Process::start(|port| {
        let mut command = pinned(0, Path::new("redis-server"));
        command
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--port"])
            .arg(port.to_string())
            .args(more);
        Ok(command)
    })
}

/// One number a key: when it will be full again, in seconds; the server's clock.
const GCRA: &str = "local t = redis.call('TIME') \
local now = t[1] + t[2] / 1000000 \
local every = ARGV[3] / ARGV[2] \
local full = tonumber(redis.call('GET', KEYS[1]) or now) \
if full < now then full = now end \
local after = full + every \
local room = every * (ARGV[1] + 1) - (after - now) \
if room < 0 then return {1, ARGV[1] + 1, 0, math.ceil(-room), math.ceil(full - now)} end \
redis.call('SET', KEYS[1], after, 'EX', math.ceil(after - now)) \
return {0, ARGV[1] + 1, math.floor(room / every), -1, math.ceil(after - now)}";

/// Loads a script and answers with its name.
fn loaded(port: u16, script: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    write!(stream, "*3\r\n$6\r\nSCRIPT\r\n$4\r\nLOAD\r\n${}\r\n{script}\r\n", script.len())?;
    let mut lines = BufReader::new(stream).lines();
    let head = lines.next().context("no answer from redis-server")??;
    ensure!(head == "$40", "redis-server: {head}");
    Ok(lines.next().context("no answer from redis-server")??)
}
