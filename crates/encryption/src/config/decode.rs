//! Strict decoding: fields have the expected types, and there are no others.

use setpoint_api::field_error::Path;
use setpoint_api::quote::Quoted;
use setpoint_api::{Value, json, yaml};

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// Characters of a document in an error.
const SHOWN_CHARS_MAX: usize = 64;

/// A rule as the file has it.
pub(super) struct DecodedRule<'a> {
    pub resources: Vec<&'a str>,
    pub providers: Vec<DecodedProvider<'a>>,
}

/// A provider as the file has it. More or less than one part is invalid.
#[derive(Default)]
pub(super) struct DecodedProvider<'a> {
    pub aesgcm: Option<Vec<DecodedKey<'a>>>,
    pub aescbc: Option<Vec<DecodedKey<'a>>>,
    pub secretbox: Option<Vec<DecodedKey<'a>>>,
    pub identity: bool,
    pub kms: Option<DecodedKms<'a>>,
}

pub(super) struct DecodedKey<'a> {
    pub name: &'a str,
    pub secret: &'a str,
}

pub(super) struct DecodedKms<'a> {
    pub api_version: &'a str,
    pub name: &'a str,
    pub cache_size: Option<i64>,
    pub endpoint: &'a str,
    pub timeout: Option<&'a str>,
}

/// Parses a document and checks its kind.
pub(super) fn parse(bytes: &[u8]) -> Result<Value, String> {
    let (document, duplicates) = yaml::parse_strict(bytes).map_err(|error| error.to_string())?;
    let (version, kind) = (document.str_at(&["apiVersion"]), document.str_at(&["kind"]));
    if kind.is_empty() {
        return Err(format!("Object 'Kind' is missing in '{}'", shown(&document)));
    }
    if version.is_empty() {
        return Err(format!("Object 'apiVersion' is missing in '{}'", shown(&document)));
    }
    if kind != KIND || version != API_VERSION {
        let (kind, version) = (Quoted(kind), Quoted(version));
        return Err(format!("no kind {kind} is registered for version {version}"));
    }
    if !duplicates.is_empty() {
        let lines = yaml::repeated_keys(bytes).join("\n  ");
        return Err(format!("strict decoding error: yaml: unmarshal errors:\n  {lines}"));
    }
    Ok(document)
}

/// The names of a document's fields, but none of its values, which may be keys.
fn shown(document: &Value) -> String {
    let Value::Map(map) = document else { return document.type_name().to_owned() };
    let names = Value::List(map.iter().map(|(name, _)| Value::from(name)).collect());
    json::to_text(&names).chars().take(SHOWN_CHARS_MAX).collect()
}

/// Decodes the rules of a document.
pub(super) fn decode(document: &Value) -> Result<Vec<DecodedRule<'_>>, String> {
    let mut unknown = Vec::new();
    let root = Object::new(document, KIND, Path::NONE, &["apiVersion", "kind", "resources"], &mut unknown)?;
    let list = Path::root("resources");
    let rules = root.list("resources")?.iter().enumerate();
    let rules = rules
        .map(|(index, rule)| decode_rule(rule, &list.index(index), &mut unknown))
        .collect::<Result<Vec<_>, String>>()?;
    if unknown.is_empty() {
        return Ok(rules);
    }
    let fields: Vec<String> = unknown.iter().map(|name| format!("unknown field {}", Quoted(name))).collect();
    Err(format!("strict decoding error: {}", fields.join(", ")))
}

fn decode_rule<'a>(
    value: &'a Value,
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<DecodedRule<'a>, String> {
    let rule = Object::new(value, "ResourceConfiguration", *path, &["resources", "providers"], unknown)?;
    let resources = rule.list("resources")?.iter().map(|resource| match resource {
        Value::Str(text) => Ok(&**text),
        other => Err(mismatch(other, "ResourceConfiguration", &path.child("resources"), "string")),
    });
    let resources = resources.collect::<Result<_, _>>()?;
    let list = path.child("providers");
    let providers = rule.list("providers")?.iter().enumerate();
    let providers = providers.map(|(index, provider)| decode_provider(provider, &list.index(index), unknown));
    Ok(DecodedRule { resources, providers: providers.collect::<Result<_, _>>()? })
}

