//! Tests of the configuration.

use proptest::prelude::*;

use super::*;

/// Base64 of 32, 16 and 20 bytes.
const KEY_32: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=";
const KEY_16: &str = "MDEyMzQ1Njc4OTAxMjM0NQ==";
const KEY_20: &str = "MDEyMzQ1Njc4OTAxMjM0NTY3ODk=";

fn file(rules: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: {rules}\n")
}

fn parse(rules: &str) -> Result<EncryptionConfiguration, String> {
    read(file(rules).as_bytes()).map_err(|error| error.to_string())
}

fn error(rules: &str) -> String {
    parse(rules).expect_err(rules)
}

/// Returns the error of one provider for Secrets.
fn provider_error(provider: &str) -> String {
    error(&format!("[{{resources: [secrets], providers: [{provider}]}}]"))
}

#[test]
fn providers_are_read_in_order() {
    let config = parse(&format!(
        "[{{resources: [secrets, pandas.awesome.bears.example], providers: [\
         {{aescbc: {{keys: [{{name: a, secret: {KEY_16}}}, {{name: b, secret: {KEY_32}}}]}}}}, \
         {{kms: {{apiVersion: v2, name: vault, endpoint: 'unix:///run/kms.sock', timeout: 1m30s}}}}, {{identity: {{}}}}]}}, \
         {{resources: ['*.*'], providers: [{{secretbox: {{keys: [{{name: c, secret: {KEY_32}}}]}}}}]}}]"
    ))
    .unwrap();
    let [first, second] = &config.resources[..] else { panic!("{config:?}") };
    let shown: Vec<String> = first.resources.iter().map(GroupResource::to_string).collect();
    assert_eq!(shown, ["secrets", "pandas.awesome.bears.example"]);
    let Provider::Local(LocalCipher::AesCbc, keys) = &first.providers[0] else { panic!("{first:?}") };
    assert_eq!((keys.len(), &*keys[0].name, keys[0].secret.expose()), (2, "a", &b"0123456789012345"[..]));
    let settings = KmsSettings {
        name: "vault".into(),
        socket: "/run/kms.sock".into(),
        timeout: Duration::from_secs(90),
    };
    assert_eq!(first.providers[1], Provider::Kms(settings));
    assert_eq!(first.providers[2], Provider::Identity);
    assert_eq!(second.resources[0], GroupResource { group: "*".into(), resource: "*".into() });
}

#[test]
fn keys_are_shown_in_no_debug_output_and_no_error() {
    let config = parse(&format!(
        "[{{resources: [secrets], providers: [{{aesgcm: {{keys: [{{name: a, secret: {KEY_32}}}]}}}}]}}]"
    ));
    let shown = format!("{config:?}");
    assert!(shown.contains("[REDACTED]") && !shown.contains(KEY_32) && !shown.contains("0123"), "{shown}");
    for text in [
        provider_error(&format!("{{aesgcm: {{keys: [{{name: a, secret: {KEY_20}}}]}}, identity: {{}}}}")),
        provider_error(&format!("{{aesgcm: {{keys: [{{name: a, secret: {KEY_20}}}]}}}}")),
        provider_error(&format!("{{aesgcm: {{keys: [{{name: a, secret: '{KEY_20}!'}}]}}}}")),
        read(format!("resources: [{{aesgcm: {KEY_20}}}]").as_bytes()).unwrap_err().to_string(),
    ] {
        assert!(!text.contains("MDEy"), "{text}");
    }
}

