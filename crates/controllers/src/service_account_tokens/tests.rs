//! Tests of the tokens of Secrets.

use setpoint_sim::cluster::{Cluster, Controllers};

use super::*;

const CA: &str = "-----BEGIN CERTIFICATE-----";

fn cluster() -> Cluster {
    let controllers: Controllers = || (vec![Box::new(ServiceAccountTokens::new(CA))], crate::indexes::all());
    Cluster::new(controllers, 7)
}

fn create_token(cluster: &mut Cluster, name: &str) {
    let annotations = value!({"kubernetes.io/service-account.name": "robot"});
    let token = value!({"metadata": {"name": (name), "annotations": (annotations)}, "type": (TOKEN_TYPE)});
    cluster.create(SECRETS, "default", token);
}

/// Answers all queries with the names in the question. Returns the number of queries.
fn settle(cluster: &mut Cluster) -> usize {
    let mut queries = 0;
    loop {
        cluster.settle();
        let answered = cluster.reply(|query| {
            assert_eq!(query.target, "service-account-token");
            let (account, secret) = (&["account", "metadata", "name"], &["secret"]);
            Ok(format!("{} {}", query.question.str_at(account), query.question.str_at(secret)).into())
        });
        if answered == 0 {
            return queries;
        }
        queries += answered;
    }
}

fn text(cluster: &Cluster, name: &str, entry: &str) -> String {
    let secret = cluster.get(SECRETS, &format!("default/{name}")).unwrap();
    let encoded = secret.str_at(&["data", entry]).to_owned();
    String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap()
}

#[test]
fn token_secret_is_filled_once() {
    let mut cluster = cluster();
    cluster.create(ACCOUNTS, "default", value!({"metadata": {"name": "robot"}}));
    create_token(&mut cluster, "t");
    assert_eq!(settle(&mut cluster), 1);
    let entries = ["token", "namespace", "ca.crt"].map(|entry| text(&cluster, "t", entry));
    assert_eq!(entries, ["robot t".to_owned(), "default".to_owned(), CA.to_owned()]);
    let account = cluster.get(ACCOUNTS, "default/robot").unwrap();
    let secret = cluster.get(SECRETS, "default/t").unwrap();
    assert_eq!(secret.at(&["metadata", "annotations", ACCOUNT_UID]), account.at(&["metadata", "uid"]),);
    cluster.assert_quiet();
    cluster.crash();
    assert_eq!(settle(&mut cluster), 0, "a token is not replaced");
    // Damaged CA certificates are restored; the token stays.
    cluster.patch(SECRETS, "default/t", "", value!({"data": {"ca.crt": "eA==", "token": "eQ=="}})).unwrap();
    assert_eq!(settle(&mut cluster), 0);
    assert_eq!(
        [text(&cluster, "t", "ca.crt"), text(&cluster, "t", "token")],
        [CA.to_owned(), "y".to_owned()]
    );
}

#[test]
fn tokens_are_deleted_with_their_account() {
    let mut cluster = cluster();
    cluster.create(ACCOUNTS, "default", value!({"metadata": {"name": "robot"}}));
    create_token(&mut cluster, "t");
    settle(&mut cluster);
    cluster.delete(ACCOUNTS, "default/robot", &value!({})).unwrap();
    // An account of the same name is another account.
    cluster.create(ACCOUNTS, "default", value!({"metadata": {"name": "robot"}}));
    settle(&mut cluster);
    assert!(cluster.get(SECRETS, "default/t").is_none());
    create_token(&mut cluster, "u");
    settle(&mut cluster);
    assert_eq!(text(&cluster, "u", "token"), "robot u");
    cluster.delete(ACCOUNTS, "default/robot", &value!({})).unwrap();
    cluster.crash();
    settle(&mut cluster);
    assert!(cluster.get(SECRETS, "default/u").is_none());
    cluster.assert_quiet();
}

#[test]
fn deleted_token_is_removed_from_its_account() {
    let mut cluster = cluster();
    let secrets = value!([{"name": "t"}, {"name": "other"}]);
    cluster.create(ACCOUNTS, "default", value!({"metadata": {"name": "robot"}, "secrets": (secrets)}));
    create_token(&mut cluster, "t");
    settle(&mut cluster);
    cluster.delete(SECRETS, "default/t", &value!({})).unwrap();
    settle(&mut cluster);
    let account = cluster.get(ACCOUNTS, "default/robot").unwrap();
    assert_eq!(
        account.get("secrets"),
        Some(&value!([{"name": "other"}])),
        "a Secret that never existed stays"
    );
    cluster.assert_quiet();
}

#[test]
fn other_secrets_are_left_alone() {
    let mut cluster = cluster();
    let annotations = value!({"kubernetes.io/service-account.name": "missing"});
    let opaque = value!({"metadata": {"name": "o", "annotations": (annotations)}, "type": "Opaque"});
    cluster.create(SECRETS, "default", opaque);
    assert_eq!(settle(&mut cluster), 0);
    assert!(cluster.get(SECRETS, "default/o").is_some());
    cluster.assert_quiet();
}
