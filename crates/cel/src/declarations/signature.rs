//! Parser of signatures: `(int, int) -> int`, `map(A, B).() -> int`.

use super::OverloadDecl;
use crate::types::{Type, TypeParam};

/// Parses the signature of an overload; `None` if it is malformed.
pub(super) fn parse(id: &'static str, signature: &'static str) -> Option<OverloadDecl> {
    let (parameters, result) = signature.split_once(" -> ")?;
    let mut text = parameters;
    let mut types = Vec::new();
    let is_member = !text.starts_with('(');
    if is_member {
        types.push(parse_type(&mut text)?);
        text = text.strip_prefix('.')?;
    }
    text = text.strip_prefix('(')?;
    while !text.starts_with(')') {
        types.push(parse_type(&mut text)?);
        text = text.strip_prefix(", ").unwrap_or(text);
    }
    let mut rest = result;
    let result = parse_type(&mut rest)?;
    if text != ")" || !rest.is_empty() {
        return None;
    }
    let mut type_params = Vec::new();
    types.iter().chain([&result]).for_each(|ty| collect_params(ty, &mut type_params));
    let (parameters, type_params) = (types.into(), type_params.into());
    Some(OverloadDecl { id, is_member, parameters, result, type_params })
}

fn collect_params(ty: &Type, params: &mut Vec<TypeParam>) {
    if let Type::Param(param) = ty
        && !params.contains(param)
    {
        params.push(*param);
    }
    ty.parameters().for_each(|parameter| collect_params(parameter, params));
}

/// Consumes a type.
fn parse_type(text: &mut &'static str) -> Option<Type> {
    // The dot before a parenthesis ends the receiver; other dots are part of names.
    let end = text.find(['(', ')', ',']).unwrap_or(text.len());
    let end = if text[..end].ends_with('.') { end - 1 } else { end };
    let (name, rest) = text.split_at(end);
    *text = rest;
    let mut parameters = Vec::new();
    if let Some(inner) = text.strip_prefix('(') {
        *text = inner;
        parameters.push(parse_type(text)?);
        if let Some(second) = text.strip_prefix(", ") {
            *text = second;
            parameters.push(parse_type(text)?);
        }
        *text = text.strip_prefix(')')?;
    }
    named_type(name, parameters)
}

fn named_type(name: &'static str, mut parameters: Vec<Type>) -> Option<Type> {
    let last = parameters.pop();
    Some(match (name, last) {
        ("list", Some(element)) => Type::list(element),
        ("map", Some(value)) => Type::map(parameters.pop()?, value),
        ("optional", Some(inner)) => Type::optional(inner),
        ("type", Some(inner)) => Type::type_of(inner),
        ("dyn", None) => Type::Dyn,
        ("bool", None) => Type::Bool,
        ("int", None) => Type::Int,
        ("uint", None) => Type::Uint,
        ("double", None) => Type::Double,
        ("string", None) => Type::String,
        ("bytes", None) => Type::Bytes,
        ("timestamp", None) => Type::Timestamp,
        ("duration", None) => Type::Duration,
        (opaque, None) if opaque.starts_with("net.") => Type::Opaque(opaque),
        (object, None) if object.starts_with("kubernetes.") => Type::named(object),
        (param, None) if param.len() == 1 => Type::Param(TypeParam::Declared(param.chars().next()?)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_signatures_are_rejected() {
        for signature in
            ["int", "(int)", "(int -> int", "(strin) -> int", "list(A)() -> int", "(list) -> int"]
        {
            assert!(parse("id", signature).is_none(), "{signature}");
        }
    }
}
