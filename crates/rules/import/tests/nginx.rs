//! The rules that are made of an nginx configuration admit what a real nginx with the same file admits.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "the helpers of a test are a test")]

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tollgate_core::Timestamp;
use tollgate_import::nginx::{Imported, LeftOut, import};
use tollgate_limiter::{Descriptor, Entry, Limiter, LimiterSettings, Patience, Request, Scratch};
use tollgate_store::ModelStore;

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
         {temp}    access_log off;\n    limit_req_zone $binary_remote_addr zone=perip:1m rate=10r/m;\n    \
         limit_req_zone $server_name zone=perserver:1m rate=1r/m;\n    server {{\n        listen {at};\n        \
         server_name shop;\n        root {base};\n        location / {{ {limits} }}\n    }}\n}}\n"
    )
}

/// Numbers of requests that pass at once, that pass later, and that are denied.
#[derive(Debug, Default, PartialEq, Eq)]
struct PassCounts {
    at_once: usize,
    later: usize,
    denied: usize,
}

/// The limits of the configuration at `path`, as rules.
fn import_file(path: &Path) -> Imported {
    import(Some(path), std::fs::read_to_string(path).expect("a configuration"), "nginx")
}

/// The decisions at one instant by the rules made of `config`, and whether anything was reported.
fn imported(config: &Path, zones: &[(&str, &str, &str)]) -> (PassCounts, bool) {
    let Imported { rules, left_out } = import_file(config);
    let is_said = left_out.iter().any(|it| !it.why.contains("is not used by any limit_req"));
    let rules = rules.expect("rules").text;
    let policy = tollgate_rule_files::parse_text("nginx.yaml", rules).expect("rules without a fault");
    let limiter: Limiter<ModelStore> = Limiter::new(
        policy,
        ModelStore::default(),
        LimiterSettings { max_queued: 100, ..LimiterSettings::default() },
    );
    let entries: Vec<[Entry<'_>; 2]> =
        zones.iter().map(|&(zone, key, value)| [Entry::new("zone", zone), Entry::new(key, value)]).collect();
    let descriptors: Vec<Descriptor<'_>> = entries.iter().map(|entries| Descriptor::new(entries)).collect();
    let request = Request { domain: "nginx", descriptors: &descriptors, hits: 1 };
    let instant = Timestamp::from_unix_seconds(1_700_000_000);
    // Time stands still, so those that wait do so until the end.
    let now = || instant;
    let patience = Patience {
        now: &now,
        sleep: |_| std::future::pending(),
        longest: Duration::from_secs(3_600),
        left: None,
    };
    let mut scratches: Vec<Scratch> = std::iter::repeat_with(Scratch::new).take(REQUESTS).collect();
    let mut asking: Vec<_> = scratches
        .iter_mut()
        .map(|scratch| Box::pin(limiter.decide_patiently(&request, instant, &patience, scratch)))
        .collect();
    let mut counts = PassCounts::default();
    let mut context = Context::from_waker(Waker::noop());
    for one in &mut asking {
        match one.as_mut().poll(&mut context) {
            Poll::Pending => counts.later += 1,
            Poll::Ready(answer) => match answer.expect("a request").is_admitted() {
                true => counts.at_once += 1,
                false => counts.denied += 1,
            },
        }
    }
    (counts, is_said)
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

/// nginx's treatment of the same number of requests; `later` of them have no answer yet.
fn asked(at: SocketAddr, later: usize) -> PassCounts {
    let connections = (0..REQUESTS).map(|_| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        stream.write_all(b"GET /page HTTP/1.1\r\nhost: shop\r\n\r\n").expect("sent");
        stream.set_read_timeout(Some(Duration::from_millis(1))).expect("set");
        stream
    });
    let mut open: Vec<TcpStream> = connections.collect();
    let mut counts = PassCounts::default();
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
    // What passes at once and later in nginx, and how many wait by the rules where that differs.
    for (limits, zones, (at_once, later), waiting, want_said) in [
        ("limit_req zone=perip;", &[address][..], (1, 0), 0, false),
        ("limit_req zone=perip burst=5 nodelay;", &[address], (6, 0), 0, false),
        ("limit_req zone=perip burst=5;", &[address], (1, 5), 5, true),
        ("limit_req zone=perip burst=5 delay=3;", &[address], (4, 2), 2, true),
        ("limit_req zone=perip burst=5 delay=5;", &[address], (6, 0), 0, false),
        (
            "limit_req zone=perip burst=3 nodelay; limit_req zone=perserver burst=6 nodelay;",
            &[address, server],
            (4, 0),
            0,
            false,
        ),
        // A request that waits is charged to the other zone when its turn comes, which is said.
        (
            "limit_req zone=perip burst=6 delay=2; limit_req zone=perserver burst=4 nodelay;",
            &[address, server],
            (3, 2),
            4,
            true,
        ),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("page"), "a page").expect("written");
        readable_by_all(folder.path());
        let counts = |later| PassCounts { at_once, later, denied: REQUESTS - at_once - later };
        let want = counts(later);
        let by_rules = (counts(waiting), want_said);
        let Some(nginx) = nginx else {
            let path = folder.path().join("nginx.conf");
            let at = SocketAddr::from(([127, 0, 0, 1], 80));
            std::fs::write(&path, config(folder.path(), at, limits)).expect("written");
            assert_eq!(imported(&path, zones), by_rules, "{limits}");
            continue;
        };
        let (_nginx, at, path) = start(nginx, folder.path(), limits);
        assert_eq!(imported(&path, zones), by_rules, "{limits}");
        assert_eq!(asked(at, later), want, "nginx itself: {limits}");
    }
    if nginx.is_none() {
        println!("SKIPPED the comparison with nginx, which is not installed");
    }
}

