//! Query handlers: answers to planners' questions that are not in the API.
//!
//! A planner is pure, so signatures, codes, the contents of certificate requests and resource metrics come to it as
//! answers to queries. [`QueryHandler`] answers without waiting; a remote loop sends queries about access and metrics to
//! the API server. A query that fails is repeated after a pause.
//!
//! | target | question | answer |
//! |---|---|---|
//! | `api-service` | `{"name"}` of an APIService | `{}` if its server responds; [`ApiQueries`] only |
//! | `authentication-trust` | `{}` | data of the ConfigMap `extension-apiserver-authentication` |
//! | `access` | a SubjectAccessReview's `spec` | `{"allowed"}`; [`ApiQueries`] only |
//! | `certificate-request` | `{"request"}` | fields of the request, see [`CertificateRequest::to_answer`] |
//! | `hmac-sha256` | `{"key", "text"}` | the code, in base64 for addresses |
//! | `metrics` | see [`usage`] | see [`usage`] |
//! | `policy-types` | see `setpoint_extensions::policy::check_types` | the same; [`ApiQueries`] only |
//! | `sha256` | `{"text"}` | the digest, in hexadecimal digits |
//! | `service-account-token` | `{"account", "secret"}`: a ServiceAccount's metadata, the name of a Secret | the token |
//! | `sign` | `{"request", "usages", "expirationSeconds"}` | the certificate, PEM in base64 |

pub mod api_queries;
pub mod metrics_apis;
pub mod usage;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use setpoint_api::{Entropy, Time, Value};
use setpoint_pki::certs::signing::{SignError, Signer, SigningRequest};
use setpoint_pki::certs::{CertifiedKey, FRONT_PROXY_CLIENT_NAME, Pki};
use setpoint_pki::x509::CertificateRequest;
use setpoint_reconcile::Query;

use self::api_queries::ApiQueries;
use self::usage::{NoUsageSource, UsageSource};

/// Issues the token of a ServiceAccount in the Secret of this name.
pub type TokenIssuer = dyn Fn(&Value, &str) -> Result<String, String> + Send + Sync;

/// Answers queries from this process alone.
pub struct QueryHandler {
    signer: RwLock<Option<Signer>>,
    usage: Arc<dyn UsageSource>,
    tokens: Option<Box<TokenIssuer>>,
    api: Option<Arc<dyn ApiQueries>>,
    trust: RwLock<Option<Value>>,
    client_ca: RwLock<String>,
}

impl Default for QueryHandler {
    /// A handler without signer and metrics.
    fn default() -> QueryHandler {
        QueryHandler::new(Arc::new(NoUsageSource))
    }
}

impl QueryHandler {
    /// A handler with resource metrics, without signer.
    #[must_use]
    pub fn new(usage: Arc<dyn UsageSource>) -> QueryHandler {
        let (signer, trust) = (RwLock::new(None), RwLock::new(None));
        QueryHandler { signer, usage, tokens: None, api: None, trust, client_ca: RwLock::default() }
    }

    /// Issues tokens of ServiceAccounts with this function.
    #[must_use]
    pub fn with_token_issuer(
        mut self,
        issue: impl Fn(&Value, &str) -> Result<String, String> + Send + Sync + 'static,
    ) -> QueryHandler {
        self.tokens = Some(Box::new(issue));
        self
    }

    /// Sends queries that need other servers to this handler.
    #[must_use]
    pub fn with_api_queries(mut self, api: Arc<dyn ApiQueries>) -> QueryHandler {
        self.api = Some(api);
        self
    }

    /// Handler of queries that need other servers.
    #[must_use]
    pub fn api_queries(&self) -> Option<&Arc<dyn ApiQueries>> {
        self.api.as_ref()
    }

    /// Publishes the certificate authorities for extension API servers from now on.
    pub fn publish_trust(&self, pki: &Pki) {
        *self.trust.write() = Some(authentication_trust(pki));
    }

