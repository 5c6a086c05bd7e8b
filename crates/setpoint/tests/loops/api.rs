//! Concise API client for tests.

use serde_json::{Value, json};
use setpoint_runtime::client::{Client, ClientError, next_chunk};

use crate::server::Server;

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";

/// Client of one process of a server.
pub struct Api(Client);

impl Api {
    pub fn of(server: &Server) -> Api {
        let text = std::fs::read(&server.kubeconfig).unwrap();
        Api(Client::from_kubeconfig(&text, "test").unwrap())
    }

    /// Sends a request. Returns the code and the body of the response. A broken connection is an error, an
    /// error status is not.
    async fn ask(
        &self,
        verb: &str,
        path: &str,
        kind: &'static str,
        body: &Value,
    ) -> Result<(u16, Value), ClientError> {
        let method = verb.parse().expect("a method");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (status, body) = self.0.request(method, path, Some(kind), body.into()).await?;
        Ok((status.as_u16(), serde_json::from_slice(&body).unwrap_or_default()))
    }

    pub async fn get(&self, path: &str) -> Result<Value, ClientError> {
        Ok(self.ask("GET", path, JSON, &Value::Null).await?.1)
    }

    pub async fn list(&self, path: &str) -> Result<Vec<Value>, ClientError> {
        let (status, mut body) = self.ask("GET", path, JSON, &Value::Null).await?;
        assert_eq!(status, 200, "{path}: {body}");
        match body["items"].take() {
            Value::Array(items) => Ok(items),
            other => panic!("{path}: {other}"),
        }
    }

    pub async fn post(&self, path: &str, body: &Value) -> Result<u16, ClientError> {
        Ok(self.ask("POST", path, JSON, body).await?.0)
    }

    pub async fn merge(&self, path: &str, patch: &Value) -> Result<u16, ClientError> {
        Ok(self.ask("PATCH", path, MERGE, patch).await?.0)
    }

    pub async fn delete(&self, path: &str, mut options: Value) -> Result<u16, ClientError> {
        options["kind"] = json!("DeleteOptions");
        options["apiVersion"] = json!("v1");
        Ok(self.ask("DELETE", path, JSON, &options).await?.0)
    }

    /// Returns the events of a watch, up to a revision.
    pub async fn watch(&self, path: &str, last: u64) -> Vec<Value> {
        let method = "GET".parse().expect("a method");
        let mut body = self.0.send(method, path, None, Vec::new().into()).await.unwrap().into_body();
        let (mut text, mut events) = (Vec::new(), Vec::new());
        loop {
            text.extend_from_slice(&next_chunk(&mut body).await.unwrap().expect("the watch goes on"));
            while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = text.drain(..=end).collect();
                let mut event: Value = serde_json::from_slice(&line).unwrap();
                assert_ne!(event["type"], "ERROR", "{event}");
                let object = event["object"].take();
                let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
                events.push(object);
                if revision >= last {
                    return events;
                }
            }
        }
    }
}
