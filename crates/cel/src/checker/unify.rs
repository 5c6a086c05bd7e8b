//! Assignability of types, which binds type parameters as in cel-go.
//!
//! A binding may refer to other parameters, so that types can be exponentially large, and chains of them deep. Both
//! are bounded: beyond [`TYPE_STEPS_MAX`] and [`TYPE_DEPTH_MAX`], nothing is assignable and [`Unifier::is_exhausted`]
//! holds.

use std::collections::BTreeMap;

use crate::types::{Type, TypeParam};

/// Largest number of types that the check of an expression visits.
pub const TYPE_STEPS_MAX: u32 = 5_000_000;

/// Deepest nesting of types within each other, bindings included.
pub const TYPE_DEPTH_MAX: u32 = 300;

/// Largest number of types that a type consists of.
pub const TYPE_NODES_MAX: u32 = 2000;

/// Bindings of type parameters.
#[derive(Debug, Default)]
pub(crate) struct Unifier {
    bindings: BTreeMap<TypeParam, Type>,
    /// Earlier bindings, to be restored if the types are not assignable.
    undo: Vec<(TypeParam, Option<Type>)>,
    free_count: u32,
    steps: u32,
    /// Number of steps at which the substitution under way fails.
    steps_end: u32,
    depth: u32,
    is_exhausted: bool,
}

impl Unifier {
    /// Returns a variable that is not bound.
    pub(crate) fn free_variable(&mut self) -> Type {
        let number = self.free_count;
        self.free_count += 1;
        Type::Param(TypeParam::Free(number))
    }

    /// `true` if a bound was exceeded, so that the result of the check is meaningless.
    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// `true` if each type on the left is assignable to its type on the right; only then, the bindings are kept.
    pub(crate) fn is_assignable(&mut self, left: &[Type], right: &[Type]) -> bool {
        let is_assignable = left.len() == right.len()
            && left.iter().zip(right).all(|(first, second)| self.assign(first, second))
            && !self.is_exhausted;
        if is_assignable {
            self.undo.clear();
        } else {
            while let Some((param, binding)) = self.undo.pop() {
                match binding {
                    Some(binding) => self.bindings.insert(param, binding),
                    None => self.bindings.remove(&param),
                };
            }
        }
        is_assignable
    }

    /// Replaces bound parameters by their types, and unbound ones by `dyn` if `to_dyn`.
    pub(crate) fn substitute(&mut self, ty: &Type, to_dyn: bool) -> Type {
        self.steps_end = self.steps.saturating_add(TYPE_NODES_MAX);
        self.replace(ty, to_dyn).unwrap_or(Type::Error)
    }

    /// Returns the type, or an error type if it consists of more than [`TYPE_NODES_MAX`] types.
    pub(crate) fn bounded(&mut self, ty: Type) -> Type {
        let mut nodes = 0;
        let mut pending = vec![&ty];
        while let Some(next) = pending.pop() {
            nodes += 1;
            if nodes > TYPE_NODES_MAX {
                self.is_exhausted = true;
                return Type::Error;
            }
            pending.extend(next.parameters());
        }
        self.steps += nodes;
        ty
    }

    /// Replaces parameters as [`Unifier::substitute`]; `None` beyond the bounds.
    fn replace(&mut self, ty: &Type, to_dyn: bool) -> Option<Type> {
        if self.steps > self.steps_end || !self.enter() {
            self.is_exhausted = true;
            return None;
        }
        let ty = self.resolve(ty);
        let replaced = match &ty {
            Type::Param(_) if to_dyn => Some(Type::Dyn),
            Type::List(element) => self.replace(element, to_dyn).map(Type::list),
            Type::Optional(inner) => self.replace(inner, to_dyn).map(Type::optional),
            Type::Type(Some(inner)) => self.replace(inner, to_dyn).map(Type::type_of),
            Type::Map(key, value) => {
                let key = self.replace(key, to_dyn);
                key.zip(self.replace(value, to_dyn)).map(|(key, value)| Type::map(key, value))
            }
            _ => Some(ty),
        };
        self.depth -= 1;
        replaced
    }

    /// Follows bindings from parameter to parameter.
    fn resolve(&mut self, ty: &Type) -> Type {
        let mut ty = ty;
        let mut steps = self.steps;
        while let Type::Param(param) = ty
            && let Some(binding) = self.bindings.get(param)
            && steps < TYPE_STEPS_MAX
        {
            steps += 1;
            ty = binding;
        }
        self.steps = steps;
        ty.clone()
    }

    /// Counts a visit of a type; `false` beyond the bounds. The caller decrements the depth.
    fn enter(&mut self) -> bool {
        self.steps += 1;
        if self.is_exhausted || self.steps > TYPE_STEPS_MAX || self.depth >= TYPE_DEPTH_MAX {
            self.is_exhausted = true;
            return false;
        }
        self.depth += 1;
        true
    }

    fn bind(&mut self, param: TypeParam, ty: Type) {
        let earlier = self.bindings.insert(param, ty);
        self.undo.push((param, earlier));
    }