#[test]
fn invalid_resources_have_upstreams_errors() {
    let identity = "providers: [{identity: {}}]";
    let of = |resources: &str| error(&format!("[{{resources: {resources}, {identity}}}]"));
    assert_eq!(error("[]"), "resources: Required value: at least one resources is required");
    assert_eq!(
        of("[]"),
        "resources[0].resources: Required value: at least one resources[0].resources is required"
    );
    assert_eq!(
        of("[secrets, secrets]"),
        "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified multiple times"
    );
    for overlapping in ["[secrets, '*.']", "['*.*', secrets]", "['*.apps', deployments.apps]"] {
        let text = of(overlapping);
        assert!(
            text.contains("using overlapping resources such as 'secrets' and '*.' in the same"),
            "{text}"
        );
    }
    for (resource, why) in [
        ("Secrets", "resource name should not contain capital letters"),
        ("'*'", "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        ("serviceipallocations", "resources which do not have REST API/s cannot be encrypted"),
        ("'*.events.k8s.io'", "Use 'events' instead in the config file"),
        ("ingresses.extensions", "'extensions' group has been removed and cannot be used for encryption"),
        ("'secrets.*'", "encrypting the same resource across groups is not supported"),
    ] {
        let text = of(&format!("[{resource}]"));
        assert!(
            text.starts_with("resources[0].resources[0]: Invalid value: \"") && text.ends_with(why),
            "{text}"
        );
    }
    assert_eq!(
        error("[{resources: [secrets]}]"),
        "resources[0].providers: Required value: at least one resources[0].providers is required"
    );
    assert_eq!(
        error(&format!("[{{resources: ['*.'], {identity}}}, {{resources: [secrets], {identity}}}]")),
        "error while building transformers: resource \"secrets\" is masked by earlier rule \"*.\""
    );
    assert!(
        parse(&format!("[{{resources: [secrets], {identity}}}, {{resources: ['*.*'], {identity}}}]")).is_ok()
    );
}

#[test]
fn invalid_providers_have_upstreams_errors() {
    let at = "resources[0].providers[0]";
    assert_eq!(
        provider_error("{}"),
        format!(
            "{at}: Invalid value: {{}}: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"
        )
    );
    assert_eq!(
        provider_error("{identity: {}, secretbox: {keys: [{name: a, secret: eA==}]}}")
            .split(", resources")
            .next(),
        Some(
            "[resources[0].providers[0]: Invalid value: \"REDACTED\": more than one provider specified in a single element, should split into different list elements"
        )
    );
    assert_eq!(
        provider_error("{aesgcm: {keys: []}}"),
        format!("{at}.aesgcm.keys: Required value: at least one keys is required")
    );
    let key = |key: &str| provider_error(&format!("{{secretbox: {{keys: [{key}]}}}}"));
    let at = format!("{at}.secretbox.keys[0]");
    assert_eq!(
        key(&format!("{{secret: {KEY_32}}}")),
        format!("{at}.name: Required value: name is a mandatory field for a key")
    );
    assert_eq!(
        key("{name: a}"),
        format!("{at}.secret: Required value: secret is a mandatory field for a key")
    );
    assert_eq!(
        key("{name: a, secret: '***'}"),
        format!("{at}.secret: Invalid value: \"REDACTED\": secrets must be base64 encoded")
    );
    assert_eq!(
        key(&format!("{{name: a, secret: {KEY_16}}}")),
        format!(
            "{at}.secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 16, expected one of [32]"
        )
    );
    assert!(
        provider_error(&format!("{{aesgcm: {{keys: [{{name: a, secret: {KEY_20}}}]}}}}"))
            .ends_with("got 20, expected one of [16 24 32]")
    );
}

#[test]
fn invalid_kms_providers_have_upstreams_errors() {
    let at = "resources[0].providers[0].kms";
    let kms = |fields: &str| provider_error(&format!("{{kms: {{apiVersion: v2, {fields}}}}}"));
    let good = "name: a, endpoint: 'unix:///s'";
    assert_eq!(
        kms("endpoint: 'unix:///s'"),
        format!("{at}.name: Required value: name is a mandatory field for a provider")
    );
    assert_eq!(
        kms("name: 'a:b', endpoint: 'unix:///s'"),
        format!("{at}.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'")
    );
    assert_eq!(
        kms("name: a"),
        format!("{at}.endpoint: Invalid value: \"\": endpoint is a mandatory field for a kms")
    );
    assert_eq!(
        kms("name: a, endpoint: 'http://host'"),
        format!(
            "{at}.endpoint: Invalid value: \"http://host\": unsupported scheme \"http\" for KMS provider, only unix is supported"
        )
    );
    assert_eq!(
        kms(&format!("{good}, timeout: 0s")),
        format!("{at}.timeout: Invalid value: \"0s\": timeout should be a positive value")
    );
    assert_eq!(
        kms(&format!("{good}, cachesize: 5")),
        format!("{at}.cachesize: Invalid value: 5: cachesize is not supported in v2")
    );
    assert_eq!(
        provider_error("{kms: {apiVersion: v3, name: a, endpoint: 'unix:///s'}}"),
        format!(
            "{at}.apiVersion: Invalid value: \"v3\": unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported"
        )
    );
    let provider = format!("{{kms: {{apiVersion: v2, {good}}}}}");
    assert!(
        provider_error(&format!("{provider}, {provider}"))
            .contains("duplicate KMS provider name a, names must be unique")
    );
    for version in ["", "apiVersion: v1, "] {
        let text = provider_error(&format!("{{kms: {{{version}{good}}}}}"));
        assert!(text.contains("KMSv1 is deprecated and is not supported. Use KMSv2 instead"), "{text}");
    }
}

#[test]
fn other_documents_are_rejected() {
    assert_eq!(read(b""), Err(ConfigError::Empty));
    let load = |text: &str| {
        let error = read(text.as_bytes()).unwrap_err().to_string();
        error.strip_prefix("error decoding encryption provider configuration file: ").unwrap().to_owned()
    };
    assert!(load("resources: []").starts_with("Object 'Kind' is missing"));
    assert_eq!(
        load("kind: EncryptionConfiguration\napiVersion: v1"),
        "no kind \"EncryptionConfiguration\" is registered for version \"v1\""
    );
    assert_eq!(
        load(&file("[{resources: [a], provider: [], providers: [{aesgcm: {key: 1}}]}]")),
        "strict decoding error: unknown field \"resources[0].provider\", unknown field \"resources[0].providers[0].aesgcm.key\""
    );
    assert!(load(&file("[]\nresources: []")).starts_with("strict decoding error: yaml: unmarshal errors:"));
    assert_eq!(
        load(&file("[{resources: [1]}]")),
        "json: cannot unmarshal number into Go struct field ResourceConfiguration.resources.resources of type string"
    );
}

proptest! {
    #[test]
    fn arbitrary_bytes_never_panic(bytes: Vec<u8>) {
        drop(read(&bytes));
    }

    #[test]
    fn arbitrary_rules_never_panic(
        resource in "[*a-zA-Z.]{0,6}",
        name in "[a:]{0,2}",
        secret in "[A-Za-z0-9=+/]{0,44}",
        timeout in "[-+0-9.smh]{0,5}",
        endpoint in "(unix:)?[/@a:]{0,5}",
    ) {
        drop(parse(&format!(
            "[{{resources: ['{resource}', '*.'], providers: [{{aesgcm: {{keys: [{{name: '{name}', secret: '{secret}'}}]}}}}, \
             {{kms: {{apiVersion: v2, name: '{name}', endpoint: '{endpoint}', timeout: '{timeout}'}}}}]}}]"
        )));
    }
}
