//! Bootstrap tokens: deletes expired tokens, and signs `cluster-info` with valid ones.
//!
//! Joining nodes trust `cluster-info` because it is signed with a secret that they have. Signatures are
//! queries, so no planner computes with secrets.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use setpoint_api::quote::json_string;
use setpoint_api::{Key, Map, Time, Value, rfc3339, value};
use setpoint_reconcile::planner::key_of;
use setpoint_reconcile::{Object, Plan, Planner, Query, Seed, Seen, Watch, WorldReader, Write};
use setpoint_views::config_map::ConfigMap;
use setpoint_views::secret::Secret;

/// Namespace of tokens.
const TOKEN_NAMESPACE: &str = "kube-system";
/// Type of Secrets that are tokens.
const TOKEN_TYPE: &str = "bootstrap.kubernetes.io/token";
/// Prefix of the names of tokens.
const TOKEN_NAME_PREFIX: &str = "bootstrap-token-";
/// Namespace and name of the signed ConfigMap.
const CLUSTER_INFO: (&str, &str) = ("kube-public", "cluster-info");
/// Signed entry.
const KUBECONFIG_KEY: &str = "kubeconfig";
/// Prefix of entries with signatures.
const SIGNATURE_KEY_PREFIX: &str = "jws-kubeconfig-";

/// The Secret as a token; `None` if it is none.
fn as_token(object: &Object) -> Option<&Secret> {
    let secret = object.view::<Secret>()?;
    (&*object.meta().namespace == TOKEN_NAMESPACE && secret.kind == TOKEN_TYPE).then_some(secret)
}

/// Expiration of a token; `None` if it does not expire. A token with an invalid expiration is expired.
fn expiration(token: &Secret) -> Option<Time> {
    let text = token.text("expiration");
    (!text.is_empty()).then(|| rfc3339::parse(&text).unwrap_or(Time::EPOCH))
}

/// Token cleaner: deletes expired tokens.
pub struct TokenCleaner;

impl Planner for TokenCleaner {
    type Memo = ();

    fn name(&self) -> &'static str {
        "token-cleaner-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:token-cleaner".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 1] = [Watch::mapped("secrets", |object, _, enqueue| {
            if as_token(object).is_some() {
                enqueue(object.key().clone());
            }
        })];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        let tokens =
            world.in_namespace("secrets", TOKEN_NAMESPACE).filter(|object| as_token(object).is_some());
        tokens.map(|object| object.key().clone()).collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, _: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some(object) = world.get(key) else { return plan };
        match as_token(object).and_then(expiration) {
            Some(end) if end > now => plan.requeue_at(end),
            Some(_) if !object.meta().is_deleted() => plan.stage([Write::delete(object).into()]),
            _ => {}
        }
        plan
    }
}

/// Bootstrap signer: signs `cluster-info`.
pub struct BootstrapSigner;

impl Planner for BootstrapSigner {
    type Memo = ();

    fn name(&self) -> &'static str {
        "bootstrap-signer-controller"
    }

    fn user(&self) -> String {
        "system:serviceaccount:kube-system:bootstrap-signer".to_owned()
    }

    fn watches(&self) -> &'static [Watch] {
        const WATCHES: [Watch; 2] = [
            Watch::mapped("configmaps", |object, _, enqueue| {
                if (&*object.meta().namespace, &*object.meta().name) == CLUSTER_INFO {
                    enqueue(object.key().clone());
                }
            }),
            Watch::mapped("secrets", |object, _, enqueue| {
                if as_token(object).is_some() {
                    key_of("configmaps", CLUSTER_INFO.0, CLUSTER_INFO.1).into_iter().for_each(enqueue);
                }
            }),
        ];
        &WATCHES
    }

    fn keys(&self, world: &WorldReader<'_>) -> Vec<Key> {
        world
            .find("configmaps", CLUSTER_INFO.0, CLUSTER_INFO.1)
            .map(|map| map.key().clone())
            .into_iter()
            .collect()
    }

    fn plan(&self, key: &Key, world: &WorldReader<'_>, seen: &Seen<'_, ()>, now: Time, _: Seed) -> Plan {
        let mut plan = Plan::default();
        let Some((object, map)) =
            world.get(key).and_then(|object| Some((object, object.view::<ConfigMap>()?)))
        else {
            return plan;
        };
        let Some(content) = map.data.get(KUBECONFIG_KEY) else { return plan };
        let mut signatures = Map::new();
        for (id, secret, end) in signing_tokens(world, now) {
            if let Some(end) = end {
                plan.requeue_at(end);
            }
            let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(header(&id)), URL_SAFE_NO_PAD.encode(content));
            let question = format!("{id} {:016x}", fingerprint(&[&text, &secret]));
            match seen.answers.get(&question).map(|answered| &answered.answer) {
                Some(Ok(answer)) => {
                    let signature = answer.as_str().unwrap_or_default();
                    let jws = format!("{}..{signature}", URL_SAFE_NO_PAD.encode(header(&id)));
                    signatures.insert(format!("{SIGNATURE_KEY_PREFIX}{id}"), jws);
                }
                _ => plan.queries.push(Query {
                    target: "hmac-sha256",
                    id: question,
                    question: value!({"key": (secret), "text": (text)}),
                }),
            }
        }
        // Signatures are written together, so a pending one is not removed as stale.
        if plan.queries.is_empty() {
            let patch = signature_patch(map, signatures);
            if !patch.is_empty() {
                plan.stage([Write::merge(object, "", value!({"data": (patch)})).into()]);
            }
        }
        plan
    }
}

