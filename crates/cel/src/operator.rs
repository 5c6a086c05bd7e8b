//! Operators and their function names.

/// Built-in operation with syntax of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `a ? b : c`.
    Conditional,
    /// `a || b`.
    Or,
    /// `a && b`.
    And,
    /// `a == b`.
    Equals,
    /// `a != b`.
    NotEquals,
    /// `a < b`.
    Less,
    /// `a <= b`.
    LessEquals,
    /// `a > b`.
    Greater,
    /// `a >= b`.
    GreaterEquals,
    /// `a in b`.
    In,
    /// `a + b`.
    Add,
    /// `a - b`.
    Subtract,
    /// `a * b`.
    Multiply,
    /// `a / b`.
    Divide,
    /// `a % b`.
    Modulo,
    /// `!a`.
    Not,
    /// `-a`.
    Negate,
    /// `a[b]`.
    Index,
    /// `a[?b]`.
    OptionalIndex,
    /// `a.?b`; the second operand is the field name as a string literal.
    OptionalSelect,
    /// `false` if and only if the operand is `false`; errors are `true`. Only macros use it.
    NotStrictlyFalse,
}

/// Binding strength of an expression; an operand weaker than its place needs parentheses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Conditional,
    Or,
    And,
    Relation,
    Sum,
    Product,
    Unary,
    Member,
}

impl Precedence {
    /// Returns the next stronger precedence.
    pub(crate) fn next(self) -> Self {
        match self {
            Self::Conditional => Self::Or,
            Self::Or => Self::And,
            Self::And => Self::Relation,
            Self::Relation => Self::Sum,
            Self::Sum => Self::Product,
            Self::Product => Self::Unary,
            Self::Unary | Self::Member => Self::Member,
        }
    }
}

impl Operator {
    /// Returns the function name in declarations and error messages, as in cel-go.
    #[must_use]
    pub fn function(self) -> &'static str {
        match self {
            Self::Conditional => "_?_:_",
            Self::Or => "_||_",
            Self::And => "_&&_",
            Self::Equals => "_==_",
            Self::NotEquals => "_!=_",
            Self::Less => "_<_",
            Self::LessEquals => "_<=_",
            Self::Greater => "_>_",
            Self::GreaterEquals => "_>=_",
            Self::In => "@in",
            Self::Add => "_+_",
            Self::Subtract => "_-_",
            Self::Multiply => "_*_",
            Self::Divide => "_/_",
            Self::Modulo => "_%_",
            Self::Not => "!_",
            Self::Negate => "-_",
            Self::Index => "_[_]",
            Self::OptionalIndex => "_[?_]",
            Self::OptionalSelect => "_?._",
            Self::NotStrictlyFalse => "@not_strictly_false",
        }
    }

    /// Returns the symbol in the source; for operators with several parts, the first.
    #[must_use]
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Conditional => "?",
            Self::Or => "||",
            Self::And => "&&",
            Self::Equals => "==",
            Self::NotEquals => "!=",
            Self::Less => "<",
            Self::LessEquals => "<=",
            Self::Greater => ">",
            Self::GreaterEquals => ">=",
            Self::In => "in",
            Self::Add => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
            Self::Not => "!",
            Self::Index => "[",
            Self::OptionalIndex => "[?",
            Self::OptionalSelect => ".?",
            Self::NotStrictlyFalse => "@not_strictly_false",
        }
    }

    pub(crate) fn precedence(self) -> Precedence {
        match self {
            Self::Conditional => Precedence::Conditional,
            Self::Or => Precedence::Or,
            Self::And => Precedence::And,
            Self::Equals | Self::NotEquals | Self::Less | Self::LessEquals => Precedence::Relation,
            Self::Greater | Self::GreaterEquals | Self::In => Precedence::Relation,
            Self::Add | Self::Subtract => Precedence::Sum,
            Self::Multiply | Self::Divide | Self::Modulo => Precedence::Product,
            Self::Not | Self::Negate => Precedence::Unary,
            Self::Index | Self::OptionalIndex | Self::OptionalSelect | Self::NotStrictlyFalse => {
                Precedence::Member
            }
        }
    }
}
