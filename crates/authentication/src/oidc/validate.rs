//! Validation of an AuthenticationConfiguration, with upstream's messages.

mod url;

use std::collections::BTreeSet;

use setpoint_api::field_error::{BadValue, ErrorList, FieldError, Path};
use setpoint_api::names::key::domain_prefixed_path;

use super::config::{AuthenticationConfiguration, Issuer, JwtAuthenticator, MATCH_ANY, PrefixedSource};
use super::expressions::{Expression, Variable};
use super::mapping::{ClaimMapper, Condition};
use crate::keys::certificates;
use url::check_url;

/// Issuers of a configuration.
const ISSUERS_MAX: usize = 64;
const BOTH_SET: &str = "claim and expression can't both be set";

/// Validates a configuration. The server itself is one of the disallowed issuers.
#[must_use]
pub fn validate(configuration: &AuthenticationConfiguration, disallowed_issuers: &[String]) -> ErrorList {
    let mut errors = ErrorList::new();
    let root = Path::root("jwt");
    if configuration.jwt.len() > ISSUERS_MAX {
        errors.push(FieldError::too_many(&root, Some(configuration.jwt.len()), ISSUERS_MAX));
        return errors;
    }
    let (mut issuers, mut discovery_urls) = (BTreeSet::new(), BTreeSet::new());
    for (index, authenticator) in configuration.jwt.iter().enumerate() {
        let path = root.index(index);
        check_authenticator(authenticator, &path, disallowed_issuers, &mut errors);
        let (path, issuer) = (path.child("issuer"), &authenticator.issuer);
        if !issuers.insert(&issuer.url) {
            errors.push(FieldError::duplicate(&path.child("url"), issuer.url.as_str()));
        }
        if !issuer.discovery_url.is_empty() && !discovery_urls.insert(&issuer.discovery_url) {
            errors.push(FieldError::duplicate(&path.child("discoveryURL"), issuer.discovery_url.as_str()));
        }
    }
    if let Some(anonymous) = configuration.anonymous.as_ref().filter(|anonymous| !anonymous.is_enabled)
        && !anonymous.paths.is_empty()
    {
        let paths: Vec<String> = anonymous
            .paths
            .iter()
            .map(|path| format!("{{\"Path\":{}}}", setpoint_api::quote::json_string(path)))
            .collect();
        let value = BadValue::Json(format!("[{}]", paths.join(",")).into());
        let path = Path::root("anonymous");
        let why = "enabled should be set to true when conditions are defined";
        errors.push(FieldError::invalid(&path.child("conditions"), value, why));
    }
    errors
}

/// Validates one authenticator, and returns its compiled expressions.
pub(super) fn check_authenticator(
    config: &JwtAuthenticator,
    path: &Path<'_>,
    disallowed_issuers: &[String],
    errors: &mut ErrorList,
) -> ClaimMapper {
    check_issuer(&config.issuer, &path.child("issuer"), disallowed_issuers, errors);
    let mut mapper = ClaimMapper::default();
    check_claim_rules(config, &path.child("claimValidationRules"), &mut mapper, errors);
    check_mappings(config, &path.child("claimMappings"), &mut mapper, errors);
    check_user_rules(config, &path.child("userValidationRules"), &mut mapper, errors);
    mapper
}

fn check_issuer(issuer: &Issuer, path: &Path<'_>, disallowed: &[String], errors: &mut ErrorList) {
    let url_path = path.child("url");
    if issuer.url.is_empty() {
        errors.push(FieldError::required(&url_path, ""));
    } else {
        check_url(&issuer.url, disallowed, &url_path, errors);
    }
    if !issuer.discovery_url.is_empty() {
        let path = path.child("discoveryURL");
        let trimmed = |url: &str| url.trim_end_matches('/').to_owned();
        if !issuer.url.is_empty() && trimmed(&issuer.url) == trimmed(&issuer.discovery_url) {
            let why = "discoveryURL must be different from URL";
            errors.push(FieldError::invalid(&path, issuer.discovery_url.as_str(), why));
        }
        check_url(&issuer.discovery_url, &[], &path, errors);
    }
    check_audiences(issuer, path, errors);
    if !issuer.certificate_authority.is_empty()
        && let Err(error) = certificates(issuer.certificate_authority.as_bytes())
    {
        let value = BadValue::from("<omitted>");
        errors.push(FieldError::invalid(&path.child("certificateAuthority"), value, error.to_string()));
    }
    match issuer.egress_selector_type.as_str() {
        "" => {}
        kind @ ("controlplane" | "cluster") => {
            let why = format!("oidc: egress lookup required with egress selector type \"{kind}\"");
            errors.push(FieldError::forbidden(&path.child("egressSelectorType"), why));
        }
        other => {
            let why = "egress selector must be either controlplane or cluster";
            let value = BadValue::json_string(other);
            errors.push(FieldError::invalid(&path.child("egressSelectorType"), value, why));
        }
    }
}

