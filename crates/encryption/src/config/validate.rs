//! Reading and validation, in upstream's order.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::quote::Quoted;

use super::decode::{self, DecodedKey, DecodedKms, DecodedProvider, DecodedRule};
use super::{
    ConfigError, EncryptionConfiguration, GroupResource, KmsSettings, LocalCipher, NamedKey, Provider,
    ResourceRule, duration,
};
use crate::secret::Secret;

/// Time for one call of a KMS plugin, by default.
const TIMEOUT: Duration = Duration::from_secs(3);
/// Shown instead of keys.
const REDACTED: &str = "REDACTED";
/// As Go, accepts unused bits that are set in the last digit.
const BASE64: GeneralPurpose =
    GeneralPurpose::new(&STANDARD, GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true));

/// Reads and validates a configuration.
///
/// # Errors
/// If it is malformed, invalid, or not supported.
pub fn read(bytes: &[u8]) -> Result<EncryptionConfiguration, ConfigError> {
    if bytes.is_empty() {
        return Err(ConfigError::Empty);
    }
    let document = decode::parse(bytes).map_err(ConfigError::Load)?;
    let rules = decode::decode(&document).map_err(ConfigError::Load)?;
    let mut errors = ErrorList::new();
    validate(&rules, &mut errors);
    if !errors.is_empty() {
        return Err(ConfigError::Invalid(errors));
    }
    let config = EncryptionConfiguration { resources: build(&rules)? };
    check_masks(&config)?;
    Ok(config)
}

fn validate(rules: &[DecodedRule<'_>], errors: &mut ErrorList) {
    let root = Path::root("resources");
    if rules.is_empty() {
        errors.push(FieldError::required(&root, format!("at least one {root} is required")));
        return;
    }
    let mut kms_names = BTreeSet::new();
    for (index, rule) in rules.iter().enumerate() {
        let at = root.index(index);
        let (resources, providers) = (at.child("resources"), at.child("providers"));
        if rule.resources.is_empty() {
            errors.push(FieldError::required(&resources, format!("at least one {resources} is required")));
        }
        validate_overlap(&rule.resources, &resources, errors);
        for (index, name) in rule.resources.iter().enumerate() {
            if let Some(why) = resource_fault(name) {
                errors.push(FieldError::invalid(&resources.index(index), *name, why));
            }
        }
        if rule.providers.is_empty() {
            errors.push(FieldError::required(&providers, format!("at least one {providers} is required")));
        }
        for (index, provider) in rule.providers.iter().enumerate() {
            validate_provider(provider, &providers.index(index), &mut kms_names, errors);
        }
    }
}

fn validate_overlap(resources: &[&str], path: &Path<'_>, errors: &mut ErrorList) {
    let parsed: Vec<GroupResource> = resources.iter().map(|text| GroupResource::parse(text)).collect();
    let (mut has_overlap, mut has_duplicate) = (false, false);
    for (i, first) in parsed.iter().enumerate() {
        for second in parsed.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, second)| second) {
            // As upstream, a second duplicate counts as overlap if it is a pattern.
            if first == second && !has_duplicate {
                has_duplicate = true;
                continue;
            }
            let is_pattern = &*first.resource == "*" || &*second.resource == "*";
            let is_all = &*first.group == "*" && &*first.resource == "*";
            has_overlap |= is_all || (first.group == second.group && is_pattern);
        }
    }
    let mut invalid = |why: &'static str| {
        errors.push(FieldError::invalid(path, BadValue::json_strings(resources), why));
    };
    if has_duplicate {
        invalid("the same resource cannot be specified multiple times");
    }
    if has_overlap {
        invalid(
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
        );
    }
}

fn resource_fault(name: &str) -> Option<&'static str> {
    let GroupResource { group, resource } = GroupResource::parse(name);
    if name.to_lowercase() != name {
        Some("resource name should not contain capital letters")
    } else if name == "*" {
        Some("use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources")
    } else if ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"].contains(&name) {
        Some("resources which do not have REST API/s cannot be encrypted")
    } else if &*group == "events.k8s.io" {
        Some(
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
        )
    } else if &*group == "extensions" {
        Some("'extensions' group has been removed and cannot be used for encryption")
    } else if &*group == "*" && &*resource != "*" {
        Some("encrypting the same resource across groups is not supported")
    } else {
        None
    }
}

