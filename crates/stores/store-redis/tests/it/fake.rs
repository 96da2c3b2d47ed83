//! A server whose replies a test chooses, where a real one would send them at another moment or never.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

/// Listens on a port of its own; returns the URL. `says` gets the name of each command, on any connection,
/// and answers it: a connection ends with its error. The script that only reports a live node is named
/// `beat`.
pub(crate) fn fake(
    says: impl Fn(&str, &mut TcpStream) -> std::io::Result<()> + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let says = Arc::new(says);
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let says = says.clone();
            std::thread::spawn(move || serve(client, &*says));
        }
    });
    url
}

fn serve(
    mut client: TcpStream,
    says: &impl Fn(&str, &mut TcpStream) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut input = BufReader::new(client.try_clone()?);
    loop {
        let words = number(&mut input)?;
        let mut said = Vec::new();
        for _ in 0..words {
            let length = number(&mut input)?;
            let mut word = vec![0; length + 2];
            input.read_exact(&mut word)?;
            word.truncate(length);
            said.push(String::from_utf8_lossy(&word).into_owned());
        }
        let is_beat = said.get(3).is_some_and(|key| key == "tollgate:nodes");
        says(if is_beat { "beat" } else { &said[0] }, &mut client)?;
    }
}

/// The number in a line such as `*3` or `$7`.
fn number(input: &mut BufReader<TcpStream>) -> std::io::Result<usize> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    line.get(1..).and_then(|rest| rest.trim_end().parse().ok()).ok_or(std::io::ErrorKind::InvalidData.into())
}

/// The replies of a server that is fit, keeps no key and is alone.
pub(crate) fn usual(command: &str, client: &mut TcpStream) -> std::io::Result<()> {
    let info = "redis_version:7.0.15\r\nrole:master\r\nconnected_slaves:1\r\naof_enabled:1\r\nmaxmemory_policy:noeviction\r\n";
    let info = format!("${}\r\n{info}\r\n", info.len());
    let said = match command {
        "HELLO" => "%3\r\n+server\r\n+redis\r\n+mode\r\n+standalone\r\n+role\r\n+master\r\n",
        "PING" => "+PONG\r\n",
        "INFO" => &info,
        "CONFIG" => "%0\r\n",
        "COMMAND" => "*2\r\n*1\r\n$1\r\na\r\n*1\r\n$1\r\nb\r\n",
        "EVALSHA" => return client.write_all(&unseen()),
        _ => ":1\r\n",
    };
    client.write_all(said.as_bytes())
}

/// The reply to a call on one key that was not there.
pub(crate) fn unseen() -> Vec<u8> {
    let numbers = [1_790_000_000_000.0, 0.0, -1.0, -1.0_f64];
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    [b"$32\r\n", &bytes[..], b"\r\n"].concat()
}
