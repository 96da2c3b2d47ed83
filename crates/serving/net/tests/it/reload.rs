//! Files that change while connections are served, and files that cannot be used.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a failed step of a test must say which")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::common::{TestServer, say};
use rustls::ClientConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tollgate_net::{AcceptLimits, Tls, TlsFiles};
use tollgate_testkit::certificates::{Authority, Issued};

async fn connect(server: &TestServer, client: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let name = ServerName::try_from("localhost").expect("a name");
    let connector = TlsConnector::from(Arc::clone(client));
    connector.connect(name, server.connect().await).await.expect("through")
}

/// Whether a new connection is shown the certificate of `issued`.
async fn shows(server: &TestServer, client: &Arc<ClientConfig>, issued: &Issued) -> bool {
    let stream = connect(server, client).await;
    let shown = stream.get_ref().1.peer_certificates().expect("a certificate")[0].clone();
    shown == CertificateDer::from_pem_slice(issued.cert.as_bytes()).expect("PEM")
}

fn load(folder: &Path, client_ca: Option<PathBuf>) -> Arc<Tls> {
    let files = TlsFiles {
        cert: folder.join("tls.crt"),
        key: folder.join("tls.key"),
        client_ca,
        client_name: None,
        is_client_optional: false,
    };
    Arc::new(Tls::load(files, &[]).expect("files without fault"))
}

#[tokio::test]
async fn new_connections_get_the_new_certificate_and_old_ones_continue() {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new();
    let first = authority.issue("first", 2040);
    let second = authority.issue("second", 2060);
    first.write(folder.path());
    let tls = load(folder.path(), None);
    let server = TestServer::start(Some(Arc::clone(&tls)), AcceptLimits::default()).await;
    let client = authority.client(None, &[]);
    let mut old = connect(&server, &client).await;
    assert!(shows(&server, &client, &first).await);
    assert!(!tls.reload_if_changed().expect("as before"));
    first.write(folder.path());
    assert!(!tls.reload_if_changed().expect("written again, and the same"));
    second.write(folder.path());
    assert!(shows(&server, &client, &first).await, "until somebody looks");
    assert!(tls.reload_if_changed().expect("the second"));
    assert!(shows(&server, &client, &second).await);
    assert!(!tls.reload_if_changed().expect("as before"));
    first.write(folder.path());
    assert!(tls.reload_if_changed().expect("taken back"));
    assert!(shows(&server, &client, &first).await);
    assert_eq!(say(&mut old, "still").await, "still");
}

#[tokio::test]
async fn faulty_files_are_said_once_and_the_old_certificate_stays() {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new();
    let first = authority.issue("first", 2040);
    let second = authority.issue("second", 2060);
    let (cert, key) = first.write(folder.path());
    let tls = load(folder.path(), None);
    let server = TestServer::start(Some(Arc::clone(&tls)), AcceptLimits::default()).await;
    let client = authority.client(None, &[]);
    let half = &second.cert[..second.cert.len() / 2];
    let faults: [(&str, &dyn Fn()); 4] = [
        ("tls.crt: ends within a part", &|| fs::write(&cert, half).unwrap()),
        ("tls.key: is not the key of", &|| fs::write(&cert, &second.cert).unwrap()),
        ("tls.crt: cannot be read", &|| fs::remove_file(&cert).unwrap()),
        ("tls.key: holds no private key", &|| {
            first.write(folder.path());
            fs::write(&key, "").unwrap();
        }),
    ];
    for (says, make) in faults {
        make();
        let error = tls.reload_if_changed().expect_err("faulty").to_string();
        assert!(error.contains(says), "{error}");
        for _ in 0..3 {
            assert!(!tls.reload_if_changed().expect("said already"));
        }
        assert!(shows(&server, &client, &first).await, "{says}");
    }
    first.write(folder.path());
    assert!(!tls.reload_if_changed().expect("as it was"));
    fs::write(&key, "").unwrap();
    assert!(tls.reload_if_changed().is_err(), "faulty anew");
    second.write(folder.path());
    assert!(tls.reload_if_changed().expect("good again"));
    assert!(shows(&server, &client, &second).await);
}

/// As Kubernetes mounts a secret: links to a link to a folder, and the middle one is swapped.
#[tokio::test]
async fn a_swapped_link_is_a_change() {
    let mount = TempDir::new().expect("a folder");
    let authority = Authority::new();
    let versions = [authority.issue("first", 2040), authority.issue("second", 2060)];
    for (name, version) in ["..1", "..2"].iter().zip(&versions) {
        fs::create_dir(mount.path().join(name)).unwrap();
        version.write(&mount.path().join(name));
    }
    symlink("..1", mount.path().join("..data")).unwrap();
    for file in ["tls.crt", "tls.key"] {
        symlink(Path::new("..data").join(file), mount.path().join(file)).unwrap();
    }
    let tls = load(mount.path(), None);
    let server = TestServer::start(Some(Arc::clone(&tls)), AcceptLimits::default()).await;
    let client = authority.client(None, &[]);
    symlink("..2", mount.path().join("..new")).unwrap();
    fs::rename(mount.path().join("..new"), mount.path().join("..data")).unwrap();
    assert!(tls.reload_if_changed().expect("both at once"));
    assert!(shows(&server, &client, &versions[1]).await);
}