fn validate_provider<'a>(
    provider: &DecodedProvider<'a>,
    path: &Path<'_>,
    kms_names: &mut BTreeSet<&'a str>,
    errors: &mut ErrorList,
) {
    let parts = [
        provider.kms.is_some(),
        provider.aesgcm.is_some(),
        provider.aescbc.is_some(),
        provider.secretbox.is_some(),
        provider.identity,
    ];
    match parts.iter().filter(|part| **part).count() {
        0 => errors.push(FieldError::invalid(
            path,
            BadValue::Json("{}".into()),
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        )),
        1 => {}
        // Upstream shows the provider, with its keys.
        _ => errors.push(FieldError::invalid(
            path,
            REDACTED,
            "more than one provider specified in a single element, should split into different list elements",
        )),
    }
    if let Some(kms) = &provider.kms {
        validate_kms(kms, &path.child("kms"), kms_names, errors);
        kms_names.insert(kms.name);
    } else if let Some((cipher, keys)) = local(provider) {
        validate_keys(cipher, keys, &path.child(cipher.name()).child("keys"), errors);
    }
}

fn local<'d, 'a>(provider: &'d DecodedProvider<'a>) -> Option<(LocalCipher, &'d [DecodedKey<'a>])> {
    let of = |cipher, keys: &'d Option<Vec<DecodedKey<'a>>>| keys.as_ref().map(|keys| (cipher, &keys[..]));
    of(LocalCipher::AesGcm, &provider.aesgcm)
        .or(of(LocalCipher::AesCbc, &provider.aescbc))
        .or(of(LocalCipher::Secretbox, &provider.secretbox))
}

fn validate_keys(cipher: LocalCipher, keys: &[DecodedKey<'_>], path: &Path<'_>, errors: &mut ErrorList) {
    if keys.is_empty() {
        errors.push(FieldError::required(path, "at least one keys is required"));
    }
    for (index, key) in keys.iter().enumerate() {
        let at = path.index(index);
        if key.name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), "name is a mandatory field for a key"));
        }
        let at = at.child("secret");
        if key.secret.is_empty() {
            errors.push(FieldError::required(&at, "secret is a mandatory field for a key"));
            continue;
        }
        let lengths = cipher.key_lengths();
        match decode_secret(key.secret) {
            None => errors.push(FieldError::invalid(&at, REDACTED, "secrets must be base64 encoded")),
            Some(secret) if !lengths.contains(&secret.expose().len()) => {
                let expected: Vec<String> = lengths.iter().map(usize::to_string).collect();
                let (got, expected) = (secret.expose().len(), expected.join(" "));
                let why =
                    format!("secret is not of the expected length, got {got}, expected one of [{expected}]");
                errors.push(FieldError::invalid(&at, REDACTED, why));
            }
            Some(_) => {}
        }
    }
}

/// Decodes base64. As Go, ignores line breaks.
fn decode_secret(text: &str) -> Option<Secret> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !matches!(byte, b'\r' | b'\n')).collect();
    let digits = Secret::new(digits);
    BASE64.decode(digits.expose()).ok().map(Secret::new)
}

