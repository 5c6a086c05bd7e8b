//! Cost of CustomResourceDefinitions without instances: many of them, created one after another until established.
//!
//! Half of them have a group of their own, half share one, so both the number of groups and the size of a group grow.
//! `SETPOINT_BINARY` measures another build of the server.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "measures a process that runs in real time")]

#[path = "clients/server.rs"]
#[expect(dead_code, reason = "other tests use the rest of it")]
mod server;

use std::time::Instant;

use serde_json::{Value, json};
use setpoint_runtime::client::{Client, next_chunk};

use crate::server::Server;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of definitions.
const COUNT: usize = 1_000;
/// Number of definitions whose costs are added up and compared.
const SAMPLE: usize = 100;
/// Bytes of each definition.
const BYTES: usize = 13 * 1024;
/// Maximum memory of the server with all definitions, in KiB.
const MEMORY_KIB_MAX: u64 = 150 * 1024;
/// Maximum ratio of the memory for the definitions and of their stored bytes. Memory also holds recent versions of the
/// definitions, their APIServices, and the feeds of their resources; documents and compiled schemas would exceed it.
const STORED_RATIO_MAX: u64 = 5;
/// Maximum ratio of the costs of the last sample and of the first. It would be near ten if the cost of a definition were
/// proportional to the number of others.
const COST_RATIO_MAX: u64 = 3;

/// Definition number `n`: objects with many described fields.
fn definition(n: usize) -> Value {
    let group =
        if n.is_multiple_of(2) { format!("g{n}.example.com") } else { "shared.example.com".to_owned() };
    let plural = format!("things{n}");
    let field = |at: usize| {
        let description =
            format!("Number {at} of the fields that the controller of these objects reads and reports.");
        let field =
            json!({"type": "string", "description": description, "maxLength": 100 + at, "default": "none"});
        (format!("field{at}"), field)
    };
    let definition = |fields: usize| {
        let fields: serde_json::Map<String, Value> = (0..fields).map(field).collect();
        let fields = json!({"type": "object", "properties": fields});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {
                "group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": format!("thing{n}"), "kind": format!("Thing{n}"),
                    "shortNames": [format!("th{n}")], "categories": ["all"]},
                "versions": [{
                    "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "additionalPrinterColumns": [{"name": "Field", "type": "string", "jsonPath": ".spec.field0"}],
                    "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                        "spec": fields, "status": {"type": "object", "properties": {"phase": {"type": "string"}}},
                    }}},
                }],
            },
        })
    };
    let without = definition(0).to_string().len();
    let each = definition(1).to_string().len() - without;
    definition((BYTES - without) / each + 1)
}

/// Resident memory of a process in KiB.
fn memory(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

/// Processor time of all threads of a process, in microseconds.
fn processor_time(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let nanoseconds = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    nanoseconds.sum::<u64>() / 1_000
}

/// Removes complete events from the text of a watch until one shows that a definition is established.
fn takes_establishment(text: &mut Vec<u8>, name: &str) -> bool {
    while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
        let event: Value = serde_json::from_slice(&text[..end]).unwrap();
        text.drain(..=end);
        assert_ne!(event["type"], "ERROR", "{event}");
        let object = &event["object"];
        let is_established = object["status"]["conditions"].as_array().is_some_and(|conditions| {
            conditions.iter().any(|one| one["type"] == "Established" && one["status"] == "True")
        });
        if object["metadata"]["name"] == name && is_established {
            return true;
        }
    }
    false
}

/// Creates all definitions, one after another until each is established. Returns the processor time of each sample.
async fn create_all(client: &Client, pid: u32) -> Vec<u64> {
    let path = format!("{DEFINITIONS}?watch=true");
    let watch = client.send(http::Method::GET, &path, None, Vec::new().into()).await.unwrap();
    let (mut watch, mut text) = (watch.into_body(), Vec::new());
    let (mut costs, mut before) = (Vec::new(), processor_time(pid));
    for n in 0..COUNT {
        let definition = definition(n);
        let (status, answer) = client
            .request(http::Method::POST, DEFINITIONS, Some("application/json"), definition.to_string().into())
            .await
            .unwrap();
        assert_eq!(status, 201, "{}", String::from_utf8_lossy(&answer));
        while !takes_establishment(&mut text, definition["metadata"]["name"].as_str().unwrap()) {
            text.extend_from_slice(&next_chunk(&mut watch).await.unwrap().expect("the watch goes on"));
        }
        if (n + 1).is_multiple_of(SAMPLE) {
            let now = processor_time(pid);
            costs.push(now - before);
            before = now;
        }
    }
    costs
}

#[test]
fn definitions_without_instances_cost_their_bytes_and_no_more_with_their_number() {
    let server = Server::start_with(&["--nodes=1", "--pod-start=0"]);
    let pid = server.pid();
    let text = std::fs::read(&server.kubeconfig).unwrap();
    let client = Client::from_kubeconfig(&text, "definitions").unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (memory_before, start) = (memory(pid), Instant::now());
    let costs = runtime.block_on(create_all(&client, pid));
    let (memory, elapsed) = (memory(pid), start.elapsed());
    let list = runtime.block_on(client.request(http::Method::GET, DEFINITIONS, None, Vec::new().into()));
    let stored = list.unwrap().1.len() as u64 / 1024;
    println!(
        "{COUNT} definitions of {BYTES} bytes: {elapsed:?}, processor time {} ms, by {SAMPLE} {costs:?} µs; memory \
         {memory_before} KiB before, {memory} KiB after; stored {stored} KiB",
        costs.iter().sum::<u64>() / 1000
    );
    assert!(memory <= MEMORY_KIB_MAX, "{memory} KiB");
    let growth = memory.saturating_sub(memory_before);
    assert!(growth <= STORED_RATIO_MAX * stored, "{growth} KiB of memory for {stored} stored KiB");
    let (first, last) = (costs[0], costs[costs.len() - 1]);
    assert!(
        last <= COST_RATIO_MAX * first,
        "{last} µs for the last {SAMPLE} definitions, {first} for the first"
    );
}
