//! Safe mode: a server whose last starts crashed in the plan of one object serves the API without controllers.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use serde_json::json;

use crate::api::Api;
use crate::server::Server;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SETS: &str = "/apis/apps/v1/namespaces/default/replicasets";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ARGS: &[&str] = &["--nodes=0"];
/// File of a process that crashed for the third time while it planned a ReplicaSet.
const THIRD_CRASH: &str = "2 replicaset-controller replicasets.apps/default/web\nreplicaset-controller replicasets.apps/default/web\n";

fn progress_file(server: &Server) -> std::path::PathBuf {
    server.dir().join("data/first-pass")
}

fn set() -> serde_json::Value {
    let template = json!({
        "metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let spec = json!({"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template});
    json!({"metadata": {"name": "web"}, "spec": spec})
}

async fn wait_for_pods(api: &Api, count: usize) {
    while api.list(PODS).await.unwrap().len() != count {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// Waits until the first pass is over, that is, until the file is removed.
fn wait_for_pass(path: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        while path.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    });
}

#[test]
fn server_in_safe_mode_serves_the_api_and_runs_no_controller() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut server = Server::start_with(ARGS);
    runtime.block_on(async {
        let api = Api::of(&server);
        assert_eq!(api.post(SETS, &set()).await.unwrap(), 201);
        wait_for_pods(&api, 2).await;
    });
    wait_for_pass(&progress_file(&server));
    fs::write(progress_file(&server), THIRD_CRASH).unwrap();
    server.kill_and_restart(ARGS);
    runtime.block_on(async {
        let api = Api::of(&server);
        let report = api.get("/setpoint/loop").await.unwrap();
        assert_eq!(report["controllers"], json!([]));
        let notice = report["notice"].as_str().unwrap();
        for part in
            ["safe mode", "replicaset-controller planned replicasets.apps/default/web", "--controllers="]
        {
            assert!(notice.contains(part), "{notice}");
        }
        // No controller acts on the ReplicaSet.
        assert_eq!(api.merge(&format!("{SETS}/web"), &json!({"spec": {"replicas": 5}})).await.unwrap(), 200);
        assert_eq!(api.post(CONFIG_MAPS, &json!({"metadata": {"name": "c"}})).await.unwrap(), 201);
        assert_eq!(
            api.delete(&format!("{SETS}/web"), json!({"propagationPolicy": "Orphan"})).await.unwrap(),
            200
        );
        assert_eq!(api.list(PODS).await.unwrap().len(), 2);
    });
    // The object is removed, so the next start is a normal one.
    server.kill_and_restart(ARGS);
    runtime.block_on(async {
        let api = Api::of(&server);
        let report = api.get("/setpoint/loop").await.unwrap();
        assert!(report.get("notice").is_none() && report["controllers"] != json!([]), "{report}");
        while !api.list(SETS).await.unwrap().is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        assert_eq!(api.list(PODS).await.unwrap().len(), 2, "they are orphans");
    });
    wait_for_pass(&progress_file(&server));
}

#[test]
fn controller_that_is_disabled_needs_no_safe_mode() {
    let mut server = Server::start_with(ARGS);
    wait_for_pass(&progress_file(&server));
    fs::write(progress_file(&server), THIRD_CRASH).unwrap();
    server.kill_and_restart(&["--nodes=0", "--controllers=*,-replicaset"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let report = runtime.block_on(async { Api::of(&server).get("/setpoint/loop").await.unwrap() });
    assert!(report.get("notice").is_none() && report["controllers"] != json!([]), "{report}");
    wait_for_pass(&progress_file(&server));
}

/// Standard output of a server.
type OutputLines = std::io::Lines<BufReader<ChildStdout>>;

fn up(dir: &Path) -> (Child, OutputLines) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_setpoint"));
    command.args(["up", "--port=0", "--nodes=0", "--data-dir"]).arg(dir);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap()).lines();
    (child, output)
}

/// Waits for a line that begins with `start`, and returns it.
fn line(output: &mut OutputLines, start: &str) -> String {
    output.map(Result::unwrap).find(|line| line.starts_with(start)).unwrap()
}

#[test]
fn clean_stops_and_kills_after_the_first_pass_leave_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let progress_file = data.join("first-pass");
    for _ in 0..4 {
        let (mut child, mut output) = up(&data);
        line(&mut output, "ready");
        wait_for_pass(&progress_file);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    fs::write(&progress_file, "1 a b\na c\n").unwrap();
    let (mut child, mut output) = up(&data);
    line(&mut output, "ready");
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().unwrap().success());
    assert!(child.wait().unwrap().success());
    assert!(!progress_file.exists());
    fs::write(&progress_file, THIRD_CRASH).unwrap();
    let (mut child, mut output) = up(&data);
    let message = line(&mut output, "safe mode");
    assert!(message.contains("delete or change that object and restart"), "{message}");
    line(&mut output, "ready");
    child.kill().unwrap();
    child.wait().unwrap();
}
