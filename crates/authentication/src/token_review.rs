//! TokenReviews that a webhook answers.

use setpoint_api::{Identity, Value, json, value};
use thiserror::Error;

use crate::authenticated_token::{AuthenticatedToken, intersect};
use crate::user::{from_user_info, texts};

/// Version of the TokenReviews that a webhook gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReviewVersion {
    /// `authentication.k8s.io/v1`.
    V1,
    /// `authentication.k8s.io/v1beta1`.
    #[default]
    V1Beta1,
}

impl ReviewVersion {
    /// Returns the version with a name.
    ///
    /// # Errors
    /// If it is not supported.
    pub fn from_name(name: &str) -> Result<ReviewVersion, ReviewError> {
        match name {
            "v1" => Ok(ReviewVersion::V1),
            "v1beta1" => Ok(ReviewVersion::V1Beta1),
            _ => Err(ReviewError::Version(name.to_owned())),
        }
    }

    const fn api_version(self) -> &'static str {
        match self {
            ReviewVersion::V1 => "authentication.k8s.io/v1",
            ReviewVersion::V1Beta1 => "authentication.k8s.io/v1beta1",
        }
    }
}

/// Failed review.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReviewError {
    /// The version is not supported.
    #[error("unsupported authentication webhook version {0:?}, supported versions are \"v1\", \"v1beta1\"")]
    Version(String),
    /// The response is no TokenReview.
    #[error("the webhook did not return a TokenReview: {0}")]
    Form(String),
    /// The webhook rejects the token.
    #[error("{0}")]
    Rejected(String),
}

/// Returns the TokenReview of a token, in JSON.
#[must_use]
pub fn request(version: ReviewVersion, token: &str, audiences: &[String]) -> Vec<u8> {
    let mut spec = value!({"token": (token)});
    if !audiences.is_empty() {
        spec.make_map().insert("audiences", audiences.to_vec());
    }
    json::to_vec(&value!({
        "kind": "TokenReview",
        "apiVersion": (version.api_version()),
        "metadata": {"creationTimestamp": null},
        "spec": (spec),
        "status": {"user": {}},
    }))
}

/// Reads the response of a webhook; `None` if the token is not authenticated. A webhook that knows no audiences
/// returns none: its tokens are for `implicit`.
///
/// # Errors
/// If the response is no TokenReview, or the webhook rejects the token with an error.
pub fn response(
    version: ReviewVersion,
    body: &[u8],
    requested: &[String],
    implicit: &[String],
) -> Result<Option<AuthenticatedToken>, ReviewError> {
    let review = json::parse(body).map_err(|error| ReviewError::Form(error.to_string()))?;
    let (kind, api_version) = (review.str_at(&["kind"]), review.str_at(&["apiVersion"]));
    if kind != "TokenReview" || api_version != version.api_version() {
        return Err(ReviewError::Form(format!("got {kind:?} of {api_version:?}")));
    }
    let status = review.get("status").cloned().unwrap_or_default();
    let mut audiences = Vec::new();
    if !requested.is_empty() {
        let returned = texts(status.get("audiences"));
        audiences = intersect(requested, if returned.is_empty() { implicit } else { &returned });
        if audiences.is_empty() {
            return Ok(None);
        }
    }
    if status.get("authenticated") != Some(&Value::Bool(true)) {
        return match status.str_at(&["error"]) {
            "" => Ok(None),
            error => Err(ReviewError::Rejected(error.to_owned())),
        };
    }
    let identity: Identity = from_user_info(status.get("user").unwrap_or(&Value::Null));
    Ok(Some(AuthenticatedToken { identity, audiences, ..AuthenticatedToken::default() }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(status: &str) -> Result<Option<AuthenticatedToken>, ReviewError> {
        let body =
            format!(r#"{{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1","status":{status}}}"#);
        response(ReviewVersion::V1, body.as_bytes(), &["api".into()], &["api".into()])
    }

    #[test]
    fn webhook_gets_the_token_and_the_audiences() {
        let body = request(ReviewVersion::V1Beta1, "t", &["a".into()]);
        assert_eq!(
            String::from_utf8(body).unwrap(),
            r#"{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1beta1","metadata":{"creationTimestamp":null},"spec":{"token":"t","audiences":["a"]},"status":{"user":{}}}"#
        );
        let error = ReviewVersion::from_name("v2").unwrap_err().to_string();
        assert_eq!(
            error,
            r#"unsupported authentication webhook version "v2", supported versions are "v1", "v1beta1""#
        );
    }

    #[test]
    fn response_of_a_webhook_decides_on_user_and_audience() {
        let user = r#""user":{"username":"ann","uid":"7","groups":["g"],"extra":{"k":["v"]}}"#;
        let token = read(&format!(r#"{{"authenticated":true,{user}}}"#)).unwrap().unwrap();
        assert_eq!((token.identity.user.as_str(), token.identity.uid.as_str()), ("ann", "7"));
        assert_eq!(token.identity.extra["k"], ["v"]);
        assert_eq!(token.audiences, ["api"]);
        assert_eq!(read(&format!(r#"{{"authenticated":true,"audiences":["other"],{user}}}"#)), Ok(None));
        assert_eq!(read("{}"), Ok(None));
        assert_eq!(read(r#"{"error":"no"}"#), Err(ReviewError::Rejected("no".into())));
        assert!(response(ReviewVersion::V1Beta1, b"{}", &[], &[]).is_err());
    }

    proptest! {
        #[test]
        fn no_response_panics(status in "\\PC{0,60}", body in "\\PC{0,60}") {
            let _ = read(&status);
            let _ = response(ReviewVersion::V1, body.as_bytes(), &[], &[]);
        }
    }
}