fn check_audiences(issuer: &Issuer, path: &Path<'_>, errors: &mut ErrorList) {
    let (audiences, policy) = (&issuer.audiences, issuer.audience_match_policy.as_str());
    let at = path.child("audiences");
    if audiences.is_empty() {
        errors.push(FieldError::required(&at, format!("at least one {at} is required")));
        return;
    }
    let mut seen = BTreeSet::new();
    for (index, audience) in audiences.iter().enumerate() {
        let at = at.index(index);
        if audience.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if !seen.insert(audience) {
            errors.push(FieldError::duplicate(&at, audience.as_str()));
        }
    }
    let why = match audiences.len() {
        1 if policy.is_empty() || policy == MATCH_ANY => return,
        1 => "audienceMatchPolicy must be empty or MatchAny for single audience",
        _ if policy == MATCH_ANY => return,
        _ => "audienceMatchPolicy must be MatchAny for multiple audiences",
    };
    let value = BadValue::json_string(policy);
    errors.push(FieldError::invalid(&path.child("audienceMatchPolicy"), value, why));
}

/// Compiles an expression, and reports its fault.
fn compile(
    source: &str,
    (variable, is_condition): (Variable, bool),
    path: &Path<'_>,
    errors: &mut ErrorList,
) -> Option<Expression> {
    let compiled = Expression::compile(source, variable, is_condition);
    compiled.map_err(|why| errors.push(FieldError::invalid(path, source, why))).ok()
}

fn check_claim_rules(
    config: &JwtAuthenticator,
    path: &Path<'_>,
    mapper: &mut ClaimMapper,
    errors: &mut ErrorList,
) {
    let (mut claims, mut expressions) = (BTreeSet::new(), BTreeSet::new());
    for (index, rule) in config.claim_validation_rules.iter().enumerate() {
        let path = path.index(index);
        match (rule.claim.as_str(), rule.expression.as_str()) {
            ("", "") => errors.push(FieldError::required(&path, "claim or expression is required")),
            (claim, "") => {
                if !rule.message.is_empty() {
                    let why = "may not be specified when claim is set";
                    errors.push(FieldError::invalid(&path.child("message"), rule.message.as_str(), why));
                }
                if !claims.insert(claim) {
                    errors.push(FieldError::duplicate(&path.child("claim"), claim));
                }
            }
            ("", expression) => {
                if !rule.required_value.is_empty() {
                    let why = "may not be specified when expression is set";
                    let value = rule.required_value.as_str();
                    errors.push(FieldError::invalid(&path.child("requiredValue"), value, why));
                }
                let path = path.child("expression");
                if !expressions.insert(expression) {
                    errors.push(FieldError::duplicate(&path, expression));
                } else if let Some(expression) = compile(expression, (Variable::Claims, true), &path, errors)
                {
                    mapper.claim_rules.push(Condition { expression, message: rule.message.clone() });
                }
            }
            (claim, _) => errors.push(FieldError::invalid(&path, claim, BOTH_SET)),
        }
    }
}