fn validate_kms(kms: &DecodedKms<'_>, path: &Path<'_>, names: &BTreeSet<&str>, errors: &mut ErrorList) {
    let at = path.child("name");
    if kms.name.is_empty() {
        errors.push(FieldError::required(&at, "name is a mandatory field for a provider"));
    }
    let is_v1 = matches!(kms.api_version, "" | "v1");
    if !is_v1 && kms.name.contains(':') {
        let why = format!("invalid KMS provider name {}, must not contain ':'", kms.name);
        errors.push(FieldError::invalid(&at, kms.name, why));
    }
    if names.contains(kms.name) {
        let why = format!("duplicate KMS provider name {}, names must be unique", kms.name);
        errors.push(FieldError::invalid(&at, kms.name, why));
    }
    if let Some(text) = kms.timeout {
        let at = path.child("timeout");
        match duration::parse(text) {
            None => {
                let why = format!("time: invalid duration {}", Quoted(text));
                errors.push(FieldError::invalid(&at, text, why));
            }
            Some(Duration::ZERO) => {
                errors.push(FieldError::invalid(&at, text, "timeout should be a positive value"));
            }
            Some(_) => {}
        }
    }
    let at = path.child("endpoint");
    match kms.endpoint.split_once(':') {
        _ if kms.endpoint.is_empty() => {
            errors.push(FieldError::invalid(&at, "", "endpoint is a mandatory field for a kms"));
        }
        Some(("unix", _)) => {}
        found => {
            let scheme = Quoted(found.map_or("", |(scheme, _)| scheme)).to_string();
            let why = format!("unsupported scheme {scheme} for KMS provider, only unix is supported");
            errors.push(FieldError::invalid(&at, kms.endpoint, why));
        }
    }
    if let Some(size) = kms.cache_size.filter(|size| !is_v1 || *size == 0) {
        let why = if is_v1 {
            "cachesize should be a positive value, or negative to disable"
        } else {
            "cachesize is not supported in v2"
        };
        errors.push(FieldError::invalid(&path.child("cachesize"), size, why));
    }
    if !is_v1 && kms.api_version != "v2" {
        let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.push(FieldError::invalid(&path.child("apiVersion"), kms.api_version, why));
    }
}

/// Path of the socket of an endpoint. `unix:///path` and `unix:path`; `unix:///@name` is an abstract socket.
fn socket(endpoint: &str) -> &str {
    let rest = endpoint.strip_prefix("unix:").unwrap_or(endpoint);
    rest.strip_prefix("//").unwrap_or(rest)
}

fn build(rules: &[DecodedRule<'_>]) -> Result<Vec<ResourceRule>, ConfigError> {
    rules.iter().map(build_rule).collect()
}

fn build_rule(rule: &DecodedRule<'_>) -> Result<ResourceRule, ConfigError> {
    let providers = rule.providers.iter().map(|provider| {
        if let Some((cipher, keys)) = local(provider) {
            let keys = keys.iter().filter_map(|key| {
                Some(NamedKey { name: key.name.into(), secret: decode_secret(key.secret)? })
            });
            return Ok(Provider::Local(cipher, keys.collect()));
        }
        let Some(kms) = &provider.kms else { return Ok(Provider::Identity) };
        if kms.api_version != "v2" {
            return Err(ConfigError::Unsupported(format!(
                "KMS provider {}: KMSv1 is deprecated and is not supported. Use KMSv2 instead: set apiVersion to v2, with a \
                 plugin that serves the KMS v2 API",
                Quoted(kms.name)
            )));
        }
        Ok(Provider::Kms(KmsSettings {
            name: kms.name.into(),
            socket: socket(kms.endpoint).into(),
            timeout: kms.timeout.and_then(duration::parse).unwrap_or(TIMEOUT),
        }))
    });
    Ok(ResourceRule {
        providers: providers.collect::<Result<_, _>>()?,
        resources: rule.resources.iter().map(|text| GroupResource::parse(text)).collect(),
    })
}

/// Rejects rules after a pattern that has all their resources.
fn check_masks(config: &EncryptionConfiguration) -> Result<(), ConfigError> {
    let mut seen = BTreeSet::new();
    for rule in config.resources.iter().flat_map(|rule| &rule.resources) {
        let group = GroupResource { resource: "*".into(), group: rule.group.clone() };
        let all = GroupResource { resource: "*".into(), group: "*".into() };
        if let Some(earlier) = [group, all].into_iter().find(|pattern| seen.contains(pattern)) {
            return Err(ConfigError::Masked { resource: rule.to_string(), earlier: earlier.to_string() });
        }
        seen.insert(rule.clone());
    }
    Ok(())
}
