//! Queries of controllers, end to end: certificates for approved requests, signatures of bootstrap tokens,
//! and autoscalers without metrics.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![expect(clippy::disallowed_methods, reason = "polls processes that run in real time")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, TokenReview};
use k8s_openapi::api::autoscaling::v2::HorizontalPodAutoscaler;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, ClusterTrustBundle};
use k8s_openapi::api::core::v1::{
    ConfigMap, PersistentVolume, PersistentVolumeClaim, Pod, Secret, ServiceAccount,
};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};

/// Maximum number of polls for an expected state, and the pause between them.
const POLLS_MAX: usize = 600;
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Server with all its controllers. Stopped with the test.
struct Server {
    child: Child,
    dir: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Server {
        let dir = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_setpoint"))
            .args(["up", "--nodes", "0", "--port", "0", "--data-dir"])
            .arg(dir.path().join("data"))
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let ready = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with("ready")));
        assert!(ready.is_some(), "the server never output that it is ready");
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, dir }
    }

    fn kubeconfig(&self) -> Kubeconfig {
        Kubeconfig::read_from(self.dir.path().join("data/kubeconfig")).unwrap()
    }

    async fn admin(&self) -> Client {
        client(self.kubeconfig()).await
    }

    /// Returns a client with another certificate.
    async fn client_as(&self, certificate: &[u8], key: &KeyPair) -> Client {
        let mut config = self.kubeconfig();
        let user = config.auth_infos[0].auth_info.as_mut().unwrap();
        user.client_certificate_data = Some(STANDARD.encode(certificate));
        user.client_key_data = Some(STANDARD.encode(key.serialize_pem()).into());
        client(config).await
    }
}

async fn client(kubeconfig: Kubeconfig) -> Client {
    // Several crates of the test may install a default provider; choose one for all.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn block_on(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap().block_on(test);
}

fn typed<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// Returns a certificate request and the key that it is signed with.
fn request(user: &str, group: &str) -> (KeyPair, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.distinguished_name.push(DnType::CommonName, user);
    let pem = params.serialize_request(&key).unwrap().pem().unwrap();
    (key, STANDARD.encode(pem))
}

fn signing_request(name: &str, request: &str, signer: &str, usages: &[&str]) -> CertificateSigningRequest {
    typed(json!({
        "metadata": {"name": name},
        "spec": {"request": request, "signerName": signer, "usages": usages, "expirationSeconds": 86400},
    }))
}

