//! Construction of an AST: ids, depths, and the bounds on both.

use std::collections::BTreeMap;

use crate::ast::{Ast, Element, Expr, ExprId, ExprKind, MacroCall};
use crate::error::{Failure, ParseErrorKind};
use crate::literal::Literal;
use crate::operator::{Operator, Precedence};
use crate::source::Span;

/// Largest number of conditionals, relations, arithmetic operations, selections, indexes and receiver calls on a path
/// from the root, as in cel-go. Chains of `&&` and `||` are balanced and do not count.
pub const DEPTH_MAX: u16 = 250;

/// Largest number of nodes that macros copy. `optMap` copies its receiver, so that a chain of them doubles the AST with
/// each link.
pub const COPIED_NODES_MAX: u32 = 65_536;

/// Arena under construction.
#[derive(Default)]
pub(crate) struct Builder {
    nodes: Vec<Expr>,
    /// Depth of each node, counted as [`DEPTH_MAX`] says.
    depths: Vec<u16>,
    macro_calls: BTreeMap<ExprId, MacroCall>,
    copied_nodes: u32,
}

/// Result of a step of the construction.
pub(crate) type Built<T = ExprId> = Result<T, Failure>;

impl Builder {
    pub(crate) fn finish(self, root: ExprId, source: &str) -> Ast {
        Ast { source: source.into(), nodes: self.nodes, macro_calls: self.macro_calls, root }
    }

    pub(crate) fn kind(&self, id: ExprId) -> &ExprKind {
        &self.nodes[id.index()].kind
    }

    pub(crate) fn span(&self, id: ExprId) -> Span {
        self.nodes[id.index()].span
    }

    /// Adds a node of the source, and checks its depth.
    pub(crate) fn add(&mut self, span: Span, kind: ExprKind) -> Built {
        let mut depth: u16 = 0;
        kind.for_each_child(|child| depth = depth.max(self.depths[child.index()]));
        let depth = depth + weight(&kind);
        self.check_depth(depth, span)?;
        Ok(self.push(span, kind, depth))
    }

    /// Adds a node that a macro expands to. The depth is that of the macro call; see [`Builder::record_macro`].
    pub(crate) fn expand(&mut self, span: Span, kind: ExprKind) -> ExprId {
        self.push(span, kind, 0)
    }

    /// Records that a macro call expanded to `id`, and checks the depth of the call.
    pub(crate) fn record_macro(&mut self, id: ExprId, call: MacroCall) -> Built {
        let operands = call.target.iter().chain(&call.args);
        let deepest = operands.map(|operand| self.depths[operand.index()]).max().unwrap_or_default();
        let depth = deepest + u16::from(call.target.is_some());
        self.check_depth(depth, self.span(id))?;
        self.depths[id.index()] = depth;
        self.macro_calls.insert(id, call);
        Ok(id)
    }

    fn check_depth(&self, depth: u16, span: Span) -> Built<()> {
        if depth > DEPTH_MAX { Err(Failure::new(span.start, ParseErrorKind::DepthLimit)) } else { Ok(()) }
    }

    fn push(&mut self, span: Span, kind: ExprKind, depth: u16) -> ExprId {
        let id = ExprId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        self.nodes.push(Expr { id, span, kind });
        self.depths.push(depth);
        id
    }

    pub(crate) fn literal(&mut self, span: Span, literal: Literal) -> Built {
        self.add(span, ExprKind::Literal(literal))
    }

    pub(crate) fn operation(&mut self, span: Span, operator: Operator, operands: &[ExprId]) -> Built {
        self.add(span, ExprKind::Operation { operator, operands: operands.into() })
    }

    pub(crate) fn list_of(elements: &[ExprId]) -> ExprKind {
        ExprKind::List(elements.iter().map(|value| Element { value: *value, is_optional: false }).collect())
    }

    /// Joins the terms of a chain of `&&` or `||` into a balanced tree, as cel-go does; `spans` are those of the
    /// operators between the terms.
    pub(crate) fn balance(&mut self, operator: Operator, terms: &[ExprId], spans: &[Span]) -> Built {
        match (terms, spans.get(spans.len() / 2)) {
            ([term], _) => Ok(*term),
            (_, Some(span)) => {
                let middle = spans.len() / 2;
                let left = self.balance(operator, &terms[..=middle], &spans[..middle])?;
                let right = self.balance(operator, &terms[middle + 1..], &spans[middle + 1..])?;
                self.operation(*span, operator, &[left, right])
            }
            (_, None) => Err(Failure::new(0, ParseErrorKind::SizeLimit)),
        }
    }

    /// Copies a tree with ids of its own.
    pub(crate) fn copy(&mut self, id: ExprId) -> Built {
        let Expr { span, kind, .. } = self.nodes[id.index()].clone();
        self.copied_nodes += 1;
        if self.copied_nodes > COPIED_NODES_MAX {
            return Err(Failure::new(span.start, ParseErrorKind::CopyLimit));
        }
        let kind = kind.try_map(&mut |child| self.copy(child))?;
        Ok(self.push(span, kind, self.depths[id.index()]))
    }
}

fn weight(kind: &ExprKind) -> u16 {
    match kind {
        ExprKind::Select { .. } | ExprKind::Call { target: Some(_), .. } => 1,
        ExprKind::Operation { operator, .. } => {
            let counts =
                !matches!(operator.precedence(), Precedence::Or | Precedence::And | Precedence::Unary);
            u16::from(counts)
        }
        _ => 0,
    }
}
