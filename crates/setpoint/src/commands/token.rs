//! `setpoint token`: requests a token of a service account, as `kubectl create token` does.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use setpoint_api::{Value, json, value};
use setpoint_runtime::client::{Client, percent_encode};

use super::api_client::{ClientArgs, status_message};
use super::fleet::parse_duration;

const EXAMPLES: &str = "\
Examples:
  # Request a token of the service account builder in the namespace ci
  setpoint token builder -n ci

  # Request a token for another audience, bound to a pod: it is invalid once the pod is deleted
  setpoint token builder -n ci --audience vault --duration 10m --bound-object-kind Pod --bound-object-name runner

Bootstrap tokens are Secrets of the type bootstrap.kubernetes.io/token, which `kubectl create secret` makes.";

/// Arguments of `setpoint token`.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub struct TokenArgs {
    /// Name of the service account
    #[arg(value_name = "SERVICEACCOUNT", default_value = "default")]
    name: String,
    /// Namespace of the service account
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    namespace: String,
    /// Audience of the token; may be repeated [default: the server's API]
    #[arg(long = "audience", value_name = "AUDIENCE")]
    audiences: Vec<String>,
    /// Requested validity of the token; the server may return a token with another one [default: as the server decides]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// Kind of an object to bind the token to: Pod, Secret or Node
    #[arg(long, value_name = "KIND", value_parser = ["Pod", "Secret", "Node"], requires = "bound_object_name")]
    bound_object_kind: Option<String>,
    /// Name of an object to bind the token to; the token is invalid once it is deleted
    #[arg(long, value_name = "NAME", requires = "bound_object_kind")]
    bound_object_name: Option<String>,
    /// UID of the object to bind the token to [default: that of the existing object]
    #[arg(long, value_name = "UID", requires = "bound_object_name")]
    bound_object_uid: Option<String>,
    #[command(flatten)]
    client: ClientArgs,
}

impl TokenArgs {
    /// Returns the body of the request.
    fn request(&self) -> anyhow::Result<Value> {
        let mut spec = Value::map();
        if !self.audiences.is_empty() {
            let audiences: Vec<Value> = self.audiences.iter().map(|one| Value::from(one.as_str())).collect();
            spec.make_map().insert("audiences", Value::List(audiences));
        }
        if let Some(duration) = self.duration {
            ensure!(
                !duration.is_zero() && duration.subsec_nanos() == 0,
                "--duration must be a whole number of seconds, greater than 0"
            );
            let seconds = i64::try_from(duration.as_secs()).context("--duration is too large")?;
            spec.make_map().insert("expirationSeconds", seconds);
        }
        if let (Some(kind), Some(name)) = (&self.bound_object_kind, &self.bound_object_name) {
            let uid = self.bound_object_uid.as_deref().unwrap_or_default();
            let object =
                value!({"kind": (kind.as_str()), "apiVersion": "v1", "name": (name.as_str()), "uid": (uid)});
            spec.make_map().insert("boundObjectRef", object);
        }
        Ok(value!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": (spec)}))
    }

    fn path(&self) -> String {
        let (namespace, name) = (percent_encode(&self.namespace), percent_encode(&self.name));
        format!("/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token")
    }
}

/// Runs the command.
pub fn run(args: &TokenArgs) -> anyhow::Result<()> {
    let body = json::to_vec(&args.request()?);
    let (client, kubeconfig) = args.client.connect()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let token = runtime.block_on(request(&client, &args.path(), body, &kubeconfig))?;
    println!("{token}");
    Ok(())
}

async fn request(client: &Client, path: &str, body: Vec<u8>, kubeconfig: &Path) -> anyhow::Result<String> {
    let sent = client.request("POST".parse()?, path, Some("application/json"), body.into()).await;
    let (status, body) = sent.with_context(|| {
        format!(
            "cannot reach the server of {}: start it with `setpoint up`, or set --kubeconfig",
            kubeconfig.display()
        )
    })?;
    if !status.is_success() {
        bail!("cannot request a token: {}", status_message(status.as_u16(), &body));
    }
    let token = json::parse(&body).unwrap_or_default().str_at(&["status", "token"]).to_owned();
    ensure!(!token.is_empty(), "the server returned no token");
    Ok(token)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        token: TokenArgs,
    }

    fn request(args: &[&str]) -> Result<(String, String), String> {
        let command =
            Command::try_parse_from(["token"].iter().chain(args)).map_err(|error| error.to_string())?;
        let body = command.token.request().map_err(|error| error.to_string())?;
        Ok((command.token.path(), json::to_text(body.get("spec").unwrap_or(&Value::Null))))
    }

    #[test]
    fn flags_become_a_token_request() {
        let (path, spec) = request(&[]).unwrap();
        assert_eq!(path, "/api/v1/namespaces/default/serviceaccounts/default/token");
        assert_eq!(spec, "{}");
        let all = [
            "a/b",
            "-n",
            "ci",
            "--audience",
            "x",
            "--audience",
            "y",
            "--duration",
            "10m",
            "--bound-object-kind",
            "Pod",
            "--bound-object-name",
            "p",
        ];
        let (path, spec) = request(&all).unwrap();
        assert_eq!(path, "/api/v1/namespaces/ci/serviceaccounts/a%2Fb/token");
        let expected = r#""audiences":["x","y"],"expirationSeconds":600,"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p""#;
        assert!(spec.contains(expected), "{spec}");
        for bad in [&["--duration", "0s"][..], &["--duration", "1500ms"], &["--bound-object-kind", "Pod"]] {
            assert!(request(bad).is_err(), "{bad:?}");
        }
        assert!(request(&["--bound-object-kind", "Job", "--bound-object-name", "j"]).is_err());
    }
}
