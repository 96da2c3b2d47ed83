//! The control plane as people run it: from a change to nodes that enforce it, reports of a fleet, pages and
//! searches over many rules.
//!
//! No other control plane is compared: the figures are compared with the bounds of ours.

mod plane;
mod simulated;
mod time;

use std::time::Duration;

use anyhow::Context as _;

use self::plane::{ConsoleClient, Plane};
use self::simulated::Fleet;
use crate::process::built_tollgate;
use crate::report::{Table, figure};
use crate::settings::Settings;
use crate::stopwatch::timed;

/// Size of the fleet, its rules and its history.
struct Sizes {
    nodes: usize,
    apps: usize,
    /// Rules per app of the fleet.
    rules: usize,
    /// Rules of the one large app.
    many: usize,
    clicks: usize,
    reporting: Duration,
    /// Between two pages of one person.
    thinking: Duration,
    /// Requests of each page.
    asks: usize,
    /// Hours of history in the database before the start.
    hours: u64,
    top_keys: u64,
}

const FULL: Sizes = Sizes {
    nodes: 1_000,
    apps: 100,
    rules: 100,
    many: 10_000,
    clicks: 50,
    reporting: Duration::from_secs(30),
    thinking: Duration::from_secs(1),
    asks: 300,
    hours: 24,
    top_keys: 100_000,
};
const QUICK: Sizes = Sizes { nodes: 200, clicks: 20, reporting: Duration::from_secs(10), asks: 100, ..FULL };
const SMOKE: Sizes = Sizes {
    nodes: 3,
    apps: 2,
    rules: 5,
    many: 20,
    clicks: 2,
    reporting: Duration::from_millis(10),
    thinking: Duration::from_millis(1),
    asks: 2,
    hours: 1,
    top_keys: 50,
};

/// Starts a control plane and asks it, alone and with a fleet.
pub(crate) fn run(settings: &Settings) -> anyhow::Result<Table> {
    let sizes = settings.size(FULL, QUICK, SMOKE);
    let folder = tempfile::tempdir()?;
    settings.say("control: history of a day");
    let prepared = plane::prepare(folder.path(), sizes.hours, sizes.top_keys)?;
    let binary = built_tollgate()?;
    let plane = Plane::start(&binary, folder.path(), &prepared)?;
    let mut rows = vec![pages_without_rules(&plane)?];
    settings.say("control: imports");
    let client = plane.client();
    let (many, took) = timed(|| client.import("many", sizes.many));
    many?;
    rows.push(row(&format!("import of {} rules, s", sizes.many), &[took.as_secs_f64()], "10"));
    for app in 0..sizes.apps {
        client.import(&app_name(app), sizes.rules)?;
    }
    settings.say("control: pages");
    rows.extend(of_many(&client, &sizes)?);
    rows.push(with_users(&plane, &sizes)?);
    settings.say(&format!("control: {} simulated nodes", sizes.nodes));
    rows.extend(of_fleet(&plane, &client, &sizes)?);
    settings.say("control: three nodes");
    rows.extend(of_three(&binary, &plane, &client, folder.path(), &sizes)?);
    let mut notes = vec![
        format!(
            "`tollgate control` with {} apps of {} rules and one of {}; history of {} h and {} limited keys. \
             Times are those of a client on the same machine, over HTTP.",
            sizes.apps, sizes.rules, sizes.many, sizes.hours, sizes.top_keys
        ),
        "Simulated nodes share the machine with the control plane: they run the node's end of the protocol \
         over real sockets and check digests, and neither parse rules nor write files."
            .to_owned(),
    ];
    notes.extend(
        settings.notes().pop().map(|it| it.split_once("; ").map_or(it.clone(), |it| it.1.to_owned())),
    );
    Ok(Table {
        name: "control",
        title: "The control plane".to_owned(),
        command: settings.command("control"),
        columns: ["ms, where nothing else is said", "median", "p99", "longest", "bound"]
            .map(str::to_owned)
            .into(),
        rows,
        notes,
    })
}

/// The name of an app of the fleet.
fn app_name(app: usize) -> String {
    format!("app-{app}")
}

