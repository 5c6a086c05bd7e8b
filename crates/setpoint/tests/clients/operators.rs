//! Operators of other projects: unmodified packages in environments, each driven by a program.

use std::process::Command;

use crate::languages::{assert_passes, program};
use crate::server::{Server, clients_dir};

/// Runs a program with an environment that has the operator, against a server with simulated nodes.
#[track_caller]
fn assert_operator_passes(name: &str, environment: &str) {
    let server = Server::start_with(&["--nodes=2", "--pod-start=0"]);
    let mut driver = Command::new(clients_dir().join("python/bin/python"));
    // Without `-B`, modules beside the program would leave bytecode among the sources.
    driver.arg("-B").arg(program("operators").join(name)).arg(clients_dir().join(environment));
    assert_passes(&server, &mut driver);
}

#[test]
fn dask_operator_creates_scales_and_collects_its_clusters() {
    assert_operator_passes("dask_cluster.py", "operators");
}

#[test]
fn traefik_routes_to_the_pods_of_an_ingress() {
    assert_operator_passes("traefik.py", "operators");
}

#[test]
fn pepr_admits_and_changes_objects_of_its_demo_and_keeps_its_own() {
    assert_operator_passes("pepr.py", "pepr");
}
