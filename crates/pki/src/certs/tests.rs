//! Tests of loading, renewal and clock changes over the lifetime of the certificates.

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
fn certificates_are_reused_and_private() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("pki");
    let first = Pki::load_or_create(&dir, &names(&[]), NOW, 1).unwrap();
    assert!(Pki::load_or_create(&dir, &names(&[]), later(200), 2).unwrap() == first);
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let files: Vec<_> = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 10);
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn certificates_are_renewed_in_the_last_third_of_their_validity() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    assert!(first.renew_at() > later(242) && first.renew_at() < later(244));
    let second = Pki::load_or_create(dir.path(), &names(&[]), first.renew_at(), 2).unwrap();
    assert!(second.ca == first.ca && second.server != first.server && second.admin != first.admin);
    assert!(second.renew_at() > later(365));
}

/// A client that trusts the old CA certificate accepts certificates signed by the extended one, and the reverse.
#[test]
fn extended_ca_keeps_all_credentials_valid() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    let second = Pki::load_or_create(dir.path(), &names(&[]), later(3000), 2).unwrap();
    assert!(second.ca.certificate != first.ca.certificate && second.ca.key == first.ca.key);
    for (leaf, ca) in [(&first.admin, &second.ca), (&second.server, &first.ca), (&second.admin, &second.ca)] {
        assert!(leaf.is_signed_by(ca));
    }
    let subject = |pair: &CertifiedKey| inspect(&pair.certificate, |parsed| parsed.subject().to_string());
    assert_eq!(subject(&first.ca), subject(&second.ca));
    let end = |pair: &CertifiedKey| inspect(&pair.certificate, |parsed| validity_of(parsed).1).unwrap();
    assert!(end(&second.ca) > later(6000), "its validity is extended");
    let third = Pki::load_or_create(dir.path(), &names(&[]), NOW, 3).unwrap();
    assert!(third.ca == second.ca, "the clock was ahead for a while");
    assert!(third.server != second.server && third.server.is_signed_by(&first.ca));
}

#[test]
fn new_name_reissues_only_the_serving_certificate() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    for extra in ["10.0.0.1", "fd00::1", "example"] {
        let second = Pki::load_or_create(dir.path(), &names(&[extra]), NOW, 2).unwrap();
        assert!(second.server != first.server && second.ca == first.ca && second.admin == first.admin);
        assert!(Pki::load_or_create(dir.path(), &names(&[extra]), NOW, 3).unwrap() == second);
    }
}

/// The files of a directory, with their contents.
fn contents(dir: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect();
    files.sort();
    files
}

/// Cuts a file to half of its length.
fn truncate_to_half(path: &Path) {
    let text = std::fs::read(path).unwrap();
    std::fs::write(path, &text[..text.len() / 2]).unwrap();
}

#[test]
fn unusable_ca_is_reported_and_never_replaced() {
    type Harm = fn(&Path);
    const GONE: fn(PathBuf) = |path| std::fs::remove_file(path).unwrap();
    const EMPTY: fn(PathBuf) = |path| std::fs::write(path, "").unwrap();
    let cases: [(Harm, &str); 9] = [
        (|dir| GONE(dir.join("ca.key")), "ca.key is missing, but ca.crt is there"),
        (|dir| GONE(dir.join("ca.crt")), "ca.crt is missing, but certificates that it signed are there"),
        (
            |dir| ["ca.crt", "ca.key"].iter().for_each(|name| GONE(dir.join(name))),
            "ca.crt is missing, but certificates that it signed are there",
        ),
        (|dir| EMPTY(dir.join("ca.key")), "ca.key does not hold a private key"),
        (|dir| EMPTY(dir.join("ca.crt")), "ca.crt does not hold a certificate"),
        (
            |dir| std::fs::write(dir.join("ca.crt"), [0xff; 700]).unwrap(),
            "ca.crt does not hold a certificate",
        ),
        (|dir| truncate_to_half(&dir.join("ca.crt")), "ca.crt does not hold a certificate"),
        (|dir| truncate_to_half(&dir.join("ca.key")), "ca.key does not hold a private key"),
        (
            |dir| _ = std::fs::copy(dir.join("admin.key"), dir.join("ca.key")).unwrap(),
            "ca.key is not the key of ca.crt",
        ),
    ];
    for (harm, expected) in cases {
        let dir = tempfile::tempdir().unwrap();
        let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
        harm(dir.path());
        assert_refused(dir.path(), NOW, expected);
        std::fs::write(dir.path().join("ca.crt"), &first.ca.certificate).unwrap();
        std::fs::write(dir.path().join("ca.key"), &first.ca.key).unwrap();
        assert!(
            Pki::load_or_create(dir.path(), &names(&[]), NOW, 3).unwrap() == first,
            "{expected}: once restored"
        );
    }
}

