//! Certificates over the years.

use std::os::unix::fs::PermissionsExt;

use super::*;

const NOW: Time = Time::from_seconds(1_790_000_000);

fn names(extra: &[&str]) -> Vec<String> {
    ["localhost", "127.0.0.1"].iter().chain(extra).map(|name| (*name).to_owned()).collect()
}

fn later(days: u32) -> Time {
    NOW.after(DAY * days)
}

#[test]
fn certificates_are_used_again_and_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("pki");
    let first = Pki::keep(&dir, &names(&[]), NOW, 1).unwrap();
    assert!(Pki::keep(&dir, &names(&[]), later(200), 2).unwrap() == first);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 6);
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn certificates_are_renewed_in_the_last_third_of_their_life() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::keep(dir.path(), &names(&[]), NOW, 1).unwrap();
    assert!(first.renew_at() > later(242) && first.renew_at() < later(244));
    let second = Pki::keep(dir.path(), &names(&[]), first.renew_at(), 2).unwrap();
    assert!(second.ca == first.ca && second.server != first.server && second.admin != first.admin);
    assert!(second.renew_at() > later(365));
    let third = Pki::keep(dir.path(), &names(&[]), later(3000), 3).unwrap();
    assert!(third.ca != first.ca && third.server != second.server && third.admin != second.admin);
    assert!(Pki::keep(dir.path(), &names(&[]), NOW, 4).unwrap().ca != third.ca, "not valid yet");
}

#[test]
fn a_new_name_makes_a_new_server_certificate_only() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::keep(dir.path(), &names(&[]), NOW, 1).unwrap();
    for extra in ["10.0.0.1", "fd00::1", "example"] {
        let second = Pki::keep(dir.path(), &names(&[extra]), NOW, 2).unwrap();
        assert!(second.server != first.server && second.ca == first.ca && second.admin == first.admin);
        assert!(Pki::keep(dir.path(), &names(&[extra]), NOW, 3).unwrap() == second);
    }
}

#[test]
fn what_a_crash_left_half_is_made_anew_and_damage_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::keep(dir.path(), &names(&[]), NOW, 1).unwrap();
    std::fs::write(dir.path().join("admin.key"), &first.server.key).unwrap();
    let second = Pki::keep(dir.path(), &names(&[]), NOW, 2).unwrap();
    assert!(second.admin != first.admin && second.server == first.server);
    std::fs::remove_file(dir.path().join("apiserver.crt")).unwrap();
    assert!(Pki::keep(dir.path(), &names(&[]), NOW, 3).unwrap().server != first.server);
    std::fs::write(dir.path().join("ca.crt"), "garbage").unwrap();
    let error = Pki::keep(dir.path(), &names(&[]), NOW, 4).err().unwrap().to_string();
    assert!(error.contains("ca.crt does not hold a certificate: remove it"), "{error}");
}

#[test]
fn subjects_are_those_that_policies_know() {
    let pki = Pki::ephemeral(&names(&[]), NOW, 1).unwrap();
    let subject = |pair: &Pair| inspect(&pair.certificate, |parsed| parsed.subject().to_string()).unwrap();
    assert_eq!(subject(&pki.ca), "CN=kubernetes");
    assert_eq!(subject(&pki.server), "CN=kube-apiserver");
    assert_eq!(subject(&pki.admin), "O=system:masters, CN=kubernetes-admin");
}