fn check_mappings(
    config: &JwtAuthenticator,
    path: &Path<'_>,
    mapper: &mut ClaimMapper,
    errors: &mut ErrorList,
) {
    let mappings = &config.claim_mappings;
    mapper.username = check_source(&mappings.username, &path.child("username"), true, errors);
    mapper.groups = check_source(&mappings.groups, &path.child("groups"), false, errors);
    let uid_path = path.child("uid");
    match (mappings.uid.claim.as_str(), mappings.uid.expression.as_str()) {
        (_, "") => {}
        ("", expression) => {
            let path = uid_path.child("expression");
            mapper.uid = compile(expression, (Variable::Claims, false), &path, errors);
        }
        _ => errors.push(FieldError::invalid(&uid_path, "", BOTH_SET)),
    }
    check_extra(config, &path.child("extra"), mapper, errors);
    let has_name = |claim: &str| mapper.username.as_ref().is_some_and(|one| one.uses_claim(claim));
    let rules = mapper.claim_rules.iter().map(|rule| &rule.expression);
    let mut others = mapper.extra.iter().map(|(_, expression)| expression).chain(rules);
    if has_name("email") && !has_name("email_verified") && !others.any(|one| one.uses_claim("email_verified"))
    {
        let why = "claims.email_verified must be used in claimMappings.username.expression or \
                   claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is \
                   used in claimMappings.username.expression";
        let value = mappings.username.expression.as_str();
        errors.push(FieldError::invalid(&path.child("username").child("expression"), value, why));
    }
}

fn check_extra(config: &JwtAuthenticator, path: &Path<'_>, mapper: &mut ClaimMapper, errors: &mut ErrorList) {
    let mut keys = BTreeSet::new();
    for (index, mapping) in config.claim_mappings.extra.iter().enumerate() {
        let (path, key) = (path.index(index), mapping.key.as_str());
        let key_path = path.child("key");
        domain_prefixed_path(errors, &key_path, key);
        if key != key.to_lowercase() {
            errors.push(FieldError::invalid(&key_path, key, "must be lowercase"));
        }
        let domain = key.split_once('/').map_or("", |(domain, _)| domain);
        let is_below = |parent: &str| {
            domain.strip_suffix(parent).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        };
        if is_below("kubernetes.io") || is_below("k8s.io") {
            let why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use";
            errors.push(FieldError::invalid(&key_path, key, why));
        }
        let value_path = path.child("valueExpression");
        if !keys.insert(key) {
            errors.push(FieldError::duplicate(&key_path, key));
        } else if mapping.value_expression.is_empty() {
            errors.push(FieldError::required(&value_path, ""));
        } else if let Some(expression) =
            compile(&mapping.value_expression, (Variable::Claims, false), &value_path, errors)
        {
            mapper.extra.push((key.to_owned(), expression));
        }
    }
}

fn check_source(
    source: &PrefixedSource,
    path: &Path<'_>,
    is_required: bool,
    errors: &mut ErrorList,
) -> Option<Expression> {
    match (source.claim.as_str(), source.expression.as_str()) {
        ("", "") => {
            if is_required {
                errors.push(FieldError::required(path, "claim or expression is required"));
            }
        }
        (_, "") => {
            if source.prefix.is_none() {
                let why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing";
                errors.push(FieldError::required(&path.child("prefix"), why));
            }
        }
        ("", expression) => {
            if let Some(prefix) = &source.prefix {
                let why = "may not be specified when expression is set";
                errors.push(FieldError::invalid(&path.child("prefix"), prefix.as_str(), why));
            }
            return compile(expression, (Variable::Claims, false), &path.child("expression"), errors);
        }
        _ => errors.push(FieldError::invalid(path, "", BOTH_SET)),
    }
    None
}

fn check_user_rules(
    config: &JwtAuthenticator,
    path: &Path<'_>,
    mapper: &mut ClaimMapper,
    errors: &mut ErrorList,
) {
    let mut seen = BTreeSet::new();
    for (index, rule) in config.user_validation_rules.iter().enumerate() {
        let path = path.index(index);
        let (path, source) = (path.child("expression"), rule.expression.as_str());
        if source.is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !seen.insert(source) {
            errors.push(FieldError::duplicate(&path, source));
        } else if let Some(expression) = compile(source, (Variable::User, true), &path, errors) {
            mapper.user_rules.push(Condition { expression, message: rule.message.clone() });
        }
    }
}
