//! Mapping of the claims of a token to a user.

use std::collections::BTreeMap;

use setpoint_api::quote::Quoted;
use setpoint_api::{Identity, Value as Json};
use setpoint_cel::Value;

use super::OidcError;
use super::config::{JwtAuthenticator, PrefixedSource};
use super::decode::go_type;
use super::expressions::{Expression, visible_claims};
use crate::user::{CREDENTIAL_ID, user_info};

const STRING_OR_LIST: &str = "expression must return a string or a list of strings";

/// Condition with its message.
#[derive(Debug)]
pub(super) struct Condition {
    pub expression: Expression,
    pub message: String,
}

/// Compiled expressions of an authenticator.
#[derive(Debug, Default)]
pub(super) struct ClaimMapper {
    pub username: Option<Expression>,
    pub groups: Option<Expression>,
    pub uid: Option<Expression>,
    /// Expressions by the keys of extra fields.
    pub extra: Vec<(String, Expression)>,
    pub claim_rules: Vec<Condition>,
    pub user_rules: Vec<Condition>,
}

impl ClaimMapper {
    /// Maps claims to a user, and checks the rules.
    pub fn identity(&self, config: &JwtAuthenticator, claims: &Json) -> Result<Identity, OidcError> {
        if let Some(source) = distributed_source(&config.claim_mappings.groups, claims) {
            let why = format!(
                "could not expand distributed claims: claim {} is at the endpoint {}, and this server does not fetch \
                 distributed claims",
                Quoted(&config.claim_mappings.groups.claim),
                Quoted(source)
            );
            return Err(OidcError::new(why));
        }
        let visible = if self.has_claim_expressions() { visible_claims(claims) } else { Default::default() };
        let mut identity = Identity::new(self.username(config, claims, &visible)?, Vec::new());
        identity.groups = self.groups(config, claims, &visible)?;
        identity.uid = self.uid(config, claims, &visible)?;
        identity.extra = self.extra(claims, &visible)?;
        check_required_claims(config, claims)?;
        check_conditions(&self.claim_rules, &visible)
            .map_err(|why| OidcError::new(format!("error evaluating claim validation expression: {why}")))?;
        if !self.user_rules.is_empty() {
            let user = visible_user(&identity);
            check_conditions(&self.user_rules, &user).map_err(|why| {
                OidcError::new(format!("error evaluating user info validation rule: {why}"))
            })?;
        }
        Ok(identity)
    }

    fn has_claim_expressions(&self) -> bool {
        let single = [&self.username, &self.groups, &self.uid];
        single.iter().any(|one| one.is_some()) || !self.extra.is_empty() || !self.claim_rules.is_empty()
    }

    fn username(
        &self,
        config: &JwtAuthenticator,
        claims: &Json,
        visible: &Json,
    ) -> Result<String, OidcError> {
        if let Some(expression) = &self.username {
            let failed =
                |why: String| OidcError::new(format!("error evaluating username claim expression: {why}"));
            let value = expression.evaluate(visible).map_err(failed)?;
            let name = value.as_str().ok_or("username claim expression must return a string".to_owned());
            let name = name.map_err(failed)?;
            if name.is_empty() {
                return Err(OidcError::new("empty username via CEL expression is not allowed"));
            }
            return Ok(name.to_owned());
        }
        let source = &config.claim_mappings.username;
        let name = string_claim(claims, &source.claim).map_err(|why| {
            OidcError::new(format!("parse username claims {}: {why}", Quoted(&source.claim)))
        })?;
        if source.claim == "email" {
            match claims.get("email_verified") {
                None | Some(Json::Bool(true)) => {}
                Some(Json::Bool(false) | Json::Null) => return Err(OidcError::new("email not verified")),
                Some(other) => {
                    let why = format!("json: cannot unmarshal {} into Go value of type bool", go_type(other));
                    return Err(OidcError::new(format!("parse 'email_verified' claim: {why}")));
                }
            }
        }
        Ok(format!("{}{name}", source.prefix.as_deref().unwrap_or_default()))
    }

    fn groups(
        &self,
        config: &JwtAuthenticator,
        claims: &Json,
        visible: &Json,
    ) -> Result<Vec<String>, OidcError> {
        let source = &config.claim_mappings.groups;
        if !source.claim.is_empty()
            && let Some(value) = claims.get(&source.claim)
        {
            let failed = |value: &Json| {
                let why = format!("json: cannot unmarshal {} into Go value of type string", go_type(value));
                OidcError::new(format!("parse groups claim {}: {why}", Quoted(&source.claim)))
            };
            let groups: Vec<&str> = match value {
                Json::Null => Vec::new(),
                Json::Str(one) => vec![one.as_str()],
                Json::List(list) => {
                    // Null is an empty string in Go.
                    let texts = list.iter().map(|item| if item.is_null() { Some("") } else { item.as_str() });
                    texts.collect::<Option<_>>().ok_or_else(|| failed(value))?
                }
                other => return Err(failed(other)),
            };
            let prefix = source.prefix.as_deref().unwrap_or_default();
            return Ok(groups.iter().map(|group| format!("{prefix}{group}")).collect());
        }
        let Some(expression) = &self.groups else { return Ok(Vec::new()) };
        let value = expression.evaluate(visible).and_then(|value| string_list(&value));
        value.map_err(|why| OidcError::new(format!("error evaluating group claim expression: {why}")))
    }