/// Changes that leave exactly the desired signatures.
fn signature_patch(map: &ConfigMap, desired: Map) -> Map {
    let mut patch = Map::new();
    for (entry, _) in map.data.iter().filter(|(entry, _)| entry.starts_with(SIGNATURE_KEY_PREFIX)) {
        if desired.get(entry).is_none() {
            patch.insert(entry, Value::Null);
        }
    }
    for (entry, signature) in desired.iter() {
        if map.data.get(entry) != signature.as_str() {
            patch.insert(entry, signature.clone());
        }
    }
    patch
}

/// ID, secret and expiration of the tokens that can sign.
fn signing_tokens(world: &WorldReader<'_>, now: Time) -> Vec<(String, String, Option<Time>)> {
    let mut tokens: Vec<(String, String, Option<Time>)> = Vec::new();
    for object in world.in_namespace("secrets", TOKEN_NAMESPACE) {
        let Some(secret) = as_token(object) else { continue };
        let (id, key, end) = (secret.text("token-id"), secret.text("token-secret"), expiration(secret));
        let is_named = object.meta().name.strip_prefix(TOKEN_NAME_PREFIX) == Some(&id);
        let is_valid_id =
            id.len() == 6 && id.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
        let can_sign = secret.text("usage-bootstrap-signing") == "true";
        if is_named && is_valid_id && can_sign && !key.is_empty() && end.is_none_or(|end| end > now) {
            tokens.push((id, key, end));
        }
    }
    tokens
}

fn header(id: &str) -> String {
    format!(r#"{{"alg":"HS256","kid":{}}}"#, json_string(id))
}

/// FNV-1a hash that distinguishes queries.
fn fingerprint(texts: &[&str]) -> u64 {
    let bytes = texts.iter().flat_map(|text| text.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use setpoint_reconcile::Controller;
    use setpoint_sim::cluster::Cluster;

    use super::*;

    fn cluster() -> Cluster {
        let controllers: setpoint_sim::cluster::Controllers = || {
            let list: Vec<Box<dyn Controller>> = vec![Box::new(TokenCleaner), Box::new(BootstrapSigner)];
            (list, crate::indexes::all())
        };
        let mut cluster = Cluster::new(controllers, 7);
        for name in ["kube-system", "kube-public"] {
            cluster.create("namespaces", "", value!({"metadata": {"name": (name)}}));
        }
        cluster
    }

    fn create_token(cluster: &mut Cluster, id: &str, expiration: &str) {
        let data = value!({
            "token-id": (id), "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
            "expiration": (expiration),
        });
        let name = format!("{TOKEN_NAME_PREFIX}{id}");
        let token = value!({"metadata": {"name": (name)}, "type": (TOKEN_TYPE), "stringData": (data)});
        cluster.create("secrets", TOKEN_NAMESPACE, token);
    }

    /// Answers all pending queries, and returns their number.
    fn answer_queries(cluster: &mut Cluster) -> usize {
        cluster.settle();
        let queries = cluster.reply(|_| Ok(Value::from("signed")));
        cluster.settle();
        queries
    }

    #[test]
    fn expired_tokens_are_deleted() {
        let mut cluster = cluster();
        let end = rfc3339::Seconds(cluster.now.after(Duration::from_secs(60))).to_string();
        create_token(&mut cluster, "aaaaaa", &end);
        create_token(&mut cluster, "bbbbbb", "");
        cluster.run(Duration::from_secs(50));
        assert_eq!(cluster.list("secrets").len(), 2);
        cluster.run(Duration::from_secs(20));
        assert_eq!(cluster.list("secrets").len(), 1);
    }

    #[test]
    fn cluster_info_is_signed_by_every_token() {
        let mut cluster = cluster();
        let info = value!({
            "metadata": {"name": "cluster-info"},
            "data": {"kubeconfig": "k", "jws-kubeconfig-gone00": "x"},
        });
        cluster.create("configmaps", "kube-public", info);
        create_token(&mut cluster, "aaaaaa", "");
        assert_eq!(answer_queries(&mut cluster), 1);
        let map = cluster.get("configmaps", "kube-public/cluster-info").unwrap();
        let signature = map.str_at(&["data", "jws-kubeconfig-aaaaaa"]);
        assert_eq!(signature, "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFhYWFhYSJ9..signed");
        assert!(map.at(&["data", "jws-kubeconfig-gone00"]).is_none());
        assert_eq!(answer_queries(&mut cluster), 0, "answered queries are not repeated");
        cluster.delete("secrets", "kube-system/bootstrap-token-aaaaaa", &value!({})).unwrap();
        cluster.settle();
        let map = cluster.get("configmaps", "kube-public/cluster-info").unwrap();
        assert!(map.at(&["data", "jws-kubeconfig-aaaaaa"]).is_none());
    }
}
