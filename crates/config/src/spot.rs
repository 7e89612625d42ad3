//! Where something stands in a text.

/// A value, and where it begins in the text, in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocatedValue<T> {
    pub(crate) value: T,
    pub(crate) at: usize,
}

impl<T> LocatedValue<T> {
    pub(crate) fn new(value: T, at: usize) -> Self {
        Self { value, at }
    }
}

/// Counts lines and columns from 1, columns in characters. A place beyond the text counts as its end.
pub(crate) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let mut end = at.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let start = before.rfind('\n').map_or(0, |before| before + 1);
    (before.matches('\n').count() + 1, before[start..].chars().count() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_characters_and_the_end_is_the_end() {
        let text = "aé\nöb";
        let found: Vec<_> = (0..=9).map(|it| line_and_column(text, it)).collect();
        let (first, second) =
            ([(1, 1), (1, 2), (1, 2), (1, 3)], [(2, 1), (2, 1), (2, 2), (2, 3), (2, 3), (2, 3)]);
        assert_eq!(found, [first.as_slice(), &second].concat());
    }
}
