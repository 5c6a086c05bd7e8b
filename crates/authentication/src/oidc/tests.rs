//! Tests of the configuration of issuers and of their tokens.

use proptest::prelude::*;
use setpoint_api::field_error::ErrorList;
use setpoint_api::{Value, json, value};

use super::config::{AuthenticationConfiguration, OidcFlags};
use super::provider::{ProviderKeys, discovery_url, keys, keys_url};
use super::*;
use crate::keys::{SigningKey, jwks};
use crate::user::CREDENTIAL_ID;

const NOW: Time = Time::from_seconds(1_700_000_000);

fn configuration(jwt: &str) -> AuthenticationConfiguration {
    let text =
        format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n{jwt}");
    decode(text.as_bytes()).unwrap()
}

/// Errors of an authenticator whose fields besides the issuer are these.
fn errors_of(fields: &str) -> String {
    let jwt = format!("- issuer: {{url: https://i, audiences: [a]}}\n{fields}");
    text(&validate(&configuration(&jwt), &[]))
}

fn issuer_errors(issuer: &str) -> String {
    let jwt = format!("- issuer: {issuer}\n  claimMappings: {{username: {{claim: sub, prefix: ''}}}}");
    text(&validate(&configuration(&jwt), &["https://self".into()]))
}

/// Message of errors; empty if there are none.
fn text(errors: &ErrorList) -> String {
    if errors.is_empty() { String::new() } else { errors.to_string() }
}