    fn uid(&self, config: &JwtAuthenticator, claims: &Json, visible: &Json) -> Result<String, OidcError> {
        let claim = &config.claim_mappings.uid.claim;
        if !claim.is_empty() {
            let uid = string_claim(claims, claim).map(str::to_owned);
            return uid.map_err(|why| OidcError::new(format!("parse uid claim {}: {why}", Quoted(claim))));
        }
        let Some(expression) = &self.uid else { return Ok(String::new()) };
        let failed = |why: String| OidcError::new(format!("error evaluating uid claim expression: {why}"));
        let value = expression.evaluate(visible).map_err(failed)?;
        let uid = value.as_str().ok_or("uid claim expression must return a string".to_owned());
        uid.map(str::to_owned).map_err(failed)
    }

    fn extra(&self, claims: &Json, visible: &Json) -> Result<BTreeMap<String, Vec<String>>, OidcError> {
        let mut extra = BTreeMap::new();
        let id = claims.str_at(&["jti"]);
        if !id.is_empty() {
            extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        for (key, expression) in &self.extra {
            let value = expression.evaluate(visible).map_err(OidcError)?;
            let values = string_list(&value).map_err(|why| {
                OidcError::new(format!(
                    "error evaluating extra claim expression: {}: {why}",
                    expression.source
                ))
            })?;
            if !values.is_empty() {
                extra.insert(key.clone(), values);
            }
        }
        Ok(extra)
    }
}

/// A claim that must be a string. Null is an empty string, as in Go.
fn string_claim<'c>(claims: &'c Json, name: &str) -> Result<&'c str, String> {
    match claims.get(name) {
        None => Err("claim not present".to_owned()),
        Some(Json::Null) => Ok(""),
        Some(Json::Str(text)) => Ok(text),
        Some(other) => Err(format!("json: cannot unmarshal {} into Go value of type string", go_type(other))),
    }
}

/// String, list of strings or null as a list. Empty strings are left out.
fn string_list(value: &Value<'_>) -> Result<Vec<String>, String> {
    let wrong = || STRING_OR_LIST.to_owned();
    let texts = match value {
        Value::Null => Vec::new(),
        Value::String(text) => vec![text.to_string()],
        Value::List(list) => {
            let item = |item: Result<Value<'_>, _>| {
                let item = item.map_err(|error: setpoint_cel::EvalError| error.to_string())?;
                item.as_str().map(str::to_owned).ok_or_else(wrong)
            };
            list.iter().map(item).collect::<Result<_, _>>()?
        }
        _ => return Err(wrong()),
    };
    Ok(texts.into_iter().filter(|text| !text.is_empty()).collect())
}

fn check_required_claims(config: &JwtAuthenticator, claims: &Json) -> Result<(), OidcError> {
    for rule in config.claim_validation_rules.iter().filter(|rule| !rule.claim.is_empty()) {
        let claim = &rule.claim;
        if claims.get(claim).is_none() {
            return Err(OidcError::new(format!("required claim {claim} not present in ID token")));
        }
        let found = string_claim(claims, claim)
            .map_err(|why| OidcError::new(format!("parse claim {claim}: {why}")))?;
        if found != rule.required_value {
            let wanted = &rule.required_value;
            let why = format!("required claim {claim} value does not match. Got = {found}, want = {wanted}");
            return Err(OidcError::new(why));
        }
    }
    Ok(())
}

fn check_conditions(conditions: &[Condition], value: &Json) -> Result<(), String> {
    // Upstream evaluates all expressions before it looks at the results.
    let results = conditions.iter().map(|one| Ok((one, one.expression.evaluate(value)?)));
    for (condition, result) in results.collect::<Result<Vec<_>, String>>()? {
        match result.as_bool() {
            Some(true) => {}
            Some(false) => {
                let Condition { expression, message } = condition;
                return Err(format!("validation expression '{}' failed: {message}", expression.source));
            }
            None => return Err("validation expression must return a boolean".to_owned()),
        }
    }
    Ok(())
}

/// User as expressions see it: all fields are set.
fn visible_user(identity: &Identity) -> Json {
    let mut user = user_info(identity);
    let map = user.make_map();
    for field in ["username", "uid"] {
        map.ensure(field, || "".into());
    }
    map.ensure("groups", || Json::List(Vec::new()));
    map.ensure("extra", Json::map);
    user
}

/// Endpoint of the groups claim, if the token only refers to it.
fn distributed_source<'c>(groups: &PrefixedSource, claims: &'c Json) -> Option<&'c str> {
    if groups.claim.is_empty() || claims.get(&groups.claim).is_some() {
        return None;
    }
    let source = claims.get("_claim_names")?.get(&groups.claim)?.as_str()?;
    let endpoint = claims.get("_claim_sources")?.get(source)?.get("endpoint")?.as_str()?;
    (!endpoint.is_empty()).then_some(endpoint)
}
