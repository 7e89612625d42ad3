//! Suggestions for misspelt names.

/// Finds the known word that is nearest to this one, if one is near enough to be meant.
pub(crate) fn nearest_word<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let near = |it: &&str| {
        let distance = edit_distance(&normalized_letters(word), &normalized_letters(it));
        // A third of the letters may be wrong.
        (distance * 3 <= word.chars().count().max(it.chars().count())).then_some(distance)
    };
    let found = known.into_iter().filter_map(|item| near(&item).map(|distance| (distance, item)));
    found.min_by_key(|(distance, _)| *distance).map(|(_, it)| it)
}

/// Suggests the known name that is nearest, or else lists all of them.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str> + Clone,
) -> Option<String> {
    if let Some(it) = nearest_word(word, known.clone()) {
        return Some(format!("did you mean `{it}`?"));
    }
    let known: Vec<String> = known.into_iter().map(|item| format!("`{item}`")).collect();
    (!known.is_empty()).then(|| format!("there is {}", known.join(", ")))
}

/// Removes differences of case and of the kind of dash, which never distinguish names.
fn normalized_letters(word: &str) -> Vec<char> {
    word.chars()
        .take(100)
        .map(|letter| if letter == '-' { '_' } else { letter.to_ascii_lowercase() })
        .collect()
}

/// Counts the letters to insert, to drop, to change or to swap with their neighbour.
fn edit_distance(one: &[char], other: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, a) in one.iter().enumerate() {
        let mut next = vec![i + 1];
        for (j, b) in other.iter().enumerate() {
            let changed = row[j] + usize::from(a != b);
            let mut best = changed.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && *a == other[j - 1] && one[i - 1] == *b {
                best = best.min(before[j - 1] + 1);
            }
            next.push(best);
        }
        before = std::mem::replace(&mut row, next);
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_words_are_meant_and_far_ones_are_not() {
        let known = ["instructions", "model", "tools", "hand_offs"];
        let check = |word: &str, meant: Option<&str>| assert_eq!(nearest_word(word, known), meant, "{word}");
        check("modle", Some("model"));
        check("Model", Some("model"));
        check("hand-offs", Some("hand_offs"));
        check("instruction", Some("instructions"));
        check("tool", Some("tools"));
        check("colour", None);
        check("", None);
    }

    #[test]
    fn what_is_far_from_everything_is_told_what_there_is() {
        assert_eq!(did_you_mean("x", ["main", "small"]).unwrap(), "there is `main`, `small`");
        assert_eq!(did_you_mean("x", []), None);
    }
}