/// Does the same as `kubectl certificate approve`.
async fn approve(requests: &Api<CertificateSigningRequest>, name: &str) {
    let condition = json!({
        "type": "Approved", "status": "True", "reason": "KubectlApprove",
        "message": "This CSR was approved by kubectl certificate approve.",
    });
    let patch = json!({"status": {"conditions": [condition]}});
    requests.patch_approval(name, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Polls an object until it is in the expected state.
async fn wait_until<T>(requests: &Api<T>, name: &str, is_expected: impl Fn(&T) -> bool) -> T
where
    T: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let mut last = None;
    for _ in 0..POLLS_MAX {
        match requests.get_opt(name).await.unwrap() {
            Some(object) if is_expected(&object) => return object,
            other => last = other,
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    panic!("{name} stayed {last:?}");
}

#[test]
fn token_secret_gets_a_token_that_authenticates_until_its_account_is_deleted() {
    let server = Server::start();
    block_on(async {
        let admin = server.admin().await;
        let accounts: Api<ServiceAccount> = Api::default_namespaced(admin.clone());
        let secrets: Api<Secret> = Api::default_namespaced(admin.clone());
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "kube-system");
        let tracking = "kube-apiserver-legacy-service-account-token-tracking";
        wait_until(&maps, tracking, |map| map.data.as_ref().is_some_and(|data| data.contains_key("since")))
            .await;
        let robot: ServiceAccount = typed(json!({"metadata": {"name": "robot"}}));
        accounts.create(&PostParams::default(), &robot).await.unwrap();
        let annotations = json!({"kubernetes.io/service-account.name": "robot"});
        let secret: Secret = typed(json!({
            "metadata": {"name": "t", "annotations": annotations}, "type": "kubernetes.io/service-account-token",
        }));
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        let has_token = |secret: &Secret| secret.data.as_ref().is_some_and(|data| data.contains_key("token"));
        let data = wait_until(&secrets, "t", has_token).await.data.unwrap();
        assert_eq!(data["namespace"].0, b"default");
        assert!(data["ca.crt"].0.starts_with(b"-----BEGIN CERTIFICATE-----"));
        let token = String::from_utf8(data["token"].0.clone()).unwrap();
        let reviews: Api<TokenReview> = Api::all(admin);
        let review = || async {
            let review: TokenReview = typed(json!({"spec": {"token": token}}));
            reviews.create(&PostParams::default(), &review).await.unwrap().status.unwrap()
        };
        let user = review().await.user.unwrap().username;
        assert_eq!(user.as_deref(), Some("system:serviceaccount:default:robot"));
        accounts.delete("robot", &DeleteParams::default()).await.unwrap();
        assert_eq!(review().await.authenticated, None);
        for _ in 0..POLLS_MAX {
            if secrets.get_opt("t").await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        panic!("the token outlived its account");
    });
}

#[test]
fn approved_request_gets_a_certificate_that_the_server_accepts() {
    let server = Server::start();
    block_on(async {
        let admin = server.admin().await;
        let requests: Api<CertificateSigningRequest> = Api::all(admin.clone());
        let (key, text) = request("ann", "people");
        let signer = "kubernetes.io/kube-apiserver-client";
        let made = signing_request("ann", &text, signer, &["client auth"]);
        requests.create(&PostParams::default(), &made).await.unwrap();
        approve(&requests, "ann").await;
        let certificate_of = |object: &CertificateSigningRequest| object.status.clone()?.certificate;
        let signed = wait_until(&requests, "ann", |object| certificate_of(object).is_some()).await;
        let certificate = certificate_of(&signed).unwrap().0;

        let ann = server.client_as(&certificate, &key).await;
        let review = Api::<SelfSubjectReview>::all(ann.clone())
            .create(&PostParams::default(), &SelfSubjectReview::default())
            .await
            .unwrap();
        let user = review.status.unwrap().user_info.unwrap();
        assert_eq!(user.username.as_deref(), Some("ann"));
        assert_eq!(user.groups.unwrap(), ["people", "system:authenticated"]);
        let result = Api::<Pod>::namespaced(ann, "default").list(&ListParams::default()).await;
        let Err(kube::Error::Api(status)) = result else { panic!("ann may list pods: {result:?}") };
        assert_eq!(status.code, 403);
        assert!(status.message.contains("User \"ann\" cannot list resource \"pods\""), "{}", status.message);
    });
}

#[test]
fn invalid_request_or_wrong_signer_is_rejected() {
    let server = Server::start();
    block_on(async {
        let admin = server.admin().await;
        let requests: Api<CertificateSigningRequest> = Api::all(admin);
        let create = async |object: CertificateSigningRequest| {
            let made = requests.create(&PostParams::default(), &object).await;
            match made {
                Err(kube::Error::Api(status)) => (status.code, status.message),
                other => panic!("expected an error: {other:?}"),
            }
        };
        let (_, text) = request("ann", "system:masters");
        let signer = "kubernetes.io/kube-apiserver-client";
        let (code, message) = create(signing_request("a", &text, signer, &["client auth"])).await;
        assert_eq!(code, 403, "{message}");
        assert!(message.ends_with("signer with system:masters group is not allowed"), "{message}");
        let no_request = "-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n";
        let no_request = STANDARD.encode(no_request);
        let (code, message) = create(signing_request("b", &no_request, "a.b/c", &["any"])).await;
        assert_eq!(code, 422, "{message}");
        assert!(message.contains("spec.request: Invalid value:"), "{message}");

        let (_, text) = request("ann", "people");
        let signer = "kubernetes.io/kubelet-serving";
        let made = signing_request("c", &text, signer, &["server auth"]);
        requests.create(&PostParams::default(), &made).await.unwrap();
        approve(&requests, "c").await;
        let failed = |object: &CertificateSigningRequest| {
            let conditions = object.status.clone().and_then(|status| status.conditions).unwrap_or_default();
            conditions.into_iter().find(|one| one.type_ == "Failed")
        };
        let object = wait_until(&requests, "c", |object| failed(object).is_some()).await;
        let condition = failed(&object).unwrap();
        assert_eq!(condition.reason.as_deref(), Some("SignerValidationFailure"));
        assert_eq!(condition.message.as_deref(), Some("subject organization is not system:nodes"));
    });
}

#[test]
fn cluster_info_and_root_ca_are_published_and_claims_are_provisioned() {
    let server = Server::start();
    block_on(async {
        let admin = server.admin().await;
        let secrets: Api<Secret> = Api::namespaced(admin.clone(), "kube-system");
        let token = typed(json!({
            "metadata": {"name": "bootstrap-token-abcdef"},
            "type": "bootstrap.kubernetes.io/token",
            "stringData": {
                "token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-signing": "true",
            },
        }));
        secrets.create(&PostParams::default(), &token).await.unwrap();
        let maps: Api<ConfigMap> = Api::namespaced(admin.clone(), "kube-public");
        let info = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info"},
            "data": {"kubeconfig": "content"},
        });
        let apply = PatchParams::apply("test");
        maps.patch("cluster-info", &apply, &Patch::Apply(&info)).await.unwrap();
        let signature = |map: &ConfigMap| map.data.clone()?.remove("jws-kubeconfig-abcdef");
        let map = wait_until(&maps, "cluster-info", |map| signature(map).is_some()).await;
        // HMAC-SHA256 of the header and of the content, with the secret, as any JWT library computes it.
        assert_eq!(
            signature(&map).unwrap(),
            "eyJhbGciOiJIUzI1NiIsImtpZCI6ImFiY2RlZiJ9..psz1NayrXM3IaFzKZGsb5n_mBl7MjtlsZ1xE8MRmF_4"
        );

        let bundles: Api<ClusterTrustBundle> = Api::all(admin.clone());
        let mut found = Vec::new();
        for _ in 0..POLLS_MAX {
            found = bundles.list(&ListParams::default()).await.unwrap().items;
            if !found.is_empty() {
                break;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        let spec = &found.first().expect("a bundle").spec;
        assert_eq!(spec.signer_name.as_deref(), Some("kubernetes.io/kube-apiserver-serving"));
        let ca = std::fs::read_to_string(server.dir.path().join("data/pki/ca.crt")).unwrap();
        assert_eq!(spec.trust_bundle, ca);

        let claims: Api<PersistentVolumeClaim> = Api::namespaced(admin.clone(), "default");
        let claim = typed(json!({
            "metadata": {"name": "c"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }));
        claims.create(&PostParams::default(), &claim).await.unwrap();
        let volume = |claim: &PersistentVolumeClaim| claim.spec.clone()?.volume_name;
        let claim = wait_until(&claims, "c", |claim| volume(claim).is_some()).await;
        let volumes: Api<PersistentVolume> = Api::all(admin);
        let volume = volumes.get(&volume(&claim).unwrap()).await.unwrap();
        let path = volume.spec.unwrap().host_path.unwrap().path;
        let volumes_dir = server.dir.path().join("data/volumes");
        assert!(
            std::path::Path::new(&path).starts_with(&volumes_dir),
            "{path} is not in {}",
            volumes_dir.display()
        );
    });
}

#[test]
fn autoscaler_reports_missing_metrics() {
    let server = Server::start();
    block_on(async {
        let admin = server.admin().await;
        let deployments: Api<Deployment> = Api::namespaced(admin.clone(), "default");
        let deployment = typed(json!({
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
                },
            },
        }));
        deployments.create(&PostParams::default(), &deployment).await.unwrap();
        let autoscalers: Api<HorizontalPodAutoscaler> = Api::namespaced(admin, "default");
        let target = json!({"type": "Utilization", "averageUtilization": 50});
        let autoscaler = typed(json!({
            "metadata": {"name": "web"},
            "spec": {
                "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "maxReplicas": 3,
                "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
            },
        }));
        autoscalers.create(&PostParams::default(), &autoscaler).await.unwrap();
        let active = |object: &HorizontalPodAutoscaler| {
            let conditions = object.status.clone()?.conditions?;
            conditions.into_iter().find(|one| one.type_ == "ScalingActive")
        };
        let object = wait_until(&autoscalers, "web", |object| active(object).is_some()).await;
        let condition = active(&object).unwrap();
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_deref()),
            ("False", Some("FailedGetResourceMetric"))
        );
        assert_eq!(
            condition.message.as_deref(),
            Some(
                "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get \
                 metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not \
                 find the requested resource (get pods.metrics.k8s.io)"
            )
        );
    });
}
