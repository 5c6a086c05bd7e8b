//! AuthenticationConfiguration: issuers of tokens, mappings of their claims, and anonymous requests.

use crate::anonymous::AnonymousAccess;

/// Name of the only policy of matching audiences.
pub const MATCH_ANY: &str = "MatchAny";

/// Configuration of authentication.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuthenticationConfiguration {
    /// Authenticators of tokens, one per issuer.
    pub jwt: Vec<JwtAuthenticator>,
    /// Anonymous requests; `None` if a flag decides on them.
    pub anonymous: Option<AnonymousAccess>,
}

/// Authenticator of the tokens of one issuer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JwtAuthenticator {
    /// The issuer.
    pub issuer: Issuer,
    /// Rules about the claims.
    pub claim_validation_rules: Vec<ClaimRule>,
    /// Mappings of the claims to the user.
    pub claim_mappings: ClaimMappings,
    /// Rules about the user.
    pub user_validation_rules: Vec<UserRule>,
}

/// Issuer of tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Issuer {
    /// URL, which is also the claim `iss`.
    pub url: String,
    /// URL of the discovery document; empty for the standard one below [`Issuer::url`].
    pub discovery_url: String,
    /// CA certificates in PEM that verify the issuer; those of the system if empty.
    pub certificate_authority: String,
    /// Accepted audiences.
    pub audiences: Vec<String>,
    /// [`MATCH_ANY`], or empty for one audience.
    pub audience_match_policy: String,
    /// Network through which the issuer is reached; must be empty, because there are no egress selectors.
    pub egress_selector_type: String,
}

/// Rule about claims: a claim with its required value, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimRule {
    /// Name of a claim.
    pub claim: String,
    /// Required value of the claim.
    pub required_value: String,
    /// Expression that must be true.
    pub expression: String,
    /// Message if the expression is not true.
    pub message: String,
}

/// Mappings of claims to the attributes of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimMappings {
    /// User name.
    pub username: PrefixedSource,
    /// Groups.
    pub groups: PrefixedSource,
    /// UID.
    pub uid: ClaimSource,
    /// Extra fields.
    pub extra: Vec<ExtraMapping>,
}

/// Source of an attribute: a claim with a prefix, or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PrefixedSource {
    /// Name of the claim.
    pub claim: String,
    /// Prefix of the value; required with a claim.
    pub prefix: Option<String>,
    /// Expression.
    pub expression: String,
}

/// Source of an attribute: a claim or an expression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimSource {
    /// Name of the claim.
    pub claim: String,
    /// Expression.
    pub expression: String,
}

/// Mapping to an extra field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtraMapping {
    /// Key of the field.
    pub key: String,
    /// Expression of its values.
    pub value_expression: String,
}

/// Rule about a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UserRule {
    /// Expression that must be true.
    pub expression: String,
    /// Message if it is not.
    pub message: String,
}

/// Configuration of one issuer by the flags `--oidc-*`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OidcFlags {
    /// URL of the issuer.
    pub issuer_url: String,
    /// Accepted audience.
    pub client_id: String,
    /// CA certificates in PEM.
    pub certificate_authority: String,
    /// Claim with the user name.
    pub username_claim: String,
    /// Prefix of user names; empty for the default and `-` for none.
    pub username_prefix: String,
    /// Claim with groups; empty for none.
    pub groups_claim: String,
    /// Prefix of groups.
    pub groups_prefix: String,
    /// Required claims with their values.
    pub required_claims: Vec<(String, String)>,
}

impl OidcFlags {
    /// Returns the authenticator of the flags. User names of other claims than `email` have the URL of the issuer as
    /// their prefix unless another is set.
    #[must_use]
    pub fn authenticator(&self) -> JwtAuthenticator {
        let username_prefix = match self.username_prefix.as_str() {
            "" if self.username_claim != "email" => format!("{}#", self.issuer_url),
            "-" => String::new(),
            prefix => prefix.to_owned(),
        };
        let source = |claim: &str, prefix: String| PrefixedSource {
            claim: claim.to_owned(),
            prefix: Some(prefix),
            expression: String::new(),
        };
        let has_groups = !self.groups_claim.is_empty();
        let groups = has_groups.then(|| source(&self.groups_claim, self.groups_prefix.clone()));
        let rules = self.required_claims.iter().map(|(claim, value)| ClaimRule {
            claim: claim.clone(),
            required_value: value.clone(),
            ..ClaimRule::default()
        });
        JwtAuthenticator {
            issuer: Issuer {
                url: self.issuer_url.clone(),
                audiences: vec![self.client_id.clone()],
                certificate_authority: self.certificate_authority.clone(),
                ..Issuer::default()
            },
            claim_validation_rules: rules.collect(),
            claim_mappings: ClaimMappings {
                username: source(&self.username_claim, username_prefix),
                groups: groups.unwrap_or_default(),
                ..ClaimMappings::default()
            },
            user_validation_rules: Vec::new(),
        }
    }
}