/// Whole configurations of the shapes that are in use; a line of each that the rule file has, and all that is
/// said about it.
#[test]
fn configurations_as_they_are_in_use_are_taken_over_or_said_by_line() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    for (name, rules, in_rules, said) in [
        (
            "registry.conf",
            2,
            &[
                "  - key: zone\n    value: publish\n    descriptors:\n      - key: remote_address\n        ipv6_prefix: \
                 128\n        rate_limit: {rate: 1/m, algorithm: leaky_bucket, capacity: 31}\n",
                "response: {status: 429}\n",
                "#   proxy_pass http://tollgate/v1/check?domain=nginx&entry=zone=publish&entry=remote_address=$remote_addr\
                 &status=403;\n",
            ][..],
            &[][..],
        ),
        (
            "forum.conf",
            3,
            &[
                "&entry=zone=flood&entry=remote_address=$remote_addr&descriptor&entry=zone=bot&entry=remote_address=\
                 $remote_addr&status=403;\n",
                "rate: 100/m, algorithm: leaky_bucket, capacity: 101}",
            ],
            &[
                (7, "limit_conn_status 429: a holder"),
                (
                    12,
                    "limit_conn connperip 20: auth_request cannot give a place back; keep limit_conn in nginx",
                ),
            ],
        ),
        (
            "cms.conf",
            2,
            &[
                "rate_limit: {rate: 1/s, algorithm: leaky_bucket, capacity: 1}\n        on_limit: queue\n        max_wait: 3100ms\n",
            ],
            &[
                (6, "limit_conn arbeit 32: auth_request"),
                (
                    8,
                    "a request of zone login waits for its turn at Tollgate, up to 3100ms: where nginx asks, write `proxy_read_timeout 3600ms;`",
                ),
            ],
        ),
        (
            "handbook.conf",
            2,
            &[
                "        value_cidr: 127.0.0.1/32\n        action: allow\n",
                "        value_cidr: 192.0.2.0/24\n        action: allow\n",
                "        value_cidr: 2001:db8:5::/48\n        action: allow\n",
                "#   map $limit_bots $checked_limit_bots { default $limit_bots; \"~[\\x00-\\x1F\\x7F]\" invalid; }\n",
                "#   set $tollgate_limit_bots $checked_limit_bots;\n",
                "        max_wait: 12600ms\n",
            ],
            &[
                (
                    11,
                    "map $http_user_agent $limit_bots makes the key of zone bots, and ~*(crawler|spider|bot) is a regular expression: keep it in nginx",
                ),
                (17, "a request of zone req_for_addr waits for its turn at Tollgate, up to 12600ms"),
            ],
        ),
        (
            "ingress.conf",
            2,
            &[
                "  - key: zone\n    value: namespace_app_rps\n    descriptors:\n      - key: remote_address\n        \
                 value_cidr: 10.0.0.0/24\n        action: allow\n      - key: remote_address\n        value_cidr: \
                 2001:db8::/64\n        action: allow\n      - key: remote_address\n        ipv6_prefix: 128\n        \
                 rate_limit: {rate: 5/s, algorithm: leaky_bucket, capacity: 26}\n",
                "response: {status: 503}\n",
            ],
            &[],
        ),
        (
            "panel.conf",
            1,
            &[
                "&entry=remote_address=$remote_addr&entry_header=http_x_forwarded_for=X-Limit-Http-X-Forwarded-For&",
            ],
            &[(
                2,
                "a client writes $http_x_forwarded_for in the key of zone iframe, so it must not be part of a URL: send it by `proxy_set_header X-Limit-Http-X-Forwarded-For $http_x_forwarded_for;`",
            )],
        ),
        (
            "guide.conf",
            4,
            &[
                "#   proxy_set_header X-Limit-Request-Uri $request_uri;\n",
                "#   set $tollgate_arg_user $arg_user;\n",
                "#   proxy_set_header X-Limit-Arg-User $tollgate_arg_user;\n",
                "#   proxy_set_header X-Limit-Cookie-Session $cookie_session;\n",
                "entry=zone=perserver&entry=server_name=$server_name&status=403;\n",
            ],
            &[
                (2, "a client writes $request_uri in the key of zone urizone"),
                (3, "a client writes $arg_user in the key of zone users"),
                (4, "a client writes $cookie_session in the key of zone sessions"),
            ],
        ),
        (
            "guarded.conf",
            1,
            &["capacity: 6}"],
            &[
                (5, "auth_basic admin: nginx rejects a wrong password before it asks Tollgate"),
                (6, "satisfy any: satisfy any admits who passes one check"),
                (7, "auth_request /sso-check: a place has one auth_request"),
            ],
        ),
        (
            "explorer.conf",
            0,
            &[],
            &[(3, "zone api is not used by any limit_req"), (4, "zone electrs is not used by any limit_req")],
        ),
    ] {
        let path = folder.join(name);
        let imported = import_file(&path);
        assert_eq!(imported.left_out.len(), said.len(), "{name}: {:#?}", imported.left_out);
        for (LeftOut { place, why }, (line, text)) in imported.left_out.iter().zip(said) {
            assert_eq!(*place, format!("{}:{line}", path.display()), "{name}");
            assert!(why.starts_with(text), "{name}: {why}");
        }
        let made = match imported.rules {
            Ok(made) => made,
            Err(error) => {
                assert_eq!(rules, 0, "{name}: {error}");
                continue;
            }
        };
        assert_eq!(made.number, rules, "{name}");
        for text in in_rules {
            assert!(made.text.contains(text), "{name}: {text}\n{}", made.text);
        }
        let policy = tollgate_rule_files::parse_text("nginx.yaml", made.text).expect("rules without a fault");
        assert!(policy.rules().count() >= rules, "{name}");
    }
}