/// Middle, p99 and longest of a number of figures.
fn row(what: &str, figures: &[f64], bound: &str) -> Vec<String> {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get(((sorted.len() - 1) as f64 * share) as usize).copied();
    let mut row = vec![what.to_owned()];
    if let [only] = figures {
        row.extend([figure(*only), "–".to_owned(), "–".to_owned()]);
    } else {
        row.extend([0.5, 0.99, 1.0].map(|share| figure(at(share).unwrap_or(f64::NAN))));
    }
    row.push(bound.to_owned());
    row
}

fn milliseconds(took: Duration) -> f64 {
    took.as_secs_f64() * 1_000.0
}

/// A page of a console without rules, requested anew each time.
fn pages_without_rules(plane: &Plane) -> anyhow::Result<Vec<String>> {
    let client = plane.client();
    let took: anyhow::Result<Vec<f64>> = (0..20).map(|_| client.time("GET", "/rules", None)).collect();
    Ok(row("list without rules", &took?, "50"))
}

/// Lists, searches, one change, its difference, history and limited keys, one request after another.
fn of_many(client: &ConsoleClient, sizes: &Sizes) -> anyhow::Result<Vec<Vec<String>>> {
    let asks = |path: &dyn Fn(usize) -> String| -> anyhow::Result<Vec<f64>> {
        (0..sizes.asks).map(|n| client.time("GET", &path(n), None)).collect()
    };
    let pages = (sizes.many / 20).max(1);
    let many = sizes.many;
    let mut rows = vec![
        row("list, a page of 20", &asks(&|n| format!("/rules?app=many&page={}", n * 7 % pages + 1))?, "50"),
        row(
            "list by the API",
            &asks(&|n| format!("/api/v1/apps/many/rules?page={}", n * 7 % pages + 1))?,
            "50",
        ),
        row("search", &asks(&|n| format!("/rules?app=many&search=k{}", n * 7 % many))?, "50"),
    ];
    let mut saves = Vec::new();
    for n in 0..sizes.asks.min(50) {
        let app = "many".to_owned();
        let key = format!("k{}", n * 31 % many);
        saves.push(client.change(&app, &key, 20 + n)?.1);
    }
    rows.push(row("save one", &saves, "300"));
    rows.push(row("difference of two versions", &asks(&|_| "/apps/many/versions/2/diff".to_owned())?, "300"));
    rows.push(row(
        "history of a rule, 24 h",
        &asks(&|n| format!("/apps/app-0/rules/k{}/history?span=24h", n % sizes.rules))?,
        "50",
    ));
    let to_ms = client.now_ms()?;
    let day = format!("/api/v1/history?app=app-0&from={}&to={to_ms}&step=60000", to_ms - 86_400_000);
    rows.push(row("history of an app, 24 h, each minute", &asks(&|_| day.clone())?, "50"));
    let top = |n: usize| format!("/api/v1/keys/top?span=86400000&search=client-{}", n % 50);
    rows.push(row(&format!("search in {} limited keys", sizes.top_keys), &asks(&top)?, "100"));
    Ok(rows)
}

/// Fifty people who each ask for a page once a second.
fn with_users(plane: &Plane, sizes: &Sizes) -> anyhow::Result<Vec<String>> {
    const USERS: usize = 50;
    let paths = ["/", "/rules", "/rules?search=k7", "/nodes", "/top", "/versions", "/changes", "/audit"];
    let of_user = |user: usize| -> anyhow::Result<Vec<f64>> {
        let client = plane.client();
        time::pause(sizes.thinking.mul_f64(user as f64 / USERS as f64));
        let asks = (sizes.asks / 15).max(1);
        let ask = |n: usize| {
            time::pause(sizes.thinking);
            client.time("GET", paths[(user + n) % paths.len()], None)
        };
        (0..asks).map(ask).collect()
    };
    let took: anyhow::Result<Vec<Vec<f64>>> = std::thread::scope(|scope| {
        let users: Vec<_> = (0..USERS).map(|user| scope.spawn(move || of_user(user))).collect();
        users
            .into_iter()
            .map(|user| user.join().unwrap_or_else(|_| anyhow::bail!("a user panicked")))
            .collect()
    });
    Ok(row("a page, 50 users who each ask once a second", &took?.concat(), "100"))
}

