//! Needs of the process on its machine: sockets, workers, libraries.

use std::process::Command;

use super::*;

/// Row 51: each worker has a listening socket of its own, with the backlog of the setting.
#[test]
fn workers_and_the_backlog_of_their_sockets_are_those_of_the_settings() {
    let folder = rules(RULES);
    let server = ServerProcess::start(folder.path(), &["--workers", "3", "--backlog", "77"]);
    let port = format!("sport = :{}", server.http().port());
    let Ok(output) = Command::new("ss").args(["-Hltn", &port]).output() else {
        println!("SKIPPED the sockets of the workers: there is no ss");
        return;
    };
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let backlogs: Vec<_> = table.lines().map(|line| line.split_whitespace().nth(2)).collect();
    assert_eq!(backlogs, [Some("77"); 3], "{table}");
}

#[test]
fn the_binary_needs_nothing_but_the_c_library() {
    let output = Command::new("ldd").arg(env!("CARGO_BIN_EXE_tollgate")).output();
    let Some(output) = output.ok().filter(|output| output.status.success()) else {
        println!("SKIPPED the libraries of the binary: there is no ldd");
        return;
    };
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    // The kernel's page, the C library with its loader and mathematics, and the compiler's part of it.
    let known = ["linux-vdso.so", "libc.so", "libm.so", "libgcc_s.so", "/lib", "libc.musl"];
    let others: Vec<&str> =
        table.lines().map(str::trim).filter(|line| !known.iter().any(|it| line.starts_with(it))).collect();
    assert!(table.lines().count() >= 3 && others.is_empty(), "{others:?} of {table}");
}
