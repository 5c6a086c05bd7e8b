//! Example controller that mirrors a ConfigMap into a directory, against a server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use setpoint_runtime::client::Client;

use crate::api::Api;
use crate::server::{Server, WITHOUT_CONTROLLERS};

#[path = "../../../../examples/mirror_directory.rs"]
#[expect(dead_code, reason = "its main is not used")]
mod example;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const POLL_INTERVAL: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Waits until the directory has exactly these files.
async fn wait_for_files(directory: &Path, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mut found = BTreeMap::new();
    let polling = async {
        loop {
            let names = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
            found = names
                .map(|entry| {
                    (
                        entry.file_name().into_string().unwrap(),
                        fs::read_to_string(entry.path()).unwrap_or_default(),
                    )
                })
                .collect();
            if found == wanted {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let result = tokio::time::timeout(WAIT_MAX, polling).await;
    assert!(result.is_ok(), "the directory holds {found:?} instead of {wanted:?}");
}

async fn run_steps(server: &Server, directory: &Path) {
    let api = Api::of(server);
    let map =
        json!({"metadata": {"name": "site"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "Mw=="}});
    assert_eq!(api.post(MAPS, &map).await.unwrap(), 201);
    let all = [("a", "1"), ("b", "2"), ("c", "3")];
    wait_for_files(directory, &all).await;
    fs::write(directory.join("a"), "edited by hand").unwrap();
    wait_for_files(directory, &all).await;
    fs::remove_file(directory.join("b")).unwrap();
    wait_for_files(directory, &all).await;
    fs::write(directory.join("d"), "one too many").unwrap();
    fs::write(directory.join("~new"), "left by a crash").unwrap();
    wait_for_files(directory, &all).await;
    fs::remove_dir_all(directory).unwrap();
    wait_for_files(directory, &all).await;
    let path = format!("{MAPS}/site");
    assert_eq!(api.merge(&path, &json!({"data": {"a": "one", "b": null, "e": "5"}})).await.unwrap(), 200);
    let changed = [("a", "one"), ("c", "3"), ("e", "5")];
    wait_for_files(directory, &changed).await;
    assert_eq!(api.delete(&path, json!({})).await.unwrap(), 200);
    fs::write(directory.join("a"), "edited while the ConfigMap is unchanged").unwrap();
    wait_for_files(directory, &changed).await;
}

#[test]
fn directory_is_kept_equal_to_a_config_map() {
    let server = Server::start_with(WITHOUT_CONTROLLERS);
    let directory = server.dir().join("site");
    let text = fs::read(&server.kubeconfig).unwrap();
    let client = Client::from_kubeconfig(&text, "mirror-directory").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            () = example::keep(&client, "default", "site", &directory) => {}
            () = run_steps(&server, &directory) => {}
        }
    });
}
