//! Estimated costs: requests that would hold a reactor up go to a worker.

use setpoint_server::exchange::{Cost, Service};

use super::*;

#[test]
fn request_that_may_take_long_is_large() {
    let server = TestServer::new();
    server.create_config_map("small", "");
    let cost = |method: &str, path: &str, header: (&'static str, &str)| {
        server.api.admit(&request(method, path, "", &[header])).map(|admission| admission.cost).ok()
    };
    let (json, yaml) = (("accept", "application/json"), ("accept", "application/yaml"));
    assert_eq!([cost("GET", MAPS, json), cost("GET", MAPS, yaml)], [Some(Cost::Small); 2]);
    let named = format!("{MAPS}/small");
    // A few operations of a JSON patch can copy megabytes.
    assert_eq!(cost("PATCH", &named, ("content-type", "application/json-patch+json")), Some(Cost::Large));
    assert_eq!(cost("PATCH", &named, ("content-type", "application/merge-patch+json")), Some(Cost::Small));
    let body = format!(r#"{{"metadata":{{"name":"big"}},"data":{{"k":"{}"}}}}"#, "x".repeat(100_000));
    assert_eq!(server.call("POST", MAPS, &body).0, 201);
    assert_eq!(cost("GET", MAPS, json), Some(Cost::Small), "stored bytes are sent as they are");
    assert_eq!(cost("GET", MAPS, yaml), Some(Cost::Large), "two objects, but one of them is large");
    assert_eq!(cost("DELETE", MAPS, json), Some(Cost::Large));
}