fn decode_provider<'a>(
    value: &'a Value,
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<DecodedProvider<'a>, String> {
    let known = ["aesgcm", "aescbc", "secretbox", "identity", "kms"];
    let provider = Object::new(value, "ProviderConfiguration", *path, &known, unknown)?;
    let mut keys = |name: &'static str, type_name: &'static str| {
        provider
            .field(name)
            .map(|value| decode_keys(value, type_name, &path.child(name), unknown))
            .transpose()
    };
    let (aesgcm, aescbc) = (keys("aesgcm", "AESConfiguration")?, keys("aescbc", "AESConfiguration")?);
    let secretbox = keys("secretbox", "SecretboxConfiguration")?;
    let identity = provider.field("identity");
    if let Some(value) = identity {
        Object::new(value, "IdentityConfiguration", path.child("identity"), &[], unknown)?;
    }
    let kms =
        provider.field("kms").map(|value| decode_kms(value, &path.child("kms"), unknown)).transpose()?;
    Ok(DecodedProvider { aesgcm, aescbc, secretbox, identity: identity.is_some(), kms })
}

fn decode_keys<'a>(
    value: &'a Value,
    type_name: &'static str,
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<Vec<DecodedKey<'a>>, String> {
    let keys = Object::new(value, type_name, *path, &["keys"], unknown)?;
    let list = path.child("keys");
    let keys = keys.list("keys")?.iter().enumerate();
    let keys = keys.map(|(index, key)| {
        let key = Object::new(key, "Key", list.index(index), &["name", "secret"], unknown)?;
        Ok(DecodedKey { name: key.text("name")?, secret: key.text("secret")? })
    });
    keys.collect()
}

fn decode_kms<'a>(
    value: &'a Value,
    path: &Path<'_>,
    unknown: &mut Vec<String>,
) -> Result<DecodedKms<'a>, String> {
    let known = ["apiVersion", "name", "cachesize", "endpoint", "timeout"];
    let kms = Object::new(value, "KMSConfiguration", *path, &known, unknown)?;
    let cache_size = match kms.field("cachesize") {
        None => None,
        Some(Value::Int(size)) => Some(*size),
        Some(other) => return Err(mismatch(other, "KMSConfiguration", &path.child("cachesize"), "int32")),
    };
    let timeout = kms.field("timeout").map(|_| kms.text("timeout")).transpose()?;
    Ok(DecodedKms {
        api_version: kms.text("apiVersion")?,
        name: kms.text("name")?,
        cache_size,
        endpoint: kms.text("endpoint")?,
        timeout,
    })
}

/// An object, with the name of its Go type for errors.
struct Object<'v, 'p> {
    value: &'v Value,
    type_name: &'static str,
    path: Path<'p>,
}

impl<'v, 'p> Object<'v, 'p> {
    fn new(
        value: &'v Value,
        type_name: &'static str,
        path: Path<'p>,
        known: &[&str],
        unknown: &mut Vec<String>,
    ) -> Result<Object<'v, 'p>, String> {
        let map = match value {
            Value::Null => None,
            Value::Map(map) => Some(map),
            other => return Err(mismatch(other, type_name, &path, type_name)),
        };
        let names = map.into_iter().flat_map(|map| map.iter()).map(|(name, _)| name);
        unknown.extend(names.filter(|name| !known.contains(name)).map(|name| path.child(name).to_string()));
        Ok(Object { value, type_name, path })
    }

    fn field(&self, name: &str) -> Option<&'v Value> {
        self.value.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<&'v str, String> {
        match self.field(name) {
            None => Ok(""),
            Some(Value::Str(text)) => Ok(text),
            Some(other) => Err(mismatch(other, self.type_name, &self.path.child(name), "string")),
        }
    }

    fn list(&self, name: &str) -> Result<&'v [Value], String> {
        match self.field(name) {
            None => Ok(&[]),
            Some(Value::List(items)) => Ok(items),
            Some(other) => Err(mismatch(other, self.type_name, &self.path.child(name), "slice")),
        }
    }
}

/// Error of Go's JSON decoder for a value of the wrong type. Its paths have no indexes.
fn mismatch(value: &Value, type_name: &str, path: &Path<'_>, expected: &str) -> String {
    let path = path.to_string();
    let parts = path.split('[').map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    let plain: String = parts.collect();
    let found = value.type_name();
    format!("json: cannot unmarshal {found} into Go struct field {type_name}.{plain} of type {expected}")
}
