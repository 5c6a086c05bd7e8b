//! Programs in other languages, with their usual clients.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{Server, clients_dir};

/// Path of a program beside this file.
pub fn program(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

/// Runs a program whose last line is `ok: …` if it passes.
#[track_caller]
pub fn assert_passes(server: &Server, client: &mut Command) {
    let (ok, text) = server.run(client, "");
    assert!(ok && text.lines().last().is_some_and(|line| line.starts_with("ok: ")), "{client:?}: {text}");
}

#[test]
fn python_client_works() {
    let mut client = Command::new(clients_dir().join("python/bin/python"));
    assert_passes(&Server::start(), client.arg(program("client.py")));
}

#[test]
fn operator_on_kopf_heals_a_backend_that_drifts_where_no_watch_can_see_it() {
    let server = Server::start_with(&["--nodes=0"]);
    let mut operator = Command::new(clients_dir().join("python/bin/python"));
    assert_passes(&server, operator.arg(program("cool_storage.py")));
}

#[test]
fn javascript_client_works() {
    let mut client = Command::new("node");
    client.arg(program("client.mjs")).env("CLIENT_MODULES", clients_dir().join("javascript"));
    assert_passes(&Server::start(), &mut client);
}
