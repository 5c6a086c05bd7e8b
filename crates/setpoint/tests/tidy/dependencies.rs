//! Dependencies: their licenses, sources and versions, and crates that are not to be among them.
//!
//! Everything here is known offline. Known vulnerabilities and yanked versions are not: they need a database that is
//! fetched (`docs/security.md`).

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use super::root;

/// Licenses that a dependency may have, one of the alternatives it offers.
const LICENSES: [&str; 14] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "MPL-2.0",
    "MPL-2.0+",
    "OpenSSL",
    "Unicode-3.0",
    "Zlib",
];

/// Crates of which several incompatible versions are in use, because dependencies have not agreed on one yet.
const DUPLICATES: [&str; 10] = [
    "base64",
    "cpufeatures",
    "getrandom",
    "hashbrown",
    "lock_api",
    "parking_lot",
    "parking_lot_core",
    "rand_core",
    "syn",
    "untrusted",
];

/// Crates that are not to be used, with the reason.
const BANNED: [(&str, &str); 8] = [
    ("openssl", "there is one TLS library, rustls"),
    ("openssl-sys", "there is one TLS library, rustls"),
    ("native-tls", "there is one TLS library, rustls"),
    ("ring", "there is one library of cryptography, aws-lc-rs"),
    ("mbedtls", "there is one TLS library, rustls"),
    ("md5", "the digest is broken"),
    ("serde_yaml", "it is not maintained; YAML is read by setpoint-api"),
    ("chrono", "time is setpoint_api::Time"),
];

/// Packages that this platform builds, tests included.
fn packages() -> Vec<Value> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--locked", "--filter-platform"])
        .arg(format!("{}-unknown-linux-gnu", std::env::consts::ARCH))
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let built = built();
    let packages = metadata["packages"].as_array().unwrap().iter();
    let is_built = |package: &&Value| {
        built.contains(&format!("{} v{}", text(package, "name"), text(package, "version")))
    };
    let packages: Vec<Value> = packages.filter(is_built).cloned().collect();
    assert!(packages.len() > 20);
    packages
}

/// Names and versions of the packages that this platform builds. The metadata also list those of disabled features.
fn built() -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--workspace", "--locked", "--edges", "normal,build,dev", "--prefix", "none"])
        .args(["--no-dedupe", "--format", "{p}"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout).unwrap();
    lines.lines().map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect()
}

fn text<'a>(package: &'a Value, field: &str) -> &'a str {
    package[field].as_str().unwrap_or("none")
}

#[test]
fn every_dependency_has_a_license_that_fits() {
    for package in packages() {
        let license = text(&package, "license");
        // `A OR B` and the older `A/B` offer a choice; `A AND B` asks for both.
        let fits = license.replace('/', " OR ").split(" OR ").any(|choice| {
            let choice = choice.trim().trim_matches(['(', ')']);
            choice.split(" AND ").all(|one| LICENSES.contains(&one.trim().trim_matches(['(', ')'])))
        });
        assert!(fits, "{} has the license {license}", package["name"]);
    }
}

/// A path outside of the repository has no source, and a git repository another one than the registry.
#[test]
fn dependencies_come_from_one_registry_with_a_checksum() {
    let crates = root().join("crates");
    let packages = packages();
    let own = packages.iter().filter(|package| package["source"].is_null());
    for package in own {
        let path = std::path::Path::new(text(package, "manifest_path"));
        assert!(path.starts_with(&crates), "{} is outside of the repository", package["name"]);
    }
    let lock = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let foreign: Vec<&str> = lock.split("[[package]]").filter(|entry| entry.contains("source = ")).collect();
    assert!(foreign.iter().all(|entry| entry.contains("checksum = ")));
    let source = |entry: &&str| entry.lines().find(|line| line.starts_with("source = ")).map(str::to_owned);
    let sources: BTreeSet<String> = foreign.iter().filter_map(source).collect();
    assert!(sources.len() == 1 && sources.iter().all(|one| one.contains("\"registry+")), "{sources:?}");
}

/// Part of a version that has to agree for two versions to be compatible: `1`, `0.22`.
fn compatible_part(version: &str) -> String {
    let parts: Vec<&str> = version.split('.').collect();
    if parts[0] == "0" { parts[..2].join(".") } else { parts[0].to_owned() }
}

#[test]
fn crates_have_one_compatible_version() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let name = text(&package, "name").to_owned();
        versions.entry(name).or_default().insert(compatible_part(text(&package, "version")));
    }
    versions.retain(|_, versions| versions.len() > 1);
    let duplicates: Vec<&str> = versions.keys().map(String::as_str).collect();
    assert_eq!(duplicates, DUPLICATES, "{versions:?}");
}

#[test]
fn banned_crates_are_not_used() {
    for package in packages() {
        let banned = BANNED.iter().find(|(name, _)| *name == text(&package, "name"));
        assert_eq!(banned, None, "a dependency that is not to be used");
    }
}
