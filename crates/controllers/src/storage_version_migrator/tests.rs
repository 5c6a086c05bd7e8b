//! Tests of storage version migrations.

use setpoint_api::value;
use setpoint_reconcile::Controller;
use setpoint_sim::cluster::Cluster;

use super::*;
use crate::testing;

const MIGRATIONS: &str = StorageVersionMigration::RESOURCE;

fn cluster() -> Cluster {
    let controllers: setpoint_sim::cluster::Controllers = || {
        let list: Vec<Box<dyn Controller>> = vec![Box::new(StorageVersionMigrator)];
        (list, crate::indexes::all())
    };
    Cluster::new(controllers, 7)
}

fn migrate(cluster: &mut Cluster, name: &str, group: &str, resource: &str) {
    let spec = value!({"resource": {"group": (group), "resource": (resource)}});
    cluster.create(MIGRATIONS, "", value!({"metadata": {"name": (name)}, "spec": (spec)}));
}

fn condition(cluster: &Cluster, name: &str, kind: &str) -> String {
    testing::condition(cluster, MIGRATIONS, name, kind)
}

#[test]
fn migration_rewrites_all_objects_and_succeeds() {
    let mut cluster = cluster();
    for name in ["a", "b", "c"] {
        cluster.create("configmaps", "default", value!({"metadata": {"name": (name)}}));
    }
    migrate(&mut cluster, "m", "", "configmaps");
    cluster.settle();
    assert_eq!(
        condition(&cluster, "m", "Succeeded"),
        "True StorageVersionMigrationSucceeded Migration completed"
    );
    assert_eq!(condition(&cluster, "m", "Running"), "False MigrationCompleted Migration completed");
    let written = cluster.history.iter().filter(|line| line.contains("patch configmaps/")).count();
    assert_eq!(written, 3, "{:#?}", cluster.history);
    let status = cluster.get(MIGRATIONS, "m").unwrap();
    assert_ne!(status.str_at(&["status", "resourceVersion"]), "");
    cluster.assert_quiet();
}

#[test]
fn migrations_of_a_resource_run_one_at_a_time_oldest_first() {
    let mut cluster = cluster();
    cluster.create("configmaps", "default", value!({"metadata": {"name": "a"}}));
    migrate(&mut cluster, "z", "", "configmaps");
    cluster.now = cluster.now.after(Duration::from_secs(1));
    migrate(&mut cluster, "a", "", "configmaps");
    cluster.observe();
    cluster.plan();
    while cluster.perform() {}
    assert!(condition(&cluster, "z", "Running").starts_with("True"));
    assert_eq!(condition(&cluster, "a", "Running"), "", "both run");
    cluster.settle();
    for name in ["a", "z"] {
        assert!(condition(&cluster, name, "Succeeded").starts_with("True"), "{name}");
    }
    cluster.assert_quiet();
}

#[test]
fn impossible_migration_fails_with_the_reason() {
    let mut cluster = cluster();
    migrate(&mut cluster, "unknown", "example.org", "things");
    migrate(&mut cluster, "virtual", "authentication.k8s.io", "tokenreviews");
    cluster.settle();
    assert_eq!(condition(&cluster, "unknown", "Failed"), "", "it may be known soon");
    assert_eq!(
        condition(&cluster, "virtual", "Failed"),
        "True StorageVersionMigrationFailed resource \"authentication.k8s.io/v1, Resource=tokenreviews\" does not \
         support discovery operations: [update patch list]"
    );
    cluster.run(Duration::from_secs(61));
    assert_eq!(
        condition(&cluster, "unknown", "Failed"),
        "True StorageVersionMigrationFailed resource does not exist in discovery"
    );
    cluster.assert_quiet();
}

#[test]
fn crash_or_change_between_any_two_writes_converges() {
    for steps in 0..12 {
        let mut cluster = cluster();
        for name in ["a", "b", "c"] {
            cluster.create("configmaps", "default", value!({"metadata": {"name": (name)}}));
        }
        migrate(&mut cluster, "m", "", "configmaps");
        for _ in 0..steps {
            cluster.observe();
            cluster.plan();
            cluster.perform();
        }
        cluster.delete("configmaps", "default/b", &value!({})).unwrap();
        cluster.patch("configmaps", "default/c", "", value!({"data": {"x": "y"}})).unwrap();
        cluster.crash();
        cluster.settle();
        assert!(condition(&cluster, "m", "Succeeded").starts_with("True"), "after {steps} steps");
        cluster.assert_quiet();
    }
}
