//! Strict decoding of an AuthenticationConfiguration, in YAML or JSON.

use setpoint_api::quote::Quoted;
use setpoint_api::{Map, Value, yaml};
use thiserror::Error;

use super::config::{
    AuthenticationConfiguration, ClaimMappings, ClaimRule, ClaimSource, ExtraMapping, Issuer,
    JwtAuthenticator, PrefixedSource, UserRule,
};
use crate::anonymous::AnonymousAccess;

const KIND: &str = "AuthenticationConfiguration";
const VERSIONS: [&str; 3] =
    ["apiserver.config.k8s.io/v1", "apiserver.config.k8s.io/v1beta1", "apiserver.config.k8s.io/v1alpha1"];
/// Unknown and duplicate fields in a message.
const STRICT_ERRORS_MAX: usize = 100;

/// Malformed configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigurationError {
    /// The file is empty.
    #[error("empty config data")]
    Empty,
    /// Not YAML.
    #[error("{0}")]
    Yaml(String),
    /// Another kind or version.
    #[error("no kind {} is registered for version {}", Quoted(.kind), Quoted(.version))]
    Kind {
        /// Kind of the file.
        kind: String,
        /// Version of the file.
        version: String,
    },
    /// A field has the wrong type.
    #[error("json: cannot unmarshal {value} into Go struct field {field} of type {expected}")]
    Type {
        /// Type of the value.
        value: &'static str,
        /// Path of the field.
        field: String,
        /// Expected type.
        expected: &'static str,
    },
    /// Unknown or duplicate fields.
    #[error("strict decoding error: {}", .0.join(", "))]
    Strict(Vec<String>),
}

/// Decodes a configuration.
///
/// # Errors
/// If it is malformed, of another kind, or has unknown or duplicate fields.
pub fn decode(text: &[u8]) -> Result<AuthenticationConfiguration, ConfigurationError> {
    if text.is_empty() {
        return Err(ConfigurationError::Empty);
    }
    let (document, duplicates) =
        yaml::parse_strict(text).map_err(|error| ConfigurationError::Yaml(error.to_string()))?;
    let (kind, version) = (document.str_at(&["kind"]), document.str_at(&["apiVersion"]));
    if kind != KIND || !VERSIONS.contains(&version) {
        return Err(ConfigurationError::Kind { kind: kind.to_owned(), version: version.to_owned() });
    }
    let mut reader = Reader { strict: Vec::new() };
    let configuration = reader.configuration(&document)?;
    let duplicates = duplicates.iter().map(|duplicate| joined(&duplicate.parent, &duplicate.key));
    let duplicates = duplicates.map(|path| format!("duplicate field {}", Quoted(&path)));
    reader.strict.extend(duplicates.take(STRICT_ERRORS_MAX));
    if reader.strict.is_empty() { Ok(configuration) } else { Err(ConfigurationError::Strict(reader.strict)) }
}

/// Reader of objects, which collects unknown fields.
struct Reader {
    strict: Vec<String>,
}

/// Object at a path.
struct Object<'a> {
    map: Option<&'a Map>,
    path: String,
    kind: &'static str,
}

type Decoded<T> = Result<T, ConfigurationError>;

