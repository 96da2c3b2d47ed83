//! `tollgate import nginx`: the rules that it writes admit what a real nginx with the same file admits.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clap::Parser;
use tollgate_core::Timestamp;
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Request, Scratch};
use tollgate_server::cli::{Cli, Ending};
use tollgate_store::{ModelStore, block_on};

/// Requests of each case, all within a fraction of the interval of one permit.
const REQUESTS: usize = 12;
/// Looks at open connections before a test gives up, a millisecond apart.
const LOOKS: u32 = 60_000;

/// The configuration of a whole nginx, with the limits of one location.
fn config(folder: &Path, at: SocketAddr, limits: &str) -> String {
    let base = folder.display();
    let temp: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("    {kind}_temp_path {base}/{kind};\n"))
        .collect();
    format!(
        "daemon off;\nworker_processes 1;\npid {base}/pid;\nerror_log {base}/log;\nevents {{}}\nhttp {{\n\
         {temp}    access_log off;\n    limit_req_zone $binary_remote_addr zone=perip:1m rate=1r/m;\n    \
         limit_req_zone $server_name zone=perserver:1m rate=1r/m;\n    server {{\n        listen {at};\n        \
         server_name shop;\n        root {base};\n        location / {{ {limits} }}\n    }}\n}}\n"
    )
}

/// How many of the requests pass at once, pass later, and are denied.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    at_once: usize,
    later: usize,
    denied: usize,
}

/// What the rules that are written of `config` decide at one instant.
fn imported(config: &Path, zones: &[(&str, &str, &str)]) -> Counts {
    let (mut out, mut talk) = (Vec::new(), Vec::new());
    let args = ["tollgate".as_ref(), "import".as_ref(), "nginx".as_ref(), config.as_os_str()];
    let ending = Cli::try_parse_from(args).expect("a command").run(&mut out, &mut talk).expect("written");
    let talk = String::from_utf8(talk).expect("text");
    assert!(ending == Ending::Yes || talk.contains("is not used by any limit_req"), "{talk}");
    let rules = String::from_utf8(out).expect("text");
    let policy = tollgate_rule_files::parse_text("nginx.yaml", rules).expect("rules without a fault");
    let limiter: Limiter<ModelStore> =
        Limiter::new(policy, ModelStore::default(), LimiterSettings::default());
    let entries: Vec<[Entry<'_>; 2]> =
        zones.iter().map(|&(zone, key, value)| [Entry::new("zone", zone), Entry::new(key, value)]).collect();
    let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|entries| Descriptor::new(entries)).collect();
    let request = Request { domain: "nginx", descriptors: &descriptors, hits: 1 };
    let (now, mut scratch) = (Timestamp::from_unix_seconds(1_700_000_000), Scratch::new());
    let mut counts = Counts::default();
    for _ in 0..REQUESTS {
        let answer = block_on(limiter.decide(&request, now, &mut scratch)).expect("a request");
        let delay = answer.descriptors().map(|it| it.delay()).max().unwrap_or_default();
        match (answer.is_admitted(), delay) {
            (true, Duration::ZERO) => counts.at_once += 1,
            (true, _) => counts.later += 1,
            (false, _) => counts.denied += 1,
        }
    }
    counts
}

/// A running nginx, ended by its id when dropped.
struct Nginx(Child);

impl Drop for Nginx {
    fn drop(&mut self) {
        // A signal to go ends its worker as well, which killing it would leave behind.
        drop(Command::new("kill").arg(self.0.id().to_string()).status());
        drop(self.0.wait());
    }
}

