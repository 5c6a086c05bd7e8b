//! Example controller that mirrors a ConfigMap into a directory, against a server.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::json;
use setpoint_runtime::client::Client;

use crate::api::Api;
use crate::server::{ALONE, Server};

#[path = "../../../../examples/mirror_directory.rs"]
#[expect(dead_code, reason = "its main is not ours")]
mod example;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PAUSE: Duration = Duration::from_millis(5);
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Waits until the directory has exactly these files.
async fn holds(directory: &Path, wanted: &[(&str, &str)]) {
    let wanted: BTreeMap<String, String> =
        wanted.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect();
    let mut found = BTreeMap::new();
    let looking = async {
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
            tokio::time::sleep(PAUSE).await;
        }
    };
    let waited = tokio::time::timeout(WAIT_MAX, looking).await;
    assert!(waited.is_ok(), "the directory holds {found:?} instead of {wanted:?}");
}

async fn walk(server: &Server, directory: &Path) {
    let api = Api::of(server);
    let map =
        json!({"metadata": {"name": "site"}, "data": {"a": "1", "b": "2"}, "binaryData": {"c": "Mw=="}});
    assert_eq!(api.post(MAPS, &map).await.unwrap(), 201);
    let all = [("a", "1"), ("b", "2"), ("c", "3")];
    holds(directory, &all).await;
    fs::write(directory.join("a"), "edited by hand").unwrap();
    holds(directory, &all).await;
    fs::remove_file(directory.join("b")).unwrap();
    holds(directory, &all).await;
    fs::write(directory.join("d"), "one too many").unwrap();
    fs::write(directory.join("~new"), "left by a crash").unwrap();
    holds(directory, &all).await;
    fs::remove_dir_all(directory).unwrap();
    holds(directory, &all).await;
    let path = format!("{MAPS}/site");
    assert_eq!(api.merge(&path, &json!({"data": {"a": "one", "b": null, "e": "5"}})).await.unwrap(), 200);
    let changed = [("a", "one"), ("c", "3"), ("e", "5")];
    holds(directory, &changed).await;
    assert_eq!(api.delete(&path, json!({})).await.unwrap(), 200);
    fs::write(directory.join("a"), "edited while the ConfigMap is unchanged").unwrap();
    holds(directory, &changed).await;
}

#[test]
fn directory_is_kept_equal_to_a_config_map() {
    let server = Server::with(ALONE);
    let directory = server.dir().join("site");
    let text = fs::read(&server.kubeconfig).unwrap();
    let client = Client::from_kubeconfig(&text, "mirror-directory").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        tokio::select! {
            () = example::keep(&client, "default", "site", &directory) => {}
            () = walk(&server, &directory) => {}
        }
    });
}
