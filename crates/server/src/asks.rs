//! Who answers what planners ask the world outside of the API.
//!
//! A planner is pure: secret arithmetic, the authority's key, what a request says in its bytes and how busy pods are
//! come to it as answers. [`Oracle`] has those that this process can give without waiting; a loop in a process of
//! its own asks the server for the rest. Whoever cannot answer says why, and the loop asks again after a pause.
//!
//! | whom | the question | the answer |
//! |---|---|---|
//! | `access` | a SubjectAccessReview's `spec` | `{"allowed"}` |
//! | `certificate-request` | `{"request"}` | what the request says, see [`Request::facts`] |
//! | `hmac-sha256` | `{"key", "text"}` | the code, in base64 for addresses |
//! | `metrics` | see [`usage`] | see [`usage`] |
//! | `sha256` | `{"text"}` | the digest, in hexadecimal digits |
//! | `sign` | `{"request", "usages", "expirationSeconds"}` | the certificate, PEM in base64 |

pub mod usage;

use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use parking_lot::RwLock;
use setpoint_api::{Time, Value, value};
use setpoint_reconcile::Ask;

use self::usage::{Unserved, Usage};
use crate::api::{Entropy, may_do_everything};
use crate::discovery;
use setpoint_pki::certs::Pair;
use setpoint_pki::certs::signing::{SignError, Signer, Wanted};
use setpoint_pki::x509::Request;

/// Answers what can be answered at once.
pub struct Oracle {
    signer: RwLock<Option<Signer>>,
    usage: Arc<dyn Usage>,
}

impl Default for Oracle {
    /// One that signs nothing, and knows of no pod what it uses.
    fn default() -> Oracle {
        Oracle::new(Arc::new(Unserved))
    }
}

impl Oracle {
    /// One that signs nothing, and knows of pods what `usage` tells.
    #[must_use]
    pub fn new(usage: Arc<dyn Usage>) -> Oracle {
        Oracle { signer: RwLock::new(None), usage }
    }

    /// Signs with this authority from now on.
    ///
    /// # Errors
    /// If it cannot sign.
    pub fn sign_with(&self, authority: &Pair) -> Result<(), SignError> {
        *self.signer.write() = Some(Signer::new(authority)?);
        Ok(())
    }

    /// Answers a question.
    ///
    /// # Errors
    /// If there is no answer: then why, in words for people.
    pub fn answer(&self, ask: &Ask, now: Time, entropy: &Entropy) -> Result<Value, String> {
        let question = &ask.question;
        match ask.whom {
            "access" => {
                let groups = question.get("groups").and_then(Value::as_list).unwrap_or_default();
                let allowed = may_do_everything(groups.iter().filter_map(Value::as_str));
                Ok(value!({"allowed": (allowed)}))
            }
            "certificate-request" => request(question).map(|request| request.facts()),
            "hmac-sha256" => Ok(Value::from(code(question.str_at(&["key"]), question.str_at(&["text"])))),
            "metrics" => usage::answer(question, &*self.usage),
            "sha256" => {
                let tag = discovery::tag(question.str_at(&["text"]).as_bytes());
                Ok(Value::from(tag.to_ascii_lowercase()))
            }
            "sign" => self.sign(question, now, entropy),
            other => Err(format!("nobody here answers questions to {other}")),
        }
    }

    fn sign(&self, question: &Value, now: Time, entropy: &Entropy) -> Result<Value, String> {
        let request = request(question)?;
        let usages = question.get("usages").and_then(Value::as_list).unwrap_or_default();
        let usages: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
        let seconds = question.get("expirationSeconds").and_then(Value::as_i64);
        let life = seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0)));
        let signer = self.signer.read();
        let signer = signer.as_ref().ok_or("this process has no key to sign certificates with")?;
        let wanted = Wanted { request: &request, usages: &usages, life };
        let certificate = signer.sign(&wanted, now, [entropy(), entropy()]);
        let certificate = certificate.map_err(|error| format!("error auto signing csr: {error}"))?;
        Ok(Value::from(STANDARD.encode(certificate)))
    }
}

fn request(question: &Value) -> Result<Request, String> {
    Request::from_base64(question.str_at(&["request"])).map_err(|fault| fault.to_string())
}

/// The code by which somebody who knows the key knows the text.
fn code(key: &str, text: &str) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    URL_SAFE_NO_PAD.encode(hmac::sign(&key, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use setpoint_api::json;

    use super::*;
    use setpoint_pki::certs::Pki;

    const NOW: Time = Time::from_seconds(1_790_000_000);

    fn ask(whom: &'static str, question: Value) -> Ask {
        Ask { whom, id: "q".to_owned(), question }
    }

    fn answer(oracle: &Oracle, whom: &'static str, question: Value) -> Result<Value, String> {
        oracle.answer(&ask(whom, question), NOW, &|| 7)
    }

    fn oracle() -> Oracle {
        Oracle::default()
    }

    #[test]
    fn codes_are_those_that_everybody_computes() {
        let question = value!({"key": "Jefe", "text": "what do ya want for nothing?"});
        // RFC 4231, test case 2.
        let known = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let answer = answer(&oracle(), "hmac-sha256", question).unwrap();
        let bytes = URL_SAFE_NO_PAD.decode(answer.as_str().unwrap()).unwrap();
        assert_eq!(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>(), known);
    }

    #[test]
    fn digests_are_those_that_everybody_computes() {
        let answer = answer(&oracle(), "sha256", value!({"text": "abc"})).unwrap();
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(answer.as_str(), Some(known));
    }

    #[test]
    fn access_is_what_the_api_itself_grants() {
        for (group, allowed) in [("system:masters", true), ("system:nodes", false)] {
            let answer = answer(&oracle(), "access", value!({"user": "u", "groups": [(group)]})).unwrap();
            assert_eq!(answer.get("allowed"), Some(&Value::from(allowed)), "{group}");
        }
        let nobody = answer(&oracle(), "access", value!({"user": "u"})).unwrap();
        assert_eq!(nobody.get("allowed"), Some(&Value::from(false)));
    }

    #[test]
    fn requests_are_read_and_signed() {
        let request = include_str!("../../pki/tests/request.b64").trim();
        let facts = answer(&oracle(), "certificate-request", value!({"request": (request)})).unwrap();
        assert_eq!(facts.str_at(&["commonName"]), "someone");
        let fault = answer(&oracle(), "certificate-request", value!({"request": "AAAA"})).unwrap_err();
        assert_eq!(fault, "PEM block type must be CERTIFICATE REQUEST");
        let question = value!({"request": (request), "usages": ["client auth"], "expirationSeconds": 3600});
        let oracle = oracle();
        let none = answer(&oracle, "sign", question.clone()).unwrap_err();
        assert_eq!(none, "this process has no key to sign certificates with");
        let pki = Pki::ephemeral(&["localhost".to_owned()], NOW, 1).unwrap();
        oracle.sign_with(&pki.ca).unwrap();
        let signed = answer(&oracle, "sign", question).unwrap();
        let pem = STANDARD.decode(signed.as_str().unwrap()).unwrap();
        assert!(pem.starts_with(b"-----BEGIN CERTIFICATE-----\n"), "{}", json::to_text(&signed));
        assert_eq!(setpoint_pki::x509::certificates_fault(signed.as_str().unwrap()), None);
    }

    #[test]
    fn what_nobody_answers_is_said() {
        let error = answer(&oracle(), "oracle of delphi", Value::Null).unwrap_err();
        assert_eq!(error, "nobody here answers questions to oracle of delphi");
    }
}
