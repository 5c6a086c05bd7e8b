//! Positions in the source of an expression.

/// Range of bytes in the source: the token that identifies a node.
///
/// A binary operation has the span of its operator, a selection that of its dot, a call that of its opening
/// parenthesis, a list or map that of its opening bracket, and a literal or identifier its own. Nodes that a macro
/// expands to have the span of the macro call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: u32,
    /// Offset after the last byte.
    pub end: u32,
}

impl Span {
    /// Returns the text of the span, or the empty string if it is out of range.
    #[must_use]
    pub fn text(self, source: &str) -> &str {
        source.get(self.start as usize..self.end as usize).unwrap_or_default()
    }
}

/// Line and column of a byte in the source. Both count from 1, and columns count code points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Line.
    pub line: usize,
    /// Column in code points.
    pub column: usize,
}

impl Location {
    /// Returns the location of the byte at `offset`. Offsets beyond the end are the end.
    #[must_use]
    pub fn of(source: &str, offset: u32) -> Self {
        let before = before(source, offset);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self { line: before.matches('\n').count() + 1, column: before[line_start..].chars().count() + 1 }
    }
}

/// Returns the line that holds the byte at `offset`, without its newline.
pub(crate) fn line_at(source: &str, offset: u32) -> &str {
    let before = before(source, offset);
    let start = before.rfind('\n').map_or(0, |newline| newline + 1);
    let end = source[before.len()..].find('\n').map_or(source.len(), |length| before.len() + length);
    &source[start..end]
}

fn before(source: &str, offset: u32) -> &str {
    &source[..source.floor_char_boundary(offset as usize)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_code_points() {
        let source = "a\n'é' + b";
        let at = |text: &str| u32::try_from(source.find(text).unwrap()).unwrap();
        assert_eq!(Location::of(source, 0), Location { line: 1, column: 1 });
        assert_eq!(Location::of(source, at("+")), Location { line: 2, column: 5 });
        assert_eq!(Location::of(source, 1000), Location { line: 2, column: 8 });
        assert_eq!(line_at(source, at("b")), "'é' + b");
        assert_eq!(line_at(source, 1), "a");
        assert_eq!(line_at(source, 1000), "'é' + b");
    }
}
