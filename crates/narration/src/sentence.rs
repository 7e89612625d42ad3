//! Sentences of narration with values.

/// Fills in the values of a template: each `{name}` becomes the value of that name, or nothing where there is none. Values
/// are plain text: braces in them stay as they are.
///
/// ```
/// use singletree_narration::fill_sentence;
///
/// assert_eq!(fill_sentence("{tool} has failed.", &[("tool", "{look}")]), "{look} has failed.");
/// ```
#[must_use]
pub fn fill_sentence(template: &str, values: &[(&str, &str)]) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        filled.push_str(before);
        let (name, after) = after.split_once('}').unwrap_or((after, ""));
        filled.push_str(values.iter().find(|(named, _)| *named == name).map_or("", |(_, value)| value));
        rest = after;
    }
    filled.push_str(rest);
    filled
}
