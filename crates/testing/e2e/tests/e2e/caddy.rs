//! The distribution's Caddy asks the binary by `forward_auth`, with the files of docs/proxies.md.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::nginx::Wait;
use crate::proxies::app::App;
use crate::proxies::page::{addressed, block, quoted_after, replace};
use crate::proxies::proxy::{Proxy, program};
use crate::skip;

/// Caddy, with the file of the page that `kind` names (`short` or `long`), and a second site without a
/// limiter.
pub(crate) async fn start(
    binary: &PathBuf,
    (kind, wait): (&str, Wait),
    (tollgate, app): (SocketAddr, &App),
    change: impl Fn(String) -> String,
) -> Proxy {
    Proxy::start(app, |folder, [public, open, _]| {
        let site = addressed(&block(&format!("caddyfile {kind}")), tollgate, app.at);
        let site = replace(&site, ":80 {", &format!("http://:{} {{\n\tbind {}", public.port(), public.ip()));
        let site = if wait == Wait::Long { replace(&site, " 100ms", " 60s") } else { site };
        let site = change(site);
        let at = open.ip();
        let port = open.port();
        let open = format!("http://:{port} {{\n\tbind {at}\n\treverse_proxy {}\n}}\n", app.at);
        let text = format!("{{\n\tadmin off\n}}\n{site}{open}");
        std::fs::write(folder.join("Caddyfile"), text).expect("it can be written");
        let mut command = Command::new(binary);
        command.args(["run", "--adapter", "caddyfile", "--config"]).arg(folder.join("Caddyfile"));
        command.env("HOME", folder).env("XDG_DATA_HOME", folder).env("XDG_CONFIG_HOME", folder);
        command
    })
    .await
}

/// The change of the page for a limit by API key, as this version needs it.
pub(crate) fn by_key(binary: &Path, site: String) -> String {
    let version = Command::new(binary).arg("version").output().expect("Caddy runs").stdout;
    let version = String::from_utf8_lossy(&version).trim_start_matches('v').to_owned();
    let minor: u32 = version.split('.').nth(1).and_then(|it| it.parse().ok()).expect("2.MINOR.PATCH");
    let fields = if minor < 8 {
        quoted_after("no rule\nneeds, at least ").to_owned()
    } else {
        block("caddyfile api key")
    };
    let site = replace(&site, "header_up -**", &fields);
    let site =
        replace(&site, "entry=remote_address={remote_host}", quoted_after("For a limit by API key, use "));
    replace(&site, "\troute {", &format!("\troute {{\n{}", block("caddyfile one key")))
}

/// Where this machine has it; `CADDY_BIN` names another.
pub(crate) fn caddy() -> Option<PathBuf> {
    let found = std::env::var_os("CADDY_BIN").map(PathBuf::from).or_else(|| program("caddy"));
    if found.is_none() {
        skip::skip("a real Caddy", "it is not installed; on Debian: apt-get install caddy");
    }
    found
}
