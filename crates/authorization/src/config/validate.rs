//! Reading and validation.

use std::collections::BTreeSet;

use setpoint_api::Value;
use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::names::dns;

use super::conditions::compile;
use super::duration::GoDuration;
use super::strict::{self, Object, Unknown};
use super::{
    AuthorizationConfiguration, AuthorizerConfiguration, AuthorizerType, ConfigError, ReviewVersion, TYPES,
    WEBHOOK, WebhookConfiguration,
};

/// Longest timeout of a call.
const TIMEOUT_MAX: GoDuration = GoDuration::from_seconds(30);
/// Default time for which allowed requests are cached.
const AUTHORIZED_TTL: GoDuration = GoDuration::from_seconds(5 * 60);
/// Default time for which other requests are cached.
const UNAUTHORIZED_TTL: GoDuration = GoDuration::from_seconds(30);
/// Connections of webhooks.
const CONNECTIONS: [&str; 1] = ["KubeConfigFile"];

/// Check of a file that a configuration names: the text of the error, such as `must be a regular file`.
pub type FileCheck<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// Reads and validates a configuration. `check_file` checks the kubeconfigs of webhooks.
///
/// # Errors
/// If it is malformed or invalid.
pub fn read(bytes: &[u8], check_file: FileCheck<'_>) -> Result<AuthorizationConfiguration, ConfigError> {
    // As upstream, an empty file is an empty configuration, which is invalid for want of authorizers.
    let document = match bytes {
        [] => Value::map(),
        bytes => strict::parse(bytes).map_err(ConfigError::Load)?,
    };
    let decoded = decode(&document).map_err(ConfigError::Load)?;
    let mut errors = ErrorList::new();
    let authorizers = validate(decoded, check_file, &mut errors);
    if !errors.is_empty() {
        return Err(ConfigError::Invalid(errors));
    }
    check_names(&authorizers)?;
    Ok(AuthorizationConfiguration { authorizers })
}

/// An authorizer as the file has it.
struct DecodedAuthorizer<'a> {
    type_name: &'a str,
    name: &'a str,
    webhook: Option<DecodedWebhook<'a>>,
}

/// Settings of a webhook as the file has them, with defaults.
struct DecodedWebhook<'a> {
    authorized_ttl: GoDuration,
    caches_authorized: bool,
    unauthorized_ttl: GoDuration,
    caches_unauthorized: bool,
    timeout: GoDuration,
    version: &'a str,
    condition_version: &'a str,
    failure_policy: &'a str,
    connection_type: &'a str,
    kubeconfig: Option<&'a str>,
    conditions: Vec<&'a str>,
}

fn decode(document: &Value) -> Result<Vec<DecodedAuthorizer<'_>>, String> {
    let mut unknown = Unknown::new();
    let known = ["apiVersion", "kind", "authorizers"];
    let root = Object::new(document, "AuthorizationConfiguration", Path::NONE, &known, &mut unknown)?;
    let authorizers = root.list("authorizers", "v1.AuthorizerConfiguration")?.iter().enumerate();
    let decoded = authorizers.map(|(index, authorizer)| {
        let list = Path::root("authorizers");
        decode_authorizer(authorizer, &list.index(index), &mut unknown)
    });
    let decoded = decoded.collect::<Result<Vec<_>, String>>()?;
    strict::check_unknown(&unknown)?;
    Ok(decoded)
}

fn decode_authorizer<'a>(
    value: &'a Value,
    path: &Path<'_>,
    unknown: &mut Unknown,
) -> Result<DecodedAuthorizer<'a>, String> {
    let known = ["type", "name", "webhook"];
    let authorizer = Object::new(value, "AuthorizerConfiguration", *path, &known, unknown)?;
    let webhook = authorizer.object("webhook");
    let webhook = webhook.map(|webhook| decode_webhook(webhook, &path.child("webhook"), unknown));
    Ok(DecodedAuthorizer {
        type_name: authorizer.text("type")?,
        name: authorizer.text("name")?,
        webhook: webhook.transpose()?,
    })
}