    /// Publishes these CA certificates of clients, in PEM, beside the cluster CA from now on.
    pub fn set_client_ca(&self, pem: &[u8]) {
        *self.client_ca.write() = String::from_utf8_lossy(pem).into_owned();
    }

    fn published_trust(&self) -> Option<Value> {
        let mut trust = self.trust.read().clone()?;
        let client_ca = self.client_ca.read();
        if !client_ca.is_empty() {
            let all = format!("{}{client_ca}", trust.str_at(&["client-ca-file"]));
            trust.make_map().insert("client-ca-file", all);
        }
        Some(trust)
    }

    /// Signs with this authority from now on.
    ///
    /// # Errors
    /// If it cannot sign.
    pub fn sign_with(&self, authority: &CertifiedKey) -> Result<(), SignError> {
        *self.signer.write() = Some(Signer::new(authority)?);
        Ok(())
    }

    /// Answers a query.
    ///
    /// # Errors
    /// If there is no answer: the reason, for the log.
    pub fn answer(&self, query: &Query, now: Time, entropy: &Entropy) -> Result<Value, String> {
        let question = &query.question;
        match query.target {
            "authentication-trust" => {
                self.published_trust().ok_or_else(|| "this process does not serve the API".to_owned())
            }
            "certificate-request" => parse_request(question).map(|request| request.to_answer()),
            "hmac-sha256" => {
                Ok(Value::from(hmac_sha256(question.str_at(&["key"]), question.str_at(&["text"]))))
            }
            "metrics" => usage::answer(question, &*self.usage),
            "service-account-token" => {
                let issue = self
                    .tokens
                    .as_ref()
                    .ok_or("this process has no key to sign service account tokens with")?;
                let account = question.get("account").unwrap_or(&Value::Null);
                issue(account, question.str_at(&["secret"])).map(Value::from)
            }
            "sha256" => Ok(Value::from(sha256(question.str_at(&["text"])))),
            "sign" => self.sign(question, now, entropy),
            other => Err(format!("no handler for queries to {other}")),
        }
    }

    fn sign(&self, question: &Value, now: Time, entropy: &Entropy) -> Result<Value, String> {
        let request = parse_request(question)?;
        let usages = question.get("usages").and_then(Value::as_list).unwrap_or_default();
        let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
        let seconds = question.get("expirationSeconds").and_then(Value::as_i64);
        let lifetime = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        let signer = self.signer.read();
        let signer = signer.as_ref().ok_or("this process has no key to sign certificates with")?;
        let signing_request = SigningRequest { csr: &request, usages: &usages, lifetime };
        let certificate = signer.sign(&signing_request, now, [entropy(), entropy()]);
        let certificate = certificate.map_err(|error| format!("error auto signing csr: {error}"))?;
        Ok(Value::from(STANDARD.encode(certificate)))
    }
}