#[test]
fn configuration_is_decoded_strictly() {
    let error = |text: &str| decode(text.as_bytes()).unwrap_err().to_string();
    let head = "apiVersion: apiserver.config.k8s.io/v1beta1\nkind: AuthenticationConfiguration\n";
    assert_eq!(error(""), "empty config data");
    assert_eq!(error("apiVersion: v1\nkind: Pod\n"), r#"no kind "Pod" is registered for version "v1""#);
    assert_eq!(
        error(&format!("{head}jwt:\n- issuer: {{url: https://i, colour: red}}\n  shape: round\n")),
        r#"strict decoding error: unknown field "jwt[0].shape", unknown field "jwt[0].issuer.colour""#
    );
    assert_eq!(
        error(&format!("{head}jwt:\n- issuer: {{url: 7}}\n")),
        "json: cannot unmarshal number into Go struct field Issuer.jwt[0].issuer.url of type string"
    );
    let duplicate = error(&format!("{head}anonymous: {{enabled: true}}\nanonymous: {{enabled: false}}\n"));
    assert!(duplicate.contains("anonymous"), "{duplicate}");
    let anonymous = format!("{head}anonymous: {{enabled: true, conditions: [{{path: /livez}}]}}\n");
    let decoded = decode(anonymous.as_bytes()).unwrap().anonymous.unwrap();
    assert!(decoded.is_enabled && decoded.paths == ["/livez"]);
    assert_eq!(decode(head.as_bytes()).unwrap(), AuthenticationConfiguration::default());
}

#[test]
fn issuer_is_validated_with_the_texts_of_upstream() {
    let url = |url: &str| issuer_errors(&format!("{{url: '{url}', audiences: [a]}}"));
    assert_eq!(url("https://i"), "");
    assert_eq!(url(""), "jwt[0].issuer.url: Required value");
    assert_eq!(
        url("https://self"),
        r#"jwt[0].issuer.url: Invalid value: "https://self": URL must not overlap with disallowed issuers: [https://self]"#
    );
    assert_eq!(url("http://i"), r#"jwt[0].issuer.url: Invalid value: "http://i": URL scheme must be https"#);
    assert_eq!(
        url("https://u@i?q#f"),
        r#"[jwt[0].issuer.url: Invalid value: "https://u@i?q#f": URL must not contain a username or password, jwt[0].issuer.url: Invalid value: "https://u@i?q#f": URL must not contain a query, jwt[0].issuer.url: Invalid value: "https://u@i?q#f": URL must not contain a fragment]"#
    );
    assert_eq!(
        url("://i"),
        r#"jwt[0].issuer.url: Invalid value: "://i": parse "://i": missing protocol scheme"#
    );
    assert_eq!(
        issuer_errors("{url: https://i, discoveryURL: https://i/, audiences: [a]}"),
        r#"jwt[0].issuer.discoveryURL: Invalid value: "https://i/": discoveryURL must be different from URL"#
    );
    assert_eq!(
        issuer_errors("{url: https://i}"),
        "jwt[0].issuer.audiences: Required value: at least one jwt[0].issuer.audiences is required"
    );
    assert_eq!(
        issuer_errors("{url: https://i, audiences: [a, a, '']}"),
        r#"[jwt[0].issuer.audiences[1]: Duplicate value: "a", jwt[0].issuer.audiences[2]: Required value, jwt[0].issuer.audienceMatchPolicy: Invalid value: "": audienceMatchPolicy must be MatchAny for multiple audiences]"#
    );
    assert_eq!(
        issuer_errors("{url: https://i, audiences: [a], audienceMatchPolicy: All}"),
        r#"jwt[0].issuer.audienceMatchPolicy: Invalid value: "All": audienceMatchPolicy must be empty or MatchAny for single audience"#
    );
    assert_eq!(
        issuer_errors("{url: https://i, audiences: [a], certificateAuthority: x}"),
        r#"jwt[0].issuer.certificateAuthority: Invalid value: "<omitted>": data does not contain any valid RSA or ECDSA certificates"#
    );
    let egress = issuer_errors("{url: https://i, audiences: [a], egressSelectorType: cluster}");
    assert!(egress.contains("egress lookup required with egress selector type \"cluster\""), "{egress}");
}

#[test]
fn mappings_and_rules_are_validated_with_the_texts_of_upstream() {
    assert_eq!(
        errors_of(""),
        "jwt[0].claimMappings.username: Required value: claim or expression is required"
    );
    assert_eq!(
        errors_of("  claimMappings: {username: {claim: sub}}"),
        "jwt[0].claimMappings.username.prefix: Required value: prefix is required when claim is set. It can be set to an empty string to disable prefixing"
    );
    assert_eq!(
        errors_of("  claimMappings: {username: {expression: claims.sub, prefix: x}}"),
        r#"jwt[0].claimMappings.username.prefix: Invalid value: "x": may not be specified when expression is set"#
    );
    assert_eq!(
        errors_of("  claimMappings: {username: {expression: claims.sub, claim: sub}}"),
        r#"jwt[0].claimMappings.username: Invalid value: "": claim and expression can't both be set"#
    );
    let name = "  claimMappings:\n    username: {expression: claims.sub}\n";
    let extra =
        |key: &str| errors_of(&format!("{name}    extra: [{{key: {key}, valueExpression: claims.x}}]"));
    assert_eq!(extra("a.example/b"), "");
    assert_eq!(
        extra("b"),
        r#"jwt[0].claimMappings.extra[0].key: Invalid value: "b": must be a domain-prefixed path (such as "acme.io/foo")"#
    );
    assert!(extra("a.k8s.io/b").contains("are reserved for Kubernetes use"));
    assert!(extra("a.example/B").contains("must be lowercase"));
    let rule = |rule: &str| errors_of(&format!("{name}  claimValidationRules: [{rule}]"));
    assert_eq!(rule("{claim: a, requiredValue: b}"), "");
    assert_eq!(rule("{}"), "jwt[0].claimValidationRules[0]: Required value: claim or expression is required");
    assert_eq!(
        rule("{claim: a, expression: 'true'}"),
        r#"jwt[0].claimValidationRules[0]: Invalid value: "a": claim and expression can't both be set"#
    );
    assert_eq!(
        rule("{claim: a}, {claim: a, message: m}"),
        r#"[jwt[0].claimValidationRules[1].message: Invalid value: "m": may not be specified when claim is set, jwt[0].claimValidationRules[1].claim: Duplicate value: "a"]"#
    );
    assert_eq!(
        rule("{expression: claims.a}"),
        r#"jwt[0].claimValidationRules[0].expression: Invalid value: "claims.a": must evaluate to bool"#
    );
    assert!(rule("{expression: 'claims.'}").contains("compilation failed: ERROR: <input>:1:8"));
    assert_eq!(
        errors_of(&format!("{name}  userValidationRules: [{{}}, {{expression: user.name == 'a'}}]"))
            .split(" | ")
            .next()
            .unwrap(),
        "[jwt[0].userValidationRules[0].expression: Required value, jwt[0].userValidationRules[1].expression: Invalid value: \"user.name == 'a'\": compilation failed: ERROR: <input>:1:5: undefined field 'name'\n"
    );
}

#[test]
fn email_claim_requires_the_check_that_it_is_verified() {
    let name = |expression: &str, rest: &str| {
        errors_of(&format!("  claimMappings: {{username: {{expression: \"{expression}\"}}}}\n{rest}"))
    };
    assert!(name("claims.email", "").contains("claims.email_verified must be used in"));
    assert!(name("claims.?email.orValue('')", "").contains("claims.email_verified must be used in"));
    assert_eq!(name("claims.email_verified ? claims.email : claims.sub", ""), "");
    let rule = "  claimValidationRules: [{expression: claims.?email_verified.orValue(true) == true}]";
    assert_eq!(name("claims.email", rule), "");
}

#[test]
fn anonymous_conditions_require_anonymous_requests() {
    let text = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {conditions: [{path: /livez}]}";
    assert_eq!(
        validate(&decode(text.as_bytes()).unwrap(), &[]).to_string(),
        r#"anonymous.conditions: Invalid value: [{"Path":"/livez"}]: enabled should be set to true when conditions are defined"#
    );
}

fn verifier(fields: &str) -> JwtVerifier {
    let jwt = format!("- issuer: {{url: https://i, audiences: [a]}}\n{fields}");
    let config = configuration(&jwt).jwt.remove(0);
    JwtVerifier::new(config, Algorithm::ALL.to_vec(), &[]).unwrap()
}

const CLAIM_NAME: &str =
    "  claimMappings: {username: {claim: sub, prefix: 'i:'}, groups: {claim: roles, prefix: 'g:'}}\n";

fn claims(fields: Value) -> Value {
    let mut claims = value!({"iss": "https://i", "aud": "a", "exp": 1_700_000_600, "sub": "ann"});
    for (name, value) in fields.as_map().unwrap().iter() {
        claims.make_map().insert(name, value.clone());
    }
    claims
}

fn sign(claims: &Value) -> (SigningKey, String) {
    let key = SigningKey::from_der(&SigningKey::generate_pkcs8().unwrap()).unwrap();
    let token = key.sign(claims).unwrap();
    (key, token)
}

fn authenticate(verifier: &JwtVerifier, fields: Value) -> Result<AuthenticatedToken, String> {
    let (key, token) = sign(&claims(fields));
    let jwt = verifier.parse(&token).map_err(|error| error.to_string())?;
    assert!(verifier.has_valid_signature(&jwt, &[key.public().clone()]));
    verifier.authenticate(&jwt, NOW).map_err(|error| error.to_string())
}

#[test]
fn claims_are_mapped_with_their_prefixes() {
    let verifier = verifier(CLAIM_NAME);
    let token = authenticate(&verifier, value!({"roles": ["x", "y"], "jti": "7"})).unwrap();
    assert_eq!(token.identity.user, "i:ann");
    assert_eq!(token.identity.groups, ["g:x", "g:y"]);
    assert_eq!(token.identity.extra[CREDENTIAL_ID], ["JTI=7"]);
    assert_eq!(token.valid_until, Some(Time::from_seconds(1_700_000_600)));
    assert_eq!(authenticate(&verifier, value!({"roles": "z"})).unwrap().identity.groups, ["g:z"]);
    let error = |fields: Value| authenticate(&verifier, fields).unwrap_err();
    assert_eq!(
        error(value!({"sub": 7})),
        r#"oidc: parse username claims "sub": json: cannot unmarshal number into Go value of type string"#
    );
    assert_eq!(
        error(value!({"roles": [7]})),
        r#"oidc: parse groups claim "roles": json: cannot unmarshal array into Go value of type string"#
    );
    assert_eq!(error(value!({"aud": ["b"]})), r#"oidc: verify token: oidc: expected audience "a" got ["b"]"#);
    assert_eq!(
        error(value!({"exp": 1_699_999_999})),
        "oidc: verify token: oidc: token is expired (Token Expiry: 2023-11-14 22:13:19 +0000 UTC)"
    );
    assert_eq!(
        error(value!({"nbf": 1_700_000_061})),
        "oidc: verify token: oidc: current time 2023-11-14 22:13:20 +0000 UTC before the nbf (not before) time: 2023-11-14 22:14:21 +0000 UTC"
    );
    let distributed =
        value!({"_claim_names": {"roles": "s"}, "_claim_sources": {"s": {"endpoint": "https://c"}}});
    let error = error(distributed);
    assert!(error.starts_with("oidc: could not expand distributed claims: "), "{error}");
}

#[test]
fn email_must_be_verified_if_the_issuer_tells() {
    let verifier = verifier("  claimMappings: {username: {claim: email, prefix: ''}}\n");
    let result = |fields: Value| authenticate(&verifier, fields).map(|token| token.identity.user);
    assert_eq!(result(value!({"email": "a@b"})), Ok("a@b".into()));
    assert_eq!(result(value!({"email": "a@b", "email_verified": true})), Ok("a@b".into()));
    assert_eq!(
        result(value!({"email": "a@b", "email_verified": false})),
        Err("oidc: email not verified".into())
    );
    assert_eq!(
        result(value!({"email": "a@b", "email_verified": "yes"})),
        Err("oidc: parse 'email_verified' claim: json: cannot unmarshal string into Go value of type bool"
            .into())
    );
    assert_eq!(result(value!({})), Err(r#"oidc: parse username claims "email": claim not present"#.into()));
}

#[test]
fn required_claims_and_rules_reject_tokens_with_the_texts_of_upstream() {
    let verifier = verifier(&format!(
        "{CLAIM_NAME}  claimValidationRules: [{{claim: hd, requiredValue: x}}, {{expression: 'claims.age > 17', message: too young}}]\n  \
         userValidationRules: [{{expression: \"!user.username.startsWith('system:') && !user.groups.exists(g, g == 'g:root')\", message: reserved}}]\n"
    ));
    let result = |fields: Value| authenticate(&verifier, fields).map(|token| token.identity.user);
    assert_eq!(result(value!({"hd": "x", "age": 18})), Ok("i:ann".into()));
    assert_eq!(result(value!({"age": 18})), Err("oidc: required claim hd not present in ID token".into()));
    assert_eq!(
        result(value!({"hd": "y", "age": 18})),
        Err("oidc: required claim hd value does not match. Got = y, want = x".into())
    );
    assert_eq!(
        result(value!({"hd": "x", "age": 17})),
        Err("oidc: error evaluating claim validation expression: validation expression 'claims.age > 17' failed: too young".into())
    );
    let error = result(value!({"hd": "x"})).unwrap_err();
    assert_eq!(
        error,
        "oidc: error evaluating claim validation expression: expression 'claims.age > 17' resulted in error: no such key: age"
    );
    let error = result(value!({"hd": "x", "age": 18, "roles": "root"})).unwrap_err();
    assert!(
        error.starts_with("oidc: error evaluating user info validation rule: validation expression '"),
        "{error}"
    );
    assert!(error.ends_with("failed: reserved"), "{error}");
}

#[test]
fn expressions_map_claims_to_all_attributes() {
    let verifier = verifier(
        "  claimMappings:\n    username: {expression: \"claims.sub + '@' + claims.org__dot__id\"}\n    \
         groups: {expression: 'claims.?roles.orValue([])'}\n    uid: {expression: 'string(claims.number)'}\n    \
         extra: [{key: a.example/team, valueExpression: claims.nested.team}, {key: a.example/none, valueExpression: \"''\"}]\n",
    );
    let fields = value!({"org.id": "o", "roles": ["r", ""], "number": 7, "nested": {"team": ["t", "u"]}});
    let identity = authenticate(&verifier, fields).unwrap().identity;
    assert_eq!((identity.user.as_str(), identity.uid.as_str()), ("ann@o", "7"));
    assert_eq!(identity.groups, ["r"]);
    assert_eq!(identity.extra.len(), 1);
    assert_eq!(identity.extra["a.example/team"], ["t", "u"]);
    let spoofed = value!({"org__dot__id": "o", "number": 7, "nested": {"team": ""}});
    let error = authenticate(&verifier, spoofed).unwrap_err();
    assert!(error.starts_with("oidc: error evaluating username claim expression: "), "{error}");
    let wrong = value!({"org.id": "o", "roles": [7], "number": 7, "nested": {"team": ""}});
    assert_eq!(
        authenticate(&verifier, wrong).unwrap_err(),
        "oidc: error evaluating group claim expression: expression must return a string or a list of strings"
    );
}

#[test]
fn algorithm_that_is_not_accepted_is_rejected() {
    let config = OidcFlags {
        issuer_url: "https://i".into(),
        client_id: "a".into(),
        username_claim: "sub".into(),
        groups_claim: "roles".into(),
        required_claims: vec![("hd".into(), "x".into())],
        ..OidcFlags::default()
    };
    let verifier = JwtVerifier::new(config.authenticator(), vec![Algorithm::Rs256], &[]).unwrap();
    let (_, token) = sign(&claims(value!({})));
    assert_eq!(
        verifier.parse(&token).unwrap_err().to_string(),
        r#"oidc: verify token: oidc: id token signed with unsupported algorithm, expected ["RS256"] got "ES256""#
    );
    assert_eq!(verifier.parse("a.b").unwrap_err().to_string(), "oidc: verify token: oidc: malformed jwt");
    let username = verifier.config().claim_mappings.username.prefix.clone();
    assert_eq!(username.as_deref(), Some("https://i#"), "the default prefix of the flags");
    assert_eq!(token_issuer(&token).as_deref(), Some("https://i"));
}

#[test]
fn documents_of_an_issuer_are_checked() {
    let issuer = configuration("- issuer: {url: https://i/}").jwt.remove(0).issuer;
    assert_eq!(discovery_url(&issuer), "https://i/.well-known/openid-configuration");
    let document = br#"{"issuer":"https://i/","jwks_uri":"https://i/keys"}"#;
    assert_eq!(keys_url(&issuer, document).unwrap(), "https://i/keys");
    assert_eq!(
        keys_url(&issuer, br#"{"issuer":"https://j"}"#).unwrap_err().to_string(),
        r#"oidc: issuer did not match the issuer returned by provider, expected "https://i/" got "https://j""#
    );
    assert_eq!(
        keys_url(&issuer, br#"{"issuer":"https://i/"}"#).unwrap_err().to_string(),
        "provider did not return JWKS URL"
    );
    let (key, _) = sign(&value!({}));
    assert_eq!(keys(&json::to_vec(&jwks(&[key.public().clone()]))).unwrap(), [key.public().clone()]);
    assert!(keys(b"x").is_err());
}

#[test]
fn fetches_of_keys_are_bounded_in_time() {
    let mut known = ProviderKeys::default();
    assert!(known.can_refresh(NOW));
    known.attempted = Some(NOW);
    assert!(!known.can_refresh(Time(NOW.0 + 999_999)));
    assert!(known.can_refresh(Time(NOW.0 + 1_000_000)));
    known.failure = Some("no".into());
    assert!(!known.can_refresh(Time(NOW.0 + 9_999_999)));
    assert!(known.can_refresh(Time(NOW.0 + 10_000_000)));
    assert!(known.can_refresh(Time(NOW.0 - 1)), "the clock was set back");
}

proptest! {
    #[test]
    fn no_configuration_panics(text in "\\PC{0,120}", expression in "[a-z.()'? ]{0,20}") {
        let _ = decode(text.as_bytes());
        let head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n- issuer: {url: ";
        let _ = decode(format!("{head}{text}").as_bytes()).map(|configuration| validate(&configuration, &[]));
        let mut valid = configuration("- issuer: {url: https://i, audiences: [a]}");
        valid.jwt[0].issuer.url.clone_from(&text);
        valid.jwt[0].claim_mappings.username.expression = expression;
        let _ = validate(&valid, &[]);
    }

    #[test]
    fn no_claims_panic(name in "(sub|roles|exp|aud|jti|_claim_names|hd)", text in "\\PC{0,20}", number in any::<f64>()) {
        let verifier = verifier(&format!("{CLAIM_NAME}  claimValidationRules: [{{claim: hd, requiredValue: x}}]"));
        for value in [value!((text.as_str())), value!((number)), value!([(number), (text.as_str())]), value!({"roles": (text.as_str())}), Value::Null] {
            let mut fields = Value::map();
            fields.make_map().insert(name.as_str(), value);
            let _ = authenticate(&verifier, fields);
        }
    }
}