fn decode_webhook<'a>(
    value: &'a Value,
    path: &Path<'_>,
    unknown: &mut Unknown,
) -> Result<DecodedWebhook<'a>, String> {
    let known = [
        "authorizedTTL",
        "cacheAuthorizedRequests",
        "unauthorizedTTL",
        "cacheUnauthorizedRequests",
        "timeout",
        "subjectAccessReviewVersion",
        "matchConditionSubjectAccessReviewVersion",
        "failurePolicy",
        "connectionInfo",
        "matchConditions",
    ];
    let webhook = Object::new(value, "WebhookConfiguration", *path, &known, unknown)?;
    let connection_value = value.get("connectionInfo").unwrap_or(&Value::Null);
    let at = path.child("connectionInfo");
    let connection =
        Object::new(connection_value, "WebhookConnectionInfo", at, &["type", "kubeConfigFile"], unknown)?;
    let list = webhook.list("matchConditions", "v1.WebhookMatchCondition")?;
    let at = path.child("matchConditions");
    let conditions = list.iter().enumerate().map(|(index, condition)| {
        let object =
            Object::new(condition, "WebhookMatchCondition", at.index(index), &["expression"], unknown)?;
        object.text("expression")
    });
    let conditions = conditions.collect::<Result<Vec<_>, String>>()?;
    let or = |found: GoDuration, default| if found == GoDuration(0) { default } else { found };
    Ok(DecodedWebhook {
        authorized_ttl: or(webhook.duration("authorizedTTL")?, AUTHORIZED_TTL),
        caches_authorized: webhook.flag("cacheAuthorizedRequests")?.unwrap_or(true),
        unauthorized_ttl: or(webhook.duration("unauthorizedTTL")?, UNAUTHORIZED_TTL),
        caches_unauthorized: webhook.flag("cacheUnauthorizedRequests")?.unwrap_or(true),
        timeout: webhook.duration("timeout")?,
        version: webhook.text("subjectAccessReviewVersion")?,
        condition_version: webhook.text("matchConditionSubjectAccessReviewVersion")?,
        failure_policy: webhook.text("failurePolicy")?,
        connection_type: connection.text("type")?,
        kubeconfig: connection.optional_text("kubeConfigFile")?,
        conditions,
    })
}

fn validate(
    decoded: Vec<DecodedAuthorizer<'_>>,
    check_file: FileCheck<'_>,
    errors: &mut ErrorList,
) -> Vec<AuthorizerConfiguration> {
    let list = Path::root("authorizers");
    if decoded.is_empty() {
        errors.push(FieldError::required(&list, "at least one authorization mode must be defined"));
    }
    let (mut seen_types, mut seen_names) = (BTreeSet::new(), BTreeSet::new());
    let mut authorizers = Vec::new();
    for (index, one) in decoded.iter().enumerate() {
        let path = list.index(index);
        let type_path = path.child("type");
        if one.type_name.is_empty() {
            errors.push(FieldError::required(&type_path, ""));
            continue;
        }
        if !TYPES.contains(&one.type_name) {
            errors.push(FieldError::not_supported(&type_path, one.type_name, &TYPES));
            continue;
        }
        if !seen_types.insert(one.type_name) && one.type_name != WEBHOOK {
            errors.push(FieldError::duplicate(&type_path, one.type_name));
            continue;
        }
        validate_name(one.name, &mut seen_names, &path.child("name"), errors);
        let authorizer = match (one.type_name, &one.webhook) {
            (WEBHOOK, None) => {
                errors.push(FieldError::required(&path.child("webhook"), "required when type=Webhook"));
                None
            }
            (WEBHOOK, Some(webhook)) => validate_webhook(webhook, &path, check_file, errors),
            (_, Some(_)) => {
                let why = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(&path.child("webhook"), "non-null", why));
                None
            }
            (name, None) => built_in(name),
        };
        authorizers.extend(
            authorizer.map(|authorizer| AuthorizerConfiguration { name: one.name.into(), authorizer }),
        );
    }
    authorizers
}

fn validate_name<'a>(name: &'a str, seen: &mut BTreeSet<&'a str>, path: &Path<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !seen.insert(name) {
        errors.push(FieldError::duplicate(path, name));
    } else {
        let faults: Vec<_> = dns::subdomain(name).into_iter().collect();
        if !faults.is_empty() {
            let why = format!("authorizer name is invalid: {}", faults.join(", "));
            errors.push(FieldError::invalid(path, name, why));
        }
    }
}

/// Returns the authorizer type of a name that is not `Webhook`.
pub(super) fn built_in(name: &str) -> Option<AuthorizerType> {
    Some(match name {
        "AlwaysAllow" => AuthorizerType::AlwaysAllow,
        "AlwaysDeny" => AuthorizerType::AlwaysDeny,
        "Node" => AuthorizerType::Node,
        "RBAC" => AuthorizerType::Rbac,
        _ => return None,
    })
}

