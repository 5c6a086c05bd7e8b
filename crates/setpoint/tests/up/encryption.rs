//! Encryption at rest: files without plaintext, rotation by reload, exports, and KMS plugins.

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use super::kms_plugin::{Behavior, KmsPlugin};
use super::{Server, command, failure};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
/// Occurs in a Secret: its base64, as the API has it, and its label.
const MARKER: &[u8] = b"aHVudGVyMg==";
const LABEL: &[u8] = b"label-of-a-secret";
const KEY_1: &str = "{name: key1, secret: MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=}";
const KEY_2: &str = "{name: key2, secret: YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXphYmNkZWY=}";

fn write_config(path: &Path, providers: &str) {
    let text = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n\
         - resources: [secrets]\n  providers: [{providers}, {{identity: {{}}}}]\n"
    );
    // A reload must not find half of the file.
    let next = path.with_extension("next");
    std::fs::write(&next, text).unwrap();
    std::fs::rename(next, path).unwrap();
}

fn aesgcm(keys: &[&str]) -> String {
    format!("{{aesgcm: {{keys: [{}]}}}}", keys.join(", "))
}

/// A data directory and a configuration beside it.
struct Setup {
    dir: tempfile::TempDir,
}

impl Setup {
    fn new(providers: &str) -> Setup {
        let setup = Setup { dir: tempfile::tempdir().unwrap() };
        write_config(&setup.config(), providers);
        setup
    }

    fn config(&self) -> std::path::PathBuf {
        self.dir.path().join("encryption.yaml")
    }

    fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    fn args(&self) -> Vec<String> {
        let flag = |path: std::path::PathBuf| path.to_str().unwrap().to_owned();
        let mut args = vec!["--controllers=".to_owned(), "--data-dir".to_owned(), flag(self.data())];
        args.extend(["--encryption-provider-config".to_owned(), flag(self.config())]);
        args
    }

    fn start(&self, more: &[&str]) -> Server {
        let args = self.args();
        let args: Vec<&str> = args.iter().map(String::as_str).chain(more.iter().copied()).collect();
        Server::start(&args)
    }

