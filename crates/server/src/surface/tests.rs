//! A surface in one file: rows, settings, what serves its connections. Nothing else has to know it.

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::watch;
use tollgate_rule_files::Options;
use tollgate_telemetry::Reported;

use super::*;
use crate::server::Server;
use crate::settings::row::Heading::Listen as Where;
use crate::settings::row::rows;
use crate::settings::{Settings, Sources, parse};
use crate::{start, worker};

rows! {
    /// The rows of this surface.
    ROWS:
    LISTEN: Row<Listen> = Row::new("toy", "ADDR", "off", parse::listen).help(Where, "Address of the toy");
    GREETING: Row<String> = Row::new("toy-greeting", "TEXT", "hello", parse::any).help(Where, "What it sends");
}

static TOY: SurfaceKind = SurfaceKind {
    listen: &LISTEN,
    rows: ROWS,
    read: |layers| Arc::new(ToySettings { greeting: layers.one(&GREETING) }),
};

#[derive(Debug, PartialEq)]
struct ToySettings {
    greeting: String,
}

impl Mount for ToySettings {
    fn mount(&self, process: &MountContext<'_>) -> Mounted {
        let toy = Arc::new(Toy(self.greeting.clone()));
        let acceptors = (0..process.serving.workers).map(|_| Acceptor::of(Arc::clone(&toy))).collect();
        Mounted { acceptors, metrics: None }
    }
}

/// Sends its greeting to every client.
struct Toy(String);

impl tollgate_net::Surface for Toy {
    async fn serve<IO>(self: Arc<Self>, mut io: IO, _drain: watch::Receiver<bool>)
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let _ = io.write_all(self.0.as_bytes()).await;
    }
}

#[test]
fn a_new_surface_is_read_mounted_and_served_like_the_others() {
    let rules = tempfile::tempdir().expect("a folder");
    let mut sources = Sources { cores: 1, ..Sources::default() };
    sources.flags.insert("rules".into(), vec![rules.path().display().to_string()]);
    sources.flags.insert("toy".into(), vec!["127.0.0.1:0".into()]);
    sources.env = vec![("TOLLGATE_TOY_GREETING".into(), "good day".into())];
    let settings = Settings::read_with(&sources, &[&TOY]).expect("valid settings");
    assert_eq!(settings.surfaces[0].settings(), Some(&ToySettings { greeting: "good day".into() }));

    let node = start::node(None, Options::default(), &settings).expect("a node");
    let mut server = Server::bind(settings, node).expect("a free port");
    let workers = server.mount(Reported::default());
    let listening = server.listening();
    assert_eq!(listening.iter().map(|it| it.surface.name()).collect::<Vec<_>>(), ["toy"]);
    let Some(Address::Tcp(address)) = listening[0].address.cloned() else { panic!("{listening:?}") };
    let greeting = worker::small_runtime().expect("a runtime").block_on(async {
        let (close, closing) = watch::channel(false);
        let toy = workers.into_iter().flatten().next().expect("a socket");
        let accepting = tokio::spawn(toy.accept(closing).expect("a listener"));
        let mut greeting = String::new();
        let mut client = tokio::net::TcpStream::connect(address).await.expect("it accepts");
        client.read_to_string(&mut greeting).await.expect("a greeting");
        close.send_replace(true);
        accepting.await.expect("it ends");
        greeting
    });
    assert_eq!(greeting, "good day");
}

#[test]
fn a_surface_is_known_by_name_in_its_file_and_in_the_list_only() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut knowing = Vec::new();
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if knows_resp(&std::fs::read_to_string(&path).expect("text")) {
                knowing.push(path.strip_prefix(&source).expect("inside").display().to_string());
            }
        }
    }
    knowing.retain(|path| path != "surface/tests.rs");
    knowing.sort();
    assert_eq!(knowing, ["surfaces.rs", "surfaces/resp.rs"]);
}

fn knows_resp(source: &str) -> bool {
    source.contains("resp::") || source.contains("resp_api")
}