/// Asserts that loading at `now` fails with `expected`, and that nothing is written.
fn assert_refused(dir: &Path, now: Time, expected: &str) {
    let before = contents(dir);
    let refused = Pki::load_or_create(dir, &names(&[]), now, 2);
    let error = refused.err().unwrap_or_else(|| panic!("not refused: {expected}")).to_string();
    assert!(error.contains(expected), "{expected}: {error}");
    assert!(error.contains("or remove ") && !error.contains('\n'), "one line, and what to do: {error}");
    assert!(contents(dir) == before, "{expected}: something was written");
}

#[test]
fn ca_survives_a_wrong_clock_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    assert_refused(dir.path(), NOW.before(Duration::from_secs(3600)), "ca.crt is valid from ");
    assert_refused(dir.path(), later(4015), "ca.crt has expired at ");
    assert!(Pki::load_or_create(dir.path(), &names(&[]), NOW, 3).unwrap() == first);
}

#[test]
fn no_ca_is_created_with_a_wrong_clock() {
    let dir = tempfile::tempdir().unwrap();
    let error = Pki::load_or_create(dir.path(), &names(&[]), Time::from_seconds(86_400), 1)
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("the clock of this machine says 1970-01-02T00:00:00Z"), "{error}");
    assert!(contents(dir.path()).is_empty() && !error.contains('\n'), "{error}");
    let ahead = Pki::load_or_create(dir.path(), &names(&[]), later(3650), 1).unwrap();
    assert_refused(dir.path(), NOW, "if it is right now, it was ahead when the authority was made");
    assert!(Pki::load_or_create(dir.path(), &names(&[]), later(3651), 1).unwrap() == ahead);
}

#[test]
fn start_after_a_crash_of_the_first_start_succeeds() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("ca.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    assert!(Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap().ca.matches_key());
}

#[test]
fn missing_damaged_or_foreign_certificates_are_reissued() {
    let foreign = Pki::ephemeral(&names(&[]), NOW, 9).unwrap();
    for stem in ["apiserver", "admin"] {
        let files = [format!("{stem}.crt"), format!("{stem}.key")];
        for (file, text) in files.iter().flat_map(|file| {
            [None, Some(""), Some("garbage"), Some(foreign.server.key.as_str())].map(|text| (file, text))
        }) {
            let dir = tempfile::tempdir().unwrap();
            let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
            match text {
                Some(text) => std::fs::write(dir.path().join(file), text).unwrap(),
                None => std::fs::remove_file(dir.path().join(file)).unwrap(),
            }
            let second = Pki::load_or_create(dir.path(), &names(&[]), NOW, 2).unwrap();
            assert!(second.ca == first.ca, "{file}");
            assert_eq!(
                (second.server != first.server, second.admin != first.admin),
                (stem == "apiserver", stem == "admin")
            );
            assert!(second.server.is_signed_by(&first.ca) && second.admin.is_signed_by(&first.ca));
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    std::fs::write(dir.path().join("admin.crt"), &foreign.admin.certificate).unwrap();
    std::fs::write(dir.path().join("admin.key"), &foreign.admin.key).unwrap();
    let second = Pki::load_or_create(dir.path(), &names(&[]), NOW, 2).unwrap();
    assert!(second.admin != foreign.admin && second.admin.is_signed_by(&first.ca));
}

#[test]
fn certificate_subjects_are_kubeadms() {
    let pki = Pki::ephemeral(&names(&[]), NOW, 1).unwrap();
    let subject =
        |pair: &CertifiedKey| inspect(&pair.certificate, |parsed| parsed.subject().to_string()).unwrap();
    assert_eq!(subject(&pki.ca), "CN=kubernetes");
    assert_eq!(subject(&pki.server), "CN=kube-apiserver");
    assert_eq!(subject(&pki.admin), "O=system:masters, CN=kubernetes-admin");
    assert_eq!(subject(&pki.front_proxy_ca), "CN=front-proxy-ca");
    assert_eq!(subject(&pki.front_proxy_client), "CN=front-proxy-client");
}

#[test]
fn front_proxy_has_an_authority_of_its_own_that_can_be_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let first = Pki::load_or_create(dir.path(), &names(&[]), NOW, 1).unwrap();
    assert!(first.front_proxy_client.is_signed_by(&first.front_proxy_ca));
    assert!(!first.front_proxy_client.is_signed_by(&first.ca));
    std::fs::remove_file(dir.path().join("front-proxy-ca.crt")).unwrap();
    let second = Pki::load_or_create(dir.path(), &names(&[]), NOW, 2).unwrap();
    assert!(second.front_proxy_ca != first.front_proxy_ca && second.ca == first.ca);
    assert!(second.front_proxy_client.is_signed_by(&second.front_proxy_ca));
    let third = Pki::load_or_create(dir.path(), &names(&[]), later(3000), 3).unwrap();
    assert!(third.front_proxy_ca.key == second.front_proxy_ca.key, "its validity is extended");
    assert!(third.front_proxy_ca != second.front_proxy_ca);
}