/// Changes until they are in force on simulated nodes, and what their reports cost.
fn of_fleet(plane: &Plane, client: &ConsoleClient, sizes: &Sizes) -> anyhow::Result<Vec<Vec<String>>> {
    let nodes = sizes.nodes;
    let rules = sizes.rules;
    let (fleet, took) = timed(|| -> anyhow::Result<Fleet> {
        let fleet = Fleet::start(plane, nodes, rules)?;
        let all = format!("tollgate_control_node_streams {nodes}");
        client.wait_for_metrics(&[&all, "tollgate_control_nodes_behind 0"])?;
        Ok(fleet)
    });
    let mut fleet = fleet?;
    let mut rows = vec![row(
        &format!("{nodes} nodes start at once, until all hold all rules, s"),
        &[took.as_secs_f64()],
        "–",
    )];
    let mut to_node = Vec::new();
    let mut to_all = Vec::new();
    let mut saved = Vec::new();
    for click in 0..sizes.clicks {
        fleet.forget();
        let app = app_name(click % sizes.apps);
        let (clicked, took) = client.change(&app, "k0", 20 + click)?;
        let times = fleet.applied(nodes, clicked)?;
        saved.push(took);
        to_all.extend(times.last().map(|it| milliseconds(*it)));
        to_node.extend(times.into_iter().map(milliseconds));
    }
    rows.push(row(&format!("from click to in force, each of {nodes} nodes"), &to_node, "1,000"));
    rows.push(row(&format!("from click to in force, all of {nodes} nodes"), &to_all, "–"));
    rows.push(row(&format!("save one, with {nodes} nodes"), &saved, "300"));
    let before = plane.cpu_seconds()?;
    let ((), took) = timed(|| time::pause(sizes.reporting));
    let share = 100.0 * (plane.cpu_seconds()? - before) / took.as_secs_f64();
    rows.push(row(&format!("{nodes} nodes report {rules} rules every 5 s, % of a core"), &[share], "50"));
    for (what, path) in [("list", "/rules"), ("overview", "/"), ("page of a rule", "/apps/app-1/rules/k0")] {
        let took: anyhow::Result<Vec<f64>> =
            (0..sizes.asks).map(|_| client.time("GET", path, None)).collect();
        rows.push(row(&format!("{what}, with {nodes} nodes"), &took?, "50"));
    }
    rows.push(row(&format!("memory with {nodes} nodes, MiB"), &[plane.resident_mib()?], "400"));
    Ok(rows)
}

/// Changes until three real nodes deny, and keys looked up through them.
fn of_three(
    binary: &std::path::Path,
    plane: &Plane,
    client: &ConsoleClient,
    folder: &std::path::Path,
    sizes: &Sizes,
) -> anyhow::Result<Vec<Vec<String>>> {
    let nodes: anyhow::Result<Vec<_>> =
        (0..3).map(|n| plane.node(binary, &folder.join(format!("node-{n}")))).collect();
    let nodes = nodes?;
    client.wait_for_metrics(&["tollgate_control_node_streams 3"])?;
    client.create("app-0", "first")?;
    for node in &nodes {
        plane::wait_in_force(node.port, "app-0", "first")?;
    }
    let mut in_force = Vec::new();
    for click in 0..sizes.clicks {
        let key = format!("new-{click}");
        let clicked = time::now();
        let seen: anyhow::Result<Vec<f64>> = std::thread::scope(|scope| {
            let watching: Vec<_> = nodes
                .iter()
                .map(|node| scope.spawn(|| plane::wait_in_force(node.port, "app-0", &key)))
                .collect();
            client.create("app-0", &key)?;
            let ended = |at: std::thread::Result<anyhow::Result<tollgate_core::Timestamp>>| {
                let at = at.ok().context("a watcher panicked")??;
                Ok(milliseconds(at.since(clicked)))
            };
            watching.into_iter().map(|it| ended(it.join())).collect()
        });
        in_force.push(seen?.into_iter().fold(0.0, f64::max));
    }
    let key = "/api/v1/keys?domain=app-0&entry=key%3Dk0";
    let looks: anyhow::Result<Vec<f64>> = (0..sizes.asks).map(|_| client.time("GET", key, None)).collect();
    Ok(vec![
        row("from click to in force, all of 3 real nodes", &in_force, "100 (aim)"),
        row("key look-up through 3 real nodes", &looks?, "50"),
    ])
}