/// Data of the ConfigMap from which extension API servers learn how to authenticate requests. Lists are JSON in a string.
fn authentication_trust(pki: &Pki) -> Value {
    Value::Map(
        [
            ("client-ca-file", pki.ca.certificate.clone()),
            ("requestheader-allowed-names", format!("[\"{FRONT_PROXY_CLIENT_NAME}\"]")),
            ("requestheader-client-ca-file", pki.front_proxy_ca.certificate.clone()),
            ("requestheader-extra-headers-prefix", r#"["X-Remote-Extra-"]"#.to_owned()),
            ("requestheader-group-headers", r#"["X-Remote-Group"]"#.to_owned()),
            ("requestheader-uid-headers", r#"["X-Remote-Uid"]"#.to_owned()),
            ("requestheader-username-headers", r#"["X-Remote-User"]"#.to_owned()),
        ]
        .into_iter()
        .map(|(key, text)| (key, Value::from(text)))
        .collect(),
    )
}

fn parse_request(question: &Value) -> Result<CertificateRequest, String> {
    CertificateRequest::from_base64(question.str_at(&["request"])).map_err(|error| error.to_string())
}

/// Returns the SHA-256 digest of a text, in hexadecimal digits.
fn sha256(text: &str) -> String {
    let digest = digest::digest(&digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the HMAC-SHA256 code of a text, in base64 for URLs.
fn hmac_sha256(key: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use setpoint_api::{json, value};

    use super::*;

    const NOW: Time = Time::from_seconds(1_790_000_000);

    fn query(target: &'static str, question: Value) -> Query {
        Query { target, id: "q".to_owned(), question }
    }

    fn answer(handler: &QueryHandler, target: &'static str, question: Value) -> Result<Value, String> {
        handler.answer(&query(target, question), NOW, &|| 7)
    }

    fn handler() -> QueryHandler {
        QueryHandler::default()
    }

    #[test]
    fn hmac_codes_match_rfc_4231() {
        let question = value!({"key": "Jefe", "text": "what do ya want for nothing?"});
        // RFC 4231, test case 2.
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let answer = answer(&handler(), "hmac-sha256", question).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(answer.as_str().unwrap()).unwrap();
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), expected);
    }

    #[test]
    fn sha256_digests_match_known_values() {
        let answer = answer(&handler(), "sha256", value!({"text": "abc"})).unwrap();
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(answer.as_str(), Some(expected));
    }

    #[test]
    fn tokens_are_issued_by_the_given_function() {
        let issue =
            |account: &Value, secret: &str| Ok(format!("{} {secret}", setpoint_api::metadata::name(account)));
        let question = || value!({"account": {"metadata": {"name": "robot"}}, "secret": "t"});
        let issued = answer(&handler().with_token_issuer(issue), "service-account-token", question());
        assert_eq!(issued, Ok(Value::from("robot t")));
        let error = answer(&handler(), "service-account-token", question()).unwrap_err();
        assert_eq!(error, "this process has no key to sign service account tokens with");
    }

    #[test]
    fn requests_are_parsed_and_signed() {
        let request = include_str!("../../pki/tests/request.b64").trim();
        let fields = answer(&handler(), "certificate-request", value!({"request": (request)})).unwrap();
        assert_eq!(fields.str_at(&["commonName"]), "someone");
        let error = answer(&handler(), "certificate-request", value!({"request": "AAAA"})).unwrap_err();
        assert_eq!(error, "PEM block type must be CERTIFICATE REQUEST");
        let question = value!({"request": (request), "usages": ["client auth"], "expirationSeconds": 3600});
        let handler = handler();
        let none = answer(&handler, "sign", question.clone()).unwrap_err();
        assert_eq!(none, "this process has no key to sign certificates with");
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        handler.sign_with(&pki.ca).unwrap();
        let signed = answer(&handler, "sign", question).unwrap();
        let pem = STANDARD.decode(signed.as_str().unwrap()).unwrap();
        assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----\n"), "{}", json::to_text(&signed));
        assert_eq!(setpoint_pki::x509::invalid_certificate_error(signed.as_str().unwrap()), None);
    }

    #[test]
    fn published_trust_has_both_authorities_and_the_header_names() {
        let handler = handler();
        assert!(answer(&handler, "authentication-trust", Value::map()).is_err());
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        handler.publish_trust(&pki);
        let data = answer(&handler, "authentication-trust", Value::map()).unwrap();
        assert_eq!(data.str_at(&["client-ca-file"]), pki.ca.certificate);
        assert_eq!(data.str_at(&["requestheader-client-ca-file"]), pki.front_proxy_ca.certificate);
        assert_eq!(data.str_at(&["requestheader-allowed-names"]), r#"["front-proxy-client"]"#);
        assert_eq!(data.str_at(&["requestheader-username-headers"]), r#"["X-Remote-User"]"#);
    }

    #[test]
    fn query_without_handler_fails() {
        let error = answer(&handler(), "unknown", Value::Null).unwrap_err();
        assert_eq!(error, "no handler for queries to unknown");
    }
}
