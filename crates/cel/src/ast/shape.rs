//! Children of expressions, and equality of trees.

use super::{Ast, Comprehension, Element, ExprId, ExprKind, FieldInit, MapEntry};

impl ExprKind {
    /// Returns the same kind with every child replaced; the order of the calls is that of the source.
    pub(crate) fn try_map<E>(
        &self,
        replace: &mut impl FnMut(ExprId) -> Result<ExprId, E>,
    ) -> Result<Self, E> {
        Ok(match self {
            Self::Literal(_) | Self::Ident(_) => self.clone(),
            Self::Select { operand, field, test_only } => {
                Self::Select { operand: replace(*operand)?, field: field.clone(), test_only: *test_only }
            }
            Self::Operation { operator, operands } => {
                Self::Operation { operator: *operator, operands: map_ids(operands, replace)? }
            }
            Self::Call { function, target, args } => Self::Call {
                function: function.clone(),
                target: target.map(&mut *replace).transpose()?,
                args: map_ids(args, replace)?,
            },
            Self::List(elements) => Self::List(
                elements
                    .iter()
                    .map(|element| Ok(Element { value: replace(element.value)?, ..*element }))
                    .collect::<Result<_, E>>()?,
            ),
            Self::Map(entries) => Self::Map(
                entries
                    .iter()
                    .map(|entry| {
                        Ok(MapEntry { key: replace(entry.key)?, value: replace(entry.value)?, ..*entry })
                    })
                    .collect::<Result<_, E>>()?,
            ),
            Self::Message { name, fields } => Self::Message {
                name: name.clone(),
                fields: fields
                    .iter()
                    .map(|field| Ok(FieldInit { value: replace(field.value)?, ..field.clone() }))
                    .collect::<Result<_, E>>()?,
            },
            Self::Comprehension(fold) => Self::Comprehension(Box::new(Comprehension {
                iter_range: replace(fold.iter_range)?,
                accu_init: replace(fold.accu_init)?,
                loop_condition: replace(fold.loop_condition)?,
                loop_step: replace(fold.loop_step)?,
                result: replace(fold.result)?,
                ..(**fold).clone()
            })),
        })
    }

    /// Calls `visit` with every child, in the order of the source.
    pub(crate) fn for_each_child(&self, mut visit: impl FnMut(ExprId)) {
        match self {
            Self::Literal(_) | Self::Ident(_) => {}
            Self::Select { operand, .. } => visit(*operand),
            Self::Operation { operands, .. } => operands.iter().copied().for_each(visit),
            Self::Call { target, args, .. } => target.iter().chain(args).copied().for_each(visit),
            Self::List(elements) => elements.iter().for_each(|element| visit(element.value)),
            Self::Map(entries) => {
                for entry in entries {
                    visit(entry.key);
                    visit(entry.value);
                }
            }
            Self::Message { fields, .. } => fields.iter().for_each(|field| visit(field.value)),
            Self::Comprehension(fold) => {
                let parts =
                    [fold.iter_range, fold.accu_init, fold.loop_condition, fold.loop_step, fold.result];
                parts.into_iter().for_each(visit);
            }
        }
    }

    /// Returns the kind without its children, and the children.
    fn split(&self) -> (Self, Vec<ExprId>) {
        let mut children = Vec::new();
        let mut take = |id| {
            children.push(id);
            Ok::<_, std::convert::Infallible>(ExprId(0))
        };
        let Ok(kind) = self.try_map(&mut take);
        (kind, children)
    }
}

fn map_ids<E>(
    ids: &[ExprId],
    replace: &mut impl FnMut(ExprId) -> Result<ExprId, E>,
) -> Result<Box<[ExprId]>, E> {
    ids.iter().map(|id| replace(*id)).collect()
}

impl PartialEq for Ast {
    fn eq(&self, other: &Self) -> bool {
        let mut pairs = vec![(self.root, other.root)];
        while let Some((mine, theirs)) = pairs.pop() {
            let (my_kind, my_children) = self.expr(mine).kind.split();
            let (their_kind, their_children) = other.expr(theirs).kind.split();
            if my_kind != their_kind || my_children.len() != their_children.len() {
                return false;
            }
            pairs.extend(my_children.into_iter().zip(their_children));
        }
        true
    }
}

impl Eq for Ast {}