impl Reader {
    fn object<'a>(
        &mut self,
        value: Option<&'a Value>,
        path: &str,
        kind: &'static str,
        fields: &[&str],
    ) -> Decoded<Object<'a>> {
        let map = match value {
            None | Some(Value::Null) => None,
            Some(Value::Map(map)) => Some(map),
            Some(other) => return Err(wrong_type(other, path, kind)),
        };
        for key in map.into_iter().flat_map(Map::keys).filter(|key| !fields.contains(key)) {
            if self.strict.len() < STRICT_ERRORS_MAX {
                self.strict.push(format!("unknown field {}", Quoted(&joined(path, key))));
            }
        }
        Ok(Object { map, path: path.to_owned(), kind })
    }

    fn configuration(&mut self, document: &Value) -> Decoded<AuthenticationConfiguration> {
        let fields = ["kind", "apiVersion", "jwt", "anonymous"];
        let object = self.object(Some(document), "", KIND, &fields)?;
        let anonymous = match object.get("anonymous") {
            None => None,
            value => Some(self.anonymous(value)?),
        };
        let jwt = object.list("jwt")?.map(|(value, path)| self.authenticator(value, &path));
        Ok(AuthenticationConfiguration { jwt: jwt.collect::<Decoded<_>>()?, anonymous })
    }

    fn anonymous(&mut self, value: Option<&Value>) -> Decoded<AnonymousAccess> {
        let object = self.object(value, "anonymous", "AnonymousAuthConfig", &["enabled", "conditions"])?;
        let is_enabled = match object.get("enabled") {
            None => false,
            Some(Value::Bool(enabled)) => *enabled,
            Some(other) => return Err(wrong_type(other, &object.field("enabled"), "bool")),
        };
        let paths = object.list("conditions")?.map(|(value, path)| {
            self.object(Some(value), &path, "AnonymousAuthCondition", &["path"])?.text("path")
        });
        Ok(AnonymousAccess { is_enabled, paths: paths.collect::<Decoded<_>>()? })
    }

    fn authenticator(&mut self, value: &Value, path: &str) -> Decoded<JwtAuthenticator> {
        let fields = ["issuer", "claimValidationRules", "claimMappings", "userValidationRules"];
        let object = self.object(Some(value), path, "JWTAuthenticator", &fields)?;
        let claim_rules = object.list("claimValidationRules")?.map(|(value, path)| {
            let fields = ["claim", "requiredValue", "expression", "message"];
            let rule = self.object(Some(value), &path, "ClaimValidationRule", &fields)?;
            Ok(ClaimRule {
                claim: rule.text("claim")?,
                required_value: rule.text("requiredValue")?,
                expression: rule.text("expression")?,
                message: rule.text("message")?,
            })
        });
        let claim_validation_rules = claim_rules.collect::<Decoded<_>>()?;
        let user_rules = object.list("userValidationRules")?.map(|(value, path)| {
            let rule = self.object(Some(value), &path, "UserValidationRule", &["expression", "message"])?;
            Ok(UserRule { expression: rule.text("expression")?, message: rule.text("message")? })
        });
        let user_validation_rules = user_rules.collect::<Decoded<_>>()?;
        Ok(JwtAuthenticator {
            issuer: self.issuer(object.get("issuer"), &object.field("issuer"))?,
            claim_validation_rules,
            claim_mappings: self.mappings(object.get("claimMappings"), &object.field("claimMappings"))?,
            user_validation_rules,
        })
    }

    fn issuer(&mut self, value: Option<&Value>, path: &str) -> Decoded<Issuer> {
        let fields = [
            "url",
            "discoveryURL",
            "certificateAuthority",
            "audiences",
            "audienceMatchPolicy",
            "egressSelectorType",
        ];
        let object = self.object(value, path, "Issuer", &fields)?;
        let audiences = object.list("audiences")?.map(|(value, path)| text_of(value, &path));
        Ok(Issuer {
            url: object.text("url")?,
            discovery_url: object.text("discoveryURL")?,
            certificate_authority: object.text("certificateAuthority")?,
            audiences: audiences.collect::<Decoded<_>>()?,
            audience_match_policy: object.text("audienceMatchPolicy")?,
            egress_selector_type: object.text("egressSelectorType")?,
        })
    }

    fn mappings(&mut self, value: Option<&Value>, path: &str) -> Decoded<ClaimMappings> {
        let object = self.object(value, path, "ClaimMappings", &["username", "groups", "uid", "extra"])?;
        let mut prefixed = |name: &str| {
            let fields = ["claim", "prefix", "expression"];
            let source =
                self.object(object.get(name), &object.field(name), "PrefixedClaimOrExpression", &fields)?;
            let prefix = source.get("prefix").map(|_| source.text("prefix")).transpose()?;
            Ok(PrefixedSource {
                claim: source.text("claim")?,
                prefix,
                expression: source.text("expression")?,
            })
        };
        let (username, groups) = (prefixed("username")?, prefixed("groups")?);
        let uid = self.object(
            object.get("uid"),
            &object.field("uid"),
            "ClaimOrExpression",
            &["claim", "expression"],
        )?;
        let extra = object.list("extra")?.map(|(value, path)| {
            let mapping = self.object(Some(value), &path, "ExtraMapping", &["key", "valueExpression"])?;
            Ok(ExtraMapping { key: mapping.text("key")?, value_expression: mapping.text("valueExpression")? })
        });
        Ok(ClaimMappings {
            username,
            groups,
            uid: ClaimSource { claim: uid.text("claim")?, expression: uid.text("expression")? },
            extra: extra.collect::<Decoded<_>>()?,
        })
    }
}

impl<'a> Object<'a> {
    /// A field; `None` if it is absent or null.
    fn get(&self, name: &str) -> Option<&'a Value> {
        self.map?.get(name).filter(|value| !value.is_null())
    }

    fn field(&self, name: &str) -> String {
        joined(&self.path, name)
    }

    fn text(&self, name: &str) -> Decoded<String> {
        let path = format!("{}.{}", self.kind, self.field(name));
        self.get(name).map_or(Ok(String::new()), |value| text_of(value, &path))
    }

    fn list(&self, name: &str) -> Decoded<impl Iterator<Item = (&'a Value, String)> + use<'a>> {
        let path = self.field(name);
        let list: &[Value] = match self.get(name) {
            None => &[],
            Some(Value::List(list)) => list,
            Some(other) => return Err(wrong_type(other, &path, "[]")),
        };
        Ok(list.iter().enumerate().map(move |(index, value)| (value, format!("{path}[{index}]"))))
    }
}

fn joined(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

fn text_of(value: &Value, path: &str) -> Decoded<String> {
    value.as_str().map(str::to_owned).ok_or_else(|| wrong_type(value, path, "string"))
}

fn wrong_type(value: &Value, path: &str, expected: &'static str) -> ConfigurationError {
    ConfigurationError::Type { value: go_type(value), field: path.to_owned(), expected }
}

/// Type of a JSON value as Go's decoder names it.
pub(super) fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Map(_) | Value::Raw(_) => "object",
    }
}
