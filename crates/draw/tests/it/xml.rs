//! As much of XML as it takes to see that a picture is well formed: written here because no reader of XML is among the
//! house's dependencies, and a picture has no more than elements, attributes, texts and five entities.

/// An element or a text, as it comes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    Open { name: String, attributes: Vec<(String, String)> },
    Close(String),
    Text(String),
}

/// Reads a document, and panics where it is not well formed.
pub(crate) fn read(text: &str) -> Vec<Event> {
    let (mut events, mut stack, mut rest) = (Vec::new(), Vec::new(), text.trim_end());
    while !rest.is_empty() {
        if let Some(tag) = rest.strip_prefix("</") {
            let (name, after) = tag.split_once('>').expect("an end tag ends");
            assert_eq!(stack.pop().as_deref(), Some(name), "elements are nested");
            events.push(Event::Close(name.to_owned()));
            rest = after;
        } else if let Some(tag) = rest.strip_prefix('<') {
            let (inside, after) = tag.split_once('>').expect("a tag ends");
            let is_empty = inside.ends_with('/');
            let (name, attributes) = open(inside.trim_end_matches('/'));
            events.push(Event::Open { name: name.clone(), attributes });
            match is_empty {
                true => events.push(Event::Close(name)),
                false => stack.push(name),
            }
            rest = after;
        } else {
            let end = rest.find('<').expect("nothing follows the last element");
            assert!(!stack.is_empty(), "no text outside of the root");
            if !rest[..end].trim().is_empty() {
                events.push(Event::Text(unescape(&rest[..end])));
            }
            rest = &rest[end..];
        }
    }
    assert!(stack.is_empty(), "left open: {stack:?}");
    events
}

fn open(inside: &str) -> (String, Vec<(String, String)>) {
    let (name, mut rest) = inside.split_once(' ').unwrap_or((inside, ""));
    assert!(!name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric()), "a name: {name}");
    let mut attributes = Vec::new();
    while !rest.trim().is_empty() {
        let (name, after) = rest.trim_start().split_once("=\"").expect("an attribute has a value");
        assert!(name.chars().all(|it| it.is_ascii_alphanumeric() || it == '-'), "a name: {name}");
        let (value, after) = after.split_once('"').expect("a value ends");
        attributes.push((name.to_owned(), unescape(value)));
        rest = after;
    }
    (name.to_owned(), attributes)
}

fn unescape(text: &str) -> String {
    assert!(!text.contains('<') && !text.contains("]]>"), "not escaped: {text}");
    let allowed = |it: char| !it.is_control() || matches!(it, '\n' | '\t');
    assert!(text.chars().all(allowed), "not allowed in XML: {text:?}");
    let mut plain = String::new();
    let mut parts = text.split('&');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (entity, after) = part.split_once(';').expect("an entity ends");
        plain.push(match entity {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "#39" => '\'',
            other => panic!("the entity {other}"),
        });
        plain.push_str(after);
    }
    plain
}

/// Returns the texts of all elements of a name.
pub(crate) fn texts(events: &[Event], element: &str) -> Vec<String> {
    let pairs = events.windows(2).filter_map(|pair| match pair {
        [Event::Open { name, .. }, Event::Text(text)] if name == element => Some(text.clone()),
        _ => None,
    });
    pairs.collect()
}

/// Counts the elements that have a class.
pub(crate) fn count(events: &[Event], element: &str, class: &str) -> usize {
    let has = |attributes: &[(String, String)]| {
        attributes.iter().any(|(name, value)| name == "class" && value.split(' ').any(|it| it == class))
    };
    let found = events
        .iter()
        .filter(|it| matches!(it, Event::Open { name, attributes } if name == element && has(attributes)));
    found.count()
}
