//! Size of the constant regular expressions in an expression, before they are compiled.

use setpoint_api::structural::pattern_states as states_of;

use crate::ast::{Ast, ExprId, ExprKind};
use crate::literal::Literal;

/// Functions whose last or second argument is a pattern.
const FUNCTIONS: [&str; 3] = ["matches", "find", "findAll"];
/// States of a pattern that is computed from constants; a larger pattern does not compile.
const COMPUTED_STATES: u64 = 40_000;

/// Estimates the states of all constant patterns of an expression. A program keeps about 32 bytes for each, and compiles
/// some ten million in a second.
#[must_use]
pub fn pattern_states(ast: &Ast) -> u64 {
    let mut states: u64 = 0;
    let mut pending = vec![ast.root().id];
    while let Some(id) = pending.pop() {
        let kind = &ast.expr(id).kind;
        if let ExprKind::Call { function, args, .. } = kind
            && FUNCTIONS.contains(&function.trim_start_matches('.'))
        {
            let own = args.iter().map(|arg| argument_states(ast, *arg));
            states = own.fold(states, u64::saturating_add);
        }
        kind.for_each_child(|child| pending.push(child));
    }
    states
}

/// States of an argument if it is a constant text.
fn argument_states(ast: &Ast, argument: ExprId) -> u64 {
    if let ExprKind::Literal(literal) = &ast.expr(argument).kind {
        return if let Literal::String(pattern) = literal { states_of(pattern) } else { 0 };
    }
    let mut pending = vec![argument];
    while let Some(id) = pending.pop() {
        let kind = &ast.expr(id).kind;
        // Patterns that depend on variables are compiled within the budget of an evaluation.
        if matches!(kind, ExprKind::Ident(_)) {
            return 0;
        }
        kind.for_each_child(|child| pending.push(child));
    }
    COMPUTED_STATES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn states_of_constant_patterns_are_counted() {
        for (source, states) in [
            ("self.matches('abc')", 4),
            ("matches(self, 'abc') && self.find('a{10}') == ''", 15),
            ("self.matches(other)", 0),
            ("self.matches('a{10' + '00}')", COMPUTED_STATES),
            ("self.matches('a' + other)", 0),
            ("self.startsWith('a{1000}')", 0),
        ] {
            assert_eq!(pattern_states(&parse(source).unwrap()), states, "{source}");
        }
    }
}