/// Upstream's paths lack the step `webhook`.
fn validate_webhook(
    webhook: &DecodedWebhook<'_>,
    path: &Path<'_>,
    check_file: FileCheck<'_>,
    errors: &mut ErrorList,
) -> Option<AuthorizerType> {
    let before = errors.len();
    let at = path.child("timeout");
    if webhook.timeout == GoDuration(0) {
        errors.push(FieldError::required(&at, ""));
    } else if webhook.timeout > TIMEOUT_MAX || webhook.timeout < GoDuration(0) {
        errors.push(FieldError::invalid(&at, webhook.timeout.to_string(), "must be > 0s and <= 30s"));
    }
    for (field, ttl) in
        [("authorizedTTL", webhook.authorized_ttl), ("unauthorizedTTL", webhook.unauthorized_ttl)]
    {
        if ttl < GoDuration(0) {
            errors.push(FieldError::invalid(&path.child(field), ttl.to_string(), "must be > 0s"));
        }
    }
    let version = validate_versions(webhook, path, errors);
    let at = path.child("failurePolicy");
    match webhook.failure_policy {
        "" => errors.push(FieldError::required(&at, "")),
        "NoOpinion" | "Deny" => {}
        other => errors.push(FieldError::not_supported(&at, other, &["NoOpinion", "Deny"])),
    }
    validate_connection(webhook, path, check_file, errors);
    let match_conditions = compile(&webhook.conditions, path, errors);
    if errors.len() > before {
        return None;
    }
    let ttl = |is_cached: bool, ttl: GoDuration| if is_cached { ttl.positive() } else { Default::default() };
    Some(AuthorizerType::Webhook(Box::new(WebhookConfiguration {
        authorized_ttl: ttl(webhook.caches_authorized, webhook.authorized_ttl),
        unauthorized_ttl: ttl(webhook.caches_unauthorized, webhook.unauthorized_ttl),
        timeout: webhook.timeout.positive(),
        version,
        denies_on_error: webhook.failure_policy == "Deny",
        kubeconfig: webhook.kubeconfig.unwrap_or_default().into(),
        match_conditions,
    })))
}

fn validate_versions(webhook: &DecodedWebhook<'_>, path: &Path<'_>, errors: &mut ErrorList) -> ReviewVersion {
    let at = path.child("subjectAccessReviewVersion");
    let mut version = ReviewVersion::V1;
    match webhook.version {
        "" => errors.push(FieldError::required(&at, "")),
        "v1" => {}
        "v1beta1" => version = ReviewVersion::V1Beta1,
        other => errors.push(FieldError::not_supported(&at, other, &["v1", "v1beta1"])),
    }
    let at = path.child("matchConditionSubjectAccessReviewVersion");
    match webhook.condition_version {
        "" if webhook.conditions.is_empty() => {}
        "" => errors.push(FieldError::required(&at, "required if match conditions are specified")),
        "v1" => {}
        other => errors.push(FieldError::not_supported(&at, other, &["v1"])),
    }
    version
}

fn validate_connection(
    webhook: &DecodedWebhook<'_>,
    path: &Path<'_>,
    check_file: FileCheck<'_>,
    errors: &mut ErrorList,
) {
    let connection = path.child("connectionInfo");
    let (type_path, file_path) = (connection.child("type"), connection.child("kubeConfigFile"));
    match (webhook.connection_type, webhook.kubeconfig) {
        ("", _) => errors.push(FieldError::required(&type_path, "")),
        ("KubeConfigFile", None | Some("")) => errors.push(FieldError::required(&file_path, "")),
        ("KubeConfigFile", Some(file)) if !file.starts_with('/') => {
            errors.push(FieldError::invalid(&file_path, file, "must be an absolute path"));
        }
        ("KubeConfigFile", Some(file)) => {
            if let Err(why) = check_file(file) {
                errors.push(FieldError::invalid(&file_path, file, why));
            }
        }
        (other, _) => {
            errors.push(FieldError::not_supported(&type_path, BadValue::from(other), &CONNECTIONS));
        }
    }
}

/// Checks that the names of built-in authorizers are their types in lower case.
fn check_names(authorizers: &[AuthorizerConfiguration]) -> Result<(), ConfigError> {
    let wrong = authorizers.iter().filter_map(|one| {
        let type_name = one.authorizer.name();
        let expected = type_name.to_lowercase();
        let is_wrong = type_name != WEBHOOK && *one.name != *expected;
        is_wrong
            .then(|| format!("expected name {expected} for authorizer {type_name} instead of {}", one.name))
    });
    let wrong: Vec<String> = wrong.collect();
    match &wrong[..] {
        [] => Ok(()),
        [only] => Err(ConfigError::Names(only.clone())),
        all => Err(ConfigError::Names(format!("[{}]", all.join(", ")))),
    }
}
