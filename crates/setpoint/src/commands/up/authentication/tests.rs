//! Tests of the authentication flags.

use clap::Parser;

use super::*;

#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    authentication: AuthenticationArgs,
}

fn options(args: &[&str]) -> Result<AuthenticationOptions, String> {
    let flags = Flags::try_parse_from([&["setpoint"], args].concat()).map_err(|error| error.to_string())?;
    flags.authentication.options(None).map_err(|error| error.to_string())
}

#[test]
fn default_flags_equal_the_default_options() {
    let (flags, library) = (options(&[]).unwrap(), AuthenticationOptions::default());
    assert_eq!(format!("{flags:?}"), format!("{library:?}"));
    assert_eq!(options(&["--anonymous-auth"]).unwrap().allows_anonymous, Some(true));
    assert_eq!(options(&["--anonymous-auth=false"]).unwrap().allows_anonymous, Some(false));
    assert!(options(&["--enable-bootstrap-token-auth"]).unwrap().allows_bootstrap_tokens);
    assert!(!options(&["--service-account-extend-token-expiration=false"]).unwrap().extends_token_expiration);
}

#[test]
fn contradicting_flags_are_rejected_with_the_texts_of_upstream() {
    let error = |args: &[&str]| options(args).unwrap_err();
    assert_eq!(
        error(&["--oidc-client-id=a"]),
        "oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set"
    );
    assert_eq!(
        error(&["--oidc-client-id=a", "--oidc-issuer-url=https://i", "--authentication-config=f"]),
        "authentication-config file and oidc-* flags are mutually exclusive"
    );
    assert_eq!(
        error(&["--oidc-client-id=a", "--oidc-issuer-url=https://i", "--oidc-signing-algs=HS256"]),
        "oidc: unsupported signing alg: \"HS256\""
    );
    assert_eq!(
        error(&["--service-account-issuer=a", "--service-account-issuer=a"]),
        "service-account-issuer \"a\" is already specified"
    );
    assert_eq!(
        error(&["--service-account-jwks-uri=http://k"]),
        "service-account-jwks-uri requires https scheme, parsed as: http://k"
    );
    assert_eq!(
        error(&["--service-account-max-token-expiration=1m"]),
        "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds"
    );
    assert_eq!(error(&["--requestheader-group-headers= "]), "empty value in \"requestheader-group-headers\"");
    assert!(
        error(&["--authentication-token-webhook-version=v2"])
            .contains("unsupported authentication webhook version")
    );
}

#[test]
fn flags_of_an_issuer_are_mapped() {
    let args = [
        "--oidc-issuer-url=https://i",
        "--oidc-client-id=a",
        "--oidc-username-prefix=-",
        "--oidc-required-claim=hd=x=y",
    ];
    let oidc = options(&args).unwrap().oidc.unwrap();
    let authenticator = oidc.flags.authenticator();
    assert_eq!(authenticator.claim_mappings.username.claim, "sub");
    assert_eq!(authenticator.claim_mappings.username.prefix.as_deref(), Some(""));
    assert_eq!(authenticator.claim_validation_rules[0].required_value, "x=y");
}
