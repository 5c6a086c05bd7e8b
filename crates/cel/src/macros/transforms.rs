//! `map`, `filter`, `transformList`, `transformMap` and `transformMapEntry`.

use super::{Expansion, MAP_INSERT, Variables};
use crate::ast::{ExprId, ExprKind};
use crate::builder::Built;

impl Expansion<'_> {
    pub(super) fn map(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let variable = self.iter_variable(args[0], "argument is not an identifier")?;
        let (filter, transform) = filter_and_transform(&args[1..]);
        self.collect(range, (variable, None), filter, transform)
    }

    pub(super) fn filter(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let variable = self.iter_variable(args[0], "argument is not an identifier")?;
        self.collect(range, (variable, None), Some(args[1]), args[0])
    }

    pub(super) fn transform_list(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let variables = self.iter_variables(args[0], args[1])?;
        let (filter, transform) = filter_and_transform(&args[2..]);
        self.collect(range, variables, filter, transform)
    }

    pub(super) fn transform_map(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let variables = self.iter_variables(args[0], args[1])?;
        let (filter, transform) = filter_and_transform(&args[2..]);
        let key = self.ident(&variables.0);
        Ok(self.collect_map(range, variables, filter, &[key, transform]))
    }

    pub(super) fn transform_map_entry(&mut self, range: ExprId, args: &[ExprId]) -> Built {
        let variables = self.iter_variables(args[0], args[1])?;
        let (filter, transform) = filter_and_transform(&args[2..]);
        Ok(self.collect_map(range, variables, filter, &[transform]))
    }

    fn collect(
        &mut self,
        range: ExprId,
        variables: Variables,
        filter: Option<ExprId>,
        element: ExprId,
    ) -> Built {
        let init = self.list(&[]);
        let step = self.append(element);
        let step = self.filtered(filter, step);
        Ok(self.fold_all(range, variables, init, step))
    }

    fn collect_map(
        &mut self,
        range: ExprId,
        variables: Variables,
        filter: Option<ExprId>,
        inserted: &[ExprId],
    ) -> ExprId {
        let init = self.node(ExprKind::Map(Box::default()));
        let args: Vec<ExprId> = std::iter::once(self.accumulator()).chain(inserted.iter().copied()).collect();
        let step = self.call(MAP_INSERT, None, &args);
        let step = self.filtered(filter, step);
        self.fold_all(range, variables, init, step)
    }
}

/// Splits `transform` or `filter, transform`.
fn filter_and_transform(args: &[ExprId]) -> (Option<ExprId>, ExprId) {
    match *args {
        [filter, transform] => (Some(filter), transform),
        _ => (None, args[0]),
    }
}