    fn failure(&self) -> String {
        let args = self.args();
        let output = command(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap();
        let errors = String::from_utf8(output.stderr).unwrap();
        // Calls of a KMS plugin are logged before.
        let last = errors.lines().last().unwrap_or_default();
        assert!(!output.status.success() && last.starts_with("setpoint: "), "{errors}");
        last.to_owned()
    }

    /// Runs `setpoint store`, with the configuration or without.
    fn store(&self, command: &str, has_config: bool, more: &[&str]) -> Output {
        let mut store = Command::new(env!("CARGO_BIN_EXE_setpoint"));
        store.args(["store", command, "--data-dir"]).arg(self.data());
        if has_config {
            store.arg("--encryption-provider-config").arg(self.config());
        }
        store.args(more).output().unwrap()
    }

    fn stat(&self) -> String {
        let output = self.store("stat", false, &[]);
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns the files of the store that contain the bytes.
    fn files_with(&self, bytes: &[u8]) -> Vec<String> {
        let names = std::fs::read_dir(self.data()).unwrap().map(|entry| entry.unwrap());
        let logs = names.filter(|entry| entry.file_name().to_str().unwrap().ends_with(".log"));
        let found = logs.filter(|entry| has(&std::fs::read(entry.path()).unwrap(), bytes));
        found.map(|entry| entry.file_name().into_string().unwrap()).collect()
    }
}

fn has(text: &[u8], bytes: &[u8]) -> bool {
    text.windows(bytes.len()).any(|part| part == bytes)
}

fn create_secret(server: &Server, name: &str) -> (String, String) {
    let body = format!(
        r#"{{"apiVersion":"v1","kind":"Secret","metadata":{{"name":"{name}","labels":{{"a":"label-of-a-secret"}}}},"data":{{"password":"aHVudGVyMg=="}}}}"#
    );
    server.client().send_as(&format!("POST {SECRETS}"), "content-type: application/json\r\n", body.as_bytes())
}

fn get(server: &Server, path: &str) -> String {
    server.client().send(&format!("GET {path}"), b"").1
}

/// Waits until the state is reached.
fn wait(what: &str, mut is_reached: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is_reached() {
            return;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    panic!("not reached: {what}");
}

#[test]
fn secrets_are_sealed_in_all_files_and_keys_are_replaced_by_reload() {
    let setup = Setup::new(&aesgcm(&[KEY_1]));
    let server = setup.start(&["--encryption-provider-config-automatic-reload"]);
    let (head, _) = create_secret(&server, "a");
    assert!(head.starts_with("HTTP/1.1 201 "), "{head}");
    assert!(has(get(&server, &format!("{SECRETS}/a")).as_bytes(), MARKER));
    assert_eq!(get(&server, "/healthz/kms-providers"), "ok");
    assert!(setup.stat().contains("with key k8s:enc:aesgcm:v1:key1"), "{}", setup.stat());
    write_config(&setup.config(), "{aesgcm: {keys: []}}");
    let reloads = "apiserver_encryption_config_controller_automatic_reloads_total";
    let counted = |status: &str| format!("{reloads}{{status=\"{status}\"}} 1\n");
    wait("a rejected reload", || get(&server, "/metrics").contains(&counted("failure")));
    assert!(create_secret(&server, "b").0.starts_with("HTTP/1.1 201 "), "the old keys stay");
    write_config(&setup.config(), &aesgcm(&[KEY_2, KEY_1]));
    wait("a reload", || get(&server, "/metrics").contains(&counted("success")));
    // A checkpoint seals the objects with the new key.
    wait("a checkpoint", || setup.stat().contains("sealed     2 writes with key k8s:enc:aesgcm:v1:key2"));
    create_secret(&server, "c");
    assert_eq!(setup.files_with(MARKER), Vec::<String>::new());
    assert_eq!(setup.files_with(LABEL), Vec::<String>::new());
    drop(server);
    let checked = setup.store("check", true, &[]);
    assert!(checked.status.success(), "{checked:?}");
    let server = {
        write_config(&setup.config(), &aesgcm(&[KEY_2]));
        setup.start(&[])
    };
    for name in ["a", "b", "c"] {
        assert!(has(get(&server, &format!("{SECRETS}/{name}")).as_bytes(), MARKER), "{name}");
    }
    drop(server);
    write_config(&setup.config(), &aesgcm(&[KEY_1]));
    let error = setup.failure();
    assert!(error.contains("sealed with key \"k8s:enc:aesgcm:v1:key2\""), "{error}");
    assert!(error.contains("put it back"), "{error}");
    let error = failure(&["--controllers=", "--data-dir", setup.data().to_str().unwrap()]);
    assert!(
        error.contains("there is no encryption configuration: set --encryption-provider-config"),
        "{error}"
    );
    for command in ["check", "compact"] {
        let output = setup.store(command, false, &[]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(
            !output.status.success() && error.contains("there is no encryption configuration"),
            "{error}"
        );
    }
}

#[test]
fn exports_keep_secrets_sealed() {
    let setup = Setup::new(&aesgcm(&[KEY_1]));
    let server = setup.start(&[]);
    create_secret(&server, "a");
    drop(server);
    for has_config in [false, true] {
        let export = setup.store("export", has_config, &[]);
        assert!(export.status.success(), "{export:?}");
        assert!(has(&export.stdout, br#""key":"k8s:enc:aesgcm:v1:key1""#));
        assert!(!has(&export.stdout, MARKER) && !has(&export.stdout, LABEL));
        let file = setup.dir.path().join("export.jsonl");
        std::fs::write(&file, &export.stdout).unwrap();
        let copy = Setup::new(&aesgcm(&[KEY_2, KEY_1]));
        let import = copy.store("import", false, &["--input", file.to_str().unwrap()]);
        let error = String::from_utf8(import.stderr).unwrap();
        assert!(error.contains("the object is encrypted: set --encryption-provider-config"), "{error}");
        let import = copy.store("import", true, &["--input", file.to_str().unwrap()]);
        assert!(import.status.success(), "{import:?}");
        assert_eq!(copy.files_with(MARKER), Vec::<String>::new());
        assert!(
            copy.stat().contains("sealed     1 write with key k8s:enc:aesgcm:v1:key2"),
            "{}",
            copy.stat()
        );
        assert!(has(get(&copy.start(&[]), &format!("{SECRETS}/a")).as_bytes(), MARKER));
    }
}

#[test]
fn invalid_configuration_is_rejected_before_the_data_directory_is_created() {
    let setup = Setup::new("{secretbox: {keys: [{name: a, secret: c2hvcnQ=}]}}");
    let error = setup.failure();
    assert!(
        error.contains("resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the"),
        "{error}"
    );
    assert!(!error.contains("c2hvcnQ") && !setup.data().exists());
    std::fs::remove_file(setup.config()).unwrap();
    assert!(setup.failure().contains("cannot read the encryption provider configuration"));
    write_config(&setup.config(), &aesgcm(&[KEY_1]));
    let config = setup.config();
    let error = failure(&["--ephemeral", "--encryption-provider-config", config.to_str().unwrap()]);
    assert!(error.contains("--encryption-provider-config has no effect with --ephemeral"), "{error}");
}

fn kms(plugin: &KmsPlugin) -> String {
    let socket = plugin.socket();
    let socket = socket.to_str().unwrap();
    format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{socket}', timeout: 1s}}}}")
}

#[test]
fn keys_of_a_kms_plugin_survive_a_restart() {
    let plugin = KmsPlugin::start();
    let setup = Setup::new(&kms(&plugin));
    let server = setup.start(&[]);
    assert!(create_secret(&server, "a").0.starts_with("HTTP/1.1 201 "));
    assert_eq!(get(&server, "/healthz/kms-providers"), "ok");
    let metrics = get(&server, "/metrics");
    let name = "apiserver_envelope_encryption_kms_operations_latency_seconds_count";
    assert!(
        metrics.contains(&format!(
            "{name}{{grpc_status_code=\"OK\",method_name=\"/v2.KeyManagementService/Encrypt\",provider_name=\"vault\"}} 1\n"
        )),
        "{metrics}"
    );
    // A plugin that is down stops neither reads nor, for a while, writes.
    plugin.set(Behavior::Failing);
    assert!(create_secret(&server, "b").0.starts_with("HTTP/1.1 201 "));
    assert!(has(get(&server, &format!("{SECRETS}/b")).as_bytes(), MARKER));
    drop(server);
    assert_eq!(setup.files_with(MARKER), Vec::<String>::new());
    assert!(setup.stat().contains("sealed     2 writes with key k8s:enc:kms:v2:vault:1"), "{}", setup.stat());
    plugin.set(Behavior::Working("2"));
    let server = setup.start(&[]);
    assert_eq!(plugin.decrypt_calls(), 1, "one call opens all values of a seed");
    create_secret(&server, "c");
    for name in ["a", "b", "c"] {
        assert!(has(get(&server, &format!("{SECRETS}/{name}")).as_bytes(), MARKER), "{name}");
    }
    wait("a checkpoint with the new key", || setup.stat().contains("writes with key k8s:enc:kms:v2:vault:2"));
}

#[test]
fn kms_plugin_that_is_not_usable_fails_the_start() {
    let plugin = KmsPlugin::start();
    let setup = Setup::new(&kms(&plugin));
    for (behavior, expected) in [
        (Behavior::Failing, "Status: rpc error: code = Unavailable desc = the vault is sealed"),
        (Behavior::Hanging, "Status: rpc error: code = DeadlineExceeded desc = no response in 1000 ms"),
        (Behavior::Unhealthy, "got unexpected healthz status: not ok"),
        (Behavior::OtherKey, "failed to rotate DEK: the status has the key ID hash"),
        (Behavior::Plaintext, "failed to rotate DEK: the plugin returned the seed unencrypted"),
        (Behavior::Garbage, "Status: "),
    ] {
        plugin.set(behavior);
        let error = setup.failure();
        assert!(
            error.contains("KMS provider \"vault\" at ") && error.contains(expected),
            "{expected}: {error}"
        );
        assert!(error.contains("is not usable: start its plugin, or change the configuration"), "{error}");
    }
    drop(plugin);
    let error = setup.failure();
    assert!(error.contains("rpc error: code = Unavailable desc = "), "{error}");
    assert!(!setup.data().exists(), "no store was created");
}

#[test]
fn kms_plugin_that_opens_to_other_keys_is_detected() {
    let plugin = KmsPlugin::start();
    let setup = Setup::new(&kms(&plugin));
    let server = setup.start(&[]);
    create_secret(&server, "a");
    drop(server);
    plugin.set(Behavior::WrongSeed);
    let error = setup.failure();
    assert!(error.contains("is corrupt at byte") && error.contains("another key of this name"), "{error}");
    plugin.set(Behavior::Working("1"));
    assert!(has(get(&setup.start(&[]), &format!("{SECRETS}/a")).as_bytes(), MARKER), "nothing was changed");
}