#[tokio::test]
async fn a_new_client_authority_holds_for_new_connections() {
    let folder = TempDir::new().expect("a folder");
    let [ours, first, second] = [(); 3].map(|()| Authority::new());
    ours.issue("server", 2060).write(folder.path());
    let ca = folder.path().join("ca.crt");
    fs::write(&ca, first.pem()).unwrap();
    let tls = load(folder.path(), Some(ca.clone()));
    let server = TestServer::start(Some(Arc::clone(&tls)), AcceptLimits::default()).await;
    let clients = [&first, &second].map(|authority| ours.client(Some(&authority.issue("c", 2060)), &[]));
    let mut old = connect(&server, &clients[0]).await;
    for (pem, heard) in [
        (first.pem(), ["hello", ""]),
        (second.pem(), ["", "hello"]),
        (first.pem() + &second.pem(), ["hello", "hello"]),
    ] {
        fs::write(&ca, pem).unwrap();
        let _ = tls.reload_if_changed().expect("good");
        for (client, heard) in clients.iter().zip(heard) {
            // A client of TLS 1.3 is through before the server has looked at its certificate.
            assert_eq!(say(&mut connect(&server, client).await, "hello").await, heard);
        }
    }
    assert_eq!(say(&mut old, "still").await, "still");
}

#[test]
fn each_fault_names_its_file_and_a_way_out() {
    let authority = Authority::new();
    let issued = authority.issue("server", 2060);
    let Issued { cert, key } = &issued;
    let encrypted = key.replace("PRIVATE", "ENCRYPTED PRIVATE");
    let no_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
    let other = &authority.issue("other", 2060).key;
    let large = "x".repeat(1 << 21);
    for (cert, key, ca, says) in [
        (&**cert, &**key, Some(""), "ca.crt: holds no certificate; it needs a part BEGIN CERTIFICATE (PEM)"),
        (
            cert,
            key,
            Some(no_der),
            "ca.crt: holds an unusable certificate (invalid peer certificate: BadEncoding)",
        ),
        ("", key, None, "tls.crt: holds no certificate; it needs a part BEGIN CERTIFICATE (PEM)"),
        (key, key, None, "tls.crt: holds no certificate; it needs a part BEGIN CERTIFICATE (PEM)"),
        (
            no_der,
            key,
            None,
            "tls.crt: holds no usable certificate first (invalid peer certificate: BadEncoding)",
        ),
        (
            &cert[..cert.len() - 30],
            key,
            None,
            "tls.crt: ends within a part; write it whole, to another name, and rename it",
        ),
        (
            &cert.replace('M', "!"),
            key,
            None,
            "tls.crt: is not PEM; it needs parts from BEGIN to END with base64 between them",
        ),
        (&large, key, None, "tls.crt: cannot be read: it is larger than 1 MiB"),
        (
            cert,
            cert,
            None,
            "tls.key: holds no private key; it needs a part BEGIN PRIVATE KEY (PEM), not encrypted",
        ),
        (
            cert,
            &encrypted,
            None,
            "tls.key: holds no private key; it needs a part BEGIN PRIVATE KEY (PEM), not encrypted",
        ),
        (
            cert,
            &key[..key.len() - 30],
            None,
            "tls.key: ends within a part; write it whole, to another name, and rename it",
        ),
        (
            cert,
            no_key,
            None,
            "tls.key: holds a key that cannot be used; make an RSA, ECDSA (P-256, P-384, P-521) or Ed25519 key",
        ),
        (cert, other, None, "tls.key: is not the key of FOLDER/tls.crt; give the two that belong together"),
    ] {
        let folder = TempDir::new().expect("a folder");
        let (cert, key) = Issued { cert: cert.into(), key: key.into() }.write(folder.path());
        let client_ca = ca.map(|text| {
            let file = folder.path().join("ca.crt");
            fs::write(&file, text).unwrap();
            file
        });
        let error =
            Tls::load(TlsFiles { cert, key, client_ca, client_name: None, is_client_optional: false }, &[])
                .expect_err(says)
                .to_string();
        let place = folder.path().to_str().expect("a name");
        assert_eq!(error, format!("{place}/{}", says.replace("FOLDER", place)));
    }
}

#[test]
fn a_debug_print_holds_no_key() {
    let folder = TempDir::new().expect("a folder");
    let issued = Authority::new().issue("server", 2060);
    issued.write(folder.path());
    let print = format!("{:?}", load(folder.path(), None));
    assert!(print.contains("tls.key") && print.len() < 400, "{print}");
}

#[test]
fn a_certificate_says_until_when_it_is_good() {
    let folder = TempDir::new().expect("a folder");
    let authority = Authority::new();
    // Two ways of writing a year meet between 2049 and 2050.
    for (year, seconds) in [
        (1999, 915_148_800),
        (2030, 1_893_456_000),
        (2049, 2_493_072_000),
        (2050, 2_524_608_000),
        (2106, 4_291_747_200),
    ] {
        authority.issue("server", year).write(folder.path());
        assert_eq!(load(folder.path(), None).not_after(), Some(seconds), "{year}");
    }
}
