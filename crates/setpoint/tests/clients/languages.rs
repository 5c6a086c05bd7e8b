//! Programs in other languages, with their usual clients.

use std::path::PathBuf;
use std::process::Command;

use crate::server::{Server, clients_dir};

fn program(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

fn passes(client: &mut Command) {
    let server = Server::start();
    let (ok, text) = server.run(client, "");
    assert!(ok && text.lines().last().is_some_and(|line| line.starts_with("ok: ")), "{client:?}: {text}");
}

#[test]
fn python_client_works() {
    passes(Command::new(clients_dir().join("python/bin/python")).arg(program("client.py")));
}

#[test]
fn operator_on_kopf_heals_a_backend_that_drifts_where_no_watch_can_see_it() {
    let server = Server::start_with(&["--nodes=0"]);
    let mut operator = Command::new(clients_dir().join("python/bin/python"));
    let (ok, text) = server.run(operator.arg(program("cool_storage.py")), "");
    assert!(ok && text.lines().last().is_some_and(|line| line.starts_with("ok: ")), "{text}");
}

#[test]
fn javascript_client_works() {
    passes(
        Command::new("node")
            .arg(program("client.mjs"))
            .env("CLIENT_MODULES", clients_dir().join("javascript")),
    );
}