    fn assign(&mut self, left: &Type, right: &Type) -> bool {
        if !self.enter() {
            return false;
        }
        let is_assignable = self.assign_entered(left, right);
        self.depth -= 1;
        is_assignable
    }

    fn assign_entered(&mut self, left: &Type, right: &Type) -> bool {
        if let Type::Param(param) = right {
            let (is_valid, is_bound) = self.assign_param(left, *param);
            if is_valid || is_bound {
                return is_valid;
            }
        }
        if let Type::Param(param) = left {
            return self.assign_param(right, *param).0;
        }
        match (left, right) {
            (left, right) if left.is_dyn_or_error() || right.is_dyn_or_error() => true,
            (Type::Null, other) | (other, Type::Null) => is_nullable(other),
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(left), Type::List(right)) | (Type::Optional(left), Type::Optional(right)) => {
                self.assign(left, right)
            }
            (Type::Map(left_key, left_value), Type::Map(right_key, right_value)) => {
                self.assign(left_key, right_key) && self.assign(left_value, right_value)
            }
            _ => left == right,
        }
    }

    /// Binds a parameter to a type, or compares the type with the binding. Returns whether the type is valid for the
    /// parameter, and whether the parameter was bound.
    fn assign_param(&mut self, ty: &Type, param: TypeParam) -> (bool, bool) {
        if *ty == Type::Param(param) {
            return (true, true);
        }
        if let Some(binding) = self.bindings.get(&param).cloned() {
            if *ty == binding {
                return (true, true);
            }
            if !self.assign(ty, &binding) {
                return (false, true);
            }
            let general = if is_equal_or_less_specific(ty, &binding) { ty.clone() } else { binding };
            if !self.occurs(param, &general) {
                self.bind(param, general);
            }
            return (true, true);
        }
        if self.occurs(param, ty) {
            return (false, false);
        }
        self.bind(param, ty.clone());
        (true, false)
    }

    /// `true` if a parameter occurs within a type, so that a binding would have no end.
    fn occurs(&mut self, param: TypeParam, ty: &Type) -> bool {
        if !self.enter() {
            return true;
        }
        let mut ty = ty.clone();
        let mut found = false;
        while let Type::Param(other) = ty
            && !found
        {
            found = other == param;
            match self.bindings.get(&other) {
                Some(binding) if self.steps < TYPE_STEPS_MAX => ty = binding.clone(),
                _ => break,
            }
            self.steps += 1;
        }
        found = found || ty.parameters().any(|parameter| self.occurs(param, parameter));
        self.depth -= 1;
        found
    }
}

/// `true` for the types whose values cel-go compares with `null`.
fn is_nullable(ty: &Type) -> bool {
    let is_opaque = matches!(ty, Type::Opaque(_) | Type::Optional(_) | Type::Object(_));
    is_opaque || matches!(ty, Type::Null | Type::Duration | Type::Timestamp)
}

/// Returns the more general of two assignable types.
pub(crate) fn most_general(first: Type, second: Type) -> Type {
    if is_equal_or_less_specific(&first, &second) { first } else { second }
}

/// `true` if the first type equals the second, or has `dyn` or a parameter where the second has another type.
fn is_equal_or_less_specific(first: &Type, second: &Type) -> bool {
    match (first, second) {
        (Type::Dyn | Type::Any | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Any | Type::Param(_)) => false,
        (Type::List(first), Type::List(second)) | (Type::Optional(first), Type::Optional(second)) => {
            is_equal_or_less_specific(first, second)
        }
        (Type::Map(first_key, first_value), Type::Map(second_key, second_value)) => {
            is_equal_or_less_specific(first_key, second_key)
                && is_equal_or_less_specific(first_value, second_value)
        }
        (Type::Type(_), Type::Type(_)) => true,
        _ => first == second,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_assignment_leaves_no_binding() {
        let mut unifier = Unifier::default();
        let free = unifier.free_variable();
        assert!(!unifier.is_assignable(&[Type::Int, Type::Int], &[free.clone(), Type::String]));
        assert_eq!(unifier.substitute(&free, false), free);
        assert!(unifier.is_assignable(&[Type::Int], std::slice::from_ref(&free)));
        assert_eq!(unifier.substitute(&Type::list(free.clone()), false), Type::list(Type::Int));
        assert!(!unifier.is_assignable(&[Type::String], &[free]));
    }

    #[test]
    fn infinite_types_are_rejected() {
        let mut unifier = Unifier::default();
        let free = unifier.free_variable();
        assert!(!unifier.is_assignable(&[Type::list(free.clone())], &[free]));
    }

    #[test]
    fn exponential_types_exhaust_the_unifier() {
        let mut unifier = Unifier::default();
        let mut ty = unifier.free_variable();
        for _ in 0..100 {
            let free = unifier.free_variable();
            assert!(
                unifier.is_assignable(&[Type::map(ty.clone(), ty.clone())], std::slice::from_ref(&free))
                    || unifier.is_exhausted()
            );
            ty = free;
        }
        unifier.substitute(&ty, true);
        assert!(unifier.is_exhausted());
    }
}