/// Starts nginx with the configuration of `limits` in `folder`; nginx chooses no port by itself.
fn start(binary: &Path, folder: &Path, limits: &str) -> (Nginx, SocketAddr, PathBuf) {
    let path = folder.join("nginx.conf");
    for _ in 0..20 {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr()).expect("a free port");
        std::fs::write(&path, config(folder, free, limits)).expect("written");
        let child = Command::new(binary)
            .args(["-p".as_ref(), folder.as_os_str(), "-c".as_ref(), path.as_os_str()])
            .args(["-e".as_ref(), folder.join("log").as_os_str()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx can be started");
        let mut nginx = Nginx(child);
        for _ in 0..LOOKS {
            if nginx.0.try_wait().expect("it was started").is_some() {
                break; // the port is not free any more
            }
            if TcpStream::connect(free).is_ok() {
                return (nginx, free, path);
            }
            std::thread::yield_now();
        }
    }
    panic!("nginx does not start: {}", std::fs::read_to_string(folder.join("log")).unwrap_or_default());
}

/// A worker of nginx may run as another user.
fn readable_by_all(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("set");
}

/// What nginx does with as many requests; `later` of them have no answer yet.
fn asked(at: SocketAddr, later: usize) -> Counts {
    let connections = (0..REQUESTS).map(|_| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.write_all(b"GET /page HTTP/1.1\r\nhost: shop\r\n\r\n").expect("sent");
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        stream
    });
    let mut open: Vec<TcpStream> = connections.collect();
    let mut counts = Counts::default();
    for _ in 0..LOOKS {
        open.retain_mut(|stream| {
            let mut head = [0; 12];
            match stream.read(&mut head) {
                Ok(_) if head.ends_with(b" 200") => counts.at_once += 1,
                Ok(_) if head.ends_with(b" 503") => counts.denied += 1,
                Ok(_) => panic!("{:?}", String::from_utf8_lossy(&head)),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    return true;
                }
                Err(error) => panic!("{error}"),
            }
            false
        });
        if open.len() <= later {
            break;
        }
    }
    counts.later = open.len();
    counts
}

#[test]
fn imported_rules_admit_and_delay_what_nginx_does() {
    let nginx = ["/usr/sbin/nginx", "/usr/bin/nginx", "/usr/local/sbin/nginx", "/opt/homebrew/bin/nginx"]
        .into_iter()
        .map(Path::new)
        .find(|path| path.exists());
    let address = ("perip", "remote_address", "127.0.0.1");
    let server = ("perserver", "server_name", "shop");
    for (limits, zones, (at_once, later)) in [
        ("limit_req zone=perip;", &[address][..], (1, 0)),
        ("limit_req zone=perip burst=5 nodelay;", &[address], (6, 0)),
        ("limit_req zone=perip burst=5;", &[address], (1, 5)),
        ("limit_req zone=perip burst=5 delay=3;", &[address], (4, 2)),
        (
            "limit_req zone=perip burst=3 nodelay; limit_req zone=perserver burst=6 nodelay;",
            &[address, server],
            (4, 0),
        ),
        (
            "limit_req zone=perip burst=6 delay=2; limit_req zone=perserver burst=4 nodelay;",
            &[address, server],
            (3, 2),
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("page"), "a page").expect("written");
        readable_by_all(folder.path());
        let want = Counts { at_once, later, denied: REQUESTS - at_once - later };
        let Some(nginx) = nginx else {
            let path = folder.path().join("nginx.conf");
            let at = SocketAddr::from(([127, 0, 0, 1], 80));
            std::fs::write(&path, config(folder.path(), at, limits)).expect("written");
            assert_eq!(imported(&path, zones), want, "{limits}");
            continue;
        };
        let (_nginx, at, path) = start(nginx, folder.path(), limits);
        assert_eq!(imported(&path, zones), want, "{limits}");
        assert_eq!(asked(at, later), want, "nginx itself: {limits}");
    }
    if nginx.is_none() {
        println!("SKIPPED the comparison with nginx, which is not installed");
    }
}

#[test]
fn a_file_without_limits_makes_no_rule_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("nginx.conf");
    for (text, want) in [
        ("", "is empty: looked for limit_req_zone and limit_req"),
        ("http { server { listen 80; } }", "has no limit_req_zone and no limit_req"),
        ("domain: edge\n", "is this an nginx configuration?"),
    ] {
        std::fs::write(&path, text).expect("written");
        let (mut out, mut talk) = (Vec::new(), Vec::new());
        let args = ["tollgate".as_ref(), "import".as_ref(), "nginx".as_ref(), path.as_os_str()];
        let ending = Cli::try_parse_from(args).expect("a command").run(&mut out, &mut talk).expect("written");
        let talk = String::from_utf8(talk).expect("text");
        assert_eq!((ending, out.len()), (Ending::CouldNotTell, 0), "{text}");
        assert!(talk.starts_with("error: ") && talk.contains(want), "{talk}");
    }
}
